//! Makes the malformed files: every reader's format, cut, flipped, overlong, nested, cyclic, and full of numbers at their
//! ends.

use crate::support::{models, onnx};

/// A malformed file, and the command that is given its path at the end.
pub struct Malformed {
    pub name: String,
    pub bytes: Vec<u8>,
    pub command: &'static [&'static str],
}

pub const INSPECT: &[&str] = &["inspect"];
const IMPORT: &[&str] = &["import"];
const SHOW: &[&str] = &["runs", "show"];
const STATS: &[&str] = &["etl", "stats"];
const CONFIG: &[&str] = &["config", "show", "--config"];

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A field that claims to have this many bytes and has a few.
fn claiming(field: u64, length: u64) -> Vec<u8> {
    [varint(field << 3 | 2), varint(length), b"few".to_vec()].concat()
}

/// Messages inside of messages: `path` are the fields that lead one level down, the innermost is empty.
fn nested(path: &[u64], levels: usize) -> Vec<u8> {
    // From the inside out, written backwards: each head stands before what is there already.
    let mut reversed: Vec<u8> = Vec::new();
    for level in (0..levels).rev() {
        let head = [varint(path[level % path.len()] << 3 | 2), varint(reversed.len() as u64)].concat();
        reversed.extend(head.iter().rev());
    }
    reversed.reverse();
    reversed
}

/// Two nodes that wait for each other, and one that waits for itself.
fn cyclic() -> Vec<u8> {
    let of = onnx::tensor_type(1, &[onnx::Dim::Fixed(2)]);
    onnx::Graph::default()
        .node(&onnx::node("Add", &["x", "b"], &["a"]))
        .node(&onnx::node("Add", &["x", "a"], &["b"]))
        .node(&onnx::node("Identity", &["self"], &["self"]))
        .input("x", &of)
        .output("b", &of)
        .model()
}

/// A weight whose shape is larger than any memory, or no shape at all.
fn impossible_weight(dims: &[i64]) -> Vec<u8> {
    let of = onnx::tensor_type(1, &[onnx::Dim::Fixed(2)]);
    onnx::Graph::default()
        .node(&onnx::node("Add", &["x", "w"], &["y"]))
        .initializer(&onnx::initializer("w", 1, dims, &[0; 8]))
        .input("x", &of)
        .output("y", &of)
        .model()
}

/// The few models that `run` is tried with too: what our reader lets pass goes to ONNX Runtime, in the worker.
pub fn models_to_run() -> Vec<Malformed> {
    let model = |name: &str, bytes| Malformed { name: format!("{name}.onnx"), bytes, command: INSPECT };
    let whole = models::decoder();
    vec![
        model("cyclic", cyclic()),
        model("huge-weight", impossible_weight(&[1 << 40, 1 << 20])),
        model("overflowing-weight", impossible_weight(&[1 << 62, 1 << 62])),
        model("negative-weight", impossible_weight(&[-1])),
        model("wrong-weight", impossible_weight(&[3, 5])),
        model("claims", claiming(7, 1 << 62)),
        model("claims-behind", [whole.clone(), claiming(7, u64::MAX)].concat()),
        model("nested-graphs", nested(&[7, 1, 5, 6], 1_000_000)),
        model("nested-types", nested(&[7, 11, 2, 4, 1], 100_000)),
        model("cut", whole[..whole.len() / 2].to_vec()),
        model(
            "name",
            onnx::Graph::default().node(&onnx::node("A\u{1b}[2J\nerror: b", &["x"], &["y"])).model(),
        ),
    ]
}

pub fn models_that_are_none() -> Vec<Malformed> {
    let mut files = models_to_run();
    let mut add = |name: String, bytes: Vec<u8>| {
        files.push(Malformed { name: format!("{name}.onnx"), bytes, command: INSPECT });
    };
    let whole = models::decoder();
    for share in 0..32 {
        add(format!("cut-{share}"), whole[..whole.len() * share / 32].to_vec());
    }
    for length in [1 << 31, 1 << 62, 1 << 63, u64::MAX] {
        for field in [1, 7, 8, 14] {
            add(format!("claims-{field}-{length:x}"), claiming(field, length));
        }
    }
    // Varints that never end, and keys of field zero or of types that there are not.
    for (name, bytes) in [
        ("endless", vec![0xff; 4096]),
        ("eleven", [vec![0x08], vec![0x80; 10], vec![1]].concat()),
        ("field-zero", vec![0x00; 64]),
        ("group", vec![0x0b; 64]),
        ("type-7", vec![0x0f; 64]),
        ("zeros", vec![0; 65_536]),
    ] {
        add(name.to_owned(), bytes);
    }
    // Graph, node, attribute, graph … and the same with types, to the depth at which a stack would end.
    for levels in [100, 1000, 100_000] {
        add(format!("nested-graphs-{levels}"), nested(&[7, 1, 5, 6], levels));
        add(format!("nested-types-{levels}"), nested(&[7, 11, 2, 4, 1], levels));
        add(format!("nested-one-field-{levels}"), nested(&[7], levels));
    }
    for step in 0..24 {
        let mut bytes = whole.clone();
        let at = bytes.len() * step / 24;
        bytes[at] ^= 0xff;
        add(format!("flipped-{step}"), bytes);
    }
    files
}

