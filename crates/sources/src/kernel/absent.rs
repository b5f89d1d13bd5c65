//! Systems whose kernel events ortscope cannot read yet: the same functions, and they say so.

use ortscope_core::kernel::{CpuSample, FileIo, FrameId, ImageLoad, KernelEvent, StackProfile, ThreadState};

use crate::kernel::{
    ClassUnavailable, DrainStats, ProgramCost, SampleCounts, SampleOptions, TraceBackend, TraceError,
    TraceOptions,
};

/// Never exists here.
#[derive(Debug)]
pub struct KernelTrace(std::convert::Infallible);

/// Never exists here.
#[derive(Debug)]
pub struct ThreadSnapshot(std::convert::Infallible);

/// Never exists here.
#[derive(Debug)]
pub struct SampleTrace(std::convert::Infallible);

/// Nobody asks for it without a [`KernelTrace`].
#[derive(Debug)]
pub struct ResidentMemory;

impl ResidentMemory {
    pub fn new() -> Self {
        Self
    }

    pub fn read_bytes(&mut self, pid: u32) -> Option<u64> {
        crate::process_usage(pid).ok().map(|usage| usage.working_set_bytes)
    }
}

/// Processes are not held here: the beginning of a program is not seen.
pub fn hold(_pid: u32) -> bool {
    false
}

pub fn release(_pid: u32) {}

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

    pub fn take_file_io(&mut self) -> (Vec<FileIo>, u64) {
        match self.0 {}
    }

    pub fn drain_images(&mut self, _out: &mut dyn FnMut(ImageLoad)) -> u64 {
        match self.0 {}
    }

    pub fn measured_ns(&self) -> u64 {
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
}
