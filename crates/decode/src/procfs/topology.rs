//! Hybrid processors: performance and efficiency cores, and processor lists.

use super::scan::number;

/// More processors than any machine has; larger numbers are errors in the file.
const MAX_PROCESSORS: u64 = 8192;

/// The kind of core of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreKind {
    /// All cores are alike, or the machine does not distinguish them.
    Uniform,
    Performance,
    Efficiency,
}

/// `0-3,5` as numbers. `None` if invalid; an empty list is valid.
pub fn parse_cpu_list(bytes: &[u8]) -> Option<Vec<u32>> {
    let mut processors = Vec::new();
    for part in bytes.trim_ascii().split(|byte| *byte == b',').filter(|part| !part.is_empty()) {
        let (first, last) = match part.iter().position(|byte| *byte == b'-') {
            Some(dash) => (number(&part[..dash])?, number(&part[dash + 1..])?),
            None => (number(part)?, number(part)?),
        };
        if first > last
            || last >= MAX_PROCESSORS
            || processors.len() as u64 + (last - first) >= MAX_PROCESSORS
        {
            return None;
        }
        processors.extend((first..=last).map(|processor| processor as u32));
    }
    Some(processors)
}

/// Core kinds from relative capacities (`cpu_capacity`, otherwise maximum frequencies): a core with less than 80% of the
/// best one is an efficiency core. Favored cores of one kind differ by less than that.
pub fn core_kinds(capacities: &[Option<u64>]) -> Vec<CoreKind> {
    let best = capacities.iter().flatten().copied().max().unwrap_or(0);
    let is_small = |capacity: u64| u128::from(capacity) * 10 < u128::from(best) * 8;
    let mixed = capacities.iter().flatten().any(|capacity| is_small(*capacity));
    let kind = |capacity: &Option<u64>| match capacity {
        Some(capacity) if mixed && is_small(*capacity) => CoreKind::Efficiency,
        Some(_) if mixed => CoreKind::Performance,
        _ => CoreKind::Uniform,
    };
    capacities.iter().map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(parse_cpu_list(b"0-3,5\n"), Some(vec![0, 1, 2, 3, 5]));
        assert_eq!(parse_cpu_list(b"\n"), Some(vec![]));
        for wrong in [&b"3-1"[..], b"0-99999999999", b"a", b"1-", b"0-8191,0-8191"] {
            assert_eq!(parse_cpu_list(wrong), None);
        }
    }

    #[test]
    fn efficiency_cores_are_distinguished_from_favored_ones() {
        use CoreKind::{Efficiency, Performance, Uniform};
        assert_eq!(core_kinds(&[Some(1024), Some(1000), Some(620)]), [Performance, Performance, Efficiency]);
        assert_eq!(core_kinds(&[Some(5_700_000), Some(5_500_000)]), [Uniform, Uniform]);
        assert_eq!(core_kinds(&[None, Some(5)]), [Uniform, Uniform]);
    }
}
