//! Recordings as they come: healthy, noisy, huge, empty, damaged, hostile.

use ortscope_core::batch::Batch;
use ortscope_core::schema::{
    AnnotationRow, DeviceSampleRow, FindingRow, InferenceRow, KernelEventRow, LossRow, Method, OperatorKind,
    OperatorRow, ProcessRow, ProcessSampleRow, SessionRow, SystemSampleRow, Text, UnavailabilityRow,
};
use ortscope_core::tables::MemoryTables;

use super::support::{Random, SECOND, START, batch, inference, input, tables, texts};
use ortscope_result::ReportInput;

pub const PID: u64 = 4242;

pub fn session(providers: &str) -> SessionRow {
    SessionRow {
        timestamp_ns: START,
        session_id: "s".into(),
        pid: Some(PID),
        model_name: "squeezenet1.1.onnx".into(),
        execution_providers: providers.into(),
        ort_version: Some("1.31.1".into()),
        options: None,
    }
}

/// The measured loop: a first run, a warm-up, then a latency around 2.3 ms. `extra` slows single inferences down.
pub fn measured(n: u64, random: &mut Random, extra: impl Fn(u64) -> u64) -> Vec<InferenceRow> {
    let mut now = START + SECOND / 2;
    let mut rows = vec![InferenceRow { phase: "first".into(), ..inference(0, now, 88_000_000) }];
    now += 90_000_000;
    for sequence in 1..=n {
        let warm = 1.0 + 0.8 * (-(sequence as f64) / 12.0).exp();
        let usual = 2_300_000.0 * warm * (0.02 * random.normal()).exp();
        let row = inference(sequence, now, usual as u64 + extra(sequence));
        now += row.copy_in_ns + row.run_ns + row.copy_out_ns + 15_000;
        rows.push(row);
    }
    rows
}

/// A chain of nodes as a small convolutional net has it, profiled `runs` times.
pub fn profile(nodes: u64, runs: u64, random: &mut Random, first_ns: u64) -> Vec<OperatorRow> {
    const KINDS: [(&str, f64); 7] = [
        ("Conv", 60.0),
        ("Relu", 6.0),
        ("Concat", 9.0),
        ("MaxPool", 14.0),
        ("Softmax", 18.0),
        ("GlobalAveragePool", 12.0),
        ("Resize", 25.0),
    ];
    let types = texts(KINDS.map(|(name, _)| name));
    let [dml, cpu, gpu, cpu_device, session] =
        texts(["DmlExecutionProvider", "CPUExecutionProvider", "GPU", "CPU", "s"]);
    let names: Vec<Text> = (0..nodes)
        .map(|node| format!("/features/{node}/{}_{node}", KINDS[node_kind(node)].0).into())
        .collect();
    let mut rows = Vec::new();
    let mut now = first_ns;
    for number in 0..runs {
        let start = now;
        now += 40_000;
        for node in 0..nodes {
            let kind = node_kind(node);
            let fell_back = kind == 6;
            let row = OperatorRow {
                timestamp_ns: now,
                duration_ns: (KINDS[kind].1 * 1000.0 * (0.1 * random.normal()).exp()) as u64,
                session_id: Text::clone(&session),
                run: Some(number),
                kind: OperatorKind::Operator.into(),
                name: Text::clone(&names[node as usize]),
                op_type: Text::clone(&types[kind]),
                node_index: Some(node),
                execution_provider: Text::clone(if fell_back { &cpu } else { &dml }),
                device: Text::clone(if fell_back { &cpu_device } else { &gpu }),
                thread: 7,
                input_shapes: Some("[[1,64,55,55]]".into()),
                output_bytes: Some(774_400),
                flops: (kind == 0).then_some(42_000_000),
                ..OperatorRow::default()
            };
            if fell_back {
                let moved = OperatorRow {
                    kind: OperatorKind::Copy.into(),
                    op_type: "MemcpyToHost".into(),
                    name: format!("Memcpy_{node}").into(),
                    duration_ns: 21_000,
                    flops: None,
                    ..row.clone()
                };
                now += moved.duration_ns + 1000;
                rows.push(moved);
            }
            let row = OperatorRow { timestamp_ns: now, ..row };
            now += row.duration_ns + 1500;
            rows.push(row);
        }
        now += 60_000;
        rows.push(OperatorRow {
            timestamp_ns: start,
            duration_ns: now - start,
            session_id: Text::clone(&session),
            run: Some(number),
            kind: OperatorKind::Run.into(),
            name: "model_run".into(),
            thread: 7,
            ..OperatorRow::default()
        });
        now += 20_000;
    }
    rows
}

