//! Two processors and three threads, with all times known.

use ortscope_core::kernel::{SwitchReason, Task};
use ortscope_etl::Hook;
use ortscope_etl::writer::CounterBytes;
use ortscope_etl::writer::kernel::{ContextSwitch, Moment, Process, SampledProfile, StackWalk, Thread};

use super::*;

const WAITING: i8 = 5;
const READY: i8 = 1;
const ENDED: i8 = 4;
const USER_REQUEST: i8 = 6;
const DELAY: i8 = 4;
const PAGE_IN: i8 = 9;

fn switch(old: u32, new: u32, state: i8, reason: i8) -> ContextSwitch {
    ContextSwitch {
        old_thread: old,
        new_thread: new,
        old_state: state,
        old_wait_reason: reason,
        ..ContextSwitch::default()
    }
}

fn thread(tid: u32, name: &str) -> Thread<'_> {
    Thread { process_id: 100, thread_id: tid, start_address: 0x7ff0, base_priority: 8, name }
}

fn written() -> Vec<u8> {
    let mut trace = trace();
    let process = Process {
        key: 1,
        process_id: 100,
        parent_id: 4,
        session_id: 1,
        exit_status: 259,
        image_name: "serve.exe",
        command_line: "serve.exe --model m.onnx",
    };
    let at = Place::at;
    let logger = |ticks| at(0, ticks).in_thread(4, 8);
    put(&mut trace, &logger(1_001), &process.payload(Moment::RundownStart));
    put(&mut trace, &logger(1_002), &thread(101, "main").payload(Moment::RundownStart));
    put(&mut trace, &logger(1_003), &thread(102, "").payload(Moment::RundownStart));
    for (ticks, event) in [
        (2_000, switch(0, 101, 2, 0)),
        (5_000, switch(101, 0, WAITING, USER_REQUEST)),
        (9_000, switch(0, 101, 2, 0)),
        (10_000, switch(101, 0, WAITING, DELAY)),
        (20_000, switch(0, 101, 2, 0)),
        (21_000, switch(101, 0, WAITING, DELAY)),
    ] {
        put(&mut trace, &at(0, ticks), &event.payload());
    }
    let counted = |trace: &mut Trace, ticks: u64, event: &ContextSwitch, counters: &[u64]| {
        let payload = event.payload();
        let counters = CounterBytes { pebs_index: None, counters };
        let place = at(1, ticks);
        trace.kernel_with_counters(&place, payload.hook, payload.version, &counters, &payload.bytes).unwrap();
    };
    let names: Vec<u8> = "Cycles\0Misses\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let config: Vec<u8> = 2_u32.to_le_bytes().into_iter().chain(names).collect();
    trace.kernel(&at(1, 1_500), Hook(0x0f30), 2, &config).unwrap();
    counted(&mut trace, 3_000, &switch(0, 102, 2, 0), &[10, 100]);
    put(&mut trace, &at(1, 6_000).in_thread(100, 102), &thread(103, "late").payload(Moment::Start));
    let ready: Vec<u8> = 101_u32.to_le_bytes().into_iter().chain([1, 0, 0, 0]).collect();
    trace.kernel(&at(1, 8_000), Hook(0x0532), 2, &ready).unwrap();
    let sample = SampledProfile { instruction_pointer: 0xffff_8000_0000_0010, thread_id: 102, count: 1 };
    put(&mut trace, &at(1, 11_000), &sample.payload());
    let frames = [0xffff_8000_0000_0010, 0xffff_8000_0000_0020, 0x7ff6_0000_1000, 0x7ff6_0000_2000];
    let stack = StackWalk { event_ticks: 11_000, process_id: 100, thread_id: 102, addresses: &frames };
    put(&mut trace, &at(1, 11_010), &stack.payload());
    counted(&mut trace, 12_000, &switch(102, 103, READY, 0), &[30, 150]);
    let stack = StackWalk { event_ticks: 12_000, process_id: 100, thread_id: 102, addresses: &frames[2..] };
    put(&mut trace, &at(1, 12_010), &stack.payload());
    put(&mut trace, &at(1, 14_500).in_thread(100, 103), &thread(103, "late").payload(Moment::End));
    counted(&mut trace, 15_000, &switch(103, 102, ENDED, 22), &[35, 160]);
    counted(&mut trace, 18_000, &switch(102, 0, WAITING, PAGE_IN), &[50, 200]);
    bytes(trace)
}

fn run() -> (EtwDecoder, Kept) {
    let file = written();
    let mut kept = Kept::default();
    let (decoder, walk) = decode(&Etl::new(file.as_slice()).unwrap(), 1, &mut kept);
    assert_eq!(decoder.coverage().total(), walk.records);
    (decoder, kept)
}

fn life(kept: &Kept, tid: u32) -> &ThreadLife {
    kept.threads.iter().find(|life| life.thread.tid == tid).unwrap()
}

#[test]
fn cpu_time_is_exact_for_each_thread() {
    let (decoder, kept) = run();
    let run_ticks = |tid| life(&kept, tid).account.run_ns / TICK_NS;
    assert_eq!([101, 102, 103].map(run_ticks), [5_000, 12_000, 3_000]);
    assert_eq!(kept.processes.len(), 1);
    assert_eq!(kept.processes[0].totals.run_ns, 20_000 * TICK_NS);
    assert_eq!(kept.processes[0].totals.threads, 3);
    // The same from the accounts, for a part of the time.
    let main = decoder.threads().current(101).unwrap().key;
    assert_eq!(decoder.threads().cpu_ns(main, 4_000 * TICK_NS, 9_500 * TICK_NS), 1_500 * TICK_NS);
    assert_eq!(decoder.threads().counts().chain_breaks, 0);
}

