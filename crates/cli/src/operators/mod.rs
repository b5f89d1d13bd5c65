//! The operators section of `run`'s result, from the operator pass after the measurement.

pub use ortscope_observe::operator_pass::pass::ProfileRequest;

use std::time::Duration;

use ortscope_analyze::operators::ThreadFacts;
use ortscope_core::schema::Text;
use ortscope_decode::onnx::Graph;
use ortscope_observe::operator_pass::levels;
use ortscope_observe::operator_pass::pass::Pass;
use ortscope_observe::operator_pass::section::{BuiltSection, Surroundings, operator_section};
use ortscope_sources::measure_peak;

use crate::exit::Failure;
use crate::progress::ProgressLine;
use crate::report::RunResult;
use ortscope_observe::interrupt::Interrupt;
use ortscope_observe::measure::plan::WorkerPlan;
use ortscope_observe::progress::Progress as _;
use ortscope_observe::recording::ActiveRecording;

/// How long the machine's roof is measured.
const PEAK_BUDGET: Duration = Duration::from_millis(300);

/// Providers that run node by node; the others compile whole parts of a graph.
fn runs_kernels(provider: &str) -> bool {
    const KERNELS: &[&str] = &["CPU", "CUDA", "ROCM", "Dml", "WebGpu", "JS"];
    KERNELS.contains(&provider.strip_suffix("ExecutionProvider").unwrap_or(provider))
}

/// Profiles the operators of a model that was just measured.
pub fn profile(
    result: &RunResult,
    plan: &WorkerPlan,
    original: &Graph,
    request: ProfileRequest,
    recording: Option<&ActiveRecording>,
    interrupt: &Interrupt,
    progress: &mut ProgressLine,
) -> Result<BuiltSection, Failure> {
    let plain_median_ns = result.latency.as_ref().map(|latency| latency.inference.median_ms * 1e6);
    let session_id: Text = result.session_ids.first().map_or_else(Text::default, |id| id.as_str().into());
    let placed = result.placement.as_ref().map(|placement| placement.nodes.as_slice()).unwrap_or_default();
    let devices = result.placement.as_ref().map(|placement| placement.devices.clone()).unwrap_or_default();
    let pass = Pass {
        used: &devices,
        plan,
        request,
        // A graph with compiled parts cannot be written, and asking for it costs a session.
        writes_graph: plan.options.providers.is_empty()
            || (!placed.is_empty() && placed.iter().all(|of| runs_kernels(&of.provider))),
        model_name: &result.model.name,
        original,
        session_id,
        plain_median_ns,
        recording: recording.map(|recording| &recording.writer),
    };
    let profile = pass.run(interrupt, progress)?;
    let mut notes = Vec::new();
    let levels = if request.levels {
        let measured = levels::measure_levels(plan, original, result.model.bytes, interrupt, progress);
        measured.unwrap_or_else(|failure| {
            notes.push(format!("levels of optimisation: {failure}"));
            Vec::new()
        })
    } else {
        Vec::new()
    };
    progress.update(&|| "measuring this machine's peak".to_owned());
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // As many threads as the model really used: more would be another roof.
    let used = result.cpu_cores_used.map_or(processors as f64, |cores| cores.round().max(1.0)) as usize;
    let threads = plan.options.intra_op_threads.map_or(used, |threads| threads as usize).min(processors);
    let requested: Vec<Text> = match (&plan.options.providers[..], &result.placement) {
        ([], _) | (_, None) => Vec::new(),
        (_, Some(placement)) => placement.providers.iter().map(|name| name.as_str().into()).collect(),
    };
    let around = Surroundings {
        original,
        requested_providers: &requested,
        used: &devices,
        plain_median_ns,
        peak: (!interrupt.requested()).then(|| measure_peak(threads, PEAK_BUDGET)),
        threads: ThreadFacts {
            intra_op: plan.options.intra_op_threads.map_or(1, u64::from),
            inter_op: plan.options.inter_op_threads.filter(|_| plan.options.parallel).map_or(1, u64::from),
            concurrent_runs: u64::from(plan.sessions.max(1)),
            processors: processors as u64,
        },
        has_open_sizes: result.inputs.as_ref().is_some_and(|inputs| !inputs.guessed.is_empty()),
        levels,
    };
    let mut built = operator_section(profile, &around);
    let section = &mut built.section;
    section.notes.extend(notes);
    // Energy is of all devices together: it can be divided where one provider ran everything.
    let joules = result.energy.as_ref().and_then(|energy| energy.joules_per_inference);
    if let ([only], Some(joules)) = (section.device_time.as_mut_slice(), joules) {
        only.attribute(joules);
    }
    Ok(built)
}
