//! The sink of a measurement: keeps the rows that its result needs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ortscope_analyze::measurement::Measurement;
use ortscope_core::batch::Batch;
use ortscope_core::pipeline::{FlushError, Sink, SinkError};

/// Shared by the sink and the supervisor.
#[derive(Debug, Clone, Default)]
pub struct Collector(Arc<Mutex<Measurement>>);

impl Collector {
    pub fn lock(&self) -> MutexGuard<'_, Measurement> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes everything, at the end.
    pub fn take(&self) -> Measurement {
        std::mem::take(&mut *self.lock())
    }
}

impl Sink for Collector {
    fn name(&self) -> &str {
        "collector"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        self.lock().take(batch);
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}
