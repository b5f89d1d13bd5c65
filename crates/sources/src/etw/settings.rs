//! Session settings.

use std::path::PathBuf;

use ortscope_decode::etw::ProcessFilter;
use ortscope_decode::etw::live::ProviderId;

use super::flags::KernelFlags;

/// An event provider other than the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    pub name: &'static str,
    pub id: ProviderId,
    /// 1 critical to 5 verbose.
    pub level: u8,
    /// 0 for all.
    pub keywords: u64,
    /// Request existing state.
    pub capture_state: bool,
}

/// Providers that ortscope decodes.
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

/// Settings of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub name: String,
    /// Attach to a running session, which is never changed or stopped.
    pub attach: bool,
    /// Default 64. Events longer than a buffer are not recorded.
    pub buffer_kilobytes: u32,
    /// Default 4 and 64; raised to Windows' minimum of two per processor.
    pub minimum_buffers: u32,
    pub maximum_buffers: u32,
    /// Default 1: a partly filled buffer is delivered after this time.
    pub flush_seconds: u32,
    pub kernel: KernelFlags,
    pub providers: Vec<Provider>,
    /// Processes whose events are delivered to a consumer. A file has all.
    pub filter: ProcessFilter,
    /// Default 1000 samples per second on each processor, with [`KernelFlags::PROFILE`].
    pub samples_per_second: u32,
    /// Stacks of samples and switches. Off by default: they multiply the size of the trace.
    pub stacks: bool,
    /// Processor counters recorded with every switch, by their Windows names, such as `InstructionRetired`. None by
    /// default: a machine has few of them, and they are then unavailable to other programs.
    pub counters: Vec<String>,
    /// Default 2,000,000: of further records within a second only starts, ends and images are kept; the others are
    /// counted as lost.
    pub max_records_per_second: u32,
    /// Write to this file instead of delivering records to a consumer.
    pub log_file: Option<PathBuf>,
    /// Bytes of records waiting to be drained, twice; further ones are dropped and counted.
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
            max_records_per_second: 2_000_000,
            log_file: None,
            waiting_bytes: 8 << 20,
        }
    }
}

impl Settings {
    /// For `TraceSetInformation`: source 0 is the timer, and the interval is in units of 100 ns.
    pub(super) fn sample_interval(&self) -> [u8; 8] {
        let interval = 10_000_000 / self.samples_per_second.clamp(1, 8_192);
        let mut bytes = [0; 8];
        bytes[4..].copy_from_slice(&interval.to_le_bytes());
        bytes
    }

    /// Events with stacks: `CLASSIC_EVENT_ID`s of samples, switches and wake-ups.
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

    /// Events with counters: switches.
    pub(super) fn counter_events(&self) -> Vec<u8> {
        classic_event(THREADS, 36).to_vec()
    }
}
