//! Kills the recorder, the observed process, or both, at random moments, and looks at what is left.
//!
//! Every trial is a real `ortscope run` of a model of microseconds, so that a lost moment is hundreds of inferences. Only
//! processes that the benchmark started itself are killed, by their id.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{Figure, Goal, Report, Setting, scratch};
use crate::models;
use crate::process::{capture, seconds};
use crate::run::{self, Programs};

const TRIALS: u32 = 1000;
const TRIALS_QUICK: u32 = 200;
pub(crate) const SEED: u64 = 0x5eed;
/// A killed recorder leaves a worker that goes on for this long before it is killed too.
const ORPHANED: Duration = Duration::from_millis(100);
/// What a recorder may take to start its worker, or to end without it, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Recorder,
    Observed,
    Both,
}

/// What one trial left.
#[derive(Debug)]
struct Trial {
    victim: Victim,
    damaged: bool,
    gaps: u64,
    inferences: u64,
    /// From the last inference that is kept to the kill.
    lost_ms: f64,
    /// From the last tick of samples that is kept to the kill.
    sample_age_ms: f64,
    sentence: String,
}

pub(crate) fn run(setting: &Setting<'_>) -> Result<Report> {
    kill(setting, if setting.quick { TRIALS_QUICK } else { TRIALS }, SEED)
}

/// The same with as many trials as somebody wants; the seed chooses the moments.
pub(crate) fn kill(setting: &Setting<'_>, trials: u32, seed: u64) -> Result<Report> {
    if !cfg!(target_os = "linux") {
        bail!("the processes of a trial are found through /proc: only Linux has it");
    }
    let programs = run::build_both(&setting.environment.workspace)?;
    let model = models::known("identity").context("the identity model is not in the table")?;
    let model = models::fetch(setting.environment, model)?;
    let library = setting.environment.newest_runtime()?;
    let scratch = scratch(setting)?;
    let started = Instant::now();
    let mut random = seed;
    let mut results = Vec::new();
    for number in 0..trials {
        let victim = [Victim::Recorder, Victim::Observed, Victim::Both][number as usize % 3];
        // From before the session exists to well into the measurement.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let after = Duration::from_millis(60 + (random >> 33) % 1100);
        results.push(trial(&programs, &model, &library, &scratch, victim, after)?);
        if (number + 1) % 50 == 0 {
            eprintln!("  {} trials … {}", number + 1, seconds(started.elapsed()));
        }
    }
    Ok(report(&results))
}

fn trial(
    programs: &Programs,
    model: &Path,
    library: &Path,
    scratch: &Path,
    victim: Victim,
    after: Duration,
) -> Result<Trial> {
    let store = Store::new(scratch)?;
    let mut recorder = Command::new(&programs.ortscope)
        .args(["run", "--quiet", "--duration", "20s", "--store"])
        .arg(&store.0)
        .arg("--ort-library")
        .arg(library)
        .arg(model)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    std::thread::sleep(after);
    // On a busy machine it may not have started yet; a recorder that was not killed goes on to its end without it.
    let observed = match victim {
        Victim::Observed => wait_for_child(&mut recorder)?,
        Victim::Recorder | Victim::Both => child_of(recorder.id()),
    };
    let killed = match victim {
        Victim::Recorder => {
            recorder.kill()?;
            let killed = Instant::now();
            std::thread::sleep(ORPHANED);
            end(observed)?;
            killed
        }
        Victim::Observed => {
            end(observed)?;
            Instant::now()
        }
        Victim::Both => {
            // Counted from the first kill: until the second one the orphan fills a ring that nobody reads.
            recorder.kill()?;
            let killed = Instant::now();
            end(observed)?;
            killed
        }
    };
    finish(&mut recorder)?;
    look(&programs.benchmarks, &store.0, victim, killed)
}

