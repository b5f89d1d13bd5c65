//! The functions of Windows that live sessions need, as one table.

use std::fmt;
use std::sync::Arc;

use ortscope_decode::etw::live::ProviderId;

use super::consumer::Consumer;
use super::settings::Settings;

/// An error of Windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}", self.0)
    }
}

/// Errors that mean something to a user.
pub mod codes {
    use super::Code;

    pub const SUCCESS: Code = Code(0);
    pub const ACCESS_DENIED: Code = Code(5);
    /// `ERROR_INVALID_DATA`: the session's records carry another clock than the performance counter.
    pub const OTHER_CLOCK: Code = Code(13);
    pub const BAD_LENGTH: Code = Code(24);
    pub const INVALID_PARAMETER: Code = Code(87);
    pub const CALL_NOT_IMPLEMENTED: Code = Code(120);
    /// The function is not in this version of Windows.
    pub const PROC_NOT_FOUND: Code = Code(127);
    pub const ALREADY_EXISTS: Code = Code(183);
    pub const NOT_FOUND: Code = Code(1168);
    pub const CANCELLED: Code = Code(1223);
    pub const PRIVILEGE_NOT_HELD: Code = Code(1314);
    pub const NO_SYSTEM_RESOURCES: Code = Code(1450);
    pub const WMI_GUID_NOT_FOUND: Code = Code(4200);
    pub const INSTANCE_NOT_FOUND: Code = Code(4201);
}

/// What a function did when it did not fail.
pub type Answer<T> = Result<T, Code>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionHandle(pub u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceHandle(pub u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Control {
    Query,
    Stop,
    Flush,
    /// More buffers, while it runs.
    MaximumBuffers(u32),
}

/// What Windows tells of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionStatus {
    pub name: String,
    /// Empty where nothing is written to a file.
    pub log_file: String,
    pub buffer_kilobytes: u32,
    pub buffers: u32,
    pub free_buffers: u32,
    pub minimum_buffers: u32,
    pub maximum_buffers: u32,
    pub buffers_written: u32,
    /// Events that found no free buffer.
    pub events_lost: u32,
    /// Buffers that the consumer did not read in time.
    pub real_time_buffers_lost: u32,
    /// Buffers that could not be written to the file.
    pub log_buffers_lost: u32,
    pub mode: u32,
    pub kernel_flags: u32,
}

/// Classes of `TraceSetInformation` and `TraceQueryInformation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InformationClass {
    StackTracing = 3,
    KernelFlags = 4,
    SampleInterval = 5,
    /// What processors can count; only to be asked.
    ProfileSources = 7,
    CounterEvents = 8,
    Counters = 9,
    /// How many counters at once; only to be asked.
    MostCounters = 22,
}

/// What is asked of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Request {
    Disable,
    Enable,
    /// Tell what was before: ONNX Runtime names the sessions that exist already.
    CaptureState,
}

/// The table. Errors are numbers of Windows; [`super::EtwError`] says what they mean in their place.
pub trait EtwApi: Send + Sync + fmt::Debug {
    /// Functions that answer "done" and do nothing: Wine. What it says of rights means nothing.
    fn is_imitation(&self) -> bool;
    /// A program without a desktop, such as a service: nobody could start it by "Run as administrator".
    fn is_service(&self) -> bool;
    /// Ticks of the performance counter in a second.
    fn ticks_per_second(&self) -> u64;
    /// For samples of processors and their counters.
    fn enable_profile_privilege(&self) -> Answer<()>;
    /// `StartTraceW`. Kernel flags are not part of it: they are set when stacks are.
    fn start(&self, settings: &Settings) -> Answer<SessionHandle>;
    /// `ControlTraceW`, by name.
    fn control(&self, name: &str, what: Control) -> Answer<SessionStatus>;
    /// `QueryAllTracesW`.
    fn sessions(&self) -> Answer<Vec<SessionStatus>>;
    /// `TraceSetInformation`; without a session for what belongs to the machine.
    fn set_information(
        &self,
        session: Option<SessionHandle>,
        class: InformationClass,
        data: &[u8],
    ) -> Answer<()>;
    /// `TraceQueryInformation` of what belongs to the machine; the answer begins where the question stood.
    fn query_information(&self, class: InformationClass, question: &[u8]) -> Answer<Vec<u8>>;
    /// `EnableTraceEx2`.
    fn enable(
        &self,
        session: SessionHandle,
        provider: ProviderId,
        request: Request,
        level: u8,
        keywords: u64,
    ) -> Answer<()>;
    /// `OpenTraceW` of a session, in real time, with the stamps as they were taken. The consumer gets every record.
    fn open(&self, name: &str, consumer: Arc<Consumer>) -> Answer<TraceHandle>;
    /// `ProcessTrace`: returns when the session has ended or the trace is closed.
    fn process(&self, trace: TraceHandle) -> Answer<()>;
    /// `CloseTrace`.
    fn close(&self, trace: TraceHandle) -> Answer<()>;
    /// Marks a session as one that a living process owns, until the mark is dropped or the process ends. `None`: another
    /// living process has the mark.
    fn claim(&self, name: &str) -> Option<Box<dyn Send + Sync>>;
}
