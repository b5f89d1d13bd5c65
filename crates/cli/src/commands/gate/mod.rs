//! `ortscope gate`: compares every model of `[gate]` with its baseline, on this machine, in the same CI job.
//!
//! Each model is compared as by `ortscope bench`; [`baseline`] checks out the other side.

mod baseline;

use std::path::Path;
use std::time::Instant;

use clap::Parser;
use ortscope_analyze::outputs::Tolerance;
use ortscope_analyze::verdict::{LOOKS, Metric, two_sample};
use ortscope_core::clock::WallAnchor;
use ortscope_core::config::{GateModel, GateSettings};
use ortscope_observe::interrupt::Interrupt;
use ortscope_render::comparison::{Ci, gate_junit, gate_markdown, gate_text};
use ortscope_result::comparison::{
    Difference, Gate, GateResult, Judge, NamedEffect, StoredComparison, StoredRun, USUAL_METRICS,
    differences, summary,
};
use ortscope_sources::MachineFacts;
use serde::Serialize;

use self::baseline::Checkout;
use super::bench::{self, Request, blocks, judge};
use super::compare::read_stored;
use crate::args::{FailOn, GateArgs, GlobalArgs, JudgeArgs, RunArgs};
use crate::commands::run::jobs::{self, Job};
use crate::commands::run::require;
use crate::exit::{Exit, Failure, FailureKind};
use crate::progress::ProgressLine;
use crate::recording::{fingerprint, open_store};
use crate::settings;
use crate::terminal::{self, Terminal, WARN};

/// Blocks measured of a model whose baseline is stored.
const BLOCKS_AGAINST_STORED: usize = 6;

#[derive(Debug, Serialize)]
struct GateDocument {
    schema: &'static str,
    ortscope_version: &'static str,
    started_unix_ns: u64,
    machine: MachineFacts,
    #[serde(flatten)]
    gate: Gate,
}

pub fn run(args: &GateArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let begin = Instant::now();
    let config = settings::load(global.config.as_deref())?;
    let gate = &config.gate;
    let (judge, fail_on) = judge_of(gate)?;
    let models: Vec<&GateModel> = gate
        .models
        .iter()
        .filter(|model| args.only.as_ref().is_none_or(|text| model.path.to_string_lossy().contains(text)))
        .collect();
    if models.is_empty() {
        return Err(match &args.only {
            Some(text) => Failure::usage(format!("no model of [gate] has '{text}' in its path")),
            None => Failure::usage("there is no [[gate.models]] in the configuration")
                .with_hint("'ortscope config init --template ci' writes one to begin with"),
        });
    }
    let reference = args.baseline_ref.as_ref().or(gate.baseline_ref.as_ref());
    let needs_checkout =
        !args.aa && models.iter().any(|model| model.baseline.is_none() && model.baseline_runs.is_empty());
    let checkout = match reference.filter(|_| needs_checkout) {
        Some(reference) => Some(Checkout::new(reference, gate.baseline_build.as_deref(), terminal)?),
        None => None,
    };
    let gate_run = GateRun {
        gate,
        judge: &judge,
        global,
        terminal,
        interrupt: Interrupt::install(),
        checkout,
        aa: args.aa,
    };
    let (started, machine) = (WallAnchor::now(), ortscope_sources::machine_facts());
    let mut results = Vec::new();
    for model in models {
        if gate_run.interrupt.requested() {
            break;
        }
        let mut result = GateResult::new(model.path.display().to_string());
        if let Err(failure) = gate_run.judge_model(model, &mut result) {
            result.failure = Some(failure);
        }
        results.push(result);
    }
    let document = GateDocument {
        schema: "ortscope.gate/1",
        ortscope_version: env!("CARGO_PKG_VERSION"),
        started_unix_ns: started.unix_ns,
        machine,
        gate: Gate::new(args.aa, results, begin.elapsed().as_secs_f64()),
    };
    show(&document, args, terminal)?;
    Ok(exit_of(&document.gate, fail_on, &gate_run.interrupt, terminal))
}

fn judge_of(gate: &GateSettings) -> Result<(Judge, FailOn), Failure> {
    let fail_on = match gate.fail_on.as_deref() {
        Some("inconclusive") => FailOn::Inconclusive,
        Some("never") => FailOn::Never,
        _ => FailOn::Regression,
    };
    let args = JudgeArgs {
        metric: gate.metrics.clone(),
        margin: gate.margins.iter().map(|(metric, percent)| format!("{metric}={percent}%")).collect(),
        fail_on,
        max_rounds: gate.max_rounds.unwrap_or(LOOKS[LOOKS.len() - 1].rounds as u16),
    };
    let judge = judge::judge(&args, &USUAL_METRICS).map_err(|failure| Failure {
        message: failure.message.replace("--metric", "gate.metrics").replace("--margin", "gate.margins"),
        hint: failure.hint.map(|hint| hint.replace("--metric", "gate.metrics")),
        ..failure
    })?;
    Ok((judge, fail_on))
}