/// Opens what is left, as a user would.
fn look(benchmarks: &Path, store: &Path, victim: Victim, killed: Instant) -> Result<Trial> {
    let nothing = |sentence: &str| Trial {
        victim,
        damaged: false,
        gaps: 0,
        inferences: 0,
        lost_ms: 0.0,
        sample_age_ms: 0.0,
        sentence: sentence.into(),
    };
    let recording = std::fs::read_dir(store).ok().and_then(|mut entries| {
        entries.find_map(|entry| Some(entry.ok()?.path()).filter(|path| path.is_dir()))
    });
    // A directory becomes a recording with its manifest.
    let recording = recording.filter(|path: &std::path::PathBuf| {
        ["manifest.json", "journal", "segments"].iter().any(|part| path.join(part).exists())
    });
    let Some(recording) = recording else {
        return Ok(nothing("killed before the recording began"));
    };
    let mut command = Command::new(benchmarks);
    command.args(["trust", "--recording"]).arg(&recording);
    let asked = Instant::now();
    let answer: Value = match capture(&mut command) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(error) => return Ok(Trial { damaged: true, ..nothing(&format!("{error:#}")) }),
    };
    let number = |key: &str| answer[key].as_u64().with_context(|| format!("no {key} in {answer}"));
    let ago = asked.duration_since(killed).as_secs_f64() * 1e3;
    let killed_ns = number("now_ns")? as f64 - ago * 1e6;
    let age_ms = |ns: u64| if ns == 0 { 0.0 } else { ((killed_ns - ns as f64) / 1e6).max(0.0) };
    Ok(Trial {
        damaged: number("damaged")? > 0,
        gaps: number("gaps")? + number("repeated")?,
        inferences: number("inferences")?,
        lost_ms: age_ms(number("last_inference_ns")?),
        sample_age_ms: age_ms(number("last_sample_ns")?),
        ..nothing(&answer["condition"].to_string())
    })
}

fn report(trials: &[Trial]) -> Report {
    let damaged = trials.iter().filter(|trial| trial.damaged).count();
    let lost: u64 = trials.iter().map(|trial| trial.gaps).sum();
    let measuring: Vec<&Trial> = trials.iter().filter(|trial| trial.inferences > 1000).collect();
    // Where none had begun to measure there is no number, and no promise kept.
    let worst = measuring.iter().map(|trial| trial.lost_ms).reduce(f64::max).unwrap_or(f64::NAN);
    let mut notes = vec![format!(
        "identity model, one process per trial; killed 60 to 1160 ms after the start; {} of {} trials had begun to \
         measure; ages are measured across processes, to about 2 ms",
        measuring.len(),
        trials.len()
    )];
    for victim in [Victim::Recorder, Victim::Observed, Victim::Both] {
        let of: Vec<&&Trial> = measuring.iter().filter(|trial| trial.victim == victim).collect();
        let most = |pick: fn(&Trial) -> f64| of.iter().map(|trial| pick(trial)).fold(0.0, f64::max);
        notes.push(format!(
            "{victim:?}: {} trials, last inference kept at most {:.1} ms before the kill, last sample {:.1} ms, {} \
             inferences kept in all",
            of.len(),
            most(|trial| trial.lost_ms),
            most(|trial| trial.sample_age_ms),
            of.iter().map(|trial| trial.inferences).sum::<u64>()
        ));
    }
    notes.extend(
        trials
            .iter()
            .filter(|trial| trial.damaged)
            .take(5)
            .map(|trial| format!("damaged: {}", trial.sentence)),
    );
    Report {
        figures: vec![
            Figure::new(
                "kill9_trials",
                trials.len() as f64,
                Goal::AtLeast(f64::from(TRIALS_QUICK)),
                "recordings whose makers were killed",
            ),
            Figure::new(
                "kill9_damaged",
                damaged as f64,
                Goal::AtMost(0.0),
                "of these, recordings that are not whole",
            ),
            Figure::new(
                "kill9_max_lost_ms",
                worst,
                Goal::AtMost(1000.0),
                "longest time from the last inference that is kept to the kill",
            ),
            Figure::new(
                "inferences_lost",
                lost as f64,
                Goal::AtMost(0.0),
                "inferences missing or twice between those that are kept",
            ),
        ],
        peers: json!({}),
        notes,
    }
}

/// A store for one trial, gone with it.
struct Store(std::path::PathBuf);

impl Store {
    fn new(scratch: &Path) -> Result<Self> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = scratch.join(format!("trust-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// The worker of a recorder, as soon as there is one.
fn wait_for_child(recorder: &mut Child) -> Result<Option<u32>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let child = child_of(recorder.id());
        if child.is_some() || recorder.try_wait()?.is_some() || Instant::now() > deadline {
            return Ok(child);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The worker of a recorder, if it has started one.
fn child_of(pid: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_ascii_whitespace().next()?.parse().ok()
}

fn end(pid: Option<u32>) -> Result<()> {
    if let Some(pid) = pid {
        // It may have ended by itself meanwhile.
        Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status()?;
    }
    Ok(())
}

/// A recorder whose worker was killed ends by itself and reports.
fn finish(recorder: &mut Child) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while recorder.try_wait()?.is_none() {
        if Instant::now() > deadline {
            recorder.kill()?;
            bail!("the recorder did not end after its worker was killed");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
