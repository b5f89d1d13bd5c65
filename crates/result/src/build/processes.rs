//! Processes: who used how much, in a first pass over all of them; series of the few that are shown, in a second.
//!
//! A process that did not change at a tick has no row for it. CPU times are totals, so the time that passed unseen cost
//! nothing: what a row adds was used in the tick it stands for.

use std::collections::{HashMap, HashSet};

use ortscope_core::batch::Batch;
use ortscope_core::schema::{ProcessRow, TableId, Text};
use ortscope_core::tables::Scan;

use super::explain::Explainer;
use super::reader::{Optional, Reader, numbers};
use super::thin::{Intervals, SeriesName};
use crate::{ProcessReport, ReportError, Series, SeriesUnit};
use ortscope_core::units::clean;

/// Processes that are told apart.
const MAX_PROCESSES: usize = 200_000;
/// Processes that are shown: those of the sessions first, then those that used most CPU time.
const MAX_SHOWN: usize = 8;
/// CPU time below which an unrelated process is not worth a line.
const MIN_CPU_SECONDS: f64 = 0.01;

type Key = (u64, u64);

pub(super) struct Processes {
    pub shown: Vec<ProcessReport>,
    pub others: u64,
    /// Processes beyond the limit.
    pub beyond: u64,
}

/// Names by process id; the last name of an id wins.
pub(super) fn names(reader: &mut Reader<'_>) -> Result<HashMap<u64, Text>, ReportError> {
    let mut names = HashMap::new();
    reader.each_row(|row: ProcessRow| {
        if names.len() < MAX_PROCESSES || names.contains_key(&row.pid) {
            names.insert(row.pid, row.name);
        }
    })?;
    Ok(names)
}

pub(super) fn read(
    reader: &mut Reader<'_>,
    explainer: &mut Explainer,
    observed: &HashSet<u64>,
    names: &HashMap<u64, Text>,
) -> Result<Processes, ReportError> {
    let mut totals = Totals::default();
    let scan =
        Scan::all().columns(&["timestamp_ns", "pid", "process_start", "cpu_time_ns", "working_set_bytes"]);
    reader.each_batch(TableId::ProcessSamples, &scan, |batch| totals.batch(batch, explainer))?;
    totals.close_tick(explainer);
    let chosen = totals.choose(observed);
    let others = totals.processes.len() as u64 - chosen.len() as u64;
    let mut followed: HashMap<Key, Followed> = chosen.iter().map(|key| (*key, Followed::default())).collect();
    if !followed.is_empty() {
        let mut ticks = Ticks::default();
        reader.each_batch(TableId::ProcessSamples, &Scan::all().columns(FOLLOWED), |batch| {
            follow(batch, &mut ticks, &mut followed);
        })?;
    }
    let mut shown = Vec::new();
    for key in &chosen {
        let (Some(total), Some(followed)) = (totals.processes.get(key), followed.remove(key)) else {
            continue;
        };
        let name = names.get(&key.0).map_or_else(|| format!("pid {}", key.0), |name| clean(name, 100));
        shown.push(total.report(key.0, name, observed.contains(&key.0), followed, reader));
    }
    Ok(Processes { shown, others, beyond: totals.beyond.len() as u64 })
}

#[derive(Debug, Default)]
struct Total {
    first_ns: u64,
    last_ns: u64,
    cpu_ns: u64,
    used_ns: u64,
    peak_bytes: u64,
    samples: u64,
}

impl Total {
    fn report(
        &self,
        pid: u64,
        name: String,
        observed: bool,
        followed: Followed,
        reader: &Reader<'_>,
    ) -> ProcessReport {
        let span = self.last_ns.saturating_sub(self.first_ns);
        ProcessReport {
            pid,
            observed,
            samples: self.samples,
            cpu_seconds: self.used_ns as f64 / 1e9,
            cpu_cores: (span > 0).then(|| self.used_ns as f64 / span as f64),
            peak_working_set_bytes: self.peak_bytes,
            series: followed.series(&name, reader),
            name,
        }
    }
}

#[derive(Debug, Default)]
struct Totals {
    processes: HashMap<Key, Total>,
    beyond: HashSet<Key>,
    tick_ns: Option<u64>,
    previous_tick_ns: Option<u64>,
    /// CPU time by process id in the tick at hand.
    used: Vec<(u64, u64)>,
}

impl Totals {
    fn batch(&mut self, batch: &Batch, explainer: &mut Explainer) {
        let (times, pids, starts) =
            (batch.times_ns(), numbers(batch, "pid"), numbers(batch, "process_start"));
        let (cpu, memory) = (numbers(batch, "cpu_time_ns"), numbers(batch, "working_set_bytes"));
        for row in 0..batch.len() {
            if self.tick_ns != Some(times[row]) {
                self.close_tick(explainer);
                self.previous_tick_ns = self.tick_ns.replace(times[row]);
            }
            let key = (pids[row], starts[row]);
            if !self.processes.contains_key(&key) && self.processes.len() >= MAX_PROCESSES {
                if self.beyond.len() < MAX_PROCESSES {
                    self.beyond.insert(key);
                }
                continue;
            }
            let total = self.processes.entry(key).or_default();
            if total.samples == 0 {
                (total.first_ns, total.cpu_ns) = (times[row], cpu[row]);
            }
            let used = cpu[row].saturating_sub(total.cpu_ns);
            total.samples += 1;
            total.last_ns = times[row];
            total.cpu_ns = cpu[row];
            total.used_ns = total.used_ns.saturating_add(used);
            total.peak_bytes = total.peak_bytes.max(memory[row]);
            if used > 0 {
                self.used.push((key.0, used));
            }
        }
    }

