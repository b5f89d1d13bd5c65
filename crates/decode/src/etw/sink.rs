//! The results of decoding a trace, and their receiver.

use std::sync::Arc;

use ortscope_core::kernel::{BlockIo, CpuSample, ImageLoad, KernelEvent, Switch, Task};
use ortscope_etl::Guid;
use ortscope_etl::payload::kernel::Endpoints;

use super::dxg::{EngineBusy, GpuPacket};
use super::fields::Fields;
use super::lifetimes::{ProcessLife, ThreadLife};
use super::ort::{Inference, OrtActivity, OrtOperator, OrtRow, OrtSession};
use super::wait_reason::WaitReason;

/// Receives the results of a trace. All methods are optional.
///
/// Times are nanoseconds on the traced machine's clock ([`EtwDecoder::unix_ns`](super::EtwDecoder::unix_ns) converts
/// them to dates). Kernel events arrive in the order of the records; results with a start and an end arrive at their
/// end.
#[expect(unused_variables, reason = "the parameter names are documentation")]
pub trait EtwSink {
    fn kernel(&mut self, event: &KernelEvent) {}
    /// Details of a context switch beyond its [`KernelEvent`], which follows.
    fn switch(&mut self, switch: &SwitchDetail<'_>) {}
    /// With its stack, therefore later than other events of the same time.
    fn sample(&mut self, sample: &Sample) {}
    /// A processor counter overflowed.
    fn counter_sample(&mut self, sample: &CounterSample) {}
    /// The stack, or a part of it, of an event that is not a sample.
    fn stack(&mut self, stack: &EventStack) {}
    fn process_begins(&mut self, process: &ProcessLife) {}
    /// A process with all its data: when it has ended, or at the end of the trace.
    fn process_ends(&mut self, process: &ProcessLife) {}
    fn thread_begins(&mut self, thread: &ThreadLife) {}
    /// A thread with its account: when it has ended, or at the end of the trace.
    fn thread_ends(&mut self, thread: &ThreadLife) {}
    fn image(&mut self, image: &Image) {}
    /// The symbol file of an image.
    fn image_symbols(&mut self, symbols: &ImageSymbols) {}
    fn disk(&mut self, disk: &DiskTransfer) {}
    fn disk_flush(&mut self, flush: &DiskFlush) {}
    fn file(&mut self, operation: &FileOperation) {}
    fn hard_fault(&mut self, fault: &HardFault) {}
    fn virtual_memory(&mut self, call: &VirtualMemory) {}
    fn network(&mut self, transfer: &NetworkTransfer) {}
    fn interrupt(&mut self, interrupt: &InterruptTime) {}
    fn session(&mut self, session: &OrtSession) {}
    fn inference(&mut self, inference: &Inference) {}
    fn operator(&mut self, operator: &OrtOperator) {}
    fn ort_activity(&mut self, activity: &OrtActivity) {}
    /// Every ONNX Runtime event with its fields, including those with another result.
    fn ort(&mut self, row: &OrtRow) {}
    /// A GPU or NPU engine worked for a process.
    fn engine_busy(&mut self, busy: &EngineBusy) {}
    /// A packet from the system's queue to its completion.
    fn gpu_packet(&mut self, packet: &GpuPacket) {}
    /// Energy, power, frequency and temperature events.
    fn device(&mut self, row: &DeviceRow) {}
}

/// Ignores all results; everything is still decoded and counted.
impl EtwSink for () {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchDetail<'a> {
    pub switch: Switch,
    /// Wait reason of the old thread.
    pub wait: Option<WaitReason>,
    pub old_state: i8,
    pub old_priority: i8,
    pub new_priority: i8,
    /// Processor counters at this time, named by [`EtwDecoder::counter_names`](super::EtwDecoder::counter_names).
    pub counters: &'a [u64],
    /// Counter growth since the old thread was switched in; `None` if unknown or not counted.
    pub counted: Option<&'a [u64]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Frames, innermost first. Without a stack only the executed one.
    pub cpu: CpuSample,
    pub instruction_pointer: u64,
    /// Number of samples that it represents.
    pub count: u16,
    pub priority: u8,
    pub in_dpc: bool,
    pub in_interrupt: bool,
    pub has_stack: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterSample {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    pub instruction_pointer: u64,
    pub source: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventStack {
    /// The time of its event.
    pub at_ns: u64,
    pub cpu: u32,
    /// The kernel event's hook; `None` for others.
    pub hook: Option<u16>,
    pub thread: Task,
    pub kernel: Vec<u64>,
    pub user: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageMoment {
    Load,
    Unload,
    /// It existed when the trace began.
    Before,
    /// It existed when the trace ended.
    After,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    pub at_ns: u64,
    pub moment: ImageMoment,
    /// 0 for the kernel and its drivers.
    pub pid: u32,
    pub base: u64,
    pub bytes: u64,
    /// The kernel's name, such as `\Device\HarddiskVolume3\Windows\System32\ntdll.dll`.
    pub path: String,
    pub checksum: Option<u32>,
    pub time_date_stamp: Option<u32>,
}

impl Image {
    pub fn load(&self) -> ImageLoad {
        ImageLoad {
            at_ns: self.at_ns,
            pid: self.pid,
            address: self.base,
            bytes: self.bytes,
            path: self.path.clone().into_bytes(),
            build_id: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSymbols {
    pub pid: u32,
    pub base: u64,
    pub signature: Guid,
    pub age: u32,
    pub pdb: String,
}

/// A completed disk read or write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskTransfer {
    pub io: BlockIo,
    pub byte_offset: u64,
    pub file: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskFlush {
    pub at_ns: u64,
    pub thread: Task,
    pub disk: u32,
    pub device_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileVerb {
    Create,
    Cleanup,
    Close,
    Flush,
    Read,
    Write,
    SetInformation,
    Delete,
    Rename,
    QueryInformation,
    Control,
    ReadDirectory,
    WatchDirectory,
}

/// A request to a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOperation {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    pub verb: FileVerb,
    pub file: Option<Arc<str>>,
    /// Requested bytes of reads and writes.
    pub bytes: Option<u32>,
    pub offset: Option<u64>,
    /// `None` if its end was not recorded; ends are logged only together with starts.
    pub end: Option<FileEnd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileEnd {
    pub duration_ns: u64,
    /// An NTSTATUS; negative as a signed number means failure.
    pub status: u32,
    /// Bytes read or written.
    pub information: u64,
}

/// A page was read from disk because it was accessed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HardFault {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    pub address: u64,
    pub bytes: u32,
    /// `None` if the trace's clock differs from the event's.
    pub duration_ns: Option<u64>,
    pub file: Option<Arc<str>>,
}

/// VirtualAlloc or VirtualFree. Address space is also in the [`KernelEvent`]s, committed memory only here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VirtualMemory {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    pub address: u64,
    pub bytes: u64,
    pub is_free: bool,
    /// 0x1000 commit, 0x2000 reserve, 0x4000 decommit, 0x8000 release.
    pub flags: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NetworkVerb {
    Send,
    Receive,
    Connect,
    Accept,
    Disconnect,
    Retransmit,
    Reconnect,
    /// Received bytes were copied to the program's memory; `Receive` already counted them.
    Copy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkTransfer {
    pub at_ns: u64,
    pub pid: u32,
    pub protocol: Protocol,
    pub verb: NetworkVerb,
    pub bytes: u32,
    pub endpoints: Endpoints,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InterruptKind {
    Interrupt,
    /// A deferred procedure call, the second half of an interrupt.
    Deferred,
}

/// A processor was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterruptTime {
    pub begin_ns: u64,
    pub end_ns: u64,
    pub cpu: u32,
    pub kind: InterruptKind,
    pub routine: u64,
}

/// An event of a power or energy provider.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRow {
    pub at_ns: u64,
    pub cpu: u32,
    pub provider: &'static str,
    /// The event's name, such as `ThermalCapChange`.
    pub name: String,
    pub fields: Fields,
}
