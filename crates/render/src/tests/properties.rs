//! The model against a direct computation, on small recordings of all kinds.

use std::collections::BTreeMap;

use ortscope_core::schema::{InferenceRow, OperatorRow, Phase};
use proptest::prelude::*;

use super::support::{START, batch, build, inference, input, tables};

/// Latencies in some unsteady order, a few failures, several sessions and phases.
fn recording() -> impl Strategy<Value = Vec<InferenceRow>> {
    let row = (0..3_u8, 0..20_u8, 100_000..5_000_000_u64, 0..50_000_u64, 0..30_u8);
    prop::collection::vec(row, 0..400).prop_map(|rows| {
        let mut now = START;
        rows.into_iter()
            .enumerate()
            .map(|(sequence, (session, phase, run_ns, copy_ns, failure))| {
                let row = InferenceRow {
                    session_id: format!("session {session}").into(),
                    phase: if phase == 0 { "first".into() } else { "steady".into() },
                    copy_in_ns: copy_ns,
                    copy_out_ns: copy_ns / 2,
                    ok: failure != 0,
                    ..inference(sequence as u64, now, run_ns)
                };
                now += run_ns + 2 * copy_ns + 1000;
                row
            })
            .collect()
    })
}

fn whole(row: &InferenceRow) -> u64 {
    row.copy_in_ns + row.run_ns + row.copy_out_ns
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn sessions_are_counted_and_summed_right(rows in recording(), parts in 1..5_usize) {
        // Batches of any size give the same model.
        let size = rows.len().div_ceil(parts).max(1);
        let model = build(&tables(rows.chunks(size).map(batch).collect()), &input());
        let mut expected: BTreeMap<String, Vec<&InferenceRow>> = BTreeMap::new();
        for row in &rows {
            expected.entry(row.session_id.to_string()).or_default().push(row);
        }
        prop_assert_eq!(model.sessions.len(), expected.len());
        prop_assert_eq!(model.inferences(), rows.len() as u64);
        for session in &model.sessions {
            let rows = &expected[&session.session_id];
            let of_phase = |phase: &str| rows.iter().filter(|row| &*row.phase == phase).count() as u64;
            prop_assert_eq!(session.counts.total, rows.len() as u64);
            prop_assert_eq!(session.counts.failed, rows.iter().filter(|row| !row.ok).count() as u64);
            for phase in ["first", "steady"] {
                prop_assert_eq!(session.counts.by_phase.get(phase).copied().unwrap_or(0), of_phase(phase));
            }
            let steady: Vec<&&InferenceRow> = rows.iter().filter(|row| row.ok && row.phase == Phase::Steady).collect();
            prop_assert_eq!(session.inference.is_some(), !steady.is_empty());
            let (Some(latency), Some(warm_up)) = (&session.inference, &session.warm_up) else { continue };
            let kept = &steady[warm_up.discarded..];
            let runs: Vec<u64> = kept.iter().map(|row| row.run_ns).collect();
            prop_assert_eq!(latency.runs, runs.len() as u64);
            prop_assert_eq!(latency.min_ms, *runs.iter().min().expect("runs") as f64 / 1e6);
            prop_assert_eq!(latency.max_ms, *runs.iter().max().expect("runs") as f64 / 1e6);
            let mean = runs.iter().sum::<u64>() as f64 / runs.len() as f64 / 1e6;
            prop_assert!((latency.mean_ms - mean).abs() < 1e-9);
            let histogram = session.histogram.as_ref().expect("a histogram");
            prop_assert_eq!(histogram.n(), runs.len() as u64);
            let drawn = session.over_time.as_ref().expect("a chart").points.iter().map(|point| point.n).sum::<u64>();
            prop_assert_eq!(drawn, steady.len() as u64);
            let slow = session.slow.as_ref().expect("slow inferences");
            let limit = slow.limit_ms * 1e6;
            let slowest: Vec<u64> = kept.iter().map(|row| whole(row)).filter(|ns| *ns as f64 > limit + 0.5).collect();
            prop_assert_eq!(slow.count, slowest.len() as u64);
            let sum = session.parts.expect("parts");
            let mean_whole = kept.iter().map(|row| whole(row)).sum::<u64>() as f64 / kept.len() as f64 / 1e6;
            prop_assert!((sum.copy_in_ms + sum.run_ms + sum.copy_out_ms - mean_whole).abs() < 1e-6);
        }
    }

    #[test]
    fn operators_are_summed_right(
        rows in prop::collection::vec((0..4_u64, 0..6_u8, 1..100_000_u64, 0..2_000_u64), 1..200),
    ) {
        // Runs one after the other, their operators one after the other with gaps between them.
        let mut now = START;
        let mut operators = Vec::new();
        let mut whole: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut by_type: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let mut gaps = 0;
        let mut rows = rows;
        rows.sort_by_key(|(run, ..)| *run);
        for (run, kind, duration_ns, gap) in rows {
            let entry = whole.entry(run).or_insert((now, 0));
            now += gap;
            gaps += gap;
            operators.push(OperatorRow {
                timestamp_ns: now,
                duration_ns,
                session_id: "s".into(),
                run: Some(run),
                kind: "operator".into(),
                name: format!("node {kind}").into(),
                op_type: format!("Type{kind}").into(),
                ..OperatorRow::default()
            });
            now += duration_ns;
            entry.1 = now - entry.0;
            let sums = by_type.entry(format!("Type{kind}")).or_default();
            *sums = (sums.0 + 1, sums.1 + duration_ns);
        }
        for (run, (start, duration_ns)) in &whole {
            operators.push(OperatorRow {
                timestamp_ns: *start, duration_ns: *duration_ns, session_id: "s".into(), run: Some(*run), kind: "run".into(), ..OperatorRow::default()
            });
        }
        let model = build(&tables(vec![batch(&operators)]), &input());
        let report = &model.operators[0];
        prop_assert_eq!(report.runs, whole.len() as u64);
        prop_assert_eq!(report.by_type.len(), by_type.len());
        for row in &report.by_type {
            let (calls, total) = by_type[&row.op_type];
            prop_assert_eq!(row.times.calls, calls);
            prop_assert!((row.times.self_ms - total as f64 / 1e6).abs() < 1e-9);
        }
        let rest = report.unattributed.expect("runs have a duration");
        prop_assert!((rest.total_ms - gaps as f64 / 1e6).abs() < 1e-9);
        let shares: f64 = report.by_type.iter().filter_map(|row| row.times.share).sum();
        prop_assert!((shares + rest.share - 1.0).abs() < 1e-9);
        let timeline = report.timeline.as_ref().expect("a timeline");
        let mut durations: Vec<u64> = whole.values().map(|(_, duration)| *duration).collect();
        durations.sort_unstable();
        prop_assert!((timeline.duration_ms - durations[(durations.len() - 1) / 2] as f64 / 1e6).abs() < 1e-9);
    }
}