#[test]
fn cpu_time_is_exact_for_each_core() {
    let (decoder, _) = run();
    let cores: Vec<_> = decoder
        .cores()
        .iter()
        .map(|core| {
            [core.busy_ns, core.idle_ns, core.unknown_ns, core.last_ns - core.first_ns].map(|ns| ns / TICK_NS)
        })
        .collect();
    assert_eq!(cores, [[5_000, 14_000, 0, 19_000], [15_000, 0, 0, 15_000]]);
}

#[test]
fn ready_and_wait_times_have_their_reasons() {
    let (_, kept) = run();
    assert_eq!([101, 102, 103].map(|tid| life(&kept, tid).account.ready_ns / TICK_NS), [1_000, 3_000, 6_000]);
    let waits: Vec<_> = life(&kept, 101)
        .account
        .waits
        .iter()
        .map(|wait| (wait.reason.name(), wait.total_ns / TICK_NS, wait.count, wait.with_ready_time))
        .collect();
    assert_eq!(waits, [("DelayExecution", 10_000, 1, 1), ("UserRequest", 3_000, 1, 0)]);
    assert_eq!(life(&kept, 102).account.preemptions, 1);
    let reasons: Vec<SwitchReason> = kept
        .kernel
        .iter()
        .filter_map(|event| match event {
            KernelEvent::Switch(switch) if !switch.prev.is_idle() => Some(switch.reason),
            _ => None,
        })
        .collect();
    use SwitchReason::{Blocked, Ended, Preempted, Sleeping};
    assert_eq!(reasons, [Sleeping, Sleeping, Preempted, Ended, Blocked, Sleeping]);
    let wakeup = kept.kernel.iter().find_map(|event| match event {
        KernelEvent::Wakeup(wakeup) => Some((wakeup.thread.tid, wakeup.waker)),
        _ => None,
    });
    assert_eq!(wakeup, Some((101, Task { tid: 102, pid: 100 })));
}

#[test]
fn counters_go_to_the_thread_that_ran() {
    let (decoder, kept) = run();
    assert_eq!(decoder.counter_names(), ["Cycles", "Misses"]);
    assert_eq!(life(&kept, 102).account.counters[..2], [35, 90]);
    assert_eq!(life(&kept, 103).account.counters[..2], [5, 10]);
    assert_eq!(life(&kept, 101).account.counters, [0; 7]);
}

#[test]
fn samples_and_switches_have_their_stacks() {
    let (decoder, kept) = run();
    let [sample] = kept.samples.as_slice() else { panic!("{:?}", kept.samples) };
    assert_eq!(sample.cpu.thread, Task { tid: 102, pid: 100 });
    assert_eq!(sample.cpu.at_ns, 11_000 * TICK_NS);
    assert_eq!(
        (sample.cpu.kernel.len(), sample.cpu.user.as_slice()),
        (2, &[0x7ff6_0000_1000, 0x7ff6_0000_2000][..])
    );
    let [stack] = kept.stacks.as_slice() else { panic!("{:?}", kept.stacks) };
    assert_eq!((stack.at_ns, stack.hook, stack.user.len()), (12_000 * TICK_NS, Some(0x0524), 2));
    assert_eq!(decoder.counts().samples.with_stack, 1);
}

#[test]
fn processes_have_names_and_ends() {
    let (decoder, kept) = run();
    let process = &kept.processes[0];
    assert_eq!((process.pid, process.parent_pid, process.image_name.as_str()), (100, 4, "serve.exe"));
    assert_eq!(
        (process.command_line.as_str(), process.exit_code, process.start_ns),
        ("serve.exe --model m.onnx", None, None)
    );
    assert_eq!((life(&kept, 101).name.as_str(), life(&kept, 101).start_ns), ("main", None));
    let late = life(&kept, 103);
    assert_eq!((late.start_ns, late.end_ns), (Some(6_000 * TICK_NS), Some(14_500 * TICK_NS)));
    assert_eq!(decoder.unix_ns(1_000 * TICK_NS), 1_700_000_000_000_000_000);
    assert_eq!(decoder.counts().lives.missed_ends, 0);
}

#[test]
fn a_thread_named_at_the_end_is_known_in_the_second_pass() {
    let mut trace = trace();
    put(&mut trace, &Place::at(0, 2_000), &switch(0, 101, 2, 0).payload());
    put(&mut trace, &Place::at(0, 3_000), &switch(101, 0, WAITING, DELAY).payload());
    put(&mut trace, &Place::at(0, 4_000).in_thread(4, 8), &thread(101, "").payload(Moment::RundownEnd));
    let file = bytes(trace);
    let etl = Etl::new(file.as_slice()).unwrap();
    for (passes, expected) in [(1, UNKNOWN_ID), (2, 100)] {
        let mut kept = Kept::default();
        decode(&etl, passes, &mut kept);
        let KernelEvent::Switch(first) = kept.kernel[0] else { panic!("{:?}", kept.kernel[0]) };
        assert_eq!(first.next.pid, expected, "{passes} passes");
        assert_eq!(life(&kept, 101).thread.pid, 100);
        assert_eq!(life(&kept, 101).account.run_ns, 1_000 * TICK_NS);
    }
}
