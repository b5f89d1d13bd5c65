//! Traces, as Perfetto's own trace processor reads them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ortscope_core::batch::Batch;
use ortscope_core::schema::{
    AnnotationRow, DeviceSampleRow, InferenceRow, KernelEventRow, OperatorRow, ProcessRow, ProcessSampleRow,
    Row, SessionRow, SystemSampleRow, TableId, TickRow,
};
use ortscope_core::tables::MemoryTables;
use ortscope_export::{ExportOptions, Format, export, export_to};
use serde_json::{Value, json};

use crate::skips;
use crate::support::{Dice, TEXTS, check, info};

const START_NS: u64 = 1_000;

pub fn batch<R: Row>(rows: &[R]) -> Batch {
    let mut batch = Batch::new(R::TABLE);
    for row in rows {
        assert!(batch.push(row));
    }
    batch
}

/// Runs of operators as ONNX Runtime profiles them: parents after their children, times cut to microseconds.
pub fn operators(count: usize) -> Vec<Batch> {
    let mut dice = Dice::new(7);
    let mut rows = Vec::with_capacity(count);
    let mut now = START_NS * 1_000;
    for run in 0u64.. {
        let begin = now;
        for node in 0..19u64 {
            let duration = 300 + dice.below(40_000);
            let provider = ["CPUExecutionProvider", "DmlExecutionProvider"][(node % 2) as usize];
            rows.push(OperatorRow {
                timestamp_ns: now,
                duration_ns: duration,
                session_id: "5d9c9f2a-0001".into(),
                run: Some(run),
                kind: "operator".into(),
                name: format!("{} {node}", TEXTS[node as usize % TEXTS.len()]).into(),
                op_type: "Conv".into(),
                node_index: Some(node),
                execution_provider: provider.into(),
                device: ["CPU", "GPU"][(node % 2) as usize].into(),
                thread: 70 + node % 3,
                input_shapes: Some("[[1,3,224,224]]".into()),
                output_bytes: Some(dice.below(1 << 40)),
                flops: (node % 5 > 0).then_some(u64::MAX - node),
                ..OperatorRow::default()
            });
            now += duration + dice.below(500);
        }
        for (kind, name) in [("executor", "SequentialExecutor::Execute"), ("run", "model_run")] {
            rows.push(OperatorRow {
                // Cut, as the profile cuts it: the child can end behind its parent.
                timestamp_ns: begin / 1_000 * 1_000,
                duration_ns: (now - begin) / 1_000 * 1_000 + if kind == "executor" { 1_000 } else { 0 },
                kind: kind.into(),
                name: name.into(),
                thread: 70,
                ..OperatorRow::default()
            });
        }
        if rows.len() >= count {
            break;
        }
    }
    rows.truncate(count);
    rows.chunks(10_000).map(batch).collect()
}

pub fn trace_tables() -> MemoryTables {
    let mut batches = operators(21_000);
    let inferences: Vec<InferenceRow> = (0..500)
        .map(|sequence| InferenceRow {
            timestamp_ns: START_NS + 1 + sequence * 1_000_003,
            planned_ns: START_NS + 1,
            session_id: "5d9c9f2a-0001".into(),
            sequence,
            stream: sequence % 2,
            phase: "steady".into(),
            copy_in_ns: 11,
            run_ns: 1_900_007,
            copy_out_ns: 101,
            ok: true,
            ..InferenceRow::default()
        })
        .collect();
    batches.push(batch(&inferences));
    batches.push(batch(&[SessionRow {
        timestamp_ns: START_NS,
        session_id: "5d9c9f2a-0001".into(),
        model_name: "squeeze \"net\" 模型".into(),
        ..SessionRow::default()
    }]));
    let kernel: Vec<KernelEventRow> = (0..300)
        .map(|number| KernelEventRow {
            timestamp_ns: START_NS + number * 777_001,
            kind: "context_switch".into(),
            processor: (number % 3 > 0).then_some(number % 3),
            tid: Some(number),
            duration_ns: Some(number),
            value: Some(u64::MAX - number),
            detail: Some(TEXTS[number as usize % TEXTS.len()].into()),
            ..KernelEventRow::default()
        })
        .collect();
    batches.push(batch(&kernel));
    let marks = TEXTS.iter().zip(0..).map(|(text, number)| AnnotationRow {
        timestamp_ns: START_NS + number,
        kind: "log".into(),
        text: (*text).into(),
    });
    batches.push(batch(&marks.collect::<Vec<_>>()));
    let readings: Vec<DeviceSampleRow> = (0..400)
        .map(|number| DeviceSampleRow {
            timestamp_ns: START_NS + number * 10_000_000,
            device: "gpu0".into(),
            metric: "power_watts".into(),
            value: if number == 5 { f64::NAN } else { number as f64 * 0.25 },
            ..DeviceSampleRow::default()
        })
        .collect();
    batches.push(batch(&readings));
    batches.extend(samples());
    MemoryTables { batches }
}

