//! 32-bit counts of Windows, which wrap within hours on a busy machine.

/// Extends a count that wraps. Wraps before the first reading are unknown; differences are correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count32 {
    wraps: u64,
    last: u32,
}

impl Count32 {
    /// The count after the next reading. A slightly smaller reading is an old one instead of a wrap: the count never
    /// decreases.
    pub fn read(&mut self, now: u32) -> u64 {
        const QUARTER: u32 = 1 << 30;
        if now >= self.last {
            self.last = now;
        } else if self.last >= 3 * QUARTER && now < QUARTER {
            self.wraps += 1;
            self.last = now;
        }
        self.value()
    }

    pub fn value(self) -> u64 {
        self.wraps.saturating_mul(1 << 32).saturating_add(u64::from(self.last))
    }
}
