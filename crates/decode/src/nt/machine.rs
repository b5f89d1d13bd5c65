//! The machine: processor times and switches, page files.

use super::bytes::{Fixed, u32_at};

/// `SYSTEM_PROCESSOR_PERFORMANCE_INFORMATION` of one processor, in units of 100 ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessorTimes {
    pub idle: u64,
    /// Includes idle time.
    pub kernel: u64,
    pub user: u64,
    /// Wraps.
    pub interrupts: u32,
}

impl ProcessorTimes {
    /// Busy ratio from 0 to 1; `None` if no time has passed.
    pub fn busy_ratio_since(self, before: Self) -> Option<f64> {
        let passed = |now: u64, before: u64| now.checked_sub(before);
        let total = passed(self.kernel, before.kernel)?.checked_add(passed(self.user, before.user)?)?;
        let idle = passed(self.idle, before.idle)?;
        (total > 0).then(|| total.saturating_sub(idle) as f64 / total as f64)
    }

    /// Sum of several processors.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            idle: self.idle.saturating_add(other.idle),
            kernel: self.kernel.saturating_add(other.kernel),
            user: self.user.saturating_add(other.user),
            interrupts: self.interrupts.wrapping_add(other.interrupts),
        }
    }
}

/// Class 8, `SystemProcessorPerformanceInformation`: the processors of one group, in order.
pub fn each_processor_times(bytes: &[u8], mut emit: impl FnMut(usize, ProcessorTimes)) {
    const ENTRY_BYTES: usize = 48;
    for (index, entry) in bytes.chunks_exact(ENTRY_BYTES).enumerate() {
        let fixed = Fixed(entry);
        emit(
            index,
            ProcessorTimes {
                idle: fixed.u64(0x00),
                kernel: fixed.u64(0x08),
                user: fixed.u64(0x10),
                interrupts: fixed.u32(0x28),
            },
        );
    }
}

/// Class 23, `SystemInterruptInformation`: context switches of each processor of one group; they wrap.
pub fn each_processor_switches(bytes: &[u8], mut emit: impl FnMut(usize, u32)) {
    const ENTRY_BYTES: usize = 24;
    for (index, entry) in bytes.chunks_exact(ENTRY_BYTES).enumerate() {
        emit(index, Fixed(entry).u32(0));
    }
}

/// Class 18, `SystemPageFileInformation`: pages in use in all page files. Without bytes there is no page file; `None` if
/// damaged.
pub fn page_files_in_use_pages(bytes: &[u8]) -> Option<u64> {
    const ENTRY_BYTES: usize = 32;
    let (mut pages, mut rest) = (0u64, bytes);
    while !rest.is_empty() {
        let entry = rest.get(..ENTRY_BYTES)?;
        pages = pages.saturating_add(u64::from(u32_at(entry, 8)?));
        let next = u32_at(entry, 0)? as usize;
        if next == 0 {
            break;
        }
        rest = rest.get(next.max(ENTRY_BYTES)..)?;
    }
    Some(pages)
}

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
