//! Inferences of instrumented programs: every process that writes below one directory, including later ones.
//!
//! ```text
//! base/process-<pid>-<time>/*.ring      one directory per process: session numbers are local to it
//! ```
//! A process needs no permission and never waits: it creates its directory and writes. This source finds the
//! directories, turns records into rows, and messages into sessions, operators and timeline marks.

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

/// The same intervals as for a single channel.
const PERIOD_NS: u64 = 50_000_000;
const BUSY_PERIOD_NS: u64 = 5_000_000;
/// Fullness from which a ring is read at the shorter interval.
const BUSY_FULLNESS: f64 = 0.25;
/// Interval for removing the rings of exited processes, which use memory.
const CLEANUP_INTERVAL_NS: u64 = 1_000_000_000;
/// Interval of the search for processes that have begun to record.
const DISCOVERY_INTERVAL_NS: u64 = 2_000_000_000;
/// Limit for concurrently read processes. Further ones are not read and are counted as lost once each.
const MAX_PROCESSES: usize = 1024;

/// A change of a process. A recording stores the location of the rings and the session names, so that it can be
/// recovered after a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessChange {
    /// A new process, or one with more sessions than it had ids for.
    Seen { directory: PathBuf, session_ids: Vec<String> },
    /// The process has exited, its data is stored, and its rings are removed.
    Gone { directory: PathBuf },
}

/// Adds processes that have begun to record; called every [`DISCOVERY_INTERVAL_NS`].
pub type Discover = Box<dyn FnMut(&mut ProgramsSource) + Send>;

/// Callback for every change.
pub type OnProcess = Box<dyn Fn(ProcessChange) + Send>;

/// Whether a process is running. Without a known start time, any process with its id counts.
pub fn is_alive(process: ProcessIdentity) -> bool {
    crate::process_usage(process.pid)
        .is_ok_and(|found| process.start == 0 || found.identity.start == process.start)
}

/// Progress of the reader, for those who wait for it.
#[derive(Debug, Default)]
pub struct ReadProgress {
    passes: AtomicU64,
    positions: AtomicU64,
}

impl ReadProgress {
    /// Completed passes over all rings.
    pub fn passes(&self) -> u64 {
        self.passes.load(Ordering::Acquire)
    }

    /// Number of sent positions (rows of `channel_positions`); each follows the data up to it.
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
    /// Directories beyond the limit, to count each once.
    beyond: BTreeSet<PathBuf>,
    cleaned_ns: u64,
    discover: Option<Discover>,
    discovered_ns: u64,
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
            discover: None,
            discovered_ns: 0,
        }
    }

    /// A source for processes that another reader owns; it does not search for others.
    pub fn observing() -> Self {
        Self::new(Path::new(""), Box::new(|_| {}))
    }

    /// A source for all processes that `discover` adds over time. It runs until it is stopped.
    pub fn discovering(discover: Discover) -> Self {
        Self { discover: Some(discover), ..Self::observing() }
    }

    /// Whether the process with this directory is being read.
    pub fn reads(&self, directory: &Path) -> bool {
        self.processes.contains_key(directory)
    }

    fn is_observing(&self) -> bool {
        self.base.as_os_str().is_empty()
    }

    /// Adds a process that another reader owns, with that reader's session ids; `known` are its existing sessions.
    pub fn observe(
        &mut self,
        directory: &Path,
        session_ids: Vec<String>,
        known: Vec<SessionRow>,
    ) -> Result<(), ChannelError> {
        let process = Process::observed(directory, session_ids, known)?;
        self.processes.insert(directory.to_owned(), process);
        Ok(())
    }

    pub fn progress(&self) -> Arc<ReadProgress> {
        Arc::clone(&self.progress)
    }

    /// Registers a process before it writes, so that nothing is lost even if everything ends quickly.
    pub fn expect(&mut self, directory: &Path) {
        let process = Process::new(directory);
        self.notify_seen(directory, process.session_ids());
        self.processes.insert(directory.to_owned(), process);
    }

    fn notify_seen(&self, directory: &Path, session_ids: &[String]) {
        let (directory, session_ids) = (directory.to_owned(), session_ids.to_vec());
        (self.on_process)(ProcessChange::Seen { directory, session_ids });
    }

    /// Drops exited processes and removes their rings.
    fn clean(&mut self) {
        let over = self.processes.iter().filter(|(_, process)| process.is_over());
        let over: Vec<PathBuf> = over.map(|(path, _)| path.clone()).collect();
        for directory in over {
            self.processes.remove(&directory);
            // If this fails, it is removed with the parent directory.
            remove_temporary_directory(&directory).ok();
            (self.on_process)(ProcessChange::Gone { directory });
        }
    }

    fn find_processes(&mut self) -> Result<(), SourceError> {
        if self.is_observing() {
            return Ok(());
        }
        let failed = |error: std::io::Error| SourceError::Failed(error.to_string());
        let entries = match fs_err::read_dir(&self.base) {
            Ok(entries) => entries,
            // The directory may not exist before the first process.
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

    /// Searches for processes that have begun to record, if it is time.
    fn discover(&mut self, now_ns: u64) {
        let Some(mut discover) = self.discover.take() else { return };
        if self.discovered_ns == 0 || now_ns.saturating_sub(self.discovered_ns) >= DISCOVERY_INTERVAL_NS {
            self.discovered_ns = now_ns;
            discover(self);
        }
        self.discover = Some(discover);
    }

    /// Observed processes that have exited. Rings of processes without another reader are removed by [`Self::clean`].
    fn exited(&self) -> Vec<PathBuf> {
        let exited =
            self.processes.iter().filter(|(_, process)| process.is_observed() && !process.is_alive());
        exited.map(|(path, _)| path.clone()).collect()
    }

    /// Reads new data of all processes and returns the fullness of the fullest ring.
    fn pass(&mut self, out: &mut Emitter, now_ns: u64) -> Result<f64, SourceError> {
        self.find_processes()?;
        let mut fullness: f64 = 0.0;
        let mut grown = Vec::new();
        for (path, process) in &mut self.processes {
            let known = process.session_ids().len();
            // An unreadable process must not affect the others.
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
            self.notify_seen(&path, self.processes[&path].session_ids());
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
            // Loaded before reading, so that the last records are still read.
            let stopped = control.is_stopped();
            let now = control.clock().now_ns();
            if sent_at_mark.is_some_and(|sent| out.kept() >= sent) {
                self.processes.values_mut().for_each(Process::release);
                sent_at_mark = None;
                if now.saturating_sub(self.cleaned_ns) >= CLEANUP_INTERVAL_NS {
                    self.cleaned_ns = now;
                    self.clean();
                }
            }
            self.discover(now);
            let fullness = self.pass(out, now)?;
            if stopped {
                self.processes.values_mut().for_each(|process| process.finish(out));
                out.lost("processes", self.beyond.len() as u64);
                return Ok(());
            }
            if self.is_observing() && now.saturating_sub(self.cleaned_ns) >= CLEANUP_INTERVAL_NS {
                self.cleaned_ns = now;
                let is_over = !self.processes.values().any(Process::is_alive);
                let exited = self.exited();
                if is_over || !exited.is_empty() {
                    // Reads what was written since the previous pass.
                    self.pass(out, now)?;
                }
                if is_over && self.discover.is_none() {
                    return Ok(());
                }
                for directory in exited {
                    self.processes.remove(&directory);
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
