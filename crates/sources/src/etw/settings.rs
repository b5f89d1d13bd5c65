//! What a session is asked for.

use std::path::PathBuf;

use ortscope_decode::etw::ProcessFilter;
use ortscope_decode::etw::live::ProviderId;

use super::flags::KernelFlags;

/// A provider of events beside the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    pub name: &'static str,
    pub id: ProviderId,
    /// 1 critical to 5 verbose.
    pub level: u8,
    /// 0: all.
    pub keywords: u64,
    /// Ask it to tell what exists already.
    pub capture_state: bool,
}

/// Providers that ortscope understands.
pub mod providers {
    use super::{Provider, ProviderId};

    pub const ONNX_RUNTIME: Provider = Provider {
        name: "Microsoft.ML.ONNXRuntime",
        id: ProviderId::new(0x3a26b1ff_7484_7484_7484_15261f42614d),
        level: 5,
        keywords: 0,
        capture_state: true,
    };
    /// Base, profiler, resource, scheduler and performance data: engines, packets, clocks and temperatures.
    pub const DXGKRNL: Provider = Provider {
        name: "Microsoft-Windows-DxgKrnl",
        id: ProviderId::new(0x802ec45a_1e99_4b83_9920_87c98277ba9d),
        level: 5,
        keywords: 0x2400_8043,
        capture_state: true,
    };
    pub const PROCESSOR_POWER: Provider = Provider {
        name: "Microsoft-Windows-Kernel-Processor-Power",
        id: ProviderId::new(0x0f67e49f_fe51_4e9f_b490_6f2948cc6027),
        level: 5,
        keywords: 0x7,
        capture_state: true,
    };
    pub const ENERGY_ESTIMATION: Provider = Provider {
        name: "Microsoft-Windows-Energy-Estimation-Engine",
        id: ProviderId::new(0xddcc3826_a68a_4e0d_bcfd_9c06c27c6948),
        level: 5,
        keywords: 0x4,
        capture_state: false,
    };
    pub const ALL: [Provider; 4] = [ONNX_RUNTIME, DXGKRNL, PROCESSOR_POWER, ENERGY_ESTIMATION];
}

const SAMPLES: ProviderId = ProviderId::new(0xce1dbfb4_137e_4da6_87b0_3f59aa102cbc);
const THREADS: ProviderId = ProviderId::new(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c);

/// A `CLASSIC_EVENT_ID`.
fn classic_event(class: ProviderId, kind: u8) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(&class.to_bytes());
    bytes[16] = kind;
    bytes
}

/// A session. The defaults are those of the requirements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub name: String,
    /// Read a session that somebody else runs; it is never changed and never stopped.
    pub attach: bool,
    /// 64. An event that is longer than a buffer is not logged.
    pub buffer_kilobytes: u32,
    /// 4 and 64; raised to two for each processor, below which Windows does not go.
    pub minimum_buffers: u32,
    pub maximum_buffers: u32,
    /// 1: a buffer that is not full is handed on after this.
    pub flush_seconds: u32,
    pub kernel: KernelFlags,
    pub providers: Vec<Provider>,
    /// Which processes a consumer is told of. A file has all.
    pub filter: ProcessFilter,
    /// 1000 samples of each processor in a second, with [`KernelFlags::PROFILE`].
    pub samples_per_second: u32,
    /// Stacks of samples and switches. Off: they make the trace several times as large.
    pub stacks: bool,
    /// Counters of the processor that every switch tells, by the names of Windows, such as `InstructionRetired`. None: a
    /// machine has few of them, and whoever uses one takes it from others.
    pub counters: Vec<String>,
    /// 2,000,000: of further records of a second only starts, ends and images are taken; the others are counted as lost.
    pub most_records_per_second: u32,
    /// Write to this file instead of handing records to a consumer.
    pub log_file: Option<PathBuf>,
    /// Bytes of records that wait to be drained, twice; further ones are dropped and counted.
    pub waiting_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "OnnxInferenceMonitor".to_owned(),
            attach: false,
            buffer_kilobytes: 64,
            minimum_buffers: 4,
            maximum_buffers: 64,
            flush_seconds: 1,
            kernel: KernelFlags::ALWAYS,
            providers: Vec::new(),
            filter: ProcessFilter::default(),
            samples_per_second: 1000,
            stacks: false,
            counters: Vec::new(),
            most_records_per_second: 2_000_000,
            log_file: None,
            waiting_bytes: 8 << 20,
        }
    }
}

impl Settings {
    /// Of `TraceSetInformation`: the source 0 is the timer, the interval counts 100 ns.
    pub(super) fn sample_interval(&self) -> [u8; 8] {
        let interval = 10_000_000 / self.samples_per_second.clamp(1, 8_192);
        let mut bytes = [0; 8];
        bytes[4..].copy_from_slice(&interval.to_le_bytes());
        bytes
    }

    /// Events that get stacks: `CLASSIC_EVENT_ID`s of samples, switches and wake-ups.
    pub(super) fn stack_events(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (flag, class, kind) in [
            (KernelFlags::PROFILE, SAMPLES, 46),
            (KernelFlags::CSWITCH, THREADS, 36),
            (KernelFlags(0x800), THREADS, 50),
        ] {
            if self.kernel.has(flag) {
                bytes.extend(classic_event(class, kind));
            }
        }
        bytes
    }

    /// Events that carry the counters: switches.
    pub(super) fn counter_events(&self) -> Vec<u8> {
        classic_event(THREADS, 36).to_vec()
    }
}
