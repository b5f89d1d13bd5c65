//! The second pass over the inferences, when the warm-up is known: sums and extremes over all inferences after it, and
//! the slowest ones with all their details.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ortscope_analyze::open_loop::Request;
use ortscope_core::batch::Batch;
use ortscope_core::schema::{NameSet as _, Phase, TableId, Text};
use ortscope_core::tables::Scan;

use super::inferences::SessionIndex;
use super::reader::{Optional, Reader, flags, numbers, texts};
use super::steady::TimeBuckets;
use crate::latency::ms;
use crate::{LatencyReport, Parts, ReportError};

/// Columns of the second pass.
const COLUMNS: &[&str] = &[
    "timestamp_ns",
    "planned_ns",
    "session_id",
    "sequence",
    "stream",
    "phase",
    "copy_in_ns",
    "run_ns",
    "copy_out_ns",
    "batch_size",
    "queue_depth",
    "ok",
];

/// What the second pass needs to know of a session.
#[derive(Debug)]
pub(super) struct Wanted {
    pub session_id: Text,
    /// Inferences before this are warm-up.
    pub cut_ns: u64,
    /// One of so many was kept by the first pass.
    pub every: u64,
    pub slow_above_ns: u64,
    pub over_time: TimeBuckets,
    pub open_loop: bool,
    pub max_slow: usize,
}

/// A slow inference. The order is that of its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slow {
    pub end_to_end_ns: u64,
    pub start_ns: u64,
    pub sequence: u64,
    pub stream: u64,
    pub copy_in_ns: u64,
    pub run_ns: u64,
    pub copy_out_ns: u64,
}

impl Slow {
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.end_to_end_ns)
    }
}

/// Figures over all inferences after the warm-up.
#[derive(Debug, Default)]
pub(super) struct Exact {
    pub run: Moments,
    pub end_to_end: Moments,
    copy_in: Moments,
    copy_out: Moments,
    pub samples: Option<u64>,
    pub last_end_ns: u64,
    /// The slowest first.
    pub slow: Vec<Slow>,
    pub slow_count: u64,
    /// Open loops: every k-th request, warm-up included, since a request of the warm-up waited all the same.
    pub requests: Vec<Request>,
    /// Open loops: all requests.
    pub request_count: u64,
    pub queue_depth: Moments,
}

impl Exact {
    pub fn parts(&self) -> Option<Parts> {
        (self.run.n > 0).then(|| Parts {
            n: self.run.n,
            copy_in_ms: self.copy_in.mean() / 1e6,
            run_ms: self.run.mean() / 1e6,
            copy_out_ms: self.copy_out.mean() / 1e6,
        })
    }
}

/// Count, mean, deviation and extremes of a stream of numbers (Welford).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    pub n: u64,
    mean: f64,
    squares: f64,
    pub min: u64,
    pub max: u64,
}

impl Moments {
    pub fn add(&mut self, value: u64) {
        self.min = if self.n == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.n += 1;
        let delta = value as f64 - self.mean;
        self.mean += delta / self.n as f64;
        self.squares += delta * (value as f64 - self.mean);
    }

    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Puts the figures of all inferences over those of the kept ones.
    pub fn correct(&self, report: &mut LatencyReport) {
        report.runs = self.n;
        report.mean_ms = self.mean / 1e6;
        report.min_ms = ms(self.min);
        report.max_ms = ms(self.max);
        report.std_ms = (self.n > 1).then(|| (self.squares / (self.n - 1) as f64).sqrt() / 1e6);
    }
}

pub(super) fn read(
    reader: &mut Reader<'_>,
    sessions: Vec<Wanted>,
) -> Result<Vec<(Wanted, Exact)>, ReportError> {
    let needs_all = |wanted: &Wanted| wanted.every > 1 || wanted.open_loop;
    let from_ns = sessions.iter().map(|wanted| if needs_all(wanted) { 0 } else { wanted.cut_ns }).min();
    let mut pass = Pass {
        index: SessionIndex::new(sessions.iter().map(|wanted| &wanted.session_id)),
        positions: vec![0; sessions.len()],
        slowest: sessions.iter().map(|_| BinaryHeap::new()).collect(),
        sessions: sessions.into_iter().map(|wanted| (wanted, Exact::default())).collect(),
    };
    if !pass.sessions.is_empty() {
        let scan = Scan { from_ns, ..Scan::all() }.columns(COLUMNS);
        reader.each_batch(TableId::Inferences, &scan, |batch| pass.batch(batch))?;
    }
    let Pass { mut sessions, slowest, .. } = pass;
    for ((_, exact), slowest) in sessions.iter_mut().zip(slowest) {
        exact.slow = slowest.into_iter().map(|Reverse(slow)| slow).collect();
        exact.slow.sort_unstable_by_key(|slow| Reverse(*slow));
    }
    Ok(sessions)
}

