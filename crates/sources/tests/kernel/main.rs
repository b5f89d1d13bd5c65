//! Kernel events and thread snapshots on the running kernel. Most tests need root, or CAP_BPF and CAP_PERFMON, and are
//! skipped otherwise.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "test helpers; figures are printed")]

mod duty;
mod rights;
mod samples;
mod short_lived;
#[path = "../../../ort/tests/support/skips.rs"]
mod skips;
mod snapshot;
mod storm;
mod support;
