//! Pressure stall information: `/proc/pressure/{cpu,memory,io}` and the same files of a cgroup.

use super::scan::{fields, number, whole_lines};

/// Fraction of time in which some, or all, tasks waited for a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PressureLine {
    /// Over the last ten seconds, 0 to 1.
    pub ratio_10s: f64,
    pub total_micros: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    pub some: Option<PressureLine>,
    pub full: Option<PressureLine>,
}

pub fn parse_pressure(bytes: &[u8]) -> Pressure {
    let mut pressure = Pressure::default();
    for line in whole_lines(bytes) {
        let mut left = fields(line);
        match left.next() {
            Some(b"some") => pressure.some = parse_line(left),
            Some(b"full") => pressure.full = parse_line(left),
            _ => {}
        }
    }
    pressure
}

fn parse_line<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Option<PressureLine> {
    let (mut ratio, mut total) = (None, None);
    for part in parts {
        if let Some(percent) = part.strip_prefix(b"avg10=") {
            let percent: f64 = std::str::from_utf8(percent).ok()?.parse().ok()?;
            ratio = Some(percent / 100.0).filter(|ratio| (0.0..=1.0).contains(ratio));
        } else if let Some(micros) = part.strip_prefix(b"total=") {
            total = number(micros);
        }
    }
    Some(PressureLine { ratio_10s: ratio?, total_micros: total? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_or_both_lines_are_parsed() {
        let pressure = parse_pressure(
            b"some avg10=25.00 avg60=11.56 avg300=13.07 total=10541467438\nfull avg10=0.00 avg60=0 total=7\n",
        );
        assert_eq!(pressure.some, Some(PressureLine { ratio_10s: 0.25, total_micros: 10_541_467_438 }));
        assert_eq!(pressure.full, Some(PressureLine { ratio_10s: 0.0, total_micros: 7 }));
        assert_eq!(parse_pressure(b"some avg10=nan total=1\n"), Pressure::default());
        assert_eq!(parse_pressure(b"some avg10=1.0 total="), Pressure::default());
    }
}
