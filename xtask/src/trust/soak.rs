//! A long recording of a paced model, and what the recorder itself takes meanwhile: memory, threads, files.
//!
//! The slope of its memory and the interval come from the program's own analysis of leaks: the lowest values of windows and
//! the steps between them, because samples that follow each other are too much alike to be counted one by one.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::figures::Figures;
use super::load::{Load, build, number};
use super::{answer_of, scratch};
use crate::environment::Environment;
use crate::models;
use crate::process::seconds;

/// Left out: what a start takes is no leak.
const START_UP: Duration = Duration::from_secs(300);
const HERTZ: u32 = 1000;

/// What the recorder took at one moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    hours: f64,
    resident_mb: f64,
    anonymous_mb: f64,
    threads: f64,
    files: f64,
}

pub(super) fn run(environment: &Environment, time: Duration) -> Result<Figures> {
    let programs = build(environment)?;
    let model = models::known("identity").context("the identity model is not in the table")?;
    let model = models::fetch(environment, model)?;
    let library = environment.newest_runtime()?;
    let store = scratch(environment)?.join(format!("soak-{}", std::process::id()));
    std::fs::create_dir_all(&store)?;
    let load =
        Load { programs: &programs, library: &library, model: &model, sessions: 1, hertz: HERTZ, time };
    let (mut samples, mut told) = (Vec::new(), Duration::ZERO);
    let watched = load.watched(&store, |pid, after| {
        samples.extend(sample(pid, after));
        if after >= told + Duration::from_secs(60) {
            told = after;
            eprintln!("  {} …", seconds(told));
        }
    });
    let bytes = bytes_below(&store);
    std::fs::remove_dir_all(&store).ok();
    let watched = watched?;
    let mut figures = figures(&samples, time);
    figures.add(Figures::from([
        ("soak_recording_mb", bytes as f64 / 1e6),
        ("soak_inferences", number(&watched.program, "inferences")?),
        ("soak_inferences_lost", watched.inferences_lost()?),
        ("soak_ticks_delivered_ratio", watched.ticks_delivered_ratio()?),
        ("soak_machine_stolen_ratio", watched.stolen_ratio),
        ("soak_own_cpu_cores", watched.own_cpu_seconds / watched.seconds),
    ]));
    let series = scratch(environment)?.join(format!("soak-{}.txt", std::process::id()));
    for (name, pick) in
        [("rss", resident as fn(&Sample) -> f64), ("anonymous", anonymous as fn(&Sample) -> f64)]
    {
        let answer = growth(&programs.benchmarks, &series, steady(&samples, time), pick)?;
        figures.add(slope(name, &answer));
    }
    std::fs::remove_file(series).ok();
    Ok(figures)
}

fn resident(sample: &Sample) -> f64 {
    sample.resident_mb
}

/// Without the pages of files: those of the journal come and go with the system's wish for memory.
fn anonymous(sample: &Sample) -> f64 {
    sample.anonymous_mb
}

fn sample(pid: u32, after: Duration) -> Option<Sample> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let number = |name: &str| -> Option<f64> {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line[name.len()..].split_whitespace().next()?.parse().ok()
    };
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as f64;
    Some(Sample {
        hours: after.as_secs_f64() / 3600.0,
        resident_mb: number("VmRSS:")? / 1024.0,
        anonymous_mb: number("RssAnon:")? / 1024.0,
        threads: number("Threads:")?,
        files,
    })
}

/// After the start. A short run is no soak; what there is of it is shown all the same.
fn steady(samples: &[Sample], time: Duration) -> &[Sample] {
    let from_hours = START_UP.min(time / 4).as_secs_f64() / 3600.0;
    // The end, when everything is written out, is not steady either.
    let until_hours = time.as_secs_f64() / 3600.0;
    let first = samples.partition_point(|sample| sample.hours < from_hours);
    let last = samples.partition_point(|sample| sample.hours < until_hours);
    &samples[first..last.max(first)]
}

