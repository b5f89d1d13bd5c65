use super::*;
use crate::kernel::ThreadName;

const MS: u64 = 1_000_000;

fn task(tid: u32, pid: u32) -> Task {
    Task { tid, pid }
}

fn switch(at_ns: u64, cpu: u32, prev: Task, next: Task, run_ns: Option<u64>) -> Switch {
    let reason = SwitchReason::Sleeping;
    Switch { at_ns, cpu, prev, next, reason, prev_run_ns: run_ns, prev_wait_ns: None, prev_memory_mark: None }
}

fn start(at_ns: u64, thread: Task, parent: Task) -> KernelEvent {
    KernelEvent::Start(Start { at_ns, cpu: 0, thread, parent, start_ns: Some(at_ns), stack_bytes: None })
}

fn exit(at_ns: u64, thread: Task, code: i32) -> KernelEvent {
    let (code, is_last) = (Some(code), Some(true));
    KernelEvent::Exit(Exit { at_ns, cpu: 0, thread, code, is_last, run_ns: None, start_ns: None })
}

fn state(thread: Task, start_ns: u64, run_ns: u64) -> ThreadState {
    ThreadState {
        thread,
        parent_pid: 1,
        start_ns,
        name: ThreadName::from_bytes(b"seeded"),
        state: RunState::Sleeping,
        is_kernel_thread: false,
        cpu: 0,
        run_ns,
        wait_ns: Some(0),
        user_ns: 0,
        system_ns: 0,
        voluntary_switches: 0,
        involuntary_switches: 0,
        minor_faults: 0,
        major_faults: 0,
        io: None,
        priority: 120,
        ended_threads_run_ns: 0,
    }
}

fn apply(threads: &mut Threads, events: &[Switch]) {
    for event in events {
        threads.apply(&KernelEvent::Switch(*event));
    }
}

const A: Task = Task { tid: 11, pid: 10 };
const B: Task = Task { tid: 20, pid: 20 };

#[test]
fn time_between_any_two_moments_is_exact() {
    let mut threads = Threads::new(Limits::default());
    threads.resync(&[state(A, 5, 1000), state(B, 6, 0)], 0);
    apply(
        &mut threads,
        &[
            switch(10 * MS, 0, Task::IDLE, A, None),
            switch(12 * MS + 500_000, 0, A, B, Some(1000 + 2 * MS + 500_000)),
            switch(13 * MS, 0, B, A, Some(500_000)),
            switch(14 * MS, 0, A, Task::IDLE, Some(1000 + 3 * MS + 500_000)),
            switch(20 * MS, 0, Task::IDLE, B, None),
        ],
    );
    let a = threads.current(A.tid).unwrap();
    assert_eq!((a.start_ns, a.run_ns(), a.seen_run_ns()), (Some(5), Some(1000 + 3_500_000), 3_500_000));
    assert_eq!(threads.cpu_ns(a.key, 0, 30 * MS), 3_500_000);
    assert_eq!(threads.cpu_ns(a.key, 11 * MS, 11 * MS + 7), 7);
    assert_eq!(threads.cpu_ns(a.key, 12 * MS, 14 * MS), 1_500_000);
    let mut buckets = [0; 6];
    threads.add_buckets(a.key, 9 * MS, MS, &mut buckets);
    assert_eq!(buckets, [0, 1_000_000, 1_000_000, 500_000, 1_000_000, 0]);
    // B runs up to the newest known time.
    threads.advance(23 * MS);
    let b = threads.process(20).unwrap();
    assert_eq!(threads.process_cpu_ns(b, 13 * MS, 30 * MS), 3 * MS);
    let mut buckets = [0; 5];
    threads.add_process_buckets(b, 19 * MS, MS, &mut buckets);
    assert_eq!(buckets, [0, 1_000_000, 1_000_000, 1_000_000, 0]);
    assert_eq!(threads.counts().chain_breaks, 0);
    assert_eq!(threads.counts().chain_checked, 4);
}

#[test]
fn a_lost_switch_is_corrected_and_counted_once() {
    let mut threads = Threads::new(Limits::default());
    threads.resync(&[state(A, 5, 0), state(B, 6, 0)], 0);
    apply(
        &mut threads,
        &[
            switch(10 * MS, 0, Task::IDLE, A, None),
            // Lost: A to B at 11 ms, B to A at 12 ms, A to idle at 13 ms.
            switch(20 * MS, 0, Task::IDLE, B, None),
            switch(21 * MS, 0, B, A, Some(2 * MS)),
            switch(22 * MS, 0, A, Task::IDLE, Some(3 * MS)),
        ],
    );
    assert_eq!(threads.current(A.tid).unwrap().seen_run_ns(), 3 * MS);
    assert_eq!(threads.current(B.tid).unwrap().seen_run_ns(), 2 * MS);
    assert_eq!(threads.counts().chain_breaks, 1);
    // Between the lost switch away and the next one, A does not count as running.
    assert_eq!(threads.cpu_ns(threads.current(A.tid).unwrap().key, 14 * MS, 19 * MS), 0);
}

