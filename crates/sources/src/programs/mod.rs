//! Inferences of instrumented programs: every process that writes below one directory, also those that come later.
//!
//! ```text
//! base/process-<pid>-<time>/*.ring      one directory per process: session numbers are each process's own
//! ```
//! A process needs nobody's permission and waits for nobody: it makes its directory and writes. Here the directories are
//! found, their records become rows, and their messages become sessions, operators and marks on the time line.

mod process;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ortscope_channel::ChannelError;
use ortscope_channel::disk::remove_temporary_directory;
use ortscope_core::identity::ProcessIdentity;
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Control, CostClass, Emitter, Source, SourceError, SourceInfo, WhenFull};
use ortscope_core::schema::SessionRow;

pub use ortscope_channel::CHANNEL_VARIABLE;
pub use ortscope_channel::message::{NamedShape, ProgramMessage, SessionNote};
use process::Process;

/// As for a single channel: often enough for a live view, seldom enough not to disturb.
const PERIOD_NS: u64 = 50_000_000;
const BUSY_PERIOD_NS: u64 = 5_000_000;
/// From this share on a ring fills up fast.
const BUSY_FULLNESS: f64 = 0.25;
/// How often it is asked whether processes are gone, whose rings take memory.
const CLEANING_NS: u64 = 1_000_000_000;
/// Processes read at once. Those beyond are not read, and counted as lost once each.
const MAX_PROCESSES: usize = 1024;

/// What happened to a process. A recording keeps the place of the rings and the names of their sessions, so that it can
/// be read after a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessChange {
    /// It is new, or it has more sessions than were foreseen.
    Seen { directory: PathBuf, session_ids: Vec<String> },
    /// It is gone, what it wrote is kept, and its rings are removed.
    Gone { directory: PathBuf },
}

/// Is told of every change.
pub type OnProcess = Box<dyn Fn(ProcessChange) + Send>;

/// Whether a process still runs. One whose start is not known counts as running if another has its id.
pub fn is_alive(process: ProcessIdentity) -> bool {
    crate::process_usage(process.pid)
        .is_ok_and(|found| process.start == 0 || found.identity.start == process.start)
}

/// How far reading has come, for those who wait for it.
#[derive(Debug, Default)]
pub struct ReadProgress {
    passes: AtomicU64,
    positions: AtomicU64,
}

impl ReadProgress {
    /// Passes over all rings that are complete.
    pub fn passes(&self) -> u64 {
        self.passes.load(Ordering::Acquire)
    }

    /// Positions sent on so far: rows of `channel_positions`, each behind all that was read up to it.
    pub fn positions(&self) -> u64 {
        self.positions.load(Ordering::Acquire)
    }
}

/// Reads the channels of all processes below a directory until it is stopped, then once more.
pub struct ProgramsSource {
    info: SourceInfo,
    base: PathBuf,
    on_process: OnProcess,
    progress: Arc<ReadProgress>,
    processes: BTreeMap<PathBuf, Process>,
    /// Directories that were not taken up, to count each once.
    beyond: BTreeSet<PathBuf>,
    cleaned_ns: u64,
}

impl std::fmt::Debug for ProgramsSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramsSource").field("base", &self.base).finish_non_exhaustive()
    }
}

impl ProgramsSource {
    pub fn new(base: &Path, on_process: OnProcess) -> Self {
        let info = SourceInfo {
            name: "programs",
            tracks: ["inferences", "sessions", "operators", "annotations"].map(str::to_owned).to_vec(),
            cost: CostClass::Low,
            when_full: WhenFull::DropAndCount,
        };
        Self {
            info,
            base: base.to_owned(),
            on_process,
            progress: Arc::default(),
            processes: BTreeMap::new(),
            beyond: BTreeSet::new(),
            cleaned_ns: 0,
        }
    }

    /// Listens in on processes that somebody else reads; others are not looked for.
    pub fn overhearing() -> Self {
        Self::new(Path::new(""), Box::new(|_| {}))
    }

    fn is_overhearing(&self) -> bool {
        self.base.as_os_str().is_empty()
    }

    /// Listens in on one, under the names that its sessions have there; `known` is what was told of them before.
    pub fn overhear(
        &mut self,
        directory: &Path,
        session_ids: Vec<String>,
        known: Vec<SessionRow>,
    ) -> Result<(), ChannelError> {
        let process = Process::overheard(directory, session_ids, known)?;
        self.processes.insert(directory.to_owned(), process);
        Ok(())
    }

