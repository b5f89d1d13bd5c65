//! The profiling pass: the same model and inputs in a process of its own, with ONNX Runtime's operator profiler on.
//!
//! It is never mixed with the measurement: the profiler makes a run up to three times slower and keeps kilobytes of
//! memory per operator that are not given back.

use ortscope_channel::ControlPage;
use ortscope_core::clock::now_nanos;
use ortscope_ort::{Environment, Session, SessionOptions};

use super::outbox::Outbox;
use super::{Stopped, failures, inputs};
use crate::measure::plan::{ProfilePlan, WorkerPlan};
use crate::measure::protocol::{Profiled, WorkerMessage};

pub fn run(
    plan: &WorkerPlan,
    profile: &ProfilePlan,
    page: &ControlPage,
    outbox: &mut Outbox,
    environment: &Environment,
) -> Result<(), Stopped> {
    let wrong = |error: &ortscope_ort::OrtError| Stopped::from(failures::from_ort(error, plan));
    let (mut session, optimized_model) = create(plan, profile, environment)?;
    let started_unix_nanos = session.profiling_start_ns().map_err(|error| wrong(&error))?;
    let made = inputs::make(plan, &session)?;
    let mut run_nanos = Vec::new();
    {
        let mut binding = session.bind(&made.values).map_err(|error| wrong(&error))?;
        let deadline = now_nanos() + profile.duration_nanos;
        while (run_nanos.len() as u64) < profile.runs && !page.stop_requested() {
            let begin = now_nanos();
            binding.run().map_err(|error| wrong(&error))?;
            run_nanos.push(now_nanos() - begin);
            // At least one run after the first, which is not like the others.
            if now_nanos() >= deadline && run_nanos.len() >= 2 {
                break;
            }
        }
    }
    let file = session.end_profiling().map_err(|error| wrong(&error))?;
    outbox.send(&WorkerMessage::Profiled(Profiled { file, optimized_model, started_unix_nanos, run_nanos }));
    Ok(())
}

/// The session, and the file of its optimised graph. A graph with nodes that a provider compiled cannot be written: then
/// there is none.
fn create(
    plan: &WorkerPlan,
    profile: &ProfilePlan,
    environment: &Environment,
) -> Result<(Session, Option<std::path::PathBuf>), Stopped> {
    let options =
        SessionOptions { profiling_prefix: Some(profile.directory.join("profile")), ..plan.options.clone() };
    let optimized = profile.directory.join("optimized.onnx");
    if profile.optimized_model && options.providers.is_empty() {
        let options = SessionOptions { optimized_model_path: Some(optimized.clone()), ..options.clone() };
        if let Ok(session) = Session::create(environment, &plan.model, &options) {
            return Ok((session, Some(optimized)));
        }
    }
    let session = Session::create(environment, &plan.model, &options)
        .map_err(|error| Stopped::from(failures::from_ort(&error, plan)))?;
    Ok((session, None))
}
