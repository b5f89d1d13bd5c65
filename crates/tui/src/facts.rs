//! Facts that the live memory does not hold: the program provides them from its own sources.

use std::fmt;
use std::time::Duration;

use ortscope_core::identity::ProcessIdentity;
use ortscope_core::schema::Text;

/// Who the processes are. Asked for every process at every refresh: answers come from memory, never from the system.
pub trait ProcessFacts {
    /// Name of the program. `None` means the name in the live memory, if any.
    fn name(&self, process: ProcessIdentity) -> Option<Text>;

    /// For the tree.
    fn parent_pid(&self, process: ProcessIdentity) -> Option<u32>;

    /// Redacted unless the user disabled it. Called for the process in the detail pane, and by `once`.
    fn command_line(&self, process: ProcessIdentity) -> Option<Text>;

    /// Its threads, busiest first. Asked for the process in the detail pane alone.
    fn threads(&self, _process: ProcessIdentity) -> Vec<ThreadFacts> {
        Vec::new()
    }
}

/// One thread of the process in the detail pane.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThreadFacts {
    pub tid: u32,
    pub name: Option<Text>,
    /// 100 = one core.
    pub cpu_percent: Option<f64>,
    /// running, ready, waiting, stopped, other.
    pub state: Option<Text>,
}

/// Cost of observing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OwnCost {
    /// Of the whole program; 100 = one core.
    pub cpu_percent: Option<f64>,
    /// Resident memory of the whole program.
    pub memory_bytes: Option<u64>,
}

/// The program's own figures. Called once per refresh.
pub trait OwnFigures {
    /// `None`: the tracks of the device `ortscope` are shown, if there are any.
    fn own_cost(&self) -> Option<OwnCost> {
        None
    }

    /// Records that sources, queues and sinks before the live memory have lost since the start.
    fn lost_records(&self) -> u64 {
        0
    }
}

impl fmt::Debug for dyn OwnFigures + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnFigures")
    }
}

/// Watches over the terminal: reading from one that is gone would never end.
pub trait TerminalWatch {
    /// Waits for input at most this long, or not at all; returns whether the terminal is gone.
    fn gone_within(&self, _wait: Duration) -> bool {
        false
    }
}

impl fmt::Debug for dyn TerminalWatch + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TerminalWatch")
    }
}

/// Knows nothing: names come from the live memory, own cost from its tracks.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFacts;

impl ProcessFacts for NoFacts {
    fn name(&self, _process: ProcessIdentity) -> Option<Text> {
        None
    }

    fn parent_pid(&self, _process: ProcessIdentity) -> Option<u32> {
        None
    }

    fn command_line(&self, _process: ProcessIdentity) -> Option<Text> {
        None
    }
}

impl OwnFigures for NoFacts {}

impl TerminalWatch for NoFacts {}
