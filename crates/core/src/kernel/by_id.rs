//! Tables by thread or process id.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Ids are small numbers that nobody chooses against us: one multiplication spreads them well, and the tables are asked
/// for every context switch of the machine.
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
