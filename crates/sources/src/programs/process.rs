//! One instrumented process: its rings, sessions and messages.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ortscope_channel::disk::remove_temporary_file;
use ortscope_channel::message::ProgramMessage;
use ortscope_channel::rows::{FrameRows, MessageRow};
use ortscope_channel::{ChannelError, ChannelReader, FrameKind, InferenceRecord, pid_of, session_of_process};
use ortscope_core::pipeline::Emitter;
use ortscope_core::schema::{AnnotationRow, ChannelPositionRow, OperatorRow, SessionRow, Text};
use ortscope_decode::ort_profile::{ProfileOptions, ProfileStart, RowOptions, read_rows};

/// Initial number of session ids; extended on demand.
const FIRST_SESSIONS: usize = 64;
/// Profiles of single runs are small; a larger file is not one.
const MAX_PROFILE_BYTES: u64 = 64 << 20;
/// Maximum difference between the starts of a call and of its profile.
const PROFILE_START_ERROR_NS: u64 = 100_000;
/// Time budget for reading profiles in one pass. They are large, and the rings must not fill up meanwhile; the rest is
/// read in the next pass.
const PROFILE_BUDGET: Duration = Duration::from_millis(20);
/// Limit for pending profiles. Beyond it the oldest are dropped and counted.
const MAX_PROFILES: usize = 256;

/// A process and the reading state.
#[derive(Debug)]
pub(super) struct Process {
    reader: ChannelReader,
    sessions: Sessions,
    given_up: bool,
    positions: u64,
}

/// The sessions of a process.
#[derive(Debug)]
struct Sessions {
    directory: PathBuf,
    pid: Option<u64>,
    ids: Vec<String>,
    rows: FrameRows,
    profiled_runs: HashMap<u16, u64>,
    /// Announced but not read yet.
    profiles: VecDeque<Profile>,
    /// The last read profile of each session, kept because observers may not have read it yet.
    newest_profiles: HashMap<u16, PathBuf>,
    /// Another reader owns this process, including its positions and profiles.
    is_observed: bool,
    /// Sessions known before this reader was added, emitted in the first pass.
    known: Vec<SessionRow>,
}

/// The profile of one run, in a file with this name prefix.
#[derive(Debug)]
struct Profile {
    timestamp_ns: u64,
    session: u16,
    sequence: u64,
    prefix: PathBuf,
}

/// Files of directories, listed once.
#[derive(Debug, Default)]
struct Listing(HashMap<PathBuf, Vec<PathBuf>>);

impl Listing {
    /// Returns the file with this name prefix.
    fn find(&mut self, prefix: &Path) -> std::io::Result<PathBuf> {
        let not_found = || std::io::Error::new(std::io::ErrorKind::NotFound, "no such file");
        let name = prefix.file_name().and_then(|name| name.to_str()).ok_or_else(not_found)?;
        let directory = prefix.parent().ok_or_else(not_found)?;
        let files = match self.0.entry(directory.to_owned()) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                let entries = fs_err::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path()));
                place.insert(entries.collect::<std::io::Result<_>>()?)
            }
        };
        let begins_so = |path: &&PathBuf| {
            path.file_name().and_then(|file| file.to_str()).is_some_and(|file| file.starts_with(name))
        };
        files.iter().find(begins_so).cloned().ok_or_else(not_found)
    }
}

impl Process {
    pub fn new(directory: &Path) -> Self {
        let mut sessions = Sessions::new(directory, Vec::new());
        sessions.reserve(FIRST_SESSIONS - 1);
        Self { reader: ChannelReader::new(directory), sessions, given_up: false, positions: 0 }
    }

    /// Observes a process that another reader owns, with that reader's session ids.
    pub fn observed(
        directory: &Path,
        ids: Vec<String>,
        known: Vec<SessionRow>,
    ) -> Result<Self, ChannelError> {
        let mut sessions = Sessions::new(directory, ids);
        sessions.is_observed = true;
        sessions.known = known;
        Ok(Self { reader: ChannelReader::observe(directory)?, sessions, given_up: false, positions: 0 })
    }

