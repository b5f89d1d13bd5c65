//! The layout for many machines, as DuckDB reads it.

use std::path::Path;
use std::process::Command;

use ortscope_core::recording::RecordingInfo;
use ortscope_core::schema::{OperatorKind, OperatorRow, TableId};
use ortscope_core::tables::Tables as _;
use ortscope_export::{ExportOptions, Format, export};
use serde_json::Value;

use crate::skips;
use crate::support::info;
use crate::traces::trace_tables;

fn host(directory: &Path, name: &str, id: &str) -> Vec<ortscope_export::ExportedFile> {
    let options = ExportOptions { host: name.to_owned(), ..ExportOptions::new(Format::Fleet) };
    let info = RecordingInfo { id: id.to_owned(), ..info() };
    export(&trace_tables(), &info, &options, directory).unwrap().files
}

#[test]
fn the_manifest_comes_last_and_names_every_file() {
    let directory = tempfile::tempdir().unwrap();
    let files = host(directory.path(), "pc1", "run1");
    let manifest = &files.last().unwrap().path;
    let partition = "model=squeeze__net__模型/host=pc1/date=2023-11-14";
    assert_eq!(*manifest, directory.path().join("manifests").join(partition).join("run1.json"));
    let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
    let named = manifest["files"].as_array().unwrap();
    assert_eq!(named.len(), files.len() - 1);
    for (named, file) in named.iter().zip(&files) {
        assert_eq!(directory.path().join(named["path"].as_str().unwrap()), file.path);
        assert_eq!((named["rows"].as_u64(), named["bytes"].as_u64()), (Some(file.rows), Some(file.bytes)));
    }
    // The same recording once more is refused, and leaves everything as it was.
    let options = ExportOptions { host: "pc1".into(), ..ExportOptions::new(Format::Fleet) };
    let again = RecordingInfo { id: "run1".into(), ..info() };
    let error = export(&trace_tables(), &again, &options, directory.path()).unwrap_err();
    assert!(error.to_string().ends_with("exists already"), "{error}");
    // Two hosts side by side.
    host(directory.path(), "pc2", "run2");
    assert!(directory.path().join("operators/model=squeeze__net__模型/host=pc2").is_dir());
}

/// The statements of FLEET.md for an engine, over this directory: those of all blocks that are marked with its name.
fn documented(engine: &str, directory: &Path) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/FLEET.md");
    let page = std::fs::read_to_string(page).unwrap().replace("\r\n", "\n");
    let section = page.split("\n### ").find(|section| section.starts_with(engine));
    let section = section.unwrap_or_else(|| panic!("FLEET.md has no section {engine}"));
    let blocks = section.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let statements: String = blocks.collect();
    assert!(statements.contains("/mnt/fleet"), "{statements}");
    statements.replace("/mnt/fleet", &directory.display().to_string().replace('\\', "/"))
}

/// What an engine answers to them; `None` (and the test is noted as skipped) where it is not installed.
fn asked(engine: &str, package: &str, directory: &Path) -> Option<Vec<Value>> {
    let python = skips::python_with(&[package])?;
    let file = directory.join(format!("{engine}.sql"));
    std::fs::write(&file, documented(engine, directory)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/check_fleet.py");
    let engine = engine.to_lowercase();
    let output =
        Command::new(&python).arg("-X").arg("utf8").arg(script).arg(engine).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answers: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    for answer in &answers {
        assert!(answer.get("error").is_none(), "{}\n{}", answer["statement"], answer["error"]);
        let rows = answer["answer"]["rows"].as_array();
        assert!(rows.is_none_or(|rows| !rows.is_empty()), "no rows: {}", answer["statement"]);
    }
    Some(answers)
}

/// A column of the answer to the statement with these words.
fn column(answers: &[Value], words: &str, name: &str) -> Vec<f64> {
    let answer = answers.iter().find(|answer| answer["statement"].as_str().unwrap().contains(words));
    let answer = &answer.unwrap_or_else(|| panic!("no statement has '{words}'"))["answer"];
    let index = answer["columns"].as_array().unwrap().iter().position(|column| column == name);
    let index = index.unwrap_or_else(|| panic!("no column {name} in {}", answer["columns"]));
    // Large whole numbers come as texts.
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok()).expect("a number");
    answer["rows"].as_array().unwrap().iter().map(|row| number(&row[index])).collect()
}

