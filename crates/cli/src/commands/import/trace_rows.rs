//! What a trace means, as rows of a recording.

use std::collections::BTreeMap;

use ortscope_core::batch::Batch;
use ortscope_core::kernel::{FaultKind, KernelEvent, PageFault};
use ortscope_core::schema::{AnnotationRow, KernelEventRow, ProcessRow, Row, Text, ThreadSampleRow};
use ortscope_decode::etw::{
    DeviceRow, DiskTransfer, EngineBusy, EtwDecoder, EtwSink, EventStack, FileOperation, FileSums, HardFault,
    Image, ImageMoment, Inference, InterruptTime, Modules, NetworkTransfer, NetworkVerb, OrtOperator, OrtRow,
    OrtRows, OrtSession, ProcessLife, ProcessTotals, Protocol, Sample, UNKNOWN_ID, power_row,
};
use ortscope_decode::kernel_rows::KernelRows;
use ortscope_etl::payload::builtin::ort::OrtEvent;
use ortscope_etl::{Clock, LogFileHeader};
use ortscope_store::{RecordingWriter, StoreError};

use super::series::Series;

/// Rows that are written at once.
const BATCH_ROWS: usize = 4096;
/// File and network calls are summed up over this long, as the live sources do it.
const SUM_NS: u64 = 1_000_000_000;
/// Sums under way, fewer than there is room for; when there are more, all are written early.
const MAX_SUMS: usize = 16_000;
/// Processes that the summary names.
const MAX_BUSY: usize = 10;

/// From the traced machine's clock to the recording's.
#[derive(Debug, Clone, Copy)]
pub struct Shift {
    /// The moment of the trace that becomes the recording's start.
    pub base_ns: u64,
    pub start_ns: u64,
}

impl Shift {
    pub fn on(self, at_ns: u64) -> u64 {
        self.start_ns.saturating_add(at_ns.saturating_sub(self.base_ns))
    }
}

/// Collects rows and hands them to the recording in batches. The first failure stays; what comes after it is dropped.
#[derive(Debug)]
pub struct Out<'w> {
    writer: &'w RecordingWriter,
    pub shift: Shift,
    batches: BTreeMap<&'static str, Batch>,
    pub failed: Option<StoreError>,
}

impl<'w> Out<'w> {
    pub fn new(writer: &'w RecordingWriter, shift: Shift) -> Self {
        Self { writer, shift, batches: BTreeMap::new(), failed: None }
    }

    pub fn push<R: Row>(&mut self, row: &R) {
        let batch = self.batches.entry(R::TABLE.def().name).or_insert_with(|| Batch::new(R::TABLE));
        batch.push(row);
        if batch.len() >= BATCH_ROWS {
            let full = std::mem::replace(batch, Batch::new(R::TABLE));
            self.write(&full);
        }
    }

    /// Rows of one tick of a sampled table, which belong together.
    pub fn tick<R: Row>(&mut self, rows: &[R]) {
        let mut batch = Batch::with_capacity(R::TABLE, rows.len());
        for row in rows {
            batch.push(row);
        }
        if !batch.is_empty() {
            self.write(&batch);
        }
    }

    fn write(&mut self, batch: &Batch) {
        if self.failed.is_none() {
            self.failed = self.writer.append(batch).err();
        }
    }

    pub fn flush(&mut self) {
        for (_, batch) in std::mem::take(&mut self.batches) {
            if !batch.is_empty() {
                self.write(&batch);
            }
        }
    }
}

/// Counts of what rows were made of, for the summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Made {
    pub processes: u64,
    pub threads: u64,
    pub samples: u64,
    pub idle_samples: u64,
    pub samples_with_stack: u64,
    pub image_loads: u64,
    pub images_listed: u64,
    pub disk_transfers: u64,
    pub file_operations: u64,
    pub hard_faults: u64,
    pub network_transfers: u64,
    pub interrupts: u64,
    pub stacks_of_other_events: u64,
    pub sessions: u64,
    pub inferences: u64,
    pub operators: u64,
    pub engine_packets: u64,
    pub power_events: u64,
}

#[derive(Debug, Clone)]
pub struct Busy {
    pub pid: u32,
    pub name: String,
    pub totals: ProcessTotals,
}