fn node_kind(node: u64) -> usize {
    match node % 12 {
        0 | 2 | 4 | 7 | 9 => 0,
        1 | 3 | 5 | 8 => 1,
        6 => 2,
        10 => 3,
        _ => [4, 5, 6][(node / 12 % 3) as usize],
    }
}

/// Samples every 100 ms of the observed process, a quiet one and, while `busy`, a loud one.
pub fn samples(seconds: u64, busy: impl Fn(u64) -> bool) -> Vec<Batch> {
    let mut processes = Vec::new();
    let mut system = Vec::new();
    let mut devices = Vec::new();
    let [gpu, package, load, power, nvml] =
        texts(["gpu0", "package-0", "utilization_ratio", "power_watts", "nvml"]);
    let (mut own, mut quiet, mut loud) = (SECOND, SECOND / 2, 0);
    for tick in 0..seconds * 10 {
        let now = START + tick * SECOND / 10;
        let is_busy = busy(now);
        own += 96_000_000 + tick % 7 * 500_000;
        quiet += 1_000_000;
        loud += if is_busy { 180_000_000 } else { 0 };
        for (pid, cpu_time_ns, memory) in
            [(PID, own, 412_000_000 + tick * 40_000), (77, quiet, 30_000_000), (99, loud, 800_000_000)]
        {
            processes.push(ProcessSampleRow {
                timestamp_ns: now,
                pid,
                process_start: 1,
                cpu_time_ns,
                working_set_bytes: memory,
                context_switches: Some(tick * 12),
                page_faults: Some(9000 + tick * 3),
                thread_count: Some(14),
                ..ProcessSampleRow::default()
            });
        }
        system.push(SystemSampleRow {
            timestamp_ns: now,
            cpu_percent: Some(if is_busy { 98.0 } else { 21.0 + (tick % 5) as f64 }),
            memory_used_bytes: Some(9_100_000_000),
            memory_total_bytes: Some(32_000_000_000),
            context_switches: Some(tick * 900),
            cpu_frequency_hertz: Some(if is_busy { 3.1e9 } else { 3.8e9 }),
            ..SystemSampleRow::default()
        });
        for (device, metric, value) in
            [(&gpu, &load, 0.6 + 0.05 * (tick % 4) as f64), (&package, &power, 27.0 + (tick % 9) as f64)]
        {
            devices.push(DeviceSampleRow {
                timestamp_ns: now,
                device: Text::clone(device),
                metric: Text::clone(metric),
                value,
                source: Text::clone(&nvml),
                method: Method::Measured.into(),
            });
        }
    }
    let names = [(PID, "ortscope-worker"), (77, "explorer"), (99, "backup-agent")];
    let processes_seen: Vec<ProcessRow> = names
        .iter()
        .map(|(pid, name)| ProcessRow {
            timestamp_ns: START,
            pid: *pid,
            process_start: 1,
            event: "seen".into(),
            name: (*name).into(),
            ..ProcessRow::default()
        })
        .collect();
    vec![batch(&processes_seen), batch(&processes), batch(&system), batch(&devices)]
}

