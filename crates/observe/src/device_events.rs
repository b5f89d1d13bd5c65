//! GPUs, NPUs, clocks and energy from Windows' own event providers, in a separate trace session.

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
/// A window is emitted this long after its end, because events arrive in buffers. If an engine is busy for longer without a
/// break, only the last part is counted.
const SETTLED_NS: u64 = 3_000_000_000;
const MAX_ENGINES: usize = 256;

/// `None` if nothing is requested, or the system has no event tracing.
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
        // Device load is the same whichever processes are observed.
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

/// Busy time of engines per second, and power events as they arrive.
#[derive(Debug, Default)]
struct Rows {
    known: BTreeSet<Engine>,
    windows: BTreeMap<u64, BTreeMap<Engine, u64>>,
    /// The first window that was not emitted yet.
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

    /// Emits a row for every known engine and every past second, including zeros.
    fn emit_until(&mut self, before_ns: u64, mut emit: impl FnMut(&DeviceSampleRow)) {
        let Some(next) = &mut self.next else { return };
        while (*next + 1) * WINDOW_NS <= before_ns {
            let sums = self.windows.remove(next).unwrap_or_default();
            for engine in &self.known {
                let busy_ns = sums.get(engine).copied().unwrap_or(0);
                emit(&DeviceSampleRow {
                    timestamp_ns: (*next + 1) * WINDOW_NS,
                    device: format!("adapter {:x} engine {}", engine.adapter, engine.node).into(),
                    metric: "utilization_ratio".into(),
                    // Packets may overlap if the order of work is unknown.
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
        self.emit_until(self.latest_ns.saturating_sub(SETTLED_NS), |row| out.emit(row));
        Box::new(Sink { rows: self, out })
    }

    fn finish(&mut self, out: &mut Emitter) {
        self.emit_until(self.latest_ns, |row| out.emit(row));
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

    fn emitted(rows: &mut Rows, before_ns: u64) -> Vec<(u64, u32, f64)> {
        let mut emitted = Vec::new();
        rows.emit_until(before_ns, |row| {
            let node = row.device.rsplit(' ').next().and_then(|node| node.parse().ok()).expect("a number");
            emitted.push((row.timestamp_ns / WINDOW_NS, node, row.value));
        });
        emitted
    }

    #[test]
    fn busy_time_is_split_by_second_and_idle_engines_have_zeros() {
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
        assert_eq!(emitted(&mut rows, 10_999_999_999), []);
        let second = |value: (u64, u32, f64)| (value.0, value.1, (value.2 * 100.0).round() / 100.0);
        let first: Vec<_> = emitted(&mut rows, 12_400_000_000).into_iter().map(second).collect();
        assert_eq!(first, [(11, 0, 0.25), (11, 1, 0.1), (12, 0, 0.0), (12, 1, 1.0)]);
        // Of an earlier packet, only the part after the emitted windows counts.
        rows.busy(&busy(0, 1_000_000_000, 13_000_000_000));
        assert_eq!(emitted(&mut rows, 13_000_000_000), [(13, 0, 1.0), (13, 1, 0.5)]);
        assert!(rows.windows.is_empty());
    }
}
