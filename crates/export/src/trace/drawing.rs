//! From rows to events, batch by batch: what is drawn of each table, and the lanes that it goes to. The batches of a
//! recording come table by table, those of a live trace as they are recorded.

use std::collections::HashMap;
use std::io;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{
    AnnotationRow, FindingRow, InferenceRow, KernelEventRow, LossRow, OperatorKind, OperatorRow, ProcessRow,
    Row, SessionRow, TableId, Text,
};

use super::counters::Counters;
use super::events::{Events, Form, Lane};
use super::rows::{self, Instant};
use super::slices::{Slices, TrackId};

/// Names that are remembered; what comes after is shown by its number.
pub(super) const MAX_NAMES: usize = 100_000;
/// Lanes of one kind; what comes after shares one.
const MAX_TRACKS: usize = 4_096;

/// Names of sessions and processes.
#[derive(Debug, Default)]
pub(super) struct Names {
    models: HashMap<Text, Text>,
    processes: HashMap<(u64, u64), Text>,
}

impl Names {
    pub(super) fn session_row(&mut self, row: SessionRow) {
        if self.models.len() < MAX_NAMES {
            self.models.insert(row.session_id, row.model_name);
        }
    }

    pub(super) fn process_row(&mut self, row: ProcessRow) {
        if self.processes.len() < MAX_NAMES {
            self.processes.insert((row.pid, row.process_start), row.name);
        }
    }

    pub(super) fn model(&self, session_id: &Text) -> Option<&str> {
        self.models.get(session_id).map(|name| &**name).filter(|name| !name.is_empty())
    }

    /// A session by its model and the beginning of its identifier.
    pub(super) fn session(&self, session_id: &Text) -> String {
        let short: String = session_id.chars().take(8).collect();
        match self.model(session_id) {
            Some(model) => format!("{model} {short}"),
            None => format!("session {short}"),
        }
    }

    pub(super) fn process(&self, pid: u64, process_start: u64) -> String {
        match self.processes.get(&(pid, process_start)) {
            Some(name) => format!("{name} (pid {pid})"),
            None => format!("process {pid}"),
        }
    }
}

/// Its group, whether it is of a device, and the number of its lane.
type TrackKey = (Text, bool, u64);

/// Tracks by a text and a number, made when first asked for.
#[derive(Default)]
struct Tracks {
    slices: Slices,
    groups: HashMap<Text, u64>,
    by_key: HashMap<TrackKey, TrackId>,
    others: Option<TrackId>,
}

impl Tracks {
    fn track(
        &mut self,
        events: &mut Events<'_>,
        key: TrackKey,
        names: impl FnOnce() -> (String, String),
    ) -> io::Result<TrackId> {
        if let Some(track) = self.by_key.get(&key) {
            return Ok(*track);
        }
        if self.slices.tracks() >= MAX_TRACKS {
            if let Some(others) = self.others {
                return Ok(others);
            }
            let process = events.process("Others")?;
            let others = self.slices.track(process, "others".to_owned());
            self.others = Some(others);
            return Ok(others);
        }
        let (group_name, name) = names();
        let process = match self.groups.get(&key.0) {
            Some(process) => *process,
            None => {
                let process = events.process(&group_name)?;
                self.groups.insert(Text::clone(&key.0), process);
                process
            }
        };
        let track = self.slices.track(process, name);
        self.by_key.insert(key, track);
        Ok(track)
    }
}

/// Instants of one group, on lanes by name.
#[derive(Default)]
struct Instants {
    process: Option<u64>,
    lanes: HashMap<String, Lane>,
}

impl Instants {
    fn rows<R: Row>(
        &mut self,
        events: &mut Events<'_>,
        batch: &Batch,
        group: &str,
        instant: fn(Form, &R) -> Instant,
    ) -> io::Result<u64> {
        let mut rows = 0;
        for row in batch.rows::<R>() {
            let (time_ns, name, body) = instant(events.form(), &row);
            let process = match self.process {
                Some(process) => process,
                None => *self.process.insert(events.process(group)?),
            };
            let name = if self.lanes.len() < MAX_TRACKS || self.lanes.contains_key(&name) {
                name
            } else {
                "others".to_owned()
            };
            let lane = match self.lanes.get(&name) {
                Some(lane) => *lane,
                None => {
                    let lane = events.lane(process, &name)?;
                    self.lanes.insert(name, lane);
                    lane
                }
            };
            rows += u64::from(events.instant(lane, time_ns, &body.done())?);
        }
        Ok(rows)
    }
}

