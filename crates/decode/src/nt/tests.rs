//! Lists in the kernel's format, built byte by byte, and invalid ones.

use proptest::prelude::*;

use super::*;

const ADDRESS: u64 = 0x7ff0_1234_0000;

#[derive(Debug, Clone, Copy, Default)]
struct FakeThread {
    tid: u64,
    kernel: u64,
    user: u64,
    switches: u32,
    state: u32,
    reason: u32,
    start: u64,
}

#[derive(Debug, Clone, Default)]
struct FakeProcess {
    pid: u64,
    name: &'static str,
    threads: Vec<FakeThread>,
    /// Context switches of the process, if the list has extensions.
    extension: Option<u64>,
    is_idle: bool,
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn list(class: ProcessClass, processes: &[FakeProcess]) -> Vec<u8> {
    let mut all = Vec::new();
    for (index, process) in processes.iter().enumerate() {
        let begin = all.len();
        let mut bytes = vec![0; 0x100];
        put(&mut bytes, 4, &(process.threads.len() as u32).to_le_bytes());
        put(&mut bytes, 0x10, &7u32.to_le_bytes());
        for (at, value) in [
            (0x18, 123_456u64),
            (0x20, 132_000_000_000_000_000),
            (0x28, 30),
            (0x30, 40),
            (0x50, process.pid),
            (0x58, 4),
            (0x78, 1 << 40),
            (0x88, 9000),
            (0x90, 8000),
            (0xA0, 500),
            (0xB0, 600),
            (0xC8, 7000),
            (0xD0, 1),
            (0xD8, 2),
            (0xE0, 3),
            (0xE8, 100),
            (0xF0, 200),
            (0xF8, 300),
        ] {
            put(&mut bytes, at, &value.to_le_bytes());
        }
        put(&mut bytes, 0x48, &8i32.to_le_bytes());
        put(&mut bytes, 0x60, &55u32.to_le_bytes());
        put(&mut bytes, 0x64, &1u32.to_le_bytes());
        put(&mut bytes, 0x80, &4_000_000_000u32.to_le_bytes());
        for thread in &process.threads {
            let mut one = vec![0; if class == ProcessClass::Plain { 80 } else { 136 }];
            put(&mut one, 0, &thread.kernel.to_le_bytes());
            put(&mut one, 8, &thread.user.to_le_bytes());
            put(&mut one, 0x30, &thread.tid.to_le_bytes());
            put(&mut one, 0x38, &(-2i32).to_le_bytes());
            put(&mut one, 0x40, &thread.switches.to_le_bytes());
            put(&mut one, 0x44, &thread.state.to_le_bytes());
            put(&mut one, 0x48, &thread.reason.to_le_bytes());
            if class != ProcessClass::Plain {
                put(&mut one, 0x60, &thread.start.to_le_bytes());
            }
            bytes.extend(one);
        }
        if let Some(switches) = process.extension {
            let mut extension = vec![0; 0x150];
            put(&mut extension, 0, &11u64.to_le_bytes());
            put(&mut extension, 0x28, &switches.to_le_bytes());
            bytes.extend(extension);
        }
        if !process.is_idle {
            let name: Vec<u8> = process.name.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let address = ADDRESS + (begin + bytes.len()) as u64;
            put(&mut bytes, 0x38, &(name.len() as u16).to_le_bytes());
            put(&mut bytes, 0x40, &address.to_le_bytes());
            bytes.extend(name);
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        if index + 1 < processes.len() {
            let length = bytes.len() as u32;
            put(&mut bytes, 0, &length.to_le_bytes());
        }
        all.extend(bytes);
    }
    all
}

fn name(process: &Process<'_>) -> String {
    let mut name = Vec::new();
    process.push_name(&mut name);
    String::from_utf8(name).unwrap()
}

fn three() -> Vec<FakeProcess> {
    let thread = FakeThread { tid: 8, kernel: 5, user: 6, switches: 900, state: 5, reason: 6, start: 0x1000 };
    let suspended = FakeThread { tid: 12, reason: 5, ..thread };
    let running = FakeThread { tid: 16, state: 2, ..thread };
    vec![
        FakeProcess { is_idle: true, ..FakeProcess::default() },
        FakeProcess { pid: 4, name: "System", threads: vec![thread], ..FakeProcess::default() },
        FakeProcess {
            pid: 4711,
            name: "\\Device\\HarddiskVolume3\\täst\u{1F980}.exe",
            threads: vec![suspended, running],
            extension: Some(5_000_000_000),
            ..FakeProcess::default()
        },
    ]
}

#[test]
fn every_field_of_every_class_is_read() {
    for class in [ProcessClass::Plain, ProcessClass::Extended, ProcessClass::Full] {
        let bytes = list(class, &three());
        let list = ProcessList::new(&bytes, ADDRESS, class);
        let processes: Vec<Process<'_>> = list.processes().map(Result::unwrap).collect();
        assert_eq!(processes.iter().map(Process::pid).collect::<Vec<_>>(), [0, 4, 4711]);
        assert_eq!(processes.iter().map(name).collect::<Vec<_>>(), ["", "System", "täst\u{1F980}.exe"]);
        let process = list.at(processes[2].offset()).unwrap();
        assert_eq!((process.parent_pid(), process.session(), process.handle_count()), (4, 1, 55));
        assert_eq!((process.create_time(), process.cycles()), (132_000_000_000_000_000, 123_456));
        assert_eq!((process.user_ticks(), process.kernel_ticks(), process.base_priority()), (30, 40, 8));
        assert_eq!((process.page_faults(), process.hard_faults()), (4_000_000_000, 7));
        assert_eq!(process.virtual_bytes(), 1 << 40);
        assert_eq!((process.working_set_bytes(), process.peak_working_set_bytes()), (8000, 9000));
        assert_eq!((process.paged_pool_bytes(), process.non_paged_pool_bytes()), (500, 600));
        assert_eq!(process.private_bytes(), 7000);
        let io = process.io();
        assert_eq!((io.read_operations, io.write_operations, io.other_operations), (1, 2, 3));
        assert_eq!((io.read_bytes, io.write_bytes, io.other_bytes), (100, 200, 300));
        let threads: Vec<Thread<'_>> = process.threads().collect();
        assert_eq!(threads.iter().map(Thread::id).collect::<Vec<_>>(), [Some(12), Some(16)]);
        assert_eq!(
            threads.iter().map(Thread::state).collect::<Vec<_>>(),
            [RunState::Suspended, RunState::Running]
        );
        assert_eq!((threads[0].kernel_ticks(), threads[0].user_ticks(), threads[0].priority()), (5, 6, -2));
        assert_eq!(threads[1].context_switches(), 900);
        let start = (class != ProcessClass::Plain).then_some(0x1000);
        assert_eq!(threads[0].win32_start_address(), start);
        let extension = process.extension().unwrap();
        assert_eq!((extension.context_switches, extension.disk.read_bytes), (5_000_000_000, 11));
        assert_eq!(processes[1].extension(), None);
    }
}

/// In a list without extensions the name is there, which must not be read as counts.
#[test]
fn an_implausible_extension_is_ignored() {
    let mut processes = three();
    processes[2].extension = Some(899);
    let bytes = list(ProcessClass::Plain, &processes);
    let list = ProcessList::new(&bytes, ADDRESS, ProcessClass::Plain);
    let last = list.processes().last().unwrap().unwrap();
    assert_eq!(last.extension(), None, "one of its threads has more switches than all of them together");
}

#[test]
fn thread_states_are_decoded() {
    let wanted = [
        (0, RunState::Other),
        (1, RunState::Ready),
        (2, RunState::Running),
        (3, RunState::Ready),
        (4, RunState::Other),
        (5, RunState::Waiting),
        (6, RunState::Waiting),
        (7, RunState::Ready),
        (8, RunState::Waiting),
        (9, RunState::Waiting),
        (77, RunState::Other),
    ];
    let threads = wanted.iter().map(|(state, _)| FakeThread { state: *state, ..FakeThread::default() });
    let process = FakeProcess { pid: 8, threads: threads.collect(), ..FakeProcess::default() };
    let bytes = list(ProcessClass::Plain, &[process]);
    let list = ProcessList::new(&bytes, ADDRESS, ProcessClass::Plain);
    let process = list.at(0).unwrap();
    assert!(process.threads().map(|thread| thread.state()).eq(wanted.map(|(_, state)| state)));
}

/// Reads everything.
fn read_all(bytes: &[u8], address: u64, class: ProcessClass) -> (usize, usize) {
    let (mut processes, mut threads) = (0, 0);
    for process in ProcessList::new(bytes, address, class).processes().flatten() {
        let mut text = Vec::new();
        process.push_name(&mut text);
        std::hint::black_box((process.io(), process.extension(), text));
        processes += 1;
        for thread in process.threads() {
            std::hint::black_box((thread.state(), thread.id(), thread.win32_start_address()));
            threads += 1;
        }
    }
    (processes, threads)
}

#[test]
fn damage_ends_the_list_and_is_reported() {
    let class = ProcessClass::Extended;
    let whole = list(class, &three());
    let damaged = |bytes: &[u8]| ProcessList::new(bytes, ADDRESS, class).processes().find_map(Result::err);
    assert_eq!(damaged(&whole), None);
    assert_eq!(damaged(&[]), Some(Damaged { at: 0 }));
    // A length within the header, one behind the end, more threads than fit, and an id that is too large.
    for (at, value) in [(0, 8u32), (0, u32::MAX), (4, u32::MAX), (4, 1), (0x54, 1)] {
        let mut bytes = whole.clone();
        put(&mut bytes, at, &value.to_le_bytes());
        assert_eq!(damaged(&bytes), Some(Damaged { at: 0 }), "{value} at {at}");
    }
    for length in 0..whole.len() {
        read_all(&whole[..length], ADDRESS, class);
    }
    // Names outside the list, before and behind it.
    for address in [0, ADDRESS - 1, ADDRESS + whole.len() as u64, u64::MAX] {
        let mut bytes = list(class, &three()[1..2]);
        put(&mut bytes, 0x40, &address.to_le_bytes());
        let list = ProcessList::new(&bytes, ADDRESS, class);
        assert_eq!(name(&list.at(0).unwrap()), "");
        assert_eq!(list.at(0).unwrap().extension(), None);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        address: u64,
    ) {
        for class in [ProcessClass::Plain, ProcessClass::Extended, ProcessClass::Full] {
            let (processes, threads) = read_all(&bytes, address, class);
            prop_assert!(processes <= bytes.len() / 0x100 && threads <= bytes.len() / 80);
        }
        parse_logical_processors(&bytes);
        page_files_in_use_pages(&bytes);
        each_processor_times(&bytes, |_, _| {});
        each_processor_switches(&bytes, |_, _| {});
        split_command_line(&bytes);
        unicode_string_after_header(&bytes);
    }

    #[test]
    fn changed_lists_are_read_without_a_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        for class in [ProcessClass::Plain, ProcessClass::Full] {
            let mut bytes = list(class, &three());
            for (at, value) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            read_all(&bytes, ADDRESS, class);
        }
    }

    /// Arguments that are joined by the rules of Windows are split into the same arguments.
    #[test]
    fn quoted_words_come_back(words in prop::collection::vec("[a-z \\\\\"]{0,12}", 1..6)) {
        let mut line = String::from("\"C:\\a b\\p.exe\"");
        for word in &words {
            line.push_str(" \"");
            let mut backslashes = 0;
            for character in word.chars() {
                if character == '"' {
                    line.push_str(&"\\".repeat(backslashes + 1));
                }
                backslashes = if character == '\\' { backslashes + 1 } else { 0 };
                line.push(character);
            }
            line.push_str(&"\\".repeat(backslashes));
            line.push('"');
        }
        let arguments = split_command_line(line.as_bytes());
        prop_assert_eq!(&arguments[0][..], &b"C:\\a b\\p.exe"[..]);
        let back: Vec<String> =
            arguments[1..].iter().map(|word| String::from_utf8(word.clone()).unwrap()).collect();
        prop_assert_eq!(back, words);
    }
}

#[test]
fn command_lines_are_split() {
    let words = |line: &str| -> Vec<String> {
        let arguments = split_command_line(line.as_bytes());
        arguments.iter().map(|word| String::from_utf8(word.clone()).unwrap()).collect()
    };
    assert_eq!(words(r#"python.exe -c "a b"  --token=x\y"#), ["python.exe", "-c", "a b", r"--token=x\y"]);
    assert_eq!(
        words(r#""C:\Program Files\x.exe" "a""b" \\"c d""#),
        [r"C:\Program Files\x.exe", r#"a"b"#, r"\c d"]
    );
    assert_eq!(words("x.exe \"open end"), ["x.exe", "open end"]);
    assert_eq!(words("x.exe \"\""), ["x.exe", ""]);
    assert_eq!((words(""), words("  ")), (vec![], vec![]));
    assert_eq!(words(&format!("x{}", " a".repeat(9999))).len(), MAX_ARGUMENTS);

    let mut answer = vec![0; 16];
    put(&mut answer, 0, &6u16.to_le_bytes());
    answer.extend("a\u{e4}b!".encode_utf16().flat_map(u16::to_le_bytes));
    assert_eq!(unicode_string_after_header(&answer).unwrap(), "a\u{e4}b".as_bytes());
    assert_eq!(unicode_string_after_header(&answer[..20]), None);
}

#[test]
fn wrapping_counts_continue() {
    let mut count = Count32::default();
    assert_eq!(count.read(4_000_000_000), 4_000_000_000);
    assert_eq!(count.read(3_999_999_999), 4_000_000_000, "an old reading");
    assert_eq!(count.read(5), (1 << 32) + 5);
    assert_eq!(count.read(2_000_000_000), (1 << 32) + 2_000_000_000);
}

#[test]
fn busy_shares_and_page_files() {
    let mut bytes = vec![0; 96];
    for (at, value) in [(0, 1000u64), (8, 1500), (16, 500), (48, 7), (56, 8), (64, 9)] {
        put(&mut bytes, at, &value.to_le_bytes());
    }
    put(&mut bytes, 0x28, &99u32.to_le_bytes());
    let mut times = Vec::new();
    each_processor_times(&bytes, |index, time| times.push((index, time)));
    let first = ProcessorTimes { idle: 1000, kernel: 1500, user: 500, interrupts: 99 };
    assert_eq!(times[0], (0, first));
    assert_eq!(times[1].1, ProcessorTimes { idle: 7, kernel: 8, user: 9, interrupts: 0 });
    let later = ProcessorTimes { idle: 1030, kernel: 1560, user: 540, interrupts: 99 };
    assert_eq!(later.busy_ratio_since(first), Some(0.7));
    assert_eq!((first.busy_ratio_since(first), first.busy_ratio_since(later)), (None, None));
    assert_eq!(first.and(times[1].1).kernel, 1508);

    let mut files = vec![0; 72];
    put(&mut files, 0, &40u32.to_le_bytes());
    put(&mut files, 8, &100u32.to_le_bytes());
    put(&mut files, 48, &11u32.to_le_bytes());
    assert_eq!(page_files_in_use_pages(&files), Some(111));
    assert_eq!(page_files_in_use_pages(&[]), Some(0));
    assert_eq!(page_files_in_use_pages(&files[..50]), None);
}

/// Two performance cores of two processors each, an efficiency core, in two groups and two nodes.
#[test]
fn processors_with_their_cores_and_nodes() {
    let entry = |relation: u32, body: &[u8]| {
        let mut bytes = relation.to_le_bytes().to_vec();
        bytes.extend((8 + body.len() as u32).to_le_bytes());
        bytes.extend(body);
        bytes
    };
    let affinity = |mask: u64, group: u16| {
        let mut bytes = mask.to_le_bytes().to_vec();
        bytes.extend(group.to_le_bytes());
        bytes.extend([0; 6]);
        bytes
    };
    let core = |class: u8, mask: u64, group: u16| {
        let mut body = vec![0; 22];
        body[1] = class;
        body.extend(1u16.to_le_bytes());
        body.extend(affinity(mask, group));
        entry(0, &body)
    };
    let node = |number: u32, mask: u64, group: u16| {
        let mut body = number.to_le_bytes().to_vec();
        // An old Windows: no count of groups.
        body.extend([0; 20]);
        body.extend(affinity(mask, group));
        entry(1, &body)
    };
    let mut groups = vec![0; 24 + 2 * 48];
    put(&mut groups, 2, &2u16.to_le_bytes());
    (groups[24 + 1], groups[24 + 48 + 1]) = (4, 1);
    let answer = [
        core(1, 0b11, 0),
        core(1, 0b1100, 0),
        // A cache, which is ignored.
        entry(2, &[0xff; 40]),
        core(0, 0b1, 1),
        node(0, 0b1111, 0),
        node(1, 0b1, 1),
        entry(4, &groups),
    ]
    .concat();
    let processors = parse_logical_processors(&answer);
    let found: Vec<_> =
        processors.iter().map(|one| (one.number, one.efficiency_class, one.core, one.numa_node)).collect();
    assert_eq!(
        found,
        [(0, 1, 0, Some(0)), (1, 1, 0, Some(0)), (2, 1, 1, Some(0)), (3, 1, 1, Some(0)), (4, 0, 2, Some(1))]
    );
    for length in 0..answer.len() {
        parse_logical_processors(&answer[..length]);
    }
}
