//! Tests with real processes that are started here and stopped by their ids.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;
use crate::sampler::MetricGroup;

/// A child that is stopped with the test in any case.
struct Started(Child);

impl Started {
    fn shell(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(command.spawn().expect("sh"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits for its first line, which shows that it has started.
    fn wait_for_line(&mut self) {
        use std::io::{BufRead as _, BufReader};
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().expect("stdout")).read_line(&mut line).expect("a line");
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn facts_of(backend: &mut ProcBackend, pid: u32) -> Result<ProcessFacts, ReadError> {
    let mut facts = ProcessFacts::default();
    backend.look(pid, &mut facts).map(|()| facts)
}

fn watched(backend: &mut ProcBackend, pid: u32) -> ProcessSampleRow {
    let facts = facts_of(backend, pid).unwrap();
    backend.watch(0, &facts).unwrap();
    ProcessSampleRow { pid: u64::from(pid), process_start: facts.start, ..ProcessSampleRow::default() }
}

fn begin(backend: &mut ProcBackend) -> Vec<usize> {
    let mut ended = Vec::new();
    backend.begin_tick(ortscope_core::clock::now_ns(), GroupSet::of(&MetricGroup::ALL), &mut ended);
    ended
}

/// Polls until a condition holds; a minute is longer than any machine needs.
fn eventually(mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "timed out");
        std::thread::sleep(Duration::from_millis(2));
    }
}

const BOTH_BUDGETS: [usize; 2] = [100, 0];

/// Not a test: the child of the next one. It works, prints its own CPU time, waits, and prints it again.
#[test]
#[ignore = "it is started by another test"]
fn child_that_works() {
    let print = || println!("\ncpu {}", crate::own_usage().unwrap().cpu_time_ns);
    let begin = crate::own_usage().unwrap().cpu_time_ns;
    while crate::own_usage().unwrap().cpu_time_ns < begin + 50_000_000 {}
    print();
    std::io::stdin().read_line(&mut String::new()).unwrap();
    print();
}

/// Read while the child waits, its time is between its own values before and after, to the nanosecond.
#[test]
fn the_cpu_time_of_a_child_matches_its_own_reading() {
    use std::io::{BufRead as _, BufReader};
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "--nocapture", "sys::proc::tests::child_that_works"]);
    let mut child = Started(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut read_line = || -> u64 {
        lines.find_map(|line| line.unwrap().strip_prefix("cpu ").map(|nanos| nanos.parse().unwrap())).unwrap()
    };
    let before = read_line();
    let mut backend = ProcBackend::new();
    let mut row = watched(&mut backend, child.pid());
    wait_until_it_sleeps(&mut backend, &mut row);
    let seen = row.cpu_time_ns;
    drop(child.0.stdin.take());
    let after = read_line();
    assert!(before <= seen && seen <= after, "{before} {seen} {after}");
}

/// Waits until its clock stops and its first thread sleeps.
fn wait_until_it_sleeps(backend: &mut ProcBackend, row: &mut ProcessSampleRow) {
    eventually(|| {
        begin(backend);
        let before = row.cpu_time_ns;
        backend.cpu(0, row).unwrap();
        let stat = std::fs::read(format!("/proc/{}/stat", row.pid)).unwrap();
        before == row.cpu_time_ns && procfs::parse_stat(&stat).unwrap().state == 'S'
    });
}

#[test]
fn clock_and_ticks_of_a_busy_child_agree() {
    let script = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo; read x";
    for budget in BOTH_BUDGETS {
        let mut child = Started::shell(script);
        let mut backend = ProcBackend::with_budget(Budget::of(budget));
        let mut row = watched(&mut backend, child.pid());
        child.wait_for_line();
        wait_until_it_sleeps(&mut backend, &mut row);
        backend.memory(0, &mut row).unwrap();
        let from_ticks = row.user_time_ns.unwrap() + row.kernel_time_ns.unwrap();
        // stat rounds the same total down to whole ticks, for each of its two parts.
        assert!(from_ticks <= row.cpu_time_ns, "{row:?}");
        assert!(row.cpu_time_ns - from_ticks < 2 * backend.units.nanos_per_tick, "{row:?}");
        assert!(row.cpu_time_ns > 0 && row.working_set_bytes > 0 && row.page_faults > Some(0), "{row:?}");
        assert_eq!(row.thread_count, Some(1));
    }
}

#[test]
fn an_exit_is_noticed_at_once_and_its_code_after_reaping() {
    for budget in BOTH_BUDGETS {
        let mut child = Started::shell("read x; exit 7");
        let mut backend = ProcBackend::with_budget(Budget::of(budget));
        let mut row = watched(&mut backend, child.pid());
        assert!(begin(&mut backend).is_empty());
        backend.io(0, &mut row).unwrap();
        drop(child.0.stdin.take());
        // A zombie is not running: with descriptors it is reported, without them reads fail.
        eventually(|| {
            let ended = begin(&mut backend);
            row.cpu_time_ns = 0;
            ended == [0] || backend.memory(0, &mut row) == Err(ReadError::Gone)
        });
        assert_eq!(backend.exit_code(0), Some(7), "it is our zombie: its stat has the code");
        assert_eq!(facts_of(&mut backend, child.pid()), Err(ReadError::Gone));
        child.0.wait().unwrap();
        let collected = backend.exit_code(0);
        if budget == 0 {
            assert_eq!(collected, None);
        } else if collected.is_some() {
            // Linux 6.15 and newer keep it for holders of a descriptor.
            assert_eq!(collected, Some(7));
        }
        // A different time than before, so that the read is not skipped.
        row.cpu_time_ns = u64::MAX;
        assert_eq!(backend.memory(0, &mut row), Err(ReadError::Gone));
        backend.forget(0);
        assert_eq!(backend.cpu(0, &mut row), Err(ReadError::Gone));
    }
}

#[test]
fn a_signal_gives_128_plus_its_number() {
    let mut child = Started::shell("read x");
    let mut backend = ProcBackend::new();
    let mut row = watched(&mut backend, child.pid());
    backend.io(0, &mut row).unwrap();
    child.0.kill().unwrap();
    eventually(|| begin(&mut backend) == [0]);
    assert_eq!(backend.exit_code(0), Some(128 + 9));
}

#[test]
fn a_replaced_process_is_rejected() {
    let child = Started::shell("read x");
    let mut backend = ProcBackend::new();
    let facts = facts_of(&mut backend, child.pid()).unwrap();
    let older = ProcessFacts { start: facts.start - 1, ..facts };
    assert_eq!(backend.watch(0, &older), Err(ReadError::Gone));
    assert_eq!(facts_of(&mut backend, u32::MAX), Err(ReadError::Gone));
}

#[test]
fn io_handles_and_details_of_a_child_are_read() {
    for budget in BOTH_BUDGETS {
        let mut child =
            Started::shell("exec 7</dev/null 8</dev/null; head -c 100000 /dev/zero | wc -c; read x");
        let mut backend = ProcBackend::with_budget(Budget::of(budget));
        child.wait_for_line();
        let mut row = watched(&mut backend, child.pid());
        begin(&mut backend);
        backend.cpu(0, &mut row).unwrap();
        backend.memory(0, &mut row).unwrap();
        backend.io(0, &mut row).unwrap();
        backend.details(0, &mut row).unwrap();
        assert!(row.read_operations > Some(0) && row.read_bytes > Some(0), "{row:?}");
        assert!(row.handle_count >= Some(5), "{row:?}");
        assert!(row.peak_working_set_bytes >= Some(row.working_set_bytes), "{row:?}");
        assert!(row.context_switches > Some(0) && row.affinity_mask.is_some(), "{row:?}");
        let line = backend.command_line(0).unwrap();
        assert_eq!(line[..2], [b"sh".to_vec(), b"-c".to_vec()]);
    }
}

#[test]
fn threads_of_this_process_start_and_exit() {
    use std::sync::mpsc::sync_channel;
    let (ready, is_ready) = sync_channel::<u32>(3);
    let mut stops = Vec::new();
    for _ in 0..3 {
        let (stop, stopped) = sync_channel::<()>(1);
        let ready = ready.clone();
        let body = move || {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            ready.send(tid).unwrap();
            stopped.recv().ok();
        };
        let name = "odd) name\u{fc}".to_owned();
        stops.push((stop, std::thread::Builder::new().name(name).spawn(body).unwrap()));
    }
    let tids: BTreeSet<u32> = (0..3).map(|_| is_ready.recv().unwrap()).collect();
    for budget in BOTH_BUDGETS {
        let mut backend = ProcBackend::with_budget(Budget::of(budget));
        let mut row = watched(&mut backend, std::process::id());
        let mut seen = BTreeSet::new();
        begin(&mut backend);
        backend
            .threads(0, &mut row, &mut |thread| {
                if tids.contains(&thread.tid) {
                    assert_eq!(&**thread.name.unwrap(), "odd) name\u{fc}");
                    assert!(thread.processor.is_some() && thread.priority.is_some());
                    assert!(thread.context_switches > Some(0));
                }
                seen.insert(thread.tid);
            })
            .unwrap();
        assert!(seen.is_superset(&tids), "{seen:?} {tids:?}");
        assert!(row.context_switches > Some(0) && row.suspended_threads == Some(0), "{row:?}");
    }
    let mut backend = ProcBackend::new();
    let mut row = watched(&mut backend, std::process::id());
    begin(&mut backend);
    backend.threads(0, &mut row, &mut |_| {}).unwrap();
    let before = row.context_switches;
    for (stop, thread) in stops {
        drop(stop);
        thread.join().unwrap();
    }
    eventually(|| {
        let mut left = 0;
        begin(&mut backend);
        backend.threads(0, &mut row, &mut |thread| left += usize::from(tids.contains(&thread.tid))).unwrap();
        left == 0
    });
    assert!(row.context_switches >= before, "switches of exited threads are kept");
}

#[test]
fn unusual_names_are_preserved() {
    // A name that the kernel cuts to 15 bytes, with everything that could confuse a parser of stat.
    let directory = tempfile::tempdir().unwrap();
    let name: &[u8] = b"a) R 1\n(\xff b";
    let path = directory.path().join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name));
    std::fs::copy("/bin/sleep", &path).unwrap();
    let child = Started(Command::new(&path).arg("600").spawn().unwrap());
    let mut backend = ProcBackend::new();
    // Between fork and exec it still has the name of the test.
    eventually(|| facts_of(&mut backend, child.pid()).unwrap().name == name);
    let facts = facts_of(&mut backend, child.pid()).unwrap();
    assert_eq!(facts.parent_pid, Some(std::process::id()));
    assert!(!facts.kernel_thread);
    backend.watch(0, &facts).unwrap();
    assert_eq!(backend.renamed(0, name), None);
    assert_eq!(backend.renamed(0, b"before"), Some(name.to_vec()));
}

