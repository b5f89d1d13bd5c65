//! Counts that Windows keeps in 32 bits and that wrap on a busy machine within hours.

/// Makes one count that does not wrap. What it wrapped before it was first read is not known; differences are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count32 {
    wraps: u64,
    last: u32,
}

impl Count32 {
    /// The count after the next reading. A reading that is a little smaller than the one before is an old one, not a
    /// wrap: the count never falls.
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
