//! Converts decoded events of a trace to rows.

use std::collections::BTreeMap;

use ortscope_core::kernel::{FaultKind, KernelEvent, PageFault, Task};
use ortscope_core::schema::{AnnotationRow, KernelEventRow, ProcessRow, Text, ThreadSampleRow};
use ortscope_decode::etw::{
    DeviceRow, DiskTransfer, EngineBusy, EtwDecoder, EtwSink, EventStack, FileOperation, FileSums, HardFault,
    Image, ImageMoment, Inference, InterruptTime, Modules, NetworkTransfer, NetworkVerb, OrtOperator, OrtRow,
    OrtRows, OrtSession, ProcessLife, ProcessTotals, Protocol, Sample, ThreadLife, UNKNOWN_ID, power_row,
};
use ortscope_decode::kernel_rows::KernelRows;
use ortscope_etl::payload::builtin::ort::OrtEvent;
use ortscope_etl::{Clock, LogFileHeader};

use super::series::Series;
use crate::output::Output;

/// File and network calls are summed over this time, as the live sources do.
const SUM_NS: u64 = 1_000_000_000;
/// Maximum number of open sums, below the limit of [`FileSums`]; when there are more, all are written early.
const MAX_SUMS: usize = 16_000;
/// Maximum number of processes that the summary names.
const MAX_BUSY: usize = 10;

/// Converts times of the traced machine's clock to the recording's.
#[derive(Debug, Clone, Copy)]
pub struct Shift {
    /// The time of the trace's first event on the traced machine.
    pub base_ns: u64,
    /// The same moment in the recording.
    pub start_ns: u64,
}

impl Shift {
    pub fn apply(self, at_ns: u64) -> u64 {
        self.start_ns.saturating_add(at_ns.saturating_sub(self.base_ns))
    }
}

/// Number of events by kind, for the summary.
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

/// A process that used much processor time.
#[derive(Debug, Clone)]
pub struct Busy {
    pub pid: u32,
    pub name: String,
    pub totals: ProcessTotals,
}