pub fn run_document() -> serde_json::Value {
    serde_json::json!({
        "schema": "ortscope.run/1",
        "results": [{
            "model": {"name": "squeezenet1.1.onnx"}, "session_ids": ["s"], "scenario": "single",
            "runtime": {"version": "1.31.1"},
            "placement": {"providers": ["DmlExecutionProvider", "CPUExecutionProvider"],
                "nodes": [{"provider": "DmlExecutionProvider", "nodes": 64}, {"provider": "CPUExecutionProvider", "nodes": 2}]},
            "cold": {"file_read_ms": 4.1, "session_first_ms": 310.0, "session_again_ms": 120.0, "first_run_ms": 88.0},
            "memory": {"peak_bytes": 412_000_000_u64, "session_bytes": 38_000_000, "first_run_bytes": 1_200_000},
            "cpu_cores_used": 0.98,
            "findings": [{"id": "slow-first-run", "severity": "advice", "evidence": "the first run took 88.0 ms, 38.0× a usual one",
                "advice": "run the model once before you serve; providers compile in the first run, and some can cache it", "command": null}],
            "losses": [], "unavailable": {"energy.power_w": "energy sources are not part of this release"}
        }]
    })
}

pub fn healthy() -> (MemoryTables, ReportInput) {
    let mut random = Random(7);
    let mut batches = vec![batch(&[session("DmlExecutionProvider,CPUExecutionProvider")])];
    batches.push(batch(&measured(4000, &mut random, |_| 0)));
    batches.push(batch(&profile(66, 60, &mut random, START + 11 * SECOND)));
    batches.extend(samples(12, |_| false));
    batches.push(batch(&[
        AnnotationRow {
            timestamp_ns: START,
            kind: "session_created".into(),
            text: "session of squeezenet1.1.onnx created in 310 ms".into(),
        },
        AnnotationRow {
            timestamp_ns: START + 1,
            kind: "message".into(),
            text: "{\"message\":\"done\"}".into(),
        },
    ]));
    (tables(batches), ReportInput { run_document: Some(run_document()), ..input() })
}

/// Every 700th inference and 15 in a row lose the processor to another program.
pub fn is_preempted(sequence: u64) -> bool {
    sequence % 700 == 350 || (2000..2015).contains(&sequence)
}

