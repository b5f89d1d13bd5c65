use ortscope_core::schema::{DeviceSampleRow, ProcessSampleRow, UnavailabilityRow};
use serde_json::{Value, json};

use super::*;

fn sensors() -> Sensors {
    let mut sensors = Sensors::default();
    for (device, metric, value) in [
        ("package-0", "power_watts", 40.0),
        ("gpu0", "power_watts", 5.2),
        ("gpu0", "utilization_ratio", 0.25),
        ("gpu1", "utilization_ratio", f64::NAN),
        ("npu0", "utilization_ratio", 0.892),
        ("gpu0", "memory_used_bytes", 5.12e8),
    ] {
        sensors.add(&DeviceSampleRow {
            timestamp_ns: 1_000,
            device: device.into(),
            metric: metric.into(),
            value,
            ..DeviceSampleRow::default()
        });
    }
    sensors
}

fn inference() -> InferenceRow {
    InferenceRow {
        timestamp_ns: 1_500,
        planned_ns: 1_500,
        session_id: "5d9c9f2a".into(),
        sequence: 7,
        run_ns: 4_520_000,
        copy_in_ns: 100_000,
        copy_out_ns: 90_000,
        batch_size: Some(16),
        ok: true,
        ..InferenceRow::default()
    }
}

#[test]
fn an_inference_has_the_names_and_units_of_the_wire() {
    let sensors = sensors();
    let reasons = Reasons::default();
    let figures = LatencyFigures {
        percentiles: Percentiles { p50: Some(4.2), ..Default::default() },
        jitter: Some(1.2),
        needs_runs: vec![("p99_9", 3_688)],
    };
    let context = InferenceContext {
        model_name: Some("squeezenet"),
        figures: Some(&figures),
        sensors: &sensors,
        flops: Some(2.0e9),
        padding_ratio: None,
        reasons: &reasons,
    };
    let record = serde_json::to_value(inference_record(&inference(), &context)).unwrap();
    assert_eq!(record["latency"]["end_to_end_ms"], json!(4.71));
    assert_eq!(record["latency"]["inference_only_ms"], json!(4.52));
    assert_eq!(record["latency"]["percentiles"]["p50"], json!(4.2));
    assert_eq!(record["latency"]["percentiles"]["p99_9"], json!(null));
    assert_eq!(record["unavailable"]["latency.percentiles.p99_9"], json!("needs at least 3688 inferences"));
    assert_eq!(record["energy"]["power_w"], json!(45.2));
    let joules = 45.2 * 0.00471;
    assert!((record["energy"]["joules"].as_f64().unwrap() - joules).abs() < 1e-12);
    assert!((record["energy"]["inferences_per_watt"].as_f64().unwrap() - 1.0 / joules).abs() < 1e-9);
    assert!((record["energy"]["flops_per_watt"].as_f64().unwrap() - 2.0e9 / joules).abs() < 1.0);
    assert_eq!(record["hardware"]["cache_hit_rates"], json!({"l1": null, "l2": null, "l3": null}));
    assert_eq!(
        record["batch_context"],
        json!({"batch_size": 16, "padding_ratio": null, "queue_depth": null})
    );
    assert_eq!(record["timestamp_ns"], json!(1_500));
}

/// Every null has its reason, and nothing else has one.
#[test]
fn every_null_says_why() {
    fn nulls(path: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Null => found.push(path.to_owned()),
            Value::Object(members) => {
                for (name, member) in members.iter().filter(|(name, _)| *name != "unavailable") {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    nulls(&path, member, found);
                }
            }
            _ => {}
        }
    }
    let (sensors, reasons) = (Sensors::default(), Reasons::default());
    let context = InferenceContext {
        model_name: None,
        figures: None,
        sensors: &sensors,
        flops: None,
        padding_ratio: None,
        reasons: &reasons,
    };
    for record in [
        serde_json::to_value(inference_record(&inference(), &context)).unwrap(),
        serde_json::to_value(operation_record(&OperatorRow::default(), &reasons)).unwrap(),
        serde_json::to_value(system_record(&SystemSampleRow::default(), &sensors, None, &reasons)).unwrap(),
    ] {
        let mut found = Vec::new();
        nulls("", &record, &mut found);
        found.sort();
        let said: Vec<&String> = record["unavailable"].as_object().unwrap().keys().collect();
        assert_eq!(said, found.iter().collect::<Vec<_>>());
        assert!(!found.is_empty());
    }
}

