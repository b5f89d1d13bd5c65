//! The records of the API as JSON lines.

use ortscope_core::schema::{
    DeviceSampleRow, InferenceRow, OperatorRow, ProcessSampleRow, SessionRow, SystemSampleRow,
    UnavailabilityRow,
};
use ortscope_core::tables::MemoryTables;
use ortscope_export::{ExportOptions, Format, export_to};
use serde_json::{Value, json};

use crate::support::{info, nasty_tables};
use crate::traces::batch;

const SECOND: u64 = 1_000_000_000;

fn tables() -> MemoryTables {
    let inferences: Vec<InferenceRow> = (0..1_000)
        .map(|sequence| InferenceRow {
            timestamp_ns: SECOND + sequence * 2_000_000,
            planned_ns: SECOND + sequence * 2_000_000,
            session_id: "s1".into(),
            sequence,
            phase: "steady".into(),
            run_ns: 1_000_000 + sequence * 1_000,
            batch_size: Some(4),
            ok: true,
            ..InferenceRow::default()
        })
        .collect();
    let operators: Vec<OperatorRow> = (0..6)
        .map(|number| OperatorRow {
            timestamp_ns: number,
            session_id: "s1".into(),
            run: Some(number / 3),
            kind: if number % 3 == 2 { "run" } else { "operator" }.into(),
            flops: (number % 3 != 2).then_some(500),
            ..OperatorRow::default()
        })
        .collect();
    let watts = |timestamp_ns: u64, value: f64| DeviceSampleRow {
        timestamp_ns,
        device: "package-0".into(),
        metric: "power_watts".into(),
        value,
        ..DeviceSampleRow::default()
    };
    let memory = |timestamp_ns: u64, pid: u64, working_set_bytes: u64| ProcessSampleRow {
        timestamp_ns,
        pid,
        working_set_bytes,
        ..ProcessSampleRow::default()
    };
    let machine = |timestamp_ns: u64| SystemSampleRow {
        timestamp_ns,
        cpu_percent: Some(10.0),
        memory_used_bytes: Some(1),
        memory_total_bytes: Some(4),
        ..SystemSampleRow::default()
    };
    MemoryTables {
        batches: vec![
            batch(&inferences),
            batch(&operators),
            batch(&[watts(SECOND, 10.0), watts(2 * SECOND, 20.0)]),
            batch(&[memory(SECOND, 7, 3_000_000), memory(SECOND, 8, 1), memory(2 * SECOND, 8, 1)]),
            batch(&[machine(SECOND), machine(2 * SECOND)]),
            batch(&[SessionRow {
                session_id: "s1".into(),
                model_name: "net".into(),
                pid: Some(7),
                ..SessionRow::default()
            }]),
            batch(&[UnavailabilityRow {
                from_ns: 0,
                track: "npu".into(),
                reason: "no driver".into(),
                ..UnavailabilityRow::default()
            }]),
        ],
    }
}

fn records(tables: &MemoryTables) -> Vec<Value> {
    let options = ExportOptions { records: true, ..ExportOptions::new(Format::JsonLines) };
    let mut out = Vec::new();
    let report = export_to(tables, &info(), &options, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<Value> = text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(report.rows, lines.len() as u64);
    lines
}

#[test]
fn records_join_what_was_recorded_at_the_time() {
    let lines = records(&tables());
    let of = |kind: &str| -> Vec<&Value> { lines.iter().filter(|line| line["record"] == kind).collect() };
    let inferences = of("inference");
    assert_eq!(inferences.len(), 1_000);
    let (first, last) = (inferences[0], inferences[999]);
    assert_eq!(first["model_name"], json!("net"));
    assert_eq!((&first["energy"]["power_w"], &last["energy"]["power_w"]), (&json!(10.0), &json!(20.0)));
    assert_eq!(first["energy"]["joules"], json!(0.01));
    // Two operators of 500 in the first profiled run; 0.01 J per inference.
    assert_eq!(first["energy"]["flops_per_watt"], json!(100_000.0));
    let p50 = first["latency"]["percentiles"]["p50"].as_f64().unwrap();
    assert!((1.49..1.51).contains(&p50), "{p50}");
    assert_eq!(first["unavailable"]["hardware.npu_percent"], json!("no driver"));
    assert_eq!(of("operation").len(), 4);
    let system = of("system");
    assert_eq!(system[0]["process_memory_mb"], json!(3.0));
    assert_eq!(system[0]["memory_percent"], json!(25.0));
    // The process of the session was gone at the second tick.
    assert_eq!(system[1]["process_memory_mb"], json!(null));
    assert_eq!(system[1]["unavailable"]["process_memory_mb"], json!("no process with a session was sampled"));
}

/// JSON has no NaN: what is not a number must have become a null with a reason before.
#[test]
fn nasty_rows_become_valid_records() {
    for line in records(&nasty_tables(200)) {
        assert!(line["record"].is_string() && line["unavailable"].is_object());
    }
}
