//! The recording of an observation.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ortscope_core::batch::Batch;
use ortscope_core::config::StoreSettings;
use ortscope_core::failure::Failure;
use ortscope_core::schema::{Row, TableId};
use ortscope_sources::sampler::own_command_shown;
use ortscope_store::{KEY_VARIABLE, NewRecording, RecordingWriter, Retention, Store};
use serde::Serialize;

/// Secrets for pushing metrics are passed in the environment: everybody on the machine can read a command line.
pub const PUSH_TOKEN_VARIABLE: &str = "ORTSCOPE_PUSH_TOKEN";
pub const PUSH_BASIC_VARIABLE: &str = "ORTSCOPE_PUSH_BASIC";
/// The token of a server that `top --connect` reads from.
pub const TOKEN_VARIABLE: &str = "ORTSCOPE_TOKEN";

/// Removes our keys and tokens from the environment of a program that we start: it could show them to anybody.
pub fn keep_secrets_from(command: &mut Command) {
    for variable in [KEY_VARIABLE, PUSH_TOKEN_VARIABLE, PUSH_BASIC_VARIABLE, TOKEN_VARIABLE] {
        command.env_remove(variable);
    }
}

/// A finished recording, for the report.
#[derive(Debug, Clone, Serialize)]
pub struct Saved {
    pub id: String,
    pub name: Option<String>,
    pub directory: PathBuf,
    pub bytes: u64,
}

/// What to record.
#[derive(Debug)]
pub struct RecordingRequest<'a> {
    /// The command that records.
    pub origin: &'a str,
    pub name: Option<&'a str>,
    pub subject: String,
    /// Words at the end of our command line that belong to another program; the subject replaces them.
    pub observed_words: usize,
}

/// A recording that is being made. All jobs of a command write to it.
#[derive(Debug)]
pub struct ActiveRecording {
    pub writer: RecordingWriter,
    store: Store,
    name: Option<String>,
    retention: Retention,
}

impl ActiveRecording {
    pub fn begin(
        store: Store,
        settings: &StoreSettings,
        request: RecordingRequest<'_>,
    ) -> Result<Self, Failure> {
        let mut command: Vec<String> =
            std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        if request.observed_words > 0 {
            command.truncate(command.len().saturating_sub(request.observed_words));
            command.push(request.subject.clone());
        }
        let writer = store.begin(NewRecording {
            origin: request.origin.into(),
            subject: request.subject,
            name: request.name.map(str::to_owned),
            command: Some(own_command_shown(&command)),
            ortscope_version: env!("CARGO_PKG_VERSION").into(),
            fingerprint: ortscope_sources::machine_facts().fingerprint(),
            boot_id: ortscope_sources::boot_id(),
            host: ortscope_sources::host_name(),
            ..NewRecording::default()
        })?;
        let retention = Retention {
            max_age: Some(Duration::from_secs_f64(settings.max_age_days * 86_400.0)),
            max_total_bytes: Some((settings.max_gigabytes * 1e9) as u64),
            keep_tagged: true,
        };
        Ok(Self { writer, store, name: request.name.map(str::to_owned), retention })
    }

    /// Adds a document, closes the recording and removes recordings that are too old.
    pub fn finish_with(self, name: &str, document: &[u8], reason: &str) -> Result<Saved, Failure> {
        self.writer.write_document(name, document)?;
        self.finish(reason)
    }

    /// Closes the recording and removes recordings that are too old.
    pub fn finish(self, reason: &str) -> Result<Saved, Failure> {
        let finished = self.writer.finish(reason)?;
        if let Err(error) = self.store.prune(&self.retention, false) {
            tracing::warn!(%error, "old recordings could not be removed");
        }
        Ok(Saved { id: finished.id, name: self.name, directory: finished.directory, bytes: finished.bytes })
    }
}

/// Appends the rows of one table in batches, if there is a recording.
#[derive(Debug)]
pub struct RowWriter<'r> {
    recording: Option<&'r RecordingWriter>,
    batch: Batch,
    failed: Option<Failure>,
}

impl<'r> RowWriter<'r> {
    /// Rows in a batch.
    const BATCH_ROWS: usize = 4096;

    pub fn new(recording: Option<&'r RecordingWriter>, table: TableId) -> Self {
        Self { recording, batch: Batch::new(table), failed: None }
    }

    pub fn push<R: Row>(&mut self, row: &R) {
        if self.recording.is_some() {
            self.batch.push(row);
        }
        if self.batch.len() >= Self::BATCH_ROWS {
            self.send();
        }
    }

    fn send(&mut self) {
        let empty = Batch::new(self.batch.table());
        let batch = std::mem::replace(&mut self.batch, empty);
        if let (Some(recording), None, false) = (self.recording, &self.failed, batch.is_empty()) {
            self.failed = recording.append(&batch).err().map(Failure::from);
        }
    }

    /// Appends the last rows. Returns the first error of all batches.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.send();
        self.failed.map_or(Ok(()), Err)
    }
}

/// Appends rows of one table.
pub fn append<R: Row>(writer: &RecordingWriter, rows: impl IntoIterator<Item = R>) -> Result<(), Failure> {
    let mut batch = Batch::new(R::TABLE);
    for row in rows {
        batch.push(&row);
    }
    if !batch.is_empty() {
        writer.append(&batch)?;
    }
    Ok(())
}
