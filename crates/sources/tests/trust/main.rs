//! Guarantees of sources when clocks, processes and devices misbehave (docs/RELIABILITY.md).
#![cfg_attr(unix, expect(clippy::unwrap_used, reason = "test helpers"))]

mod clocks;
#[cfg(unix)]
mod devices;
mod keys;
mod processes;
#[cfg(unix)]
mod programs;
#[path = "../../../ort/tests/support/skips.rs"]
mod skips;
#[cfg(target_os = "linux")]
mod storm;
#[path = "../sampler/world.rs"]
#[allow(dead_code, reason = "shared with the tests of the sampler, which use the rest")]
#[allow(clippy::allow_attributes, reason = "`expect` would fail there")]
mod world;