/// Arguments of `ortscope run`, which plans the measurement.
#[derive(Debug, Parser)]
struct Words {
    #[command(flatten)]
    run: RunArgs,
}

struct GateRun<'a> {
    gate: &'a GateSettings,
    judge: &'a Judge,
    global: &'a GlobalArgs,
    terminal: &'a Terminal,
    interrupt: Interrupt,
    checkout: Option<Checkout>,
    aa: bool,
}

impl GateRun<'_> {
    fn judge_model(&self, model: &GateModel, result: &mut GateResult) -> Result<(), Failure> {
        if !model.path.is_file() {
            return Err(Failure::model(format!("there is no file '{}'", model.path.display())));
        }
        if !self.aa && !model.baseline_runs.is_empty() {
            return self.against_stored(model, result);
        }
        let baseline = if self.aa {
            result.baseline = Some("itself".into());
            model.path.clone()
        } else if let Some(file) = &model.baseline {
            if !file.is_file() {
                let message = format!("there is no baseline: no file '{}'", file.display());
                return Err(Failure::new(FailureKind::NotComparable, message));
            }
            result.baseline = Some(file.display().to_string());
            file.clone()
        } else if let Some(checkout) = &self.checkout {
            result.baseline = Some(format!("commit {}", checkout.commit));
            checkout.file(&model.path)?
        } else {
            let message = format!("there is no baseline for '{}'", model.path.display());
            return Err(Failure::new(FailureKind::NotComparable, message).with_hint(
                "set gate.baseline_ref, or baseline or baseline_runs of the model; --aa compares it with itself",
            ));
        };
        let jobs = [self.job(model, &baseline)?, self.job(model, &model.path)?];
        let comparison =
            bench::compare(&jobs, self.judge, &self.request(model)?, &self.interrupt, self.terminal)?;
        if self.aa {
            result.minimum_effects = NamedEffect::all(&comparison, self.judge);
        }
        result.set_comparison(comparison)
    }

    fn request(&self, model: &GateModel) -> Result<Request, Failure> {
        let gate = self.gate;
        let tolerance = gate.tolerance.map(|relative| Tolerance { relative, absolute: relative });
        Ok(Request {
            required: require::parse(&model.require_provider)?,
            tolerance: (gate.check_outputs || tolerance.is_some()).then_some(tolerance),
            fixed_length: gate.block_seconds.is_some(),
            profile: !self.aa,
            resolve_improvements: false,
        })
    }

    fn job(&self, model: &GateModel, path: &Path) -> Result<Job, Failure> {
        let mut words = vec!["gate".to_owned(), path.display().to_string()];
        let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
        for file in &model.inputs {
            add("--input", file.display().to_string());
        }
        for (name, sizes) in &model.shapes {
            add("--shape", format!("{name}={sizes}"));
        }
        if !model.providers.is_empty() {
            add("--provider", model.providers.join(","));
        }
        if let Some(threads) = model.threads {
            add("--threads", threads.to_string());
        }
        if let Some(seconds) = self.gate.block_seconds {
            add("--duration", format!("{seconds}s"));
        }
        let words = Words::try_parse_from(words).map_err(|error| {
            Failure::usage(format!("[gate] '{}': {}", model.path.display(), error.kind()))
        })?;
        let mut jobs = jobs::plan(&words.run, self.global)?;
        jobs.pop().ok_or_else(|| Failure::internal("no job was planned"))
    }

    /// Compares blocks measured now with stored recordings. This is weaker than measuring both sides now, and noted so.
    fn against_stored(&self, model: &GateModel, result: &mut GateResult) -> Result<(), Failure> {
        result.baseline = Some(format!("{} recordings", model.baseline_runs.len()));
        let store = open_store(self.global)?;
        let open = |run: &String| read_stored(&store, run);
        let mut baseline =
            model.baseline_runs.iter().map(open).collect::<Result<Vec<_>, _>>().map_err(|failure| {
                let kind = match failure.kind {
                    FailureKind::Usage => FailureKind::NotComparable,
                    kind => kind,
                };
                Failure { kind, message: format!("there is no baseline: {}", failure.message), ..failure }
            })?;
        // A recording that is named twice is one process run.
        baseline.sort_by(|one, other| one.id.cmp(&other.id));
        baseline.dedup_by(|one, other| one.id == other.id);
        if baseline.len() < two_sample::FEWEST {
            let message = format!(
                "the baseline of '{}' has {} recordings, {} are needed",
                model.path.display(),
                baseline.len(),
                two_sample::FEWEST
            );
            return Err(Failure::new(FailureKind::NotComparable, message));
        }
        let job = self.job(model, &model.path)?;
        let mut job =
            blocks::of_length(&job, self.gate.block_seconds.is_none().then_some(blocks::TRIAL_SECONDS));
        let required = require::parse(&model.require_provider)?;
        let mut now: Vec<StoredRun> = Vec::new();
        for number in 0..=BLOCKS_AGAINST_STORED {
            let mut progress =
                ProgressLine::start(self.terminal, &format!("block {number} of {BLOCKS_AGAINST_STORED}"));
            let measured = blocks::measure(&job, &self.interrupt, &mut progress);
            progress.finish();
            let measured = measured?;
            if self.interrupt.requested() {
                return Err(Failure::new(
                    FailureKind::Interrupted,
                    "interrupted before the blocks were measured",
                ));
            }
            let results = std::slice::from_ref(&measured.result);
            let here = fingerprint(&ortscope_sources::machine_facts(), results);
            if number == 0 {
                // The trial checks everything that would make the measurement useless.
                require::check(std::slice::from_ref(&measured.result), &required)?;
                check_machine(&baseline, &here)?;
                if self.gate.block_seconds.is_none() {
                    let seconds = blocks::length_seconds(measured.block.figure(Metric::P50).unwrap_or(0.0));
                    job = blocks::of_length(&job, Some(seconds));
                }
                continue;
            }
            now.push(StoredRun::from_block(&job.model.name, here, &measured.block));
        }
        result.verdicts = StoredComparison::verdicts(self.judge, &baseline, &now);
        result.verdict = self.judge.overall(&result.verdicts);
        result.summary = Some(summary(result.verdict, &result.verdicts));
        result.notes.push(
            "the baseline was measured at another time: a change of the machine looks like a change of the model"
                .into(),
        );
        Ok(())
    }
}

