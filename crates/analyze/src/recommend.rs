//! Which settings to use after a sweep, and when to keep the default.
//!
//! The fastest row of a sweep is partly the luckiest one. Rows whose interval overlaps that of the fastest are within
//! noise of it, and among them the simplest wins: the default, then fewer changed settings, then less memory, and
//! only then speed.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::order::ms;
use crate::percentile::Percentile;

/// Difference of throughput that counts as noise: throughput comes without an interval.
const THROUGHPUT_NOISE: f64 = 0.02;
/// A smaller difference of peak memory is ignored.
const MEMORY_NOISE: f64 = 0.01;

/// One measured combination of settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettingsRow {
    pub label: String,
    pub settings: BTreeMap<String, String>,
    pub is_default: bool,
    /// p50 with its interval; `None` when the row failed.
    pub p50: Option<Percentile>,
    pub throughput_per_second: Option<f64>,
    pub peak_memory_bytes: Option<u64>,
    /// Why the row could not be measured.
    pub failed: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// The lowest p50.
    #[default]
    Latency,
    /// The highest throughput.
    Throughput,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    /// Measured rows, the best first.
    pub ranking: Vec<Ranked>,
    /// Index of the row to use; `None` when nothing could be measured.
    pub recommended: Option<usize>,
    /// Indices of the other rows that are within noise of the best.
    pub within_noise: Vec<usize>,
    /// Speed of the recommended row over that of the default; `None` without a measured default.
    pub speed_up: Option<SpeedUp>,
    /// Indices of the rows that could not be measured.
    pub failed: Vec<usize>,
    /// One sentence for people.
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// Index into the rows given.
    pub index: usize,
    pub label: String,
    pub p50_ms: Option<f64>,
    pub throughput_per_second: Option<f64>,
    /// Speed over that of the default: 1.5 is half as fast again.
    pub speed_up: Option<SpeedUp>,
    /// Whether the row is within noise of the best one.
    pub within_noise_of_best: bool,
}

/// A ratio of speeds. The ends come from the ends of both intervals, so they are wider than 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SpeedUp {
    pub ratio: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// Ranks the rows of a sweep and picks one.
pub fn recommend(rows: &[SettingsRow], goal: Goal) -> Recommendation {
    let sweep = Sweep { rows, goal, default: rows.iter().position(|row| row.is_default) };
    let mut order: Vec<usize> = (0..rows.len()).filter(|index| sweep.speed(*index).is_some()).collect();
    order.sort_by(|a, b| sweep.faster(*a, *b));
    let failed = (0..rows.len()).filter(|index| sweep.speed(*index).is_none()).collect();
    let Some(best) = order.first().copied() else {
        let why = rows.iter().find_map(|row| row.failed.as_deref()).unwrap_or("too few runs");
        return Recommendation {
            ranking: Vec::new(),
            recommended: None,
            within_noise: Vec::new(),
            speed_up: None,
            failed,
            reason: format!("no settings could be measured: {why}"),
        };
    };
    let equals: Vec<usize> = order.iter().copied().filter(|index| sweep.within_noise(*index, best)).collect();
    let chosen =
        equals.iter().copied().reduce(|a, b| if sweep.simpler(b, a).is_lt() { b } else { a }).unwrap_or(best);
    let ranked = |index: &usize| Ranked {
        index: *index,
        label: rows[*index].label.clone(),
        p50_ms: sweep.p50_ns(*index).map(|nanos| ms(nanos as f64)),
        throughput_per_second: rows[*index].throughput_per_second,
        speed_up: sweep.speed_up(*index),
        within_noise_of_best: equals.contains(index),
    };
    Recommendation {
        ranking: order.iter().map(ranked).collect(),
        recommended: Some(chosen),
        within_noise: equals.iter().copied().filter(|index| *index != chosen).collect(),
        speed_up: sweep.speed_up(chosen),
        failed,
        reason: sweep.reason(chosen, best),
    }
}

struct Sweep<'a> {
    rows: &'a [SettingsRow],
    goal: Goal,
    default: Option<usize>,
}

