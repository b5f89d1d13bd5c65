//! The dashboard for Grafana: every question that it asks has an answer in a real Prometheus with our data.

use std::path::Path;
use std::time::Duration;

use ortscope_core::clock::WallAnchor;
use ortscope_core::recording::RecordingInfo;
use ortscope_core::schema::{
    DeviceSampleRow, InferenceRow, LossRow, OperatorRow, ProcessSampleRow, SessionRow, SystemSampleRow,
};
use ortscope_core::tables::MemoryTables;
use ortscope_export::push::{Protocol, PushOptions, push_recording};
use ortscope_export::{ExportOptions, Format};
use serde_json::Value;

use super::options;
use super::servers::{PROMETHEUS, Server, free_port};
use crate::support::info;
use crate::traces::batch;

const SECONDS: u64 = 120;

/// Two minutes of a machine with some of everything.
fn machine() -> MemoryTables {
    let at = |second: u64| second * 1_000_000_000 + 1;
    let session = SessionRow {
        timestamp_ns: 1,
        session_id: "s".into(),
        pid: Some(7),
        model_name: "squeezenet".into(),
        execution_providers: "CPUExecutionProvider".into(),
        ..SessionRow::default()
    };
    let inference = |second: u64| InferenceRow {
        timestamp_ns: at(second),
        planned_ns: at(second),
        session_id: "s".into(),
        run_ns: 2_000_000 + second,
        ok: !second.is_multiple_of(10),
        ..InferenceRow::default()
    };
    let operator = |second: u64| OperatorRow {
        timestamp_ns: at(second),
        duration_ns: 1_000_000,
        session_id: "s".into(),
        kind: "operator".into(),
        execution_provider: "CPUExecutionProvider".into(),
        ..OperatorRow::default()
    };
    let reading = |second: u64| DeviceSampleRow {
        timestamp_ns: at(second),
        device: "gpu0".into(),
        metric: "power_watts".into(),
        value: 40.0 + second as f64,
        ..DeviceSampleRow::default()
    };
    let process = |second: u64| ProcessSampleRow {
        timestamp_ns: at(second),
        pid: 7,
        cpu_time_ns: second * 500_000_000,
        working_set_bytes: 100 << 20,
        ..ProcessSampleRow::default()
    };
    let system = |second: u64| SystemSampleRow {
        timestamp_ns: at(second),
        cpu_percent: Some(50.0),
        ..SystemSampleRow::default()
    };
    let loss = |second: u64| LossRow {
        timestamp_ns: at(second),
        place: "intake".into(),
        kind: "kernel_events".into(),
        count: second,
    };
    let seconds = || 0..SECONDS;
    MemoryTables {
        batches: vec![
            batch(&[session]),
            batch(&seconds().map(inference).collect::<Vec<_>>()),
            batch(&seconds().map(operator).collect::<Vec<_>>()),
            batch(&seconds().map(reading).collect::<Vec<_>>()),
            batch(&seconds().map(process).collect::<Vec<_>>()),
            batch(&seconds().map(system).collect::<Vec<_>>()),
            batch(&seconds().map(loss).collect::<Vec<_>>()),
        ],
    }
}

/// All texts of this name, however deep.
fn texts(value: &Value, name: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str() {
                    Some(text) if key == name => found.push(text.to_owned()),
                    _ => texts(value, name, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, name, found)),
        _ => {}
    }
}

#[test]
fn every_question_of_the_dashboard_has_an_answer() {
    let directory = tempfile::tempdir().unwrap();
    let Some(server) = Server::start(&PROMETHEUS, free_port(), &directory.path().join("server")) else {
        return;
    };
    let now = WallAnchor::now().unix_ns;
    let started = WallAnchor { monotonic_ns: 1, unix_ns: now - SECONDS * 1_000_000_000, error_ns: 1 };
    let about = RecordingInfo { started, ended: None, ..info() };
    let push = PushOptions {
        step: Duration::from_secs(10),
        give_up_after: Duration::from_secs(30),
        ..options(&server.url(), Protocol::RemoteWrite, &directory.path().join("queue"))
    };
    let report = push_recording(&machine(), &about, &ExportOptions::new(Format::Prometheus), &push).unwrap();
    assert_eq!((report.delivered, report.refused), (report.samples, 0), "{:?}", report.refused_why);

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/grafana/ortscope.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut questions = Vec::new();
    texts(&dashboard["panels"], "expr", &mut questions);
    assert!(questions.len() >= 10, "{questions:?}");
    for question in &questions {
        // As Grafana does when everything is chosen.
        let question = question.replace("$model", ".*").replace("$instance", ".*");
        let answers = server.answers(&question);
        assert!(
            !answers.is_empty() && answers.iter().all(|answer| answer.is_finite()),
            "{question}: {answers:?}"
        );
    }
    let mut choices = Vec::new();
    texts(&dashboard["templating"], "query", &mut choices);
    let mut asked = 0;
    for choice in choices.iter().filter_map(|choice| choice.strip_prefix("label_values(")) {
        let (metric, label) = choice.trim_end_matches(')').split_once(", ").unwrap();
        let (_, body) = server.get(&format!("/api/v1/label/{label}/values?match[]={metric}")).unwrap();
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["data"].as_array().map(Vec::len), Some(1), "{choice}: {body}");
        asked += 1;
    }
    assert_eq!(asked, 2);
    // 119 of the 120 inferences have one before them; the rate is over what the range has of them.
    let rate = server.ask("sum(increase(ortscope_inference_errors_total[5m]))");
    assert!(rate > 0.0, "{rate}");
}