fn check_machine(
    baseline: &[StoredRun],
    here: &std::collections::BTreeMap<String, String>,
) -> Result<(), Failure> {
    for stored in baseline {
        let found = differences(&stored.fingerprint, here);
        if !found.is_empty() {
            let list: Vec<String> = found.iter().map(Difference::sentence).collect();
            return Err(Failure::new(
                FailureKind::NotComparable,
                format!("not comparable with recording {}: {}", stored.id, list.join(", ")),
            )
            .with_hint("measure the baseline in the same job: gate.baseline_ref"));
        }
    }
    Ok(())
}

fn show(document: &GateDocument, args: &GateArgs, terminal: &Terminal) -> Result<(), Failure> {
    if terminal.json {
        let text = serde_json::to_string_pretty(document).map_err(Failure::internal)?;
        terminal::print_data(&(text + "\n"));
    } else {
        terminal::print_data(&gate_text(&document.gate, terminal.color));
    }
    if let Some(path) = &args.junit {
        fs_err::write(path, gate_junit(&document.gate))?;
    }
    let markdown = gate_markdown(&document.gate);
    if let Some(path) = &args.summary {
        fs_err::write(path, &markdown)?;
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let ci = Ci::of_environment(variable);
    if let (Some(Ci::GitHub), Some(path)) = (ci, variable("GITHUB_STEP_SUMMARY")) {
        let file = fs_err::OpenOptions::new().append(true).create(true).open(path);
        // A summary that cannot be written is no reason to fail a gate.
        if let Err(error) =
            file.and_then(|mut file| std::io::Write::write_all(&mut file, markdown.as_bytes()))
        {
            terminal::print_error(&format!("{} {error}", terminal.paint(WARN, "warning:")));
        }
    }
    for line in ci.map(|ci| ci.annotations(&document.gate)).unwrap_or_default() {
        terminal::print_error(&line);
    }
    Ok(())
}

/// Prints the failures and returns the worst exit code: failures first, then providers, regressions, missing baselines,
/// inconclusive verdicts.
fn exit_of(gate: &Gate, fail_on: FailOn, interrupt: &Interrupt, terminal: &Terminal) -> Exit {
    let rank = |exit: Exit| match exit {
        Exit::Ok => 0,
        Exit::Inconclusive => 1,
        Exit::NotComparable => 2,
        Exit::Regression => 3,
        Exit::Provider => 4,
        _ => 5,
    };
    let mut exit = Exit::Ok;
    for result in &gate.models {
        let own = match &result.failure {
            Some(failure) => {
                terminal::print_failure(terminal, failure);
                failure.kind.into()
            }
            None => judge::exit_of(result.verdict, fail_on),
        };
        if rank(own) > rank(exit) {
            exit = own;
        }
    }
    if interrupt.requested() && exit == Exit::Ok {
        return Exit::Interrupted;
    }
    exit
}
