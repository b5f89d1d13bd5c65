//! The page through which the observer controls a writer: stop and pause. Reading it costs one memory access, so a
//! measuring loop can check it before every inference.

use std::path::Path;
use std::sync::atomic::Ordering;

use crate::shared_memory::SharedMemory;
use crate::{ChannelError, private_files};

const FILE_NAME: &str = "control";
const PAGE_BYTES: usize = 4096;
const STOP: usize = 0;
const PAUSE: usize = 64;
const WATCHER_ALIVE: usize = 128;

/// Commands from the observer to the writers of a channel.
#[derive(Debug)]
pub struct ControlPage {
    memory: SharedMemory,
}

impl ControlPage {
    /// Makes the page; the observer calls this before it starts a writer.
    pub fn create(directory: &Path) -> Result<Self, ChannelError> {
        let path = directory.join(FILE_NAME);
        if path.exists() {
            // Of an observer that used this directory before.
            fs_err::remove_file(&path)?;
        }
        private_files::create_allocated(&path, PAGE_BYTES as u64)?;
        Self::open(directory)
    }

    pub fn open(directory: &Path) -> Result<Self, ChannelError> {
        let path = directory.join(FILE_NAME);
        let file = fs_err::OpenOptions::new().read(true).write(true).open(&path)?;
        let memory = SharedMemory::map(file.file())?;
        if memory.len() < PAGE_BYTES {
            return Err(ChannelError::NotARing {
                path: path.display().to_string(),
                problem: "the control page is too short".into(),
            });
        }
        Ok(Self { memory })
    }

    pub fn request_stop(&self) {
        self.memory.word(STOP).store(1, Ordering::Release);
    }

    #[inline]
    pub fn stop_requested(&self) -> bool {
        self.memory.word(STOP).load(Ordering::Relaxed) != 0
    }

    pub fn set_paused(&self, paused: bool) {
        self.memory.word(PAUSE).store(u64::from(paused), Ordering::Release);
    }

    #[inline]
    pub fn is_paused(&self) -> bool {
        self.memory.word(PAUSE).load(Ordering::Relaxed) != 0
    }

    /// Heartbeat of the observer, so that a writer whose observer was killed can end.
    pub fn beat(&self, now_ns: u64) {
        self.memory.word(WATCHER_ALIVE).store(now_ns, Ordering::Release);
    }

    /// When the observer last lived, read from the file of a channel that was left behind; the file is not changed.
    pub(crate) fn last_beat_left_in(directory: &Path) -> Option<u64> {
        let page = fs_err::read(directory.join(FILE_NAME)).ok().filter(|page| page.len() == PAGE_BYTES)?;
        let word = page.get(WATCHER_ALIVE..WATCHER_ALIVE + 8)?;
        Some(u64::from_le_bytes(word.try_into().ok()?)).filter(|beat| *beat != 0)
    }

    /// When the observer last lived; `None` before the first beat.
    pub fn last_beat_ns(&self) -> Option<u64> {
        Some(self.memory.word(WATCHER_ALIVE).load(Ordering::Acquire)).filter(|beat| *beat != 0)
    }
}
