//! What the model understands of whole recordings.

use ortscope_core::schema::{FindingRow, InferenceRow, KernelEventRow, LossRow};

use super::scenes;
use super::support::{START, batch, build, inference, input, tables};
use ortscope_result::{CauseKind, Explained, MAX_POINTS, MAX_RECTANGLES, ReportInput, Severity};

#[test]
fn a_healthy_run_is_complete_and_agrees_with_its_document() {
    let (tables, input) = scenes::healthy();
    let model = build(&tables, &input);
    let session = &model.sessions[0];
    assert_eq!((session.counts.total, session.counts.failed), (4001, 0));
    assert_eq!((session.counts.by_phase["first"], session.counts.by_phase["steady"]), (1, 4000));
    assert_eq!(session.pid, Some(scenes::PID));
    assert_eq!(session.execution_providers, ["DmlExecutionProvider", "CPUExecutionProvider"]);
    assert_eq!(session.cold.and_then(|cold| cold.session_first_ms), Some(310.0));
    assert_eq!(session.first_runs_ms, [88.08]);
    assert!(session.warm_up.as_ref().is_some_and(|warm_up| warm_up.discarded > 0));
    assert_eq!(session.slow.as_ref().map(|slow| slow.count), Some(0));
    assert!(model.header.complete && model.header.duration_seconds == 12.0);
    assert_eq!(model.header.ort_versions, ["1.31.1"]);
    // Messages between our own programs are no marks.
    assert_eq!(
        model.annotations.iter().map(|mark| mark.kind.as_str()).collect::<Vec<_>>(),
        ["session_created"]
    );
    assert_eq!(model.unavailable[0].metric, "energy.power_w");
    let observed = &model.processes[0];
    assert!(observed.observed && observed.name == "ortscope-worker");
    let cpu = observed.series.iter().find(|series| series.metric == "cpu_percent").expect("CPU use");
    assert!((cpu.mean - 97.4).abs() < 0.5 && cpu.points.len() <= MAX_POINTS, "{}", cpu.mean);
    let operators = &model.operators[0];
    assert!(operators.observer_factor.is_some_and(|factor| factor > 0.5 && factor < 2.0));
    assert_eq!(operators.placement.iter().map(|row| row.device.as_str()).collect::<Vec<_>>(), ["GPU", "CPU"]);
}

#[test]
fn slow_inferences_are_explained_by_what_was_recorded() {
    let (tables, input) = scenes::noisy();
    let model = build(&tables, &input);
    let slow = model.sessions[0].slow.as_ref().expect("slow inferences");
    assert_eq!((slow.count, slow.shown.len()), (23, 20));
    for inference in &slow.shown {
        let first = &inference.causes[0];
        match inference.sequence {
            // 300 faults at once; their durations were not recorded, so they only coincide.
            1234 => {
                assert_eq!((inference.verdict, first.cause), (Explained::Partly, CauseKind::PageFault));
                assert_eq!(first.count, Some(300));
            }
            3100 => assert_eq!((inference.verdict, first.cause), (Explained::Yes, CauseKind::CopyOut)),
            sequence => {
                assert!(scenes::is_preempted(sequence), "{sequence} is no slow one");
                assert_eq!((inference.verdict, first.cause), (Explained::Yes, CauseKind::ContextSwitch));
                assert!(first.share_of_excess.is_some_and(|share| share > 0.9), "{first:?}");
                assert!(inference.sentence.contains("backup-agent ran instead"), "{}", inference.sentence);
            }
        }
    }
    assert_eq!(slow.causes[0].cause, CauseKind::ContextSwitch);
    // In the burst another program was seen in the samples as well.
    let burst = slow.shown.iter().find(|slow| slow.sequence == 2009).expect("the burst is shown");
    let also: Vec<CauseKind> = burst.causes.iter().map(|cause| cause.cause).collect();
    assert!(also.contains(&CauseKind::OtherProcesses) && also.contains(&CauseKind::BusyMachine), "{also:?}");
}

#[test]
fn without_sources_nothing_is_guessed() {
    let rows: Vec<InferenceRow> = scenes::measured(1000, &mut super::support::Random(1), |sequence| {
        u64::from(sequence == 700) * 20_000_000
    });
    let mut batches = vec![batch(&[scenes::session("CPUExecutionProvider")]), batch(&rows)];
    let model = build(&tables(batches.clone()), &input());
    let slow = &model.sessions[0].slow.as_ref().expect("slow inferences").shown[0];
    assert_eq!((slow.verdict, slow.causes.len()), (Explained::Unknown, 0));
    assert_eq!(
        slow.sentence,
        "unexplained: kernel events were not recorded, so scheduling and faults cannot be told"
    );
    let kernel = &model.explanation_sources[0];
    assert_eq!(
        kernel.sentence,
        "kernel events were not recorded: this recording has none and does not say why"
    );
    // Recorded, but nothing happened inside: that is another answer.
    let elsewhere = KernelEventRow {
        timestamp_ns: START,
        kind: "context_switch".into(),
        pid: Some(1),
        ..KernelEventRow::default()
    };
    batches.push(batch(&[elsewhere]));
    let model = build(&tables(batches.clone()), &input());
    let slow = &model.sessions[0].slow.as_ref().expect("slow inferences").shown[0];
    assert_eq!((slow.verdict, slow.causes.len()), (Explained::No, 0));
    // Without the session's process nothing of it can be told from the others'.
    batches.remove(0);
    let model = build(&tables(batches), &input());
    let slow = &model.sessions[0].slow.as_ref().expect("slow inferences").shown[0];
    assert_eq!(slow.sentence, "unexplained: the recording does not say which process this session lives in");
}

