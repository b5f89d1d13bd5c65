//! Profiles both sides of a comparison to find the operators behind a difference.

use ortscope_observe::interrupt::Interrupt;
use ortscope_observe::progress::Progress as _;
use ortscope_result::comparison::{Attribution, NodeTime, SIDES};

use crate::commands::run::jobs::Job;
use crate::operators::{self, ProfileRequest};
use crate::progress::ProgressLine;
use crate::report::RunResult;
use ortscope_analyze::operators::OperatorSection;

/// Profiles both sides; an error is a note for the user.
pub fn attribute(
    sides: [(&Job, &RunResult); 2],
    interrupt: &Interrupt,
    progress: &mut ProgressLine,
) -> Result<Attribution, String> {
    let (mut times, mut slower_us) = (Vec::new(), 0.0_f64);
    for (name, (job, result)) in SIDES.into_iter().zip(sides) {
        if interrupt.requested() {
            return Err("operators were not profiled: interrupted".into());
        }
        progress.update(&|| format!("profiling {name}"));
        let built = operators::profile(
            result,
            &job.plan,
            &job.graph,
            ProfileRequest::default(),
            None,
            interrupt,
            progress,
        )
        .map_err(|failure| format!("operators of {name} could not be profiled: {failure}"))?;
        let run_us = result.latency.as_ref().map_or(0.0, |latency| latency.inference.median_ms * 1e3);
        times.push(node_times(&built.section, run_us));
        slower_us = slower_us.max(run_us);
    }
    let (Some(b), Some(a)) = (times.pop(), times.pop()) else { return Err("there is no profile".into()) };
    Ok(ortscope_result::comparison::attribute(a, b, slower_us))
}

/// Time of each node per run, scaled from the profiled latency to `run_us`.
fn node_times(section: &OperatorSection, run_us: f64) -> Vec<NodeTime> {
    let profiled_us = section.observer.profiled_median_ms.map_or(run_us, |ms| ms * 1e3);
    let scale = if profiled_us > 0.0 { run_us / profiled_us } else { 1.0 };
    section
        .by_node
        .iter()
        .map(|row| NodeTime {
            name: row.name.to_string(),
            op_type: row.op_type.to_string(),
            provider: row.provider.to_string(),
            us_per_run: row.median_us * row.calls_per_run * scale,
        })
        .collect()
}