#[test]
fn events_without_the_kernels_account_use_timestamps() {
    let mut threads = Threads::new(Limits::default());
    apply(
        &mut threads,
        &[switch(MS, 1, B, A, None), switch(4 * MS, 1, A, B, None), switch(5 * MS, 1, B, Task::IDLE, None)],
    );
    assert_eq!(threads.current(A.tid).unwrap().seen_run_ns(), 3 * MS);
    assert_eq!(threads.current(B.tid).unwrap().seen_run_ns(), MS);
    assert_eq!(threads.counts().unmeasured, 1, "how long B ran before the first event is not known");
}

#[test]
fn processors_out_of_order_keep_their_sums() {
    let mut threads = Threads::new(Limits::default());
    threads.resync(&[state(A, 5, 0)], 0);
    // In truth: processor 0 from 1 to 2 ms, processor 1 from 3 to 5 ms; the second half arrives first.
    apply(
        &mut threads,
        &[
            switch(3 * MS, 1, Task::IDLE, A, None),
            switch(5 * MS, 1, A, Task::IDLE, Some(3 * MS)),
            switch(MS, 0, Task::IDLE, A, None),
            switch(2 * MS, 0, A, Task::IDLE, Some(MS)),
        ],
    );
    let a = threads.current(A.tid).unwrap();
    assert_eq!(a.seen_run_ns(), 3 * MS);
    assert_eq!(a.now, Now::Off { since_ns: 5 * MS, reason: SwitchReason::Sleeping });
    assert_eq!(threads.counts().late, 2);
    assert_eq!(threads.counts().chain_breaks, 0);
}

#[test]
fn waits_for_a_processor() {
    let mut threads = Threads::new(Limits::default());
    threads.resync(&[state(A, 5, 0), state(B, 6, 0)], 0);
    threads.apply(&KernelEvent::Wakeup(Wakeup { at_ns: 100, cpu: 0, thread: A, waker: B }));
    let mut preempted = switch(200, 0, A, B, Some(70));
    preempted.reason = SwitchReason::Preempted;
    apply(&mut threads, &[switch(130, 0, Task::IDLE, A, None), preempted, switch(250, 0, B, A, Some(50))]);
    let a = threads.current(A.tid).unwrap();
    assert_eq!((a.queued_ns, a.queued_count, a.queued_max_ns, a.waited_ns()), (80, 2, 50, 80));
    assert_eq!((a.involuntary_switches, a.wakeups, a.last_waker), (1, 1, Some(B)));
    // The kernel's account has no gaps and is preferred.
    let mut last = switch(300, 0, A, B, Some(120));
    last.prev_wait_ns = Some(95);
    apply(&mut threads, &[last]);
    assert_eq!(threads.current(A.tid).unwrap().waited_ns(), 95);
}

#[test]
fn a_reused_id_is_a_new_thread() {
    let mut threads = Threads::new(Limits::default());
    let parent = task(1, 1);
    threads.apply(&start(MS, B, parent));
    let first = threads.current(B.tid).unwrap().key;
    apply(&mut threads, &[switch(2 * MS, 0, Task::IDLE, B, None)]);
    threads.apply(&exit(3 * MS, B, 256));
    let mut last = switch(3 * MS + 5, 0, B, Task::IDLE, Some(MS + 5));
    last.reason = SwitchReason::Ended;
    apply(&mut threads, &[last]);
    assert!(threads.current(B.tid).is_none() && threads.process(B.pid).is_none());
    let ended = threads.ended_processes().next().unwrap();
    let life = (ended.start_ns, ended.ended_ns, ended.exit_code);
    assert_eq!(life, (Some(MS), Some(3 * MS + 5), Some(256)));
    assert_eq!(threads.process_cpu_ns(ended, 0, 9 * MS), MS + 5);

    threads.apply(&start(400 * MS, B, parent));
    let second = threads.current(B.tid).unwrap();
    assert_ne!(second.key, first);
    assert_eq!((second.seen_run_ns(), second.start_ns), (0, Some(400 * MS)));
    // This one's end is lost, the id comes back a third time.
    threads.apply(&start(500 * MS, B, parent));
    assert_eq!(threads.counts().missed_exits, 1);
    assert_eq!(threads.ended_processes().count(), 2);
    // Beyond the horizon they are forgotten, the living one is not.
    threads.advance(60_000 * MS);
    assert_eq!((threads.threads().count(), threads.ended_processes().count()), (1, 0));
    assert!(threads.get(first).is_none());
}