#[test]
fn recorded_reasons_win_at_their_time() {
    let mut reasons = Reasons::default();
    reasons.add(&UnavailabilityRow {
        from_ns: 1_000,
        to_ns: Some(2_000),
        track: "gpu".into(),
        reason: "no driver".into(),
        hint: Some("install one".into()),
    });
    assert_eq!(reasons.why("gpu_percent", 1_500), Some("no driver; install one"));
    assert_eq!(reasons.why("hardware.gpu_sm_occupancy", 1_500), Some("no driver; install one"));
    assert_eq!(reasons.why("gpu_percent", 2_000), None);
    assert_eq!(reasons.why("npu_percent", 1_500), None);
}

#[test]
fn a_system_record_joins_devices_and_processes() {
    let mut memory = ProcessMemory::of([7, 8]);
    for (timestamp_ns, pid, working_set_bytes) in
        [(1, 7, 999), (1_000, 7, 200_000_000), (1_000, 8, 56_000_000), (1_000, 9, 1)]
    {
        memory.add(&ProcessSampleRow { timestamp_ns, pid, working_set_bytes, ..ProcessSampleRow::default() });
    }
    let row = SystemSampleRow {
        timestamp_ns: 1_100,
        cpu_percent: Some(18.5),
        memory_used_bytes: Some(423),
        memory_total_bytes: Some(1_000),
        ..SystemSampleRow::default()
    };
    let record = system_record(&row, &sensors(), memory.bytes(1_100), &Reasons::default());
    let record = serde_json::to_value(record).unwrap();
    assert_eq!(
        record,
        json!({"timestamp_ns": 1_100, "cpu_percent": 18.5, "memory_percent": 42.3, "gpu_percent": 25.0,
               "npu_percent": 89.2, "gpu_memory_mb": 512.0, "process_memory_mb": 256.0, "unavailable": {}})
    );
    // Nobody knows what a sensor shows that has been silent for long.
    let late = SystemSampleRow { timestamp_ns: 60_000_000_000, ..row };
    let record = system_record(&late, &sensors(), memory.bytes(late.timestamp_ns), &Reasons::default());
    assert_eq!((record.gpu_percent, record.process_memory_mb), (None, None));
}

#[test]
fn an_operation_has_shapes_as_lists() {
    let row = OperatorRow {
        name: "conv2d_0".into(),
        op_type: "Conv".into(),
        device: "NPU".into(),
        duration_ns: 840_000,
        input_shapes: Some("[[1,256,256,3]]".into()),
        output_shapes: Some("not JSON".into()),
        output_bytes: Some(u64::MAX),
        parameter_bytes: Some(1),
        ..OperatorRow::default()
    };
    let record = serde_json::to_value(operation_record(&row, &Reasons::default())).unwrap();
    assert_eq!(record["input_shapes"], json!([[1, 256, 256, 3]]));
    assert_eq!(record["output_shapes"], json!(null));
    assert_eq!(record["duration_ms"], json!(0.84));
    assert_eq!(record["memory_bytes"], json!(u64::MAX));
    assert_eq!(record["unavailable"]["output_shapes"], json!("the profile has no readable shapes"));
}

#[test]
fn inference_ids_are_uuids_that_stay() {
    let id = inference_id("5d9c9f2a", 7);
    assert_eq!(id, inference_id("5d9c9f2a", 7));
    assert_ne!(id, inference_id("5d9c9f2a", 8));
    assert_ne!(id, inference_id("5d9c9f2b", 7));
    assert_eq!(id.len(), 36);
    assert_eq!(&id[14..15], "8");
    assert!("89ab".contains(&id[19..20]), "{id}");
}
