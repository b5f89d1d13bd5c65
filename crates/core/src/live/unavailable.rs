//! Intervals in which a track had no value, and why.

use std::collections::VecDeque;

use serde::Serialize;

use super::labels::shortened;
use super::track::TrackId;
use crate::schema::{Text, UnavailabilityRow};

/// Longer names, reasons and hints are cut.
const MAX_TEXT_BYTES: usize = 500;

/// An interval without a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnavailableInterval {
    /// As its source names it: a track, a metric or a device.
    pub track: Text,
    pub from_ns: u64,
    /// `None` while it continues.
    pub to_ns: Option<u64>,
    pub reason: Text,
    pub hint: Option<Text>,
}

impl UnavailableInterval {
    pub(super) fn overlaps(&self, from_ns: u64, to_ns: u64) -> bool {
        self.from_ns < to_ns && self.to_ns.is_none_or(|end| end > from_ns)
    }

    /// Whether the interval is about this track: it names the track (with or without the kind in front), everything
    /// of its subject, or its metric wherever it is.
    pub(super) fn is_about(&self, track: &TrackId) -> bool {
        let (full, name) = (track.to_string(), &*self.track);
        let without_kind = full.split_once('/').map_or("", |(_, rest)| rest);
        let starts = |text: &str| {
            !name.is_empty()
                && text.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        starts(&full) || starts(without_kind) || *track.metric == *name
    }

    fn bytes(&self) -> usize {
        self.track.len() + self.reason.len() + self.hint.as_ref().map_or(0, |hint| hint.len())
    }
}

#[derive(Debug, Default)]
pub(super) struct Unavailable {
    /// In order of arrival.
    intervals: VecDeque<UnavailableInterval>,
}

impl Unavailable {
    /// Keeps an interval; returns how many others were forgotten for it.
    pub fn add(&mut self, row: &UnavailabilityRow, limit: usize) -> u64 {
        let known = self.intervals.iter_mut().rev().find(|interval| interval.track == row.track);
        if let Some(known) = known {
            let same = known.reason == row.reason;
            match (known.to_ns, row.to_ns) {
                // It continues, or is reported again.
                (None, None) if same => return 0,
                (Some(_), _) if same && known.from_ns == row.from_ns && known.to_ns == row.to_ns => return 0,
                // It ended.
                (None, Some(end)) if same => {
                    known.to_ns = Some(end.max(known.from_ns));
                    return 0;
                }
                // Another reason replaces it.
                (None, _) => known.to_ns = Some(row.from_ns.max(known.from_ns)),
                _ => {}
            }
        }
        self.intervals.push_back(UnavailableInterval {
            track: shortened(&row.track, MAX_TEXT_BYTES),
            from_ns: row.from_ns,
            to_ns: row.to_ns.map(|end| end.max(row.from_ns)),
            reason: shortened(&row.reason, MAX_TEXT_BYTES),
            hint: row.hint.as_ref().map(|hint| shortened(hint, MAX_TEXT_BYTES)),
        });
        let mut forgotten = 0;
        while self.intervals.len() > limit {
            let ended = self.intervals.iter().position(|interval| interval.to_ns.is_some());
            self.intervals.remove(ended.unwrap_or(0));
            forgotten += 1;
        }
        forgotten
    }

    pub fn iter(&self) -> impl Iterator<Item = &UnavailableInterval> {
        self.intervals.iter()
    }

    pub fn heap_bytes(&self) -> usize {
        self.intervals.capacity() * size_of::<UnavailableInterval>()
            + self.intervals.iter().map(UnavailableInterval::bytes).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(track: &str, from_ns: u64, to_ns: Option<u64>, reason: &str) -> UnavailabilityRow {
        UnavailabilityRow { from_ns, to_ns, track: track.into(), reason: reason.into(), hint: None }
    }

    fn intervals(rows: &[UnavailabilityRow]) -> Vec<(u64, Option<u64>)> {
        let mut unavailable = Unavailable::default();
        rows.iter().for_each(|row| assert_eq!(unavailable.add(row, 100), 0));
        unavailable.iter().map(|interval| (interval.from_ns, interval.to_ns)).collect()
    }

    #[test]
    fn intervals_open_continue_end_and_change_their_reason() {
        assert_eq!(intervals(&[row("a", 5, None, "x"), row("a", 6, None, "x")]), [(5, None)]);
        assert_eq!(intervals(&[row("a", 5, None, "x"), row("a", 5, Some(9), "x")]), [(5, Some(9))]);
        assert_eq!(intervals(&[row("a", 5, None, "x"), row("a", 7, None, "y")]), [(5, Some(7)), (7, None)]);
        assert_eq!(intervals(&[row("a", 5, Some(6), "x"), row("a", 5, Some(6), "x")]), [(5, Some(6))]);
        assert_eq!(
            intervals(&[row("a", 5, Some(6), "x"), row("b", 1, None, "x")]),
            [(5, Some(6)), (1, None)]
        );
        assert_eq!(intervals(&[row("a", 5, Some(2), "x")]), [(5, Some(5))]);
    }

    #[test]
    fn the_number_is_bounded_and_ended_intervals_go_first() {
        let mut unavailable = Unavailable::default();
        assert_eq!(unavailable.add(&row("open", 0, None, "x"), 3), 0);
        let forgotten: u64 = (0..10).map(|at| unavailable.add(&row("a", at, Some(at + 1), "x"), 3)).sum();
        assert_eq!(forgotten, 8);
        let tracks: Vec<&str> = unavailable.iter().map(|interval| &*interval.track).collect();
        assert_eq!(tracks, ["open", "a", "a"]);
    }

    #[test]
    fn names_find_their_tracks() {
        let track = TrackId::device("gpu0", "power_watts");
        for (name, wanted) in [
            ("device/gpu0/power_watts", true),
            ("gpu0/power_watts", true),
            ("gpu0", true),
            ("device/gpu0", true),
            ("power_watts", true),
            ("gpu", false),
            ("", false),
            ("device/gpu0/power", false),
        ] {
            let unavailable = interval_named(name);
            assert_eq!(unavailable.is_about(&track), wanted, "{name}");
        }
    }

    fn interval_named(track: &str) -> UnavailableInterval {
        UnavailableInterval { track: track.into(), from_ns: 0, to_ns: None, reason: "x".into(), hint: None }
    }
}
