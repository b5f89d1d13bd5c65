//! Kernel events on Linux: through BPF where permitted, otherwise through perf rings.

use ortscope_core::kernel::{FileIo, ImageLoad, KernelEvent};

use super::bpf::BpfTrace;
pub use super::bpf::ThreadSnapshot;
use super::image_loads::ImageLoads;
use super::perf_ring::PerfTrace;
pub(crate) use super::proc::ResidentMemory;
pub use super::samples::SampleTrace;
use crate::kernel::{
    BackendChoice, Class, ClassUnavailable, CounterSum, DrainStats, ProgramCost, TraceBackend, TraceError,
    TraceOptions, TraceWay,
};

/// Hint for more complete samples.
pub const SAMPLING_HINT: &str = "run as root, or with CAP_PERFMON";

pub const WAYS: &[TraceWay] = &[
    TraceWay {
        name: "bpf events",
        choice: BackendChoice::Bpf,
        sees: "every context switch with exact times; every event class",
    },
    TraceWay {
        name: "perf events",
        choice: BackendChoice::PerfRing,
        sees: "context switches, starts and exits; times from timestamps",
    },
];

/// Stops a process until [`release`]; returns whether that was possible.
pub fn hold(pid: u32) -> bool {
    signal(pid, rustix::process::Signal::STOP)
}

pub fn release(pid: u32) {
    signal(pid, rustix::process::Signal::CONT);
}

fn signal(pid: u32, signal: rustix::process::Signal) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::kill_process(pid, signal).is_ok())
}

/// Events of the whole machine until it is dropped.
#[derive(Debug)]
pub struct KernelTrace {
    way: Backend,
    images: Option<ImageLoads>,
    unavailable: Vec<ClassUnavailable>,
}

#[derive(Debug)]
enum Backend {
    Bpf(BpfTrace),
    Perf(PerfTrace),
}

impl KernelTrace {
    /// Starts the best permitted backend. The error names the missing privilege or kernel feature.
    pub fn open(options: &TraceOptions) -> Result<Self, TraceError> {
        if let Some(session) = &options.session {
            return Err(TraceError::Unsupported {
                what: format!("the session '{session}'"),
                why: "event tracing sessions exist only on Windows".to_owned(),
                hint: "omit --session to record this system's kernel events".to_owned(),
            });
        }
        if !options.counters.is_empty() {
            return Err(TraceError::Unsupported {
                what: format!("counting {}", options.counters.join(", ")),
                why: "processor counters at every switch exist only on Windows".to_owned(),
                hint: "use --cycles to count the cycles of processes".to_owned(),
            });
        }
        let way = match options.backend {
            BackendChoice::Bpf => Backend::Bpf(BpfTrace::open(options)?),
            BackendChoice::PerfRing => Backend::Perf(PerfTrace::open(options)?),
            BackendChoice::Auto => match BpfTrace::open(options) {
                Ok(trace) => Backend::Bpf(trace),
                Err(bpf) => match PerfTrace::open(options) {
                    Ok(trace) => Backend::Perf(trace),
                    Err(perf) => {
                        return Err(TraceError::NoBackend { bpf: Box::new(bpf), perf: Box::new(perf) });
                    }
                },
            },
        };
        let mut unavailable = match &way {
            Backend::Bpf(trace) => trace.unavailable().to_vec(),
            Backend::Perf(trace) => trace.unavailable().to_vec(),
        };
        let mut images = None;
        if options.classes.contains(&Class::Images) {
            unavailable.retain(|missing| missing.class != Class::Images);
            match ImageLoads::open() {
                Ok(opened) => images = Some(opened),
                Err(error) => {
                    unavailable.push(ClassUnavailable { class: Class::Images, why: error.to_string() });
                }
            }
        }
        Ok(Self { way, images, unavailable })
    }

    pub fn backend(&self) -> TraceBackend {
        match self.way {
            Backend::Bpf(_) => TraceBackend::Bpf,
            Backend::Perf(_) => TraceBackend::PerfRing,
        }
    }

    /// Requested classes that are unavailable, with the reason.
    pub fn unavailable(&self) -> &[ClassUnavailable] {
        &self.unavailable
    }

    /// File I/O sums since the last call, and the number of calls beyond the limit. Once per second is enough.
    pub fn take_file_io(&mut self) -> (Vec<FileIo>, u64) {
        match &mut self.way {
            Backend::Bpf(trace) => trace.take_file_io(),
            Backend::Perf(_) => Default::default(),
        }
    }

    /// Emits code mappings since the last call; returns the number of lost records.
    pub fn drain_images(&mut self, out: &mut dyn FnMut(ImageLoad)) -> u64 {
        self.images.as_mut().map_or(0, |images| images.drain(out))
    }

    /// Memory used by the rings.
    pub fn ring_bytes(&self) -> usize {
        match &self.way {
            Backend::Bpf(trace) => trace.ring_bytes(),
            Backend::Perf(trace) => trace.ring_bytes(),
        }
    }

    /// Why no more events arrive; never the case here.
    pub fn ended(&self) -> Option<&str> {
        None
    }

    /// Warnings since the last call; here all are known when the trace is opened.
    pub fn take_notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Emits all events since the last drain, of all processors in chronological order. Makes no system call except
    /// once per second; 10 to 20 drains per second are enough because every event has its own time.
    pub fn drain(&mut self, out: &mut impl FnMut(KernelEvent)) -> DrainStats {
        match &mut self.way {
            Backend::Bpf(trace) => trace.drain(out),
            Backend::Perf(trace) => trace.drain(out),
        }
    }

    /// The last drain: everything is already in the rings.
    pub fn finish(&mut self, out: &mut impl FnMut(KernelEvent)) -> DrainStats {
        self.drain(out)
    }

    /// Maximum delay of an event: processors complete their records within this time.
    pub fn latest_ns(&self) -> u64 {
        100_000_000
    }

    /// Not supported here.
    pub fn take_counters(&mut self) -> (Vec<CounterSum>, u64) {
        Default::default()
    }

    /// How long overhead was measured, with [`TraceOptions::measure_cost`] or [`TraceOptions::sample_cost`].
    pub fn measured_ns(&self) -> u64 {
        match &self.way {
            Backend::Bpf(trace) => trace.measured_ns(),
            Backend::Perf(_) => 0,
        }
    }

    /// Overhead of each program in the watched threads during [`Self::measured_ns`].
    pub fn costs(&self) -> Vec<ProgramCost> {
        match &self.way {
            Backend::Bpf(trace) => trace.costs(),
            Backend::Perf(_) => Vec::new(),
        }
    }
}
