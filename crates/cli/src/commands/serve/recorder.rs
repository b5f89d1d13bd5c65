//! Recording the live view on demand: a sink that writes while somebody wants it to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ortscope_core::batch::Batch;
use ortscope_core::pipeline::{FlushError, Sink, SinkError};
use ortscope_server::RecordingState;
use ortscope_store::{NewRecording, RecordingWriter, Store};

use crate::recording::fingerprint;

#[derive(Debug)]
struct Active {
    writer: RecordingWriter,
    rows: u64,
}

/// Clones share one recording, or none.
#[derive(Debug, Clone)]
pub struct Recorder {
    store: Store,
    active: Arc<Mutex<Option<Active>>>,
}

impl Recorder {
    pub fn new(store: Store) -> Self {
        Self { store, active: Arc::default() }
    }

    fn active(&self) -> MutexGuard<'_, Option<Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn state(&self) -> Option<RecordingState> {
        self.active().as_ref().map(|active| RecordingState {
            id: active.writer.id().to_owned(),
            started_unix_ms: active.writer.started().unix_ns / 1_000_000,
            rows: active.rows,
        })
    }

    /// `known` is what was told before: sessions and processes that are there.
    pub fn start(&self, name: Option<&str>, known: &[Batch]) -> Result<(), String> {
        let mut active = self.active();
        if let Some(active) = &*active {
            return Err(format!("the recording {} goes on already", active.writer.id()));
        }
        let new = NewRecording {
            origin: "serve".into(),
            subject: "this machine".into(),
            name: name.map(str::to_owned),
            command: Some("ortscope serve".into()),
            ortscope_version: env!("CARGO_PKG_VERSION").into(),
            fingerprint: fingerprint(&ortscope_sources::machine_facts(), &[]),
            boot_id: ortscope_sources::boot_id(),
            host: ortscope_sources::host_name(),
            ..NewRecording::default()
        };
        let writer = self.store.begin(new).map_err(|error| error.to_string())?;
        for batch in known {
            writer.append(batch).map_err(|error| error.to_string())?;
        }
        *active = Some(Active { writer, rows: 0 });
        Ok(())
    }

    pub fn stop(&self, reason: &str) -> Result<(), String> {
        let active = self.active().take().ok_or("nothing is being recorded")?;
        active.writer.finish(reason).map(|_| ()).map_err(|error| error.to_string())
    }
}

impl Sink for Recorder {
    fn name(&self) -> &str {
        "recording"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let mut active = self.active();
        if let Some(active) = &mut *active {
            active.writer.append(batch).map_err(|error| SinkError::Failed(error.to_string()))?;
            active.rows += batch.len() as u64;
        }
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}
