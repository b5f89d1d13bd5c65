//! Systems whose kernel events ortscope cannot read yet: the same functions, and they say so.

use ortscope_core::kernel::{KernelEvent, ThreadState};

use crate::kernel::{ClassUnavailable, DrainStats, ProgramCost, TraceBackend, TraceError, TraceOptions};

/// Never exists here.
#[derive(Debug)]
pub struct KernelTrace(std::convert::Infallible);

/// Never exists here.
#[derive(Debug)]
pub struct ThreadSnapshot(std::convert::Infallible);

fn absent(what: &str) -> TraceError {
    TraceError::Unsupported {
        what: what.to_owned(),
        why: "not implemented for this operating system".to_owned(),
        hint: "processes are still sampled without it".to_owned(),
    }
}

impl KernelTrace {
    pub fn open(_options: &TraceOptions) -> Result<Self, TraceError> {
        Err(absent("reading kernel events"))
    }

    pub fn backend(&self) -> TraceBackend {
        TraceBackend::Absent
    }

    pub fn unavailable(&self) -> &[ClassUnavailable] {
        match self.0 {}
    }

    pub fn ring_bytes(&self) -> usize {
        match self.0 {}
    }

    pub fn drain(&mut self, _out: &mut impl FnMut(KernelEvent)) -> DrainStats {
        match self.0 {}
    }

    pub fn costs(&self) -> Vec<ProgramCost> {
        match self.0 {}
    }
}

impl ThreadSnapshot {
    pub fn open() -> Result<Self, TraceError> {
        Err(absent("a snapshot of all threads"))
    }

    pub fn take(&mut self, _out: &mut Vec<ThreadState>) -> Result<u64, TraceError> {
        match self.0 {}
    }
}