/// A process that computes for 10 ms, is idle until 90 ms, then computes again; only its changed rows are there.
fn samples() -> Vec<Batch> {
    let at = |millis: u64| START_NS + millis * 1_000_000;
    let sample = |millis: u64, cpu_time_ns: u64| ProcessSampleRow {
        timestamp_ns: at(millis),
        pid: 4_242,
        process_start: 1,
        cpu_time_ns,
        working_set_bytes: 50_000_000,
        ..ProcessSampleRow::default()
    };
    let process = ProcessRow {
        timestamp_ns: at(0),
        pid: 4_242,
        process_start: 1,
        event: "seen".into(),
        name: "python".into(),
        ..ProcessRow::default()
    };
    let ticks: Vec<TickRow> = (0..=10)
        .map(|tick| TickRow { timestamp_ns: at(tick * 10), table: "process_samples".into() })
        .collect();
    let machine: Vec<SystemSampleRow> = (0..10)
        .map(|tick| SystemSampleRow {
            timestamp_ns: at(tick * 10),
            cpu_percent: (tick > 0).then_some(tick as f64 * 1.5),
            memory_used_bytes: Some(1 << 60),
            ..SystemSampleRow::default()
        })
        .collect();
    vec![
        batch(&[process]),
        batch(&[sample(0, 0), sample(10, 10_000_000), sample(100, 15_000_000)]),
        batch(&ticks),
        batch(&machine),
    ]
}

/// Integers come as text, reals as numbers.
pub fn number(value: &Value) -> f64 {
    value.as_str().map_or_else(|| value.as_f64().unwrap_or(f64::NAN), |text| text.parse().unwrap_or(f64::NAN))
}

/// The answer of Perfetto, or `None` after noting the skip.
fn perfetto(tables: &MemoryTables, format: Format) -> Option<Value> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(format!("run.{}", format.extension()));
    assert_eq!(Format::by_extension(&path).unwrap(), format);
    let report = export(tables, &info(), &ExportOptions::new(format), &path).unwrap();
    assert_eq!(report.files.len(), 1);
    perfetto_reads(directory.path(), path)
}

pub fn perfetto_reads(directory: &Path, path: PathBuf) -> Option<Value> {
    let trace = check(directory, &[("chrome", path)])?[0]["trace"].clone();
    if let Some(missing) = trace["missing"].as_str() {
        skips::not_set_up(&format!("no {missing} to run Perfetto's trace processor with"));
        return None;
    }
    assert_eq!(trace.get("failed"), None, "{trace}");
    Some(trace)
}

#[test]
fn perfetto_sees_every_row() {
    sees_every_row(Format::Chrome);
}

#[test]
fn perfetto_sees_every_row_of_its_own_packets() {
    sees_every_row(Format::Perfetto);
}