    pub fn progress(&self) -> Arc<ReadProgress> {
        Arc::clone(&self.progress)
    }

    /// Knows a process before it writes: nothing of it is lost, however soon everything ends.
    pub fn expect(&mut self, directory: &Path) {
        let process = Process::new(directory);
        self.tell_seen(directory, process.session_ids());
        self.processes.insert(directory.to_owned(), process);
    }

    fn tell_seen(&self, directory: &Path, session_ids: &[String]) {
        let (directory, session_ids) = (directory.to_owned(), session_ids.to_vec());
        (self.on_process)(ProcessChange::Seen { directory, session_ids });
    }

    /// Forgets processes that are gone and frees what their rings take.
    fn clean(&mut self) {
        let over = self.processes.iter().filter(|(_, process)| process.is_over());
        let over: Vec<PathBuf> = over.map(|(path, _)| path.clone()).collect();
        for directory in over {
            self.processes.remove(&directory);
            // What cannot be removed now goes with the directory above it.
            remove_temporary_directory(&directory).ok();
            (self.on_process)(ProcessChange::Gone { directory });
        }
    }

    fn find_processes(&mut self) -> Result<(), SourceError> {
        if self.is_overhearing() {
            return Ok(());
        }
        let failed = |error: std::io::Error| SourceError::Failed(error.to_string());
        let entries = match fs_err::read_dir(&self.base) {
            Ok(entries) => entries,
            // Before the first process there may be nothing.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            let is_new = !self.processes.contains_key(&path);
            if !is_new || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if self.processes.len() >= MAX_PROCESSES {
                self.beyond.insert(path);
                continue;
            }
            self.beyond.remove(&path);
            self.expect(&path);
        }
        Ok(())
    }

    /// Reads what is new of all processes; how full the fullest ring is.
    fn pass(&mut self, out: &mut Emitter, now_ns: u64) -> Result<f64, SourceError> {
        self.find_processes()?;
        let mut fullness: f64 = 0.0;
        let mut grown = Vec::new();
        for (path, process) in &mut self.processes {
            let known = process.session_ids().len();
            // A process that cannot be read must not keep the others from being read.
            if let Err(error) = process.pass(out, now_ns) {
                out.lost("unreadable rings", 1);
                process.give_up(out, now_ns, &error.to_string());
            }
            if process.session_ids().len() != known {
                grown.push(path.clone());
            }
            fullness = fullness.max(process.fullness());
        }
        for path in grown {
            self.tell_seen(&path, self.processes[&path].session_ids());
        }
        let positions = self.processes.values().map(Process::positions).sum();
        self.progress.positions.store(positions, Ordering::Release);
        self.progress.passes.fetch_add(1, Ordering::Release);
        Ok(fullness)
    }
}

impl Source for ProgramsSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn probe(&mut self) -> Availability {
        Availability::Ready
    }

    fn run(&mut self, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
        let mut sent_at_mark = None;
        let mut next = control.clock().now_ns();
        loop {
            // Asked before reading, so that what was written last is still read.
            let stopped = control.is_stopped();
            let now = control.clock().now_ns();
            if sent_at_mark.is_some_and(|sent| out.kept() >= sent) {
                self.processes.values_mut().for_each(Process::release);
                sent_at_mark = None;
                if now.saturating_sub(self.cleaned_ns) >= CLEANING_NS {
                    self.cleaned_ns = now;
                    self.clean();
                }
            }
            let fullness = self.pass(out, now)?;
            if stopped {
                self.processes.values_mut().for_each(|process| process.finish(out));
                out.lost("processes", self.beyond.len() as u64);
                return Ok(());
            }
            if self.is_overhearing() && now.saturating_sub(self.cleaned_ns) >= CLEANING_NS {
                self.cleaned_ns = now;
                if !self.processes.values().any(Process::is_alive) {
                    // What was written since the pass above.
                    self.pass(out, now)?;
                    return Ok(());
                }
            }
            if sent_at_mark.is_none() {
                self.processes.values_mut().for_each(Process::mark);
                sent_at_mark = Some(out.sent());
            }
            let period = if fullness > BUSY_FULLNESS { BUSY_PERIOD_NS } else { PERIOD_NS };
            next = (next + period).max(now);
            control.sleep_until(next);
        }
    }
}
