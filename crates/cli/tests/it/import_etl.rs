//! Traces of Windows as recordings: every real one, a written one with all that no real one has, damaged ones.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use ortscope_etl::payload::builtin::{DXGKRNL, ort::ONNX_RUNTIME};
use ortscope_etl::writer::kernel::{ContextSwitch, Moment, Process, Thread};
use ortscope_etl::writer::{Field, FileSettings, Place as At, Provider, TraceLoggingEvent, Value, Writer};
use ortscope_etl::{EventDescriptor, FileTime};
use serde_json::Value as Json;

use crate::support::{Place, skips};

fn corpus() -> PathBuf {
    let root = std::env::var_os("ORTSCOPE_CORPUS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    root.join("etl")
}

/// The traces of the corpus with the number of their records.
fn traces() -> Vec<(PathBuf, u64)> {
    let Ok(list) = std::fs::read_to_string(corpus().join("MANIFEST.tsv")) else {
        skips::skipped("no list of traces; set ORTSCOPE_CORPUS");
        return Vec::new();
    };
    let mut lines = list.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    let column = |name: &str| head.iter().position(|column| *column == name).expect("a column");
    let (file, records) = (column("file"), column("records"));
    lines
        .filter(|line| line.len() > records)
        .map(|line| (corpus().join(line[file]), line[records].parse().expect("a number")))
        .filter(|(path, _)| path.is_file())
        .collect()
}

fn document(text: &str) -> Json {
    serde_json::from_str(text).expect("one JSON document")
}

fn import(place: &Place, path: &Path, code: i32) -> Json {
    let run = place.ortscope(&["import", &path.display().to_string(), "--json"]).expect_code(code);
    document(&run.stdout())
}

/// Events of a name in what `etl stats` counts, of all versions.
fn counted(stats: &Json, names: &[&str]) -> u64 {
    let events = stats["events"].as_array().expect("a list");
    let is_named = |event: &&Json| names.iter().any(|name| event["event"] == *name);
    events.iter().filter(is_named).filter_map(|event| event["count"].as_u64()).sum()
}

#[test]
fn every_real_trace_becomes_a_recording_with_all_its_events_accounted_for() {
    for (path, records) in traces() {
        let place = Place::new();
        let imported = import(&place, &path, 0);
        let name = path.display();
        assert_eq!(imported["schema"], "ortscope.import.etl/1");
        assert_eq!(imported["records"], records, "{name}");
        let sum = imported["events_used"].as_u64().zip(imported["events_not_used"].as_u64());
        assert_eq!(sum.map(|(used, not)| used + not), Some(records), "{name}");
        let listed = imported["not_used"].as_array().expect("a list").iter();
        let listed: u64 = listed.filter_map(|kind| kind["count"].as_u64()).sum();
        let further = imported["not_used_of_further_kinds"].as_u64().expect("a number");
        assert_eq!(Some(listed + further), imported["events_not_used"].as_u64(), "{name}");
        let report = place.ortscope(&["report", "last"]).expect_code(0);
        assert!(report.stdout().contains("a trace of Windows build"), "{}", report.stdout());
    }
}

#[test]
fn counts_equal_those_of_stats_and_reports_show_them() {
    let path = corpus().join("perfview_net.4.5.2.x64.etl");
    if !path.is_file() {
        skips::skipped("no trace of PerfView; set ORTSCOPE_CORPUS");
        return;
    }
    let place = Place::new();
    let imported = import(&place, &path, 0);
    let stats = place.ortscope(&["etl", "stats", &path.display().to_string(), "--json"]).expect_code(0);
    let stats = document(&stats.stdout());
    let rows = &imported["rows_of"];
    for (row, events) in [
        ("cpu_samples", &["PerfInfo/Sample"][..]),
        ("disk_transfers", &["DiskIO/Read", "DiskIO/Write"]),
        ("hard_faults", &["PageFault/HardFault", "Memory/HardFault"]),
        ("image_loads", &["Image/Load"]),
    ] {
        let expected = counted(&stats, events);
        assert!(expected > 0, "{events:?}");
        assert_eq!(rows[row], expected, "{row}");
    }
    // Idle samples are no rows of their own; image loads, transfers and faults are one row each.
    let (samples, idle) = (rows["cpu_samples"].as_u64(), rows["cpu_samples_idle"].as_u64());
    let busy = samples.zip(idle).map(|(all, idle)| all - idle).expect("numbers");
    let export = place.ortscope(&["export", "last", "-o", "kernel.csv", "--table", "kernel_events"]);
    export.expect_code(0);
    let table = std::fs::read_to_string(place.directory.path().join("kernel.csv")).expect("a table");
    let of_kind = |kind: &str| table.lines().filter(|line| line.contains(kind)).count() as u64;
    assert_eq!(of_kind(",sample,"), busy);
    assert_eq!(of_kind(",hard_fault,"), rows["hard_faults"].as_u64().expect("a number"));
    assert!(table.contains("ntdll.dll+0x"), "frames have the names of their modules");
    for format in ["html", "md", "json"] {
        let report = place.ortscope(&["report", "last", "--format", format]).expect_code(0);
        assert!(report.stdout().len() > 500, "{format}");
    }
    place.ortscope(&["export", "last", "-o", "run.trace.json"]).expect_code(0);
}

/// Two sessions' worth of what no real trace of the corpus has: inferences, context switches, engine time.
pub fn written() -> Vec<u8> {
    let start = FileTime::from_unix_ns(1_700_000_000_000_000_000);
    let mut trace =
        Writer::new(Cursor::new(Vec::new()), FileSettings::new(2, 10_000_000, 1_000, start)).expect("a file");
    let logger = At::at(0, 1_001).in_thread(4, 8);
    let process = Process {
        key: 1,
        process_id: 100,
        parent_id: 4,
        session_id: 1,
        exit_status: 259,
        image_name: "infer.exe",
        command_line: "infer.exe --key secret",
    };
    let thread = Thread { process_id: 100, thread_id: 101, start_address: 0, base_priority: 8, name: "main" };
    for payload in [process.payload(Moment::RundownStart), thread.payload(Moment::RundownStart)] {
        trace.kernel(&logger, payload.hook, payload.version, &payload.bytes).expect("it fits");
    }
    let mut node = [0x1000_u64.to_le_bytes().to_vec(), vec![2, 0, 0, 0, 1, 0, 0, 0]].concat();
    node.extend("3D\0".encode_utf16().flat_map(u16::to_le_bytes));
    let described = |id| EventDescriptor { id, ..EventDescriptor::default() };
    trace.event(&logger, DXGKRNL, &described(250), &node).expect("it fits");
    let provider = Provider { name: "Microsoft.ML.ONNXRuntime".to_owned(), id: ONNX_RUNTIME, group: None };
    let ort = |trace: &mut Trace, ticks: u64, name: &'static str, fields: &[Field<'_>]| {
        let event =
            TraceLoggingEvent { provider: &provider, name, descriptor: EventDescriptor::default(), fields };
        trace.trace_logging(&At::at(0, ticks).in_thread(100, 101), &event).expect("it fits");
    };
    let session = || Field::new("sessionId", Value::U32(7));
    let model = Field::new("modelGraphName", Value::Str("resnet"));
    let providers = Field::new("executionProviderIds", Value::Str("CPUExecutionProvider"));
    ort(&mut trace, 2_000, "SessionCreation", &[session(), model, providers]);
    let switch = |old, new| ContextSwitch {
        new_thread: new,
        old_thread: old,
        new_priority: 8,
        old_priority: 8,
        old_wait_reason: 6,
        old_wait_mode: 0,
        old_state: 5,
        old_ideal_processor: 0,
        new_wait_time: 0,
    };
    // 200 inferences of 2 ms each with 1 ms between them, at 10 MHz.
    for number in 0..200_u64 {
        let begin = 10_000 + number * 30_000;
        for (ticks, old, new) in [(begin, 0, 101), (begin + 20_000, 101, 0)] {
            if ticks > begin {
                ort(&mut trace, ticks - 1, "EvaluationStop", &[session()]);
            }
            let payload = switch(old, new).payload();
            trace.kernel(&At::at(0, ticks), payload.hook, payload.version, &payload.bytes).expect("it fits");
            if ticks == begin {
                ort(&mut trace, ticks + 1, "EvaluationStart", &[session()]);
            }
        }
    }
    accelerators(&mut trace, &ort);
    trace.finish().expect("it is written").0.into_inner()
}

