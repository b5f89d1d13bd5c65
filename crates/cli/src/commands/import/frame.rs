//! What every import of another program's file has in common: the recording that it becomes, what is said in it of where it
//! came from and of what was lost, and the document and the lines that the command prints.

use std::time::Duration;

use ortscope_core::clock::now_ns;
use ortscope_core::identity::SessionId;
use ortscope_core::schema::{AnnotationRow, LossRow, SessionRow, Text, UnavailabilityRow};
use ortscope_store::{NewRecording, RecordingWriter, Store};
use serde_json::Value;

use crate::args::{GlobalArgs, ImportArgs};
use crate::exit::{Exit, Failure};
use crate::recording::open_store_to_record;
use crate::terminal::{self, Terminal, WARN};
use ortscope_observe::recording::append;

/// A recording that is being made of a file.
#[derive(Debug)]
pub struct Frame {
    store: Store,
    pub writer: RecordingWriter,
    /// The import: the times of files that do not say when they were made count from here.
    pub started: u64,
    /// The name of the file.
    pub name: String,
    pub session: Text,
    warnings: Vec<String>,
    lost: u64,
    is_incomplete: bool,
}

/// What is printed of an import.
#[derive(Debug)]
pub struct Told {
    /// `id`, `directory` and `notes` are added.
    pub document: Value,
    /// What stands behind the identifier.
    pub line: String,
    /// The command to go on with.
    pub next: &'static str,
    /// How long the file's events took; `None`: as long as the import.
    pub span_ns: Option<u64>,
}

pub fn file_name(args: &ImportArgs) -> String {
    args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

impl Frame {
    pub fn begin(args: &ImportArgs, global: &GlobalArgs) -> Result<Self, Failure> {
        let started = now_ns();
        let store = open_store_to_record(global, args.encryption.encrypt)?;
        let name = file_name(args);
        let writer = store.begin(NewRecording {
            origin: "import".into(),
            subject: name.clone(),
            name: args.name.clone(),
            ortscope_version: env!("CARGO_PKG_VERSION").into(),
            ..NewRecording::default()
        })?;
        let session = SessionId::random().to_string().into();
        Ok(Self {
            store,
            writer,
            started,
            name,
            session,
            warnings: Vec::new(),
            lost: 0,
            is_incomplete: false,
        })
    }

    /// The session that the file's rows are of. What is not given is its identifier, and the file's name for the model.
    pub fn session(&self, session: SessionRow) -> Result<(), Failure> {
        let mut row =
            SessionRow { timestamp_ns: self.started, session_id: Text::clone(&self.session), ..session };
        if row.model_name.is_empty() {
            row.model_name = self.name.as_str().into();
        }
        append(&self.writer, [row])
    }

    pub fn notes(&self, notes: impl IntoIterator<Item = String>) -> Result<(), Failure> {
        let row = |text: String| AnnotationRow {
            timestamp_ns: self.started,
            kind: "note".into(),
            text: text.into(),
        };
        append(&self.writer, notes.into_iter().map(row))
    }

    /// Something that the file does not tell.
    pub fn unavailable(&self, track: &str, reason: &str, hint: Option<&str>) -> Result<(), Failure> {
        let row = UnavailabilityRow {
            from_ns: self.started,
            to_ns: None,
            track: track.into(),
            reason: reason.into(),
            hint: hint.map(Text::from),
        };
        append(&self.writer, [row])
    }

    /// What is missing; nothing if that is none. It makes the exit code.
    pub fn lost(&mut self, place: &str, kind: &str, count: u64) -> Result<(), Failure> {
        if count == 0 {
            return Ok(());
        }
        self.lost += count;
        let (place, kind) = (place.into(), kind.into());
        append(&self.writer, [LossRow { timestamp_ns: self.started, place, kind, count }])
    }

    /// The file ends before it should, so that nobody knows how much is missing.
    pub fn incomplete(&mut self) {
        self.is_incomplete = true;
    }

    /// All that was lost.
    pub fn all_lost(&self) -> u64 {
        self.lost
    }

    pub fn warn(&mut self, sentence: impl Into<String>) {
        self.warnings.push(sentence.into());
    }

    /// The file turned out to be none of this kind: it leaves nothing behind.
    pub fn discard(self) -> Result<(), Failure> {
        let finished = self.writer.finish("not imported")?;
        self.store.remove(&finished.id)?;
        Ok(())
    }

    /// Closes the recording and tells what became of the file.
    pub fn finish(self, told: Told, terminal: &Terminal) -> Result<Exit, Failure> {
        let Told { mut document, line, next, span_ns } = told;
        let finished = match span_ns {
            Some(span) => self.writer.finish_after("imported", Duration::from_nanos(span))?,
            None => self.writer.finish("imported")?,
        };
        if terminal.json {
            document["id"] = finished.id.into();
            document["directory"] = finished.directory.display().to_string().into();
            document["notes"] = self.warnings.clone().into();
            let text = serde_json::to_string_pretty(&document).map_err(Failure::internal)?;
            terminal::print_data(&(text + "\n"));
        } else {
            terminal::print_data(&format!("{}  {line}\nortscope {next} {}\n", finished.id, finished.id));
        }
        for sentence in &self.warnings {
            terminal::print_error(&format!("{} {sentence}", terminal.paint(WARN, "warning:")));
        }
        Ok(if self.lost > 0 || self.is_incomplete { Exit::DataLost } else { Exit::Ok })
    }
}
