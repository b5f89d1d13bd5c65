//! Tests on the current system: Windows, or Wine, which supports the same calls and leaves many counters at zero.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

/// A child that waits for a line and exits with a given code.
struct Started(Child);

impl Started {
    fn new() -> Self {
        let script = "set /p LINE= & exit 23";
        let mut command = Command::new("cmd.exe");
        command.args(["/d", "/c", script]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("a child"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn end(&mut self) {
        drop(self.0.stdin.take());
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn eventually(mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "timed out");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn everything() -> GroupSet {
    GroupSet::of(&MetricGroup::ALL)
}

fn watch(backend: &mut SnapshotBackend, slot: usize, pid: u32) -> ProcessFacts {
    let mut facts = ProcessFacts::default();
    backend.look(pid, &mut facts).unwrap();
    backend.watch(slot, &facts).unwrap();
    facts
}

fn burn(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn read(backend: &mut SnapshotBackend, due: GroupSet, row: &mut ProcessSampleRow) {
    backend.begin_tick(1, due, &mut Vec::new());
    backend.cpu(0, row).unwrap();
    backend.memory(0, row).unwrap();
    backend.details(0, row).unwrap();
}

#[test]
fn this_process_is_seen_with_its_parent_and_its_time() {
    let mut backend = SnapshotBackend::new();
    assert!(!matches!(backend.probe(), Availability::Unavailable { .. }));
    let mut pids = Vec::new();
    backend.list(&mut pids).unwrap();
    assert!(pids.contains(&std::process::id()) && !pids.contains(&0), "{pids:?}");
    let facts = watch(&mut backend, 0, std::process::id());
    let name = std::env::current_exe().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(String::from_utf8_lossy(&facts.name), name);
    assert_eq!(facts.start, crate::own_usage().unwrap().identity.start, "both ways give the same identity");
    let age = WallAnchor::now().unix_ns - facts.create_time_unix_ns.unwrap();
    assert!(age < 3_600_000_000_000, "{age}");
    assert!(!facts.kernel_thread);

    let mut row = ProcessSampleRow::default();
    read(&mut backend, everything(), &mut row);
    let before = row.cpu_time_ns;
    eventually(|| {
        burn(Duration::from_millis(20));
        read(&mut backend, everything(), &mut row);
        row.cpu_time_ns > before
    });
    assert!(row.cpu_time_ns >= row.user_time_ns.unwrap() && row.user_time_ns > Some(0), "{row:?}");
    assert!(row.working_set_bytes > 100_000 && row.virtual_bytes > Some(row.working_set_bytes), "{row:?}");
    assert!(row.peak_working_set_bytes >= Some(row.working_set_bytes), "{row:?}");
    assert!(row.thread_count > Some(0) && row.handle_count > Some(0), "{row:?}");
    assert!(row.affinity_mask > Some(0), "{row:?}");
    assert!(backend.own_memory_bytes() > Some(100_000));
    eventually(|| {
        burn(Duration::from_millis(20));
        backend.own_cpu_ns() > Some(0)
    });
}

/// Both ways to read a process agree, and the cheap one is used when nothing else is needed.
#[test]
fn handles_say_the_same_as_snapshots() {
    let mut backend = SnapshotBackend::new();
    watch(&mut backend, 0, std::process::id());
    let mut by_snapshot = ProcessSampleRow::default();
    read(&mut backend, everything(), &mut by_snapshot);
    assert!(!backend.by_handles);
    let few = GroupSet::of(&[MetricGroup::Cpu, MetricGroup::Memory]);
    assert_eq!(backend.can_use_handles(few), backend.snapshot.cost_ns() > HANDLE_NS);
    assert!(!backend.can_use_handles(few.with(MetricGroup::Discovery)));
    backend.by_handles = true;
    let mut by_handle = ProcessSampleRow::default();
    backend.cpu(0, &mut by_handle).unwrap();
    backend.memory(0, &mut by_handle).unwrap();
    assert!(by_handle.cpu_time_ns >= by_snapshot.cpu_time_ns);
    assert!(
        by_handle.cpu_time_ns - by_snapshot.cpu_time_ns < 30_000_000_000,
        "{by_handle:?} {by_snapshot:?}"
    );
    let near = |a: u64, b: u64| a.abs_diff(b) < 64 << 20;
    assert!(near(by_handle.working_set_bytes, by_snapshot.working_set_bytes));
    assert_eq!(by_handle.private_bytes.is_some(), by_snapshot.private_bytes.is_some());
}

#[test]
fn a_child_starts_and_ends_with_its_code() {
    let mut backend = SnapshotBackend::new();
    backend.begin_tick(1, everything(), &mut Vec::new());
    let mut child = Started::new();
    let facts = watch(&mut backend, 0, child.pid());
    assert_eq!(String::from_utf8_lossy(&facts.name).to_lowercase(), "cmd.exe");
    assert_eq!(facts.parent_pid, Some(std::process::id()));
    if let Some(arguments) = backend.command_line(0) {
        let program = arguments[0].to_ascii_lowercase();
        assert!(arguments.len() > 1 && program.ends_with(b"cmd.exe"), "{arguments:?}");
    } else {
        assert!(native::is_wine(), "every Windows since 8.1 provides command lines");
    }
    assert_eq!(backend.exit_code(0), None, "it is running");
    let mut row = ProcessSampleRow::default();
    read(&mut backend, everything(), &mut row);
    assert!(row.working_set_bytes > 0);

    child.end();
    let mut ended = Vec::new();
    eventually(|| {
        backend.begin_tick(2, everything(), &mut ended);
        !ended.is_empty()
    });
    assert_eq!(ended, [0]);
    assert_eq!(backend.cpu(0, &mut row), Err(ReadError::Gone));
    assert_eq!(backend.exit_code(0), Some(23));
    let mut again = ProcessFacts::default();
    assert_eq!(backend.look(child.pid(), &mut again), Err(ReadError::Gone));
    backend.forget(0);
    assert_eq!(backend.exit_code(0), None);
}

/// A process with a reused pid is not the watched one.
#[test]
fn a_number_alone_is_nobody() {
    let mut backend = SnapshotBackend::new();
    let mut facts = ProcessFacts::default();
    backend.look(std::process::id(), &mut facts).unwrap();
    facts.start -= 1;
    assert_eq!(backend.watch(0, &facts), Err(ReadError::Gone));
    assert_eq!(backend.look(0, &mut facts), Err(ReadError::Gone));
    assert_eq!(backend.look(u32::MAX - 3, &mut facts), Err(ReadError::Gone));
}

#[test]
fn threads_are_seen_while_they_live() {
    let mut backend = SnapshotBackend::new();
    watch(&mut backend, 0, std::process::id());
    let (stop, stopped) = std::sync::mpsc::sync_channel::<()>(1);
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("seen-by-test".into());
    let thread = thread.spawn(move || {
        // SAFETY: no pointers are passed.
        sender.send(unsafe { windows_sys::Win32::System::Threading::GetCurrentThreadId() }).unwrap();
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            burn(Duration::from_millis(1));
        }
    });
    let (thread, tid) = (thread.unwrap(), receiver.recv().unwrap());
    let mut row = ProcessSampleRow::default();
    let mut cpu_time_ns = 0;
    eventually(|| {
        backend.begin_tick(1, everything(), &mut Vec::new());
        let result = backend.threads(0, &mut row, &mut |reading| {
            println!("{reading:?}");
            if reading.tid == tid {
                cpu_time_ns = reading.cpu_time_ns;
                assert_eq!(reading.state.is_some(), !native::is_wine());
                assert_eq!(reading.name.map(|name| &**name), Some("seen-by-test"));
            }
        });
        result.unwrap();
        cpu_time_ns > 0
    });
    assert!(row.thread_count > Some(1), "{row:?}");
    assert_eq!(row.active_threads.is_some(), !native::is_wine());
    drop(stop);
    thread.join().unwrap();
    eventually(|| {
        let mut seen = false;
        backend.begin_tick(1, everything(), &mut Vec::new());
        backend.threads(0, &mut row, &mut |reading| seen |= reading.tid == tid).unwrap();
        !seen
    });
}

/// Threads without a name are named by their start address.
#[test]
fn places_in_a_program_have_its_name() {
    let mut facts = ProcessFacts::default();
    SnapshotBackend::new().look(std::process::id(), &mut facts).unwrap();
    let handle = ProcessHandle::open(facts.pid, facts.start).unwrap();
    let here = places_in_a_program_have_its_name as fn();
    let place = handle.place_of(here as usize as u64).unwrap();
    let (file, offset) = place.split_once("+0x").unwrap();
    assert_eq!(file.as_bytes(), facts.name, "{place}");
    assert!(u64::from_str_radix(offset, 16).unwrap() < 1 << 30, "{place}");
    assert_eq!(handle.place_of(8), None);
    let local = 0u64;
    assert_eq!(handle.place_of((&raw const local).addr() as u64), None, "a stack is not part of a program");
}

#[test]
fn the_machine_has_processors_times_and_memory() {
    let mut backend = SnapshotBackend::new();
    let mut row = SystemSampleRow::default();
    let (mut now_ns, mut shares) = (0, Vec::new());
    eventually(|| {
        burn(Duration::from_millis(20));
        now_ns += 1_000_000_000;
        backend.begin_tick(now_ns, GroupSet::of(&[MetricGroup::System]), &mut Vec::new());
        backend.system(&mut row).unwrap();
        backend.processors(&mut |number, ratio| shares.push((number, ratio)));
        row.cpu_percent.is_some() && !shares.is_empty()
    });
    assert!((0.0..=100.0).contains(&row.cpu_percent.unwrap()), "{row:?}");
    assert!(row.memory_used_bytes < row.memory_total_bytes && row.memory_used_bytes > Some(0), "{row:?}");
    assert!(shares.iter().all(|(_, ratio)| (0.0..=1.0).contains(ratio)), "{shares:?}");
    let processors = crate::processors();
    let allowed = std::thread::available_parallelism().unwrap().get();
    assert!(processors.len() >= allowed, "{processors:?}");
    assert!(processors.iter().map(|one| one.number).eq(0..processors.len() as u32), "{processors:?}");
    let mut environment = Vec::new();
    backend.environment(&mut |device, metric, value| environment.push((device, metric, value)));
    println!("{row:?}\n{shares:?}\n{environment:?}\n{:?}", crate::machine_facts());
    assert!(environment.iter().all(|(_, _, value)| value.is_finite() && *value >= 0.0), "{environment:?}");
    let boot = crate::boot_id();
    assert!(boot.is_some() && boot == crate::boot_id());
}

/// Every column of a row has a value, or a reason was reported.
#[test]
fn what_has_no_value_has_a_reason() {
    let mut backend = SnapshotBackend::new();
    watch(&mut backend, 0, std::process::id());
    let mut row = ProcessSampleRow::default();
    read(&mut backend, everything(), &mut row);
    backend.io(0, &mut row).ok();
    backend.network(0, &mut row).ok();
    backend.threads(0, &mut row, &mut |_| {}).unwrap();
    println!("{row:?}");
    let mut reasons: Vec<Missing> = backend.never();
    backend.newly_missing(&mut |missing| reasons.push(missing));
    let tracks: Vec<&str> = reasons.iter().map(|missing| missing.track).collect();
    let columns = [
        ("cpu_cycles", row.cpu_cycles.is_some()),
        ("context_switches", row.context_switches.is_some()),
        ("private_bytes", row.private_bytes.is_some()),
        ("priority", row.priority.is_some()),
        ("virtual_bytes", row.virtual_bytes.is_some()),
        ("page_faults", row.page_faults.is_some()),
        ("hard_faults", row.hard_faults.is_some()),
        ("paged_pool_bytes", row.paged_pool_bytes.is_some()),
        ("non_paged_pool_bytes", row.non_paged_pool_bytes.is_some()),
        ("read_operations", row.read_operations.is_some()),
        ("read_bytes", row.read_bytes.is_some()),
        ("network_received_bytes", row.network_received_bytes.is_some()),
        ("handle_count", row.handle_count.is_some()),
        ("peak_handle_count", row.peak_handle_count.is_some()),
        ("gdi_objects", row.gdi_objects.is_some()),
        ("user_objects", row.user_objects.is_some()),
        ("affinity_mask", row.affinity_mask.is_some()),
        ("active_threads", row.active_threads.is_some()),
        ("suspended_threads", row.suspended_threads.is_some()),
    ];
    for (column, has_value) in columns {
        assert_ne!(has_value, tracks.contains(&column), "{column}: {tracks:?}");
    }
}