type Trace = Writer<Cursor<Vec<u8>>>;

/// One line of QNN's profile, one operator of an instrumented build, and a packet of 50 ms on an engine.
fn accelerators(trace: &mut Trace, ort: &impl Fn(&mut Trace, u64, &'static str, &[Field<'_>])) {
    let qnn = [
        Field::new("Message", Value::Str("NODE")),
        Field::new("Value", Value::U64(4_711)),
        Field::new("Unit of Measurement", Value::Str("CYCLES")),
        Field::new("Event Level", Value::Str("SUB-EVENT")),
        Field::new("Event Identifier", Value::Str("conv1:OpId_2")),
    ];
    ort(trace, 6_100_000, "QNNProfilingEvent", &qnn);
    let operator = [Field::new("op_name", Value::Str("Conv")), Field::new("time", Value::U64(30))];
    ort(trace, 6_100_001, "OpEnd", &operator);
    let mut dxg = |ticks, id, fields: &[(u64, usize)]| {
        let payload: Vec<u8> =
            fields.iter().flat_map(|(value, width)| value.to_le_bytes().into_iter().take(*width)).collect();
        let descriptor = EventDescriptor { id, ..EventDescriptor::default() };
        trace.event(&At::at(0, ticks).in_thread(4, 12), DXGKRNL, &descriptor, &payload).expect("it fits");
    };
    dxg(6_200_000, 27, &[(100, 8), (0x1000, 8), (0, 4), (0xd1, 8), (0, 4), (0, 4)]);
    let context = [(0xd1, 8), (2, 4), (1, 4), (0, 4), (0, 4), (0, 4), (0, 4), (0, 4), (0, 4), (0xc1, 8)];
    dxg(6_200_001, 30, &[&context[..], &[(0, 8), (0, 8)]].concat());
    dxg(6_300_000, 175, &[(0xc1, 8), (0, 8), (0, 4), (1, 8), (1, 4), (0, 8)]);
    dxg(6_800_000, 177, &[(0xc1, 8), (0, 4), (1, 8), (1, 4), (1, 4)]);
}

