//! A long recording of a paced model, and what the recorder itself takes meanwhile: memory, threads, files.
//!
//! The slope of its memory and the interval come from the program's own analysis of leaks: the lowest values of windows and
//! the steps between them, because samples that follow each other are too much alike to be counted one by one.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

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
    let program = build(environment)?;
    let model = models::known("identity").context("the identity model is not in the table")?;
    let model = models::fetch(environment, model)?;
    let library = environment.newest_runtime()?;
    let store = scratch(environment)?.join(format!("soak-{}", std::process::id()));
    std::fs::create_dir_all(&store)?;
    let load = Load { program: &program, library: &library, model: &model, sessions: 1, hertz: HERTZ, time };
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
    figures.extend([
        ("soak_recording_mb".to_owned(), bytes as f64 / 1e6),
        ("soak_inferences".to_owned(), number(&watched.program, "inferences")?),
        ("soak_inferences_lost".to_owned(), watched.inferences_lost()?),
        ("soak_ticks_delivered_ratio".to_owned(), watched.ticks_delivered_ratio()?),
        ("soak_own_cpu_cores".to_owned(), watched.own_cpu_seconds / watched.seconds),
    ]);
    let series = scratch(environment)?.join(format!("soak-{}.txt", std::process::id()));
    for (name, pick) in
        [("rss", resident as fn(&Sample) -> f64), ("anonymous", anonymous as fn(&Sample) -> f64)]
    {
        figures.extend(slope(&program, &series, name, steady(&samples, time), pick)?);
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
    let most = |pick: fn(&Sample) -> f64| samples.iter().map(pick).fold(0.0, f64::max);
    let mut figures = Figures::from([
        ("soak_seconds".to_owned(), time.as_secs_f64()),
        ("soak_peak_rss_mb".to_owned(), most(resident)),
        ("soak_peak_anonymous_mb".to_owned(), most(anonymous)),
    ]);
    // A file that is changed for the next one counts twice for a moment: what counts is whether there are more at the end.
    let steady = steady(samples, time);
    let quarter = steady.len() / 4;
    if quarter > 0 {
        let fewest =
            |part: &[Sample], pick: fn(&Sample) -> f64| part.iter().map(pick).fold(f64::MAX, f64::min);
        let grown = |pick: fn(&Sample) -> f64| {
            fewest(&steady[steady.len() - quarter..], pick) - fewest(&steady[..quarter], pick)
        };
        figures.insert("soak_threads_growth".to_owned(), grown(|sample| sample.threads));
        figures.insert("soak_files_growth".to_owned(), grown(|sample| sample.files));
        figures.insert("soak_threads".to_owned(), fewest(steady, |sample| sample.threads));
        figures.insert("soak_files".to_owned(), fewest(steady, |sample| sample.files));
    }
    figures
}

fn slope(
    program: &Path,
    file: &Path,
    name: &str,
    samples: &[Sample],
    pick: fn(&Sample) -> f64,
) -> Result<Figures> {
    let lines: String =
        samples.iter().map(|sample| format!("{:.9} {:.6}\n", sample.hours, pick(sample))).collect();
    std::fs::write(file, lines)?;
    let answer = answer_of(Command::new(program).args(["bench-trust", "--growth"]).arg(file))?;
    let mut figures = Figures::new();
    for (key, ending) in [("slope", ""), ("low", "_low"), ("high", "_high")] {
        if let Some(value) = answer[key].as_f64() {
            figures.insert(format!("soak_{name}_mb_per_hour{ending}"), value);
        }
    }
    Ok(figures)
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
        assert_eq!((figures["soak_threads_growth"], figures["soak_files_growth"]), (0.0, 2.0));
        assert_eq!((figures["soak_threads"], figures["soak_files"]), (5.0, 10.0));
        assert_eq!(steady(&samples, time).len(), 900);
    }
}
