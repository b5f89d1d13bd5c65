//! What monitoring costs a Python program per `InferenceSession.run`, beside what it would use otherwise: a Prometheus
//! histogram and an OpenTelemetry span, all in one process in alternating blocks (`tools/python_overhead.py`).

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::answer::{answer_of, number};
use super::{Figure, Goal, Report, Setting};
use crate::models;
use crate::process::capture;
use crate::python;

const ROUNDS: u32 = 250;
const ROUNDS_QUICK: u32 = 40;
/// A model that takes half of the millisecond it has, and one that takes a small part: what a call adds is about the same.
const REAL_MODELS: [&str; 2] = ["tashkeel", "silero_vad_v6"];
/// At most so long for the ratio at 1000 inferences a second; a quiet machine needs less.
const PACED_SECONDS: u32 = 80;
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
        .args([rounds, paced_seconds].map(|n| n.to_string()))
        .args(REAL_MODELS.map(model).into_iter().collect::<Result<Vec<_>>>()?);
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
                number("/paced/0/patched/ratio")?,
                Goal::Between(0.995, 1.005),
                "p50 of tashkeel at 1000 inferences/s, with the longest word for which 0.8 ms are enough, patched over plain, \
                 Hodges-Lehmann over ratios of neighbouring blocks",
            ),
            Figure::new(
                "paced_p50_ratio_short_model",
                number("/paced/1/patched/ratio")?,
                Goal::Shown,
                "the same of silero_vad_v6, whose runs are several times shorter",
            ),
            Figure::new(
                "paced_p50_ratio_empty_wrapper",
                number("/paced/1/empty_wrapper/ratio")?,
                Goal::Shown,
                "peer: the same of silero_vad_v6 with a method in Python that only calls the original",
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
            paced_note(&measured, 0)?,
            paced_note(&measured, 1)?,
            format!("{} inferences recorded, losses {}", measured["recorded"], measured["losses"]),
            format!("versions {}", measured["versions"]),
        ],
    })
}

/// The figures at 1000 inferences a second of one of the models, with their intervals.
fn paced_note(measured: &Value, which: usize) -> Result<String> {
    let number = |key: &str| number(measured, &format!("/paced/{which}/{key}"));
    Ok(format!(
        "{} at 1000 inferences/s, open sizes {}: p50 {:.4} ms, ratio 95 % {:.4} to {:.4} ({} ratios of 40 blocks of 10 ms); of the empty \
         wrapper {:.4} (95 % {:.4} to {:.4})",
        REAL_MODELS[which],
        number("patched/length")?,
        number("patched/p50_ms")?,
        number("patched/ratio_low")?,
        number("patched/ratio_high")?,
        number("patched/pairs")?,
        number("empty_wrapper/ratio")?,
        number("empty_wrapper/ratio_low")?,
        number("empty_wrapper/ratio_high")?,
    ))
}