    /// Whether the process has exited and all of its data is stored.
    pub fn is_over(&self) -> bool {
        !self.sessions.is_observed
            && self.sessions.profiles.is_empty()
            && self.reader.is_exhausted()
            && self.reader.owner().is_some()
            && !self.is_alive()
    }

    /// Whether another reader owns the process.
    pub fn is_observed(&self) -> bool {
        self.sessions.is_observed
    }

    /// A process that has not written yet counts as running.
    pub fn is_alive(&self) -> bool {
        self.reader.owner().is_none_or(super::is_alive)
    }

    pub fn session_ids(&self) -> &[String] {
        &self.sessions.ids
    }

    /// Number of sent positions.
    pub fn positions(&self) -> u64 {
        self.positions
    }

    /// Reads and sends new records. Positions are sent last: a journal with a position has everything before it.
    pub fn pass(&mut self, out: &mut Emitter, now_ns: u64) -> Result<(), ChannelError> {
        if self.given_up {
            return Ok(());
        }
        let sessions = &mut self.sessions;
        for row in sessions.known.drain(..) {
            out.emit(&row);
        }
        let drained = self.reader.read(|kind, payload| sessions.handle_frame(kind, payload, out, now_ns))?;
        out.lost("damaged frames", drained.damaged);
        for (kind, count) in drained.lost {
            out.lost(kind.name(), count);
        }
        self.sessions.read_profiles(Some(PROFILE_BUDGET), out);
        out.flush();
        if self.sessions.is_observed {
            return Ok(());
        }
        self.positions += drained.positions.len() as u64;
        for at in drained.positions {
            out.emit(&ChannelPositionRow { timestamp_ns: now_ns, ring: at.ring, position: at.position });
        }
        out.flush();
        Ok(())
    }

    /// Reads the pending profiles at the end.
    pub fn finish(&mut self, out: &mut Emitter) {
        self.sessions.read_profiles(None, out);
        out.flush();
    }

    /// Reports once why the process is no longer read.
    pub fn give_up(&mut self, out: &mut Emitter, now_ns: u64, why: &str) {
        self.given_up = true;
        let text = format!("a process can no longer be read: {why}");
        out.emit(&AnnotationRow { timestamp_ns: now_ns, kind: "error".into(), text: text.into() });
        out.flush();
    }

    pub fn fullness(&self) -> f64 {
        if self.given_up { 0.0 } else { self.reader.fullness() }
    }

    pub fn mark(&mut self) {
        self.reader.mark();
    }

    pub fn release(&mut self) {
        self.reader.release();
    }
}

impl Sessions {
    fn new(directory: &Path, ids: Vec<String>) -> Self {
        let mut sessions = Self {
            directory: directory.to_owned(),
            pid: pid_of(directory).map(u64::from),
            ids,
            rows: FrameRows::new(Vec::new(), None),
            profiled_runs: HashMap::new(),
            profiles: VecDeque::new(),
            newest_profiles: HashMap::new(),
            is_observed: false,
            known: Vec::new(),
        };
        sessions.name_rows();
        sessions
    }

    /// Extends the ids up to this session by doubling.
    fn reserve(&mut self, session: usize) {
        if session < self.ids.len() {
            return;
        }
        let wanted = (session + 1).next_power_of_two();
        let more = self.ids.len()..wanted;
        self.ids.extend(more.map(|session| session_of_process(&self.directory, session).to_string()));
        self.name_rows();
    }

    fn name_rows(&mut self) {
        self.rows = FrameRows::new(self.ids.iter().map(|id| id.as_str().into()).collect(), self.pid);
    }

