//! What recording costs on disk, in processor time and in memory, and how fast a large recording opens.

use std::process::Command;

use anyhow::Result;
use serde_json::{Value, json};

use super::answer::{answer_of, number};
use super::{Figure, Goal, Report, Setting, scratch};
use crate::process::seconds;
use crate::run;

pub(crate) fn run(setting: &Setting<'_>) -> Result<Report> {
    let program = run::build_benchmarks(&setting.environment.workspace)?;
    let phase = |name: &str, more: &[&str]| -> Result<Value> {
        let started = std::time::Instant::now();
        let mut command = Command::new(&program);
        command.args(["store", "--phase", name, "--directory"]).arg(scratch(setting)?).args(more);
        let answer = answer_of(&mut command)?;
        eprintln!("  {name} … {}", seconds(started.elapsed()));
        Ok(answer)
    };
    let samples = phase("samples", &[])?;
    let report = phase("report", if setting.quick { &["--rows", "1000000"] } else { &[] })?;
    let day = phase("day", if setting.quick { &["--seconds", "3600"] } else { &[] })?;

    let (bytes, logical) = (number(&samples, "bytes")?, number(&samples, "logical_rows")?);
    let changed = number(&samples, "changed_rows")?;
    Ok(Report {
        figures: vec![
            Figure::new(
                "bytes_per_logical_sample",
                bytes / logical,
                Goal::AtMost(0.5),
                "bytes of segments / process samples of 33 columns, told again where nothing changed",
            ),
            Figure::new("bytes_per_changed_row", bytes / changed, Goal::Shown, "the same / rows that changed"),
            Figure::new(
                "ratio_sqlite_bytes",
                number(&samples, "sqlite_bytes")? / bytes,
                Goal::AtLeast(5.0),
                "bytes of a SQLite file with the same changed rows / ours",
            ),
            Figure::new(
                "rows_per_cpu_s",
                number(&samples, "rows_per_cpu_s")?,
                Goal::Shown,
                "process samples stored per second of CPU time, all threads, journal and segments",
            ),
            Figure::new(
                "open_10m_rows_ms",
                number(&report, "open_ms")?,
                Goal::Shown,
                "time to open a recording of ten million inferences",
            ),
            Figure::new(
                "report_10m_rows_ms",
                number(&report, "report_ms")?,
                Goal::Shown,
                "the same until its HTML report is made",
            ),
            Figure::new(
                "day_memory_mb",
                number(&day, "peak_bytes")? / 1e6,
                Goal::AtMost(100.0),
                "highest resident memory of the process that records 24 hours of virtual time",
            ),
            Figure::new(
                "day_disk_mb",
                number(&day, "directory_bytes")? / 1e6,
                Goal::Shown,
                "size of that recording on disk",
            ),
        ],
        peers: json!({"sqlite": {"version": "bundled with rusqlite 0.41", "bytes": samples["sqlite_bytes"]}}),
        notes: vec![
            "simulated machine (seeded): 104 processes at 100 Hz, one row in twenty changes per tick, processes come \
             and go"
                .into(),
            format!("samples: {samples}"),
            format!("report: {report}"),
            format!("day: {day}"),
        ],
    })
}