const EVENT: &str = r#"{"cat":"Node","pid":1,"tid":1,"dur":5,"ts":10,"ph":"X","name":"a_kernel_time","args":{"op_name":"Conv"}}"#;

pub fn texts_that_are_none() -> Vec<Malformed> {
    let mut files = Vec::new();
    let mut add = |name: String, bytes: Vec<u8>| files.push(Malformed { name, bytes, command: IMPORT });
    let with = |from: &str, to: &str| format!("[{}]", EVENT.replace(from, to));
    let whole = format!("[\n{}\n]\n", vec![EVENT; 20].join(",\n")).into_bytes();
    for share in 0..16 {
        add(format!("cut-{share}.json"), whole[..whole.len() * share / 16].to_vec());
    }
    let trace = |rest: &str| format!("{{\"traceEvents\":[{rest}");
    let qhas = |rest: &str| format!("{{\"data\":{{\"htp_overall_summary\":{rest}");
    for (name, text) in [
        ("deep-lists", "[".repeat(1_000_000)),
        ("deep-objects", "{\"a\":".repeat(500_000)),
        ("long-text", format!("[{{\"cat\":\"{}\"", "x".repeat(6 << 20))),
        ("huge-numbers", with("\"dur\":5", "\"dur\":1e999")),
        ("huge-times", with("\"ts\":10", "\"ts\":99999999999999999999999999")),
        ("negative", with("\"ts\":10", "\"ts\":-9223372036854775809")),
        ("null-name", with("\"a_kernel_time\"", "null")),
        ("zero-letter", with("Conv", "a\\u0000b")),
        ("half-surrogate", with("Conv", "\\ud800")),
        ("not-a-list", "{\"traceEvents\":7}".into()),
        ("numbers", "[1,2,3,4]".into()),
        ("spaces", " ".repeat(100_000)),
        ("commas", format!("[{}", ",".repeat(100_000))),
        ("chrome-deep", trace(&"[".repeat(500_000))),
        ("chrome-long", trace(&format!("{{\"ph\":\"X\",\"name\":\"{}", "x".repeat(20 << 20)))),
        (
            "chrome-times",
            trace("{\"ph\":\"X\",\"ts\":-1.7e308,\"dur\":1e300},{\"ph\":\"i\",\"ts\":1.7e308}]}"),
        ),
        ("chrome-open", trace(&"{\"ph\":\"B\",\"ts\":1},".repeat(50_000))),
        (
            "chrome-names",
            trace("{\"ph\":\"M\",\"name\":\"process_name\",\"args\":[]},{\"ph\":7},{},null,3]}"),
        ),
        ("qhas-empty", qhas("{}}}")),
        ("qhas-deep", qhas(&"[".repeat(200_000))),
        ("qhas-numbers", qhas("{\"data\":[{\"time_us\":-1e400,\"timeline_cycles\":-5}]}}}")),
    ] {
        add(format!("{name}.json"), text.into_bytes());
    }
    let mut not_text = whole;
    for at in (0..not_text.len()).step_by(97) {
        not_text[at] = 0xff;
    }
    add("not-utf-8.json".into(), not_text);
    add("not-gzip.json".into(), b"\x1f\x8b\x08\0\0\0\0\0\0\0\xff\xff\xff".to_vec());
    let head = "Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier\n";
    for (name, rest) in [
        ("nothing", String::new()),
        ("short", "1,2,3\n".to_owned()),
        ("numbers", "0,EXECUTE,99999999999999999999999,CYCLES,BACKEND,ROOT,a:OpId_1 (cycles)\n".repeat(9)),
        ("sums", format!("0,EXECUTE,{},CYCLES,BACKEND,SUB-EVENT,a:OpId_1 (cycles)\n", u64::MAX).repeat(9)),
        ("quotes", "\"\"\"\",\"\",,,,,\"\n".repeat(1000)),
        ("zeros", "\0".repeat(10_000)),
    ] {
        add(format!("qnn-{name}.csv"), format!("{head}{rest}").into_bytes());
    }
    files
}

