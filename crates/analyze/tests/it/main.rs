//! Tests through the public interface, in one program so that they link once.

#[cfg(test)]
mod coverage;
#[cfg(test)]
mod hodges_lehmann;
#[cfg(test)]
mod open_loop;
#[cfg(test)]
mod outputs;
#[cfg(test)]
mod percentile;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod recommend;
#[cfg(test)]
mod stop;
#[cfg(test)]
mod summary;
#[cfg(test)]
mod support;
#[cfg(test)]
mod warmup;
