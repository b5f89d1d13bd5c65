//! Answers compared with the recorded data.

use ortscope_server::security::Role;
use serde_json::Value;

use crate::support::{INFERENCES, RUNS, Request, SESSION, World};

fn of_recording(world: &World, path: &str) -> Value {
    let joint = if path.contains('?') { '&' } else { '?' };
    world.json(&format!("/api/v1{path}{joint}source={}", world.recording))
}

fn sum(values: &Value) -> f64 {
    values.as_array().expect("a list").iter().filter_map(Value::as_f64).sum()
}

#[test]
fn answers_match_the_recording() {
    let world = World::new();
    let latency = of_recording(&world, "/latency");
    let session = &latency["sessions"][0];
    assert_eq!(
        (session["session_id"].as_str(), session["counts"]["total"].as_u64()),
        (Some(SESSION), Some(INFERENCES))
    );
    let p50 = session["inference"]["percentiles"]["p50"].as_f64().expect("a median");
    assert!((1.0..1.1).contains(&p50), "{p50}");
    assert_eq!(session["slow"]["shown"].as_array().map(Vec::len), Some(4), "{}", session["slow"]);
    // A part of the range: the figures cover the selection.
    let part = of_recording(&world, "/latency?from_ms=0&to_ms=200");
    assert_eq!(part["sessions"][0]["counts"]["total"].as_u64(), Some(100));

    let current = of_recording(&world, "/metrics/current");
    assert_eq!(current["system"]["cpu_percent"].as_f64(), Some(31.0));
    assert_eq!(current["cores"][1]["busy_percent"].as_f64(), Some(75.0));
    assert_eq!(current["energy"]["power_w"].as_f64(), Some(20.0));
    assert_eq!(current["sessions"][0]["batch_size"].as_u64(), Some(4));
    let reason = current["system"]["unavailable"]["npu_percent"].as_str().expect("a reason");
    assert!(reason.contains("no counters of an NPU"), "{reason}");

    let operators = of_recording(&world, "/operators");
    assert_eq!(operators["sessions"][0]["runs"].as_u64(), Some(RUNS));
    assert_eq!(operators["sessions"][0]["by_type"][0]["op_type"].as_str(), Some("Conv"));
    let filtered = of_recording(&world, "/operators?filter=op:Relu");
    assert_eq!(filtered["sessions"][0]["by_type"].as_array().map(Vec::len), Some(1));

    let processes = of_recording(&world, "/processes");
    let process = &processes["processes"][0];
    assert_eq!((process["pid"].as_u64(), process["name"].as_str()), (Some(4711), Some("server")));
    assert!((process["cpu_percent"].as_f64().expect("a share") - 50.0).abs() < 0.1);
    let energy = of_recording(&world, "/energy");
    assert!((energy["joules"].as_f64().expect("energy") - 42.0).abs() < 0.1, "{energy}");
    assert!(energy["carbon_grams"].is_number());
    let batches = of_recording(&world, "/batches");
    assert_eq!(
        (batches["rows"][0]["batch_size"].as_u64(), batches["rows"][0]["inferences"].as_u64()),
        (Some(4), Some(INFERENCES))
    );
    assert_eq!(of_recording(&world, "/findings")["findings"][0]["id"].as_str(), Some("provider-fallback"));
}

#[test]
fn history_returns_values_and_explains_gaps() {
    let world = World::new();
    let history =
        of_recording(&world, "/metrics/history?track=system/cpu_percent&track=system/nothing&points=100");
    let series = &history["series"][0];
    assert_eq!(
        (series["tier"].as_str(), series["t_ms"].as_array().map(Vec::len)),
        (Some("full_rate"), Some(22))
    );
    assert_eq!(series["max"][21].as_f64(), Some(31.0));
    assert_eq!(history["series"][1]["gaps"][0]["why"].as_str(), Some("unavailable"));
    let all = of_recording(
        &world,
        "/metrics/history?session=7f3a0000-0000-4000-8000-000000000001&metric=latency_ns&step_ms=500",
    );
    let series = &all["series"][0];
    assert_eq!((series["tier"].as_str(), sum(&series["count"])), (Some("step"), INFERENCES as f64));
    let paged = of_recording(&world, "/metrics/history?metric=cpu_percent&limit=1");
    assert_eq!(paged["series"].as_array().map(Vec::len), Some(1));
    assert!(paged["next"].is_string());
    // The routes are also available at the root.
    assert_eq!(
        world.json(&format!("/metrics/catalog?source={}", world.recording))["source"].as_str(),
        Some(world.recording.as_str())
    );
}

