//! Converts frames of a server to rows of the live memory.
//!
//! Times are moved to this machine's clock by their age in the frame. Rates become counters again, because the memory
//! computes rates from counters: a counter grows by the rate times the time since the frame before.

use std::collections::HashMap;

use ortscope_core::batch::Batch;
use ortscope_core::clock::now_ns;
use ortscope_core::schema::{
    DeviceSampleRow, InferenceRow, LossRow, ProcessRow, ProcessSampleRow, Row, SessionRow, SystemSampleRow,
    Text, UnavailabilityRow,
};
use serde_json::Value;

use crate::facts::OwnCost;

/// Processes whose counters are kept; beyond that all counters restart.
const MAX_PROCESSES: usize = 10_000;
const MAX_SESSIONS: usize = 1000;
/// Counters grow by at most this time between two frames.
const MAX_STEP_NS: u64 = 5_000_000_000;

#[derive(Debug, Default, Clone, Copy)]
struct Counters {
    at_ns: u64,
    cpu_time_ns: f64,
    read_bytes: f64,
    write_bytes: f64,
    context_switches: f64,
    page_faults: f64,
}

/// State kept from frame to frame.
#[derive(Debug, Default)]
pub struct Rows {
    /// Cost of observation on the server.
    pub cost: OwnCost,
    processes: HashMap<(u64, u64), Counters>,
    sessions: HashMap<String, u64>,
    lost: u64,
    dropped: u64,
}