/// Takes the events of [`EtwDecoder`] and emits rows.
#[derive(Debug)]
pub struct TraceRows<'e, 'a> {
    pub out: &'e mut Output<'a>,
    pub shift: Shift,
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

impl<'e, 'a> TraceRows<'e, 'a> {
    pub fn new(
        out: &'e mut Output<'a>,
        shift: Shift,
        header: &LogFileHeader,
        modules: Modules,
        series: Series,
    ) -> Self {
        let first_ns = shift.base_ns;
        Self {
            out,
            shift,
            // A trace covers a whole machine, and no process was selected.
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

    /// Emits the rows that are due once per second of the trace.
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

    /// Emits the exact CPU time of every thread, if the trace has context switches.
    pub fn threads(&mut self, decoder: &EtwDecoder, now_ns: u64) {
        if decoder.counts().kernel.switches == 0 {
            return;
        }
        let timestamp_ns = self.shift.apply(now_ns);
        let is_known = |thread: &Task| thread.pid != UNKNOWN_ID && !thread.is_idle();
        for life in decoder.live_threads().filter(|life| is_known(&life.thread)) {
            let account = decoder.account(life);
            self.out.emit(&ThreadSampleRow {
                timestamp_ns,
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
            });
        }
    }

    pub fn write_sums(&mut self, at_ns: u64) {
        // `advance` takes the sums before the limit of `FileSums` is reached, so none is dropped.
        let (sums, _) = self.files.take();
        for io in &sums {
            self.kernel.file_io(at_ns, io, &mut |row| emit_kernel(self.out, self.shift, row));
        }
        for ((pid, kind), (count, bytes)) in std::mem::take(&mut self.networks) {
            emit_kernel(
                self.out,
                self.shift,
                KernelEventRow {
                    timestamp_ns: at_ns,
                    kind: kind.into(),
                    processor: None,
                    pid: Some(pid).filter(|pid| *pid != UNKNOWN_ID).map(u64::from),
                    tid: None,
                    duration_ns: None,
                    value: Some(bytes),
                    detail: Some(format!("{count} events").into()),
                },
            );
        }
    }

    fn unix_ns(&self, at_ns: u64) -> Option<u64> {
        let start_ticks = self.clock.start_ticks();
        let since_start = i128::from(at_ns) - i128::from(self.clock.nanos_of(start_ticks));
        u64::try_from(i128::from(self.clock.unix_ns(start_ticks)) + since_start).ok()
    }

    fn process(&mut self, life: &ProcessLife, event: &str, at_ns: u64) {
        let row = ProcessRow {
            timestamp_ns: self.shift.apply(at_ns),
            pid: u64::from(life.pid),
            process_start: process_start(Some(life)),
            event: event.into(),
            name: life.image_name.as_str().into(),
            parent_pid: Some(life.parent_pid).filter(|pid| *pid != UNKNOWN_ID).map(u64::from),
            os_session: life.session_id.filter(|id| *id != UNKNOWN_ID).map(u64::from),
            create_time_unix_ns: life.start_ns.and_then(|start_ns| self.unix_ns(start_ns)),
            exit_code: life.exit_code.filter(|_| event == "exited").map(i64::from),
            // Command lines may contain secrets, and redaction needs their separate words, which a trace does not have.
            command_line: None,
        };
        self.out.emit(&row);
    }
}

/// The start time of a process on the traced machine, 0 if it started before the trace. With the id it identifies a process.
fn process_start(life: Option<&ProcessLife>) -> u64 {
    life.and_then(|life| life.start_ns).unwrap_or(0)
}

/// Emits a row whose time is still the traced machine's.
fn emit_kernel(out: &mut Output<'_>, shift: Shift, row: KernelEventRow) {
    let known = |id: Option<u64>| id.filter(|id| *id != u64::from(UNKNOWN_ID));
    out.emit(&KernelEventRow {
        timestamp_ns: shift.apply(row.timestamp_ns),
        pid: known(row.pid),
        tid: known(row.tid),
        ..row
    });
}

impl EtwSink for TraceRows<'_, '_> {
    fn kernel(&mut self, event: &KernelEvent) {
        self.series.kernel(event);
        // `disk` and `hard_fault` get these events with more detail.
        let has_own_method = match event {
            KernelEvent::BlockIo(_) => true,
            KernelEvent::PageFault(fault) => fault.kind == FaultKind::Major,
            _ => false,
        };
        if !has_own_method {
            self.kernel.push(event, &mut |row| emit_kernel(self.out, self.shift, row));
        }
    }

    fn sample(&mut self, sample: &Sample) {
        let is_idle = sample.cpu.thread.is_idle();
        self.series.sample(sample.cpu.at_ns, is_idle, sample.count);
        self.made.samples += 1;
        self.made.samples_with_stack += u64::from(sample.has_stack);
        if is_idle {
            // Nothing ran. The busy series counts the sample.
            self.made.idle_samples += 1;
            return;
        }
        let row = KernelEventRow {
            timestamp_ns: sample.cpu.at_ns,
            kind: "sample".into(),
            processor: Some(u64::from(sample.cpu.cpu)),
            pid: Some(u64::from(sample.cpu.thread.pid)),
            tid: Some(u64::from(sample.cpu.thread.tid)),
            duration_ns: None,
            value: Some(sample.instruction_pointer),
            detail: Some(self.modules.folded(&sample.cpu).into()),
        };
        emit_kernel(self.out, self.shift, row);
    }

    fn stack(&mut self, _stack: &EventStack) {
        self.made.stacks_of_other_events += 1;
    }

    fn process_begins(&mut self, process: &ProcessLife) {
        self.made.processes += 1;
        match process.start_ns {
            Some(start_ns) => self.process(process, "started", start_ns),
            None => self.process(process, "seen", self.shift.base_ns),
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

    fn thread_begins(&mut self, _thread: &ThreadLife) {
        self.made.threads += 1;
    }

    fn image(&mut self, image: &Image) {
        if image.moment != ImageMoment::Load {
            self.made.images_listed += 1;
            return;
        }
        self.made.image_loads += 1;
        self.kernel.image(&image.load(), &mut |row| emit_kernel(self.out, self.shift, row));
    }

    fn disk(&mut self, disk: &DiskTransfer) {
        self.made.disk_transfers += 1;
        let verb = if disk.io.is_write { "write" } else { "read" };
        self.kernel.push(&KernelEvent::BlockIo(disk.io), &mut |row| {
            let file = disk.file.as_deref().map_or_else(|| verb.to_owned(), |file| format!("{verb} {file}"));
            emit_kernel(self.out, self.shift, KernelEventRow { detail: Some(file.into()), ..row });
        });
    }

    fn hard_fault(&mut self, fault: &HardFault) {
        self.made.hard_faults += 1;
        let HardFault { at_ns, cpu, thread, address, .. } = *fault;
        let event = PageFault { at_ns, cpu, thread, address, kind: FaultKind::Major };
        self.kernel.push(&KernelEvent::PageFault(event), &mut |row| {
            let detail = fault.file.as_deref().map(Text::from);
            let row = KernelEventRow { duration_ns: fault.duration_ns, detail, ..row };
            emit_kernel(self.out, self.shift, row);
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
            // `Receive` has counted these bytes already.
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
            row.timestamp_ns = self.shift.apply(row.timestamp_ns);
            self.out.emit(&row);
        }
    }

    fn inference(&mut self, inference: &Inference) {
        self.made.inferences += 1;
        if let Some(mut row) = self.sessions.inference(inference) {
            row.timestamp_ns = self.shift.apply(row.timestamp_ns);
            row.planned_ns = row.timestamp_ns;
            self.out.emit(&row);
        }
    }

    fn operator(&mut self, operator: &OrtOperator) {
        self.made.operators += 1;
        if let Some(mut row) = self.sessions.operator(operator) {
            row.timestamp_ns = self.shift.apply(row.timestamp_ns);
            self.out.emit(&row);
        }
    }

    fn ort(&mut self, row: &OrtRow) {
        if let Some(mut row) = self.sessions.event(row) {
            self.made.operators += 1;
            row.timestamp_ns = self.shift.apply(row.timestamp_ns);
            self.out.emit(&row);
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
            let timestamp_ns = self.shift.apply(row.at_ns);
            self.out.emit(&AnnotationRow { timestamp_ns, kind: "onnxruntime".into(), text: text.into() });
        }
    }

    fn engine_busy(&mut self, busy: &EngineBusy) {
        self.made.engine_packets += 1;
        self.series.engine(busy);
    }

    fn device(&mut self, row: &DeviceRow) {
        self.made.power_events += 1;
        emit_kernel(self.out, self.shift, power_row(row));
    }
}