const HOSTS: usize = 5;

/// Every question of FLEET.md, word by word. The sums of the answers are those of the rows.
fn questions_are_answered(engine: &str, package: &str) {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..HOSTS {
        host(directory.path(), &format!("pc{number}"), &format!("run{number}"));
    }
    let Some(answers) = asked(engine, package, directory.path()) else { return };
    let tables = trace_tables();
    let (mut operators, mut nanos, mut on_cpu) = (0u64, 0u64, 0u64);
    for row in tables.batches.iter().flat_map(|batch| batch.rows::<OperatorRow>()) {
        if row.kind == OperatorKind::Operator {
            (operators, nanos) = (operators + 1, nanos + row.duration_ns);
            on_cpu += u64::from(&*row.execution_provider == "CPUExecutionProvider");
        }
    }
    let hosts = HOSTS as f64;
    let sum = |words: &str, name: &str| column(&answers, words, name).iter().sum::<f64>();
    let time = "p99_us";
    assert_eq!(sum(time, "calls"), hosts * operators as f64);
    let (found, expected) = (sum(time, "seconds"), hosts * nanos as f64 / 1e9);
    assert!((found - expected).abs() <= 1e-9 * expected, "{found} is not {expected}");
    // All machines are equally fast here.
    let ratios = column(&answers, "as ratio", "ratio");
    assert!(ratios.len() == HOSTS && ratios.iter().all(|ratio| (ratio - 1.0).abs() < 1e-9), "{ratios:?}");
    // It shows the first 20 nodes of each.
    let fallen = sum("CPUExecutionProvider", "calls");
    assert!(fallen > 0.0 && fallen <= hosts * on_cpu as f64, "{fallen}");
    assert_eq!(sum("p99_ms", "inferences"), hosts * tables.row_count(TableId::Inferences) as f64);
    assert_eq!(sum("manifests", "rows"), hosts * tables.row_count(TableId::Operators) as f64);
}

#[test]
fn duckdb_answers_every_question_of_the_page() {
    questions_are_answered("DuckDB", "duckdb");
}

#[test]
fn clickhouse_answers_every_question_of_the_page() {
    questions_are_answered("ClickHouse", "chdb");
}

#[test]
fn duckdb_finds_the_rows_and_sums_of_all_hosts() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..5 {
        host(directory.path(), &format!("pc{number}"), &format!("run{number}"));
    }
    let Some(python) = skips::python_with(&["duckdb"]) else { return };
    const SCRIPT: &str = "
import json, sys, duckdb
rows = duckdb.sql(f\"\"\"
    select host, count(*) as count, sum(duration_ns)::bigint as nanos, any_value(model) as model
    from read_parquet('{sys.argv[1]}/operators/**/*.parquet', hive_partitioning = true)
    group by host order by host\"\"\").fetchall()
print(json.dumps(rows))
";
    let output = Command::new(&python).arg("-c").arg(SCRIPT).arg(directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<(String, u64, u64, String)> = serde_json::from_slice(&output.stdout).unwrap();
    let tables = trace_tables();
    let nanos: u64 =
        tables.batches.iter().flat_map(|batch| batch.rows::<OperatorRow>()).map(|row| row.duration_ns).sum();
    assert_eq!(rows.len(), 5);
    for (number, (host, count, sum, model)) in rows.iter().enumerate() {
        assert_eq!(
            (host.as_str(), *count),
            (format!("pc{number}").as_str(), tables.row_count(TableId::Operators))
        );
        assert_eq!((*sum, model.as_str()), (nanos, "squeeze__net__模型"));
    }
}
