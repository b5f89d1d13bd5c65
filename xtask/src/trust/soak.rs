//! A long recording, and what the recorder itself takes meanwhile: memory, threads, files.
//!
//! The slope of its memory is that of a straight line through the time after the start, and its interval comes from the
//! slopes of pieces: samples that follow each other are too much alike to be counted one by one.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::environment::Environment;
use crate::process::seconds;
use crate::{models, run};

const PERIOD: Duration = Duration::from_secs(1);
/// Left out: what a start takes is no leak.
const START_UP: Duration = Duration::from_secs(300);
const PIECES: usize = 8;

/// What the recorder took at one moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    hours: f64,
    resident_mb: f64,
    threads: u64,
    files: u64,
}

pub(super) fn run(environment: &Environment, time: Duration) -> Result<BTreeMap<String, f64>> {
    if !cfg!(target_os = "linux") {
        bail!("the recorder's memory is read from /proc: only Linux has it");
    }
    let program = run::build_program(&environment.workspace)?;
    let model = models::known("identity").context("the identity model is not in the table")?;
    let model = models::fetch(environment, model)?;
    let library = environment.newest_runtime()?;
    let store = environment.dir.join("bench").join(format!("soak-{}", std::process::id()));
    std::fs::create_dir_all(&store)?;
    let samples = record(&program, &model, &library, &store, time);
    let bytes = bytes_below(&store);
    std::fs::remove_dir_all(&store).ok();
    let mut figures = figures(&samples?, time);
    figures.insert("soak_recording_mb".into(), bytes as f64 / 1e6);
    Ok(figures)
}

fn record(program: &Path, model: &Path, library: &Path, store: &Path, time: Duration) -> Result<Vec<Sample>> {
    let mut recorder = Command::new(program)
        .args(["run", "--quiet", "--profile", "off", "--scenario", "server:1000", "--duration"])
        .arg(format!("{}s", time.as_secs()))
        .arg("--store")
        .arg(store)
        .arg("--ort-library")
        .arg(library)
        .arg(model)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let (started, mut samples) = (Instant::now(), Vec::new());
    let limit = time + Duration::from_secs(120);
    let mut told = Duration::ZERO;
    let status = loop {
        if let Some(status) = recorder.try_wait()? {
            break status;
        }
        if started.elapsed() > limit {
            recorder.kill()?;
            bail!("the recorder did not end within two minutes after its time");
        }
        if let Some(sample) = sample(recorder.id(), started.elapsed()) {
            samples.push(sample);
        }
        if started.elapsed() >= told + Duration::from_secs(60) {
            told = started.elapsed();
            eprintln!("  {} …", seconds(told));
        }
        std::thread::sleep(PERIOD);
    };
    if !status.success() {
        bail!("the recorder ended with {status}");
    }
    Ok(samples)
}

fn sample(pid: u32, after: Duration) -> Option<Sample> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let number = |name: &str| -> Option<u64> {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line[name.len()..].split_whitespace().next()?.parse().ok()
    };
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
    Some(Sample {
        hours: after.as_secs_f64() / 3600.0,
        // Without the pages of files: those of the journal come and go with the system's wish for memory.
        resident_mb: number("RssAnon:")? as f64 / 1024.0,
        threads: number("Threads:")?,
        files,
    })
}

fn figures(samples: &[Sample], time: Duration) -> BTreeMap<String, f64> {
    // A short run is no soak; what there is of it is shown all the same.
    let from_hours = START_UP.min(time / 4).as_secs_f64() / 3600.0;
    let steady: Vec<Sample> = samples.iter().copied().filter(|sample| sample.hours >= from_hours).collect();
    let most = |pick: fn(&Sample) -> f64| samples.iter().map(pick).fold(0.0, f64::max);
    let spread = |pick: fn(&Sample) -> f64| {
        let values = || steady.iter().map(pick);
        values().fold(f64::MIN, f64::max) - values().fold(f64::MAX, f64::min)
    };
    let mut figures = BTreeMap::from([
        ("soak_seconds".to_owned(), time.as_secs_f64()),
        ("soak_peak_anonymous_mb".to_owned(), most(|sample| sample.resident_mb)),
    ]);
    if let Some((slope, error)) = slope(&steady) {
        figures.insert("soak_mb_per_hour".to_owned(), slope);
        figures.insert("soak_mb_per_hour_interval".to_owned(), error);
    }
    if !steady.is_empty() {
        figures.insert("soak_threads_spread".to_owned(), spread(|sample| sample.threads as f64));
        figures.insert("soak_files_spread".to_owned(), spread(|sample| sample.files as f64));
    }
    figures
}

/// Megabytes per hour, and half of a 95 % interval from the means of pieces.
fn slope(samples: &[Sample]) -> Option<(f64, f64)> {
    if samples.len() < PIECES * 4 {
        return None;
    }
    let piece = samples.len() / PIECES;
    let mean = |samples: &[Sample], pick: fn(&Sample) -> f64| {
        samples.iter().map(pick).sum::<f64>() / samples.len() as f64
    };
    let points: Vec<(f64, f64)> = samples
        .chunks_exact(piece)
        .take(PIECES)
        .map(|samples| (mean(samples, |sample| sample.hours), mean(samples, |sample| sample.resident_mb)))
        .collect();
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
    let (x, y) = (x / count, y / count);
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>() / spread;
    let rest: f64 = points.iter().map(|point| (point.1 - y - slope * (point.0 - x)).powi(2)).sum();
    // Student's t for 6 degrees of freedom.
    Some((slope, 2.447 * (rest / (count - 2.0) / spread).sqrt()))
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
    fn a_leak_is_a_slope() {
        let leaking = |second: u32| {
            let hours = f64::from(second) / 3600.0;
            let noise = f64::from(second % 7) * 0.01;
            Sample { hours, resident_mb: 20.0 + 3.0 * hours + noise, threads: 5, files: 9 }
        };
        let samples: Vec<Sample> = (0..1200).map(leaking).collect();
        let (slope, error) = slope(&samples).expect("enough");
        assert!((slope - 3.0).abs() < 0.2 && error < 0.5, "{slope} ± {error}");
        let figures = figures(&samples, Duration::from_secs(1200));
        assert_eq!(figures["soak_threads_spread"], 0.0);
        assert!(super::slope(&samples[..20]).is_none());
    }
}