#[test]
fn machine_metrics_are_read_or_have_a_reason() {
    let mut backend = ProcBackend::new();
    let mut row = SystemSampleRow::default();
    eventually(|| {
        begin(&mut backend);
        backend.system(&mut row).unwrap();
        row.cpu_percent.is_some()
    });
    assert!((0.0..=100.0).contains(&row.cpu_percent.unwrap()), "{row:?}");
    assert!(row.memory_used_bytes < row.memory_total_bytes && row.context_switches > Some(0), "{row:?}");
    let mut metrics = Vec::new();
    backend.environment(&mut |device, metric, value| {
        assert!(value.is_finite() && value >= 0.0, "{device} {metric} {value}");
        metrics.push(metric);
    });
    assert!(metrics.contains(&"load_1min_threads"), "{metrics:?}");
    let mut missing = Vec::new();
    backend.newly_missing(&mut |row| missing.push(row.track));
    assert_eq!(row.cpu_frequency_hertz.is_none(), missing.contains(&"cpu_frequency_hertz"));
    assert!(backend.own_cpu_ns() > Some(0) && backend.own_memory_bytes() > Some(100_000));
}

#[test]
fn descriptors_are_returned() {
    let child = Started::shell("read x");
    let budget = Budget::of(100);
    let mut backend = ProcBackend::with_budget(budget.clone());
    for _ in 0..3 {
        let mut row = watched(&mut backend, child.pid());
        backend.threads(0, &mut row, &mut |_| {}).unwrap();
        assert!(budget.left() < 100);
        backend.forget(0);
        assert_eq!(budget.left(), 100);
    }
}