pub fn noisy() -> (MemoryTables, ReportInput) {
    let mut random = Random(11);
    let stalled = |sequence: u64| match sequence {
        sequence if is_preempted(sequence) => 6_000_000 + sequence % 5 * 900_000,
        1234 => 14_000_000,
        _ => 0,
    };
    let mut rows = measured(4000, &mut random, stalled);
    // One inference waits for the device, which the recording shows by itself.
    rows[3100].copy_out_ns += 9_000_000;
    let mut kernel = Vec::new();
    for row in &rows {
        // A few events belong to every inference.
        let event = |offset_ns: u64, kind: &str| KernelEventRow {
            timestamp_ns: row.timestamp_ns + offset_ns,
            kind: kind.into(),
            pid: Some(PID),
            tid: Some(PID + 1),
            ..KernelEventRow::default()
        };
        if row.sequence % 9 == 0 {
            kernel.push(event(500_000, "page_fault"));
        }
        if is_preempted(row.sequence) {
            kernel.push(KernelEventRow {
                duration_ns: Some(stalled(row.sequence) - 200_000),
                detail: Some("backup-agent".into()),
                ..event(700_000, "context_switch")
            });
            kernel.push(event(710_000, "migration"));
        }
        if row.sequence == 1234 {
            kernel.extend((0..300).map(|fault| event(300_000 + fault * 40_000, "page_fault")));
        }
        kernel.push(KernelEventRow { pid: Some(99), ..event(100, "context_switch") });
    }
    let burst = (rows[2000].timestamp_ns, rows[2015].timestamp_ns);
    let mut batches = vec![batch(&[session("CPUExecutionProvider")]), batch(&rows), batch(&kernel)];
    batches.extend(samples(12, |now| now + SECOND / 10 >= burst.0 && now <= burst.1 + SECOND / 10));
    batches.push(batch(&profile(66, 20, &mut random, START + 11 * SECOND)));
    batches.push(batch(&[
        LossRow {
            timestamp_ns: START + 3 * SECOND,
            place: "kernel ring".into(),
            kind: "kernel_events".into(),
            count: 312,
        },
        LossRow {
            timestamp_ns: START + 4 * SECOND,
            place: "kernel ring".into(),
            kind: "kernel_events".into(),
            count: 8,
        },
    ]));
    batches.push(batch(&[
        UnavailabilityRow {
            from_ns: START,
            to_ns: None,
            track: "energy.power_w".into(),
            reason: "the processor's energy counters need administrator rights".into(),
            hint: Some("run ortscope doctor --fix as administrator".into()),
        },
        UnavailabilityRow {
            from_ns: START + SECOND,
            to_ns: Some(START + 3 * SECOND),
            track: "gpu0.temperature_celsius".into(),
            reason: "the driver did not answer".into(),
            hint: None,
        },
    ]));
    batches.push(batch(&[
        FindingRow {
            timestamp_ns: START,
            id: "outliers-matter".into(),
            severity: "warning".into(),
            evidence: "22 outliers (0.6 %) take 1.9 % of the time; 15 of 22 in 1 burst: looks like the system, not the model".into(),
            advice: "look at p99 and at what else runs on this machine; nothing was removed".into(),
            command: Some("ortscope top".into()),
        },
        FindingRow {
            timestamp_ns: START,
            id: "provider-fallback".into(),
            severity: "error".into(),
            evidence: "DmlExecutionProvider was asked for but is not used: DirectML.dll was not found".into(),
            advice: "these figures are of another provider; install what it needs, or ask for the one you want".into(),
            command: Some("ortscope doctor".into()),
        },
    ]));
    let input = ReportInput { run_document: Some(run_document()), ..input() };
    (tables(batches), input)
}

/// A model of ten thousand nodes, some of them in sub-graphs.
pub fn many_operators() -> (MemoryTables, ReportInput) {
    let mut rows = profile(10_000, 6, &mut Random(3), START);
    for row in &mut rows {
        if row.node_index.is_some_and(|node| node % 100 == 1) {
            row.depth = 1;
        }
    }
    (tables(vec![batch(&[session("DmlExecutionProvider,CPUExecutionProvider")]), batch(&rows)]), input())
}

pub fn empty() -> (MemoryTables, ReportInput) {
    (MemoryTables::default(), input())
}

/// A sweep: 24 sessions with settings of their own.
pub fn sweep() -> (MemoryTables, ReportInput) {
    let mut random = Random(5);
    let mut batches = Vec::new();
    let mut results = Vec::new();
    for index in 0..24_u64 {
        let id: Text = format!("session-{index}").into();
        let rows: Vec<InferenceRow> = measured(600, &mut random, |_| index * 100_000)
            .into_iter()
            .map(|row| InferenceRow {
                session_id: Text::clone(&id),
                timestamp_ns: row.timestamp_ns + index * 3 * SECOND,
                planned_ns: row.planned_ns + index * 3 * SECOND,
                ..row
            })
            .collect();
        batches.push(batch(&rows));
        results.push(serde_json::json!({
            "model": {"name": "squeezenet1.1.onnx"}, "session_ids": [&*id], "label": format!("threads={} opt=all", index + 1),
        }));
    }
    let document = serde_json::json!({"schema": "ortscope.run/1", "results": results});
    (tables(batches), ReportInput { run_document: Some(document), ..input() })
}

