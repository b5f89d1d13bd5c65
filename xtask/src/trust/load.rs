//! Ten sessions with a thousand inferences per second each, of a model with a hundred operators, through ONNX Runtime: first
//! alone, then under `ortscope record`, which loads its library into the program as it does into any other.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::figures::Figures;
use super::{answer_of, audit, scratch};
use crate::environment::Environment;
use crate::models;
use crate::process::succeed;
use crate::run::{self, Programs};

const SESSIONS: u32 = 10;
const HERTZ: u32 = 1000;
const OPERATORS: f64 = 100.0;
/// One inference in so many has its operators profiled.
const PROFILE_EVERY: u32 = 100;
/// Samples of processes per second.
pub(super) const SAMPLING_HERTZ: f64 = 100.0;

/// A program under `ortscope record`, and what watching took.
pub(super) struct Watched {
    /// What the program itself says.
    pub(super) program: Value,
    pub(super) audit: Value,
    pub(super) own_cpu_seconds: f64,
    pub(super) seconds: f64,
    /// What the hypervisor took of the machine meanwhile, of the time of all processors: a tick that was due on a processor
    /// that stood still cannot be delivered.
    pub(super) stolen_ratio: f64,
}

/// What the program is started with.
pub(super) struct Load<'a> {
    pub(super) programs: &'a Programs,
    pub(super) library: &'a Path,
    pub(super) model: &'a Path,
    pub(super) sessions: u32,
    pub(super) hertz: u32,
    pub(super) time: Duration,
}

impl Load<'_> {
    fn words(&self) -> Vec<String> {
        let mut words = vec!["load".to_owned(), "--model".to_owned()];
        words.push(self.model.display().to_string());
        for (name, value) in [
            ("--sessions", u64::from(self.sessions)),
            ("--rate", u64::from(self.hertz)),
            ("--seconds", self.time.as_secs()),
        ] {
            words.extend([name.to_owned(), value.to_string()]);
        }
        words.extend(["--ort-library".to_owned(), self.library.display().to_string()]);
        words
    }

    fn alone(&self) -> Result<Value> {
        let mut command = Command::new(&self.programs.benchmarks);
        answer_of(command.args(self.words()).env("ORT_DISABLE_TELEMETRY", "1"))
    }

    /// `look` sees the recorder's process about five times a second.
    pub(super) fn watched(&self, store: &Path, mut look: impl FnMut(u32, Duration)) -> Result<Watched> {
        let printed = store.with_extension("out");
        let mut command = Command::new(&self.programs.ortscope);
        command
            .args(["record", "--json", "--quiet", "--store"])
            .arg(store)
            .args(["--profile-every", &PROFILE_EVERY.to_string(), "--rate", &SAMPLING_HERTZ.to_string()])
            .arg("--")
            .arg(&self.programs.benchmarks)
            .args(self.words())
            .env("ORT_DISABLE_TELEMETRY", "1")
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&printed)?);
        let (started, stolen_before) = (Instant::now(), stolen_seconds());
        let mut recorder = command.spawn().context("cannot start ortscope")?;
        let limit = self.time * 2 + Duration::from_secs(120);
        let mut own_cpu_seconds = 0.0;
        let status = loop {
            if let Some(status) = recorder.try_wait()? {
                break status;
            }
            if started.elapsed() > limit {
                recorder.kill()?;
                recorder.wait()?;
                bail!("the recorder did not end in time");
            }
            own_cpu_seconds = cpu_seconds(recorder.id()).unwrap_or(own_cpu_seconds);
            look(recorder.id(), started.elapsed());
            std::thread::sleep(Duration::from_millis(200));
        };
        let text = std::fs::read_to_string(&printed)?;
        std::fs::remove_file(&printed).ok();
        let line = text.lines().next().unwrap_or_default();
        let program: Value = serde_json::from_str(line)
            .with_context(|| format!("the program did not end well ({status}): {line}"))?;
        let seconds = started.elapsed().as_secs_f64();
        let processors = std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
        let stolen_ratio = (stolen_seconds() - stolen_before) / (seconds * processors);
        Ok(Watched {
            program,
            audit: audit(&self.programs.benchmarks, store)?,
            own_cpu_seconds,
            seconds,
            stolen_ratio,
        })
    }
}

impl Watched {
    /// Ticks in the recording of those that were due between its first and its last.
    pub(super) fn ticks_delivered_ratio(&self) -> Result<f64> {
        let due = number(&self.audit, "tick_span_ns")? / 1e9 * SAMPLING_HERTZ + 1.0;
        Ok((number(&self.audit, "process_ticks")? / due).min(1.0))
    }

