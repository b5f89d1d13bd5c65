//! A trace that grows while it is recorded: a sink that draws every batch and puts whole packets into the file each second.
//! The file opens at any moment, also after a kill; times are those of the machine's monotonic clock.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ortscope_core::batch::Batch;
use ortscope_core::clock::WallAnchor;
use ortscope_core::pipeline::{FlushError, Sink, SinkError};
use serde::Serialize;

use super::drawing::{Drawing, Names};
use super::events::{Events, Form};
use crate::error::ExportError;

/// How often what was drawn goes into the file: a kill loses no more than this.
const WRITE_EVERY: Duration = Duration::from_millis(500);
/// Operators come when their run has ended, children before their parents: what is younger waits to be put in order.
const SETTLED_AFTER_NS: u64 = 2_000_000_000;

/// How a growing trace stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveTraceState {
    pub path: PathBuf,
    /// Rows that it draws.
    pub rows: u64,
    pub bytes: u64,
    /// Rows that came when it had its full size already.
    pub left_out: u64,
    /// What else is not in it, in sentences.
    pub notes: Vec<String>,
}

/// A way to look at it from elsewhere.
#[derive(Debug, Clone)]
pub struct TraceHandle(Arc<Mutex<LiveTraceState>>);

impl TraceHandle {
    pub fn state(&self) -> LiveTraceState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[derive(Debug, Serialize)]
struct LiveHead<'a> {
    ortscope_version: &'static str,
    subject: &'a str,
    started: WallAnchor,
    /// The monotonic time that is 0 in the trace.
    trace_start_ns: u64,
}

/// The sink.
pub struct LiveTrace {
    events: Events<'static>,
    drawing: Drawing,
    most_bytes: u64,
    newest_ns: u64,
    next: Instant,
    state: Arc<Mutex<LiveTraceState>>,
}

impl std::fmt::Debug for LiveTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveTrace").field("state", &self.state).finish_non_exhaustive()
    }
}

impl LiveTrace {
    /// The page of Perfetto cannot open much more: it has 2 GiB of memory for a trace and all that it makes of it.
    pub const MAX_BYTES: u64 = 1 << 30;

    /// Nothing that exists is replaced.
    pub fn create(path: &Path, subject: &str, most_bytes: u64) -> Result<Self, ExportError> {
        let file = open(path)?;
        let mut events = Events::new(Box::new(file), Form::Perfetto, 0);
        let head = LiveHead {
            ortscope_version: env!("CARGO_PKG_VERSION"),
            subject,
            started: WallAnchor::now(),
            trace_start_ns: 0,
        };
        let begun = events.head(&head).and_then(|()| events.flush());
        begun.map_err(|error| ExportError::file(path, &error))?;
        let state = LiveTraceState { path: path.to_owned(), ..LiveTraceState::default() };
        Ok(Self {
            events,
            drawing: Drawing::new(Names::default()),
            most_bytes,
            newest_ns: 0,
            next: Instant::now() + WRITE_EVERY,
            state: Arc::new(Mutex::new(state)),
        })
    }

    pub fn handle(&self) -> TraceHandle {
        TraceHandle(Arc::clone(&self.state))
    }

    fn draw(&mut self, batch: &Batch) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.events.written() >= self.most_bytes {
            state.left_out += if super::DRAWN.contains(&batch.table()) { batch.len() as u64 } else { 0 };
            return Ok(());
        }
        self.newest_ns = batch.times_ns().iter().copied().fold(self.newest_ns, u64::max);
        // Every row that was sampled comes: there is no tick without one.
        state.rows += self.drawing.draw(&mut self.events, batch, &mut |_| None)?;
        if Instant::now() >= self.next {
            self.next = Instant::now() + WRITE_EVERY;
            self.drawing.settle(&mut self.events, self.newest_ns.saturating_sub(SETTLED_AFTER_NS))?;
            self.events.flush()?;
            state.bytes = self.events.written();
        }
        Ok(())
    }
}

/// Its owner's alone, as all exports are.
fn open(path: &Path) -> Result<File, ExportError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = tempfile::Builder::new().prefix(".ortscope-trace-").suffix(".partial").tempfile_in(parent);
    let file = made.map_err(|error| ExportError::file(path, &error))?;
    file.persist_noclobber(path).map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => {
            let message = format!("{} exists already", path.display());
            ExportError::usage(message, "choose another name, or remove it first")
        }
        _ => ExportError::file(path, &error.error),
    })
}

impl Sink for LiveTrace {
    fn name(&self) -> &str {
        "trace"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        self.draw(batch).map_err(|error| SinkError::Failed(format!("the trace cannot be written: {error}")))
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        let finished = self.drawing.finish(&mut self.events).and_then(|()| self.events.flush());
        finished.map_err(|error| FlushError::Failed(format!("the trace cannot be written: {error}")))?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes = self.events.written();
        state.notes = self.drawing.notes().chain(self.events.notes()).collect();
        if state.left_out > 0 {
            let (left_out, most) = (state.left_out, self.most_bytes >> 20);
            state.notes.push(format!("{left_out} rows are not in the trace, which ends at {most} MiB"));
        }
        Ok(())
    }
}