#[test]
fn names_come_from_parents_and_exec_takes_the_first_threads_place() {
    let mut threads = Threads::new(Limits::default());
    threads.resync(&[state(task(1, 1), 1, 0)], 0);
    let (leader, other) = (task(30, 30), task(31, 30));
    threads.apply(&start(10, leader, task(1, 1)));
    threads.apply(&start(20, other, leader));
    assert_eq!(threads.current(31).unwrap().name.to_string(), "seeded");
    let key = threads.current(31).unwrap().key;
    let name = ThreadName::from_bytes(b"new program");
    let exec = Exec { at_ns: 40, cpu: 0, thread: leader, old_tid: 31, name, is_rename: false };
    threads.apply(&exit(30, leader, 0));
    threads.apply(&KernelEvent::Exec(exec));
    assert_eq!(threads.current(30).unwrap().key, key);
    assert!(threads.current(31).is_none());
    let process = threads.process(30).unwrap();
    assert_eq!((process.live_threads, process.name.to_string().as_str()), (1, "new program"));
}

#[test]
fn a_snapshot_after_losses_closes_missing_threads() {
    let mut threads = Threads::new(Limits::default());
    threads.resync(&[state(A, 5, 100), state(B, 6, 0)], 10);
    apply(&mut threads, &[switch(200, 0, A, Task::IDLE, Some(150))]);
    // B is gone, A's id belongs to another thread since.
    threads.resync(&[state(A, 500 * MS, 7)], 600 * MS);
    assert!(threads.current(B.tid).is_none());
    let a = threads.current(A.tid).unwrap();
    assert_eq!((a.start_ns, a.seen_run_ns(), a.run_ns()), (Some(500 * MS), 0, Some(7)));
    assert_eq!(threads.counts().missed_exits, 2);
    // Once more, with a start in ticks of 10 ms: nothing happens.
    threads.resync(&[state(A, 495 * MS, 9)], 700 * MS);
    assert_eq!(threads.counts().missed_exits, 2);
    assert_eq!(threads.current(A.tid).unwrap().run_ns(), Some(7));
}

#[test]
fn an_exiting_thread_without_a_last_switch_is_closed() {
    let mut threads = Threads::new(Limits::default());
    threads.apply(&start(MS, B, task(1, 1)));
    threads.apply(&exit(2 * MS, B, 0));
    threads.advance(500 * MS);
    assert!(threads.current(B.tid).is_some());
    threads.advance(1500 * MS);
    assert!(threads.current(B.tid).is_none());
    assert_eq!(threads.ended_processes().count(), 1);
}

#[test]
fn ten_thousand_threads_stay_within_the_limits() {
    let limits = Limits { slices: 50_000, slices_per_thread: 64, threads: 10_000, ..Limits::default() };
    let mut threads = Threads::new(limits);
    let mut run_ns = vec![0u64; 10_001];
    let mut at_ns = 0;
    for round in 0..20u64 {
        for tid in 1..=10_000u32 {
            let thread = task(tid, tid / 100 + 1);
            if round == 0 {
                threads.apply(&start(at_ns, thread, task(1, 1)));
            }
            at_ns += 1000;
            run_ns[tid as usize] += 800;
            let enter = switch(at_ns, 0, Task::IDLE, thread, None);
            apply(
                &mut threads,
                &[enter, switch(at_ns + 800, 0, thread, Task::IDLE, Some(run_ns[tid as usize]))],
            );
        }
    }
    assert_eq!(threads.threads().count(), 10_000);
    assert!(threads.slice_count() <= 50_000, "{}", threads.slice_count());
    assert!(threads.threads().all(|thread| thread.seen_run_ns() == 16_000));
    assert!(threads.counts().dropped_slices > 0);
    assert_eq!(threads.counts().chain_breaks, 0);
    // One more is ignored and counted.
    threads.apply(&start(at_ns, task(70_000, 70_000), task(1, 1)));
    assert!(threads.current(70_000).is_none());
    assert_eq!(threads.counts().untracked, 1);
    let kept: usize = threads.threads().map(|thread| thread.slices.len()).sum();
    assert_eq!(kept, threads.slice_count());
}

#[test]
fn rapid_slices_of_one_thread_are_joined_to_milliseconds() {
    let mut threads = Threads::new(Limits::default());
    threads.apply(&start(1, A, task(1, 1)));
    for number in 1..=200_000u64 {
        let (begin_ns, end_ns) = (number * 4000, number * 4000 + 3000);
        apply(&mut threads, &[switch(begin_ns, 0, B, A, None), switch(end_ns, 0, A, B, Some(number * 3000))]);
    }
    let a = threads.current(A.tid).unwrap();
    assert_eq!(a.seen_run_ns(), 600_000_000);
    assert!(a.slices.len() <= 4096 + 1);
    let mut buckets = vec![0u32; 500];
    threads.add_buckets(a.key, 100 * MS, MS, &mut buckets);
    assert!(buckets.iter().all(|ran_ns| *ran_ns == 750_000), "{:?}", &buckets[..10]);
    assert_eq!(threads.counts().dropped_slices, 0);
}
