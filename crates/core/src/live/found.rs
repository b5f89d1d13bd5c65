//! Lookup of one track: which tier answers a range, and its data.

use super::bucket::Accumulator;
use super::history::{Gap, GapReason, Tier};
use super::subject::{MINUTE_SECONDS, SECOND_NS, SubjectState, Track};
use super::tier::Gathered;

pub(super) const MINUTE_NS: u64 = MINUTE_SECONDS * SECOND_NS;

/// The data of one tier, copied out of the memory: closed buckets, and open ones with their values.
#[derive(Debug)]
pub(super) enum Data {
    Values(Vec<(u64, f64)>),
    Seconds(Gathered, Vec<(u64, Accumulator)>),
    Minutes(Gathered, Vec<(u64, Accumulator)>),
}

/// One track found.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    pub subject: &'a SubjectState,
    pub column: usize,
    pub track: &'a Track,
}

impl Found<'_> {
    fn first_ns(&self) -> u64 {
        self.track.first_ns.unwrap_or(0)
    }

    pub fn covered_from_ns(&self, tier: Tier) -> Option<u64> {
        let forgotten_to_ns = match tier {
            Tier::FullRate => {
                self.subject.ring.as_ref()?.forgotten_to_ns.map(|time_ns| time_ns.saturating_add(1))
            }
            Tier::Seconds => self.track.seconds.forgotten_to.map(|index| index.saturating_mul(SECOND_NS)),
            Tier::Minutes => self.track.minutes.forgotten_to.map(|index| index.saturating_mul(MINUTE_NS)),
        };
        Some(forgotten_to_ns.unwrap_or(0).max(self.first_ns()))
    }

    /// The finest tier that covers the whole range with few enough points, otherwise the one that covers most. Time
    /// before the retention limit is ignored: minute buckets are dropped in larger pieces and would win by that
    /// alone.
    pub fn choose(&self, from_ns: u64, to_ns: u64, max_points: usize, retention_seconds: u64) -> Tier {
        let tiers = [Tier::FullRate, Tier::Seconds, Tier::Minutes];
        let fits = |tier: &Tier| *tier == Tier::Minutes || self.count(*tier, from_ns, to_ns) <= max_points;
        let newest_ns = self.subject.newest_ns.unwrap_or(0);
        let kept_ns = newest_ns.saturating_sub(retention_seconds.saturating_mul(SECOND_NS));
        let wanted_ns = from_ns.max(self.first_ns()).max(kept_ns);
        // Minimum of the missing time at the start; the first of equals is the finest.
        let missing =
            |tier: &Tier| self.covered_from_ns(*tier).map_or(u64::MAX, |from| from.saturating_sub(wanted_ns));
        tiers.into_iter().filter(fits).min_by_key(missing).unwrap_or(Tier::Minutes)
    }

    fn count(&self, tier: Tier, from_ns: u64, to_ns: u64) -> usize {
        let (from, to) = bucket_range(from_ns, to_ns, SECOND_NS);
        match tier {
            Tier::FullRate => {
                self.subject.ring.as_ref().map_or(0, |ring| ring.count(self.column, from_ns, to_ns))
            }
            Tier::Seconds => self.track.seconds.count(from, to) + self.open_seconds(from, to).count(),
            Tier::Minutes => {
                let (from, to) = bucket_range(from_ns, to_ns, MINUTE_NS);
                self.track.minutes.count(from, to) + self.open_minutes(from, to).len()
            }
        }
    }

    pub fn copy(&self, tier: Tier, from_ns: u64, to_ns: u64) -> Data {
        match tier {
            Tier::FullRate => {
                let ring = self.subject.ring.as_ref();
                Data::Values(ring.map_or_else(Vec::new, |ring| ring.select(self.column, from_ns, to_ns).0))
            }
            Tier::Seconds => {
                let (from, to) = bucket_range(from_ns, to_ns, SECOND_NS);
                let open = self.open_seconds(from, to).map(|(second, values)| (second, values.clone()));
                Data::Seconds(self.track.seconds.gather(from, to), open.collect())
            }
            Tier::Minutes => {
                let (from, to) = bucket_range(from_ns, to_ns, MINUTE_NS);
                Data::Minutes(self.track.minutes.gather(from, to), self.open_minutes(from, to))
            }
        }
    }

    fn open_seconds(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &Accumulator)> {
        let open = self.subject.open.iter().filter(move |open| from <= open.second && open.second < to);
        let values = open.filter_map(|open| Some((open.second, open.tracks.get(self.column)?)));
        values.filter(|(_, values)| values.count > 0)
    }

    /// Combines the minute whose seconds are being closed with those whose seconds are all open.
    fn open_minutes(&self, from: u64, to: u64) -> Vec<(u64, Accumulator)> {
        let mut minutes: Vec<(u64, Accumulator)> = self
            .track
            .open_minute
            .iter()
            .filter(|(minute, _)| from <= *minute && *minute < to)
            .cloned()
            .collect();
        let (first, end) = (from.saturating_mul(MINUTE_SECONDS), to.saturating_mul(MINUTE_SECONDS));
        for (second, values) in self.open_seconds(first, end) {
            let minute = second / MINUTE_SECONDS;
            match minutes.last_mut() {
                Some((open, merged)) if *open == minute => merged.merge(values),
                _ => minutes.push((minute, values.clone())),
            }
        }
        minutes
    }

    /// Time of the first value at or after `time_ns`, as precisely as the memory still has it.
    pub fn first_value_from(&self, time_ns: u64) -> Option<u64> {
        self.track.newest.filter(|(newest_ns, _)| *newest_ns >= time_ns)?;
        if self.covered_from_ns(Tier::FullRate).is_some_and(|covered| covered <= time_ns.max(self.first_ns()))
        {
            let rows = self.subject.ring.as_ref()?.select(self.column, time_ns, u64::MAX).0;
            return rows.iter().map(|(time, _)| *time).min();
        }
        let second = self.track.seconds.first_from(time_ns / SECOND_NS);
        let open = self.open_seconds(time_ns / SECOND_NS, u64::MAX).next().map(|(second, _)| second);
        second.or(open).map(|second| second.saturating_mul(SECOND_NS).max(time_ns))
    }

    pub fn own_gaps(&self, covered_from_ns: Option<u64>, from_ns: u64, to_ns: u64) -> Vec<Gap> {
        let first_ns = self.first_ns();
        let covered_ns = covered_from_ns.unwrap_or(to_ns.max(first_ns));
        let mut gaps = vec![
            Gap { from_ns, to_ns: first_ns.min(to_ns), reason: GapReason::NotYet },
            Gap {
                from_ns: from_ns.max(first_ns),
                to_ns: covered_ns.min(to_ns),
                reason: GapReason::Forgotten,
            },
        ];
        gaps.extend(self.subject.ended_ns.map(|ended_ns| Gap {
            from_ns: from_ns.max(ended_ns),
            to_ns,
            reason: GapReason::Ended,
        }));
        gaps.retain(|gap| gap.from_ns < gap.to_ns);
        gaps
    }
}

/// Indices of the buckets that touch a range of time.
pub(super) fn bucket_range(from_ns: u64, to_ns: u64, width_ns: u64) -> (u64, u64) {
    if from_ns >= to_ns { (0, 0) } else { (from_ns / width_ns, to_ns.div_ceil(width_ns)) }
}
