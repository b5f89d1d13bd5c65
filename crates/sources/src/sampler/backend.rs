//! The interface between sampling, which is the same on every system, and reading, which is system-specific.

use ortscope_core::clock::ClockReading;
use ortscope_core::metric::Availability;
use ortscope_core::schema::{ProcessSampleRow, SystemSampleRow, Text};

use super::groups::GroupSet;

/// Identity of a process. The name's buffer is reused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    pub pid: u32,
    /// Identifies the process together with the pid; in a system-specific unit.
    pub start: u64,
    /// Raw bytes: on Linux a name need not be UTF-8.
    pub name: Vec<u8>,
    pub parent_pid: Option<u32>,
    pub os_session: Option<u64>,
    pub create_time_unix_ns: Option<u64>,
    pub kernel_thread: bool,
}

/// The state of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum ThreadState {
    Running,
    Ready,
    Waiting,
    Stopped,
    #[default]
    Other,
}

impl ThreadState {
    pub const ALL: [Self; 5] = [Self::Running, Self::Ready, Self::Waiting, Self::Stopped, Self::Other];

    /// Name in the schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ready => "ready",
            Self::Waiting => "waiting",
            Self::Stopped => "stopped",
            Self::Other => "other",
        }
    }
}

/// One thread at one moment.
#[derive(Debug)]
pub struct ThreadReading<'a> {
    pub tid: u32,
    pub name: Option<&'a Text>,
    pub cpu_time_ns: u64,
    pub cpu_cycles: Option<u64>,
    pub context_switches: Option<u64>,
    pub state: Option<ThreadState>,
    pub processor: Option<u64>,
    pub priority: Option<i64>,
}

/// More skipped samples than happen by chance when the system does not report stolen processor time.
pub(crate) const MANY_SKIPPED: u64 = 10;

/// Why a reading failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The process has exited, or its pid was reused. Common.
    #[error("the process has ended")]
    Gone,
    #[error("permission missing")]
    Denied,
    /// This system or kernel version lacks it.
    #[error("not provided by this system")]
    Unsupported,
    #[error("{0}")]
    Failed(String),
}

/// A metric without a value, the reason and a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Column or metric.
    pub track: &'static str,
    pub why: String,
    pub hint: Option<String>,
}

impl Missing {
    pub fn new(track: &'static str, why: impl Into<String>, hint: Option<&str>) -> Self {
        Self { track, why: why.into(), hint: hint.map(str::to_owned) }
    }
}

/// Reads the processes of one system. The sampler assigns small numbers (`slot`) to watched processes, and the backend
/// keeps its state per slot (file descriptors, handles, last values).
///
/// Functions with a row fill the columns of their group and keep the others, so that a row carries its last values.
pub trait ProcessBackend: Send + std::fmt::Debug {
    /// For reports, for example `cpu clock + /proc`.
    fn name(&self) -> &'static str;

    fn probe(&mut self) -> Availability;

    /// Enables cycle counting for processes that are watched from now on, where supported.
    fn count_cycles(&mut self) {}

    /// Metrics that this system can never provide; reported once at the start.
    fn never(&self) -> Vec<Missing>;

    /// Metrics found missing since the last call, due to permissions or the kernel version.
    fn newly_missing(&mut self, _emit: &mut dyn FnMut(Missing)) {}

    /// Starts a tick that will read the groups in `due`. Backends that read everything at once do so here. Slots of
    /// exited processes are added to `ended`.
    fn begin_tick(&mut self, _now_ns: u64, _due: GroupSet, _ended: &mut Vec<usize>) {}

    /// Ids of all processes, in any order.
    fn list(&mut self, pids: &mut Vec<u32>) -> Result<(), ReadError>;

    /// Identity of the process with this id.
    fn look(&mut self, pid: u32, facts: &mut ProcessFacts) -> Result<(), ReadError>;

    /// Starts watching the process identified by `facts`.
    fn watch(&mut self, slot: usize, facts: &ProcessFacts) -> Result<(), ReadError>;

    /// Releases a slot, which will be reused.
    fn forget(&mut self, slot: usize);

    /// Arguments as raw bytes, starting with the program. `None` if unreadable or empty.
    fn command_line(&mut self, slot: usize) -> Option<Vec<Vec<u8>>>;

    /// The current name if it differs from `known`: programs change their name when they execute another one.
    fn renamed(&mut self, _slot: usize, _known: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Exit code of an exited process as its parent sees it; for a signal, 128 plus its number.
    fn exit_code(&mut self, _slot: usize) -> Option<i64> {
        None
    }

    fn cpu(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError>;
    fn memory(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError>;
    fn io(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError>;
    fn details(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError>;

    fn network(&mut self, _slot: usize, _row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        Err(ReadError::Unsupported)
    }

    /// Every thread of a process; also fills the thread columns.
    fn threads(
        &mut self,
        slot: usize,
        row: &mut ProcessSampleRow,
        emit: &mut dyn FnMut(&ThreadReading<'_>),
    ) -> Result<(), ReadError>;

    /// The machine. Ratios are relative to the previous call.
    fn system(&mut self, row: &mut SystemSampleRow) -> Result<(), ReadError>;

    /// Busy ratio of each processor (number, 0 to 1), if updated since the last call. Called after [`Self::system`].
    fn processors(&mut self, _emit: &mut dyn FnMut(u32, f64)) {}

    /// Environment of the processes: (device, metric with its unit, value).
    fn environment(&mut self, _emit: &mut dyn FnMut(&'static str, &'static str, f64)) {}

    /// All clocks at one moment, to detect changes of the wall clock and system sleep.
    fn clocks(&mut self) -> Option<ClockReading> {
        None
    }

    /// Whether processors of this machine stall at times, or so many samples were skipped that they probably do.
    /// Ticks are then also taken by a backup thread on other processors.
    fn needs_backup_thread(&mut self, _skipped: u64) -> bool {
        false
    }

    /// CPU time of the calling thread.
    fn own_cpu_ns(&mut self) -> Option<u64>;

    /// Resident memory of this process.
    fn own_memory_bytes(&mut self) -> Option<u64>;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ortscope_core::clock::ClockWatch;

    /// Regression: Windows did not report clock changes and system sleep.
    #[test]
    fn clocks_are_readable_and_normally_without_steps() {
        let mut backend = crate::sys::process_backend();
        if backend.name() == "none" {
            return;
        }
        let mut watch = ClockWatch::default();
        for _ in 0..4 {
            // A busy machine may delay us between two clock readings.
            let mut readings = (0..1000).map(|_| backend.clocks().expect("clocks"));
            let reading = readings.find(|reading| reading.asleep_ns.is_some()).expect("both clocks");
            assert_eq!(watch.look(reading).collect::<Vec<_>>(), []);
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}
