//! Emits the rows that every import has: where the file came from, its session, losses and missing facts.

use std::sync::atomic::{AtomicU64, Ordering};

use ortscope_core::identity::SessionId;
use ortscope_core::pipeline::{Control, Emitter};
use ortscope_core::schema::{AnnotationRow, LossRow, Row, SessionRow, Text};
use serde_json::Value;

use crate::{ImportError, Summary};

/// How far an import has come.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Events read so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// All events of the file; `None` until they were counted.
    pub fn total(&self) -> Option<u64> {
        Some(self.total.load(Ordering::Relaxed)).filter(|total| *total > 0)
    }
}

/// The emitter with the facts and the bookkeeping of one import.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    pub emitter: &'a mut Emitter,
    control: &'a Control,
    progress: &'a Progress,
    /// The time at which the first event of the file is placed.
    pub start_ns: u64,
    file_name: &'a str,
    /// The session of the rows, for formats with only one.
    pub session: Text,
    warnings: Vec<String>,
    lost: u64,
    is_incomplete: bool,
}

impl<'a> Output<'a> {
    pub fn new(
        emitter: &'a mut Emitter,
        control: &'a Control,
        progress: &'a Progress,
        start_ns: u64,
        file_name: &'a str,
    ) -> Self {
        Self {
            emitter,
            control,
            progress,
            start_ns,
            file_name,
            session: SessionId::random().to_string().into(),
            warnings: Vec::new(),
            lost: 0,
            is_incomplete: false,
        }
    }

    pub fn emit<R: Row>(&mut self, row: &R) {
        self.emitter.emit(row);
    }

    pub fn progress(&self, done: u64, total: Option<u64>) {
        self.progress.done.store(done, Ordering::Relaxed);
        self.progress.total.store(total.unwrap_or(0), Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.control.is_stopped()
    }

    /// Emits the session of the file's rows, with the import's session id; the file's name replaces a missing model name.
    pub fn session(&mut self, session: SessionRow) {
        let mut row =
            SessionRow { timestamp_ns: self.start_ns, session_id: Text::clone(&self.session), ..session };
        if row.model_name.is_empty() {
            row.model_name = self.file_name.into();
        }
        self.emit(&row);
    }

    pub fn note(&mut self, kind: &str, text: &str) {
        self.emit(&AnnotationRow { timestamp_ns: self.start_ns, kind: kind.into(), text: text.into() });
    }

    /// Records a fact that the file does not contain.
    pub fn unavailable(&mut self, track: &str, reason: &str, hint: Option<&str>) {
        self.emitter.unavailable(self.start_ns, track, reason, hint);
    }

    /// Counts records of the file that could not be imported. They make the import incomplete.
    pub fn lost(&mut self, place: &str, kind: &str, count: u64) {
        self.lost += count;
        self.loss(place, kind, count);
    }

    /// Counts records that are missing although the file was read as it is, for example those that its writer dropped.
    pub fn loss(&mut self, place: &str, kind: &str, count: u64) {
        if count > 0 {
            let (place, kind) = (place.into(), kind.into());
            self.emit(&LossRow { timestamp_ns: self.start_ns, place, kind, count });
        }
    }

    /// Marks the import as incomplete where the number of missing records is unknown.
    pub fn incomplete(&mut self) {
        self.is_incomplete = true;
    }

    pub fn all_lost(&self) -> u64 {
        self.lost
    }

    pub fn warn(&mut self, sentence: impl Into<String>) {
        self.warnings.push(sentence.into());
    }

    pub fn summary(
        &mut self,
        document: Value,
        lines: Vec<String>,
        span_ns: Option<u64>,
    ) -> Result<Summary, ImportError> {
        if self.is_stopped() {
            return Err(ImportError::Stopped);
        }
        Ok(Summary {
            document,
            lines,
            warnings: std::mem::take(&mut self.warnings),
            span_ns,
            is_incomplete: self.lost > 0 || self.is_incomplete,
        })
    }
}
