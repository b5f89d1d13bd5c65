use super::*;

const MS: u64 = 1_000_000;

fn task(tid: u32, pid: u32) -> Task {
    Task { tid, pid }
}

fn switch(at_ns: u64, cpu: u32, prev: Task, next: Task, run_ns: Option<u64>) -> KernelEvent {
    KernelEvent::Switch(Switch {
        at_ns,
        cpu,
        prev,
        next,
        reason: SwitchReason::Sleeping,
        prev_run_ns: run_ns,
        prev_wait_ns: None,
        prev_memory_mark: None,
    })
}

fn ended(at_ns: u64, prev: Task, run_ns: u64) -> KernelEvent {
    let KernelEvent::Switch(event) = switch(at_ns, 0, prev, Task::IDLE, Some(run_ns)) else { unreachable!() };
    KernelEvent::Switch(Switch { reason: SwitchReason::Ended, ..event })
}

fn reported(usage: &mut Usage, to_ns: u64) -> Vec<(u32, u64, u64)> {
    let mut windows = Vec::new();
    usage.settle(to_ns, &mut |window| windows.push((window.thread.tid, window.from_ns / MS, window.used_ns)));
    assert!(windows.is_sorted_by_key(|(_, from, _)| *from), "{windows:?}");
    windows.sort_unstable();
    windows
}

#[test]
fn a_slice_is_cut_at_the_borders_of_windows() {
    let mut usage = Usage::new(10 * MS, 0);
    let (one, two) = (task(7, 7), task(8, 7));
    usage.apply(&switch(5 * MS, 0, Task::IDLE, one, Some(0)));
    usage.apply(&switch(5 * MS, 1, Task::IDLE, two, Some(0)));
    usage.apply(&switch(28 * MS, 0, one, Task::IDLE, Some(23 * MS)));
    usage.apply(&switch(12 * MS, 1, two, Task::IDLE, Some(7 * MS)));
    let expected = [(7, 0, 5 * MS), (7, 10, 10 * MS), (7, 20, 8 * MS), (8, 0, 5 * MS), (8, 10, 2 * MS)];
    assert_eq!(reported(&mut usage, 30 * MS), expected);
    assert_eq!(reported(&mut usage, 90 * MS), []);
}

#[test]
fn a_thread_that_keeps_running_is_reported_once() {
    let mut usage = Usage::new(10 * MS, 0);
    let busy = task(7, 7);
    usage.apply(&switch(2 * MS, 0, Task::IDLE, busy, Some(0)));
    assert_eq!(reported(&mut usage, 25 * MS), [(7, 0, 8 * MS), (7, 10, 10 * MS)]);
    assert_eq!(reported(&mut usage, 40 * MS), [(7, 20, 10 * MS), (7, 30, 10 * MS)]);
    // The first switch has no account to compare with, so the clock decides: 43 ms, of which 38 were reported.
    usage.apply(&switch(45 * MS, 0, busy, Task::IDLE, Some(1000 * MS)));
    assert_eq!(reported(&mut usage, 60 * MS), [(7, 40, 5 * MS)]);
    // A switch to it was lost. The account shows 3 ms up to the switch away.
    usage.apply(&switch(72 * MS, 0, busy, Task::IDLE, Some(1003 * MS)));
    assert_eq!(reported(&mut usage, 80 * MS), [(7, 60, MS), (7, 70, 2 * MS)]);
    assert_eq!(usage.counts().chain_breaks, 1);
}

#[test]
fn late_usage_is_reported_completely() {
    let mut usage = Usage::new(10 * MS, 0);
    let late = task(7, 7);
    usage.begin(&[]);
    usage.apply(&switch(MS, 0, late, Task::IDLE, Some(0)));
    assert_eq!(reported(&mut usage, 50 * MS), []);
    usage.apply(&switch(20 * MS, 0, late, Task::IDLE, Some(4 * MS)));
    assert_eq!(reported(&mut usage, 60 * MS), [(7, 50, 4 * MS)]);
}

