//! Control groups, version 2: the limits of a container, and how often it reached them.

use super::scan::{blank_pairs, fields, number, whole_lines};

/// The version 2 path in `/proc/PID/cgroup` (`0::/user.slice`); `None` if the process is in none.
pub fn cgroup_v2_path(bytes: &[u8]) -> Option<&[u8]> {
    whole_lines(bytes).find_map(|line| line.strip_prefix(b"0::"))
}

/// `cpu.stat`: totals since the group was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuThrottling {
    pub usage_micros: Option<u64>,
    pub periods: Option<u64>,
    /// Periods in which the group had used up its share and was throttled.
    pub throttled_periods: Option<u64>,
    pub throttled_micros: Option<u64>,
}

pub fn parse_cpu_stat(bytes: &[u8]) -> CpuThrottling {
    let mut stat = CpuThrottling::default();
    for (key, value) in blank_pairs(bytes) {
        let slot = match key {
            b"usage_usec" => &mut stat.usage_micros,
            b"nr_periods" => &mut stat.periods,
            b"nr_throttled" => &mut stat.throttled_periods,
            b"throttled_usec" => &mut stat.throttled_micros,
            _ => continue,
        };
        *slot = number(value);
    }
    stat
}

/// `cpu.max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuQuota {
    /// `None` for no limit.
    pub quota_micros: Option<u64>,
    pub period_micros: u64,
}

impl CpuQuota {
    /// Number of processors' worth of time that the group may use.
    pub fn cores(self) -> Option<f64> {
        self.quota_micros.map(|quota| quota as f64 / self.period_micros as f64)
    }
}

pub fn parse_cpu_max(bytes: &[u8]) -> Option<CpuQuota> {
    let mut left = fields(bytes.strip_suffix(b"\n")?);
    let (quota, period) = (left.next()?, number(left.next()?)?);
    let quota_micros = if quota == b"max" { None } else { Some(number(quota)?) };
    (period > 0).then_some(CpuQuota { quota_micros, period_micros: period })
}

/// `memory.max`, `memory.current` and similar: bytes, or `max` for no limit (the inner `None`).
pub fn parse_memory_limit(bytes: &[u8]) -> Option<Option<u64>> {
    match bytes.strip_suffix(b"\n")?.trim_ascii() {
        b"max" => Some(None),
        digits => number(digits).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_2_path_is_found() {
        assert_eq!(cgroup_v2_path(b"4:memory:/a\n0::/b c\n"), Some(&b"/b c"[..]));
        assert_eq!(cgroup_v2_path(b"4:memory:/a\n"), None);
    }

    #[test]
    fn throttling_and_limits() {
        let stat =
            parse_cpu_stat(b"usage_usec 5\nuser_usec 1\nnr_periods 30\nnr_throttled 4\nthrottled_usec 99\n");
        assert_eq!((stat.usage_micros, stat.periods), (Some(5), Some(30)));
        assert_eq!((stat.throttled_periods, stat.throttled_micros), (Some(4), Some(99)));
        assert_eq!(parse_cpu_max(b"150000 100000\n").and_then(CpuQuota::cores), Some(1.5));
        assert_eq!(parse_cpu_max(b"max 100000\n").map(CpuQuota::cores), Some(None));
        assert_eq!((parse_cpu_max(b"1 0\n"), parse_cpu_max(b"1 100")), (None, None));
        assert_eq!(parse_memory_limit(b"max\n"), Some(None));
        assert_eq!(parse_memory_limit(b"4096\n"), Some(Some(4096)));
        assert_eq!((parse_memory_limit(b"40"), parse_memory_limit(b"x\n")), (None, None));
    }
}