impl Sweep<'_> {
    fn p50_ns(&self, index: usize) -> Option<u64> {
        self.rows[index].p50.as_ref()?.value_ns
    }

    /// Larger is better; `None` for a row that failed or lacks the goal's figure.
    fn speed(&self, index: usize) -> Option<f64> {
        let row = &self.rows[index];
        let speed = match self.goal {
            _ if row.failed.is_some() => None,
            Goal::Latency => self.p50_ns(index).map(|nanos| 1e9 / nanos.max(1) as f64),
            Goal::Throughput => row.throughput_per_second,
        };
        speed.filter(|speed| speed.is_finite() && *speed > 0.0)
    }

    fn faster(&self, a: usize, b: usize) -> Ordering {
        let speed = |index| self.speed(index).unwrap_or(0.0);
        speed(b).total_cmp(&speed(a)).then(a.cmp(&b))
    }

    fn within_noise(&self, index: usize, best: usize) -> bool {
        if index == best {
            return true;
        }
        match self.goal {
            Goal::Latency => {
                let p50 = |index: usize| self.rows[index].p50.as_ref();
                p50(index).zip(p50(best)).is_some_and(|(a, b)| a.overlaps(b))
            }
            Goal::Throughput => self
                .speed(index)
                .zip(self.speed(best))
                .is_some_and(|(speed, best)| speed >= best * (1.0 - THROUGHPUT_NOISE)),
        }
    }

    /// `Less` when `a` is the simpler choice of two rows that are equally fast.
    fn simpler(&self, a: usize, b: usize) -> Ordering {
        let memory =
            |index: usize| self.rows[index].peak_memory_bytes.map_or(f64::INFINITY, |bytes| bytes as f64);
        let by_memory = if memory(a) < memory(b) * (1.0 - MEMORY_NOISE) {
            Ordering::Less
        } else if memory(b) < memory(a) * (1.0 - MEMORY_NOISE) {
            Ordering::Greater
        } else {
            Ordering::Equal
        };
        let is_other = |index: usize| !self.rows[index].is_default;
        is_other(a)
            .cmp(&is_other(b))
            .then(self.changes(a).cmp(&self.changes(b)))
            .then(by_memory)
            .then(self.faster(a, b))
    }

    /// Settings that differ from the default row, or all of them without one.
    fn changes(&self, index: usize) -> usize {
        let settings = &self.rows[index].settings;
        let Some(default) = self.default.map(|default| &self.rows[default].settings) else {
            return settings.len();
        };
        let changed = settings.iter().filter(|(key, value)| default.get(*key) != Some(*value)).count();
        changed + default.keys().filter(|key| !settings.contains_key(*key)).count()
    }

    fn speed_up(&self, index: usize) -> Option<SpeedUp> {
        let default = self.default?;
        let ratio = self.speed(index)? / self.speed(default)?;
        if self.goal == Goal::Throughput || index == default {
            return Some(SpeedUp { ratio, low: None, high: None });
        }
        let (row, base) = (self.rows[index].p50.as_ref()?, self.rows[default].p50.as_ref()?);
        let quotient = |a: Option<u64>, b: Option<u64>| {
            let (a, b) = (a? as f64, b? as f64);
            (b > 0.0).then_some(a / b)
        };
        Some(SpeedUp {
            ratio,
            low: quotient(base.low_ns, row.high_ns),
            high: quotient(base.high_ns, row.low_ns),
        })
    }

    fn reason(&self, chosen: usize, best: usize) -> String {
        let row = &self.rows[chosen];
        if row.is_default {
            return if self.rows.len() == 1 || chosen == best {
                "the default settings are the fastest".to_owned()
            } else {
                format!("keep the default settings: {} is not faster beyond noise", self.rows[best].label)
            };
        }
        let versus = match self.speed_up(chosen) {
            Some(SpeedUp { ratio, low: Some(low), high: Some(high) }) => {
                format!("{ratio:.2}× the speed of the default [{low:.2}..{high:.2}]")
            }
            Some(SpeedUp { ratio, .. }) => format!("{ratio:.2}× the speed of the default"),
            None => "the default was not measured".to_owned(),
        };
        if chosen == best {
            return format!("{}: {versus}", row.label);
        }
        let why = if self.changes(chosen) < self.changes(best) {
            "changes fewer settings"
        } else {
            "needs less memory"
        };
        format!("{}: {versus}; within noise of {} and {why}", row.label, self.rows[best].label)
    }
}