/// The trace begins before the snapshot: what ran in between is in both.
#[test]
fn events_older_than_the_snapshot_are_not_counted_twice() {
    let mut usage = Usage::new(MS, 0);
    let mut state = ThreadState {
        thread: task(7, 7),
        parent_pid: 1,
        start_ns: 5,
        name: Default::default(),
        state: crate::kernel::RunState::Running,
        is_kernel_thread: false,
        cpu: 0,
        run_ns: 130 * MS,
        wait_ns: None,
        user_ns: 0,
        system_ns: 0,
        voluntary_switches: 0,
        involuntary_switches: 0,
        minor_faults: 0,
        major_faults: 0,
        io: None,
        priority: 120,
        ended_threads_run_ns: 0,
    };
    // The idle loop comes first in every snapshot.
    usage.begin(&[ThreadState { thread: Task::IDLE, ..state }, state]);
    state.run_ns = 0;
    usage.begin(&[state]);
    usage.apply(&switch(20 * MS, 0, task(7, 7), Task::IDLE, Some(100 * MS)));
    usage.apply(&switch(30 * MS, 0, task(7, 7), Task::IDLE, Some(130 * MS)));
    usage.apply(&switch(40 * MS, 0, task(7, 7), Task::IDLE, Some(131 * MS)));
    assert_eq!(reported(&mut usage, 50 * MS), [(7, 39, MS)]);
}

#[test]
fn a_reused_id_is_a_new_process() {
    let mut usage = Usage::new(10 * MS, 0);
    let start = |at_ns| {
        KernelEvent::Start(Start {
            at_ns,
            cpu: 0,
            thread: task(7, 7),
            parent: task(1, 1),
            start_ns: Some(at_ns),
            stack_bytes: None,
        })
    };
    let mut starts = Vec::new();
    usage.apply(&start(MS));
    usage.apply(&switch(2 * MS, 0, Task::IDLE, task(7, 7), None));
    usage.apply(&ended(4 * MS, task(7, 7), 2 * MS));
    usage.apply(&start(5 * MS));
    usage.apply(&switch(6 * MS, 0, Task::IDLE, task(7, 7), None));
    usage.apply(&ended(9 * MS, task(7, 7), 3 * MS));
    usage.settle(20 * MS, &mut |window| starts.push((window.process_start_ns, window.used_ns)));
    assert_eq!(starts, [(Some(MS), 2 * MS), (Some(5 * MS), 3 * MS)]);
    assert!(usage.threads.is_empty() && usage.by_pid.is_empty());
    assert_eq!(usage.free.len(), usage.processes.len());
}

#[test]
fn memory_is_reread_only_after_possible_changes() {
    let mut usage = Usage::new(10 * MS, 0);
    let leaves = |at_ns: u64, pid: u32, mark: Option<u64>| {
        let KernelEvent::Switch(event) = switch(at_ns, 0, task(pid, pid), Task::IDLE, Some(0)) else {
            unreachable!()
        };
        KernelEvent::Switch(Switch { prev_memory_mark: mark, ..event })
    };
    let stale = |usage: &mut Usage| {
        let mut pids = Vec::new();
        usage.take_memory_stale(|pid| pids.push(pid));
        pids
    };
    usage.apply(&leaves(1, 7, Some(100)));
    usage.apply(&leaves(2, 8, None));
    usage.apply(&leaves(3, 7, Some(100)));
    assert_eq!(stale(&mut usage), [7, 8]);
    usage.apply(&leaves(4, 7, Some(100)));
    usage.apply(&leaves(5, 8, None));
    assert_eq!(stale(&mut usage), [8]);
    usage.apply(&leaves(6, 7, Some(101)));
    assert_eq!(stale(&mut usage), [7]);
    assert_eq!(stale(&mut usage), [] as [u32; 0]);
}