/// Without a hardware counter the reason is reported; the same code is tested with a software counter.
#[test]
fn cycles_are_counted_or_have_a_reason() {
    let mut backend = ProcBackend::new();
    backend.count_cycles();
    assert!(backend.never().iter().all(|missing| missing.track != "cpu_cycles"));
    let mut facts = ProcessFacts::default();
    backend.look(std::process::id(), &mut facts).unwrap();
    backend.watch(0, &facts).unwrap();
    let mut row = ProcessSampleRow::default();
    backend.cpu(0, &mut row).unwrap();
    let mut reasons = Vec::new();
    backend.newly_missing(&mut |missing| reasons.push(missing));
    assert!(
        row.cpu_cycles.is_some() || reasons.iter().any(|missing| missing.track == "cpu_cycles"),
        "{reasons:?}"
    );

    let stand_in = backend.slots[0].as_mut().unwrap().count_cycles(Counter::TaskClock, &mut Vec::new());
    if stand_in.as_ref().is_some_and(|missing| missing.track == "cpu_cycles") {
        println!("skipped: counters may not be opened here: {stand_in:?}");
        return;
    }
    let before = row.cpu_time_ns;
    let burn = || {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(30) {
            std::hint::spin_loop();
        }
    };
    burn();
    // Threads that start later are counted too.
    std::thread::scope(|scope| {
        scope.spawn(burn);
    });
    backend.cpu(0, &mut row).unwrap();
    let (counted, used) = (row.cpu_cycles.unwrap(), row.cpu_time_ns - before);
    assert!(counted > 0 && counted <= used + 20_000_000, "{counted} of {used}");
    assert!(counted * 2 > used, "{counted} of {used}");
}