fn sees_every_row(format: Format) {
    let tables = trace_tables();
    let Some(trace) = perfetto(&tables, format) else {
        return;
    };
    assert_eq!(trace["errors"], json!([]), "Perfetto has nothing to complain about");

    // Slices by category: how many, how long together, and the sum of their starts, to the nanosecond.
    let mut expected: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    let mut add = |category: &str, start: u64, duration: u64| {
        let sums = expected.entry(category.to_owned()).or_default();
        *sums = (sums.0 + 1, sums.1 + duration, sums.2 + start - START_NS);
    };
    for batch in &tables.batches {
        batch.rows::<OperatorRow>().for_each(|row| add(&row.kind, row.timestamp_ns, row.duration_ns));
        batch.rows::<InferenceRow>().for_each(|row| {
            add("inference", row.timestamp_ns, row.copy_in_ns + row.run_ns + row.copy_out_ns);
        });
        batch.rows::<KernelEventRow>().for_each(|row| add("kernel", row.timestamp_ns, 0));
        batch.rows::<AnnotationRow>().for_each(|row| add("annotation", row.timestamp_ns, 0));
    }
    let slices = trace["slices"].as_array().unwrap();
    let found: BTreeMap<String, (u64, u64, u64)> = slices
        .iter()
        .map(|row| {
            let sums = (number(&row[1]) as u64, number(&row[2]) as u64, number(&row[3]) as u64);
            (row[0].as_str().unwrap().to_owned(), sums)
        })
        .collect();
    assert_eq!(found, expected);

    let lanes: Vec<(&str, &str)> = trace["lanes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row[0].as_str().unwrap(), row[1].as_str().unwrap()))
        .collect();
    for lane in [
        ("Inferences: squeeze \"net\" 模型 5d9c9f2a", "stream 1"),
        ("Operators: CPUExecutionProvider", "thread 72"),
        ("Operators: DmlExecutionProvider", "thread 70"),
        ("ONNX Runtime", "thread 70"),
        ("Kernel", "processor 2"),
        ("Annotations", "log"),
    ] {
        assert!(lanes.contains(&lane), "{lane:?} is not among {lanes:?}");
    }
    counters(&trace["counters"]);
}

fn counters(found: &Value) {
    let found: BTreeMap<(String, String), (f64, f64, f64)> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let key = (row[0].as_str().unwrap().to_owned(), row[1].as_str().unwrap().to_owned());
            (key, (number(&row[2]), number(&row[3]), number(&row[5])))
        })
        .collect();
    let get = |process: &str, counter: &str| {
        let key = (process.to_owned(), counter.to_owned());
        *found.get(&key).unwrap_or_else(|| panic!("{key:?} is not among {found:?}"))
    };
    // One of the 400 is not a number.
    let watts: f64 = (0..400).filter(|number| *number != 5).map(|number| f64::from(number) * 0.25).sum();
    assert_eq!(get("Devices", "gpu0 power_watts"), (399.0, watts, 3_990_000_000.0));
    assert_eq!(get("Machine", "cpu percent"), (9.0, 67.5, 90_000_000.0));
    // It does not change: one event.
    assert_eq!(get("Machine", "memory used_bytes").0, 1.0);
    // 100 % from 0 to 10 ms, 0 % until the tick at 90 ms, then 50 %.
    let (events, sum, last) = get("python (pid 4242)", "cpu percent");
    assert_eq!((events, last), (3.0, 90_000_000.0));
    assert!((sum - 150.0).abs() < 1e-9, "{sum}");
}

/// Impossible times are left out and said; the rest of the trace is whole.
#[test]
fn impossible_times_are_left_out_and_counted() {
    let mut rows: Vec<OperatorRow> =
        (0..5).map(|number| OperatorRow { timestamp_ns: 10 + number, ..OperatorRow::default() }).collect();
    rows[1].duration_ns = u64::MAX;
    rows[2].timestamp_ns = u64::MAX;
    let tables = MemoryTables { batches: vec![batch(&rows)] };
    let mut out = Vec::new();
    let report = export_to(&tables, &info(), &ExportOptions::new(Format::Chrome), &mut out).unwrap();
    assert_eq!(report.rows, 3);
    assert!(report.notes[0].starts_with("2 rows have times"), "{:?}", report.notes);
    let events: Vec<Value> = serde_json::from_slice(&out).unwrap();
    assert_eq!(events.iter().filter(|event| event["ph"] == "X").count(), 3);
}

