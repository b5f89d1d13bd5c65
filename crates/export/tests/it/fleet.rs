//! The layout for many machines, as DuckDB reads it.

use std::path::Path;
use std::process::Command;

use ortscope_core::schema::{OperatorRow, TableId};
use ortscope_core::tables::Tables as _;
use ortscope_export::{ExportInfo, ExportOptions, Format, export};
use serde_json::Value;

use crate::skips;
use crate::support::info;
use crate::traces::trace_tables;

fn host(directory: &Path, name: &str, id: &str) -> Vec<ortscope_export::ExportedFile> {
    let options = ExportOptions { host: name.to_owned(), ..ExportOptions::new(Format::Fleet) };
    let info = ExportInfo { id: id.to_owned(), ..info() };
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
    let again = ExportInfo { id: "run1".into(), ..info() };
    let error = export(&trace_tables(), &again, &options, directory.path()).unwrap_err();
    assert!(error.to_string().ends_with("exists already"), "{error}");
    // Two hosts side by side.
    host(directory.path(), "pc2", "run2");
    assert!(directory.path().join("operators/model=squeeze__net__模型/host=pc2").is_dir());
}

#[test]
fn duckdb_finds_the_rows_and_sums_of_all_hosts() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..5 {
        host(directory.path(), &format!("pc{number}"), &format!("run{number}"));
    }
    let Some(python) = skips::variable("ORTSCOPE_TEST_PYTHON") else { return };
    if !Command::new(&python).args(["-c", "import duckdb"]).output().unwrap().status.success() {
        skips::skipped("this Python has no duckdb; `pip install duckdb`");
        return;
    }
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
