//! What monitoring costs a Python program per `InferenceSession.run`, beside what it would use otherwise: a Prometheus
//! histogram and an OpenTelemetry span, all in one process in alternating blocks (`tools/python_overhead.py`).

use anyhow::{Context, Result};
use serde_json::json;

use super::answer::{answer_of, number};
use super::{Figure, Goal, Report, Setting};
use crate::models;
use crate::process::capture;
use crate::python;

const ROUNDS: u32 = 250;
const ROUNDS_QUICK: u32 = 40;
/// A model that takes a small part of the millisecond it has.
const REAL_MODEL: &str = "silero_vad_v6";
/// At most so long for the ratio at 1000 inferences a second; a quiet machine needs less.
const PACED_SECONDS: u32 = 110;
const PACED_SECONDS_QUICK: u32 = 15;

pub(crate) fn run(setting: &Setting<'_>) -> Result<Report> {
    let environment = setting.environment;
    let wheel = python::build_wheel(environment)?;
    capture(environment.pip("install").args(["--force-reinstall", "--no-deps"]).arg(&wheel))?;
    let model = |name: &str| {
        let model = models::all().iter().find(|model| model.name == name);
        models::fetch(environment, model.with_context(|| format!("there is no model {name}"))?)
    };
    let rounds = if setting.quick { ROUNDS_QUICK } else { ROUNDS };
    let mut script = environment.script("python_overhead.py");
    let paced_seconds = if setting.quick { PACED_SECONDS_QUICK } else { PACED_SECONDS };
    script
        .arg(model("identity")?)
        .arg(model(REAL_MODEL)?)
        .args([rounds, paced_seconds].map(|n| n.to_string()));
    let measured = answer_of(&mut script).context("the measurement failed")?;
    let number = |key: &str| number(&measured, key);
    let session = number("added_ns_session")?;
    let (telemetry, prometheus) = (number("added_ns_opentelemetry")?, number("added_ns_prometheus")?);
    Ok(Report {
        figures: vec![
            Figure::new(
                "added_ns_session",
                session,
                Goal::AtMost(600.0),
                "thread CPU ns per MonitoredInferenceSession.run minus a bare run (fastest blocks), shapes recorded",
            ),
            Figure::new(
                "added_ns_patched",
                number("added_ns_patched")?,
                Goal::AtMost(450.0),
                "the same for a session of a patched program",
            ),
            Figure::new(
                "ratio_opentelemetry",
                telemetry / session,
                Goal::AtLeast(40.0),
                "what an SDK span (batch processor, exporter that drops) adds, over added_ns_session",
            ),
            Figure::new(
                "ratio_prometheus",
                prometheus / session,
                Goal::AtLeast(3.0),
                "what a histogram without labels adds, over added_ns_session",
            ),
            Figure::new(
                "paced_p50_ratio",
                number("paced_p50_ratio")?,
                Goal::Between(0.995, 1.005),
                "p50 of a real model at 1000 inferences/s, patched over plain, Hodges-Lehmann over ratios of neighbouring blocks",
            ),
            Figure::new(
                "paced_p50_ratio_empty_wrapper",
                number("wrapped_paced_p50_ratio")?,
                Goal::Shown,
                "peer: the same of a method in Python that only calls the original",
            ),
        ],
        peers: json!({
            "versions": measured["versions"],
            "added_ns_opentelemetry": telemetry,
            "added_ns_prometheus": prometheus,
            "added_ns_perf_counter_and_list": number("added_ns_perf_counter")?,
        }),
        notes: vec![
            format!(
                "{rounds} rounds of blocks of 200 calls; bare run {:.0} ns; differences of the fastest blocks; medians \
                 of paired differences: session {:.0}, patched {:.0}, perf_counter + list {:.0}, Prometheus {:.0}, \
                 OpenTelemetry {:.0} ns",
                number("bare_ns")?,
                number("added_median_ns_session")?,
                number("added_median_ns_patched")?,
                number("added_median_ns_perf_counter")?,
                number("added_median_ns_prometheus")?,
                number("added_median_ns_opentelemetry")?,
            ),
            format!(
                "{REAL_MODEL} at 1000 inferences/s: p50 {:.4} ms, ratio 95 % {:.4} to {:.4} ({} ratios of 40 blocks of 10 ms); \
                 of the empty wrapper {:.4} to {:.4}; {} inferences recorded, losses {}",
                number("paced_p50_ms")?,
                number("paced_p50_ratio_low")?,
                number("paced_p50_ratio_high")?,
                measured["paced_pairs"],
                number("wrapped_paced_p50_ratio_low")?,
                number("wrapped_paced_p50_ratio_high")?,
                measured["recorded"],
                measured["losses"]
            ),
            format!("versions {}", measured["versions"]),
        ],
    })
}