#[test]
fn a_missing_source_says_why_in_the_recordings_own_words() {
    let (mut tables, input) = scenes::healthy();
    tables.batches.push(batch(&[ortscope_core::schema::UnavailabilityRow {
        from_ns: START,
        to_ns: None,
        track: "kernel_events".into(),
        reason: "perf_event_paranoid is 4".into(),
        hint: Some("sysctl kernel.perf_event_paranoid=1".into()),
    }]));
    let model = build(&tables, &input);
    assert_eq!(
        model.explanation_sources[0].sentence,
        "kernel events were not recorded: perf_event_paranoid is 4; sysctl kernel.perf_event_paranoid=1"
    );
}

#[test]
fn ten_thousand_nodes_are_drawn_in_bounds_and_lose_no_time() {
    let (tables, input) = scenes::many_operators();
    let model = build(&tables, &input);
    let report = &model.operators[0];
    let timeline = report.timeline.as_ref().expect("a timeline");
    assert!(timeline.rectangles.len() <= MAX_RECTANGLES, "{}", timeline.rectangles.len());
    // Every operator of the run is in some rectangle: 10 000 nodes, 277 copies, and the run itself.
    let drawn: u64 = timeline.rectangles.iter().map(|rectangle| rectangle.operators).sum();
    assert_eq!(drawn, 10_000 + 277 + 1);
    assert!(timeline.merged_operators > 5000 && timeline.hidden_operators == 0);
    assert_eq!(report.by_node.len() as u64 + report.other_nodes.nodes, 10_277);
    let shown: f64 = report.by_node.iter().map(|row| row.times.self_ms).sum();
    let all: f64 = report.by_type.iter().map(|row| row.times.self_ms).sum();
    assert!((shown + report.other_nodes.self_ms - all).abs() < 1e-6);
}

#[test]
fn findings_and_losses_are_said_once() {
    let (mut tables, mut input) = scenes::healthy();
    let finding = FindingRow {
        timestamp_ns: START,
        id: "slow-first-run".into(),
        severity: "advice".into(),
        evidence: "the first run took 88.0 ms, 38.0× a usual one".into(),
        advice: "run it once".into(),
        command: None,
    };
    let grave = FindingRow { id: "x".into(), severity: "error".into(), ..finding.clone() };
    tables.batches.push(batch(&[finding, grave]));
    let loss =
        |count| LossRow { timestamp_ns: START, place: "pump".into(), kind: "inferences".into(), count };
    tables.batches.push(batch(&[loss(2), loss(5)]));
    if let Some(document) = &mut input.run_document {
        document["results"][0]["losses"] =
            serde_json::json!([{"place": "pump", "kind": "inferences", "count": 7}]);
    }
    let model = build(&tables, &input);
    assert_eq!(
        model.findings.iter().map(|finding| finding.severity).collect::<Vec<_>>(),
        [Severity::Error, Severity::Advice]
    );
    assert_eq!((model.losses.len(), model.lost()), (1, 7));
}

#[test]
fn open_loops_and_generators_are_recognised() {
    let (tables, input) = scenes::serving();
    let model = build(&tables, &input);
    let by_id =
        |id: &str| model.sessions.iter().find(|session| session.session_id == id).expect("the session");
    let server = by_id("server").server.as_ref().expect("an open loop");
    assert!((server.target_per_second - 500.0).abs() < 1e-6 && !server.target_is_asked_for);
    assert!(matches!(server.verdict, ortscope_analyze::open_loop::OpenLoopVerdict::CannotKeepUp { .. }));
    assert!(server.from_planned_start_ms["p50"] > server.from_real_start_ms["p50"]);
    let generation = by_id("generator").generation.as_ref().expect("a generator");
    assert_eq!((generation.sequences, generation.tokens), (10, 1200));
    assert!(generation.growth_ms_per_100_tokens.is_some_and(|growth| growth > 0.3));
    assert!(by_id("generator").inference.is_none());
}

#[test]
fn many_sessions_are_counted_and_the_largest_shown() {
    let rows: Vec<InferenceRow> = (0..5000_u64)
        .map(|index| InferenceRow {
            session_id: format!("session {}", index % 2000).into(),
            ..inference(index, START + index * 1000, 500)
        })
        .collect();
    let model = build(&tables(vec![batch(&rows)]), &input());
    assert_eq!(model.sessions.len(), 32);
    assert!(model.sessions.iter().all(|session| session.counts.total == 3));
    assert_eq!((model.other_sessions.sessions, model.inferences()), (2000 - 32, 5000));
}

#[test]
fn a_recording_that_was_cut_off_says_so() {
    let (tables, input) = scenes::cut_off();
    let model = build(&tables, &input);
    assert!(!model.header.complete);
    assert_eq!(model.header.ended, "cut off");
    assert_eq!(model.header.condition.len(), 2);
    // Its duration is that of what was seen.
    assert!((model.header.duration_seconds - 12.0).abs() < 1.0, "{}", model.header.duration_seconds);
    // A run that failed is no complete recording either.
    let document = serde_json::json!({"results": [], "failure": {"exit": "model", "message": "the model could not be loaded"}});
    let model = build(&tables, &ReportInput { run_document: Some(document), ..super::support::input() });
    assert_eq!(model.header.condition, ["the run failed: the model could not be loaded"]);
}
