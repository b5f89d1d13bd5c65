//! Decodes Event Tracing for Windows: from the records of a trace to processes, threads, switches, samples with stacks,
//! I/O, inferences and engine times.
//!
//! [`EtwDecoder`] receives every record in chronological order and passes results to an [`EtwSink`]. It does no I/O and
//! works on every system. A trace may be read twice: [`EtwDecoder::learn`] collects in a first pass what a trace
//! contains too late (schemas, file names, the process of a thread); without it these are unknown until then.
//!
//! All tables are bounded. Every event is counted by its outcome ([`Coverage`]), and every table counts what it had to
//! drop. Nothing here panics on any input.

mod cores;
mod coverage;
mod dxg;
mod fields;
mod file_sums;
mod filter;
mod io;
mod kernel;
mod kernel_io;
mod lifetimes;
pub mod live;
mod modules;
mod ort;
mod ort_rows;
mod profile_sources;
mod samples;
mod sink;
#[cfg(test)]
mod tests;
mod wait_reason;

pub use cores::Core;
pub use coverage::{Coverage, EventKind, Unused};
pub use dxg::{AdapterInfo, DxgCounts, Engine, EngineBusy, EngineInfo, EngineTotal, GpuPacket, PacketKind};
pub use fields::{FieldValue, Fields};
pub use file_sums::FileSums;
pub use filter::{Filtered, Filtering, ProcessFilter};
pub use io::IoCounts;
pub use lifetimes::{LifeCounts, ProcessLife, ProcessTotals, ThreadAccount, ThreadLife, UNKNOWN_ID, Wait};
pub use modules::{KERNEL_PROCESSES, Modules};
pub use ort::{Inference, OrtActivity, OrtCounts, OrtOperator, OrtRow, OrtSession};
pub use ort_rows::{OrtRows, power_row};
pub use profile_sources::{ProfileSource, profile_sources};
pub use samples::SampleCounts;
pub use sink::{
    CounterSample, DeviceRow, DiskFlush, DiskTransfer, EtwSink, EventStack, FileEnd, FileOperation, FileVerb,
    HardFault, Image, ImageMoment, ImageSymbols, InterruptKind, InterruptTime, NetworkTransfer, NetworkVerb,
    Protocol, Sample, SwitchDetail, VirtualMemory,
};
pub use wait_reason::WaitReason;

use ortscope_core::kernel::threads::{Limits, Threads};
use ortscope_core::kernel::{EventTally, KernelEvent, Task};
use ortscope_etl::payload::builtin::{self, ort::ONNX_RUNTIME};
use ortscope_etl::payload::kernel::{KernelBody, KernelPayload};
use ortscope_etl::payload::stacks::{StackCounts, StackMatcher};
use ortscope_etl::payload::{SchemaSource, SchemaStore};
use ortscope_etl::{
    Clock, ClockKind, EventDescriptor, EventRecord, Guid, Identity, LogFileHeader, PointerSize,
};

use cores::Cores;
use dxg::Dxg;
use io::Io;
use lifetimes::Lifetimes;
use ort::Ort;
use samples::Samples;

/// Limit for processor counters per event.
pub const MAX_COUNTERS: usize = 7;

/// A record that is a year later than the previous one is damaged.
const MAX_GAP_NS: u64 = 365 * 24 * 3600 * 1_000_000_000;

/// Losses of all parts. Nonzero numbers belong in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EtwCounts {
    pub kernel: EventTally,
    pub lives: LifeCounts,
    pub samples: SampleCounts,
    pub stacks: StackCounts,
    pub io: IoCounts,
    pub ort: OrtCounts,
    pub dxg: DxgCounts,
    /// Damaged records that are older than the previous one, or years newer. They get the time of the previous one.
    pub wrong_times: u64,
}

/// Decodes the records of one trace.
#[derive(Debug)]
pub struct EtwDecoder {
    clock: Clock,
    /// Frequency of the counter for the kernel's durations, independent of the trace's clock.
    performance_frequency: u64,
    pointer_size: PointerSize,
    schemas: SchemaStore,
    stacks: StackMatcher,
    lifetimes: Lifetimes,
    cores: Cores,
    threads: Threads,
    samples: Samples,
    io: Io,
    ort: Ort,
    dxg: Dxg,
    coverage: Coverage,
    tally: EventTally,
    counter_names: Vec<String>,
    sample_interval_ns: Option<u64>,
    last_ns: u64,
    wrong_times: u64,
}

impl EtwDecoder {
    pub fn new(header: &LogFileHeader) -> Self {
        Self::with_limits(header, Limits::default())
    }

    /// `limits` are those of [`Self::threads`]; sums of whole lifetimes do not depend on them.
    pub fn with_limits(header: &LogFileHeader, limits: Limits) -> Self {
        Self::with_clock(header.clock, header.performance_frequency, header.pointer_size, limits)
    }