fn figures(samples: &[Sample], time: Duration) -> Figures {
    let mut figures = Figures::from([("soak_seconds", time.as_secs_f64())]);
    let peaks = [
        ("soak_peak_rss_mb", resident as fn(&Sample) -> f64),
        ("soak_peak_anonymous_mb", anonymous as fn(&Sample) -> f64),
    ];
    for (name, pick) in peaks {
        match samples.iter().map(pick).reduce(f64::max) {
            Some(most) => figures.insert(name, most),
            None => figures.miss(name, "the recorder's /proc could not be read"),
        }
    }
    // A file that is changed for the next one counts twice for a moment: what counts is whether there are more at the end.
    let steady = steady(samples, time);
    let quarter = steady.len() / 4;
    let threads_and_files = [
        ("threads", (|sample| sample.threads) as fn(&Sample) -> f64),
        ("files", (|sample| sample.files) as fn(&Sample) -> f64),
    ];
    for (what, pick) in threads_and_files {
        let growth = format!("soak_{what}_growth");
        if quarter == 0 {
            figures.miss(&growth, format!("{} samples after the start are too few", steady.len()));
            continue;
        }
        let fewest = |part: &[Sample]| part.iter().map(pick).fold(f64::MAX, f64::min);
        figures.insert(&growth, fewest(&steady[steady.len() - quarter..]) - fewest(&steady[..quarter]));
        figures.insert(&format!("soak_{what}"), fewest(steady));
    }
    figures
}

/// What the program's own analysis says about the growth of a series.
fn growth(benchmarks: &Path, file: &Path, samples: &[Sample], pick: fn(&Sample) -> f64) -> Result<Value> {
    let lines: String =
        samples.iter().map(|sample| format!("{:.9} {:.6}\n", sample.hours, pick(sample))).collect();
    std::fs::write(file, lines)?;
    answer_of(Command::new(benchmarks).args(["trust", "--growth"]).arg(file))
}

fn slope(name: &str, answer: &Value) -> Figures {
    let mut figures = Figures::default();
    for (key, ending) in [("slope", ""), ("low", "_low"), ("high", "_high")] {
        let figure = format!("soak_{name}_mb_per_hour{ending}");
        match answer[key].as_f64() {
            Some(value) => figures.insert(&figure, value),
            None => figures.miss(&figure, answer["unavailable"].as_str().unwrap_or("the analysis gave none")),
        }
    }
    figures
}

fn bytes_below(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else {
        return std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    };
    entries.flatten().map(|entry| bytes_below(&entry.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::figures::{broken, listed};

    #[test]
    fn threads_and_files_that_grow_are_told_and_the_start_is_left_out() {
        let at = |second: u32| Sample {
            hours: f64::from(second) / 3600.0,
            resident_mb: 40.0,
            anonymous_mb: 30.0,
            threads: if second < 300 { 2.0 } else { 5.0 },
            // One leaks every five minutes, and now and then there is one more for a moment.
            files: 9.0 + f64::from(second / 300) + f64::from(second.is_multiple_of(7)),
        };
        let samples: Vec<Sample> = (0..1300).map(at).collect();
        let time = Duration::from_secs(1200);
        let figures = figures(&samples, time);
        let value = |name: &str| figures.values[name];
        assert_eq!((value("soak_threads_growth"), value("soak_files_growth")), (0.0, 2.0));
        assert_eq!((value("soak_threads"), value("soak_files")), (5.0, 10.0));
        assert_eq!(steady(&samples, time).len(), 900);
        assert!(figures.missing.is_empty());
    }

    /// Without samples there was no word about threads and files, a memory of 0 MB, and no slope: all promises kept.
    #[test]
    fn a_soak_that_saw_nothing_keeps_no_promise() {
        let mut found = figures(&[], Duration::from_secs(60));
        let answer = serde_json::json!({"unavailable": "too few points", "points": 0});
        found.add(slope("rss", &answer));
        found.insert("soak_ticks_delivered_ratio", 1.0);
        found.insert("soak_inferences_lost", 0.0);
        assert!(!found.values.contains_key("soak_peak_rss_mb"));
        assert_eq!(
            listed(&broken(&found, &["soak"])),
            "soak_rss_mb_per_hour (no figure: too few points), \
             soak_threads_growth (no figure: 0 samples after the start are too few), \
             soak_files_growth (no figure: 0 samples after the start are too few)"
        );
    }
}
