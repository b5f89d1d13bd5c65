//! Sweeps: one job becomes many, and many results become advice.

use std::collections::BTreeMap;

use ortscope_analyze::recommend::Goal;
use ortscope_ort::Optimization;

use super::jobs::{self, Job};
use crate::args::{GlobalArgs, RunArgs};
use crate::exit::Failure;
use crate::report::RunResult;
use crate::values;
use ortscope_analyze::facts::Scenario;
use ortscope_result::{BatchSweepReport, SweepReport};

/// More combinations than this are refused: they would take an hour.
const MAX_COMBINATIONS: usize = 200;

/// The job itself, or its variants by batch size or settings.
pub fn expand(args: &RunArgs, job: Job) -> Result<Vec<Job>, Failure> {
    if args.batch.len() > 1 {
        return Ok(args.batch.iter().map(|batch| with_batch(&job, *batch)).collect());
    }
    if args.sweep.is_empty() {
        return Ok(vec![job]);
    }
    let mut axes = Vec::new();
    for text in &args.sweep {
        let (key, list) = values::key_value(text, "a sweep").map_err(Failure::usage)?;
        let choices: Vec<String> = list
            .split(',')
            .map(|choice| choice.trim().to_owned())
            .filter(|choice| !choice.is_empty())
            .collect();
        if choices.is_empty() {
            return Err(Failure::usage(format!("--sweep {text} has no values")));
        }
        axes.push((key, choices));
    }
    let combinations: usize = axes.iter().map(|(_, choices)| choices.len()).product();
    if combinations > MAX_COMBINATIONS {
        return Err(Failure::usage(format!(
            "these sweeps make {combinations} combinations; at most {MAX_COMBINATIONS} are measured"
        )));
    }
    // The settings as they are come first: the others are compared with them.
    let mut default = job.clone();
    default.label = Some("default".into());
    default.rule = jobs::brief(job.rule);
    default.plan.time_second_session = false;
    let mut jobs = vec![default];
    for number in 0..combinations {
        jobs.push(combination(&job, &axes, number, args)?);
    }
    Ok(jobs)
}

fn with_batch(job: &Job, batch: u64) -> Job {
    let mut job = job.clone();
    job.label = Some(format!("batch={batch}"));
    job.settings.insert("batch".into(), batch.to_string());
    job.plan.inputs.batch = Some(batch);
    job.plan.time_second_session = false;
    job.rule = jobs::brief(job.rule);
    job
}

/// Combination `number` of the product of all axes; the last axis turns fastest.
fn combination(
    job: &Job,
    axes: &[(String, Vec<String>)],
    number: usize,
    args: &RunArgs,
) -> Result<Job, Failure> {
    let mut job = job.clone();
    job.is_default = false;
    job.rule = jobs::brief(job.rule);
    job.plan.time_second_session = false;
    let mut rest = number;
    let mut chosen = Vec::new();
    for (key, choices) in axes.iter().rev() {
        let Some(choice) = choices.get(rest % choices.len()) else {
            continue;
        };
        rest /= choices.len();
        chosen.push((key, choice));
    }
    let mut label = Vec::new();
    for (key, choice) in chosen.into_iter().rev() {
        apply(&mut job, key, choice, args)?;
        job.settings.insert(key.clone(), choice.clone());
        label.push(format!("{key}={choice}"));
    }
    job.label = Some(label.join(" "));
    Ok(job)
}

/// Changes one setting of a job, by the names of `--sweep`.
pub fn apply(job: &mut Job, key: &str, choice: &str, args: &RunArgs) -> Result<(), Failure> {
    let options = &mut job.plan.options;
    let number = || {
        choice.parse::<u32>().ok().filter(|value| (1..=4096).contains(value)).ok_or_else(|| {
            Failure::usage(format!("--sweep {key}: '{choice}' is not a number from 1 to 4096"))
        })
    };
    let switch = || match choice {
        on if is_on(on) => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => Err(Failure::usage(format!("--sweep {key}: '{choice}' is neither on nor off"))),
    };
    match key {
        "threads" => options.intra_op_threads = Some(number()?),
        "inter-threads" => {
            options.inter_op_threads = Some(number()?);
            options.parallel = true;
        }
        "opt" => options.optimization = choice.parse::<Optimization>().map_err(Failure::usage)?,
        "parallel" => options.parallel = switch()?,
        "arena" => options.cpu_arena = Some(switch()?),
        "memory-pattern" => options.memory_pattern = Some(switch()?),
        "provider" => {
            // `cuda+cpu` in a sweep is `--provider cuda,cpu`.
            let names: Vec<String> = choice.split('+').map(str::to_owned).collect();
            options.fallback = jobs::fallback_policy(&names);
            let own_options = about(&names, &args.provider_option, '.');
            let own_libraries = about(&names, &args.provider_library, '=');
            options.providers = jobs::providers(&names, &own_options, &own_libraries)?;
        }
        "sessions" => job.plan.sessions = number().map(|sessions| sessions.min(10) as u16)?,
        "scenario" => job.plan.scenario = choice.parse().map_err(Failure::usage)?,
        key if key.contains('.') => {
            options.config_entries.insert(key.to_owned(), choice.to_owned());
        }
        _ => {
            return Err(Failure::usage(format!("--sweep does not know '{key}'")).with_hint(
                "threads, inter-threads, opt, parallel, arena, memory-pattern, provider, sessions, scenario, or a \
                 session configuration entry such as session.intra_op.allow_spinning",
            ));
        }
    }
    Ok(())
}

