//! Figures for people, each in a process of its own:
//! `cargo nextest run -p ortscope-store --run-ignored only --no-capture measure`.

use std::time::Instant;

use ortscope_core::schema::{ColumnData, TableId};
use ortscope_core::tables::{Scan, Tables};
use ortscope_store::simulate::Simulation;
use ortscope_store::{JournalOptions, NewRecording, Recording};

use crate::support::*;

/// CPU seconds of this process so far, and the most memory it had, in MB; zeros where `/proc` does not say.
fn usage() -> (f64, f64) {
    let stat = fs_err::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let most =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
    ((ticks(11) + ticks(12)) / 100.0, most.unwrap_or(0.0) / 1024.0)
}

fn as_a_user_would() -> NewRecording {
    NewRecording { journal: JournalOptions::default(), ..new_recording("measured") }
}

/// Keeps the samples of so many virtual seconds; the figures, in words.
fn samples(seconds: u64) -> String {
    let ticks = seconds * 100;
    let before = usage().0;
    let mut simulation = Simulation::new(7, 104, 100);
    for _ in 0..ticks.min(20_000) {
        std::hint::black_box(simulation.next_tick());
    }
    let making = (usage().0 - before) * ticks as f64 / ticks.min(20_000) as f64;

    let (_directory, store) = store();
    let writer = store.begin(as_a_user_would()).expect("begun");
    let mut simulation = Simulation::new(7, 104, 100);
    let (before, start) = (usage().0, Instant::now());
    let mut logical = 0;
    for _ in 0..ticks {
        let tick = simulation.next_tick();
        logical += tick.len() as u64;
        writer.append(&tick).expect("kept");
    }
    let finished = writer.finish("measured").expect("finished");
    let (cpu, wall) = (usage().0 - before - making, start.elapsed());
    let recording = Recording::open(&finished.directory).expect("readable");
    let changed = recording.row_count(TableId::ProcessSamples);
    let mut figures = format!(
        "{logical} samples, {changed} changed ({:.2} %): {:.3} bytes per sample, {:.2} per changed row; \
         {:.1} s CPU without making them, {:.2} M samples per CPU second, {wall:.1?} wall, {:.0} MB at most",
        changed as f64 * 100.0 / logical as f64,
        finished.bytes as f64 / logical as f64,
        finished.bytes as f64 / changed as f64,
        cpu,
        logical as f64 / cpu / 1e6,
        usage().1,
    );
    for table in recording.tables() {
        let name = table.table.def().name;
        figures += &format!("\n    {name:<16}{:>10} rows {:>10} bytes", table.rows, table.bytes);
    }
    let start = Instant::now();
    let told = recording.logical_rows(TableId::ProcessSamples).expect("readable");
    assert_eq!(told, logical);
    figures + &format!("\n    {told} samples told again (counted) in {:.2?}", start.elapsed())
}

#[test]
#[ignore = "measures"]
fn measure_samples_97_s() {
    println!("{}", samples(97));
}

#[test]
#[ignore = "measures, for minutes"]
fn measure_samples_day() {
    println!("{}", samples(86_400));
}

#[test]
#[ignore = "measures"]
fn measure_ten_million_inferences() {
    let (_directory, store) = store();
    let writer = store.begin(as_a_user_would()).expect("begun");
    let mut simulation = Simulation::new(7, 1, 100);
    let (before, start) = (usage().0, Instant::now());
    for _ in 0..10_000 {
        writer.append(&simulation.next_inferences(1000)).expect("kept");
    }
    let finished = writer.finish("measured").expect("finished");
    println!(
        "10 M inferences: {:.2} bytes per row, {:.1} s CPU with making them, {:.1?} wall, {:.0} MB at most",
        finished.bytes as f64 / 1e7,
        usage().0 - before,
        start.elapsed(),
        usage().1
    );
    let start = Instant::now();
    let recording = Recording::open(&finished.directory).expect("readable");
    println!("    opened in {:.2?}", start.elapsed());
    for columns in [vec!["run_ns"], vec!["timestamp_ns", "run_ns", "session_id", "sequence"]] {
        let start = Instant::now();
        let (mut sum, mut rows) = (0_u64, 0);
        for batch in recording.scan(TableId::Inferences, &Scan::all().columns(&columns)) {
            let batch = batch.expect("readable");
            rows += batch.len();
            if let Some(ColumnData::U64(values)) = batch.column("run_ns").map(|column| &column.data) {
                sum += values.iter().sum::<u64>();
            }
        }
        println!("    {columns:?}: {rows} rows in {:.2?}, sum {sum}", start.elapsed());
    }
    println!("    {:.0} MB at most", usage().1);
}

#[test]
#[ignore = "measures"]
fn measure_samples_1000_s() {
    println!("{}", samples(1000));
}
