//! Placeholders for systems without these kernel features: the same functions, which return an error.

use ortscope_core::kernel::ThreadState;

use crate::kernel::TraceError;

/// Cannot be constructed.
#[derive(Debug)]
pub struct ThreadSnapshot(std::convert::Infallible);

pub fn absent(what: &str) -> TraceError {
    TraceError::Unsupported {
        what: what.to_owned(),
        why: "not implemented for this operating system".to_owned(),
        hint: "processes are still sampled without it".to_owned(),
    }
}

impl ThreadSnapshot {
    pub fn open() -> Result<Self, TraceError> {
        Err(absent("a thread snapshot"))
    }

    pub fn refresh(&mut self) -> Result<u64, TraceError> {
        match self.0 {}
    }

    pub fn threads(&self) -> &[ThreadState] {
        match self.0 {}
    }

    pub fn changed(&self) -> &[u32] {
        match self.0 {}
    }

    pub fn take(&mut self, _out: &mut Vec<ThreadState>) -> Result<u64, TraceError> {
        match self.0 {}
    }
}
