//! Kernel events on Linux: by BPF where that is allowed, else by perf rings.

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

/// What would show more of samples.
pub const SAMPLING_HINT: &str = "run as root, or with CAP_PERFMON";

pub const WAYS: &[TraceWay] = &[
    TraceWay {
        name: "bpf events",
        choice: BackendChoice::Bpf,
        sees: "every context switch, exact to the event; every class of events",
    },
    TraceWay {
        name: "perf events",
        choice: BackendChoice::PerfRing,
        sees: "context switches, starts and exits; times by their stamps",
    },
];

/// Stops a process until [`release`]; whether it could be stopped.
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

/// Events of the whole machine, from the moment it is opened until it is dropped.
#[derive(Debug)]
pub struct KernelTrace {
    way: Way,
    images: Option<ImageLoads>,
    unavailable: Vec<ClassUnavailable>,
}

#[derive(Debug)]
enum Way {
    Bpf(BpfTrace),
    Perf(PerfTrace),
}

impl KernelTrace {
    /// Starts tracing in the best way that is allowed. The error says which right or part of the kernel is missing.
    pub fn open(options: &TraceOptions) -> Result<Self, TraceError> {
        if let Some(session) = &options.session {
            return Err(TraceError::Unsupported {
                what: format!("the session '{session}'"),
                why: "sessions of event tracing are Windows'".to_owned(),
                hint: "without --session kernel events come from this system's own kernel".to_owned(),
            });
        }
        if !options.counters.is_empty() {
            return Err(TraceError::Unsupported {
                what: format!("counting {}", options.counters.join(", ")),
                why: "counters of the processor at every switch are Windows'".to_owned(),
                hint: "here --cycles counts the cycles of processes".to_owned(),
            });
        }
        let way = match options.backend {
            BackendChoice::Bpf => Way::Bpf(BpfTrace::open(options)?),
            BackendChoice::PerfRing => Way::Perf(PerfTrace::open(options)?),
            BackendChoice::Auto => match BpfTrace::open(options) {
                Ok(trace) => Way::Bpf(trace),
                Err(bpf) => match PerfTrace::open(options) {
                    Ok(trace) => Way::Perf(trace),
                    Err(perf) => {
                        return Err(TraceError::NoBackend { bpf: Box::new(bpf), perf: Box::new(perf) });
                    }
                },
            },
        };
        let mut unavailable = match &way {
            Way::Bpf(trace) => trace.unavailable().to_vec(),
            Way::Perf(trace) => trace.unavailable().to_vec(),
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
            Way::Bpf(_) => TraceBackend::Bpf,
            Way::Perf(_) => TraceBackend::PerfRing,
        }
    }

    /// Classes that were asked for and do not come, with the reason.
    pub fn unavailable(&self) -> &[ClassUnavailable] {
        &self.unavailable
    }

    /// Sums of file I/O since the last call, and how many calls there was no room for. Once a second is enough.
    pub fn take_file_io(&mut self) -> (Vec<FileIo>, u64) {
        match &mut self.way {
            Way::Bpf(trace) => trace.take_file_io(),
            Way::Perf(_) => Default::default(),
        }
    }

    /// Hands out what was mapped as code since the last call; how many records were lost.
    pub fn drain_images(&mut self, out: &mut dyn FnMut(ImageLoad)) -> u64 {
        self.images.as_mut().map_or(0, |images| images.drain(out))
    }

    /// Memory that the rings take.
    pub fn ring_bytes(&self) -> usize {
        match &self.way {
            Way::Bpf(trace) => trace.ring_bytes(),
            Way::Perf(trace) => trace.ring_bytes(),
        }
    }

    /// Why nothing comes any more: programs in the kernel do not end by themselves.
    pub fn ended(&self) -> Option<&str> {
        None
    }

    /// What was refused or went wrong since the last call, in sentences: here everything is known when it is opened.
    pub fn take_notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Hands out all events since the last drain, of all processors in the order of time. No system call is made,
    /// except once a second; 10 to 20 drains a second are enough, each event has its own time.
    pub fn drain(&mut self, out: &mut impl FnMut(KernelEvent)) -> DrainStats {
        match &mut self.way {
            Way::Bpf(trace) => trace.drain(out),
            Way::Perf(trace) => trace.drain(out),
        }
    }

    /// The last drain: everything is in the rings already.
    pub fn finish(&mut self, out: &mut impl FnMut(KernelEvent)) -> DrainStats {
        self.drain(out)
    }

    /// How late an event may come: processors finish their records within this.
    pub fn latest_ns(&self) -> u64 {
        100_000_000
    }

    /// Nothing is counted here.
    pub fn take_counters(&mut self) -> (Vec<CounterSum>, u64) {
        Default::default()
    }

    /// How long what programs cost was measured, with [`TraceOptions::measure_cost`] or [`TraceOptions::sample_cost`].
    pub fn measured_ns(&self) -> u64 {
        match &self.way {
            Way::Bpf(trace) => trace.measured_ns(),
            Way::Perf(_) => 0,
        }
    }

    /// What each program costs the watched threads, over [`Self::measured_ns`].
    pub fn costs(&self) -> Vec<ProgramCost> {
        match &self.way {
            Way::Bpf(trace) => trace.costs(),
            Way::Perf(_) => Vec::new(),
        }
    }
}
