//! `ortscope gate`: in CI, every model of `[gate]` against its baseline, on this machine, in this job.
//!
//! The engine is that of `ortscope bench`; here are only the baseline ([`baseline`]), several models, and the forms in
//! which a CI system wants the answer ([`render`]).

mod baseline;
mod render;

use std::path::Path;
use std::time::Instant;

use clap::Parser;
use ortscope_analyze::outputs::{OutputVerdict, Tolerance};
use ortscope_analyze::verdict::minimum_effect::{MinimumEffect, minimum_effect};
use ortscope_analyze::verdict::{LOOKS, Metric, MetricPlan, MetricVerdict, Verdict, two_sample};
use ortscope_core::clock::WallAnchor;
use ortscope_core::config::{GateModel, GateSettings};
use ortscope_sources::MachineFacts;
use serde::Serialize;

use self::baseline::Checkout;
use self::render::Ci;
use super::bench::judge::{self, Judge};
use super::bench::report::{ComparisonReport, summary, text as comparison_text};
use super::bench::{self, Request, blocks};
use super::compare::{Difference, Stored, differences, verdicts as stored_verdicts};
use crate::args::{FailOn, GateArgs, GlobalArgs, JudgeArgs, RunArgs};
use crate::commands::run::jobs::{self, Job};
use crate::commands::run::require;
use crate::exit::{Exit, Failure, FailureKind};
use crate::progress::ProgressLine;
use crate::recording::{fingerprint, open_store};
use crate::settings;
use crate::terminal::{self, BOLD, Terminal, WARN};
use ortscope_core::units;
use ortscope_observe::interrupt::Interrupt;

pub const SCHEMA: &str = "ortscope.gate/1";
/// Seed of the replays behind a minimum detectable effect.
const SEED: u64 = 20;
/// Blocks of the model that are measured when the baseline is stored.
const BLOCKS_AGAINST_STORED: usize = 6;

#[derive(Debug, Serialize)]
pub struct GateDocument {
    pub schema: &'static str,
    pub ortscope_version: &'static str,
    pub started_unix_ns: u64,
    pub machine: MachineFacts,
    /// Every model against itself (`--aa`).
    pub aa: bool,
    pub verdict: Verdict,
    pub wall_seconds: f64,
    pub models: Vec<GateResult>,
}

impl Default for GateDocument {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            ortscope_version: env!("CARGO_PKG_VERSION"),
            started_unix_ns: WallAnchor::now().unix_ns,
            machine: ortscope_sources::machine_facts(),
            aa: false,
            verdict: Verdict::Inconclusive,
            wall_seconds: 0.0,
            models: Vec::new(),
        }
    }
}

/// One model.
#[derive(Debug, Serialize)]
pub struct GateResult {
    pub path: String,
    /// What it was compared with.
    pub baseline: Option<String>,
    pub verdict: Verdict,
    pub summary: Option<String>,
    pub verdicts: Vec<MetricVerdict>,
    pub outputs_differ: bool,
    /// With `--aa`: what this machine can see.
    pub minimum_effects: Vec<NamedEffect>,
    pub notes: Vec<String>,
    /// Everything that was measured; absent against stored recordings.
    pub comparison: Option<ComparisonReport>,
    pub failure: Option<Failure>,
}