    fn with_clock(
        clock: Clock,
        performance_frequency: u64,
        pointer_size: PointerSize,
        limits: Limits,
    ) -> Self {
        Self {
            clock,
            performance_frequency,
            pointer_size,
            schemas: SchemaStore::new(),
            stacks: StackMatcher::default(),
            lifetimes: Lifetimes::default(),
            cores: Cores::default(),
            threads: Threads::new(limits),
            samples: Samples::default(),
            io: Io::default(),
            ort: Ort::default(),
            dxg: Dxg::default(),
            coverage: Coverage::default(),
            tally: EventTally::default(),
            counter_names: Vec::new(),
            sample_interval_ns: None,
            last_ns: 0,
            wrong_times: 0,
        }
    }

    /// Optional first pass, in any order, for information that comes too late.
    pub fn learn(&mut self, record: &EventRecord<'_>) {
        self.schemas.learn(record);
        let Identity::Kernel { hook, .. } = record.identity else { return };
        // Threads, and file names from a rundown at the end.
        if !matches!(hook.0, 0x0501..=0x0504 | 0x0400 | 0x0424) {
            return;
        }
        match KernelPayload::decode(record).map(|payload| payload.body) {
            Ok(KernelBody::Thread(thread)) => {
                self.lifetimes.learn(thread.thread_id, thread.process_id, record.ticks, hook.kind() == 1);
            }
            Ok(KernelBody::ThreadV0(thread)) => {
                self.lifetimes.learn(thread.thread_id, thread.process_id, record.ticks, hook.kind() == 1);
            }
            Ok(KernelBody::FileName(name)) if !self.io.knows(name.file_object.0) => {
                self.io.name_file(name.file_object.0, name.file_name.to_string());
            }
            _ => {}
        }
    }

    /// Takes the next record in chronological order.
    pub fn push<S: EtwSink + ?Sized>(&mut self, record: &EventRecord<'_>, sink: &mut S) {
        let at_ns = self.moment(record);
        self.lifetimes.advance(at_ns, &self.threads, sink);
        self.schemas.learn(record);
        let (outcome, token) = match record.identity {
            Identity::Kernel { .. } => self.kernel_record(record, at_ns, sink),
            Identity::Classic(classic) if classic.class == ortscope_etl::payload::kernel::METADATA_CLASS => {
                (Ok(()), 0)
            }
            Identity::Classic(_) => self.kernel_record(record, at_ns, sink),
            Identity::Event { provider, descriptor } => {
                (self.event_record(record, provider, &descriptor, at_ns, sink), 0)
            }
            Identity::Message(_) | Identity::Error => (Err(Unused::NoLayout), 0),
        };
        self.coverage.count(record, outcome);
        self.follow_stack(record, token, sink);
    }

    /// Ends the trace: emits everything that is pending.
    pub fn finish<S: EtwSink + ?Sized>(&mut self, sink: &mut S) {
        self.samples.finish(self.pointer_size, sink);
        self.io.finish(sink);
        self.ort.finish();
        self.dxg.finish();
        self.lifetimes.finish(&self.threads, sink);
    }

    /// Emits samples from before this time: a running session has no end at which their stacks could still arrive.
    pub fn settle<S: EtwSink + ?Sized>(&mut self, before_ns: u64, sink: &mut S) {
        self.samples.settle(before_ns, self.pointer_size, sink);
    }

    /// Nanoseconds since the start of the traced machine's clock.
    pub fn at_ns(&self, ticks: u64) -> u64 {
        self.clock.nanos_of(ticks)
    }

