//! Processors that are not alike: performance and efficiency cores, and the lists in which the kernel names them.

use super::scan::number;

/// More processors than any machine has; larger numbers are a mistake in the file.
const MAX_PROCESSORS: u64 = 8192;

/// What kind of core a processor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreKind {
    /// All cores of the machine are alike, or the machine does not say.
    Uniform,
    Performance,
    Efficiency,
}

/// `0-3,5` as numbers. `None` for anything else; an empty list is a list.
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

/// Kinds from relative capacities (`cpu_capacity`, or highest frequencies where there is none): a core that can do
/// less than 80 % of the best one is an efficiency core. Favoured cores of one kind differ by less than that.
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
    fn small_cores_are_told_from_favoured_ones() {
        use CoreKind::{Efficiency, Performance, Uniform};
        assert_eq!(core_kinds(&[Some(1024), Some(1000), Some(620)]), [Performance, Performance, Efficiency]);
        assert_eq!(core_kinds(&[Some(5_700_000), Some(5_500_000)]), [Uniform, Uniform]);
        assert_eq!(core_kinds(&[None, Some(5)]), [Uniform, Uniform]);
    }
}
