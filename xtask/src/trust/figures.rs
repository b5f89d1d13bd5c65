//! Figures by name, and the bounds that are promised for some.

use std::collections::BTreeMap;

/// In the order of their names.
pub(crate) type Figures = BTreeMap<String, f64>;

#[derive(Debug, Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

const BOUNDS: &[(&str, Bound)] = &[
    ("kill9_damaged", Bound::AtMost(0.0)),
    ("kill9_max_lost_ms", Bound::AtMost(1000.0)),
    ("inferences_lost", Bound::AtMost(0.0)),
    ("bit_flips_not_found", Bound::AtMost(0.0)),
    ("load_inferences_lost", Bound::AtMost(0.0)),
    ("load_operators_unaccounted", Bound::AtMost(0.0)),
    ("load_ticks_delivered_ratio", Bound::AtLeast(0.999)),
    ("day_memory_mb", Bound::AtMost(100.0)),
    ("soak_rss_mb_per_hour", Bound::AtMost(1.0)),
    ("soak_threads_growth", Bound::AtMost(0.0)),
    ("soak_files_growth", Bound::AtMost(0.0)),
    ("soak_ticks_delivered_ratio", Bound::AtLeast(0.999)),
    ("soak_inferences_lost", Bound::AtMost(0.0)),
];

fn bound(name: &str) -> Option<Bound> {
    BOUNDS.iter().find(|(known, _)| *known == name).map(|(_, bound)| *bound)
}

/// Whether a figure depends on how much of the processor one gets.
pub(crate) fn is_of_time(name: &str) -> bool {
    name.ends_with("_ratio") || name.ends_with("_ms")
}

/// What is promised, in words; nothing for a figure that is only shown.
pub(crate) fn goal(name: &str) -> String {
    match bound(name) {
        Some(Bound::AtMost(most)) => format!("≤ {most}"),
        Some(Bound::AtLeast(least)) => format!("≥ {least}"),
        None => String::new(),
    }
}

/// Figures that are not within their bounds. What is no number is not.
pub(crate) fn broken(figures: &Figures) -> Vec<&str> {
    let holds = |name: &str, value: f64| match bound(name) {
        Some(Bound::AtMost(most)) => value <= most,
        Some(Bound::AtLeast(least)) => value >= least,
        None => true,
    };
    figures.iter().filter(|(name, value)| !holds(name, **value)).map(|(name, _)| name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_that_did_not_hold_is_named() {
        let figures = Figures::from([
            ("kill9_damaged".to_owned(), 1.0),
            ("inferences_lost".to_owned(), 0.0),
            ("load_ticks_delivered_ratio".to_owned(), 0.998),
            ("day_memory_mb".to_owned(), f64::NAN),
            ("load_p50_alone_us".to_owned(), 1e9),
        ]);
        assert_eq!(broken(&figures), ["day_memory_mb", "kill9_damaged", "load_ticks_delivered_ratio"]);
    }
}