    /// Converts to nanoseconds since 1970.
    pub fn unix_ns(&self, at_ns: u64) -> i64 {
        let start_ticks = self.clock.start_ticks();
        let since_start = i128::from(at_ns) - i128::from(self.clock.nanos_of(start_ticks));
        let unix = i128::from(self.clock.unix_ns(start_ticks)) + since_start;
        unix.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// Times never decrease, so that sums of spans never exceed the trace. Headers have their own times and may be
    /// newer than the first events.
    fn moment(&mut self, record: &EventRecord<'_>) -> u64 {
        let told_ns = self.at_ns(record.ticks);
        if matches!(record.identity, Identity::Kernel { hook, .. } if hook.group() == 0) {
            return told_ns;
        }
        let is_wrong = told_ns < self.last_ns || self.last_ns > 0 && told_ns - self.last_ns > MAX_GAP_NS;
        if is_wrong {
            self.wrong_times += 1;
        } else {
            self.last_ns = told_ns;
        }
        self.last_ns
    }

    /// Time of the newest record.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Accounts of the threads, for any interval within their limits.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Times of each processor with a switch or interrupt.
    pub fn cores(&self) -> Vec<Core> {
        self.cores.list()
    }

    /// A process that is running, or ended less than a second ago.
    pub fn process(&self, pid: u32) -> Option<&ProcessLife> {
        self.lifetimes.process(pid)
    }

    pub fn processes(&self) -> impl Iterator<Item = &ProcessLife> {
        self.lifetimes.processes()
    }

    /// Threads that are running, for example from a rundown.
    pub fn live_threads(&self) -> impl Iterator<Item = &ThreadLife> {
        self.lifetimes.threads()
    }

    /// Activity of a running thread so far; [`ThreadLife::account`] has it after the thread has ended.
    pub fn account(&self, life: &ThreadLife) -> ThreadAccount {
        let mut life = life.clone();
        lifetimes::complete(&mut life, &self.threads);
        life.account
    }

    pub fn engines(&self) -> impl Iterator<Item = &EngineInfo> {
        self.dxg.engines()
    }

    pub fn adapters(&self) -> impl Iterator<Item = &AdapterInfo> {
        self.dxg.adapters()
    }

    /// Busy time by engine and process.
    pub fn engine_totals(&self) -> impl Iterator<Item = EngineTotal> {
        self.dxg.totals()
    }

    /// Sets the counter names of a session that requested them; a file has its own.
    pub fn set_counter_names(&mut self, names: Vec<String>) {
        self.counter_names = names;
    }

    /// Names of the counters in switches.
    pub fn counter_names(&self) -> &[String] {
        &self.counter_names
    }

    /// The sampling interval of the trace.
    pub fn sample_interval_ns(&self) -> Option<u64> {
        self.sample_interval_ns
    }

    pub fn schemas(&self) -> &SchemaStore {
        &self.schemas
    }

    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    pub fn counts(&self) -> EtwCounts {
        EtwCounts {
            kernel: self.tally,
            lives: self.lifetimes.counts,
            samples: self.samples.counts,
            stacks: self.stacks.counts(),
            io: self.io.counts,
            ort: self.ort.counts,
            dxg: self.dxg.counts,
            wrong_times: self.wrong_times,
        }
    }

    /// A duration in ticks of the performance counter.
    fn counter_ns(&self, ticks: u64) -> u64 {
        let frequency = self.performance_frequency;
        let nanos = (u128::from(ticks) * 1_000_000_000).checked_div(u128::from(frequency)).unwrap_or(0);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// Whether times in payloads, which use the performance counter, are comparable with those of records.
    fn has_counter_clock(&self) -> bool {
        self.clock.kind() == ClockKind::PerformanceCounter
    }

    fn event_record<S: EtwSink + ?Sized>(
        &mut self,
        record: &EventRecord<'_>,
        provider: Guid,
        descriptor: &EventDescriptor,
        at_ns: u64,
        sink: &mut S,
    ) -> Result<(), Unused> {
        let device = match provider {
            ONNX_RUNTIME => return self.ort.push(record, at_ns, sink),
            builtin::DXGKRNL => match descriptor.id {
                254 | 260 | 261 | 468 | 509 => "Microsoft-Windows-DxgKrnl",
                _ => return self.dxg.push(record, descriptor, &self.schemas, at_ns, sink),
            },
            builtin::ENERGY_ESTIMATION => "Microsoft-Windows-Energy-Estimation-Engine",
            builtin::KERNEL_ACPI => "Microsoft-Windows-Kernel-Acpi",
            builtin::KERNEL_POWER => "Microsoft-Windows-Kernel-Power",
            builtin::KERNEL_PROCESSOR_POWER => "Microsoft-Windows-Kernel-Processor-Power",
            _ => return Err(Unused::NotNeeded),
        };
        let name = self.schemas.schema(record).map(|(_, schema)| match &*schema.opcode {
            "" => schema.task.to_string(),
            opcode => format!("{}/{opcode}", schema.task),
        });
        let mut fields = Fields::default();
        let decoded = self.schemas.decode(record, &mut fields);
        let name = name.filter(|_| decoded.source != SchemaSource::Unknown).ok_or(Unused::NoLayout)?;
        sink.device(&DeviceRow { at_ns, cpu: u32::from(record.processor), provider: device, name, fields });
        Ok(())
    }

    fn follow_stack<S: EtwSink + ?Sized>(&mut self, record: &EventRecord<'_>, token: u64, sink: &mut S) {
        let Self { stacks, samples, pointer_size, clock, lifetimes, .. } = self;
        stacks.push(record, token, |stack| {
            if Samples::is_sample(stack.owner.token) {
                samples.attach(stack.owner.token, stack.process_id, stack.addresses(), *pointer_size);
                return;
            }
            let (mut kernel, mut user) = (Vec::new(), Vec::new());
            samples.counts.dropped_frames +=
                samples::split(stack.addresses(), *pointer_size, &mut kernel, &mut user);
            let thread = match (stack.thread_id, stack.process_id) {
                (Some(tid), Some(pid)) => Task { tid, pid },
                (Some(tid), None) => lifetimes.task(tid, None),
                _ => Task { tid: UNKNOWN_ID, pid: UNKNOWN_ID },
            };
            sink.stack(&EventStack {
                at_ns: clock.nanos_of(stack.owner.ticks),
                cpu: u32::from(stack.owner.processor),
                hook: u16::try_from(stack.owner.token).ok().filter(|hook| *hook != 0),
                thread,
                kernel,
                user,
            });
        });
    }

    fn emit<S: EtwSink + ?Sized>(&mut self, event: &KernelEvent, sink: &mut S) {
        self.tally.count(event);
        self.threads.apply(event);
        self.threads.advance(event.at_ns());
        sink.kernel(event);
    }
}
