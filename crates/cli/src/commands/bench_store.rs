//! What keeping data costs: bytes, processor time, memory, and the time to open a large recording. For
//! `cargo xtask bench store`. Each phase runs in a process of its own, so that its memory is its own.

use std::path::Path;
use std::time::Instant;

use ortscope_core::schema::TableId;
use ortscope_core::tables::Tables as _;
use ortscope_export::{ExportOptions, Format};
use ortscope_result::{ReportInput, ReportModel, ReportOptions};
use ortscope_sources::own_usage;
use ortscope_store::simulate::Simulation;
use ortscope_store::{NewRecording, Recording, RecordingWriter, Store};
use serde_json::{Value, json};

use crate::args::{BenchStoreArgs, StorePhase};
use crate::exit::{Exit, Failure};
use crate::terminal;

const SEED: u64 = 7;
/// As many processes as a quiet desktop has.
const PROCESSES: usize = 104;
const HERTZ: u32 = 100;
/// Inferences handed over at once.
const INFERENCES: usize = 1024;

pub fn run(args: &BenchStoreArgs) -> Result<Exit, Failure> {
    let place = tempfile::tempdir_in(&args.directory)?;
    let figures = match args.phase {
        StorePhase::Samples => samples(place.path(), args.seconds.unwrap_or(97))?,
        StorePhase::Day => samples(place.path(), args.seconds.unwrap_or(86_400))?,
        StorePhase::Report => report(place.path(), args.rows.unwrap_or(10_000_000))?,
    };
    terminal::print_data(&format!("{figures}\n"));
    Ok(Exit::Ok)
}

fn begin(place: &Path) -> Result<(Store, RecordingWriter), Failure> {
    let store = Store::open(place);
    let writer = store.begin(NewRecording {
        origin: "bench".into(),
        subject: "simulated".into(),
        ortscope_version: env!("CARGO_PKG_VERSION").into(),
        ..NewRecording::default()
    })?;
    Ok((store, writer))
}

/// CPU time of this process so far, all threads.
fn cpu_seconds() -> f64 {
    own_usage().map_or(f64::NAN, |usage| usage.cpu_time_ns as f64 / 1e9)
}

/// Virtual time: the samples of a machine, as fast as they can be stored.
fn samples(place: &Path, seconds: u64) -> Result<Value, Failure> {
    let ticks = seconds * u64::from(HERTZ);
    // What making the data costs is measured alone and taken off.
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
    // SQLite gets the same changed rows; the day would only repeat the ratio.
    let sqlite_bytes = if seconds <= 3600 { Some(sqlite_bytes(place, &recording)?) } else { None };
    Ok(json!({
        "logical_rows": logical_rows, "changed_rows": changed, "bytes": stored, "directory_bytes": finished.bytes,
        "cpu_seconds": cpu, "wall_seconds": wall, "making_seconds": making * ticks as f64,
        "rows_per_cpu_s": logical_rows as f64 / cpu, "peak_bytes": peak, "sqlite_bytes": sqlite_bytes,
        "virtual_seconds": seconds, "processes": PROCESSES, "hertz": HERTZ,
    }))
}

fn sqlite_bytes(place: &Path, recording: &Recording) -> Result<u64, Failure> {
    let target = place.join("peer.sqlite");
    let options =
        ExportOptions { tables: Some(vec![TableId::ProcessSamples]), ..ExportOptions::new(Format::Sqlite) };
    let info = recording.manifest().info();
    ortscope_export::export(recording, &info, &options, &target)?;
    Ok(fs_err::metadata(&target)?.len())
}

/// A recording of many inferences: how long until a person sees its first report.
fn report(place: &Path, rows: u64) -> Result<Value, Failure> {
    let (_store, writer) = begin(place)?;
    let mut simulation = Simulation::new(SEED, 1, HERTZ);
    let before = cpu_seconds();
    let mut written = 0;
    while written < rows {
        let batch = simulation.next_inferences(INFERENCES.min((rows - written) as usize));
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
    let model =
        ReportModel::build(&recording, &input, &ReportOptions::default()).map_err(Failure::internal)?;
    let html = ortscope_render::html(&model);
    let drawn = started.elapsed().as_secs_f64();
    let peak = own_usage().ok().and_then(|usage| usage.peak_working_set_bytes).unwrap_or(0);
    Ok(json!({
        "rows": recording.row_count(TableId::Inferences), "bytes": finished.bytes, "open_ms": opened * 1e3,
        "report_ms": drawn * 1e3, "html_bytes": html.len(), "write_cpu_seconds": writing, "peak_bytes": peak,
    }))
}
