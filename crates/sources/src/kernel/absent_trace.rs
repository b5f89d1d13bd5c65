//! Placeholders for systems whose kernel events are not supported: the same functions, which return an error.

use ortscope_core::kernel::{CpuSample, FileIo, FrameId, ImageLoad, KernelEvent, StackProfile};

pub use crate::absent::ThreadSnapshot;
use crate::absent::absent;
use crate::kernel::{
    BackendChoice, ClassUnavailable, CounterSum, DrainStats, ProgramCost, SampleCounts, SampleOptions,
    TraceBackend, TraceError, TraceOptions, TraceWay,
};

pub const WAYS: &[TraceWay] = &[TraceWay { name: "kernel events", choice: BackendChoice::Auto, sees: "" }];

/// Hint for more complete samples.
pub const SAMPLING_HINT: &str = "";

/// Cannot be constructed.
#[derive(Debug)]
pub struct KernelTrace(std::convert::Infallible);

/// Cannot be constructed.
#[derive(Debug)]
pub struct SampleTrace(std::convert::Infallible);

/// Not used without a [`KernelTrace`].
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

/// Processes cannot be paused here, so the beginning of a program is not observed.
pub fn hold(_pid: u32) -> bool {
    false
}

pub fn release(_pid: u32) {}

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

    pub fn ended(&self) -> Option<&str> {
        match self.0 {}
    }

    pub fn take_notes(&mut self) -> Vec<String> {
        match self.0 {}
    }

    pub fn drain(&mut self, _out: &mut impl FnMut(KernelEvent)) -> DrainStats {
        match self.0 {}
    }

    pub fn finish(&mut self, _out: &mut impl FnMut(KernelEvent)) -> DrainStats {
        match self.0 {}
    }

    pub fn latest_ns(&self) -> u64 {
        match self.0 {}
    }

    pub fn take_counters(&mut self) -> (Vec<CounterSum>, u64) {
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
