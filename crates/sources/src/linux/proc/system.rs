//! The whole machine: /proc/stat, /proc/meminfo and processor frequencies.

use std::collections::HashMap;

use ortscope_core::schema::SystemSampleRow;
use ortscope_decode::procfs::{self, ProcessorTicks};

use super::files::{Buffer, MachineFile};

/// Read interval for frequencies: on some machines each read interrupts a processor.
const FREQUENCY_NS: u64 = 1_000_000_000;
/// Interval for single processors: the kernel counts in steps of 10 ms, which are 2% of this.
const PROCESSORS_NS: u64 = 500_000_000;
/// Limit for frequency files; on machines with more processors the first ones are representative.
const MAX_FREQUENCIES: usize = 256;

/// Whether a hypervisor reports stolen time.
pub(super) fn has_stolen_time() -> bool {
    let stat = std::fs::read("/proc/stat").unwrap_or_default();
    procfs::parse_machine_stat(&stat).all.is_some_and(|ticks| ticks.stolen > 0)
}

#[derive(Debug)]
pub(super) struct System {
    stat: MachineFile,
    memory: MachineFile,
    frequencies: Vec<MachineFile>,
    frequency_ns: Option<u64>,
    before: Option<ProcessorTicks>,
    /// Processor ticks at their last report, by number.
    processors: HashMap<u32, ProcessorTicks>,
    processors_ns: Option<u64>,
    /// Ratios that were not reported yet.
    busy: Vec<(u32, f64)>,
}

impl System {
    pub fn open() -> Self {
        let path = |cpu: usize| format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
        let files = (0..MAX_FREQUENCIES).map(|cpu| MachineFile::open(&path(cpu)));
        Self {
            stat: MachineFile::open("/proc/stat"),
            memory: MachineFile::open("/proc/meminfo"),
            frequencies: files.take_while(MachineFile::is_there).collect(),
            frequency_ns: None,
            before: None,
            processors: HashMap::new(),
            processors_ns: None,
            busy: Vec::new(),
        }
    }

    pub fn has_frequencies(&self) -> bool {
        !self.frequencies.is_empty()
    }

    pub fn read(&mut self, now_ns: u64, row: &mut SystemSampleRow, buffer: &mut Buffer) {
        if let Some(bytes) = self.stat.read(buffer) {
            let stat = procfs::parse_machine_stat(bytes);
            row.context_switches = stat.context_switches;
            row.interrupts = stat.interrupts;
            // The kernel counts in ticks of 10 ms: between two of them nothing is known, and the last ratio
            // is kept.
            let share = stat.all.zip(self.before).and_then(|(now, before)| now.busy_percent_since(before));
            if share.is_some() || self.before.is_none() {
                row.cpu_percent = share;
                self.before = stat.all;
            }
            if self.processors_ns.is_none_or(|at| now_ns.saturating_sub(at) >= PROCESSORS_NS) {
                self.processors_ns = Some(now_ns);
                let (processors, busy) = (&mut self.processors, &mut self.busy);
                procfs::each_processor(bytes, |number, now| {
                    let before = processors.insert(number, now);
                    let percent = before.and_then(|before| now.busy_percent_since(before));
                    busy.extend(percent.map(|percent| (number, percent / 100.0)));
                });
            }
        }
        if let Some(bytes) = self.memory.read(buffer) {
            let memory = procfs::parse_machine_memory(bytes);
            row.memory_total_bytes = memory.total_bytes;
            row.memory_used_bytes = memory.used_bytes();
            row.swap_used_bytes = memory.swap_used_bytes();
        }
        if self.frequency_ns.is_none_or(|at| now_ns.saturating_sub(at) >= FREQUENCY_NS) {
            self.frequency_ns = Some(now_ns);
            row.cpu_frequency_hertz = self.mean_frequency(buffer);
        }
    }

    /// Busy ratios of single processors, each reported once.
    pub fn processors(&mut self, emit: &mut dyn FnMut(u32, f64)) {
        for (number, ratio) in self.busy.drain(..) {
            emit(number, ratio);
        }
    }

    fn mean_frequency(&self, buffer: &mut Buffer) -> Option<f64> {
        let (mut sum, mut count) = (0.0, 0u32);
        for file in &self.frequencies {
            let kilohertz = file.read(buffer).and_then(|bytes| procfs::number(bytes.trim_ascii()));
            if let Some(kilohertz) = kilohertz {
                sum += kilohertz as f64 * 1000.0;
                count += 1;
            }
        }
        (count > 0).then(|| sum / f64::from(count))
    }
}
