//! The seam between sampling, which is the same everywhere, and reading, which is each system's own.

use ortscope_core::clock::ClockReading;
use ortscope_core::metric::Availability;
use ortscope_core::schema::{ProcessSampleRow, SystemSampleRow, Text};

use super::groups::GroupSet;

/// Who a process is. The buffer of the name is reused from one look to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    pub pid: u32,
    /// With the pid it names the process; in the system's own unit.
    pub start: u64,
    /// As the system has it: any bytes on Linux.
    pub name: Vec<u8>,
    pub parent_pid: Option<u32>,
    pub os_session: Option<u64>,
    pub create_time_unix_ns: Option<u64>,
    pub kernel_thread: bool,
}

/// What a thread is doing.
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

    /// As the schema spells it.
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

/// So many samples are not left out by chance where nobody says that processors are taken away.
pub(crate) const MANY_SKIPPED: u64 = 10;

/// Why a reading failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It has ended, or its number belongs to another process now. Ordinary.
    #[error("the process has ended")]
    Gone,
    #[error("permission missing")]
    Denied,
    /// This system or this kernel does not have it.
    #[error("not provided by this system")]
    Unsupported,
    #[error("{0}")]
    Failed(String),
}

/// A metric that has no value, why, and what the user can do.
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

/// Reads processes of one system. The sampler chooses small numbers (`slot`) for the processes it watches; the backend
/// keeps what it needs per slot (file descriptors, handles, the last values).
///
/// Functions with a row fill the columns of their group and leave the others alone: a row carries its last values on.
pub trait ProcessBackend: Send + std::fmt::Debug {
    /// For reports, e.g. `cpu clock + /proc`.
    fn name(&self) -> &'static str;

    fn probe(&mut self) -> Availability;

    /// Count the cycles of processes that are watched from now on, where the machine can.
    fn count_cycles(&mut self) {}

    /// What this system can never give, told once at the start.
    fn never(&self) -> Vec<Missing>;

    /// What was found missing since the last call, for lack of rights or because this kernel lacks it.
    fn newly_missing(&mut self, _tell: &mut dyn FnMut(Missing)) {}

    /// A tick begins that will read these groups. Backends that read everything at once do it here. Slots whose process
    /// is known to have ended go to `ended`.
    fn begin_tick(&mut self, _now_ns: u64, _due: GroupSet, _ended: &mut Vec<usize>) {}

    /// Ids of all processes there are, in any order.
    fn list(&mut self, pids: &mut Vec<u32>) -> Result<(), ReadError>;

    /// Who has this id now.
    fn look(&mut self, pid: u32, facts: &mut ProcessFacts) -> Result<(), ReadError>;

    /// Begins to watch the process that `facts` are of.
    fn watch(&mut self, slot: usize, facts: &ProcessFacts) -> Result<(), ReadError>;

    /// Lets go of a slot; it will be used for another process.
    fn forget(&mut self, slot: usize);

    /// Arguments, the program first; any bytes. `None` if they may not be read or there are none.
    fn command_line(&mut self, slot: usize) -> Option<Vec<Vec<u8>>>;

    /// The present name, if it is another one than the facts said. Programs rename themselves when they execute another.
    fn renamed(&mut self, _slot: usize, _known: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Exit code of a process that has ended, as its parent would see it; a signal is 128 and its number.
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

    /// Every thread of a process; also fills the columns about threads.
    fn threads(
        &mut self,
        slot: usize,
        row: &mut ProcessSampleRow,
        tell: &mut dyn FnMut(&ThreadReading<'_>),
    ) -> Result<(), ReadError>;

    /// The machine. Shares are since the call before.
    fn system(&mut self, row: &mut SystemSampleRow) -> Result<(), ReadError>;

    /// Busy share of each processor (number, 0 to 1), if there is news since the last call. After [`Self::system`].
    fn processors(&mut self, _tell: &mut dyn FnMut(u32, f64)) {}

    /// What surrounds the processes: (device, metric with its unit, value).
    fn environment(&mut self, _tell: &mut dyn FnMut(&'static str, &'static str, f64)) {}

    /// All clocks at one moment, to see whether somebody set the wall clock or the machine slept.
    fn clocks(&mut self) -> Option<ClockReading> {
        None
    }

    /// Processors of this machine stand still at times, or as many samples were left out as make one believe it: ticks are to
    /// be taken by a second thread then, on other processors.
    fn wants_stand_in(&mut self, _skipped: u64) -> bool {
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

    /// Windows told nothing of a clock that was set, nor of a machine that slept.
    #[test]
    fn this_system_tells_its_clocks_and_in_an_ordinary_moment_nothing_happens_to_them() {
        let mut backend = crate::sys::process_backend();
        if backend.name() == "none" {
            return;
        }
        let mut watch = ClockWatch::default();
        for _ in 0..4 {
            // A busy machine may hold us up between two clocks.
            let mut readings = (0..1000).map(|_| backend.clocks().expect("clocks"));
            let reading = readings.find(|reading| reading.asleep_ns.is_some()).expect("both clocks");
            assert_eq!(watch.look(reading).collect::<Vec<_>>(), []);
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}
