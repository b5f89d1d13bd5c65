//! All threads in one call.

use std::sync::Barrier;
use std::time::Instant;

use ortscope_core::kernel::ThreadState;

use crate::support::snapshot;

#[test]
fn this_process_is_included() {
    let Some(mut snapshot) = snapshot() else { return };
    let mut threads = Vec::new();
    let before_ns = snapshot.take(&mut threads).unwrap();
    let own: Vec<&ThreadState> =
        threads.iter().filter(|state| state.thread.pid == std::process::id()).collect();
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let me = own.iter().find(|state| state.thread.tid == tid).unwrap();
    assert!(me.run_ns > 0 && me.start_ns > 0 && me.start_ns < before_ns, "{me:?}");
    assert!(me.minor_faults + me.major_faults > 0 && !me.is_kernel_thread, "{me:?}");
    assert!(me.parent_pid > 0, "{me:?}");
    // The start time is the one in /proc, whose unit is 10 ms.
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
    let ticks: u64 =
        stat.rsplit(')').next().unwrap().split_ascii_whitespace().nth(19).unwrap().parse().unwrap();
    assert!((me.start_ns / 10_000_000).abs_diff(ticks) <= 1, "{} {ticks}", me.start_ns);

    let mut best = u128::MAX;
    for _ in 0..200 {
        let begin = Instant::now();
        snapshot.take(&mut threads).unwrap();
        best = best.min(begin.elapsed().as_nanos());
    }
    println!("{} threads in {:.1} µs at best", threads.len(), best as f64 / 1000.0);
}

#[test]
fn the_capacity_grows_with_the_number_of_threads() {
    const THREADS: usize = 1500;
    let Some(mut snapshot) = snapshot() else { return };
    let (begin, end) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let builder = std::thread::Builder::new().name(format!("many-{number}")).stack_size(64 << 10);
            let wait = || {
                begin.wait();
                end.wait();
            };
            builder.spawn_scoped(scope, wait).unwrap();
        }
        begin.wait();
        let mut threads = Vec::new();
        snapshot.take(&mut threads).unwrap();
        end.wait();
        let own = threads.iter().filter(|state| state.name.as_bytes().starts_with(b"many-"));
        let own: std::collections::BTreeSet<u32> = own.map(|state| state.thread.tid).collect();
        assert_eq!(own.len(), THREADS);
    });
}