    fn close_tick(&mut self, explainer: &mut Explainer) {
        if let (Some(from), Some(to)) = (self.previous_tick_ns, self.tick_ns)
            && from < to
        {
            explainer.cpu_interval(from, to, &self.used);
        }
        self.used.clear();
    }

    fn choose(&self, observed: &HashSet<u64>) -> Vec<Key> {
        let mut order: Vec<(bool, u64, Key)> = self
            .processes
            .iter()
            .map(|(key, total)| (observed.contains(&key.0), total.used_ns, *key))
            .filter(|(observed, used, _)| *observed || *used as f64 / 1e9 >= MIN_CPU_SECONDS)
            .collect();
        order.sort_by_key(|(observed, used, key)| (std::cmp::Reverse((*observed, *used)), *key));
        order.into_iter().take(MAX_SHOWN).map(|(_, _, key)| key).collect()
    }
}

/// Columns of the second pass.
const FOLLOWED: &[&str] = &[
    "timestamp_ns",
    "pid",
    "process_start",
    "cpu_time_ns",
    "working_set_bytes",
    "private_bytes",
    "context_switches",
    "page_faults",
    "thread_count",
];

/// The moments at which samples were taken, as far as rows show them.
#[derive(Debug, Default)]
struct Ticks {
    now_ns: Option<u64>,
    previous_ns: Option<u64>,
}

impl Ticks {
    fn see(&mut self, time_ns: u64) {
        if self.now_ns != Some(time_ns) {
            self.previous_ns = self.now_ns.replace(time_ns);
        }
    }
}

/// The series of one process.
#[derive(Debug, Default)]
struct Followed {
    last_ns: Option<u64>,
    cpu: Rate,
    switches: Rate,
    faults: Rate,
    working_set: Intervals,
    private: Intervals,
    threads: Intervals,
}

/// What a total grows by per second.
#[derive(Debug, Default)]
struct Rate {
    total: Option<u64>,
    rates: Intervals,
}

impl Rate {
    /// `idle_ns` passed without a change before the last `lasted_ns`.
    fn add(&mut self, now_ns: u64, total: Option<u64>, idle_ns: u64, lasted_ns: u64, scale: f64) {
        let before = std::mem::replace(&mut self.total, total);
        let (Some(before), Some(total)) = (before, total) else { return };
        if lasted_ns == 0 {
            return;
        }
        if idle_ns > 0 {
            self.rates.add(now_ns - lasted_ns, 0.0, idle_ns);
        }
        self.rates.add(now_ns, total.saturating_sub(before) as f64 / lasted_ns as f64 * scale, lasted_ns);
    }
}

fn follow(batch: &Batch, ticks: &mut Ticks, followed: &mut HashMap<Key, Followed>) {
    let (times, pids, starts) = (batch.times_ns(), numbers(batch, "pid"), numbers(batch, "process_start"));
    let (cpu, memory) = (numbers(batch, "cpu_time_ns"), numbers(batch, "working_set_bytes"));
    let [private, switches, faults, threads] =
        ["private_bytes", "context_switches", "page_faults", "thread_count"]
            .map(|name| Optional::of(batch, name));
    for row in 0..batch.len() {
        let now = times[row];
        ticks.see(now);
        let Some(process) = followed.get_mut(&(pids[row], starts[row])) else { continue };
        let last = process.last_ns.replace(now).unwrap_or(now);
        let changed_since = ticks.previous_ns.unwrap_or(last).max(last).min(now);
        let (idle, lasted) = (changed_since.saturating_sub(last), now - changed_since);
        process.cpu.add(now, Some(cpu[row]), idle, lasted, 100.0);
        process.switches.add(now, switches.get(row), idle, lasted, 1e9);
        process.faults.add(now, faults.get(row), idle, lasted, 1e9);
        process.working_set.add(now, memory[row] as f64, lasted);
        for (series, value) in
            [(&mut process.private, private.get(row)), (&mut process.threads, threads.get(row))]
        {
            value.into_iter().for_each(|value| series.add(now, value as f64, lasted));
        }
    }
}

impl Followed {
    fn series(self, of: &str, reader: &Reader<'_>) -> Vec<Series> {
        let derived = "derived from totals of the process";
        [
            (self.cpu.rates, "cpu_percent", SeriesUnit::Percent, derived),
            (self.working_set, "working_set_bytes", SeriesUnit::Bytes, "read"),
            (self.private, "private_bytes", SeriesUnit::Bytes, "read"),
            (self.threads, "thread_count", SeriesUnit::Count, "read"),
            (self.switches.rates, "context_switches_per_second", SeriesUnit::PerSecond, derived),
            (self.faults.rates, "page_faults_per_second", SeriesUnit::PerSecond, derived),
        ]
        .into_iter()
        .filter_map(|(intervals, metric, unit, how)| {
            let name = SeriesName {
                of: of.to_owned(),
                metric: metric.to_owned(),
                unit,
                source: "process_samples".to_owned(),
                method: format!("measured, {how}"),
            };
            intervals.series(name, |time_ns| reader.seconds(time_ns))
        })
        .collect()
    }
}
