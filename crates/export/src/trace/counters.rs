//! Samples as counters: levels as they are, totals as rates. A viewer draws a counter's value until the next one, so only
//! changes are written.

use std::collections::HashMap;
use std::io;
use std::iter::Peekable;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{
    DeviceSampleRow, MemoryRow, ProcessSampleRow, SystemSampleRow, TableId, Text, TickRow,
};
use ortscope_core::tables::Scan;

use super::drawing::Names;
use super::events::Events;
use crate::source::RowSource;

/// Things with counters of their own; more are not drawn, and counted.
const MAX_THINGS: usize = 20_000;

/// A value that is drawn as it is.
struct Level<R>(&'static str, &'static str, fn(&R) -> Option<f64>);
/// A total whose growth per second, times a factor, is drawn.
struct Rate<R>(&'static str, &'static str, f64, fn(&R) -> Option<u64>);

fn real(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

#[rustfmt::skip]
const PROCESS_LEVELS: &[Level<ProcessSampleRow>] = &[
    Level("memory", "working_set_bytes", |row| Some(row.working_set_bytes as f64)),
    Level("memory", "private_bytes", |row| real(row.private_bytes)),
    Level("threads", "thread_count", |row| real(row.thread_count)),
    Level("handles", "handle_count", |row| real(row.handle_count)),
];

#[rustfmt::skip]
const PROCESS_RATES: &[Rate<ProcessSampleRow>] = &[
    // Nanoseconds per second are percent after this: 100 is one core.
    Rate("cpu", "percent", 1e-7, |row| Some(row.cpu_time_ns)),
    Rate("scheduling", "context_switches_per_s", 1.0, |row| row.context_switches),
    Rate("memory", "page_faults_per_s", 1.0, |row| row.page_faults),
    Rate("io", "read_bytes_per_s", 1.0, |row| row.read_bytes),
    Rate("io", "write_bytes_per_s", 1.0, |row| row.write_bytes),
];

#[rustfmt::skip]
const SYSTEM_LEVELS: &[Level<SystemSampleRow>] = &[
    Level("cpu", "percent", |row| row.cpu_percent),
    Level("cpu", "frequency_hertz", |row| row.cpu_frequency_hertz),
    Level("memory", "used_bytes", |row| real(row.memory_used_bytes)),
    Level("memory", "swap_used_bytes", |row| real(row.swap_used_bytes)),
    Level("processes", "count", |row| real(row.process_count)),
];

#[rustfmt::skip]
const SYSTEM_RATES: &[Rate<SystemSampleRow>] = &[
    Rate("scheduling", "context_switches_per_s", 1.0, |row| row.context_switches),
    Rate("scheduling", "interrupts_per_s", 1.0, |row| row.interrupts),
];

/// What was last drawn of one thing.
struct Drawn {
    process: u64,
    levels: Vec<Option<u64>>,
    rates: Vec<RateDrawn>,
}

#[derive(Clone, Default)]
struct RateDrawn {
    last: Option<(u64, u64)>,
    drawn: Option<u64>,
}

impl Drawn {
    fn new<R>(process: u64, levels: &[Level<R>], rates: &[Rate<R>]) -> Self {
        Self { process, levels: vec![None; levels.len()], rates: vec![RateDrawn::default(); rates.len()] }
    }

    /// Draws what changed. `tick_before_ns` is the tick before this row: until then a total had not changed, although no
    /// row says so.
    fn row<R>(
        &mut self,
        events: &mut Events<'_>,
        row: &R,
        time_ns: u64,
        tick_before_ns: Option<u64>,
        (levels, rates): (&[Level<R>], &[Rate<R>]),
    ) -> io::Result<()> {
        for (Level(name, key, read), drawn) in levels.iter().zip(&mut self.levels) {
            if let Some(value) = read(row) {
                draw(events, (self.process, name, key), time_ns, value, drawn)?;
            }
        }
        for (Rate(name, key, factor, read), state) in rates.iter().zip(&mut self.rates) {
            let Some(total) = read(row) else {
                continue;
            };
            if let Some((last_ns, last_total)) = state.last
                && total >= last_total
                && time_ns > last_ns
            {
                let counter = (self.process, *name, *key);
                let still_ns = tick_before_ns.filter(|tick| *tick > last_ns && *tick < time_ns);
                if still_ns.is_some() {
                    draw(events, counter, last_ns, 0.0, &mut state.drawn)?;
                }
                let from_ns = still_ns.unwrap_or(last_ns);
                let seconds = (time_ns - from_ns) as f64 / 1e9;
                let rate = (total - last_total) as f64 * factor / seconds;
                draw(events, counter, from_ns, rate, &mut state.drawn)?;
            }
            state.last = Some((time_ns, total));
        }
        Ok(())
    }
}

fn draw(
    events: &mut Events<'_>,
    (process, name, key): (u64, &str, &str),
    time_ns: u64,
    value: f64,
    drawn: &mut Option<u64>,
) -> io::Result<()> {
    if *drawn == Some(value.to_bits()) {
        return Ok(());
    }
    *drawn = Some(value.to_bits());
    events.counter(process, time_ns, name, key, value)
}

/// The ticks of a sampled table, read along with its rows.
pub(super) struct Ticks<'a> {
    times: Peekable<Box<dyn Iterator<Item = u64> + 'a>>,
    before: Option<u64>,
}

