//! What systems without such a part of the kernel have in its place: the same functions, and they say so.

use ortscope_core::kernel::{CpuSample, FrameId, StackProfile, ThreadState};

use crate::kernel::{SampleCounts, SampleOptions, TraceError};

/// Never exists here.
#[derive(Debug)]
pub struct ThreadSnapshot(std::convert::Infallible);

/// Never exists here.
#[derive(Debug)]
pub struct SampleTrace(std::convert::Infallible);

pub fn absent(what: &str) -> TraceError {
    TraceError::Unsupported {
        what: what.to_owned(),
        why: "not implemented for this operating system".to_owned(),
        hint: "processes are still sampled without it".to_owned(),
    }
}

impl ThreadSnapshot {
    pub fn open() -> Result<Self, TraceError> {
        Err(absent("a snapshot of all threads"))
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

impl SampleTrace {
    pub fn open(_options: &SampleOptions) -> Result<Self, TraceError> {
        Err(absent("sampling processors with stacks"))
    }

    pub fn hertz(&self) -> u32 {
        match self.0 {}
    }

    pub fn missing(&self) -> Vec<String> {
        match self.0 {}
    }

    pub fn counts(&self) -> SampleCounts {
        match self.0 {}
    }

    pub fn drain(&mut self, _profile: &mut StackProfile, _each: &mut dyn FnMut(&CpuSample, Option<FrameId>)) {
        match self.0 {}
    }

    pub fn finish(
        &mut self,
        _profile: &mut StackProfile,
        _each: &mut dyn FnMut(&CpuSample, Option<FrameId>),
    ) {
        match self.0 {}
    }
}