/// Takes what [`EtwDecoder`] understands.
#[derive(Debug)]
pub struct TraceRows<'w> {
    pub out: Out<'w>,
    kernel: KernelRows,
    modules: Modules,
    pub series: Series,
    pub sessions: OrtRows,
    clock: Clock,
    files: FileSums,
    networks: BTreeMap<(u32, &'static str), (u64, u64)>,
    sums_end_ns: u64,
    threads_at_ns: u64,
    pub made: Made,
    pub busy: Vec<Busy>,
}

impl<'w> TraceRows<'w> {
    pub fn new(out: Out<'w>, header: &LogFileHeader, modules: Modules, series: Series) -> Self {
        let first_ns = out.shift.base_ns;
        Self {
            out,
            // A trace is of a whole machine, and nobody named a process of it.
            kernel: KernelRows::new(None),
            modules,
            series,
            sessions: OrtRows::default(),
            clock: header.clock,
            files: FileSums::default(),
            networks: BTreeMap::new(),
            sums_end_ns: first_ns + SUM_NS,
            threads_at_ns: first_ns + SUM_NS,
            made: Made::default(),
            busy: Vec::new(),
        }
    }

    /// What is due once a second of the trace.
    pub fn advance(&mut self, decoder: &EtwDecoder) {
        let now_ns = decoder.last_ns();
        if now_ns >= self.sums_end_ns || self.files.len() + self.networks.len() > MAX_SUMS {
            self.write_sums(self.sums_end_ns.min(now_ns));
            self.sums_end_ns = now_ns - now_ns % SUM_NS + SUM_NS;
        }
        if now_ns >= self.threads_at_ns {
            self.threads(decoder, now_ns);
            self.threads_at_ns = now_ns - now_ns % SUM_NS + SUM_NS;
        }
    }

    /// The exact account of every thread, where context switches were recorded.
    pub fn threads(&mut self, decoder: &EtwDecoder, now_ns: u64) {
        if decoder.counts().kernel.switches == 0 {
            return;
        }
        let rows: Vec<ThreadSampleRow> = decoder
            .live_threads()
            .filter(|life| life.thread.pid != UNKNOWN_ID && !life.thread.is_idle())
            .map(|life| (life, decoder.account(life)))
            .map(|(life, account)| ThreadSampleRow {
                timestamp_ns: self.out.shift.on(now_ns),
                pid: u64::from(life.thread.pid),
                process_start: process_start(decoder.process(life.thread.pid)),
                tid: u64::from(life.thread.tid),
                name: Some(life.name.as_str()).filter(|name| !name.is_empty()).map(Text::from),
                cpu_time_ns: account.run_ns,
                cpu_cycles: None,
                context_switches: Some(account.switches),
                state: None,
                processor: None,
                priority: life.base_priority.map(i64::from),
            })
            .collect();
        self.out.tick(&rows);
    }

    pub fn write_sums(&mut self, at_ns: u64) {
        let Self { out, kernel, files, networks, .. } = self;
        // Asked for before there can be more than fit.
        let (sums, _) = files.take();
        for io in &sums {
            kernel.file_io(at_ns, io, &mut |row| out.kernel(row));
        }
        for ((pid, kind), (count, bytes)) in std::mem::take(networks) {
            out.kernel(KernelEventRow {
                timestamp_ns: at_ns,
                kind: kind.into(),
                processor: None,
                pid: Some(pid).filter(|pid| *pid != UNKNOWN_ID).map(u64::from),
                tid: None,
                duration_ns: None,
                value: Some(bytes),
                detail: Some(format!("{count} events").into()),
            });
        }
    }

    fn unix_ns(&self, at_ns: u64) -> Option<u64> {
        let start_ticks = self.clock.start_ticks();
        let since_start = i128::from(at_ns) - i128::from(self.clock.nanos_of(start_ticks));
        u64::try_from(i128::from(self.clock.unix_ns(start_ticks)) + since_start).ok()
    }

