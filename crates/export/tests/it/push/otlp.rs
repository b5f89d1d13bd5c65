//! OTLP, as the official definitions read it.

use std::path::Path;
use std::process::Command;

use ortscope_core::schema::OperatorRow;
use ortscope_export::push::Protocol;
use serde_json::Value;

use super::far_end::FarEnd;
use super::{inference_figures, options, push};
use crate::skips;
use crate::traces::trace_tables;

#[test]
fn the_official_definitions_read_metrics_and_traces() {
    let far_end = FarEnd::start(Vec::new());
    let directory = tempfile::tempdir().unwrap();
    let tables = trace_tables();
    let report =
        push(&tables, &options(&far_end.url(""), Protocol::Otlp, &directory.path().join("queue"))).unwrap();
    let requests = far_end.stop();
    assert_eq!((report.waiting, report.delivered), (0, report.samples));
    assert!(requests.iter().all(|request| ["/v1/metrics", "/v1/traces"].contains(&request.path.as_str())));
    for (number, request) in requests.iter().enumerate() {
        let kind = request.path.rsplit('/').next().unwrap();
        std::fs::write(directory.path().join(format!("{number:05}.{kind}")), &request.body).unwrap();
    }
    let Some(python) = skips::python_with(&["opentelemetry.proto"]) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/check_otlp.py");
    let output =
        Command::new(&python).arg("-X").arg("utf8").arg(script).arg(directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();

    let (count, seconds) = inference_figures(&tables);
    let histogram = &found["metrics"]["ortscope_inference_duration_seconds"];
    assert_eq!((histogram["kind"].as_str(), histogram["count"].as_f64()), (Some("histogram"), Some(count)));
    assert_eq!(histogram["buckets"].as_f64(), Some(count));
    assert!((histogram["sum"].as_f64().unwrap() - seconds).abs() < 1e-9);
    let errors = &found["metrics"]["ortscope_inference_errors_total"];
    assert_eq!((errors["kind"].as_str(), errors["monotonic"].as_bool()), (Some("sum"), Some(true)));
    assert_eq!(found["metrics"]["ortscope_device_power_watts"]["kind"], "gauge");
    assert_eq!(found["resource"]["host.name"], "pc1");

    let (mut operators, mut operator_ns) = (0u64, 0u64);
    for row in tables.batches.iter().flat_map(|batch| batch.rows::<OperatorRow>()) {
        (operators, operator_ns) = (operators + 1, operator_ns + row.duration_ns);
    }
    assert_eq!(found["inferences"]["spans"].as_f64(), Some(count));
    assert_eq!(found["inferences"]["nanos"].as_u64(), Some(500 * (11 + 1_900_007 + 101)));
    assert_eq!(
        (found["rows"]["spans"].as_u64(), found["rows"]["nanos"].as_u64()),
        (Some(operators), Some(operator_ns))
    );
    assert_eq!(found["ids"].as_u64(), Some(operators + count as u64), "every span has an id of its own");
}
