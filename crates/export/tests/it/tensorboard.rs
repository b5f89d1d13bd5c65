//! Directories for TensorBoard, as TensorBoard's own reader and xprof read them.

use std::path::Path;
use std::process::Command;

use ortscope_core::schema::{InferenceRow, OperatorKind, OperatorRow, SystemSampleRow, TableId};
use ortscope_core::tables::Tables as _;
use ortscope_export::{ExportOptions, ExportReport, Format, export};
use serde_json::Value;

use crate::skips;
use crate::support::{info, nasty_tables};
use crate::traces::trace_tables;

fn written(directory: &Path, overwrite: bool) -> ExportReport {
    let host = "pc 7/x".to_owned();
    let options = ExportOptions { host, overwrite, ..ExportOptions::new(Format::TensorBoard) };
    export(&trace_tables(), &info(), &options, directory).unwrap()
}

#[test]
fn files_stand_where_tensorboard_looks() {
    let directory = tempfile::tempdir().unwrap();
    let report = written(&directory.path().join("logs"), false);
    let names: Vec<String> = report
        .files
        .iter()
        .map(|file| file.path.strip_prefix(directory.path()).unwrap().to_string_lossy().replace('\\', "/"))
        .collect();
    // Operators without a session are of what the recording is of.
    let files = |model: &str| {
        let run = format!("logs/{model}/2026-11-15-7f3a9c2e");
        [
            format!("{run}/events.out.tfevents.1700000000.pc_7_x.0.0.ortscope"),
            format!("{run}/plugins/profile/2026-11-15-7f3a9c2e/pc_7_x.xplane.pb"),
        ]
    };
    assert_eq!(names, [files("squeeze__net__模型"), files("squeezenet")].concat());
    assert_eq!((report.files[1].rows, report.files[3].rows), (19_000, 2_000));
    // What stands there is not replaced, and nothing half is left beside it.
    let options = ExportOptions { host: "pc 7/x".to_owned(), ..ExportOptions::new(Format::TensorBoard) };
    let error = export(&trace_tables(), &info(), &options, &directory.path().join("logs")).unwrap_err();
    assert!(error.to_string().ends_with("exists already"), "{error}");
    // With leave to replace, the Profile tab gets a new session: it would go on showing the old one.
    let report = written(&directory.path().join("logs"), true);
    assert!(report.files[1].path.to_string_lossy().contains("2026-11-15-7f3a9c2e-2"), "{:?}", report.files);
}

fn read(directory: &Path) -> Option<Value> {
    checked(directory, "check_tensorboard.py")
}

