//! `/proc/PID/schedstat` and `/proc/PID/task/TID/schedstat`: the cheapest exact file, for one thread.

use super::scan::{fields, number};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a processor; for a running thread as of its last tick or switch.
    pub run_ns: u64,
    /// Time in which it was runnable but waited for a processor.
    pub wait_ns: u64,
    /// How often it got a processor.
    pub time_slices: u64,
}

pub fn parse_schedstat(bytes: &[u8]) -> Option<SchedStat> {
    let mut left = fields(bytes.strip_suffix(b"\n")?);
    let stat = SchedStat {
        run_ns: number(left.next()?)?,
        wait_ns: number(left.next()?)?,
        time_slices: number(left.next()?)?,
    };
    left.next().is_none().then_some(stat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_and_a_newline() {
        let wanted = SchedStat { run_ns: 5, wait_ns: 3_654_733, time_slices: 1 };
        assert_eq!(parse_schedstat(b"5 3654733 1\n"), Some(wanted));
        for wrong in [&b"5 3654733 1"[..], b"5 3654733\n", b"1 2 3 4\n", b"", b"\n"] {
            assert_eq!(parse_schedstat(wrong), None);
        }
    }
}
