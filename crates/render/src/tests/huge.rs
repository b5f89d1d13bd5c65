//! Recordings larger than memory: batches are made when they are read.

use std::time::Instant;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, ColumnData, ColumnType, InferenceRow, Row, TableId, Text};
use ortscope_core::tables::{Batches, Scan, Tables};

use super::support::{START, input, texts};
use crate::{MAX_HTML_BYTES, html};
use ortscope_result::{ReportModel, ReportOptions};

const BATCH: u64 = 65_536;

/// Inferences that follow from their number.
struct Made {
    inferences: u64,
}

impl Made {
    fn start_ns(number: u64) -> u64 {
        START + number * 3_000_000
    }

    /// 2 ms and some noise; one in 10 007 is slow.
    fn run_ns(number: u64) -> u64 {
        let noise = (number ^ (number >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        2_000_000
            + ((noise * 200_000) >> 32)
            + if number % 10_007 == 5 { 20_000_000 + number % 1_000_003 } else { 0 }
    }

    fn batch(&self, first: u64) -> Batch {
        let numbers: Vec<u64> = (first..self.inferences.min(first + BATCH)).collect();
        let [session, steady] = texts(["s", "steady"]);
        let of =
            |value: fn(u64) -> u64| ColumnData::U64(numbers.iter().map(|number| value(*number)).collect());
        let same = |text: &Text| ColumnData::Text(vec![Text::clone(text); numbers.len()]);
        let columns = InferenceRow::TABLE.def().columns.iter().map(|column| {
            let data = match column.name {
                "timestamp_ns" | "planned_ns" => of(Self::start_ns),
                "session_id" => same(&session),
                "phase" => same(&steady),
                "sequence" => of(|number| number),
                "copy_in_ns" => of(|_| 1000),
                "run_ns" => of(Self::run_ns),
                "copy_out_ns" => of(|_| 2000),
                "ok" => ColumnData::Bool(vec![true; numbers.len()]),
                _ => match column.column_type {
                    ColumnType::Text => same(&Text::default()),
                    _ => of(|_| 0),
                },
            };
            Column { data, valid: if column.nullable { vec![false; numbers.len()] } else { Vec::new() } }
        });
        Batch::from_columns(TableId::Inferences, columns.collect()).expect("the columns fit")
    }
}

impl Tables for Made {
    fn row_count(&self, table: TableId) -> u64 {
        if table == TableId::Inferences { self.inferences } else { 0 }
    }

    fn time_range_ns(&self) -> Option<(u64, u64)> {
        Some((START, Self::start_ns(self.inferences)))
    }

    fn scan(&self, table: TableId, scan: &Scan) -> Batches<'_> {
        if table != TableId::Inferences {
            return Box::new(std::iter::empty());
        }
        let first = scan.from_ns.map_or(0, |from| from.saturating_sub(START).div_ceil(3_000_000));
        Box::new((first..self.inferences).step_by(BATCH as usize).map(|first| Ok(self.batch(first))))
    }
}

/// The sums are of all inferences, even where only some are kept for the percentiles.
fn check(model: &ReportModel, made: &Made, every: u64) {
    let session = &model.sessions[0];
    assert_eq!((session.counts.total, session.sampling.every), (made.inferences, every));
    let discarded = session.warm_up.as_ref().expect("a warm-up").discarded as u64 * every;
    let latency = session.inference.as_ref().expect("a latency");
    let kept: Vec<u64> = (discarded..made.inferences).map(Made::run_ns).collect();
    assert_eq!(latency.runs, kept.len() as u64);
    assert_eq!(latency.max_ms, *kept.iter().max().expect("runs") as f64 / 1e6);
    assert_eq!(latency.min_ms, *kept.iter().min().expect("runs") as f64 / 1e6);
    let mean = kept.iter().map(|run| *run as f64).sum::<f64>() / kept.len() as f64 / 1e6;
    assert!((latency.mean_ms / mean - 1.0).abs() < 1e-9, "{} {mean}", latency.mean_ms);
    // Every k-th of evenly mixed latencies has nearly the same median.
    assert!((latency.median_ms - 2.1).abs() < 0.01, "{}", latency.median_ms);

    let slow = session.slow.as_ref().expect("slow inferences");
    let limit_ns = slow.limit_ms * 1e6;
    let mut expected: Vec<u64> =
        kept.iter().map(|run| run + 3000).filter(|run| *run as f64 > limit_ns).collect();
    expected.sort_unstable_by_key(|run| std::cmp::Reverse(*run));
    assert_eq!(slow.count, expected.len() as u64);
    let shown: Vec<u64> = slow.shown.iter().map(|slow| (slow.latency_ms * 1e6).round() as u64).collect();
    assert_eq!(shown, expected.iter().take(shown.len()).copied().collect::<Vec<_>>());

    // The extremes over time are of all inferences, too.
    let points = &session.over_time.as_ref().expect("a chart").points;
    let largest = points.iter().map(|point| point.max_ms).fold(0.0, f64::max);
    assert_eq!(largest, (0..made.inferences).map(Made::run_ns).max().expect("runs") as f64 / 1e6);
}

#[test]
fn a_long_session_is_thinned_out_and_says_so() {
    let made = Made { inferences: 300_000 };
    let options = ReportOptions { max_latencies: 50_000, ..ReportOptions::default() };
    let model = ReportModel::build(&made, &input(), &options).expect("a model");
    check(&model, &made, 8);
    let sentence = model.sessions[0].sampling.sentence.as_deref().expect("a sentence");
    assert!(sentence.contains("every 8th inference"), "{sentence}");
    assert!(html(&model).contains("every 8th inference"));
    // What fits is kept in full.
    let exact = ReportModel::build(&made, &input(), &ReportOptions::default()).expect("a model");
    check(&exact, &made, 1);
    assert_eq!(exact.sessions[0].sampling.sentence, None);
}

#[test]
fn all_sessions_together_are_bounded_too() {
    let made = Made { inferences: 100_000 };
    let options = ReportOptions { max_latencies_together: 20_000, ..ReportOptions::default() };
    let model = ReportModel::build(&made, &input(), &options).expect("a model");
    check(&model, &made, 8);
}

/// `cargo test -p ortscope-export ten_million -- --ignored --nocapture` prints time and memory.
#[test]
#[ignore = "takes seconds and a few hundred megabytes"]
fn ten_million_inferences() {
    let made = Made { inferences: 10_000_000 };
    let begin = Instant::now();
    let reading: u64 = made
        .scan(TableId::Inferences, &Scan::all())
        .map(|batch| batch.map_or(0, |batch| batch.len() as u64))
        .sum();
    let making = begin.elapsed();
    let begin = Instant::now();
    let model = ReportModel::build(&made, &input(), &ReportOptions::default()).expect("a model");
    let building = begin.elapsed();
    let peak = std::fs::read_to_string("/proc/self/status").ok().and_then(|status| {
        status.lines().find_map(|line| line.strip_prefix("VmHWM:").map(|rest| rest.trim().to_owned()))
    });
    let begin = Instant::now();
    let page = html(&model);
    println!(
        "{reading} inferences: one pass over the made batches alone {making:.2?}, model {building:.2?}, peak {}, HTML {} bytes in {:.2?}",
        peak.as_deref().unwrap_or("n/a"),
        page.len(),
        begin.elapsed()
    );
    if let Ok(directory) = std::env::var("ORTSCOPE_SAMPLE_REPORTS") {
        std::fs::write(format!("{directory}/huge.html"), &page).expect("a writable directory");
    }
    assert!(page.len() < MAX_HTML_BYTES);
    check(&model, &made, 2);
}
