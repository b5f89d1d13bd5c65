//! Files written by us, read back and compared with those of Windows.

use std::io::Cursor;
use std::ops::ControlFlow;

use ortscope_etl::payload::kernel::LOST_EVENT_CLASS;
use ortscope_etl::payload::trace_logging::TraceLogging;
use ortscope_etl::payload::{SchemaStore, Value as DecodedValue, Visitor};
use ortscope_etl::writer::{
    CounterBytes, Field, FileSettings, Place, Provider, TraceLoggingEvent, Value, WriteError, Writer,
    kernel::{ContextSwitch, Image, Moment, Process, SampledProfile, StackWalk, Thread},
};
use ortscope_etl::{
    Classic, EtlBytes, EventDescriptor, EventRecord, ExtendedItem, FileTime, Guid, HeaderKind, Hook,
    Identity, Reason,
};

use crate::corpus::trace;

const START: FileTime = FileTime(133_500_000_000_000_000);

pub fn provider() -> Provider {
    Provider {
        name: "Ortscope.Test".to_owned(),
        id: Guid::new(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
        group: Some(Guid::new(0x1111_2222_3333_4444_5555_6666_7777_8888)),
    }
}

/// Every possible field type, including arrays and structures.
pub fn all_fields() -> Vec<Field<'static>> {
    const INNER: &[Field<'static>] =
        &[Field::new("x", Value::I32(-1)), Field::new("y", Value::Str("ypsilon"))];
    const PAIRS: &[Value<'static>] = &[Value::Struct(INNER), Value::Struct(INNER)];
    vec![
        Field::new("wide", Value::WideStr("breit ☃")),
        Field::new("narrow", Value::Str("schmal ☃")),
        Field::new("i8", Value::I8(-8)),
        Field::new("u8", Value::U8(8)),
        Field::new("i16", Value::I16(-16)),
        Field::new("u16", Value::U16(16)),
        Field::new("i32", Value::I32(-32)),
        Field::new("u32", Value::U32(32)),
        Field::new("i64", Value::I64(-64)),
        Field::new("u64", Value::U64(64)),
        Field::new("f32", Value::F32(0.5)),
        Field::new("f64", Value::F64(-0.25)),
        Field::new("bool", Value::Bool(true)),
        Field::new("binary", Value::Binary(b"\x00\x01\x02")),
        Field::new("guid", Value::Guid(Guid::new(7))),
        Field::new("pointer", Value::Pointer(0xffff_8000_0000_1000)),
        Field::new("filetime", Value::FileTime(START)),
        Field::new("systemtime", Value::SystemTime([2024, 1, 15, 2, 3, 4, 5, 6])),
        Field::new("sid", Value::Sid(&[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0])),
        Field::new("hex32", Value::Hex32(0xdead)),
        Field::new("hex64", Value::Hex64(0xbeef)),
        Field::new("counted wide", Value::CountedWideStr("gezählt")),
        Field::new("counted", Value::CountedStr("gezählt")),
        Field::new("counted binary", Value::CountedBinary(b"abc")),
        Field::new("struct", Value::Struct(INNER)),
        Field::new("numbers", Value::Array(&[Value::U16(1), Value::U16(2), Value::U16(3)])),
        Field::new("texts", Value::Array(&[Value::Str("a"), Value::Str("")])),
        Field::new("pairs", Value::Array(PAIRS)),
        Field::new("nothing", Value::EmptyArray(8)),
        Field { name: "shown in hex", value: Value::U32(255), out_type: 4 },
    ]
}

fn settings() -> FileSettings {
    FileSettings::new(4, 10_000_000, 1_000_000, START)
        .buffer_bytes(8 << 10)
        .names("test", "C:\\test.etl")
        .logger_id(9)
}

/// A file with some of everything; events of four processors.
pub fn sample() -> Vec<u8> {
    let mut writer =
        Writer::with_group_masks(Cursor::new(Vec::new()), settings(), Some([1, 2, 3, 4, 5, 6, 7, 8]))
            .unwrap();
    let process = Process {
        key: 0xffff_0000_1111,
        process_id: 77,
        parent_id: 4,
        session_id: 1,
        exit_status: 0,
        image_name: "python.exe",
        command_line: "python -m test",
    };
    let thread =
        Thread { process_id: 77, thread_id: 99, start_address: 0x1000, base_priority: 8, name: "worker" };
    let image = Image {
        base: 0x7ff0_0000_0000,
        size: 0x10_000,
        process_id: 77,
        checksum: 1,
        time_date_stamp: 2,
        path: "\\Device\\HarddiskVolume3\\onnxruntime.dll",
    };
    let at = |ticks: u64| Place::at(0, 1_000_000 + ticks).in_thread(77, 99);
    for payload in [
        process.payload(Moment::RundownStart),
        thread.payload(Moment::RundownStart),
        image.payload(Moment::Start),
    ] {
        writer.kernel(&at(0), payload.hook, payload.version, &payload.bytes).unwrap();
    }
    let switch =
        ContextSwitch { new_thread: 99, old_thread: 0, new_wait_time: 3, ..ContextSwitch::default() }
            .payload();
    let profile = SampledProfile { instruction_pointer: 0x7ff0_0000_1234, thread_id: 99, count: 1 }.payload();
    for index in 0..200_u64 {
        let processor = (index % 4) as u16;
        let ticks = 1_000_100 + index * 10;
        let place = Place::at(processor, ticks);
        let counters = CounterBytes { pebs_index: Some(1), counters: &[index, 2] };
        writer.kernel_with_counters(&place, switch.hook, switch.version, &counters, &switch.bytes).unwrap();
        writer.kernel(&place, profile.hook, profile.version, &profile.bytes).unwrap();
        let stack =
            StackWalk { event_ticks: ticks, process_id: 77, thread_id: 99, addresses: &[1, 2, 3] }.payload();
        writer.kernel(&place, stack.hook, stack.version, &stack.bytes).unwrap();
    }
    let provider = provider();
    let event = TraceLoggingEvent {
        provider: &provider,
        name: "Everything",
        descriptor: EventDescriptor { level: 4, opcode: 1, keyword: 0x100, ..EventDescriptor::default() },
        fields: &all_fields(),
    };
    let place = Place::at(2, 1_010_000)
        .in_thread(77, 100)
        .in_activity(Guid::new(0xaa))
        .from_activity(Guid::new(0xbb));
    writer.trace_logging(&place, &event).unwrap();
    let classic = Classic { class: Guid::new(0xcc), kind: 3, level: 4, version: 2 };
    writer.classic(&Place::at(3, 1_010_001).in_thread(77, 100), &classic, b"classic").unwrap();
    let (out, written) = writer.finish().unwrap();
    assert_eq!(written.records, 3 + 600 + 2);
    assert_eq!(written.bytes, out.get_ref().len() as u64);
    out.into_inner()
}

/// An owned copy of a record: kind, identity, ticks, processor, process, thread, payload.
type Copied = (HeaderKind, Identity, u64, u16, Option<u32>, Option<u32>, Vec<u8>);

fn copy(record: &EventRecord<'_>) -> Copied {
    let EventRecord { kind, identity, ticks, processor, process_id, thread_id, payload, .. } = *record;
    (kind, identity, ticks, processor, process_id, thread_id, payload.to_vec())
}

fn all_records(bytes: &[u8]) -> Vec<Copied> {
    let mut records = Vec::new();
    let walk = EtlBytes::new(bytes)
        .unwrap()
        .ordered(|record| {
            records.push(copy(record));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(walk.losses.is_empty(), "{:?}", walk.losses);
    records
}

#[test]
fn written_records_are_read_back() {
    let bytes = sample();
    let file = EtlBytes::new(&bytes).unwrap();
    let header = file.header();
    assert_eq!((header.logger_name.as_str(), header.log_file_name.as_str()), ("test", "C:\\test.etl"));
    assert_eq!(u64::from(header.buffers_written), file.buffers());
    assert_eq!(header.start_time, START);
    assert_eq!(header.end_time, FileTime(START.0 + 10_001));
    assert_eq!(file.processors().collect::<Vec<_>>(), [0, 1, 2, 3]);
    let records = all_records(&bytes);
    assert_eq!(records.len(), 2 + 605, "two in the header's buffer");
    assert_eq!(records[1].1, Identity::Kernel { hook: Hook(5), version: 2 });
    assert_eq!(records[1].6.len(), 36);
    assert_eq!(records[2].1, Identity::Kernel { hook: Hook(0x0303), version: 4 });
    let mut seen = 0;
    file.ordered(|record| {
        match record.identity {
            Identity::Kernel { hook: Hook(0x0524), version } => {
                assert_eq!((version, record.pebs_index), (3, Some(1)));
                assert_eq!(record.counters().collect::<Vec<_>>(), [seen, 2]);
                seen += 1;
            }
            Identity::Event { provider: id, descriptor } => {
                assert_eq!((id, descriptor.channel, descriptor.keyword), (provider().id, 11, 0x100));
                assert_eq!(record.activity, Some(Guid::new(0xaa)));
                let related = record.extended_item(ExtendedItem::RELATED_ACTIVITY).unwrap();
                assert_eq!(related, Guid::new(0xbb).to_bytes());
                assert_eq!((record.process_id, record.thread_id), (Some(77), Some(100)));
            }
            Identity::Classic(classic) => {
                assert_eq!((classic.kind, record.payload), (3, &b"classic"[..]));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(seen, 200);
}

/// Field names and values as JSON.
#[derive(Default)]
struct Shown(Vec<(String, String)>);

impl Visitor for Shown {
    fn field(&mut self, name: &str, value: DecodedValue<'_>) {
        let mut json = String::new();
        value.write_json(&mut json).unwrap();
        self.0.push((name.to_owned(), json));
    }
}

#[test]
fn event_fields_are_read_back() {
    let bytes = sample();
    let mut shown = None;
    EtlBytes::new(&bytes)
        .unwrap()
        .ordered(|record| {
            if let Some(event) = TraceLogging::of(record) {
                assert_eq!((event.provider_name, event.event_name), (Some("Ortscope.Test"), "Everything"));
                assert_eq!(event.provider_group, provider().group);
                let mut fields = Shown::default();
                let used = event.visit(record.payload, record.pointer_size, &mut fields).unwrap();
                assert_eq!(used, record.payload.len(), "to the last byte");
                shown = Some(fields.0);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    let shown = shown.unwrap();
    for (name, expected) in [
        ("wide", "\"breit ☃\""),
        ("narrow", "\"schmal ☃\""),
        ("i8", "-8"),
        ("u16", "16"),
        ("i64", "-64"),
        ("f32", "0.5"),
        ("f64", "-0.25"),
        ("bool", "true"),
        ("counted wide", "\"gezählt\""),
        ("counted", "\"gezählt\""),
        ("x", "-1"),
        ("y", "\"ypsilon\""),
        ("numbers", "[1,2,3]"),
    ] {
        let found = shown.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str());
        assert_eq!(found, Some(expected), "{name} in {shown:?}");
    }
}

#[test]
fn a_file_of_a_crashed_writer_is_readable() {
    let mut file = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut file, settings()).unwrap();
    for index in 0..1_000_u64 {
        writer.kernel(&Place::at(0, 1_000_000 + index), Hook(0x0f2e), 2, &[0; 16]).unwrap();
    }
    drop(writer);
    let bytes = file.into_inner();
    let walk = EtlBytes::new(&bytes).unwrap().ordered(|_| ControlFlow::Continue(())).unwrap();
    // Buffers of 8 KiB hold 253 records of 32 bytes; the last one was not full.
    assert_eq!(walk.records, 1 + 3 * 253);
    assert_eq!(walk.losses.damage.iter().map(|(reason, _)| reason).collect::<Vec<_>>(), [Reason::NotClosed]);
}

/// Notices of losses that a real-time consumer writes into its file.
#[test]
fn real_time_losses_are_counted() {
    let mut writer = Writer::new(Cursor::new(Vec::new()), settings()).unwrap();
    for kind in [32, 32, 32, 33, 33, 34, 35] {
        let classic = Classic { class: LOST_EVENT_CLASS, kind, level: 0, version: 0 };
        writer.classic(&Place::at(1, 1_000_000), &classic, &[]).unwrap();
    }
    let bytes = writer.finish().unwrap().0.into_inner();
    let losses = EtlBytes::new(&bytes).unwrap().ordered(|_| ControlFlow::Continue(())).unwrap().losses;
    assert_eq!(
        (losses.real_time_events_lost, losses.real_time_buffers_lost, losses.real_time_files_lost),
        (3, 2, 1)
    );
    assert!(losses.damage.is_empty());
}

#[test]
fn invalid_use_is_rejected() {
    let mut writer = Writer::new(Cursor::new(Vec::new()), settings()).unwrap();
    let late = Place::at(0, 2_000_000);
    writer.kernel(&late, Hook(1), 0, &[]).unwrap();
    let early = Place::at(0, 1_999_999);
    assert!(matches!(writer.kernel(&early, Hook(1), 0, &[]), Err(WriteError::TimeRunsBack(0))));
    assert!(matches!(writer.kernel(&late, Hook(1), 0, &[0; 9_000]), Err(WriteError::TooLarge { .. })));
    assert!(matches!(writer.kernel(&late, Hook(1), 0, &[0; 70_000]), Err(WriteError::TooLarge { .. })));
    let provider = provider();
    for (fields, expected) in [
        (
            vec![Field::new("a", Value::Array(&[Value::U8(1), Value::I8(1)]))],
            "elements of an array have different types",
        ),
        (vec![Field::new("a\0b", Value::U8(1))], "NUL"),
        (vec![Field::new("s", Value::Struct(&[]))], "0 fields"),
    ] {
        let event = TraceLoggingEvent {
            provider: &provider,
            name: "x",
            descriptor: EventDescriptor::default(),
            fields: &fields,
        };
        let error = writer.trace_logging(&late, &event).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let odd = FileSettings::new(1, 1, 0, START).buffer_bytes(5_000);
    assert!(matches!(Writer::new(Cursor::new(Vec::new()), odd), Err(WriteError::BadBufferSize(5_000))));
}

/// The bytes that are equal in every uncompressed 64-bit file with the same layout.
#[test]
fn the_header_matches_a_real_file() {
    let Some(trace) = trace("hw3d_trace.etl") else { return };
    let real = trace.bytes();
    let theirs = EtlBytes::new(&real).unwrap();
    let header = theirs.header();
    // The same machine, names and times through our writer; its event has no thread names in the header.
    let (out, _) = theirs.cut(&ortscope_etl::Filter::default(), Cursor::new(Vec::new())).unwrap();
    let ours = out.into_inner();
    assert_eq!(ours.len(), real.len());
    // Buffer header: size, saved, current and final offset, counters, times, sequence, processor, logger, state, flags, kind.
    assert_eq!(ours[..0x48], real[..0x48], "header buffer");
    // The event: version, kind, size, hook; thread and process differ (0x50..0x58); time and CPU times.
    assert_eq!(ours[0x48..0x50], real[0x48..0x50], "event header");
    assert_eq!(ours[0x58..0x68], real[0x58..0x68], "event times");
    // The payload up to the end time (0x78..0x80) and behind it up to the mode (0x88..0x8c), then all of the rest.
    assert_eq!(ours[0x68..0x78], real[0x68..0x78], "sizes, version, build, processors");
    assert_eq!(ours[0x80..0x88], real[0x80..0x88], "timer and file size");
    assert_eq!(ours[0x8c..0x240], real[0x8c..0x240], "buffers to the names, and the second event");
    assert!(ours[0x240..0x1_0000].iter().all(|&byte| byte == 0xff), "fill");
    assert_eq!(EtlBytes::new(&ours).unwrap().header().time_zone, header.time_zone);
    // The data buffer: size and offsets, sequence, processor and logger, state, flags; the current offset (8..0xc),
    // the time of the flush (0x10..0x18) and pointers (0x38..0x48) are the kernel's own.
    let (ours, real) = (&ours[0x1_0000..], &real[0x1_0000..]);
    for range in [0..8, 0xc..0x10, 0x18..0x38, 0x48..real.len()] {
        assert_eq!(ours[range.clone()], real[range.clone()], "data buffer {range:?}");
    }
}

/// A TraceLogging event of Windows, rewritten from its parts, has the same bytes.
#[test]
fn a_trace_logging_event_matches_a_real_one() {
    let Some(trace) = trace("hw3d_trace.etl") else { return };
    let bytes = trace.bytes();
    let file = EtlBytes::new(&bytes).unwrap();
    let mut real = None;
    file.ordered(|record| {
        if let Identity::Event { provider, descriptor } = record.identity {
            real = Some((record.bytes.to_vec(), copy(record), provider, descriptor));
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let (real, (_, _, ticks, processor, process, thread, _), id, descriptor) = real.unwrap();
    let provider = Provider { name: "Atum-Hw3d".to_owned(), id, group: None };
    let fields = [
        Field { name: "lpCmdLine", value: Value::Str(""), out_type: 0 },
        Field::new("nCmdShow", Value::I32(10)),
    ];
    let event = TraceLoggingEvent { provider: &provider, name: "WinMain", descriptor, fields: &fields };
    let mut writer =
        Writer::new(Cursor::new(Vec::new()), FileSettings::new(8, 10_000_000, 0, START)).unwrap();
    writer
        .trace_logging(&Place::at(processor, ticks).in_thread(process.unwrap(), thread.unwrap()), &event)
        .unwrap();
    let (out, _) = writer.finish().unwrap();
    let out = out.into_inner();
    let ours = &out[0x1_0048..];
    let size = usize::from(u16::from_le_bytes([ours[0], ours[1]]));
    // Ours marks the text as UTF-8: the type has a bit for it, and one more byte follows.
    let at = real.windows(11).position(|window| window == b"lpCmdLine\0\x02").unwrap() + 10;
    assert_eq!(ours[2..0xb0 - 0x48], real[2..0xb0 - 0x48], "header and traits");
    assert_eq!((ours[at], ours[at + 1]), (0x82, 35));
    assert_eq!(ours[at + 2..at + 2 + 10], real[at + 1..at + 1 + 10], "the next field");
    assert_eq!(ours[size - 5..size], real[real.len() - 5..], "payload");
}

/// Events of manifest-based providers like DxgKrnl: read back with their descriptor and decoded by our tables.
#[test]
fn a_manifest_event_is_read_back() {
    let dxgkrnl = Guid::new(0x802ec45a_1e99_4b83_9920_87c98277ba9d);
    let descriptor = EventDescriptor { id: 250, level: 4, task: 9, keyword: 1, ..EventDescriptor::default() };
    let mut payload = 0x1000_u64.to_le_bytes().to_vec();
    payload.extend([2, 0, 0, 0, 1, 0, 0, 0, b'3', 0, b'D', 0, 0, 0]);
    let mut writer = Writer::new(Cursor::new(Vec::new()), settings()).unwrap();
    let place = Place::at(0, 1_000_500).in_thread(4, 8).from_activity(Guid::new(9));
    writer.event(&place, dxgkrnl, &descriptor, &payload).unwrap();
    let bytes = writer.finish().unwrap().0.into_inner();
    let (mut seen, store) = (0, SchemaStore::new());
    let walk = EtlBytes::new(&bytes).unwrap().ordered(|record| {
        if record.kind == HeaderKind::Event {
            seen += 1;
            assert_eq!(record.identity, Identity::Event { provider: dxgkrnl, descriptor });
            assert_eq!((record.process_id, record.thread_id), (Some(4), Some(8)));
            assert_eq!(record.payload, payload);
            let related: Vec<_> = record.extended().map(|item| (item.kind, item.data.to_vec())).collect();
            assert_eq!(related, [(ExtendedItem::RELATED_ACTIVITY, Guid::new(9).to_bytes().to_vec())]);
            let mut names = Names::default();
            let decoded = store.decode(record, &mut names);
            assert_eq!((decoded.left_over, decoded.is_short), (0, false));
            assert_eq!(names.0, ["pDxgAdapter", "NodeOrdinal", "EngineType", "FriendlyName"]);
        }
        ControlFlow::Continue(())
    });
    assert!(walk.unwrap().losses.is_empty());
    assert_eq!(seen, 1);
}

#[derive(Default)]
struct Names(Vec<String>);

impl Visitor for Names {
    fn field(&mut self, name: &str, _value: DecodedValue<'_>) {
        self.0.push(name.to_owned());
    }
}
