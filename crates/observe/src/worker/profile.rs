//! The operator pass: the same model and inputs in a separate process, with ONNX Runtime's operator profiler on.
//!
//! It is separate from the measurement, because the profiler makes runs up to three times slower and never frees its
//! kilobytes of memory per operator.

use std::path::PathBuf;

use ortscope_channel::ControlPage;
use ortscope_core::clock::{WallAnchor, now_ns};
use ortscope_ort::{Environment, Session, SessionOptions};

use super::outbox::Outbox;
use super::own_profiles::{self, RunFiles};
use super::{Stopped, failures, inputs};
use crate::measure::plan::{ProfilePlan, WorkerPlan};
use ortscope_analyze::facts::{Fact, Profiled};

pub fn run(
    plan: &WorkerPlan,
    profile: &ProfilePlan,
    page: &ControlPage,
    outbox: &mut Outbox,
    environment: &Environment,
) -> Result<(), Stopped> {
    let wrong = |error: &ortscope_ort::OrtError| Stopped::from(failures::from_ort(error, plan));
    let mut made_session = create(plan, profile, environment)?;
    let session = &mut made_session.session;
    let started = session.profiling_start_ns().map_err(|error| wrong(&error))?;
    let started_ns = on_our_clock(started);
    let made = inputs::make(plan, session)?;
    let mut run_ns = Vec::new();
    let mut openvino_files = RunFiles::new(profile);
    {
        let mut binding = session.bind(&made.values).map_err(|error| wrong(&error))?;
        let deadline = profile.duration_ns.map(|most| now_ns().saturating_add(most));
        while (run_ns.len() as u64) < profile.runs && !page.stop_requested() {
            let begin = now_ns();
            binding.run().map_err(|error| wrong(&error))?;
            run_ns.push(now_ns() - begin);
            openvino_files.keep(run_ns.len() as u64 - 1);
            // At least one run after the first, which differs from the others.
            if deadline.is_some_and(|end| now_ns() >= end) && run_ns.len() >= 2 {
                break;
            }
        }
    }
    let file = session.end_profiling().map_err(|error| wrong(&error))?;
    let Made { session, optimized_model, qnn_file } = made_session;
    // QNN writes its file when the session ends.
    drop(session);
    let qnn_file = qnn_file.filter(|path| path.is_file());
    outbox.send(Fact::Profiled(Profiled {
        file,
        optimized_model,
        started_ns,
        qnn_file,
        openvino_runs: openvino_files.finish(),
        run_ns,
    }));
    Ok(())
}

/// ONNX Runtime counts from the start of the machine on Windows, and since 1970 elsewhere.
pub fn on_our_clock(nanos: u64) -> Option<u64> {
    if ortscope_ort::PROFILE_CLOCK_IS_MONOTONIC {
        return Some(nanos);
    }
    let anchor = WallAnchor::now();
    let before_anchor = i128::from(nanos) - i128::from(anchor.unix_ns);
    u64::try_from(i128::from(anchor.monotonic_ns) + before_anchor).ok()
}

/// A session and the files it writes.
struct Made {
    session: Session,
    /// None if a provider compiled nodes: such a graph cannot be written.
    optimized_model: Option<PathBuf>,
    qnn_file: Option<PathBuf>,
}

fn create(plan: &WorkerPlan, profile: &ProfilePlan, environment: &Environment) -> Result<Made, Stopped> {
    let options =
        SessionOptions { profiling_prefix: Some(profile.directory.join("profile")), ..plan.options.clone() };
    let optimized = profile.directory.join("optimized.onnx");
    if profile.optimized_model {
        let options = SessionOptions { optimized_model_path: Some(optimized.clone()), ..options.clone() };
        if let Ok(session) = Session::create(environment, &plan.model, &options) {
            return Ok(Made { session, optimized_model: Some(optimized), qnn_file: None });
        }
    }
    let qnn_file = profile.directory.join("qnn.csv");
    let asked = [
        (own_profiles::with_qnn_profile(&options, &qnn_file), Some(qnn_file)),
        (own_profiles::with_openvino_counters(&options, environment), None),
    ];
    for (options, qnn_file) in asked {
        if let Some(options) = options
            && let Ok(session) = Session::create(environment, &plan.model, &options)
            // If fallback is allowed, a provider that rejects the option would be dropped silently.
            && session.fallbacks().is_empty()
        {
            return Ok(Made { session, optimized_model: None, qnn_file });
        }
    }
    let session = Session::create(environment, &plan.model, &options)
        .map_err(|error| Stopped::from(failures::from_ort(&error, plan)))?;
    Ok(Made { session, optimized_model: None, qnn_file: None })
}