impl<'a> Ticks<'a> {
    pub(super) fn new(source: &'a RowSource<'_>, table: TableId) -> Self {
        let name = table.def().name;
        let batches = source.scan(TableId::Ticks, &Scan::all());
        // Without ticks rates are only spread over longer times: an error here need not end the export.
        let times: Box<dyn Iterator<Item = u64> + 'a> =
            Box::new(batches.map_while(Result::ok).flat_map(move |batch| {
                let of_table = |row: &TickRow| &*row.table == name;
                batch.rows().filter(of_table).map(|row| row.timestamp_ns).collect::<Vec<u64>>()
            }));
        Self { times: times.peekable(), before: None }
    }

    pub(super) fn before(&mut self, time_ns: u64) -> Option<u64> {
        while let Some(tick) = self.times.next_if(|tick| *tick < time_ns) {
            self.before = Some(tick);
        }
        self.before
    }
}

/// What was drawn of everything.
#[derive(Default)]
pub(super) struct Counters {
    machine: Option<Drawn>,
    processes: HashMap<(u64, u64), Drawn>,
    processes_left_out: u64,
    devices: ByName,
    memory: ByName,
}

impl Counters {
    pub(super) fn processes(
        &mut self,
        events: &mut Events<'_>,
        batch: &Batch,
        names: &Names,
        tick_before: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> io::Result<u64> {
        let mut rows = 0;
        for row in batch.rows::<ProcessSampleRow>() {
            let key = (row.pid, row.process_start);
            if !self.processes.contains_key(&key) {
                if self.processes.len() >= MAX_THINGS {
                    self.processes_left_out += 1;
                    continue;
                }
                let process = events.process(&names.process(row.pid, row.process_start))?;
                self.processes.insert(key, Drawn::new(process, PROCESS_LEVELS, PROCESS_RATES));
            }
            if let Some(drawn) = self.processes.get_mut(&key) {
                let tick = tick_before(row.timestamp_ns);
                drawn.row(events, &row, row.timestamp_ns, tick, (PROCESS_LEVELS, PROCESS_RATES))?;
                rows += 1;
            }
        }
        Ok(rows)
    }

    pub(super) fn system(
        &mut self,
        events: &mut Events<'_>,
        batch: &Batch,
        tick_before: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> io::Result<u64> {
        let mut rows = 0;
        for row in batch.rows::<SystemSampleRow>() {
            let drawn = match &mut self.machine {
                Some(drawn) => drawn,
                none => none.insert(Drawn::new(events.process("Machine")?, SYSTEM_LEVELS, SYSTEM_RATES)),
            };
            let tick = tick_before(row.timestamp_ns);
            drawn.row(events, &row, row.timestamp_ns, tick, (SYSTEM_LEVELS, SYSTEM_RATES))?;
            rows += 1;
        }
        Ok(rows)
    }

    pub(super) fn devices(&mut self, events: &mut Events<'_>, batch: &Batch) -> io::Result<u64> {
        self.devices.rows(events, batch, "Devices", |row: &DeviceSampleRow| {
            (row.timestamp_ns, row.device.clone(), row.metric.clone(), row.value)
        })
    }

    pub(super) fn memory(
        &mut self,
        events: &mut Events<'_>,
        batch: &Batch,
        names: &Names,
    ) -> io::Result<u64> {
        self.memory.rows(events, batch, "Memory", |row: &MemoryRow| {
            let scope = if row.session_id.is_empty() {
                row.scope.clone()
            } else {
                format!("{} {}", names.session(&row.session_id), row.scope).into()
            };
            (row.timestamp_ns, scope, row.metric.clone(), row.bytes as f64)
        })
    }

    /// What is not in the trace.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> + '_ {
        [
            (self.devices.left_out, "device samples"),
            (self.memory.left_out, "memory rows"),
            (self.processes_left_out, "process samples"),
        ]
        .into_iter()
        .filter(|(left_out, _)| *left_out > 0)
        .map(|(left_out, what)| {
            format!("{left_out} {what} are not in the trace: it has counters for the first {MAX_THINGS} only")
        })
    }
}

/// Counters that two texts of a row name.
#[derive(Default)]
struct ByName {
    process: Option<u64>,
    drawn: HashMap<(Text, Text), Option<u64>>,
    left_out: u64,
}

impl ByName {
    fn rows<R: ortscope_core::schema::Row>(
        &mut self,
        events: &mut Events<'_>,
        batch: &Batch,
        group: &str,
        named: impl Fn(&R) -> (u64, Text, Text, f64),
    ) -> io::Result<u64> {
        let mut rows = 0;
        for row in batch.rows::<R>() {
            let (time_ns, name, key, value) = named(&row);
            let process = match self.process {
                Some(process) => process,
                None => *self.process.insert(events.process(group)?),
            };
            let names = (name, key);
            if self.drawn.len() >= MAX_THINGS && !self.drawn.contains_key(&names) {
                self.left_out += 1;
                continue;
            }
            let last = self.drawn.entry(names.clone()).or_default();
            draw(events, (process, &names.0, &names.1), time_ns, value, last)?;
            rows += 1;
        }
        Ok(rows)
    }
}