    fn process(&mut self, life: &ProcessLife, event: &str, at_ns: u64) {
        let row = ProcessRow {
            timestamp_ns: self.out.shift.on(at_ns),
            pid: u64::from(life.pid),
            process_start: process_start(Some(life)),
            event: event.into(),
            name: life.image_name.as_str().into(),
            parent_pid: Some(life.parent_pid).filter(|pid| *pid != UNKNOWN_ID).map(u64::from),
            os_session: life.session_id.filter(|id| *id != UNKNOWN_ID).map(u64::from),
            create_time_unix_ns: life.start_ns.and_then(|start_ns| self.unix_ns(start_ns)),
            exit_code: life.exit_code.filter(|_| event == "exited").map(i64::from),
            // Not kept: command lines hold secrets, and the redaction of the live sources needs their separate words.
            command_line: None,
        };
        self.out.push(&row);
    }
}

impl Out<'_> {
    /// A row of the kernel's events, still with a time of the trace.
    fn kernel(&mut self, row: KernelEventRow) {
        let known = |id: Option<u64>| id.filter(|id| *id != u64::from(UNKNOWN_ID));
        let row = KernelEventRow {
            timestamp_ns: self.shift.on(row.timestamp_ns),
            pid: known(row.pid),
            tid: known(row.tid),
            ..row
        };
        self.push(&row);
    }
}

/// The moment of the trace at which it started; 0 for those that were there before. With the id it names a process.
fn process_start(life: Option<&ProcessLife>) -> u64 {
    life.and_then(|life| life.start_ns).unwrap_or(0)
}

