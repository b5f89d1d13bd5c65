//! Plans the two sides of a comparison and checks that they can be compared.

use std::path::PathBuf;

use ortscope_core::tensor::{ValueInfo, ValueType};
use ortscope_decode::onnx::Graph;

use crate::args::{BenchArgs, GlobalArgs, RunArgs};
use crate::commands::run::jobs::{self, Job};
use crate::commands::run::sweep;
use crate::exit::{Failure, FailureKind};
use crate::{ort_library, settings, values};

/// Returns the jobs of A and B.
pub fn plan(args: &BenchArgs, global: &GlobalArgs) -> Result<[Job; 2], Failure> {
    check_flags(&args.run)?;
    match (args.run.models.len(), args.a.len() + args.b.len()) {
        (0, _) => {
            return Err(Failure::usage(
                "there is nothing to compare: name two models, or one with --a or --b",
            )
            .with_hint("ortscope bench old.onnx new.onnx"));
        }
        (1, 0) => {
            return Err(Failure::usage("one model without --a or --b is the same thing twice")
                .with_hint("name a second model, or a setting of a side: --b threads=1"));
        }
        _ => {}
    }
    // Where both sides name a library, none needs to be installed.
    let named = |settings: &[String]| {
        settings.iter().find_map(|text| text.strip_prefix("ort-library=").map(PathBuf::from))
    };
    let mut usual = global.clone();
    if usual.ort_library.is_none() && named(&args.b).is_some() {
        usual.ort_library = named(&args.a);
    }
    let mut jobs = jobs::plan(&args.run, &usual)?;
    let first = jobs.first().cloned();
    let (Some(a), Some(b)) = (first, jobs.pop()) else {
        return Err(Failure::internal("no job was planned"));
    };
    let a = with_settings(a, &args.a, "--a", args, global)?;
    let b = with_settings(b, &args.b, "--b", args, global)?;
    check_inputs(&a.graph, &b.graph)?;
    Ok([a, b])
}

/// Refuses flags of `run` that have no meaning in a comparison.
fn check_flags(args: &RunArgs) -> Result<(), Failure> {
    let refused = [
        ("--together", args.together),
        ("--sweep", !args.sweep.is_empty()),
        ("several --batch sizes", args.batch.len() > 1),
        ("--generate", args.generate.is_some()),
        ("--precision", args.precision.is_some()),
        ("--profile-every", args.profile_every.is_some()),
        ("--kernel", args.kernel),
        ("--soak", args.soak.is_some()),
        ("--idle", args.idle.is_some()),
        ("--carbon-intensity", args.carbon_intensity.is_some()),
        ("--country", args.country.is_some()),
        ("--estimate-energy", args.estimate_energy.is_some()),
        ("--save", args.save.is_some()),
    ];
    match refused.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Failure::usage(format!("{flag} is not possible when two sides are compared"))),
        None => Ok(()),
    }
}

fn with_settings(
    mut job: Job,
    settings: &[String],
    flag: &str,
    args: &BenchArgs,
    global: &GlobalArgs,
) -> Result<Job, Failure> {
    for text in settings {
        let (key, value) = values::key_value(text, "a setting of a side").map_err(Failure::usage)?;
        if key == "ort-library" {
            let config = settings::load(global.config.as_deref())?;
            let named = GlobalArgs { ort_library: Some(PathBuf::from(&value)), ..global.clone() };
            job.plan.library = ort_library::find(&named, &config)?;
        } else {
            // The settings are those of a sweep.
            sweep::apply(&mut job, &key, &value, &args.run).map_err(|failure| Failure {
                message: failure.message.replace("--sweep", flag),
                ..failure
            })?;
        }
        job.settings.insert(key, value);
    }
    if !settings.is_empty() {
        job.label = Some(settings.join(" "));
    }
    Ok(job)
}

/// Names, types and number of the inputs must agree; shapes are compared once the inputs exist.
fn check_inputs(a: &Graph, b: &Graph) -> Result<(), Failure> {
    let kind = |info: &ValueInfo| match &info.value_type {
        ValueType::Tensor { element, .. } => format!("{} {element}", info.name),
        other => format!("{} {other}", info.name),
    };
    let list = |graph: &Graph| {
        let mut kinds: Vec<String> = graph.inputs.iter().map(kind).collect();
        kinds.sort();
        kinds
    };
    let (a, b) = (list(a), list(b));
    if a == b {
        return Ok(());
    }
    let only = |these: &[String], others: &[String]| {
        let only: Vec<&str> =
            these.iter().filter(|kind| !others.contains(kind)).map(String::as_str).collect();
        if only.is_empty() { "nothing more".to_owned() } else { only.join(", ") }
    };
    Err(different_inputs(&only(&a, &b), &only(&b, &a)))
}

pub fn different_inputs(a: &str, b: &str) -> Failure {
    Failure::new(FailureKind::Input, format!("the sides take different inputs: A has {a}, B has {b}"))
        .with_hint("only models with the same inputs can be compared; --shape sets open sizes for both")
}