/// A file of `perf record` with one attribute and these records.
fn perf_data(entry_bytes: u64, records_bytes: u64, records: &[u8]) -> Vec<u8> {
    let words = [104, entry_bytes, 104, 144, 248, records_bytes];
    let mut bytes = b"PERFILE2".to_vec();
    words.iter().for_each(|word: &u64| bytes.extend(word.to_le_bytes()));
    bytes.resize(104 + 144, 0);
    // What samples hold: all that there is.
    bytes[104 + 24..104 + 32].copy_from_slice(&0x103ff_u64.to_le_bytes());
    bytes.extend_from_slice(records);
    bytes
}

/// Traces, packed recordings and files of perf: heads that are right, and nothing behind them that is.
pub fn binaries_that_are_none(packed: &[u8]) -> Vec<Malformed> {
    let mut files = Vec::new();
    let mut add = |name: String, bytes: Vec<u8>, command| files.push(Malformed { name, bytes, command });
    for share in 0..24 {
        let at = packed.len() * share / 24;
        add(format!("cut-{share}.ortscope"), packed[..at].to_vec(), SHOW);
        let mut bytes = packed.to_vec();
        bytes[at] ^= 0x41;
        add(format!("flipped-{share}.ortscope"), bytes, SHOW);
    }
    for fill in [0_u8, 1, 0xff] {
        for length in [0, 1, 8, 71, 4096, 65_536] {
            // As long as a buffer claims to be, with the rest of its head filled.
            let mut bytes = vec![fill; length];
            let head = [0x00, 0x10, 0, 0, 0x00, 0x10, 0, 0];
            let known = head.len().min(length);
            bytes[..known].copy_from_slice(&head[..known]);
            add(format!("trace-{fill}-{length}.etl"), bytes, STATS);
        }
    }
    let mut record = vec![9, 0, 0, 0, 0, 0, 0xf8, 0xff];
    record.resize(0xfff8, 0xff);
    for (name, bytes) in [
        ("empty", b"PERFILE2".to_vec()),
        ("pipe", [b"PERFILE2".to_vec(), 16_u64.to_le_bytes().to_vec()].concat()),
        ("no-entries", perf_data(0, 8, &[0; 8])),
        ("huge-entries", perf_data(u64::MAX, 8, &[0; 8])),
        ("huge-records", perf_data(144, u64::MAX - 200, &[0; 8])),
        ("zero-records", perf_data(144, 800, &[0; 800])),
        ("full-records", perf_data(144, 4 * 0xfff8, &record.repeat(4))),
        ("cut-record", perf_data(144, 0xfff8, &record[..100])),
    ] {
        add(format!("{name}.perf"), bytes, IMPORT);
    }
    files
}

pub fn configurations_that_are_none() -> Vec<Malformed> {
    let texts = [
        ("deep-lists", format!("a = {}", "[".repeat(100_000))),
        ("deep-tables", format!("a = {}", "{b=".repeat(100_000))),
        ("deep-keys", format!("[{}a]", "a.".repeat(100_000))),
        ("not-a-number", "[run]\nprecision = nan\n".to_owned()),
        ("infinite", "[monitoring.cpu]\nsampling_hz = inf\n".to_owned()),
        ("long-key", format!("{} = 1\n", "k".repeat(500_000))),
        ("long-file", "# a comment\n".repeat(200_000)),
        ("escape", "\u{1b}[2J = 1\n".to_owned()),
        ("zeros", "\0".repeat(1000)),
        ("twice", "[run]\n[run]\n".to_owned()),
        ("date", "[run]\nthreads = 1979-05-27T07:32:00Z\n".to_owned()),
    ];
    let file = |(name, text): (&str, String)| Malformed {
        name: format!("{name}.toml"),
        bytes: text.into_bytes(),
        command: CONFIG,
    };
    let mut files: Vec<Malformed> = texts.into_iter().map(file).collect();
    let bytes = vec![0xff; 1000];
    files.push(Malformed { name: "not-utf-8.toml".into(), bytes, command: CONFIG });
    files
}
