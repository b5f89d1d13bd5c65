//! `/proc/meminfo` and `/proc/vmstat`.

use super::scan::{blank_pairs, colon_pairs, kilobytes, number};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MachineMemory {
    pub total_bytes: Option<u64>,
    /// The kernel's estimate of memory that is available without swapping.
    pub available_bytes: Option<u64>,
    pub swap_total_bytes: Option<u64>,
    pub swap_free_bytes: Option<u64>,
}

impl MachineMemory {
    pub fn used_bytes(&self) -> Option<u64> {
        self.total_bytes?.checked_sub(self.available_bytes?)
    }

    pub fn swap_used_bytes(&self) -> Option<u64> {
        self.swap_total_bytes?.checked_sub(self.swap_free_bytes?)
    }
}

pub fn parse_machine_memory(bytes: &[u8]) -> MachineMemory {
    let mut memory = MachineMemory::default();
    for (key, value) in colon_pairs(bytes) {
        match key {
            b"MemTotal" => memory.total_bytes = kilobytes(value),
            b"MemAvailable" => memory.available_bytes = kilobytes(value),
            b"SwapTotal" => memory.swap_total_bytes = kilobytes(value),
            b"SwapFree" => {
                memory.swap_free_bytes = kilobytes(value);
                // The last required one; some thirty lines follow.
                break;
            }
            _ => {}
        }
    }
    memory
}

/// A `Key:   123 kB` line as bytes.
pub fn meminfo_bytes(text: &str, key: &str) -> Option<u64> {
    colon_pairs(text.as_bytes())
        .find(|(name, _)| *name == key.as_bytes())
        .and_then(|(_, value)| kilobytes(value))
}

/// Totals since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PagingCounters {
    pub faults: Option<u64>,
    pub major_faults: Option<u64>,
    pub swapped_in_pages: Option<u64>,
    pub swapped_out_pages: Option<u64>,
    pub out_of_memory_kills: Option<u64>,
}

pub fn parse_vmstat(bytes: &[u8]) -> PagingCounters {
    let mut counters = PagingCounters::default();
    for (key, value) in blank_pairs(bytes) {
        let slot = match key {
            b"pgfault" => &mut counters.faults,
            b"pgmajfault" => &mut counters.major_faults,
            b"pswpin" => &mut counters.swapped_in_pages,
            b"pswpout" => &mut counters.swapped_out_pages,
            b"oom_kill" => &mut counters.out_of_memory_kills,
            _ => continue,
        };
        *slot = number(value);
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_memory_is_total_minus_available() {
        let memory = parse_machine_memory(
            b"MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 600 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\nDirty: 1 kB\n",
        );
        assert_eq!((memory.used_bytes(), memory.swap_used_bytes()), (Some(400 * 1024), Some(30 * 1024)));
        assert_eq!(parse_machine_memory(b"MemTotal: 1000 kB\n").used_bytes(), None);
        assert_eq!(meminfo_bytes("MemTotal: 1000 kB\n", "MemTotal"), Some(1_024_000));
    }

    #[test]
    fn paging() {
        let counters =
            parse_vmstat(b"nr_free_pages 1\npswpin 2\npswpout 3\npgfault 4\npgmajfault 5\noom_kill 6\n");
        assert_eq!((counters.swapped_in_pages, counters.swapped_out_pages), (Some(2), Some(3)));
        assert_eq!((counters.faults, counters.major_faults), (Some(4), Some(5)));
        assert_eq!(counters.out_of_memory_kills, Some(6));
    }
}