/// All that is remembered of what was drawn.
pub(super) struct Drawing {
    names: Names,
    inferences: Tracks,
    operators: Tracks,
    annotations: Instants,
    findings: Instants,
    losses: Instants,
    kernel: Instants,
    counters: Counters,
}

impl Drawing {
    pub(super) fn new(names: Names) -> Self {
        Self {
            names,
            inferences: Tracks::default(),
            operators: Tracks::default(),
            annotations: Instants::default(),
            findings: Instants::default(),
            losses: Instants::default(),
            kernel: Instants::default(),
            counters: Counters::default(),
        }
    }

    /// Draws the rows of a batch; how many of them are in the trace. Names are learned from tables that are not drawn.
    /// `tick_before` tells the tick before a time, where only rows that changed are kept.
    pub(super) fn draw(
        &mut self,
        events: &mut Events<'_>,
        batch: &Batch,
        tick_before: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> io::Result<u64> {
        match batch.table() {
            TableId::Inferences => self.inferences(events, batch),
            TableId::Operators => self.operators(events, batch),
            TableId::Annotations => {
                self.annotations.rows::<AnnotationRow>(events, batch, "Annotations", rows::annotation)
            }
            TableId::Findings => self.findings.rows::<FindingRow>(events, batch, "Findings", rows::finding),
            TableId::Losses => self.losses.rows::<LossRow>(events, batch, "Losses", rows::loss),
            TableId::KernelEvents => {
                self.kernel.rows::<KernelEventRow>(events, batch, "Kernel", rows::kernel_event)
            }
            TableId::SystemSamples => self.counters.system(events, batch, tick_before),
            TableId::DeviceSamples => self.counters.devices(events, batch),
            TableId::Memory => self.counters.memory(events, batch, &self.names),
            TableId::ProcessSamples => self.counters.processes(events, batch, &self.names, tick_before),
            TableId::Sessions => {
                batch.rows::<SessionRow>().for_each(|row| self.names.session_row(row));
                Ok(0)
            }
            TableId::Processes => {
                batch.rows::<ProcessRow>().for_each(|row| self.names.process_row(row));
                Ok(0)
            }
            _ => Ok(0),
        }
    }

    fn inferences(&mut self, events: &mut Events<'_>, batch: &Batch) -> io::Result<u64> {
        let (names, tracks) = (&self.names, &mut self.inferences);
        let mut rows = 0;
        for row in batch.rows::<InferenceRow>() {
            let key = (Text::clone(&row.session_id), false, row.stream);
            let track = tracks.track(events, key, || {
                let group = format!("Inferences: {}", names.session(&row.session_id));
                (group, format!("stream {}", row.stream))
            })?;
            let duration = row.copy_in_ns.saturating_add(row.run_ns).saturating_add(row.copy_out_ns);
            let body = rows::inference(events.form(), &row, names.model(&row.session_id));
            rows += u64::from(tracks.slices.add(events, track, row.timestamp_ns, duration, body)?);
        }
        Ok(rows)
    }

    fn operators(&mut self, events: &mut Events<'_>, batch: &Batch) -> io::Result<u64> {
        let tracks = &mut self.operators;
        let mut rows = 0;
        for row in batch.rows::<OperatorRow>() {
            // What a provider reports of its device, beside the calls that it belongs to.
            let is_of_device = row.kind == OperatorKind::Other && !row.execution_provider.is_empty();
            let key = (Text::clone(&row.execution_provider), is_of_device, row.thread);
            let track = tracks.track(events, key, || {
                let group = match &*row.execution_provider {
                    "" => "ONNX Runtime".to_owned(),
                    provider => format!("Operators: {provider}"),
                };
                let lane = match (is_of_device, row.thread) {
                    (false, thread) => format!("thread {thread}"),
                    (true, 0) => format!("device {}", row.device),
                    (true, queue) => format!("device {} {queue}", row.device),
                };
                (group, lane)
            })?;
            let body = rows::operator(events.form(), &row);
            rows += u64::from(tracks.slices.add(events, track, row.timestamp_ns, row.duration_ns, body)?);
        }
        Ok(rows)
    }

    /// Writes what waits to be put in order and began before a time.
    pub(super) fn settle(&mut self, events: &mut Events<'_>, before_ns: u64) -> io::Result<()> {
        self.inferences.slices.settle(events, before_ns)?;
        self.operators.slices.settle(events, before_ns)
    }

    /// Writes all that waits.
    pub(super) fn finish(&mut self, events: &mut Events<'_>) -> io::Result<()> {
        self.inferences.slices.finish(events)?;
        self.operators.slices.finish(events)
    }

    /// What is not in the trace, in sentences.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> + '_ {
        self.counters.notes()
    }
}