    /// Inferences that the program made and the recording does not have.
    pub(super) fn inferences_lost(&self) -> Result<f64> {
        let made = number(&self.program, "inferences")? + number(&self.program, "warm_up_inferences")?;
        let kept = number(&self.audit, "inferences")?;
        // Twice the same would hide a loss.
        Ok((made - kept).abs() + number(&self.audit, "missing_in_sessions")?)
    }
}

pub(super) fn number(document: &Value, key: &str) -> Result<f64> {
    document[key].as_f64().with_context(|| format!("no {key} in {document}"))
}

/// CPU time of a process, of all its threads.
fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    // Linux counts these in hundredths on every machine.
    Some(ticks as f64 / 100.0)
}

/// Time that the hypervisor gave to others while processors of this machine had work, since it started.
fn stolen_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let stolen = stat.lines().next().and_then(|of_all| of_all.split_whitespace().nth(8)?.parse().ok());
    stolen.unwrap_or(0.0) / 100.0
}

/// Builds the programs, and the library that `ortscope record` loads into native programs.
pub(super) fn build(environment: &Environment) -> Result<Programs> {
    if !cfg!(target_os = "linux") {
        bail!("native programs are recorded on Linux only");
    }
    succeed(environment.workspace.cargo().args(["build", "--quiet", "--package", "ortscope-preload"]))?;
    run::build_both(&environment.workspace)
}

pub(super) fn run(environment: &Environment, time: Duration) -> Result<Figures> {
    let programs = build(environment)?;
    let model = models::known("chain100").context("the model is not in the table")?;
    let model = models::fetch(environment, model)?;
    let library = environment.newest_runtime()?;
    let load = Load {
        programs: &programs,
        library: &library,
        model: &model,
        sessions: SESSIONS,
        hertz: HERTZ,
        time,
    };
    let store = scratch(environment)?.join(format!("load-{}", std::process::id()));
    std::fs::create_dir_all(&store)?;
    let measured = load.alone().and_then(|alone| Ok((alone, load.watched(&store, |_, _| {})?)));
    std::fs::remove_dir_all(&store).ok();
    let (alone, watched) = measured?;
    eprintln!("  alone: {alone}\n  watched: {}\n  recorded: {}", watched.program, watched.audit);

    let losses = watched.audit["losses"].as_object().into_iter().flatten();
    let of_profiles = losses.filter(|(kind, _)| kind.ends_with("profiles"));
    let lost_profiles =
        of_profiles.filter_map(|(_, count)| count.as_f64()).fold(0.0, |sum, count| sum + count);
    let profiled = number(&watched.audit, "profiled")?;
    let told = number(&watched.audit, "operators")?;
    let microseconds = |document: &Value, key: &str| Ok::<f64, anyhow::Error>(number(document, key)? / 1e3);
    let (before, after) = (microseconds(&alone, "p50_ns")?, microseconds(&watched.program, "p50_ns")?);
    Ok(Figures::from([
        ("load_sessions", f64::from(SESSIONS)),
        ("load_offered_hertz", f64::from(SESSIONS * HERTZ)),
        ("load_seconds", time.as_secs_f64()),
        ("load_inferences", number(&watched.program, "inferences")?),
        // A machine that is too slow for the load offers less.
        ("load_inferences_not_offered", number(&watched.program, "undone")?),
        ("load_inferences_not_offered_alone", number(&alone, "undone")?),
        ("load_inferences_lost", watched.inferences_lost()?),
        ("load_operators_recorded", told),
        ("load_operators_lost_counted", lost_profiles * OPERATORS),
        ("load_operators_unaccounted", (profiled * OPERATORS - told - lost_profiles * OPERATORS).abs()),
        ("load_ticks_delivered_ratio", watched.ticks_delivered_ratio()?),
        ("load_machine_stolen_ratio", watched.stolen_ratio),
        ("load_p50_alone_us", before),
        ("load_p50_watched_us", after),
        ("load_p50_added_us", after - before),
        ("load_p99_alone_us", microseconds(&alone, "p99_ns")?),
        ("load_p99_watched_us", microseconds(&watched.program, "p99_ns")?),
        ("load_program_cpu_alone_cores", number(&alone, "cpu_seconds")? / number(&alone, "seconds")?),
        (
            "load_program_cpu_watched_cores",
            number(&watched.program, "cpu_seconds")? / number(&watched.program, "seconds")?,
        ),
        ("load_own_cpu_cores", watched.own_cpu_seconds / watched.seconds),
    ]))
}
