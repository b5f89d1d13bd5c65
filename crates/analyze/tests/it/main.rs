//! Tests through the public interface, in one program so that they link once.

#[cfg(test)]
mod coverage;
#[cfg(test)]
mod flops;
#[cfg(test)]
mod flops_peer;
#[cfg(test)]
mod flops_profile;
#[cfg(test)]
mod hodges_lehmann;
#[cfg(test)]
mod open_loop;
#[cfg(test)]
mod operators;
#[cfg(test)]
mod outputs;
#[cfg(test)]
mod percentile;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod providers;
#[cfg(test)]
mod recommend;
// Also compiled outside tests: it prints figures.
#[cfg(test)]
mod simulated_latencies;
#[path = "../../../ort/tests/support/skips.rs"]
mod skips;
#[cfg(test)]
mod stop;
#[cfg(test)]
mod summary;
#[cfg(test)]
mod support;
#[cfg(test)]
mod verdict;
#[cfg(test)]
mod warmup;
