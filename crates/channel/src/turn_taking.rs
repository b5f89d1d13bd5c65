//! Lets two compared processes take turns: while one runs, the other sleeps. Both see the same machine, whose speed
//! may change from second to second, and neither disturbs the other.
//!
//! The active process passes the turn on between two of its inferences. The supervisor marks a process that has ended
//! for any reason, and the other continues alone.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::shared_memory::SharedMemory;
use crate::{ChannelError, private_files};

const FILE_NAME: &str = "turns";
const PAGE_BYTES: usize = 4096;
const TURN: usize = 0;
const READY: [usize; 2] = [64, 128];
const DONE: [usize; 2] = [192, 256];
/// Polling interval of the waiting process: short enough for turns of 10 ms, long enough not to disturb.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// One of the two that take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    A,
    B,
}

impl Side {
    fn index(self) -> usize {
        match self {
            Self::A => 0,
            Self::B => 1,
        }
    }

    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// Whose turn it is.
#[derive(Debug)]
pub struct TurnTaking {
    memory: SharedMemory,
}

impl TurnTaking {
    /// Made before the two are started.
    pub fn create(directory: &Path, first: Side) -> Result<Self, ChannelError> {
        private_files::create_allocated(&directory.join(FILE_NAME), PAGE_BYTES as u64)?;
        let page = Self::open(directory)?;
        page.memory.word(TURN).store(first.index() as u64, Ordering::Release);
        Ok(page)
    }

    pub fn open(directory: &Path) -> Result<Self, ChannelError> {
        let path = directory.join(FILE_NAME);
        let file = fs_err::OpenOptions::new().read(true).write(true).open(&path)?;
        let memory = SharedMemory::map(file.file())?;
        if memory.len() < PAGE_BYTES {
            return Err(ChannelError::NotARing {
                path: path.display().to_string(),
                problem: "the page of turns is too short".into(),
            });
        }
        Ok(Self { memory })
    }

    /// Sleeps until it is this side's turn, at first for all of `nap` unless it already is. The first turn begins
    /// when both sides have called this. Returns false if `stop` returned true first.
    pub fn wait(&self, side: Side, nap: Duration, mut stop: impl FnMut() -> bool) -> bool {
        self.memory.word(READY[side.index()]).store(1, Ordering::Release);
        let mut sleep = nap.max(LOOK_EVERY);
        while !self.is_turn_of(side) {
            if stop() {
                return false;
            }
            std::thread::sleep(sleep);
            sleep = LOOK_EVERY;
        }
        true
    }

    /// Passes the turn to the other side.
    pub fn pass(&self, side: Side) {
        self.memory.word(TURN).store(side.other().index() as u64, Ordering::Release);
    }

    /// This side takes no more turns.
    pub fn finish(&self, side: Side) {
        self.memory.word(DONE[side.index()]).store(1, Ordering::Release);
    }

    fn is_turn_of(&self, side: Side) -> bool {
        let is_set = |at: usize| self.memory.word(at).load(Ordering::Acquire) != 0;
        let other = side.other().index();
        is_set(DONE[other])
            || (is_set(READY[other]) && self.memory.word(TURN).load(Ordering::Acquire) == side.index() as u64)
    }
}