/// Remembers where each write ended.
struct Pieces {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl std::io::Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_trace_that_is_cut_between_two_writes_is_complete_but_for_its_bracket() {
    let mut out = Pieces { bytes: Vec::new(), ends: Vec::new() };
    export_to(&trace_tables(), &info(), &ExportOptions::new(Format::Chrome), &mut out).unwrap();
    assert!(out.ends.len() > 20, "{} writes", out.ends.len());
    let (last, cuts) = out.ends.split_last().unwrap();
    assert_eq!(*last, out.bytes.len());
    for end in cuts {
        assert_eq!(&out.bytes[end - 1..end + 2], b"},\n", "cut at {end}");
    }
    let whole: Vec<Value> = serde_json::from_slice(&out.bytes).unwrap();
    let cut = [&out.bytes[..cuts[cuts.len() / 2]], b"]"].concat();
    let events: Vec<Value> = serde_json::from_slice(&cut).expect("a list of whole events");
    assert!(events.len() > 1_000);
    assert_eq!(events[..], whole[..events.len()]);
}

/// Perfetto opens it as it is, without the bracket.
#[test]
fn perfetto_opens_a_trace_that_was_cut() {
    let mut out = Pieces { bytes: Vec::new(), ends: Vec::new() };
    export_to(&trace_tables(), &info(), &ExportOptions::new(Format::Chrome), &mut out).unwrap();
    let cut = out.ends[out.ends.len() / 2];
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.trace.json");
    std::fs::write(&path, &out.bytes[..cut]).unwrap();
    let Some(trace) = perfetto_reads(directory.path(), path) else {
        return;
    };
    let found: f64 = trace["slices"].as_array().unwrap().iter().map(|row| number(&row[1])).sum();
    let written = String::from_utf8_lossy(&out.bytes[..cut]);
    let events =
        ["{\"ph\":\"X\"", "{\"ph\":\"i\""].iter().map(|event| written.matches(event).count()).sum::<usize>();
    assert_eq!(found, events as f64);
    assert!(events > 1_000);
    assert_eq!(trace["errors"], json!([]));
}

/// Packets are whole in every piece that is written: a file that was cut has all before the cut.
#[test]
fn perfetto_opens_packets_that_were_cut() {
    let mut out = Pieces { bytes: Vec::new(), ends: Vec::new() };
    export_to(&trace_tables(), &info(), &ExportOptions::new(Format::Perfetto), &mut out).unwrap();
    assert!(out.ends.len() > 10, "{} writes", out.ends.len());
    let directory = tempfile::tempdir().unwrap();
    let count = |name: &str, bytes: &[u8]| -> Option<f64> {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let trace = perfetto_reads(directory.path(), path)?;
        Some(trace["slices"].as_array().unwrap().iter().map(|row| number(&row[1])).sum())
    };
    let Some(whole) = count("whole.pftrace", &out.bytes) else { return };
    let cut = out.ends[out.ends.len() / 2];
    let half = count("cut.pftrace", &out.bytes[..cut]).unwrap();
    assert!(half > 500.0 && half < whole, "{half} of {whole}");
}

/// Every viewer wants these members; the Firefox Profiler looks at the first events, speedscope at all of them.
#[test]
fn every_event_has_what_viewers_ask_for() {
    let mut out = Vec::new();
    export_to(&trace_tables(), &info(), &ExportOptions::new(Format::Chrome), &mut out).unwrap();
    let events: Vec<Value> = serde_json::from_slice(&out).unwrap();
    for event in &events {
        assert!(event["name"].is_string() && event["cat"].is_string(), "{event}");
        assert!(event["pid"].is_u64() && event["tid"].is_u64() && event["args"].is_object(), "{event}");
        let phase = event["ph"].as_str().unwrap();
        assert_eq!(event["ts"].is_number(), phase != "M", "{event}");
        assert_eq!(event["dur"].is_number(), phase == "X", "{event}");
    }
    assert_eq!(events[0]["args"]["id"], json!("2026-11-15-7f3a9c2e"));
    assert_eq!(events[0]["args"]["trace_start_ns"], json!(START_NS));
}

/// On no lane does an event begin inside another and end behind it.
#[test]
fn events_nest_on_every_lane() {
    let mut out = Vec::new();
    let tables = MemoryTables { batches: operators(50_000) };
    export_to(&tables, &info(), &ExportOptions::new(Format::Chrome), &mut out).unwrap();
    let events: Vec<Value> = serde_json::from_slice(&out).unwrap();
    let nanos = |value: &Value| (value.as_f64().unwrap() * 1_000.0).round() as u64;
    let mut open: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut seen = 0;
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let (start, duration) = (nanos(&event["ts"]), nanos(&event["dur"]));
        let ends = open.entry(event["tid"].as_u64().unwrap()).or_default();
        while ends.last().is_some_and(|end| *end <= start) {
            ends.pop();
        }
        assert!(ends.last().is_none_or(|end| start + duration <= *end), "{event}");
        ends.push(start + duration);
        seen += 1;
    }
    assert_eq!(seen, 50_000);
    let names = events.iter().filter(|event| event["name"] == "thread_name");
    let late = names.filter(|event| event["args"]["name"].as_str().unwrap().contains("out of order"));
    assert_eq!(late.count(), 0);
    assert_eq!(tables.batches[0].table(), TableId::Operators);
}
