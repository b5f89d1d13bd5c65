//! A process backend that reports that it is unsupported.

use ortscope_core::metric::Availability;
use ortscope_core::schema::{ProcessSampleRow, SystemSampleRow};

use crate::machine::UsageError;
use crate::sampler::{Missing, ProcessBackend, ProcessFacts, ReadError, ThreadReading};

#[derive(Debug)]
pub struct NoBackend;

impl ProcessBackend for NoBackend {
    fn name(&self) -> &'static str {
        "none"
    }

    fn probe(&mut self) -> Availability {
        Availability::Unavailable {
            why: UsageError::Unsupported.to_string(),
            hint: "Linux and Windows are supported".into(),
        }
    }

    fn never(&self) -> Vec<Missing> {
        Vec::new()
    }

    fn list(&mut self, _pids: &mut Vec<u32>) -> Result<(), ReadError> {
        Err(ReadError::Unsupported)
    }

    fn look(&mut self, _pid: u32, _facts: &mut ProcessFacts) -> Result<(), ReadError> {
        Err(ReadError::Unsupported)
    }

    fn watch(&mut self, _slot: usize, _facts: &ProcessFacts) -> Result<(), ReadError> {
        Err(ReadError::Unsupported)
    }

    fn forget(&mut self, _slot: usize) {}

    fn command_line(&mut self, _slot: usize) -> Option<Vec<Vec<u8>>> {
        None
    }

    fn cpu(&mut self, _slot: usize, _row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        Err(ReadError::Unsupported)
    }

    fn memory(&mut self, _slot: usize, _row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        Err(ReadError::Unsupported)
    }

    fn io(&mut self, _slot: usize, _row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        Err(ReadError::Unsupported)
    }

    fn details(&mut self, _slot: usize, _row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        Err(ReadError::Unsupported)
    }

    fn threads(
        &mut self,
        _slot: usize,
        _row: &mut ProcessSampleRow,
        _tell: &mut dyn FnMut(&ThreadReading<'_>),
    ) -> Result<(), ReadError> {
        Err(ReadError::Unsupported)
    }

    fn system(&mut self, _row: &mut SystemSampleRow) -> Result<(), ReadError> {
        Err(ReadError::Unsupported)
    }

    fn own_cpu_ns(&mut self) -> Option<u64> {
        None
    }

    fn own_memory_bytes(&mut self) -> Option<u64> {
        None
    }
}