#[test]
fn inferences_and_context_switches_of_a_trace_are_reported() {
    let place = Place::new();
    let path = place.file("written.etl", written());
    let imported = import(&place, &path, 0);
    let rows = &imported["rows_of"];
    assert_eq!((&rows["inferences"], &rows["sessions"]), (&200.into(), &1.into()));
    assert_eq!(rows["context_switches"], 400);
    assert_eq!((&rows["operators"], &rows["engine_packets"]), (&2.into(), &1.into()));
    let busiest = &imported["busiest_processes"][0];
    assert_eq!((&busiest["name"], &busiest["cpu_time_ns"]), (&"infer.exe".into(), &400_000_000.into()));
    assert_eq!(imported["trace"]["start_unix_ns"], 1_700_000_000_000_000_100_i64);
    assert_eq!(imported["clock"]["name"], "qpc");

    let report = place.ortscope(&["report", "last", "--json"]).expect_code(0);
    let report = document(&report.stdout());
    let session = &report["sessions"][0];
    assert_eq!(session["inference"]["n"].as_u64().or_else(|| session["counts"]["total"].as_u64()), Some(200));
    let median = session["inference"]["median_ms"].as_f64().expect("a number");
    assert!((median - 1.9998).abs() < 0.001, "{median}");
    // As long as the trace, not as the import.
    let seconds = report["header"]["duration_seconds"].as_f64().expect("a number");
    assert!((seconds - 0.6799).abs() < 0.001, "{seconds}");
    let text = place.ortscope(&["report", "last"]).expect_code(0).stdout();
    assert!(text.contains("resnet") && text.contains("providers     CPU"), "{text}");
    assert!(text.contains("infer.exe") && !text.contains("secret"), "{text}");
    assert!(text.contains("engine 2 3D"), "{text}");

    place.ortscope(&["export", "last", "-o", "i.csv", "--table", "inferences"]).expect_code(0);
    let table = std::fs::read_to_string(place.directory.path().join("i.csv")).expect("a table");
    assert_eq!(table.lines().count(), 201);
    place.ortscope(&["export", "last", "-o", "o.csv", "--table", "operators"]).expect_code(0);
    let table = std::fs::read_to_string(place.directory.path().join("o.csv")).expect("a table");
    assert!(table.contains("conv1:OpId_2") && table.contains(",4711,"), "{table}");
    assert!(table.contains(",30000,"), "{table}");
    place.ortscope(&["export", "last", "-o", "t.csv", "--table", "thread_samples"]).expect_code(0);
    let table = std::fs::read_to_string(place.directory.path().join("t.csv")).expect("a table");
    assert!(table.contains("400000000"), "{table}");
}

