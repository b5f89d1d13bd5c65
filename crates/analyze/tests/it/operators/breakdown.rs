use ortscope_analyze::operators::{OperatorEvent, TimeSplit, break_down, timeline};
use ortscope_core::schema::OperatorKind;
use proptest::prelude::*;

use super::{With, event, executor, op, run};

fn exclusive_us(events: &[OperatorEvent]) -> Vec<u64> {
    break_down(events).exclusive_ns.iter().map(|ns| ns / 1000).collect()
}

#[test]
fn a_plain_run_is_divided() {
    // Run 0–100, executor 10–90, Conv 10–40, Relu 45–50, copy 60–70, wait 75–80.
    let events = [
        op("Conv", 10, 30),
        op("Relu", 45, 5),
        event(OperatorKind::Copy, "Memcpy", 60, 10),
        event(OperatorKind::Wait, "sync", 75, 5),
        executor(10, 80),
        run(0, 100),
    ];
    let divided = break_down(&events);
    let us = 1000;
    assert_eq!(divided.exclusive_ns, [30 * us, 5 * us, 10 * us, 5 * us, 0, 0]);
    assert_eq!(
        divided.split,
        TimeSplit {
            run_ns: 100 * us,
            operators_ns: 35 * us,
            copies_ns: 10 * us,
            waits_ns: 5 * us,
            between_operators_ns: 30 * us,
            outside_executor_ns: 20 * us,
            // From the end of the copy: the wait belongs to it.
            after_last_ns: 30 * us,
        }
    );
    assert_eq!(divided.split.remainder_ns(), 50 * us);
    assert_eq!((divided.contradictions, divided.parallel_ns), (0, 0));
    assert!(divided.has_run_event);
}

/// A control-flow node contains its sub-graph, with an executor of its own: nothing is counted twice.
#[test]
fn subgraphs_are_subtracted_from_their_node() {
    let events = [
        op("Conv", 22, 10).at(1),
        op("Relu", 34, 4).at(1),
        executor(21, 20).at(1),
        op("If", 20, 25),
        executor(10, 50),
        run(0, 70),
    ];
    // If: 25 without the 14 of its nodes; what its executor does between them is its own.
    assert_eq!(exclusive_us(&events), [10, 4, 0, 11, 0, 0]);
    assert_eq!(break_down(&events).split.operators_ns, 25_000);
    // Containment alone gives the same result without depths.
    let flat: Vec<_> = events.iter().cloned().map(|event| event.at(0)).collect();
    assert_eq!(exclusive_us(&flat), [10, 4, 0, 11, 0, 0]);
}

#[test]
fn nested_twice() {
    let events = [
        op("Add", 30, 5).at(2),
        op("If", 25, 15).at(1),
        op("Mul", 45, 5).at(1),
        op("Loop", 20, 40),
        run(0, 100),
    ];
    assert_eq!(exclusive_us(&events), [5, 10, 5, 20, 0]);
}

/// Starts and durations are rounded down one by one: a child may seem to outlast its parent.
#[test]
fn rounding_never_makes_time() {
    let events = [op("Add", 11, 2).at(1), op("If", 10, 2), op("Last", 19, 3), run(0, 20)];
    let divided = break_down(&events);
    assert_eq!(divided.exclusive_ns, [2000, 1000, 1000, 0]);
    // Add by 1 µs, Last by 2 µs.
    assert_eq!((divided.contradictions, divided.contradicted_ns), (2, 3000));
    assert_eq!(divided.split.operators_ns + divided.split.remainder_ns(), 20_000);
}

#[test]
fn parallel_threads_each_add_up() {
    let events =
        [op("A", 10, 50).on(1), op("B", 20, 30).on(2), op("C", 55, 25).on(2), executor(5, 80), run(0, 100)];
    let divided = break_down(&events);
    // Together 10–80; both threads are busy 20–50 and 55–60.
    assert_eq!(divided.split.operators_ns, 70_000);
    assert_eq!(divided.parallel_ns, 35_000);
    let threads: Vec<_> =
        divided.threads.iter().map(|t| (t.thread, t.operators_ns, t.remainder_ns)).collect();
    assert_eq!(threads, [(1, 50_000, 50_000), (2, 55_000, 45_000)]);
}

#[test]
fn a_run_without_its_own_event_spans_its_events() {
    let divided = break_down(&[op("A", 10, 5), op("B", 20, 5)]);
    assert_eq!((divided.run_ns, divided.has_run_event), (15_000, false));
    assert_eq!(divided.split.outside_executor_ns, 5_000);
    assert_eq!(break_down(&[]).run_ns, 0);
}

/// Fences of older versions wait for nothing, loading is not part of a run, device work has another clock.
#[test]
fn ignored_events_are_counted() {
    let events = [
        event(OperatorKind::Session, "session_initialization", 0, 500),
        event(OperatorKind::Other, "kernel", 3, 50),
        event(OperatorKind::Wait, "fence", 3, 0),
        op("A", 2, 5),
        run(0, 10),
    ];
    let divided = break_down(&events);
    assert_eq!(divided.ignored_events, 3);
    assert_eq!(divided.split.operators_ns, 5_000);
}

