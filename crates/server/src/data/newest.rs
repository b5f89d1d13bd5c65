//! The newest readings, updated as rows arrive.

use std::collections::BTreeMap;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{
    DeviceSampleRow, LossRow, ProcessRow, ProcessSampleRow, SessionRow, SystemSampleRow, TableId, Text,
    UnavailabilityRow,
};
use ortscope_core::tables::{ReadError, Scan, Tables};
use ortscope_export::wire::{ProcessMemory, Reasons, Sensors};
use ortscope_result::LossReport;

/// Maximum number of remembered sensors, sessions, processes and kinds of losses.
const MAX_ENTRIES: usize = 10_000;
/// Time before a point in a recording that is searched for readings: slow sensors are read every few seconds.
const LOOK_BACK_NS: u64 = 5_000_000_000;

/// One reading.
#[derive(Debug, Clone)]
pub struct Reading {
    pub time_ns: u64,
    pub value: f64,
    pub source: Text,
    pub method: Text,
}

/// Facts about a process.
#[derive(Debug, Clone)]
pub struct ProcessFact {
    pub name: Text,
    pub parent_pid: Option<u64>,
    pub command_line: Option<Text>,
    pub exit: Option<(u64, Option<i64>)>,
}

#[derive(Debug, Default)]
pub struct Newest {
    pub system: Option<SystemSampleRow>,
    pub devices: BTreeMap<(Text, Text), Reading>,
    pub sessions: BTreeMap<Text, SessionRow>,
    pub processes: BTreeMap<(u64, u64), ProcessFact>,
    lost: BTreeMap<(Text, Text), u64>,
    pub reasons: Reasons,
    pub sensors: Sensors,
    session_memory: ProcessMemory,
    session_pids: Vec<u64>,
    /// Time of the newest sample of anything.
    pub newest_ns: u64,
}

impl Newest {
    /// Takes rows and returns whether they were samples.
    pub fn take(&mut self, batch: &Batch) -> bool {
        match batch.table() {
            TableId::SystemSamples => self.system = batch.rows().last().or(self.system.take()),
            TableId::DeviceSamples => batch.rows().for_each(|row| self.device(row)),
            TableId::Sessions => batch.rows().for_each(|row| self.session(row)),
            TableId::Processes => batch.rows().for_each(|row| self.process(row)),
            TableId::ProcessSamples if !self.session_pids.is_empty() => {
                batch.rows::<ProcessSampleRow>().for_each(|row| self.session_memory.add(&row));
            }
            TableId::Losses => {
                for row in batch.rows::<LossRow>() {
                    if self.lost.len() < MAX_ENTRIES {
                        *self.lost.entry((row.place, row.kind)).or_default() += row.count;
                    }
                }
            }
            TableId::Unavailability => {
                batch.rows::<UnavailabilityRow>().for_each(|row| self.reasons.add(&row));
            }
            _ => {}
        }
        let are_samples = matches!(
            batch.table(),
            TableId::SystemSamples | TableId::DeviceSamples | TableId::ProcessSamples | TableId::Inferences
        );
        if are_samples {
            let newest = batch.times_ns().iter().copied().max().unwrap_or(0);
            self.newest_ns = self.newest_ns.max(newest);
        }
        are_samples
    }

    fn device(&mut self, row: DeviceSampleRow) {
        self.sensors.add(&row);
        let key = (row.device, row.metric);
        if row.value.is_finite() && (self.devices.len() < MAX_ENTRIES || self.devices.contains_key(&key)) {
            let reading = Reading {
                time_ns: row.timestamp_ns,
                value: row.value,
                source: row.source,
                method: row.method.text().clone(),
            };
            self.devices.insert(key, reading);
        }
    }

    fn session(&mut self, mut row: SessionRow) {
        if let Some(before) = self.sessions.get(&row.session_id) {
            row.pid = row.pid.or(before.pid);
            row.ort_version = row.ort_version.or_else(|| before.ort_version.clone());
        } else if self.sessions.len() >= MAX_ENTRIES {
            return;
        }
        if let Some(pid) = row.pid
            && !self.session_pids.contains(&pid)
        {
            self.session_pids.push(pid);
            self.session_memory = ProcessMemory::of(self.session_pids.iter().copied());
        }
        self.sessions.insert(Text::clone(&row.session_id), row);
    }

    fn process(&mut self, row: ProcessRow) {
        let key = (row.pid, row.process_start);
        if &*row.event == "exited" {
            if let Some(process) = self.processes.get_mut(&key) {
                process.exit = Some((row.timestamp_ns, row.exit_code));
            }
            return;
        }
        if self.processes.len() >= MAX_ENTRIES {
            // Ended processes are dropped first.
            self.processes.retain(|_, process| process.exit.is_none());
        }
        if self.processes.len() < MAX_ENTRIES {
            let fact = ProcessFact {
                name: row.name,
                parent_pid: row.parent_pid,
                command_line: row.command_line,
                exit: None,
            };
            self.processes.insert(key, fact);
        }
    }

    /// Memory of the processes with a session.
    pub fn session_memory(&self, time_ns: u64) -> Option<u64> {
        self.session_memory.bytes(time_ns)
    }

    pub fn lost_total(&self) -> u64 {
        self.lost.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// All losses, by place and kind.
    pub fn losses(&self) -> Vec<LossReport> {
        let loss = |((place, kind), count): (&(Text, Text), &u64)| LossReport {
            place: place.to_string(),
            kind: kind.to_string(),
            count: *count,
        };
        self.lost.iter().map(loss).collect()
    }

    pub fn is_session_process(&self, pid: u64) -> bool {
        self.session_pids.contains(&pid)
    }

    /// The newest readings at a point in time of a recording.
    pub fn at(tables: &dyn Tables, time_ns: u64) -> Result<Self, ReadError> {
        let mut newest = Self::default();
        let until = time_ns.saturating_add(1);
        let all = Scan { to_ns: Some(until), ..Scan::all() };
        // A run writes its sessions again at its end, with more details.
        for (table, scan) in [
            (TableId::Sessions, Scan::all()),
            (TableId::Processes, all.clone()),
            (TableId::Losses, all.clone()),
            (TableId::Unavailability, Scan::all()),
        ] {
            for batch in tables.scan(table, &scan) {
                newest.take(&batch?);
            }
        }
        let recent = Scan { from_ns: Some(time_ns.saturating_sub(LOOK_BACK_NS)), every_tick: true, ..all };
        let mut samples = vec![TableId::SystemSamples, TableId::DeviceSamples];
        if !newest.session_pids.is_empty() {
            samples.push(TableId::ProcessSamples);
        }
        for table in samples {
            for batch in tables.scan(table, &recent) {
                newest.take(&batch?);
            }
        }
        Ok(newest)
    }
}