impl Default for GateResult {
    fn default() -> Self {
        Self {
            path: String::new(),
            baseline: None,
            verdict: Verdict::Inconclusive,
            summary: None,
            verdicts: Vec::new(),
            outputs_differ: false,
            minimum_effects: Vec::new(),
            notes: Vec::new(),
            comparison: None,
            failure: None,
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct NamedEffect {
    pub metric: Metric,
    #[serde(flatten)]
    pub found: MinimumEffect,
}

impl NamedEffect {
    pub fn sentence(&self) -> String {
        let noise = units::percent(self.found.round_noise);
        let effect = self.found.effect.map_or_else(
            || "no slowdown up to 100 % would be found reliably".into(),
            |effect| format!("a change of {} is found 95 times of 100", units::percent(effect)),
        );
        format!("{}: {effect} (noise of a round {noise}, {} rounds)", self.metric, self.found.rounds)
    }
}

pub fn run(args: &GateArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let begin = Instant::now();
    let config = settings::load(global.config.as_deref())?;
    let gate = &config.gate;
    let judge = judge_of(gate)?;
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
    let mut document = GateDocument { aa: args.aa, ..GateDocument::default() };
    for model in models {
        if gate_run.interrupt.requested() {
            break;
        }
        let mut result = GateResult { path: model.path.display().to_string(), ..GateResult::default() };
        if let Err(failure) = gate_run.judge_model(model, &mut result) {
            result.failure = Some(failure);
        }
        document.models.push(result);
    }
    document.wall_seconds = begin.elapsed().as_secs_f64();
    document.verdict =
        Verdict::of_all(document.models.iter().map(|result| result.verdict)).unwrap_or(Verdict::Inconclusive);
    show(&document, args, terminal)?;
    Ok(exit_of(&document, &judge, &gate_run.interrupt, terminal))
}

fn judge_of(gate: &GateSettings) -> Result<Judge, Failure> {
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
    Judge::new(&args, &judge::USUAL).map_err(|failure| Failure {
        message: failure.message.replace("--metric", "gate.metrics").replace("--margin", "gate.margins"),
        hint: failure.hint.map(|hint| hint.replace("--metric", "gate.metrics")),
        ..failure
    })
}

/// The words of `ortscope run`, which knows what they mean.
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
        self.take(comparison, result)
    }

    fn take(&self, comparison: ComparisonReport, result: &mut GateResult) -> Result<(), Failure> {
        result.verdict = comparison.verdict;
        result.summary = Some(comparison.summary.clone());
        result.verdicts.clone_from(&comparison.verdicts);
        result.outputs_differ = comparison
            .outputs
            .iter()
            .flatten()
            .any(|output| output.comparison.verdict == OutputVerdict::Different);
        result.notes.clone_from(&comparison.notes);
        if self.aa {
            result.minimum_effects =
                self.judge.plans.iter().filter_map(|plan| effect(&comparison, *plan, self.judge)).collect();
        }
        let failed = comparison.side_failure.clone();
        result.comparison = Some(comparison);
        match failed {
            Some(failed) => {
                result.verdicts.clear();
                Err(Failure { message: failed.sentence(), ..failed.failure })
            }
            None => Ok(()),
        }
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

    /// Blocks of the model now, against recordings of before. Weaker than both at once, and it says so.
    fn against_stored(&self, model: &GateModel, result: &mut GateResult) -> Result<(), Failure> {
        result.baseline = Some(format!("{} recordings", model.baseline_runs.len()));
        let store = open_store(self.global)?;
        let open = |run: &String| Stored::open(&store, run);
        let mut baseline =
            model.baseline_runs.iter().map(open).collect::<Result<Vec<_>, _>>().map_err(|failure| {
                let kind = match failure.kind {
                    FailureKind::Usage => FailureKind::NotComparable,
                    kind => kind,
                };
                Failure { kind, message: format!("there is no baseline: {}", failure.message), ..failure }
            })?;
        // Named twice it is still one process run.
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
        let mut now: Vec<Stored> = Vec::new();
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
                // The trial: what must hold before anything is worth measuring.
                require::check(std::slice::from_ref(&measured.result), &required)?;
                check_machine(&baseline, &here)?;
                if self.gate.block_seconds.is_none() {
                    let seconds = blocks::length_seconds(measured.block.figure(Metric::P50).unwrap_or(0.0));
                    job = blocks::of_length(&job, Some(seconds));
                }
                continue;
            }
            now.push(Stored::of_block(&job.model.name, here, &measured.block));
        }
        result.verdicts = stored_verdicts(self.judge, &baseline, &now);
        result.verdict = self.judge.overall(&result.verdicts);
        result.summary = Some(summary(result.verdict, &result.verdicts));
        result.notes.push(
            "the baseline was measured at another time: a change of the machine looks like one of the model"
                .into(),
        );
        Ok(())
    }
}

fn check_machine(
    baseline: &[Stored],
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

fn effect(comparison: &ComparisonReport, plan: MetricPlan, judge: &Judge) -> Option<NamedEffect> {
    let metric = plan.metric;
    let differences: Vec<f64> = comparison
        .rounds
        .iter()
        .filter_map(|round| metric.log_cost_ratio(round.a.figure(metric)?, round.b.figure(metric)?))
        .collect();
    Some(NamedEffect { metric, found: minimum_effect(&differences, plan, &judge.looks, SEED)? })
}

fn show(document: &GateDocument, args: &GateArgs, terminal: &Terminal) -> Result<(), Failure> {
    if terminal.json {
        let text = serde_json::to_string_pretty(document).map_err(Failure::internal)?;
        terminal::print_data(&(text + "\n"));
    } else {
        terminal::print_data(&(text(document, terminal).join("\n") + "\n"));
    }
    if let Some(path) = &args.junit {
        fs_err::write(path, render::junit(document))?;
    }
    let markdown = render::markdown(document);
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
    for line in ci.map(|ci| ci.annotations(document)).unwrap_or_default() {
        terminal::print_error(&line);
    }
    Ok(())
}

fn text(document: &GateDocument, terminal: &Terminal) -> Vec<String> {
    let mut lines = Vec::new();
    for result in &document.models {
        let against =
            result.baseline.as_ref().map_or_else(String::new, |baseline| format!("  against {baseline}"));
        lines.push(format!("{}{against}", terminal.paint(BOLD, &result.path)));
        match &result.comparison {
            Some(comparison) => lines.extend(comparison_text(comparison, terminal)),
            None if !result.verdicts.is_empty() => {
                lines.extend(bench::report::table(&result.verdicts, terminal));
                let verdict = bench::report::painted(result.verdict, terminal);
                lines.push(format!("verdict   {verdict}: {}", result.summary.as_deref().unwrap_or_default()));
            }
            None => {}
        }
        lines.extend(result.minimum_effects.iter().map(|effect| format!("visible   {}", effect.sentence())));
        lines.extend(result.failure.iter().map(|failure| format!("failed    {}", failure.message)));
        lines.push(String::new());
    }
    let overall = bench::report::painted(document.verdict, terminal);
    lines.push(format!("gate      {overall} over {}", units::counted(document.models.len() as u64, "model")));
    lines
}

/// What failed comes first, then providers, regressions, missing baselines, doubt.
fn exit_of(document: &GateDocument, judge: &Judge, interrupt: &Interrupt, terminal: &Terminal) -> Exit {
    let rank = |exit: Exit| match exit {
        Exit::Ok => 0,
        Exit::Inconclusive => 1,
        Exit::NotComparable => 2,
        Exit::Regression => 3,
        Exit::Provider => 4,
        _ => 5,
    };
    let mut exit = Exit::Ok;
    for result in &document.models {
        let own = match &result.failure {
            Some(failure) => {
                terminal::print_failure(terminal, failure);
                failure.kind.into()
            }
            None => judge.exit(result.verdict),
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