#[test]
fn traces_are_converted_through_recordings() {
    let place = Place::new();
    place.file("written.etl", written());
    let convert = |output: &str, more: &[&str], code: i32| {
        let arguments = [&["etl", "convert", "written.etl", "-o", output][..], more].concat();
        place.ortscope(&arguments).expect_code(code)
    };
    convert("tables", &["--format", "parquet"], 0);
    assert!(place.directory.path().join("tables/inferences.parquet").is_file());
    convert("line.trace.json", &[], 0);
    let line = std::fs::read_to_string(place.directory.path().join("line.trace.json")).expect("a trace");
    let drawn = document(&line).as_array().expect("a list of events").len();
    assert!(drawn > 200, "{drawn}");
    convert("line.json", &["--format", "perfetto"], 0);
    convert("line.json", &["--format", "perfetto"], 2);
    convert("line.json", &["--format", "perfetto", "--force"], 0);
    convert("run", &["--format", "recording"], 0);
    let report = place.ortscope(&["report", "./run"]).expect_code(0);
    assert!(report.stdout().contains("resnet"), "{}", report.stdout());
    // Half of it.
    convert("half", &["--format", "recording", "--to", "0.3"], 0);
    let report = document(&place.ortscope(&["report", "./half", "--json"]).expect_code(0).stdout());
    assert!(report["header"]["duration_seconds"].as_f64() < Some(0.31), "{}", report["header"]);
    convert("more", &["--format", "recording", "--event", "Evaluation"], 2);
    let left: Vec<_> = std::fs::read_dir(place.directory.path())
        .expect("a directory")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(".ortscope"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn damaged_and_foreign_files_are_named() {
    let place = Place::new();
    let whole = written();
    let path = place.file("cut.etl", &whole[..whole.len() - whole.len() / 3]);
    let run = place.ortscope(&["import", &path.display().to_string()]).expect_code(20);
    assert!(run.stderr().contains("warning:") && run.stderr().contains("buffer"), "{}", run.stderr());
    assert!(run.stdout().contains("inferences"), "what is left is imported: {}", run.stdout());
    let report = place.ortscope(&["report", "last"]).expect_code(0).stdout();
    assert!(report.contains("trace file"), "the loss is in the report: {report}");
    place.file("no.etl", vec![7u8; 100_000]);
    place.ortscope(&["import", "no.etl"]).expect_error(2, &["not an ETL file"]);
    place.ortscope(&["import", "absent.etl"]).expect_error(2, &["no file"]);
    place.file("empty.etl", "");
    place.ortscope(&["import", "empty.etl"]).expect_error(20, &["header"]);
    // By its content, whatever its name.
    place.file("renamed.bin", &whole);
    place.ortscope(&["import", "renamed.bin"]).expect_code(0);
    let runs = document(&place.ortscope(&["runs", "list", "--json"]).expect_code(0).stdout());
    assert_eq!(runs["recordings"].as_array().map_or(2, Vec::len), 2, "failures leave nothing behind");
}
