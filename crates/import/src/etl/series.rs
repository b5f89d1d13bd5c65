//! How busy the processors and each engine were, in windows of equal length.
//!
//! A window is 0.1 s long, or longer where that would give more than 36,000 windows, so memory does not grow with the trace.

use std::collections::BTreeMap;

use ortscope_core::kernel::{KernelEvent, Task};
use ortscope_core::schema::{DeviceSampleRow, SystemSampleRow, Text};
use ortscope_decode::etw::{Engine, EngineBusy, EngineInfo};

const MIN_WINDOW_NS: u64 = 100_000_000;
const MAX_WINDOWS: u64 = 36_000;
const MAX_ENGINES: usize = 256;
/// Windows has at most 2048 processors.
const MAX_CORES: usize = 2048;

#[derive(Debug, Clone, Copy)]
struct Grid {
    base_ns: u64,
    span_ns: u64,
    window_ns: u64,
    windows: usize,
}

impl Grid {
    /// Adds an interval to the windows that it overlaps.
    fn add(&self, sums: &mut Vec<u64>, from_ns: u64, to_ns: u64) {
        let (from, to) = (from_ns.saturating_sub(self.base_ns), to_ns.saturating_sub(self.base_ns));
        let mut at = from;
        while at < to {
            let window = (at / self.window_ns) as usize;
            if window >= self.windows {
                return;
            }
            let end = ((window as u64 + 1) * self.window_ns).min(to);
            if let Some(sum) = slot(sums, window) {
                *sum += end - at;
            }
            at = end;
        }
    }

    /// The window of a moment; the end of the trace belongs to the last window.
    fn window(&self, at_ns: u64) -> usize {
        let window = (at_ns.saturating_sub(self.base_ns) / self.window_ns) as usize;
        window.min(self.windows - 1)
    }

    /// Length and end of a window; the last one ends with the trace.
    fn extent(&self, window: usize) -> (u64, u64) {
        let from = window as u64 * self.window_ns;
        let to = (from + self.window_ns).min(self.span_ns.max(from + 1));
        (to - from, self.base_ns + to)
    }
}

fn slot(sums: &mut Vec<u64>, index: usize) -> Option<&mut u64> {
    if sums.len() <= index {
        sums.resize(index + 1, 0);
    }
    sums.get_mut(index)
}

/// Collects busy times.
#[derive(Debug)]
pub struct Series {
    grid: Grid,
    /// By processor: the running thread, and since when.
    running: Vec<Option<(Task, u64)>>,
    busy_ns: Vec<u64>,
    idle_ns: Vec<u64>,
    has_switches: bool,
    busy_samples: Vec<u64>,
    idle_samples: Vec<u64>,
    engines: BTreeMap<Engine, Vec<u64>>,
    /// Packets of engines beyond the limit.
    pub dropped: u64,
}

impl Series {
    pub fn new(first_ns: u64, last_ns: u64) -> Self {
        let span_ns = last_ns.saturating_sub(first_ns);
        let window_ns = (span_ns / MAX_WINDOWS).max(MIN_WINDOW_NS);
        let windows = span_ns.div_ceil(window_ns).max(1) as usize;
        Self {
            grid: Grid { base_ns: first_ns, span_ns, window_ns, windows },
            running: Vec::new(),
            busy_ns: Vec::new(),
            idle_ns: Vec::new(),
            has_switches: false,
            busy_samples: Vec::new(),
            idle_samples: Vec::new(),
            engines: BTreeMap::new(),
            dropped: 0,
        }
    }

    pub fn kernel(&mut self, event: &KernelEvent) {
        let KernelEvent::Switch(switch) = event else { return };
        let cpu = switch.cpu as usize;
        if cpu >= MAX_CORES {
            return;
        }
        if self.running.len() <= cpu {
            self.running.resize(cpu + 1, None);
        }
        self.has_switches = true;
        let before = self.running[cpu].replace((switch.next, switch.at_ns));
        // If a switch was lost, the time since the last known one cannot be attributed.
        if let Some((task, since_ns)) = before.filter(|(task, _)| task.tid == switch.prev.tid) {
            let sums = if task.is_idle() { &mut self.idle_ns } else { &mut self.busy_ns };
            self.grid.add(sums, since_ns, switch.at_ns);
        }
    }

