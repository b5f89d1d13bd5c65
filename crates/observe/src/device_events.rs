//! GPUs, NPUs, clocks and energy as Windows itself tells of them: providers beside the kernel, in a session of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ortscope_core::pipeline::Emitter;
use ortscope_core::schema::DeviceSampleRow;
use ortscope_decode::etw::{DeviceRow, Engine, EngineBusy, EtwSink, power_row};
use ortscope_sources::etw::{
    EtwApi, EtwRows, EtwSource, KernelFlags, ProcessFilter, Provider, Settings, providers,
};

/// Windows event providers for devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceProvider {
    /// GPUs and NPUs: how busy their engines are.
    Gpu,
    /// Clocks and limits of processors.
    Power,
    /// Windows' energy estimates.
    Energy,
}

const TRACK: &str = "device_events";
const WINDOW_NS: u64 = 1_000_000_000;
/// A window is told so long after its end: events come by the buffer. What an engine does longer than this at a stretch is
/// told of its last part.
const SETTLED_NS: u64 = 3_000_000_000;
const MAX_ENGINES: usize = 256;

/// `None` where nothing is asked for, or the system has no such sessions.
pub fn source(wanted: &[DeviceProvider]) -> Option<EtwSource> {
    if wanted.is_empty() {
        return None;
    }
    ortscope_sources::etw_functions().map(|api| with_functions(api, wanted))
}

fn with_functions(api: Arc<dyn EtwApi>, wanted: &[DeviceProvider]) -> EtwSource {
    let settings = Settings {
        name: format!("ortscope-devices-{}", std::process::id()),
        kernel: KernelFlags::default(),
        providers: wanted.iter().map(|which| provider(*which)).collect(),
        // A device is everybody's: how busy it is does not depend on who is watched.
        filter: ProcessFilter::everything(),
        ..Settings::default()
    };
    EtwSource::new("device events", TRACK, api, settings, Box::new(Rows::default()))
}

fn provider(which: DeviceProvider) -> Provider {
    match which {
        DeviceProvider::Gpu => providers::DXGKRNL,
        DeviceProvider::Power => providers::PROCESSOR_POWER,
        DeviceProvider::Energy => providers::ENERGY_ESTIMATION,
    }
}

/// Busy time of engines by the second, and power events as they come.
#[derive(Debug, Default)]
struct Rows {
    known: BTreeSet<Engine>,
    windows: BTreeMap<u64, BTreeMap<Engine, u64>>,
    /// The first window that was not told yet.
    next: Option<u64>,
    latest_ns: u64,
    left_out: u64,
}

impl Rows {
    fn busy(&mut self, busy: &EngineBusy) {
        self.latest_ns = self.latest_ns.max(busy.end_ns);
        if self.known.len() >= MAX_ENGINES && !self.known.contains(&busy.engine) {
            self.left_out += 1;
            return;
        }
        self.known.insert(busy.engine);
        let next = *self.next.get_or_insert(busy.end_ns / WINDOW_NS);
        let mut at_ns = busy.begin_ns.max(next * WINDOW_NS);
        while at_ns < busy.end_ns {
            let window = at_ns / WINDOW_NS;
            let end_ns = ((window + 1) * WINDOW_NS).min(busy.end_ns);
            *self.windows.entry(window).or_default().entry(busy.engine).or_default() += end_ns - at_ns;
            at_ns = end_ns;
        }
    }

    /// Every engine that was seen has a row of every second that is over, be it 0.
    fn tell(&mut self, before_ns: u64, mut emit: impl FnMut(&DeviceSampleRow)) {
        let Some(next) = &mut self.next else { return };
        while (*next + 1) * WINDOW_NS <= before_ns {
            let sums = self.windows.remove(next).unwrap_or_default();
            for engine in &self.known {
                let busy_ns = sums.get(engine).copied().unwrap_or(0);
                emit(&DeviceSampleRow {
                    timestamp_ns: (*next + 1) * WINDOW_NS,
                    device: format!("adapter {:x} engine {}", engine.adapter, engine.node).into(),
                    metric: "utilization_ratio".into(),
                    // Where the order of work is not told, packets may overlap.
                    value: (busy_ns as f64 / WINDOW_NS as f64).min(1.0),
                    source: "etw dxgkrnl".into(),
                    method: "measured".into(),
                });
            }
            *next += 1;
        }
    }
}

impl EtwRows for Rows {
    fn sink<'a>(&'a mut self, out: &'a mut Emitter) -> Box<dyn EtwSink + 'a> {
        self.tell(self.latest_ns.saturating_sub(SETTLED_NS), |row| out.emit(row));
        Box::new(Sink { rows: self, out })
    }

    fn finish(&mut self, out: &mut Emitter) {
        self.tell(self.latest_ns, |row| out.emit(row));
        out.lost("packets of engines beyond the limit", std::mem::take(&mut self.left_out));
    }
}

struct Sink<'a> {
    rows: &'a mut Rows,
    out: &'a mut Emitter,
}

impl EtwSink for Sink<'_> {
    fn engine_busy(&mut self, busy: &EngineBusy) {
        self.rows.busy(busy);
    }

    fn device(&mut self, row: &DeviceRow) {
        self.rows.latest_ns = self.rows.latest_ns.max(row.at_ns);
        self.out.emit(&power_row(row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rows: &mut Rows, before_ns: u64) -> Vec<(u64, u32, f64)> {
        let mut told = Vec::new();
        rows.tell(before_ns, |row| {
            let node = row.device.rsplit(' ').next().and_then(|node| node.parse().ok()).expect("a number");
            told.push((row.timestamp_ns / WINDOW_NS, node, row.value));
        });
        told
    }

    #[test]
    fn busy_time_is_shared_out_by_the_second_and_an_idle_engine_has_zeros() {
        let mut rows = Rows::default();
        let busy = |node, begin_ns, end_ns| EngineBusy {
            engine: Engine { adapter: 7, node },
            pid: 1,
            context: 1,
            submitted_ns: begin_ns,
            begin_ns,
            end_ns,
        };
        // 0.25 s of second 10; the whole of 11 and half of 12, in one packet.
        rows.busy(&busy(0, 10_500_000_000, 10_750_000_000));
        rows.busy(&busy(1, 10_900_000_000, 12_500_000_000));
        assert_eq!(told(&mut rows, 10_999_999_999), []);
        let second = |value: (u64, u32, f64)| (value.0, value.1, (value.2 * 100.0).round() / 100.0);
        let first: Vec<_> = told(&mut rows, 12_400_000_000).into_iter().map(second).collect();
        assert_eq!(first, [(11, 0, 0.25), (11, 1, 0.1), (12, 0, 0.0), (12, 1, 1.0)]);
        // A packet that began before what was told counts from there on.
        rows.busy(&busy(0, 1_000_000_000, 13_000_000_000));
        assert_eq!(told(&mut rows, 13_000_000_000), [(13, 0, 1.0), (13, 1, 0.5)]);
        assert!(rows.windows.is_empty());
    }
}