/// What the command line says about these providers, without what it says about others.
fn about(names: &[String], texts: &[String], end: char) -> Vec<String> {
    let is_theirs = |text: &&String| {
        let provider = text.split(end).next().unwrap_or_default();
        names.iter().any(|name| name.eq_ignore_ascii_case(provider))
    };
    texts.iter().filter(is_theirs).cloned().collect()
}

pub fn batch_report(args: &RunArgs, results: &[RunResult]) -> Option<BatchSweepReport> {
    (args.batch.len() > 1).then(|| BatchSweepReport::new(&args.batch, results))
}

pub fn settings_report(
    args: &RunArgs,
    global: &GlobalArgs,
    jobs: &[Job],
    results: &[RunResult],
) -> Option<SweepReport> {
    if args.sweep.is_empty() {
        return None;
    }
    let single = jobs.iter().all(|job| job.plan.scenario == Scenario::Single);
    let goal = if single { Goal::Latency } else { Goal::Throughput };
    let settings = jobs.iter().map(|job| (job.settings.clone(), job.is_default));
    let mut report = SweepReport::new(settings, results, goal);
    let best = report.analysis.recommended.and_then(|index| jobs.get(index)).filter(|job| !job.is_default);
    report.command = best.map(|job| command_for(args, global, &job.settings));
    Some(report)
}

/// The command that runs with these settings, and with everything else the user had asked for.
fn command_for(args: &RunArgs, global: &GlobalArgs, settings: &BTreeMap<String, String>) -> String {
    let mut words = vec!["ortscope run".to_owned()];
    words.extend(args.models.iter().map(|model| model.display().to_string()));
    words.extend(global.ort_library.iter().map(|path| format!("--ort-library {}", path.display())));
    words.extend(args.input.iter().map(|file| format!("--input {}", file.display())));
    words.extend(args.shape.iter().map(|shape| format!("--shape {shape}")));
    words.extend(args.batch.iter().map(|batch| format!("--batch {batch}")));
    words.extend(args.provider_option.iter().map(|option| format!("--provider-option {option}")));
    words.extend(args.provider_library.iter().map(|library| format!("--provider-library {library}")));
    words.extend(args.config_entry.iter().map(|entry| format!("--config-entry {entry}")));
    // What the sweep did not vary stays as it was asked for.
    let kept = |key: &str| !settings.contains_key(key);
    if kept("provider") && !args.provider.is_empty() {
        words.push(format!("--provider {}", args.provider.join(",")));
    }
    words.extend(args.threads.filter(|_| kept("threads")).map(|threads| format!("--threads {threads}")));
    words.extend(args.opt.iter().filter(|_| kept("opt")).map(|level| format!("--opt {level}")));
    words.extend(
        args.scenario.iter().filter(|_| kept("scenario")).map(|scenario| format!("--scenario {scenario}")),
    );
    let parallel = settings.get("parallel").map_or(args.parallel, |choice| is_on(choice));
    if parallel || settings.contains_key("inter-threads") {
        words.push("--parallel".to_owned());
    }
    for (key, value) in settings {
        words.extend(match (key.as_str(), value.as_str()) {
            ("threads" | "inter-threads" | "opt" | "sessions" | "scenario", _) => {
                Some(format!("--{key} {value}"))
            }
            ("provider", _) => Some(format!("--provider {}", value.replace('+', ","))),
            ("arena", choice) if !is_on(choice) => Some("--no-arena".to_owned()),
            ("memory-pattern", choice) if !is_on(choice) => Some("--no-memory-pattern".to_owned()),
            ("parallel" | "arena" | "memory-pattern", _) => None,
            _ => Some(format!("--config-entry {key}={value}")),
        });
    }
    words.join(" ")
}

fn is_on(choice: &str) -> bool {
    matches!(choice, "on" | "true" | "1")
}