#[test]
fn the_timeline_loses_no_event_at_any_width() {
    let world = World::new();
    let events = INFERENCES + RUNS * 4 + 50;
    for width in [16, 100, 1000, 8192] {
        let tiles = of_recording(&world, &format!("/timeline?width={width}"));
        let lanes = tiles["lanes"].as_array().expect("lanes");
        let shown: f64 = lanes.iter().map(|lane| sum(&lane["rects"]["count"])).sum();
        assert_eq!((shown, tiles["events"].as_u64()), (events as f64, Some(events)), "{width}");
        assert!(tiles["rectangles"].as_u64().expect("a number") <= 20_000);
        let kinds: Vec<&str> = lanes.iter().filter_map(|lane| lane["kind"].as_str()).collect();
        for kind in ["inferences", "runs", "operators", "kernel"] {
            assert!(kinds.contains(&kind), "{kind}");
        }
    }
    // Two provider changes per run, and none between runs, because runs start and end on the NPU.
    let tiles = of_recording(&world, "/timeline?width=4000");
    assert_eq!(tiles["transitions"].as_array().map(Vec::len), Some(2 * RUNS as usize));
    let only = of_recording(&world, "/timeline?width=4000&op=Relu");
    assert_eq!(only["events"].as_u64(), Some(RUNS));
    let long = of_recording(&world, "/timeline?width=4000&filter=op:Conv&min_duration_ms=0.5");
    assert_eq!(long["events"].as_u64(), Some(RUNS));
    // Details of one rectangle.
    let lane = &only["lanes"][0];
    let (id, lane) = (lane["rects"]["id"][0].as_i64().expect("an id"), lane["id"].as_str().expect("a lane"));
    let event = of_recording(&world, &format!("/timeline/event?lane={}&id={id}", lane.replace('|', "%7C")));
    assert_eq!(event["operation"]["operation_id"].as_str(), Some("relu_0"), "{event}");
    assert_eq!(event["operation"]["provider"].as_str(), Some("CPU"));
    // Its dependencies within the same run; their rectangles can be requested in turn.
    let dependencies = &event["dependencies"];
    let names = |refs: &Value| -> Vec<String> {
        refs.as_array()
            .expect("a list")
            .iter()
            .map(|one| one["name"].as_str().expect("a name").into())
            .collect()
    };
    assert_eq!(
        (names(&dependencies["needs"]), names(&dependencies["needed_by"])),
        (vec!["conv_0".into()], vec!["conv_1".into()])
    );
    let need = &dependencies["needs"][0];
    let (id, lane) = (need["id"].as_i64().expect("an id"), need["lane"].as_str().expect("a lane"));
    let first = of_recording(&world, &format!("/timeline/event?lane={}&id={id}", lane.replace('|', "%7C")));
    assert_eq!(first["operation"]["operation_id"].as_str(), Some("conv_0"), "{first}");
    assert_eq!(names(&first["dependencies"]["needed_by"]), ["relu_0", "conv_1"]);
    let end = |record: &Value| record["t_ms"].as_f64().zip(record["duration_ms"].as_f64());
    let (begin, duration) = end(need).expect("numbers");
    assert!(
        begin + duration <= event["operation"]["t_ms"].as_f64().expect("a time"),
        "another run's: {event}"
    );
}

