//! Faults, memory, files, disks and networks, encoded by hand because no real trace has them.

use ortscope_core::kernel::{FaultKind, MemoryCallKind, Task};
use ortscope_etl::Hook;
use ortscope_etl::writer::kernel::{Moment, Process, Thread};

use super::*;

fn payload(fields: &[(u64, usize)]) -> Vec<u8> {
    fields.iter().flat_map(|(value, width)| value.to_le_bytes().into_iter().take(*width)).collect()
}

fn run() -> (EtwDecoder, Kept) {
    let mut trace = trace();
    let logger = Place::at(0, 1_001).in_thread(4, 8);
    let process = Process {
        key: 1,
        process_id: 100,
        parent_id: 4,
        session_id: 1,
        exit_status: 259,
        image_name: "a.exe",
        command_line: "",
    };
    put(&mut trace, &logger, &process.payload(Moment::RundownStart));
    let thread = Thread { process_id: 100, thread_id: 101, start_address: 0, base_priority: 8, name: "" };
    put(&mut trace, &logger, &thread.payload(Moment::RundownStart));
    let here = |ticks| Place::at(0, ticks).in_thread(100, 101);
    let mut put = |ticks, hook, version, fields: &[(u64, usize)]| {
        trace.kernel(&here(ticks), Hook(hook), version, &payload(fields)).unwrap();
    };
    // Demand zero, then a hard fault that a second event repeats with its read, then the first kind again.
    put(2_000, 0x020b, 2, &[(0x1000, 8), (0x7f00, 8)]);
    put(2_500, 0x0220, 2, &[(2_100, 8), (0, 8), (0x2000, 8), (0xf11e, 8), (101, 4), (4_096, 4)]);
    put(2_600, 0x020e, 2, &[(0x2000, 8), (0x7f00, 8)]);
    // Reserve and commit, commit more, release.
    put(3_000, 0x0262, 2, &[(0x10_0000, 8), (65_536, 8), (100, 4), (0x3000, 4)]);
    put(3_100, 0x0262, 2, &[(0x10_0000, 8), (4_096, 8), (100, 4), (0x1000, 4)]);
    put(3_200, 0x0263, 2, &[(0x10_0000, 8), (65_536, 8), (100, 4), (0x8000, 4)]);
    // A file read with an end, and one without.
    put(4_000, 0x0443, 3, &[(512, 8), (0x1a, 8), (0xf11e, 8), (0, 8), (101, 4), (8_192, 4), (0, 4)]);
    put(4_300, 0x044c, 3, &[(0x1a, 8), (8_000, 8), (0, 4)]);
    put(4_400, 0x0444, 3, &[(0, 8), (0x1b, 8), (0xf11e, 8), (0, 8), (101, 4), (100, 4), (0, 4)]);
    put(4_500, 0x044c, 3, &[(0x99, 8), (0, 8), (0, 4)]);
    // Version 2 of the disk event lacks the issuer: the start event has it.
    put(5_000, 0x010c, 2, &[(0x1c, 8)]);
    let disk = [(0, 4), (0, 4), (16_384, 4), (0, 4), (1_024, 8), (0xf11e, 8), (0x1c, 8), (3_000, 8)];
    trace.kernel(&Place::at(1, 5_500).in_thread(4, 8), Hook(0x010a), 2, &payload(&disk)).unwrap();
    let mut put = |ticks, hook, version, fields: &[(u64, usize)]| {
        trace.kernel(&here(ticks), Hook(hook), version, &payload(fields)).unwrap();
    };
    // A deferred call of 50 ticks; bytes sent and received; the copy to the program is not counted again.
    put(6_000, 0x0f44, 2, &[(5_950, 8), (0xffff_8000_0000_0000, 8)]);
    let ends = [(0x0100_007f, 4), (0x0100_007f, 4), (0x5000, 2), (0x901f, 2)];
    let packet = |bytes: u64, times: &[(u64, usize)]| {
        let mut fields = vec![(100, 4), (bytes, 4)];
        fields.extend(ends);
        fields.extend_from_slice(times);
        fields.extend([(0, 4), (0, 8)]);
        fields
    };
    put(7_000, 0x060a, 2, &packet(700, &[(0, 4), (0, 4)]));
    put(7_100, 0x060b, 2, &packet(300, &[]));
    put(7_150, 0x0612, 2, &packet(300, &[]));
    put(7_200, 0x080b, 2, &packet(20, &[]));
    let name: Vec<u8> = "\\Device\\m.onnx\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let name: Vec<u8> = 0xf11e_u64.to_le_bytes().into_iter().chain(name).collect();
    trace.kernel(&here(9_000), Hook(0x0424), 2, &name).unwrap();
    let file = bytes(trace);
    let mut kept = Kept::default();
    let (decoder, _) = decode(&Etl::new(file.as_slice()).unwrap(), 2, &mut kept);
    (decoder, kept)
}