fn checked(directory: &Path, script: &str) -> Option<Value> {
    let python = skips::python_with(&["tensorboard", "xprof"])?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools").join(script);
    let output = Command::new(&python).arg("-X").arg("utf8").arg(script).arg(directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// What the rows of operators and inferences come to.
struct Expected {
    inferences: f64,
    latency_ms: f64,
    /// All rows of the table, and those that are operators.
    rows: (f64, f64),
    operators: (f64, f64),
}

fn expected() -> Expected {
    let mut all = Expected { inferences: 0.0, latency_ms: 0.0, rows: (0.0, 0.0), operators: (0.0, 0.0) };
    let tables = trace_tables();
    for batch in &tables.batches {
        for row in batch.rows::<InferenceRow>() {
            let nanos = row.timestamp_ns - row.planned_ns + row.copy_in_ns + row.run_ns + row.copy_out_ns;
            all.inferences += 1.0;
            all.latency_ms += nanos as f64 / 1e6;
        }
        for row in batch.rows::<OperatorRow>() {
            let micros = row.duration_ns as f64 / 1e3;
            all.rows = (all.rows.0 + 1.0, all.rows.1 + micros);
            if row.kind == OperatorKind::Operator {
                all.operators = (all.operators.0 + 1.0, all.operators.1 + micros);
            }
        }
    }
    all
}

/// TensorBoard itself, started over the directory, answers as it answers its page.
#[test]
fn tensorboard_serves_the_sums_of_the_rows() {
    let directory = tempfile::tempdir().unwrap();
    written(directory.path(), false);
    let Some(found) = checked(directory.path(), "check_tensorboard_http.py") else { return };
    let expected = expected();
    let close = |found: &Value, expected: f64| {
        let found = found.as_f64().unwrap_or_else(|| panic!("{found} is no number"));
        assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{found} is not {expected}");
    };
    assert_eq!(found["runs"].as_array().unwrap().len(), 2, "{}", found["runs"]);
    let run = "squeeze__net__模型/2026-11-15-7f3a9c2e";
    let scalars = &found["scalars"][run];
    close(&scalars["inferences/count"]["sum"], expected.inferences);
    close(&scalars["latency/sum_ms"]["sum"], expected.latency_ms);
    assert_eq!(scalars["device/gpu0/power_watts"]["count"], 399);
    close(&found["histograms"][run]["latency/distribution_ms"]["sum"], expected.inferences);
    assert!(found["texts"].as_u64().unwrap() > 0);
    let Some(profiles) = found["profiles"].as_object() else {
        skips::skipped("this Python has no xprof; the Profile tab was not asked");
        return;
    };
    let sum = |what: &str, key: &str| -> f64 {
        profiles.values().map(|profile| profile[what][key].as_f64().unwrap()).sum()
    };
    assert_eq!((sum("slices", "count"), sum("operators", "count")), (expected.rows.0, expected.operators.0));
    // It counts picoseconds, and shows microseconds with three digits behind the point.
    let near = |found: f64, (rows, micros): (f64, f64)| {
        assert!((found - micros).abs() <= 1e-3 * rows, "{found} is not {micros}");
    };
    near(sum("slices", "sum"), expected.rows);
    near(sum("operators", "sum"), expected.operators);
    assert!(profiles.values().all(|profile| profile["tools"].as_array().unwrap().len() > 2), "{profiles:?}");
}

#[test]
fn tensorboard_reads_the_sums_of_the_rows() {
    let directory = tempfile::tempdir().unwrap();
    written(directory.path(), false);
    let Some(found) = read(directory.path()) else { return };
    let tags = found["events"].as_object().unwrap().values().next().unwrap();
    let tables = trace_tables();
    let (mut count, mut latency_ns, mut operator_ns, mut operators, mut cpu) = (0u64, 0u64, 0u64, 0u64, 0.0);
    for batch in &tables.batches {
        for row in batch.rows::<InferenceRow>() {
            count += 1;
            latency_ns += row.timestamp_ns - row.planned_ns + row.copy_in_ns + row.run_ns + row.copy_out_ns;
        }
        batch
            .rows::<OperatorRow>()
            .for_each(|row| (operators, operator_ns) = (operators + 1, operator_ns + row.duration_ns));
        batch.rows::<SystemSampleRow>().for_each(|row| cpu += row.cpu_percent.unwrap_or(0.0));
    }
    let sum = |tag: &str| tags[tag]["sum"].as_f64().unwrap_or_else(|| panic!("{tag} is not in {tags}"));
    assert_eq!(sum("inferences/count"), count as f64);
    assert_eq!(sum("latency/distribution_ms"), count as f64);
    assert!((sum("latency/sum_ms") - latency_ns as f64 / 1e6).abs() < 1e-6);
    assert!((sum("machine/cpu_percent") - cpu).abs() < 1e-9);
    assert_eq!(tags["device/gpu0/power_watts"]["count"], 399);
    assert_eq!(
        (&tags["latency/p50_ms"]["plugin"], &tags["recording"]["plugin"]),
        (&"scalars".into(), &"text".into())
    );
    assert!(tags["recording"]["texts"][0].as_str().unwrap().contains("squeezenet"));
    let profile = found["profiles"].as_object().unwrap().values().next().unwrap();
    if profile.is_null() {
        skips::skipped("this Python has no xprof; the Profile tab was not checked");
        return;
    }
    let profiles = found["profiles"].as_object().unwrap().values();
    let (mut events, mut micros) = (0, 0.0);
    for profile in profiles {
        events += profile["events"].as_u64().unwrap();
        micros += profile["micros"].as_f64().unwrap();
    }
    assert_eq!(events, operators);
    assert!((micros - operator_ns as f64 / 1e3).abs() < 1e-3 * operators as f64, "{micros}");
}

/// Values from the ends of their types neither break the writer nor its reader.
#[test]
fn nasty_values_are_left_out_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let tables = nasty_tables(300);
    let options = ExportOptions::new(Format::TensorBoard);
    let report = export(&tables, &info(), &options, directory.path()).unwrap();
    assert!(report.notes.iter().any(|note| note.contains("impossible times")), "{:?}", report.notes);
    assert!(tables.row_count(TableId::Operators) > 0);
    read(directory.path());
}
