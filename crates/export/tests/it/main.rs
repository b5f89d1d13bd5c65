//! Exports as others see them, in one program so that the tests link once.

#[cfg(test)]
mod behaviour;
#[cfg(test)]
mod etl;
#[cfg(test)]
mod filters;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod live_trace;
#[cfg(test)]
mod prometheus;
#[cfg(test)]
mod push;
#[cfg(test)]
mod records;
#[cfg(test)]
mod round_trips;
// Without `cfg(test)`: clippy allows tests to print, and the module expects that it does not.
#[path = "../../../ort/tests/support/skips.rs"]
mod skips;
#[cfg(test)]
mod streaming;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tensorboard;
#[cfg(test)]
mod traces;
