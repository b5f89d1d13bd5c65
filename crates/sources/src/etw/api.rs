//! The Windows functions that live sessions need, as a trait.

use std::fmt;
use std::sync::Arc;

use ortscope_decode::etw::live::ProviderId;

use super::consumer::Consumer;
use super::settings::Settings;

/// A Windows error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}", self.0)
    }
}

/// Error codes with a specific meaning for users.
pub mod codes {
    use super::Code;

    pub const SUCCESS: Code = Code(0);
    pub const ACCESS_DENIED: Code = Code(5);
    /// `ERROR_INVALID_DATA`: the session's clock is not the performance counter.
    pub const OTHER_CLOCK: Code = Code(13);
    pub const BAD_LENGTH: Code = Code(24);
    pub const INVALID_PARAMETER: Code = Code(87);
    pub const CALL_NOT_IMPLEMENTED: Code = Code(120);
    /// This version of Windows lacks the function.
    pub const PROC_NOT_FOUND: Code = Code(127);
    pub const ALREADY_EXISTS: Code = Code(183);
    pub const NOT_FOUND: Code = Code(1168);
    pub const CANCELLED: Code = Code(1223);
    pub const PRIVILEGE_NOT_HELD: Code = Code(1314);
    pub const NO_SYSTEM_RESOURCES: Code = Code(1450);
    pub const WMI_GUID_NOT_FOUND: Code = Code(4200);
    pub const INSTANCE_NOT_FOUND: Code = Code(4201);
}

/// Result of a function.
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
    /// Raises the number of buffers of a running session.
    MaximumBuffers(u32),
}

/// State of a session as reported by Windows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionStatus {
    pub name: String,
    /// Empty if the session does not write to a file.
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

/// Information classes of `TraceSetInformation` and `TraceQueryInformation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InformationClass {
    StackTracing = 3,
    KernelFlags = 4,
    SampleInterval = 5,
    /// Available processor counters; query only.
    ProfileSources = 7,
    CounterEvents = 8,
    Counters = 9,
    /// Maximum number of concurrent counters; query only.
    MaxCounters = 22,
}

/// A request to a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Request {
    Disable,
    Enable,
    /// Report existing state: ONNX Runtime names the existing sessions.
    CaptureState,
}

/// The functions. Errors are Windows error codes; [`super::EtwError`] explains them in context.
pub trait EtwApi: Send + Sync + fmt::Debug {
    /// Whether the functions report success without doing anything, as in Wine; then privileges mean nothing either.
    fn is_emulated(&self) -> bool;
    /// A program without a desktop, such as a service, which cannot be started by "Run as administrator".
    fn is_service(&self) -> bool;
    /// Frequency of the performance counter.
    fn ticks_per_second(&self) -> u64;
    /// Required for processor samples and counters.
    fn enable_profile_privilege(&self) -> Answer<()>;
    /// `StartTraceW`. Kernel flags are set later, together with stacks.
    fn start(&self, settings: &Settings) -> Answer<SessionHandle>;
    /// `ControlTraceW`, by name.
    fn control(&self, name: &str, what: Control) -> Answer<SessionStatus>;
    /// `QueryAllTracesW`.
    fn sessions(&self) -> Answer<Vec<SessionStatus>>;
    /// `TraceSetInformation`; without a session for machine-wide settings.
    fn set_information(
        &self,
        session: Option<SessionHandle>,
        class: InformationClass,
        data: &[u8],
    ) -> Answer<()>;
    /// `TraceQueryInformation` of machine-wide settings; the answer overwrites the question.
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
    /// `OpenTraceW` of a session in real time with raw timestamps. The consumer gets every record.
    fn open(&self, name: &str, consumer: Arc<Consumer>) -> Answer<TraceHandle>;
    /// `ProcessTrace`: returns when the session has ended or the trace is closed.
    fn process(&self, trace: TraceHandle) -> Answer<()>;
    /// `CloseTrace`.
    fn close(&self, trace: TraceHandle) -> Answer<()>;
    /// Marks a session as owned by a running process, until the mark is dropped or the process exits. `None` if
    /// another running process owns it.
    fn claim(&self, name: &str) -> Option<Box<dyn Send + Sync>>;
}