fn batch<R: Row>(rows: impl IntoIterator<Item = R>) -> Batch {
    let mut batch = Batch::new(R::TABLE);
    for row in rows {
        if !batch.push(&row) {
            break;
        }
    }
    batch
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> Text {
    value.as_str().unwrap_or_default().into()
}

/// Converts times of a frame to this machine's clock.
#[derive(Clone, Copy)]
struct Clock {
    now_ns: u64,
    at_ms: f64,
}

impl Clock {
    fn ns(&self, t_ms: &Value) -> u64 {
        let age_ms = (self.at_ms - t_ms.as_f64().unwrap_or(self.at_ms)).clamp(0.0, 60_000.0);
        self.now_ns.saturating_sub((age_ms * 1e6) as u64)
    }
}

impl Rows {
    pub fn of(&mut self, frame: &Value) -> Vec<Batch> {
        let now_ns = now_ns();
        match frame["type"].as_str() {
            Some("metrics") => self.metrics(frame, now_ns),
            Some("dropped") => {
                let dropped = frame["dropped"].as_u64().unwrap_or(0);
                let more = dropped.saturating_sub(std::mem::replace(&mut self.dropped, dropped));
                vec![loss("connection", "frames", more, now_ns)]
            }
            Some("hello") => {
                // A new connection counts its frames from zero.
                self.dropped = 0;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    pub fn connection_lost(&mut self, why: &str) -> Vec<Batch> {
        let row = UnavailabilityRow {
            from_ns: now_ns(),
            to_ns: None,
            track: "connection".into(),
            reason: format!("{why}; reconnecting").into(),
            hint: None,
        };
        vec![batch([row])]
    }

    fn metrics(&mut self, frame: &Value, now_ns: u64) -> Vec<Batch> {
        let clock = Clock { now_ns, at_ms: frame["at_ms"].as_f64().unwrap_or(0.0) };
        let mut batches = self.sessions(list(&frame["sessions"]), now_ns);
        batches.extend(system(&frame["system"], clock));
        batches.push(batch(devices(frame, clock)));
        batches.extend(self.processes(list(&frame["processes"]), now_ns));
        batches.push(batch(self.inferences(&frame["events"], clock)));
        batches.extend(self.losses(&frame["losses"], now_ns));
        batches
    }

    fn sessions(&mut self, sessions: &[Value], now_ns: u64) -> Vec<Batch> {
        let mut new = Vec::new();
        for session in sessions {
            let id = session["session_id"].as_str().unwrap_or_default();
            if self.sessions.contains_key(id) || self.sessions.len() >= MAX_SESSIONS {
                continue;
            }
            self.sessions.insert(id.to_owned(), 0);
            let providers: Vec<&str> =
                list(&session["execution_providers"]).iter().filter_map(Value::as_str).collect();
            new.push(SessionRow {
                timestamp_ns: now_ns,
                session_id: id.into(),
                pid: session["pid"].as_u64(),
                model_name: text(&session["title"]),
                execution_providers: providers.join(",").into(),
                ort_version: session["ort_version"].as_str().map(Into::into),
                options: None,
            });
        }
        vec![batch(new)]
    }

    fn inferences(&mut self, events: &Value, clock: Clock) -> Vec<InferenceRow> {
        let (ids, times) = (list(&events["session_id"]), list(&events["t_ms"]));
        let nanos = |column: &str, index: usize| {
            (events[column][index].as_f64().unwrap_or(0.0).clamp(0.0, 1e12) * 1e6) as u64
        };
        let mut rows = Vec::new();
        for (index, (id, t_ms)) in ids.iter().zip(times).enumerate() {
            let Some(sequence) = id.as_str().and_then(|id| self.sessions.get_mut(id)) else { continue };
            let (run_ns, end_to_end_ns) = (nanos("run_ms", index), nanos("end_to_end_ms", index));
            let timestamp_ns = clock.ns(t_ms);
            rows.push(InferenceRow {
                timestamp_ns,
                planned_ns: timestamp_ns,
                session_id: text(id),
                sequence: *sequence,
                phase: "steady".into(),
                copy_in_ns: end_to_end_ns.saturating_sub(run_ns),
                run_ns,
                ok: events["ok"][index].as_bool().unwrap_or(true),
                ..InferenceRow::default()
            });
            *sequence += 1;
        }
        rows
    }

    fn processes(&mut self, processes: &[Value], now_ns: u64) -> Vec<Batch> {
        if self.processes.len() > MAX_PROCESSES {
            self.processes.clear();
        }
        let (mut facts, mut samples) = (Vec::new(), Vec::new());
        for process in processes {
            let start = process["start"].as_str().and_then(|start| start.parse::<u64>().ok());
            let (Some(pid), Some(start)) = (process["pid"].as_u64(), start) else { continue };
            let is_new = !self.processes.contains_key(&(pid, start));
            let counters = self.processes.entry((pid, start)).or_default();
            if is_new {
                facts.push(ProcessRow {
                    timestamp_ns: now_ns,
                    pid,
                    process_start: start,
                    event: "seen".into(),
                    name: text(&process["name"]),
                    parent_pid: process["parent_pid"].as_u64(),
                    command_line: process["command_line"].as_str().map(Into::into),
                    ..ProcessRow::default()
                });
            }
            let passed = now_ns.saturating_sub(counters.at_ns).min(MAX_STEP_NS) as f64 / 1e9;
            counters.at_ns = now_ns;
            let rate = |name: &str| process[name].as_f64();
            let grow = |counter: &mut f64, per_second: Option<f64>| {
                per_second.map(|per_second| {
                    *counter += per_second.max(0.0) * passed;
                    *counter as u64
                })
            };
            let cpu =
                grow(&mut counters.cpu_time_ns, rate("cpu_percent").map(|percent| percent / 100.0 * 1e9));
            samples.push(ProcessSampleRow {
                timestamp_ns: now_ns,
                pid,
                process_start: start,
                cpu_time_ns: cpu.unwrap_or(counters.cpu_time_ns as u64),
                working_set_bytes: process["working_set_bytes"].as_u64().unwrap_or(0),
                private_bytes: process["private_bytes"].as_u64(),
                thread_count: process["thread_count"].as_u64(),
                handle_count: process["handle_count"].as_u64(),
                read_bytes: grow(&mut counters.read_bytes, rate("read_bytes_per_second")),
                write_bytes: grow(&mut counters.write_bytes, rate("write_bytes_per_second")),
                context_switches: grow(&mut counters.context_switches, rate("context_switches_per_second")),
                page_faults: grow(&mut counters.page_faults, rate("page_faults_per_second")),
                ..ProcessSampleRow::default()
            });
        }
        vec![batch(facts), batch(samples)]
    }

    fn losses(&mut self, losses: &Value, now_ns: u64) -> Vec<Batch> {
        let Some(lost) = losses["lost"].as_u64() else { return Vec::new() };
        self.cost = OwnCost {
            cpu_percent: losses["own_cost"]["server_cpu_percent"].as_f64(),
            memory_bytes: losses["own_cost"]["server_memory_bytes"].as_u64(),
        };
        // A restarted server counts from zero.
        let more = lost.saturating_sub(std::mem::replace(&mut self.lost, lost));
        vec![loss("server", "records", more, now_ns)]
    }
}

fn loss(place: &str, kind: &str, count: u64, timestamp_ns: u64) -> Batch {
    let row = LossRow { timestamp_ns, place: place.into(), kind: kind.into(), count };
    batch(Some(row).filter(|row| row.count > 0))
}

fn system(topic: &Value, clock: Clock) -> Vec<Batch> {
    let (system, memory) = (&topic["system"], &topic["memory"]);
    if !system.is_object() {
        return Vec::new();
    }
    vec![batch([SystemSampleRow {
        timestamp_ns: clock.ns(&system["t_ms"]),
        cpu_percent: system["cpu_percent"].as_f64(),
        memory_used_bytes: memory["used_bytes"].as_u64(),
        memory_total_bytes: memory["total_bytes"].as_u64(),
        swap_used_bytes: memory["swap_used_bytes"].as_u64(),
        ..SystemSampleRow::default()
    }])]
}

fn devices(frame: &Value, clock: Clock) -> Vec<DeviceSampleRow> {
    let at = clock.ns(&frame["system"]["system"]["t_ms"]);
    let core = |core: &Value| {
        Some(DeviceSampleRow {
            timestamp_ns: at,
            device: format!("cpu{}", core["core"].as_u64()?).into(),
            metric: "busy_ratio".into(),
            value: core["busy_percent"].as_f64()? / 100.0,
            source: "server".into(),
            method: "measured".into(),
        })
    };
    let device = |reading: &Value| {
        Some(DeviceSampleRow {
            timestamp_ns: clock.ns(&reading["t_ms"]),
            device: text(&reading["device"]),
            metric: text(&reading["metric"]),
            value: reading["value"].as_f64()?,
            source: text(&reading["origin"]),
            method: reading["method"].as_str().unwrap_or_default().into(),
        })
    };
    let cores = list(&frame["system"]["cores"]).iter().filter_map(core);
    cores.chain(list(&frame["devices"]["devices"]).iter().filter_map(device)).collect()
}

#[cfg(test)]
mod tests {
    use ortscope_core::schema::TableId;
    use serde_json::json;

    use super::*;

    fn frame(cpu_percent: f64) -> Value {
        json!({
            "type": "metrics", "at_ms": 1000.0,
            "system": {
                "system": { "t_ms": 990.0, "cpu_percent": 25.0 }, "cores": [{ "core": 1, "busy_percent": 50.0 }],
                "memory": { "used_bytes": 10, "total_bytes": 20, "swap_used_bytes": null },
            },
            "sessions": [{ "session_id": "s", "title": "m.onnx", "pid": 7, "execution_providers": ["CPU"] }],
            "processes": [{ "pid": 7, "start": "5", "name": "python", "cpu_percent": cpu_percent, "working_set_bytes": 3 }],
            "events": { "session_id": ["s"], "t_ms": [995.0], "run_ms": [2.0], "end_to_end_ms": [3.0], "ok": [true] },
            "losses": { "lost": 4, "own_cost": { "server_cpu_percent": 1.5, "server_memory_bytes": 9 } },
        })
    }

    fn all<R: Row>(batches: &[Batch]) -> Vec<R> {
        batches.iter().filter(|batch| batch.table() == R::TABLE).flat_map(|batch| batch.rows::<R>()).collect()
    }

    #[test]
    fn a_frame_becomes_rows_and_its_rates_become_counters() {
        let mut rows = Rows::default();
        let first = rows.of(&frame(50.0));
        assert_eq!(all::<SessionRow>(&first).len(), 1);
        assert_eq!(all::<LossRow>(&first)[0].count, 4);
        assert_eq!(all::<InferenceRow>(&first)[0].run_ns, 2_000_000);
        assert_eq!(all::<DeviceSampleRow>(&first)[0].value, 0.5);
        std::thread::sleep(std::time::Duration::from_millis(20));
        let second = rows.of(&frame(50.0));
        assert!(all::<SessionRow>(&second).is_empty() && all::<LossRow>(&second).is_empty());
        let (before, after) = (&all::<ProcessSampleRow>(&first)[0], &all::<ProcessSampleRow>(&second)[0]);
        let passed = (after.timestamp_ns - before.timestamp_ns) as f64;
        let used = (after.cpu_time_ns - before.cpu_time_ns) as f64;
        assert!((used / passed - 0.5).abs() < 0.01, "{used} of {passed}");
        assert_eq!(rows.cost.cpu_percent, Some(1.5));
    }

    #[test]
    fn invalid_frames_give_no_rows() {
        let mut rows = Rows::default();
        for bad in [
            json!(null),
            json!({ "type": "metrics" }),
            json!({ "type": "metrics", "processes": [1, {}], "events": 3 }),
        ] {
            assert!(
                rows.of(&bad).iter().all(|batch| batch.is_empty() || batch.table() == TableId::Losses),
                "{bad}"
            );
        }
    }
}