struct Pass {
    index: SessionIndex,
    sessions: Vec<(Wanted, Exact)>,
    /// How many steady inferences of each session were seen.
    positions: Vec<u64>,
    slowest: Vec<BinaryHeap<Reverse<Slow>>>,
}

impl Pass {
    fn batch(&mut self, batch: &Batch) {
        let (names, phases, ok) = (texts(batch, "session_id"), texts(batch, "phase"), flags(batch, "ok"));
        let (starts, planned) = (batch.times_ns(), numbers(batch, "planned_ns"));
        let (copy_in, runs) = (numbers(batch, "copy_in_ns"), numbers(batch, "run_ns"));
        let (copy_out, streams) = (numbers(batch, "copy_out_ns"), numbers(batch, "stream"));
        let (sequences, depths) = (numbers(batch, "sequence"), Optional::of(batch, "queue_depth"));
        let sizes = Optional::of(batch, "batch_size");
        for row in 0..batch.len() {
            if !ok[row] || Phase::by_name(&phases[row]).is_some_and(|phase| phase != Phase::Steady) {
                continue;
            }
            let Some(index) = self.index.find(&names[row]) else { continue };
            let (wanted, exact) = &mut self.sessions[index];
            let slow = Slow {
                end_to_end_ns: copy_in[row].saturating_add(runs[row]).saturating_add(copy_out[row]),
                start_ns: starts[row],
                sequence: sequences[row],
                stream: streams[row],
                copy_in_ns: copy_in[row],
                run_ns: runs[row],
                copy_out_ns: copy_out[row],
            };
            let position = self.positions[index];
            self.positions[index] += 1;
            if wanted.every > 1 {
                wanted.over_time.extremes(slow.start_ns, slow.run_ns);
            }
            if wanted.open_loop {
                exact.request(&slow, planned[row], depths.get(row), position.is_multiple_of(wanted.every));
            }
            if slow.start_ns < wanted.cut_ns {
                continue;
            }
            exact.inference(&slow, sizes.get(row));
            if slow.end_to_end_ns > wanted.slow_above_ns {
                exact.slow_count += 1;
                let slowest = &mut self.slowest[index];
                slowest.push(Reverse(slow));
                if slowest.len() > wanted.max_slow {
                    slowest.pop();
                }
            }
        }
    }
}

impl Exact {
    fn inference(&mut self, slow: &Slow, batch_size: Option<u64>) {
        self.run.add(slow.run_ns);
        self.end_to_end.add(slow.end_to_end_ns);
        self.copy_in.add(slow.copy_in_ns);
        self.copy_out.add(slow.copy_out_ns);
        self.last_end_ns = self.last_end_ns.max(slow.end_ns());
        if let Some(size) = batch_size {
            self.samples = Some(self.samples.unwrap_or(0).saturating_add(size));
        }
    }

    fn request(&mut self, slow: &Slow, planned_ns: u64, queue_depth: Option<u64>, kept: bool) {
        self.request_count += 1;
        if let Some(depth) = queue_depth {
            self.queue_depth.add(depth);
        }
        if kept {
            self.requests.push(Request { planned_ns, start_ns: slow.start_ns, end_ns: slow.end_ns() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_textbook() {
        let mut moments = Moments::default();
        for value in [2, 4, 4, 4, 5, 5, 7, 9] {
            moments.add(value);
        }
        assert_eq!((moments.n, moments.min, moments.max, moments.mean()), (8, 2, 9, 5.0));
        assert!((moments.squares / 7.0 - 32.0 / 7.0).abs() < 1e-12);
    }
}
