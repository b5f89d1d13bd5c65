//! Figures by name, and the bounds that are promised for some.

use std::collections::BTreeMap;
use std::fmt;

/// A figure is a value or a reason.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// In the order of their names.
    pub(crate) values: BTreeMap<String, f64>,
    /// Why there is no value.
    pub(crate) missing: BTreeMap<String, String>,
}

impl Figures {
    pub(crate) fn insert(&mut self, name: &str, value: f64) {
        self.values.insert(name.to_owned(), value);
    }

    pub(crate) fn miss(&mut self, name: &str, why: impl Into<String>) {
        self.missing.insert(name.to_owned(), why.into());
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.values.extend(other.values);
        self.missing.extend(other.missing);
    }
}

impl FromIterator<(String, f64)> for Figures {
    fn from_iter<I: IntoIterator<Item = (String, f64)>>(values: I) -> Self {
        Self { values: values.into_iter().collect(), missing: BTreeMap::new() }
    }
}

impl<const N: usize> From<[(&str, f64); N]> for Figures {
    fn from(values: [(&str, f64); N]) -> Self {
        values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

#[derive(Debug, Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    /// What is no number does not hold.
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }

    fn words(self) -> String {
        match self {
            Self::AtMost(most) => format!("≤ {most}"),
            Self::AtLeast(least) => format!("≥ {least}"),
        }
    }
}

/// The part that must tell a figure, its name, and what is promised.
const BOUNDS: &[(&str, &str, Bound)] = &[
    ("kills", "kill9_damaged", Bound::AtMost(0.0)),
    ("kills", "kill9_max_lost_ms", Bound::AtMost(1000.0)),
    ("kills", "inferences_lost", Bound::AtMost(0.0)),
    ("disks", "bit_flips_not_found", Bound::AtMost(0.0)),
    ("load", "load_inferences_lost", Bound::AtMost(0.0)),
    ("load", "load_operators_unaccounted", Bound::AtMost(0.0)),
    ("load", "load_ticks_delivered_ratio", Bound::AtLeast(0.999)),
    ("day", "day_memory_mb", Bound::AtMost(100.0)),
    ("soak", "soak_rss_mb_per_hour", Bound::AtMost(1.0)),
    ("soak", "soak_threads_growth", Bound::AtMost(0.0)),
    ("soak", "soak_files_growth", Bound::AtMost(0.0)),
    ("soak", "soak_ticks_delivered_ratio", Bound::AtLeast(0.999)),
    ("soak", "soak_inferences_lost", Bound::AtMost(0.0)),
];

/// Whether a figure depends on how much of the processor one gets.
pub(crate) fn is_of_time(name: &str) -> bool {
    name.ends_with("_ratio") || name.ends_with("_ms")
}

/// What is promised, in words; nothing for a figure that is only shown.
pub(crate) fn goal(name: &str) -> String {
    let bound = BOUNDS.iter().find(|(_, known, _)| *known == name);
    bound.map(|(.., bound)| bound.words()).unwrap_or_default()
}

/// A promise that did not hold.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) name: &'static str,
    why: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.why)
    }
}

/// Promises of these parts that did not hold. One without a figure did not: nobody knows.
pub(crate) fn broken(figures: &Figures, parts: &[&str]) -> Vec<Broken> {
    let of_parts = BOUNDS.iter().filter(|(part, ..)| parts.contains(part));
    let problem = |(part, name, bound): &(&str, &'static str, Bound)| {
        let why = match (figures.values.get(*name), figures.missing.get(*name)) {
            (Some(value), _) if bound.holds(*value) => return None,
            (Some(value), _) => format!("{value}, not {}", bound.words()),
            (None, Some(why)) => format!("no figure: {why}"),
            (None, None) => format!("no figure: part {part} did not tell it"),
        };
        Some(Broken { name, why })
    };
    of_parts.filter_map(problem).collect()
}

/// All of them in one line.
pub(crate) fn listed(broken: &[Broken]) -> String {
    broken.iter().map(Broken::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::PARTS;

    #[test]
    fn a_promise_that_did_not_hold_is_named() {
        let figures = Figures::from([
            ("kill9_damaged", 1.0),
            ("kill9_max_lost_ms", 20.0),
            ("inferences_lost", 0.0),
            ("load_inferences_lost", 0.0),
            ("load_operators_unaccounted", 0.0),
            ("load_ticks_delivered_ratio", 0.998),
            ("load_p50_alone_us", 1e9),
            ("day_memory_mb", f64::NAN),
        ]);
        assert_eq!(
            listed(&broken(&figures, &["kills", "load", "day"])),
            "kill9_damaged (1, not ≤ 0), load_ticks_delivered_ratio (0.998, not ≥ 0.999), \
             day_memory_mb (NaN, not ≤ 100)"
        );
    }

    /// A soak that was too short for a slope, and tests that told no figure, counted as promises kept: only figures that
    /// were there were looked at.
    #[test]
    fn a_promise_without_a_figure_is_broken() {
        let mut figures = Figures::from([("soak_ticks_delivered_ratio", 1.0), ("soak_inferences_lost", 0.0)]);
        figures.insert("soak_threads_growth", 0.0);
        figures.insert("soak_files_growth", 0.0);
        figures.miss("soak_rss_mb_per_hour", "too few points");
        assert_eq!(
            listed(&broken(&figures, &["soak", "disks"])),
            "bit_flips_not_found (no figure: part disks did not tell it), \
             soak_rss_mb_per_hour (no figure: too few points)"
        );
        assert!(broken(&figures, &[]).is_empty(), "parts that did not run promise nothing");
    }

    /// A part of another name would never be looked at.
    #[test]
    fn every_bound_is_of_a_part() {
        assert!(BOUNDS.iter().all(|(part, ..)| PARTS.contains(part)));
        assert!(PARTS.iter().all(|part| BOUNDS.iter().any(|(of, ..)| of == part)));
    }
}
