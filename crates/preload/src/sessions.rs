//! The sessions of the program by their addresses, and the records of their inferences.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use ortscope_channel::message::{ProgramMessage, SessionNote};
use ortscope_channel::{ChannelWriter, InferenceRecord, Phase};
use ortscope_core::clock::now_ns;

use crate::output;

/// Sessions are numbered; those beyond share the last number.
const MAX_SESSIONS: u64 = u16::MAX as u64;

static SESSIONS: RwLock<Option<HashMap<usize, Arc<Session>>>> = RwLock::new(None);
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
static NEXT_PROFILE: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub struct Session {
    note: SessionNote,
    next_sequence: AtomicU64,
}

/// One run that has begun.
#[derive(Debug)]
pub struct Begun {
    session: Arc<Session>,
    sequence: u64,
    start_ns: u64,
}

/// A session was created. Sessions created in an unwrapped way are announced with their first inference.
pub fn made(address: usize, model_name: String, ort_version: Option<String>) -> Option<Arc<Session>> {
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed).min(MAX_SESSIONS);
    let note = SessionNote {
        timestamp_ns: now_ns(),
        session: number as u16,
        model_name,
        // The C API does not report which providers a session uses.
        execution_providers: Vec::new(),
        requested_providers: Vec::new(),
        ort_version,
        options: None,
        memory_before_bytes: None,
        memory_after_bytes: None,
    };
    let session = Arc::new(Session { note: note.clone(), next_sequence: AtomicU64::new(0) });
    let mut is_told = false;
    // Before it is in the map: a new output announces all sessions there, and this one would be announced twice.
    output::with_writer(announce_all, |writer| {
        output::send(writer, &ProgramMessage::Session(note));
        is_told = true;
    });
    if !is_told {
        return None;
    }
    output::write(&SESSIONS)?.get_or_insert_default().insert(address, Arc::clone(&session));
    Some(session)
}

/// A session is about to go; its address may be that of another one soon.
pub fn gone(address: usize) {
    if let Some(mut sessions) = output::write(&SESSIONS)
        && let Some(sessions) = sessions.as_mut()
    {
        sessions.remove(&address);
    }
}

/// A run begins now; `None` if it cannot be recorded. `name` is called for a session that is not known yet.
pub fn begin(address: usize, name: impl FnOnce() -> (String, Option<String>)) -> Option<Begun> {
    let known = output::read(&SESSIONS)?.as_ref().and_then(|sessions| sessions.get(&address).cloned());
    let session = match known {
        Some(session) => session,
        None => {
            let (model_name, ort_version) = name();
            made(address, model_name, ort_version)?
        }
    };
    let sequence = session.next_sequence.fetch_add(1, Ordering::Relaxed);
    Some(Begun { session, sequence, start_ns: now_ns() })
}

impl Begun {
    /// Where the profile of this run goes, if it is one to profile.
    pub fn profile_prefix(&self) -> Option<PathBuf> {
        let every = output::profile_every();
        if every == 0 || !(self.sequence + 1).is_multiple_of(every) {
            return None;
        }
        let number = NEXT_PROFILE.fetch_add(1, Ordering::Relaxed);
        let name = format!("profile-{}-{}-{number}-", self.session.note.session, self.sequence);
        Some(output::directory()?.join(name))
    }

    /// Reads the clock again: the preparation is not part of the run.
    pub fn start_now(&mut self) {
        self.start_ns = now_ns();
    }

    pub fn end(self, ok: bool, profile: Option<PathBuf>) {
        let end_ns = now_ns();
        let session = self.session.note.session;
        let record = InferenceRecord {
            start_ns: self.start_ns,
            planned_ns: self.start_ns,
            copy_in_ns: 0,
            run_ns: end_ns.saturating_sub(self.start_ns),
            copy_out_ns: 0,
            sequence: self.sequence,
            batch_size: 0,
            queue_depth: None,
            token: None,
            stream: output::stream(),
            session,
            phase: match (&profile, self.sequence) {
                (Some(_), _) => Phase::Profiled,
                (None, 0) => Phase::First,
                (None, _) => Phase::Steady,
            },
            ok,
        };
        output::with_writer(announce_all, |writer| {
            writer.write_inference(&record);
            if let Some(prefix) = profile {
                let (timestamp_ns, sequence) = (self.start_ns, self.sequence);
                output::send(writer, &ProgramMessage::Profile { timestamp_ns, session, sequence, prefix });
            }
        });
    }
}

/// Announces all sessions to a new output, of this process or of a forked child.
fn announce_all(writer: &ChannelWriter) {
    if let Some(sessions) = output::read(&SESSIONS) {
        let mut notes: Vec<&SessionNote> =
            sessions.iter().flat_map(HashMap::values).map(|known| &known.note).collect();
        notes.sort_by_key(|note| note.session);
        for note in notes {
            output::send(writer, &ProgramMessage::Session(note.clone()));
        }
    }
}
