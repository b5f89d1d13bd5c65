//! A snapshot of the live memory: every process with its numbers, the machine, the sessions and unavailable values.

use std::collections::HashMap;

use ortscope_core::identity::ProcessIdentity;
use ortscope_core::live::{Current, LiveView, Losses, Subject, TrackId, TrackInfo};
use ortscope_core::schema::Text;

use super::machine::Machine;
use super::metric::{Metric, Values};
use super::missing::Missing;
use super::past::{mean_of_last_second, samples_in_last_second};
use super::sessions::Session;
use crate::facts::{OwnFigures, ProcessFacts};
use crate::text::harmless;

/// A process whose last sample is this much older than that of the others is gone, even without an exit event.
const SILENT_NS: u64 = 10_000_000_000;
/// From this many samples a second on, a rate is the mean of the last second: over 10 ms it jumps between 0 and 100.
const FAST_HERTZ: usize = 6;
/// Processes whose rates are averaged, the busiest by their newest sample. Each costs some microseconds per refresh.
const MAX_AVERAGED: usize = 1_000;

/// A process at a point in time.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    pub identity: ProcessIdentity,
    /// As reported: may contain anything.
    pub raw_name: Text,
    /// Safe for a terminal; never empty.
    pub name: String,
    /// The name in small letters.
    pub sort_name: String,
    pub parent_pid: Option<u32>,
    pub values: Values,
    /// Time of its newest sample.
    pub newest_ns: u64,
}

impl Process {
    fn new(identity: ProcessIdentity, raw_name: Option<Text>, parent_pid: Option<u32>) -> Self {
        let raw_name = raw_name.unwrap_or_default();
        let clean = harmless(raw_name.trim());
        let name = if clean.is_empty() { format!("({})", identity.pid) } else { clean };
        let sort_name = name.to_lowercase();
        Self { identity, raw_name, name, sort_name, parent_pid, values: Values::default(), newest_ns: 0 }
    }

    #[cfg(test)]
    pub fn named(pid: u32, name: &str) -> Self {
        Self::new(ProcessIdentity { pid, start: 1 }, Some(name.into()), None)
    }
}

/// Everything at a point in time.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The moment, on the monotonic clock.
    pub at_ns: u64,
    /// Time of the newest value of anything.
    pub newest_ns: Option<u64>,
    pub machine: Machine,
    /// Alive, ascending by identity.
    pub processes: Vec<Process>,
    /// Most recently active first.
    pub sessions: Vec<Session>,
    pub missing: Vec<Missing>,
    /// Data that the live memory could not keep.
    pub losses: Losses,
    /// Records lost before the live memory.
    pub lost_records: u64,
    /// Whether rates are means of the last second instead of the newest sample.
    pub averaged: bool,
}

/// Changes whenever a value, its time or the number of values changes; decides whether to draw.
pub fn fingerprint(current: &Current) -> u64 {
    let value = |sum: u64, value: &ortscope_core::live::CurrentValue| {
        sum.wrapping_mul(31).wrapping_add(value.timestamp_ns ^ value.value.to_bits().rotate_left(17))
    };
    current.values.iter().fold(current.values.len() as u64, value) ^ (current.unavailable.len() as u64) << 48
}

impl Snapshot {
    pub fn take(view: &LiveView, facts: &dyn ProcessFacts, figures: &dyn OwnFigures, now_ns: u64) -> Self {
        Self::of_current(&view.current(now_ns), view, facts, figures)
    }

    /// The same from already fetched values.
    pub fn of_current(
        current: &Current,
        view: &LiveView,
        facts: &dyn ProcessFacts,
        figures: &dyn OwnFigures,
    ) -> Self {
        let at_ns = current.now_ns;
        let tracks = view.tracks();
        let mut processes = processes(current, &tracks, facts);
        let averaged = samples_in_last_second(view, Metric::Cpu.track(), at_ns) >= FAST_HERTZ;
        if averaged {
            average_rates(view, &mut processes, at_ns);
        }
        Self {
            at_ns,
            newest_ns: current.values.iter().map(|value| value.timestamp_ns).max(),
            machine: Machine::of(current, view, figures.own_cost()),
            missing: Missing::of(current, &processes),
            processes,
            sessions: Session::all(current, &tracks, view),
            losses: view.losses(),
            lost_records: figures.lost_records(),
            averaged,
        }
    }