impl EtwSink for TraceRows<'_> {
    fn kernel(&mut self, event: &KernelEvent) {
        self.series.kernel(event);
        // These come with more than the event has: see `disk` and `hard_fault`.
        let is_told_elsewhere = match event {
            KernelEvent::BlockIo(_) => true,
            KernelEvent::PageFault(fault) => fault.kind == FaultKind::Major,
            _ => false,
        };
        if !is_told_elsewhere {
            let Self { out, kernel, .. } = self;
            kernel.push(event, &mut |row| out.kernel(row));
        }
    }

    fn sample(&mut self, sample: &Sample) {
        let is_idle = sample.cpu.thread.is_idle();
        self.series.sample(sample.cpu.at_ns, is_idle, sample.count);
        self.made.samples += 1;
        self.made.samples_with_stack += u64::from(sample.has_stack);
        if is_idle {
            // Nothing ran: the series of the processors has it.
            self.made.idle_samples += 1;
            return;
        }
        self.out.kernel(KernelEventRow {
            timestamp_ns: sample.cpu.at_ns,
            kind: "sample".into(),
            processor: Some(u64::from(sample.cpu.cpu)),
            pid: Some(u64::from(sample.cpu.thread.pid)),
            tid: Some(u64::from(sample.cpu.thread.tid)),
            duration_ns: None,
            value: Some(sample.instruction_pointer),
            detail: Some(self.modules.folded(&sample.cpu).into()),
        });
    }

    fn stack(&mut self, _stack: &EventStack) {
        self.made.stacks_of_other_events += 1;
    }

    fn process_begins(&mut self, process: &ProcessLife) {
        self.made.processes += 1;
        match process.start_ns {
            Some(start_ns) => self.process(process, "started", start_ns),
            None => self.process(process, "seen", self.out.shift.base_ns),
        }
    }

    fn process_ends(&mut self, process: &ProcessLife) {
        if let Some(end_ns) = process.end_ns {
            self.process(process, "exited", end_ns);
        }
        let Busy { pid, name, totals } =
            Busy { pid: process.pid, name: process.image_name.clone(), totals: process.totals };
        if totals.run_ns + totals.samples > 0 && pid != 0 {
            self.busy.push(Busy { pid, name, totals });
            self.busy
                .sort_by_key(|busy| (std::cmp::Reverse((busy.totals.run_ns, busy.totals.samples)), busy.pid));
            self.busy.truncate(MAX_BUSY);
        }
    }

    fn thread_begins(&mut self, _thread: &ortscope_decode::etw::ThreadLife) {
        self.made.threads += 1;
    }

    fn image(&mut self, image: &Image) {
        if image.moment != ImageMoment::Load {
            self.made.images_listed += 1;
            return;
        }
        self.made.image_loads += 1;
        let Self { out, kernel, .. } = self;
        kernel.image(&image.load(), &mut |row| out.kernel(row));
    }

    fn disk(&mut self, disk: &DiskTransfer) {
        self.made.disk_transfers += 1;
        let Self { out, kernel, .. } = self;
        let verb = if disk.io.is_write { "write" } else { "read" };
        kernel.push(&KernelEvent::BlockIo(disk.io), &mut |row| {
            let file = disk.file.as_deref().map_or_else(|| verb.to_owned(), |file| format!("{verb} {file}"));
            out.kernel(KernelEventRow { detail: Some(file.into()), ..row });
        });
    }

    fn hard_fault(&mut self, fault: &HardFault) {
        self.made.hard_faults += 1;
        let HardFault { at_ns, cpu, thread, address, .. } = *fault;
        let event = PageFault { at_ns, cpu, thread, address, kind: FaultKind::Major };
        let Self { out, kernel, .. } = self;
        kernel.push(&KernelEvent::PageFault(event), &mut |row| {
            let detail = fault.file.as_deref().map(Text::from);
            out.kernel(KernelEventRow { duration_ns: fault.duration_ns, detail, ..row });
        });
    }

    fn file(&mut self, operation: &FileOperation) {
        self.made.file_operations += 1;
        self.files.add(operation);
    }

    fn network(&mut self, transfer: &NetworkTransfer) {
        self.made.network_transfers += 1;
        let kind = match (transfer.verb, transfer.protocol) {
            (NetworkVerb::Send, _) => "network_send",
            (NetworkVerb::Receive, _) => "network_receive",
            (NetworkVerb::Retransmit, _) => "network_retransmit",
            (NetworkVerb::Connect | NetworkVerb::Accept | NetworkVerb::Reconnect, _) => "network_connect",
            (NetworkVerb::Disconnect, Protocol::Tcp | Protocol::Udp) => "network_disconnect",
            // The same bytes again.
            (NetworkVerb::Copy, _) => return,
        };
        let (count, bytes) = self.networks.entry((transfer.pid, kind)).or_default();
        *count += 1;
        *bytes += u64::from(transfer.bytes);
    }

    fn interrupt(&mut self, _interrupt: &InterruptTime) {
        self.made.interrupts += 1;
    }

    fn session(&mut self, session: &OrtSession) {
        self.made.sessions += 1;
        if let Some(mut row) = self.sessions.session(session) {
            row.timestamp_ns = self.out.shift.on(row.timestamp_ns);
            self.out.push(&row);
        }
    }

    fn inference(&mut self, inference: &Inference) {
        self.made.inferences += 1;
        if let Some(mut row) = self.sessions.inference(inference) {
            row.timestamp_ns = self.out.shift.on(row.timestamp_ns);
            row.planned_ns = row.timestamp_ns;
            self.out.push(&row);
        }
    }

    fn operator(&mut self, operator: &OrtOperator) {
        self.made.operators += 1;
        if let Some(mut row) = self.sessions.operator(operator) {
            row.timestamp_ns = self.out.shift.on(row.timestamp_ns);
            self.out.push(&row);
        }
    }

    fn ort(&mut self, row: &OrtRow) {
        if let Some(mut row) = self.sessions.event(row) {
            self.made.operators += 1;
            row.timestamp_ns = self.out.shift.on(row.timestamp_ns);
            self.out.push(&row);
        }
        let has_rows = [
            OrtEvent::EvaluationStart,
            OrtEvent::EvaluationStop,
            OrtEvent::OpEnd,
            OrtEvent::OrtRun,
            OrtEvent::QnnProfiling,
            OrtEvent::SessionCreation,
            OrtEvent::SessionCreationCaptureState,
        ];
        if !has_rows.contains(&row.event) {
            let text = format!("{} {}", row.event.name(), row.fields.to_json());
            let timestamp_ns = self.out.shift.on(row.at_ns);
            self.out.push(&AnnotationRow { timestamp_ns, kind: "onnxruntime".into(), text: text.into() });
        }
    }

    fn engine_busy(&mut self, busy: &EngineBusy) {
        self.made.engine_packets += 1;
        self.series.engine(busy);
    }

    fn device(&mut self, row: &DeviceRow) {
        self.made.power_events += 1;
        self.out.kernel(power_row(row));
    }
}
