//! Inferences of other programs, through their channels.
//!
//! `record` instruments a program before it starts; `attach`, `serve` and `top` read programs that already record.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TrySendError, sync_channel};
use std::time::Duration;

use ortscope_channel::{ChannelDirectory, directories_of, has_reader, recording_of};
use ortscope_core::schema::{SessionRow, TableId};
use ortscope_core::tables::{Scan, Tables as _};
use ortscope_sources::etw::EtwSource;
use ortscope_sources::programs::{CHANNEL_VARIABLE, ProcessChange, ProgramsSource, is_alive};
use ortscope_store::{Recording, RecordingWriter};
use serde::Serialize;

use crate::ort_events;
pub use crate::ort_events::TRACK;

/// Changes that wait to be stored. Further ones are dropped: they matter only after a crash.
const MAX_CHANGES: usize = 4096;

/// A track without values, and why.
#[derive(Debug, Serialize)]
pub struct Unavailable {
    pub track: String,
    pub reason: String,
    pub hint: Option<String>,
}

impl Unavailable {
    /// The row that stores it.
    pub fn row(&self, from_ns: u64) -> ortscope_core::schema::UnavailabilityRow {
        ortscope_core::schema::UnavailabilityRow {
            from_ns,
            to_ns: None,
            track: self.track.as_str().into(),
            reason: self.reason.as_str().into(),
            hint: self.hint.as_deref().map(Into::into),
        }
    }
}

/// Programs whose inferences are read.
#[derive(Debug, Default)]
pub struct Programs {
    source: Option<ProgramsSource>,
    /// ONNX Runtime's own events of processes that do not record.
    events: Option<EtwSource>,
    changes: Option<Receiver<ProcessChange>>,
    home: Option<ChannelDirectory>,
    pub unavailable: Vec<Unavailable>,
}

impl Programs {
    /// For a program that is about to start: it writes below `home`.
    pub fn of_home(home: ChannelDirectory) -> Self {
        let (sender, changes) = sync_channel(MAX_CHANGES);
        let on_change = Box::new(move |change| match sender.try_send(change) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        });
        let source = ProgramsSource::new(home.path(), on_change);
        Self { source: Some(source), changes: Some(changes), home: Some(home), ..Self::default() }
    }

    /// For running processes: reads those that record, and keeps the reason for each of the others.
    pub fn of_running(pids: &[u32]) -> Self {
        let mut programs = Self::default();
        let mut source = ProgramsSource::observing();
        let (mut has_any, mut silent) = (false, Vec::new());
        for pid in pids {
            match observe(&mut source, *pid) {
                Ok(()) => has_any = true,
                Err(why) => {
                    programs.unavailable.push(why);
                    silent.push(*pid);
                }
            }
        }
        programs.source = has_any.then_some(source);
        programs.events =
            Some(silent).filter(|pids| !pids.is_empty()).and_then(|pids| ort_events::source(&pids));
        if programs.events.is_some() {
            // This source reports its own reasons.
            programs.unavailable.clear();
        }
        programs
    }

    pub fn take_source(&mut self) -> Option<ProgramsSource> {
        self.source.take()
    }

    pub fn take_events(&mut self) -> Option<EtwSource> {
        self.events.take()
    }

    pub fn no_inferences(&mut self, reason: impl Into<String>, hint: impl Into<String>) {
        self.unavailable.push(unavailable(reason, hint));
    }

    /// Stores which recording the rings belong to, so that it can be completed after a crash.
    pub fn set_recording(&self, recording: &Path) -> std::io::Result<()> {
        self.home.as_ref().map_or(Ok(()), |home| home.set_recording(recording))
    }

    /// Waits, and meanwhile stores the locations of rings in the recording.
    pub fn wait(&self, period: Duration, recording: Option<&RecordingWriter>) {
        let Some(changes) = &self.changes else {
            std::thread::sleep(period);
            return;
        };
        match changes.recv_timeout(period) {
            Ok(change) => {
                store_location(&change, recording);
                changes.try_iter().for_each(|change| store_location(&change, recording));
            }
            Err(RecvTimeoutError::Timeout) => {}
            // The source has ended early.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(period),
        }
    }
}

fn unavailable(reason: impl Into<String>, hint: impl Into<String>) -> Unavailable {
    Unavailable { track: TRACK.into(), reason: reason.into(), hint: Some(hint.into()) }
}

/// Stores where the rings of a process are: after a crash, the recording is completed from them.
pub fn store_location(change: &ProcessChange, recording: Option<&RecordingWriter>) {
    let Some(recording) = recording else { return };
    let stored = match change {
        ProcessChange::Seen { directory, session_ids } => {
            recording.remove_channel(directory).and_then(|()| recording.add_channel(directory, session_ids))
        }
        ProcessChange::Gone { directory } => recording.remove_channel(directory),
    };
    if let Err(error) = stored {
        tracing::warn!(%error, "a crash now would lose what is still in the rings");
    }
}

/// Reads every program of this machine that records, including programs that start later.
pub fn every_program() -> ProgramsSource {
    ProgramsSource::discovering(Box::new(|source| {
        for process in ortscope_sources::processes().unwrap_or_default() {
            // Most processes do not record: that is no failure.
            observe(source, process.pid).ok();
        }
    }))
}

/// Adds a process to the source, or returns why it cannot be read.
fn observe(source: &mut ProgramsSource, pid: u32) -> Result<(), Unavailable> {
    // The newest: a program that stopped recording and began again has several.
    let named = ortscope_sources::environment_variable(pid, CHANNEL_VARIABLE).map(PathBuf::from);
    let Some(directory) = directories_of(pid, named.as_deref()).pop() else {
        let hint = "start it by 'ortscope record -- …', or have it call ortscope.patch() (Python)";
        return Err(unavailable(format!("process {pid} does not record its inferences"), hint));
    };
    if source.reads(&directory) {
        return Ok(());
    }
    let home = directory.parent().unwrap_or(&directory);
    let failed = |error: ortscope_channel::ChannelError| {
        unavailable(format!("the inferences of process {pid} cannot be read: {error}"), "attach as its user")
    };
    if !has_reader(home) {
        // Without another reader, this one owns the rings.
        source.expect(&directory);
        return Ok(());
    }
    let (session_ids, known) =
        recording_of(home).map(|path| known_sessions(&path, &directory)).unwrap_or_default();
    source.observe(&directory, session_ids, known).map_err(failed)
}

/// Names and models of the sessions, from the recording that the other reader makes.
fn known_sessions(recording: &Path, directory: &Path) -> (Vec<String>, Vec<SessionRow>) {
    let Ok(recording) = Recording::open(recording) else {
        return Default::default();
    };
    let places = &recording.manifest().channels;
    let Some(place) = places.iter().find(|place| place.directory == directory) else {
        return Default::default();
    };
    let rows = recording.scan(TableId::Sessions, &Scan::all());
    let rows = rows.flatten().flat_map(|batch| batch.rows::<SessionRow>().collect::<Vec<_>>());
    let known = rows.filter(|row| place.session_ids.iter().any(|id| **id == *row.session_id)).collect();
    (place.session_ids.clone(), known)
}

/// Frees memory that killed recorders left behind, on another thread. Their recordings are completed first.
pub fn sweep_in_background() {
    let sweep = || {
        for (place, error) in ortscope_store::sweep(is_alive) {
            tracing::warn!("{} was left behind and cannot be removed: {error}", place.display());
        }
    };
    if let Err(error) = std::thread::Builder::new().name("ortscope-sweep".into()).spawn(sweep) {
        tracing::warn!(%error, "what killed recorders left behind is not removed");
    }
}
