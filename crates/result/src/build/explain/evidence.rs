//! What was recorded inside one inference, summed up.

use ortscope_core::schema::{KernelEventKind, Text};

/// Names that are remembered per list; the rest only counts.
const MAX_NAMES: usize = 32;

/// Kinds of kernel events that can make an inference slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::build) enum KernelKind {
    ContextSwitch,
    Migration,
    PageFault,
    HardFault,
    Throttle,
}

impl KernelKind {
    pub const ALL: [Self; 5] =
        [Self::ContextSwitch, Self::Migration, Self::PageFault, Self::HardFault, Self::Throttle];

    pub fn of(kind: KernelEventKind) -> Option<Self> {
        Some(match kind {
            KernelEventKind::ContextSwitch => Self::ContextSwitch,
            KernelEventKind::Migration => Self::Migration,
            KernelEventKind::PageFault => Self::PageFault,
            KernelEventKind::HardFault => Self::HardFault,
            KernelEventKind::Throttle => Self::Throttle,
            _ => return None,
        })
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(in crate::build) struct Tally {
    pub count: u64,
    pub duration_ns: u64,
    /// Some of the events say how long they lasted.
    pub timed: bool,
}

/// Sums by name, the first few names only.
#[derive(Debug, Clone, Default)]
pub(in crate::build) struct Sums<K>(Vec<(K, u64)>);

impl<K: PartialEq> Sums<K> {
    pub fn add(&mut self, key: K, amount: u64) {
        if let Some((_, sum)) = self.0.iter_mut().find(|(known, _)| *known == key) {
            *sum = sum.saturating_add(amount);
        } else if self.0.len() < MAX_NAMES {
            self.0.push((key, amount));
        }
    }

    pub fn largest(&self) -> Option<(&K, u64)> {
        self.0.iter().max_by_key(|(_, sum)| *sum).map(|(key, sum)| (key, *sum))
    }
}

#[derive(Debug, Default)]
pub(in crate::build) struct Evidence {
    pub kernel: [Tally; KernelKind::ALL.len()],
    /// Time off the processor by thread.
    pub off_by_thread: Sums<u64>,
    /// Who ran instead.
    pub ran_instead: Sums<Text>,
    pub copies: Tally,
    pub waits: Tally,
    /// Growth of memory, by what grew.
    pub growth_bytes: Sums<Text>,
    pub cpu: CpuEvidence,
    pub machine: MachineEvidence,
    pub lost: u64,
}

impl Evidence {
    pub fn kernel(&self, kind: KernelKind) -> Tally {
        self.kernel[kind as usize]
    }

    /// The thread that was off the processor longest: threads wait at the same time, so their times do not add up.
    pub fn longest_off_ns(&self) -> u64 {
        self.off_by_thread.largest().map_or(0, |(_, off)| off)
    }
}

/// CPU time of processes in the sampling intervals around an inference.
#[derive(Debug, Default)]
pub(in crate::build) struct CpuEvidence {
    pub others_ns: u64,
    pub interval_ns: u64,
    pub intervals: u64,
    pub by_process: Sums<u64>,
}

impl CpuEvidence {
    pub fn others_cores(&self) -> Option<f64> {
        (self.interval_ns > 0).then(|| self.others_ns as f64 / self.interval_ns as f64)
    }
}

/// Readings of the machine in the sampling intervals around an inference.
#[derive(Debug, Default)]
pub(in crate::build) struct MachineEvidence {
    pub cpu_percent: Mean,
    pub frequency_hertz: Mean,
}

#[derive(Debug, Clone, Copy, Default)]
pub(in crate::build) struct Mean {
    sum: f64,
    n: u64,
}

impl Mean {
    pub fn add(&mut self, value: f64) {
        if value.is_finite() {
            self.sum += value;
            self.n += 1;
        }
    }

    pub fn get(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / self.n as f64)
    }
}