    pub fn process(&self, identity: ProcessIdentity) -> Option<&Process> {
        let index = self.processes.binary_search_by_key(&identity, |process| process.identity).ok()?;
        self.processes.get(index)
    }

    /// Whether any process has the metric: a column without any is not worth its place.
    pub fn has(&self, metric: Metric) -> bool {
        self.processes.iter().any(|process| process.values.get(metric).is_some())
    }
}

fn processes(current: &Current, tracks: &[TrackInfo], facts: &dyn ProcessFacts) -> Vec<Process> {
    let mut processes: Vec<Process> = Vec::new();
    let mut places: HashMap<ProcessIdentity, usize> = HashMap::new();
    let notes = ProcessNotes::of(tracks);
    for value in &current.values {
        let Subject::Process(identity) = value.id.subject else {
            continue;
        };
        if notes.ended.contains_key(&identity) {
            continue;
        }
        let place = *places.entry(identity).or_insert_with(|| {
            let name = facts.name(identity).or_else(|| notes.labels.get(&identity).cloned());
            processes.push(Process::new(identity, name, facts.parent_pid(identity)));
            processes.len() - 1
        });
        if let Some(process) = processes.get_mut(place) {
            process.newest_ns = process.newest_ns.max(value.timestamp_ns);
            if let Some(metric) = Metric::of_track(&value.id.metric) {
                process.values.set(metric, value.value);
            }
        }
    }
    let newest_ns = processes.iter().map(|process| process.newest_ns).max().unwrap_or(0);
    processes.retain(|process| newest_ns - process.newest_ns <= SILENT_NS);
    processes.sort_unstable_by_key(|process| process.identity);
    processes
}

/// Non-numeric facts of processes in the live memory.
#[derive(Debug, Default)]
struct ProcessNotes {
    labels: HashMap<ProcessIdentity, Text>,
    ended: HashMap<ProcessIdentity, u64>,
}

impl ProcessNotes {
    fn of(tracks: &[TrackInfo]) -> Self {
        let mut notes = Self::default();
        for track in tracks {
            let Subject::Process(identity) = track.id.subject else {
                continue;
            };
            if let Some(ended_ns) = track.ended_ns {
                notes.ended.insert(identity, ended_ns);
            }
            if let Some(label) = &track.label {
                notes.labels.insert(identity, label.clone());
            }
        }
        notes
    }
}

fn average_rates(view: &LiveView, processes: &mut [Process], at_ns: u64) {
    let load = |process: &Process| process.values.get(Metric::Cpu).unwrap_or(0.0);
    let mut busiest: Vec<usize> = (0..processes.len()).collect();
    let load_of = |index: &usize| processes.get(*index).map_or(0.0, load);
    busiest.sort_by(|a, b| load_of(b).total_cmp(&load_of(a)));
    for index in busiest.into_iter().take(MAX_AVERAGED) {
        let Some(process) = processes.get_mut(index) else {
            continue;
        };
        for metric in Metric::ALL.into_iter().filter(|metric| metric.is_rate()) {
            // Who did not run did nothing else either. The first metric is the processor's.
            let idle = metric != Metric::Cpu && process.values.get(Metric::Cpu) == Some(0.0);
            if idle || process.values.get(metric).is_none() {
                continue;
            }
            let track = TrackId::process(process.identity, metric.track());
            if let Some(mean) = mean_of_last_second(view, &track, at_ns) {
                process.values.set(metric, mean);
            }
        }
    }
}