#[test]
fn timeline_record_pages_are_complete() {
    let world = World::new();
    let (mut names, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let query = cursor.as_ref().map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = of_recording(&world, &format!("/timeline?limit=7{query}"));
        assert_eq!(page["kind"].as_str(), Some("records"));
        let operations = page["operations"].as_array().expect("operations");
        names.extend(
            operations.iter().map(|operation| {
                (operation["start_time_ns"].as_u64(), operation["operation_id"].to_string())
            }),
        );
        match page["next"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(names.len() as u64, RUNS * 3);
    assert!(names.is_sorted_by(|a, b| a.0 <= b.0));
    names.dedup();
    assert_eq!(names.len() as u64, RUNS * 3);
}

#[test]
fn live_data_uses_the_same_routes() {
    let mut world = World::new();
    world.feed();
    let current = world.json("/metrics/current?source=live");
    assert_eq!(current["system"]["cpu_percent"].as_f64(), Some(31.0));
    assert_eq!(current["sessions"][0]["inferences"].as_u64(), Some(INFERENCES));
    let tiles = world.json("/timeline?source=live&width=1000");
    assert!(tiles["events"].as_u64().expect("a number") > 1000);
    let history = world.json("/metrics/history?source=live&track=system/cpu_percent");
    assert_eq!(history["series"][0]["t_ms"].as_array().map(Vec::len), Some(22), "{history}");
    let processes = world.json("/api/v1/processes?source=live");
    assert_eq!(processes["processes"][0]["working_set_bytes"].as_u64(), Some(100_000_021));
}

/// One value of the Prometheus text.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(series) && line[series.len()..].starts_with(' '));
    let line = line.unwrap_or_else(|| panic!("{series} is not in\n{text}"));
    line[series.len()..].trim().parse().expect("a number")
}

#[test]
fn prometheus_sums_match_the_rows_live_and_recorded() {
    let mut world = World::new();
    world.feed();
    let labels = r#"{model="tiny.onnx",provider="QNNExecutionProvider"}"#;
    let sum: u64 = (0..INFERENCES)
        .map(|sequence| {
            1500 + if sequence % 250 == 249 { 9_000_000 } else { 1_000_000 + (sequence % 17) * 5000 }
        })
        .sum();
    for source in ["live", world.recording.as_str()] {
        let answer = world.get(Role::Viewer, &format!("/prometheus?source={source}"));
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("text/plain; version=0.0.4; charset=utf-8"))
        );
        let text = answer.text();
        assert_eq!(
            value(&text, &format!("ortscope_inference_duration_seconds_count{labels}")),
            INFERENCES as f64
        );
        let found = value(&text, &format!("ortscope_inference_duration_seconds_sum{labels}"));
        assert!((found - sum as f64 / 1e9).abs() < 1e-9, "{found}");
        assert_eq!(value(&text, "ortscope_cpu_busy_ratio"), 0.31);
    }
    // A second scrape counts nothing twice.
    let text = world.get(Role::Viewer, "/api/v1/prometheus?source=live").text();
    assert_eq!(
        value(&text, &format!("ortscope_inference_duration_seconds_count{labels}")),
        INFERENCES as f64
    );
}

#[test]
fn downloads_match_the_export_command() {
    let world = World::new();
    let get =
        |query: &str| world.get(Role::Viewer, &format!("/api/v1/recordings/{}/{query}", world.recording));
    let lines = get("export?format=jsonl&table=inferences");
    assert_eq!(
        (lines.status, lines.header("content-type")),
        (200, Some("application/x-ndjson; charset=utf-8"))
    );
    let count = lines.text().lines().filter(|line| line.contains("\"sequence\"")).count();
    assert_eq!(count as u64, INFERENCES);
    let chrome = get("export?format=chrome&filter=op:Conv");
    assert!(serde_json::from_slice::<Value>(&chrome.body).is_ok());
    let database = get("export?format=sqlite");
    assert!(database.body.starts_with(b"SQLite format 3"), "{}", database.text());
    let csv = get("export?format=csv&table=operators");
    assert_eq!(csv.text().lines().count() as u64, 1 + RUNS * 4);
    let html = get("report?format=html");
    assert!(html.text().contains("tiny.onnx") && !html.text().contains("<script>alert"));
    let disposition = csv.header("content-disposition").expect("a name");
    assert!(
        disposition.contains(&world.recording) && disposition.contains("operators")
            || disposition.contains(".csv")
    );
}

#[test]
fn compare_returns_differences_not_verdicts() {
    let world = World::new();
    let compare = world.json(&format!("/api/v1/compare?a={0}&b={0}", world.recording));
    assert_eq!((compare["kind"].as_str(), compare["comparable"].as_bool()), (Some("difference"), Some(true)));
    let metric = &compare["sessions"][0]["metrics"][0];
    assert_eq!((metric["name"].as_str(), metric["difference"].as_f64()), (Some("p50_ms"), Some(0.0)));
    assert_eq!(compare["operators"][0]["difference_ms"].as_f64(), Some(0.0));
}

#[test]
fn large_answers_are_compressed_if_accepted() {
    let world = World::new();
    let request = Request::get("/metrics/catalog").token(world.token(Role::Viewer));
    let plain = world.request(&request);
    let packed = world.request(&request.header("Accept-Encoding", "gzip"));
    assert_eq!((plain.header("content-encoding"), packed.header("content-encoding")), (None, Some("gzip")));
    assert!(packed.body.len() * 2 < plain.body.len());
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed.body[..]), &mut text).expect("gzip");
    assert_eq!(text, plain.body);
}
