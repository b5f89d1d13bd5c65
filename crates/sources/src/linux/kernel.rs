//! Kernel events on Linux: by BPF where that is allowed, else by perf rings.

use ortscope_core::kernel::KernelEvent;

pub use super::bpf::ThreadSnapshot;
use super::bpf::BpfTrace;
use super::perf_ring::PerfTrace;
use crate::kernel::{
    BackendChoice, ClassUnavailable, DrainStats, ProgramCost, TraceBackend, TraceError, TraceOptions,
};

/// Events of the whole machine, from the moment it is opened until it is dropped.
#[derive(Debug)]
pub struct KernelTrace {
    way: Way,
}

#[derive(Debug)]
enum Way {
    Bpf(BpfTrace),
    Perf(PerfTrace),
}

impl KernelTrace {
    /// Starts tracing in the best way that is allowed. The error says which right or part of the kernel is missing.
    pub fn open(options: &TraceOptions) -> Result<Self, TraceError> {
        let way = match options.backend {
            BackendChoice::Bpf => Way::Bpf(BpfTrace::open(options)?),
            BackendChoice::PerfRing => Way::Perf(PerfTrace::open(options)?),
            BackendChoice::Auto => match BpfTrace::open(options) {
                Ok(trace) => Way::Bpf(trace),
                Err(bpf) => match PerfTrace::open(options) {
                    Ok(trace) => Way::Perf(trace),
                    Err(perf) => return Err(TraceError::NoBackend { bpf: Box::new(bpf), perf: Box::new(perf) }),
                },
            },
        };
        Ok(Self { way })
    }

    pub fn backend(&self) -> TraceBackend {
        match self.way {
            Way::Bpf(_) => TraceBackend::Bpf,
            Way::Perf(_) => TraceBackend::PerfRing,
        }
    }

    /// Classes that were asked for and do not come, with the reason.
    pub fn unavailable(&self) -> &[ClassUnavailable] {
        match &self.way {
            Way::Bpf(trace) => trace.unavailable(),
            Way::Perf(trace) => trace.unavailable(),
        }
    }

    /// Memory that the rings take.
    pub fn ring_bytes(&self) -> usize {
        match &self.way {
            Way::Bpf(trace) => trace.ring_bytes(),
            Way::Perf(trace) => trace.ring_bytes(),
        }
    }

    /// Hands out all events since the last drain, of all processors in the order of time. No system call is made,
    /// except once a second; 10 to 20 drains a second are enough, each event has its own time.
    pub fn drain(&mut self, out: &mut impl FnMut(KernelEvent)) -> DrainStats {
        match &mut self.way {
            Way::Bpf(trace) => trace.drain(out),
            Way::Perf(trace) => trace.drain(out),
        }
    }

    /// What each program costs the watched threads, with [`TraceOptions::measure_cost`].
    pub fn costs(&self) -> Vec<ProgramCost> {
        match &self.way {
            Way::Bpf(trace) => trace.costs(),
            Way::Perf(_) => Vec::new(),
        }
    }
}