    pub fn sample(&mut self, at_ns: u64, is_idle: bool, count: u16) {
        let sums = if is_idle { &mut self.idle_samples } else { &mut self.busy_samples };
        if let Some(sum) = slot(sums, self.grid.window(at_ns)) {
            *sum += u64::from(count.max(1));
        }
    }

    pub fn engine(&mut self, busy: &EngineBusy) {
        if self.engines.len() >= MAX_ENGINES && !self.engines.contains_key(&busy.engine) {
            self.dropped += 1;
            return;
        }
        self.grid.add(self.engines.entry(busy.engine).or_default(), busy.begin_ns, busy.end_ns);
    }

    /// Makes the rows of all windows in time order. `out` also gets the end of the window.
    pub fn rows(
        &self,
        engines: &[EngineInfo],
        mut out: impl FnMut(u64, Vec<DeviceSampleRow>, Option<SystemSampleRow>),
    ) {
        let names: Vec<Text> = self.engines.keys().map(|engine| device_name(*engine, engines)).collect();
        for window in 0..self.grid.windows {
            let at = |sums: &[u64]| sums.get(window).copied().unwrap_or(0);
            let (length_ns, end_ns) = self.grid.extent(window);
            let mut devices = Vec::new();
            let mut system = None;
            let (busy, idle, source, method) = if self.has_switches {
                (at(&self.busy_ns), at(&self.idle_ns), "etw context switches", "measured")
            } else {
                (at(&self.busy_samples), at(&self.idle_samples), "etw samples", "estimated")
            };
            let row = |device: Text, metric: &str, value: f64, source: &str, method: &str| DeviceSampleRow {
                timestamp_ns: end_ns,
                device,
                metric: metric.into(),
                value,
                source: source.into(),
                method: method.into(),
            };
            if busy + idle > 0 {
                let ratio = busy as f64 / (busy + idle) as f64;
                devices.push(row("cpu".into(), "busy_ratio", ratio, source, method));
                if self.has_switches {
                    let cpu_percent = Some(ratio * 100.0);
                    system = Some(SystemSampleRow {
                        timestamp_ns: end_ns,
                        cpu_percent,
                        ..SystemSampleRow::default()
                    });
                }
            }
            for (name, sums) in names.iter().zip(self.engines.values()) {
                // Where the trace does not show the order of work, packets may overlap.
                let ratio = (at(sums) as f64 / length_ns as f64).min(1.0);
                devices.push(row(Text::clone(name), "utilization_ratio", ratio, "etw dxgkrnl", "measured"));
            }
            out(end_ns, devices, system);
        }
    }
}

fn device_name(engine: Engine, known: &[EngineInfo]) -> Text {
    let info = known.iter().find(|info| info.engine == engine);
    let what = match info {
        Some(info) if !info.name.is_empty() => info.name.clone(),
        Some(info) => info.type_name().to_owned(),
        None => String::new(),
    };
    // A trace identifies adapters by their address only.
    format!("adapter {:x} engine {} {what}", engine.adapter, engine.node).trim_end().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_divided_among_its_windows() {
        let mut series = Series::new(1_000_000_000, 1_250_000_000);
        let engine = Engine { adapter: 1, node: 0 };
        let busy = EngineBusy {
            engine,
            pid: 1,
            context: 1,
            submitted_ns: 0,
            begin_ns: 1_050_000_000,
            end_ns: 1_225_000_000,
        };
        series.engine(&busy);
        let mut ratios = Vec::new();
        series.rows(&[], |_, devices, _| ratios.extend(devices.iter().map(|row| row.value)));
        assert_eq!(ratios, [0.5, 1.0, 0.5], "the last window is half as long");
    }
}
