//! Compares graph optimization levels: a session for each, then one run of each in turn, so that disturbances affect all
//! levels equally.

use ortscope_channel::ControlPage;
use ortscope_core::clock::now_ns;
use ortscope_ort::{Binding, Environment, Optimization, Session, SessionOptions};

use super::outbox::Outbox;
use super::{Stopped, failures, inputs};
use crate::measure::plan::{LevelsPlan, WorkerPlan};
use ortscope_analyze::facts::{Fact, LevelMeasured};

/// Names as on the command line.
const LEVELS: &[(&str, Optimization)] = &[
    ("none", Optimization::None),
    ("basic", Optimization::Basic),
    ("extended", Optimization::Extended),
    ("all", Optimization::All),
];
/// Configuration entry that stops a session's threads from spinning after its last run.
const STOP_SPINNING: &str = "session.force_spinning_stop";
/// Warm-up runs of each level.
const WARM_UP: usize = 3;
/// Maximum number of runs; enough for the median of a small model.
const MAX_RUNS: usize = 2000;

pub fn run(
    plan: &WorkerPlan,
    levels: &LevelsPlan,
    page: &ControlPage,
    outbox: &mut Outbox,
    environment: &Environment,
) -> Result<(), Stopped> {
    let mut measured = Vec::new();
    let mut sessions: Vec<Option<Session>> = Vec::new();
    for (name, level) in LEVELS {
        let begin = now_ns();
        let (session, model) = create(plan, levels, name, *level, environment);
        let nanos = now_ns() - begin;
        let failure = session.as_ref().err().cloned();
        measured.push(LevelMeasured {
            level: (*name).to_owned(),
            model,
            session_ns: session.is_ok().then_some(nanos),
            run_ns: Vec::new(),
            failure,
        });
        sessions.push(session.ok());
    }
    let Some(first) = sessions.iter().flatten().next() else {
        outbox.send(Fact::Levels { levels: measured });
        return Ok(());
    };
    let made = inputs::make(plan, first)?;
    let wrong = |error: &ortscope_ort::OrtError| Stopped::from(failures::from_ort(error, plan));
    let mut bindings: Vec<Option<Binding<'_>>> = Vec::new();
    for session in &sessions {
        let binding = session.as_ref().map(|session| session.bind(&made.values)).transpose();
        bindings.push(binding.map_err(|error| wrong(&error))?);
    }
    let deadline = now_ns().saturating_add(levels.duration_ns);
    for round in 0..WARM_UP + MAX_RUNS {
        for (binding, level) in bindings.iter_mut().zip(&mut measured) {
            let Some(binding) = binding else { continue };
            let begin = now_ns();
            binding.run().map_err(|error| wrong(&error))?;
            binding.synchronize().map_err(|error| wrong(&error))?;
            let nanos = now_ns() - begin;
            if round >= WARM_UP {
                level.run_ns.push(nanos);
            }
        }
        // A slow model gets at least one run of each level.
        if page.stop_requested() || (now_ns() >= deadline && round >= WARM_UP) {
            break;
        }
    }
    outbox.send(Fact::Levels { levels: measured });
    Ok(())
}

/// The session and its graph; a graph with nodes that a provider compiled cannot be written.
fn create(
    plan: &WorkerPlan,
    levels: &LevelsPlan,
    name: &str,
    level: Optimization,
    environment: &Environment,
) -> (Result<Session, String>, Option<std::path::PathBuf>) {
    let mut options = SessionOptions { optimization: level, ..plan.options.clone() };
    // Spinning threads of the other sessions would take processors from the running one.
    options.config_entries.entry(STOP_SPINNING.to_owned()).or_insert_with(|| "1".to_owned());
    let path = levels.directory.join(format!("{name}.onnx"));
    if options.providers.is_empty() {
        let options = SessionOptions { optimized_model_path: Some(path.clone()), ..options.clone() };
        if let Ok(session) = Session::create(environment, &plan.model, &options) {
            return (Ok(session), Some(path));
        }
    }
    let session = Session::create(environment, &plan.model, &options);
    (session.map_err(|error| failures::from_ort(&error, plan).message), None)
}