#[test]
fn faults_and_memory_are_reported_once() {
    let (decoder, kept) = run();
    let faults: Vec<_> = kept
        .kernel
        .iter()
        .filter_map(|event| match event {
            KernelEvent::PageFault(fault) => Some((fault.address, fault.kind, fault.thread.pid)),
            _ => None,
        })
        .collect();
    assert_eq!(faults, [(0x1000, FaultKind::Minor, 100), (0x2000, FaultKind::Major, 100)]);
    assert_eq!(decoder.counts().io.duplicate_faults, 1);
    assert_eq!(kept.faults[0].duration_ns, Some(400 * TICK_NS));
    let calls: Vec<_> = kept
        .kernel
        .iter()
        .filter_map(|event| match event {
            KernelEvent::MemoryCall(call) => Some((call.kind, call.bytes)),
            _ => None,
        })
        .collect();
    assert_eq!(calls, [(MemoryCallKind::Map, 65_536), (MemoryCallKind::Unmap, 65_536)]);
}

#[test]
fn files_and_disks_have_names_ends_and_owners() {
    let (decoder, kept) = run();
    let name = Some("\\Device\\m.onnx");
    let files: Vec<_> = kept
        .files
        .iter()
        .map(|file| (file.verb, file.bytes, file.end.map(|end| (end.duration_ns / TICK_NS, end.information))))
        .collect();
    assert_eq!(
        files,
        [(FileVerb::Read, Some(8_192), Some((300, 8_000))), (FileVerb::Write, Some(100), None)]
    );
    assert!(kept.files.iter().all(|file| file.file.as_deref() == name));
    let [disk] = kept.disks.as_slice() else { panic!("{:?}", kept.disks) };
    assert_eq!(
        (disk.io.thread, disk.io.sector, disk.file.as_deref()),
        (Task { tid: 101, pid: 100 }, 2, name)
    );
    assert_eq!(disk.io.device_ns, Some(3_000 * TICK_NS));
    let counts = decoder.counts().io;
    assert_eq!((counts.files_without_end, counts.ends_without_begin), (1, 1));
}

#[test]
fn processes_have_their_bytes_and_processors_their_interrupts() {
    let (decoder, kept) = run();
    let totals = kept.processes[0].totals;
    assert_eq!((totals.network_sent_bytes, totals.network_received_bytes), (700, 320));
    assert_eq!((totals.disk_read_bytes, totals.disk_write_bytes, totals.hard_faults), (16_384, 0, 1));
    let verbs: Vec<_> = kept.network.iter().map(|network| (network.protocol, network.verb)).collect();
    assert_eq!(verbs[3], (Protocol::Udp, NetworkVerb::Receive));
    assert_eq!(kept.network[0].endpoints.destination, ("127.0.0.1".parse().unwrap(), 80));
    assert_eq!((kept.interrupts.len(), decoder.cores()[0].deferred_ns), (1, 50 * TICK_NS));
}