#[test]
fn a_timeline_has_lanes_and_unattributed_time() {
    let events = [op("A", 10, 20), op("B", 40, 10).on(2), op("C", 12, 5).at(1), run(0, 60)];
    let drawn = timeline(&events);
    assert_eq!((drawn.run_ns, drawn.lanes.len()), (60_000, 3));
    let spans: Vec<_> = drawn.lanes[0].spans.iter().map(|span| (span.start_ns / 1000, span.event)).collect();
    assert_eq!(spans, [(10, Some(0)), (12, Some(2))]);
    let gaps: Vec<_> =
        drawn.lanes[2].spans.iter().map(|span| (span.start_ns / 1000, span.duration_ns / 1000)).collect();
    assert_eq!(gaps, [(0, 10), (30, 10), (50, 10)]);
    assert_eq!(drawn.lanes[2].thread, None);
}

/// Invariants of any run.
fn check(events: &[OperatorEvent]) -> Result<(), TestCaseError> {
    let divided = break_down(events);
    let split = divided.split;
    let parts = split.operators_ns + split.copies_ns + split.waits_ns + split.remainder_ns();
    prop_assert_eq!(parts, divided.run_ns);
    for (event, exclusive_ns) in events.iter().zip(&divided.exclusive_ns) {
        prop_assert!(*exclusive_ns <= event.duration_ns);
    }
    let mut busy = 0;
    for thread in &divided.threads {
        let parts = thread.operators_ns + thread.copies_ns + thread.waits_ns + thread.remainder_ns;
        prop_assert_eq!(parts, divided.run_ns);
        busy += thread.operators_ns + thread.copies_ns + thread.waits_ns;
    }
    prop_assert_eq!(divided.exclusive_ns.iter().sum::<u64>(), busy);
    if divided.threads.len() <= 1 {
        prop_assert_eq!(busy + split.remainder_ns(), divided.run_ns);
        prop_assert_eq!(divided.parallel_ns, 0);
    }
    let drawn = timeline(events);
    let gaps: u64 = drawn.lanes.last().unwrap().spans.iter().map(|span| span.duration_ns).sum();
    if divided.has_run_event {
        prop_assert_eq!(gaps, split.remainder_ns());
    }
    Ok(())
}

/// A tree of operators inside `from..to`, as in a profile: in nanoseconds first, then rounded.
fn tree(from: u64, to: u64, depth: u64, cuts: &[u16], out: &mut Vec<(u64, u64, u64)>) {
    let (mut cursor, mut cuts) = (from, cuts.iter());
    while let (Some(gap), Some(length)) = (cuts.next(), cuts.next()) {
        let start = cursor + u64::from(*gap) % 900;
        let end = start + u64::from(*length) * 3;
        if end >= to {
            return;
        }
        out.push((start, end - start, depth));
        if length % 3 == 0 && depth < 3 {
            tree(start, end, depth + 1, cuts.as_slice(), out);
        }
        cursor = end;
    }
}

proptest! {
    #[test]
    fn trees_add_up(cuts in prop::collection::vec(0u16..4000, 2..60), threads in 1u64..4, rounded: bool) {
        let mut nodes = Vec::new();
        tree(1_500, 90_000, 0, &cuts, &mut nodes);
        let round = |ns: u64| if rounded { ns / 1000 * 1000 } else { ns };
        let mut events = vec![executor(1, 95), run(0, 100)];
        let (mut own, mut children) = (0, 0);
        for (index, (start, length, depth)) in nodes.iter().enumerate() {
            let mut node = op(&format!("Op_{index}"), 0, 0).at(*depth).on(1 + index as u64 % threads);
            (node.start_ns, node.duration_ns) = (round(*start), round(*length));
            own += if *depth == 0 { *length } else { 0 };
            children += *length;
            events.push(node);
        }
        check(&events)?;
        // On one thread and without rounding the tree is reproduced exactly: inner time is in the outer time once.
        if threads == 1 && !rounded {
            prop_assert_eq!(break_down(&events).split.operators_ns, own);
            prop_assert_eq!(break_down(&events).contradictions, 0);
            prop_assert!(children >= own);
        }
    }

    #[test]
    fn anything_adds_up(
        raw in prop::collection::vec((0usize..7, 0u64..3, 0u64..2000, 0u64..900, 0u64..3), 0..60),
        far in prop::option::of((any::<u64>(), any::<u64>())),
    ) {
        let kinds = [OperatorKind::Run, OperatorKind::Executor, OperatorKind::Operator, OperatorKind::Operator, OperatorKind::Copy,
            OperatorKind::Wait, OperatorKind::Other];
        let mut events: Vec<_> = raw.into_iter().map(|(kind, thread, start, length, depth)| {
            let mut event = event(kinds[kind], "Any", 0, 0).on(thread).at(depth);
            (event.start_ns, event.duration_ns) = (start, length);
            event
        }).collect();
        if let Some((start, length)) = far {
            let mut event = op("Far", 0, 0);
            (event.start_ns, event.duration_ns) = (start, length);
            events.push(event);
        }
        check(&events)?;
    }
}