    fn handle_frame(&mut self, kind: FrameKind, payload: &[u8], out: &mut Emitter, now_ns: u64) {
        if kind == FrameKind::INFERENCE
            && let Some(record) = InferenceRecord::from_bytes(payload)
        {
            self.reserve(usize::from(record.session));
            out.emit(&self.rows.inference(&record));
        } else if kind == FrameKind::MESSAGE {
            match serde_json::from_slice(payload) {
                Ok(message) => self.message(&message, out),
                // A message of another program version is stored as is.
                Err(_) => out.emit(&self.rows.text(payload, now_ns)),
            }
        } else {
            out.lost(kind.name(), 1);
        }
    }

    fn message(&mut self, message: &ProgramMessage, out: &mut Emitter) {
        if let Some(session) = message.session() {
            self.reserve(usize::from(session));
        }
        if let ProgramMessage::Profile { timestamp_ns, session, sequence, prefix } = message {
            let (timestamp_ns, session, sequence) = (*timestamp_ns, *session, *sequence);
            self.profiles.push_back(Profile { timestamp_ns, session, sequence, prefix: prefix.clone() });
            return;
        }
        for row in self.rows.message(message) {
            match row {
                MessageRow::Session(row) => out.emit(&row),
                MessageRow::Memory(row) => out.emit(&row),
                MessageRow::Annotation(row) => out.emit(&row),
            }
        }
    }
}

impl Sessions {
    /// Reads profiles in order within a time budget. Profiles beyond the limit are counted.
    fn read_profiles(&mut self, time: Option<Duration>, out: &mut Emitter) {
        if self.profiles.is_empty() {
            return;
        }
        let (begin, mut listing) = (Instant::now(), Listing::default());
        let beyond = self.profiles.len().saturating_sub(MAX_PROFILES);
        for profile in self.profiles.drain(..beyond) {
            *self.profiled_runs.entry(profile.session).or_default() += 1;
            if !self.is_observed {
                out.lost("profiles", 1);
                remove(listing.find(&profile.prefix));
            }
        }
        while time.is_none_or(|time| begin.elapsed() < time)
            && let Some(profile) = self.profiles.pop_front()
        {
            self.read_profile(&profile, &mut listing, out);
        }
    }

    fn read_profile(&mut self, profile: &Profile, listing: &mut Listing, out: &mut Emitter) {
        let session_id = self.rows.session_id(profile.session);
        let run = self.profiled_runs.entry(profile.session).or_default();
        let read = listing
            .find(&profile.prefix)
            .and_then(|path| operators(&path, &session_id, *run, profile.timestamp_ns, out).map(|()| path));
        *run += 1;
        match read {
            // Nothing is missing for an observer: the owner's recording has the profile.
            _ if self.is_observed => {}
            Ok(path) => remove(self.newest_profiles.insert(profile.session, path)),
            Err(why) => {
                out.lost("profiles", 1);
                let text = format!("the profile of inference {} cannot be read: {why}", profile.sequence);
                let (timestamp_ns, kind) = (profile.timestamp_ns, "profile".into());
                out.emit(&AnnotationRow { timestamp_ns, kind, text: text.into() });
            }
        }
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        remove(self.newest_profiles.drain().map(|(_, path)| path));
    }
}

/// Removes profiles that are no longer needed. If this fails, they are removed with their directory.
fn remove(profiles: impl IntoIterator<Item = PathBuf>) {
    for path in profiles {
        remove_temporary_file(&path).ok();
    }
}

/// Reads the profile of one run.
fn operators(
    path: &Path,
    session_id: &Text,
    run: u64,
    started_ns: u64,
    out: &mut Emitter,
) -> std::io::Result<()> {
    let file = fs_err::File::open(path)?;
    if file.metadata()?.len() > MAX_PROFILE_BYTES {
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            "too large for the profile of one run",
        ));
    }
    let options = RowOptions {
        session_id: Text::clone(session_id),
        start: ProfileStart::At { monotonic_ns: started_ns, error_ns: PROFILE_START_ERROR_NS },
        ..RowOptions::default()
    };
    let mut handle_row = |mut row: OperatorRow| {
        row.run = row.run.map(|_| run);
        out.emit(&row);
    };
    read_rows(file, ProfileOptions::default(), options, &mut handle_row)?;
    Ok(())
}
