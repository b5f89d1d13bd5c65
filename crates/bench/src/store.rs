//! Measures the cost of storing data: bytes, CPU time, memory, and the time to open a large recording. For
//! `cargo xtask bench store` and `cargo xtask trust day`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, ensure};
use ortscope_core::schema::TableId;
use ortscope_core::tables::Tables as _;
use ortscope_export::{ExportOptions, Format};
use ortscope_result::{ReportInput, ReportModel, ReportOptions};
use ortscope_sources::own_usage;
use ortscope_store::{NewRecording, Recording, RecordingWriter, Store};
use serde_json::{Value, json};

use crate::simulation::Simulation;

const SEED: u64 = 7;
/// Typical of a quiet desktop.
const PROCESSES: usize = 104;
const HERTZ: u32 = 100;
const INFERENCES_PER_BATCH: usize = 1024;

#[derive(Debug, clap::Args)]
pub struct StoreArgs {
    #[arg(long, value_enum)]
    phase: Phase,
    /// Directory for the recordings of the benchmark
    #[arg(long)]
    directory: PathBuf,
    /// Virtual seconds of samples
    #[arg(long)]
    seconds: Option<u64>,
    /// Number of inferences
    #[arg(long)]
    rows: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Phase {
    Samples,
    Report,
    Day,
}

pub fn run(args: &StoreArgs) -> Result<Value> {
    // As every command of `ortscope` that may run for days.
    ortscope_sources::release_memory_automatically();
    ortscope_store::after_segments(ortscope_sources::release_memory_now);
    let place = tempfile::tempdir_in(&args.directory)?;
    match args.phase {
        Phase::Samples => samples(place.path(), args.seconds.unwrap_or(97)),
        Phase::Day => samples(place.path(), args.seconds.unwrap_or(86_400)),
        Phase::Report => report(place.path(), args.rows.unwrap_or(10_000_000)),
    }
}

fn begin(place: &Path) -> Result<(Store, RecordingWriter)> {
    let store = Store::open(place);
    let writer = store.begin(NewRecording {
        origin: "bench".into(),
        subject: "simulated".into(),
        ortscope_version: env!("CARGO_PKG_VERSION").into(),
        ..NewRecording::default()
    })?;
    Ok((store, writer))
}

/// CPU time of all threads of this process so far.
fn cpu_seconds() -> f64 {
    own_usage().map_or(f64::NAN, |usage| usage.cpu_time_ns as f64 / 1e9)
}

/// Stores the samples of a simulated machine in virtual time, as fast as possible.
fn samples(place: &Path, seconds: u64) -> Result<Value> {
    let ticks = seconds * u64::from(HERTZ);
    // The cost of simulating the data is measured separately and subtracted.
    let making = {
        let mut simulation = Simulation::new(SEED, PROCESSES, HERTZ);
        let before = cpu_seconds();
        let probe = ticks.min(20_000);
        for _ in 0..probe {
            std::hint::black_box(simulation.next_tick());
        }
        (cpu_seconds() - before) / probe as f64
    };
    let (_store, writer) = begin(place)?;
    let mut simulation = Simulation::new(SEED, PROCESSES, HERTZ);
    let (before, started) = (cpu_seconds(), Instant::now());
    let mut logical_rows = 0u64;
    for _ in 0..ticks {
        let batch = simulation.next_tick();
        logical_rows += batch.len() as u64;
        writer.append(&batch)?;
    }
    let finished = writer.finish("finished")?;
    let cpu = cpu_seconds() - before - making * ticks as f64;
    let wall = started.elapsed().as_secs_f64();
    let peak = own_usage().ok().and_then(|usage| usage.peak_working_set_bytes).unwrap_or(0);

    let recording = Recording::open(&finished.directory)?;
    let stored: u64 = recording.tables().iter().map(|table| table.bytes).sum();
    let changed = recording.row_count(TableId::ProcessSamples);
    let expanded = recording.logical_rows(TableId::ProcessSamples)?;
    ensure!(expanded == logical_rows, "{logical_rows} samples were stored, {expanded} are read back");
    // SQLite gets the same changed rows. A whole day would only repeat the ratio.
    let sqlite_bytes = if seconds <= 3600 { Some(sqlite_bytes(place, &recording)?) } else { None };
    Ok(json!({
        "logical_rows": logical_rows, "changed_rows": changed, "bytes": stored, "directory_bytes": finished.bytes,
        "cpu_seconds": cpu, "wall_seconds": wall, "making_seconds": making * ticks as f64,
        "rows_per_cpu_s": logical_rows as f64 / cpu, "peak_bytes": peak, "sqlite_bytes": sqlite_bytes,
        "virtual_seconds": seconds, "processes": PROCESSES, "hertz": HERTZ,
    }))
}

fn sqlite_bytes(place: &Path, recording: &Recording) -> Result<u64> {
    let target = place.join("peer.sqlite");
    let options =
        ExportOptions { tables: Some(vec![TableId::ProcessSamples]), ..ExportOptions::new(Format::Sqlite) };
    let info = recording.manifest().info();
    ortscope_export::export(recording, &info, &options, &target)?;
    Ok(fs_err::metadata(&target)?.len())
}

/// Stores many inferences and measures the time until their HTML report exists.
fn report(place: &Path, rows: u64) -> Result<Value> {
    let (_store, writer) = begin(place)?;
    let mut simulation = Simulation::new(SEED, 1, HERTZ);
    let before = cpu_seconds();
    let mut written = 0;
    while written < rows {
        let batch = simulation.next_inferences(INFERENCES_PER_BATCH.min((rows - written) as usize));
        written += batch.len() as u64;
        writer.append(&batch)?;
    }
    let finished = writer.finish("finished")?;
    let writing = cpu_seconds() - before;

    let started = Instant::now();
    let recording = Recording::open(&finished.directory)?;
    let opened = started.elapsed().as_secs_f64();
    let input = ReportInput {
        recording: recording.manifest().info(),
        run_document: None,
        condition: recording.condition().sentences(),
    };
    let model = ReportModel::build(&recording, &input, &ReportOptions::default())?;
    let html = ortscope_render::html(&model);
    let drawn = started.elapsed().as_secs_f64();
    let peak = own_usage().ok().and_then(|usage| usage.peak_working_set_bytes).unwrap_or(0);
    Ok(json!({
        "rows": recording.row_count(TableId::Inferences), "bytes": finished.bytes, "open_ms": opened * 1e3,
        "report_ms": drawn * 1e3, "html_bytes": html.len(), "write_cpu_seconds": writing, "peak_bytes": peak,
    }))
}