/// An open loop that is overloaded, and a generator.
pub fn serving() -> (MemoryTables, ReportInput) {
    let mut random = Random(9);
    let mut rows = Vec::new();
    let mut free_at = START;
    for sequence in 0..2000_u64 {
        let planned = START + sequence * 2_000_000;
        let begin = planned.max(free_at);
        let run_ns = (2_100_000.0 * (0.05 * random.normal()).exp()) as u64;
        let row = InferenceRow {
            planned_ns: planned,
            session_id: "server".into(),
            queue_depth: Some((begin - planned) / 2_000_000),
            copy_in_ns: 0,
            copy_out_ns: 0,
            ..inference(sequence, begin, run_ns)
        };
        free_at = begin + run_ns;
        rows.push(row);
    }
    let mut now = START + 20 * SECOND;
    let mut tokens = Vec::new();
    for sequence in 0..10_u64 {
        for token in 0..120_u64 {
            let run_ns = if token == 0 { 50_000_000 } else { 10_000_000 + token * 5_000 };
            tokens.push(InferenceRow {
                session_id: "generator".into(),
                phase: if token == 0 { "prefill".into() } else { "token".into() },
                token: Some(token),
                ..inference(sequence * 120 + token, now, run_ns)
            });
            now += run_ns + 100_000;
        }
    }
    (tables(vec![batch(&rows), batch(&tokens)]), input())
}

pub fn hostile() -> (MemoryTables, ReportInput) {
    const EVIL: &str = "</title></script><script>alert(1)</script>\u{1b}[2J\"' onload=x ]]> `|*_[a](javascript:alert(1)) =1+1";
    let mut random = Random(13);
    let mut rows = measured(500, &mut random, |sequence| u64::from(sequence == 300) * 30_000_000);
    for row in &mut rows {
        row.session_id = EVIL.into();
        row.phase = if row.sequence == 0 { EVIL.into() } else { "steady".into() };
    }
    let mut operators = profile(12, 5, &mut random, START + 9 * SECOND);
    for row in &mut operators {
        row.session_id = EVIL.into();
        row.name = format!("{EVIL}{}", row.name).into();
        row.op_type = format!("{EVIL}{}", row.op_type).into();
        row.execution_provider = EVIL.into();
        row.input_shapes = Some(EVIL.into());
    }
    let evil: Text = EVIL.into();
    let annotation =
        AnnotationRow { timestamp_ns: START, kind: Text::clone(&evil), text: Text::clone(&evil) };
    let finding = FindingRow {
        timestamp_ns: START,
        id: Text::clone(&evil),
        severity: "error".into(),
        evidence: Text::clone(&evil),
        advice: Text::clone(&evil),
        command: Some(Text::clone(&evil)),
    };
    let loss = LossRow { timestamp_ns: START, place: Text::clone(&evil), kind: Text::clone(&evil), count: 3 };
    let gap = UnavailabilityRow {
        from_ns: START,
        to_ns: None,
        track: Text::clone(&evil),
        reason: Text::clone(&evil),
        hint: Some(Text::clone(&evil)),
    };
    let mut one = session(EVIL);
    (one.session_id, one.model_name) = (Text::clone(&evil), Text::clone(&evil));
    let mut batches =
        vec![batch(&[one]), batch(&rows), batch(&operators), batch(&[annotation]), batch(&[finding])];
    batches.extend([batch(&[loss]), batch(&[gap])]);
    batches.extend(samples(3, |_| false));
    let mut input = ReportInput { condition: vec![EVIL.into()], ..input() };
    input.recording.subject = EVIL.into();
    input.recording.id = EVIL.into();
    input.recording.command = Some(EVIL.into());
    input.recording.fingerprint.insert(EVIL.into(), EVIL.into());
    (tables(batches), input)
}

/// The scene without an end, and with batches that cannot be read.
pub fn cut_off() -> (MemoryTables, ReportInput) {
    let (tables, mut input) = noisy();
    input.recording.ended = None;
    input.recording.end_reason = None;
    input.condition = vec![
        "2 segments are damaged and were left out: kernel_events-000003.seg, inferences-000007.seg".into(),
    ];
    (tables, input)
}
