//! Processes that run for a few milliseconds: every one is observed.

use std::collections::BTreeSet;
use std::process::Command;
use std::thread;

use ortscope_core::kernel::threads::{Limits, Threads};
use ortscope_core::kernel::{EventTally, FaultKind, KernelEvent, MemoryCallKind};
use ortscope_sources::kernel::{BackendChoice, Class, TraceOptions};

use crate::support::{by, drain_while, open};

const PROCESSES: usize = 500;

/// Starts them one after the other and returns their ids.
fn start_all() -> Vec<u32> {
    let one = |number: usize| {
        let mut child = Command::new("/bin/sleep").arg(format!("0.00{}", number % 4 + 1)).spawn().unwrap();
        let pid = child.id();
        assert!(child.wait().unwrap().success());
        pid
    };
    (0..PROCESSES).map(one).collect()
}

fn all_are_seen(options: &TraceOptions, knows_codes: bool) {
    let Some(mut trace) = open(options) else { return };
    let work = thread::Builder::new().name("short-lived".to_owned()).spawn(start_all).unwrap();
    let (events, stats) = drain_while(&mut trace, || work.is_finished());
    let pids: BTreeSet<u32> = work.join().unwrap().into_iter().collect();
    let (mut started, mut named, mut ended) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut tally = EventTally::default();
    for event in &events {
        tally.count(event);
        match event {
            KernelEvent::Start(start) if start.is_process() && start.parent.pid == std::process::id() => {
                started.insert(start.thread.pid);
            }
            KernelEvent::Exec(exec) if !exec.is_rename && exec.name.as_bytes() == b"sleep" => {
                named.insert(exec.thread.pid);
            }
            KernelEvent::Exit(exit)
                if exit.thread.tid == exit.thread.pid && pids.contains(&exit.thread.pid) =>
            {
                assert_eq!(exit.code, knows_codes.then_some(0));
                ended.insert(exit.thread.pid);
            }
            _ => {}
        }
    }
    println!("{:?}: {tally:?} {stats:?}", trace.backend());
    assert_eq!(stats.lost, 0);
    assert!(pids.is_subset(&started), "{} of {PROCESSES} starts", pids.intersection(&started).count());
    assert!(pids.is_subset(&named), "{} of {PROCESSES} names", pids.intersection(&named).count());
    assert_eq!(ended, pids, "{} of {PROCESSES} ends", ended.len());
    assert!(events.is_sorted_by_key(KernelEvent::at_ns) || stats.late > 0, "not in chronological order");

    // Each account was closed and has run time.
    let mut threads = Threads::new(Limits { horizon_ns: u64::MAX, ..Limits::default() });
    events.iter().for_each(|event| threads.apply(event));
    threads.advance(threads.now_ns() + 2_000_000_000);
    let closed = threads.ended_processes().filter(|process| pids.contains(&process.pid));
    let ran: Vec<u64> = closed.map(|process| threads.process_cpu_ns(process, 0, threads.now_ns())).collect();
    assert_eq!(ran.len(), PROCESSES);
    assert!(ran.iter().all(|ran_ns| *ran_ns > 0));
    println!(
        "{} processes ran {} µs on average",
        ran.len(),
        ran.iter().sum::<u64>() / 1000 / ran.len() as u64
    );
}

#[test]
fn five_hundred_short_processes_by_bpf() {
    all_are_seen(&by(BackendChoice::Bpf), true);
}

#[test]
fn five_hundred_short_processes_by_perf_rings() {
    all_are_seen(&by(BackendChoice::PerfRing), false);
}

#[test]
fn every_class_loads_and_reports_events() {
    let options =
        TraceOptions { measure_cost: true, backend: BackendChoice::Bpf, ..TraceOptions::everything() };
    let Some(mut trace) = open(&options) else { return };
    let work = || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("written");
        std::fs::write(&path, vec![1; 4 << 20]).unwrap();
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
        std::hint::black_box(vec![1u8; 8 << 20]);
        assert!(Command::new("/bin/true").status().unwrap().success());
    };
    let work = thread::Builder::new().name("a bit of all".to_owned()).spawn(work).unwrap();
    let (events, stats) = drain_while(&mut trace, || work.is_finished());
    work.join().unwrap();
    let mut tally = EventTally::default();
    events.iter().for_each(|event| tally.count(event));
    println!("{tally:?}\n{stats:?}\nunavailable: {:?}", trace.unavailable());
    for cost in trace.costs() {
        println!("{:20} {:8} runs {:6} ns each", cost.program, cost.runs, cost.total_ns / cost.runs.max(1));
    }
    assert_eq!(stats.unknown, 0);
    let missing = |class: Class| trace.unavailable().iter().any(|unavailable| unavailable.class == class);
    assert!(tally.switches > 0 && tally.starts > 0 && tally.execs > 0 && tally.exits > 0);
    assert!(tally.wakeups > 0 || missing(Class::Wakeups));
    assert!(tally.page_faults > 1000 || missing(Class::PageFaults), "8 MB are 2048 pages");
    let own = std::process::id();
    let mapped = events.iter().any(|event| {
        matches!(event, KernelEvent::MemoryCall(call) if call.thread.pid == own
            && call.kind == MemoryCallKind::Map && call.bytes >= 8 << 20 && call.address > 0)
    });
    assert!(mapped || missing(Class::MemoryCalls), "8 MB come from mmap");
    let faults = events.iter().filter(|event| {
        matches!(event, KernelEvent::PageFault(fault) if fault.thread.pid == own
            && fault.kind == FaultKind::Minor && fault.address > 0)
    });
    assert!(faults.count() > 1000 || missing(Class::PageFaults));
}

#[test]
fn exit_codes_match_those_of_wait() {
    let Some(mut trace) = open(&by(BackendChoice::Bpf)) else { return };
    let shell = |script: &str| {
        let mut child = Command::new("/bin/sh").args(["-c", script]).spawn().unwrap();
        child.wait().unwrap();
        child.id()
    };
    let (three, killed) = (shell("exit 3"), shell("kill -9 $$"));
    let (events, _) = drain_while(&mut trace, || true);
    let code = |pid: u32| {
        events.iter().find_map(|event| match event {
            KernelEvent::Exit(exit) if exit.thread.tid == pid => exit.code,
            _ => None,
        })
    };
    assert_eq!((code(three), code(killed)), (Some(3 << 8), Some(9)));
}

#[test]
fn a_thread_name_change_is_reported() {
    for backend in [BackendChoice::Bpf, BackendChoice::PerfRing] {
        let Some(mut trace) = open(&by(backend)) else { return };
        let thread = thread::Builder::new().name("a name of its own".to_owned()).spawn(|| ()).unwrap();
        thread.join().unwrap();
        let (events, _) = drain_while(&mut trace, || true);
        let own = std::process::id();
        let named = events.iter().any(|event| {
            matches!(event, KernelEvent::Exec(exec)
                if exec.is_rename && exec.thread.pid == own && exec.name.as_bytes() == b"a name of its o")
        });
        assert!(named, "{backend:?}");
    }
}

#[test]
fn a_trace_can_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<ortscope_sources::KernelTrace>();
    is_send::<ortscope_sources::ThreadSnapshot>();
}
