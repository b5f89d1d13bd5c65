//! Kernel events about threads (context switches, wake-ups, starts, exits, faults, block I/O) in one form for every
//! system (BPF programs and perf rings on Linux, ETW on Windows), the accounts computed from them, and CPU samples
//! with stacks.
//!
//! Times are nanoseconds of the monotonic clock ([`crate::clock`]). Thread and process ids are those of the machine,
//! not of a container. Fields a source cannot report are `None`, never 0.

mod event;
mod stacks;
pub mod threads;
mod usage;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub use event::*;
pub use stacks::*;
pub use usage::{Usage, UsageCounts, Window};

/// Ids are small numbers that no attacker chooses, so one multiplication spreads them well; the tables are queried at
/// every context switch.
#[derive(Debug, Clone, Copy, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, id: u32) {
        let product = (self.0 ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

pub type ById<T> = HashMap<u32, T, BuildHasherDefault<IdHasher>>;
