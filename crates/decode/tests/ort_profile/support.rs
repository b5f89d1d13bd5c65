//! Shared by the tests: the recorded profiles, and events in ONNX Runtime's format.

use std::fmt::Write as _;
use std::path::Path;

use ortscope_core::schema::OperatorRow;
use ortscope_decode::ort_profile::{
    ProfileOptions, ProfileOutcome, ProfileReader, RowOptions, RowSummary, read_rows,
};

pub(crate) const VERSIONS: [&str; 7] = ["1.15.1", "1.17.3", "1.20.1", "1.24.4", "1.26.0", "1.28.0", "1.31.1"];

/// A recorded profile.
pub(crate) fn profile(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ort_profile");
    std::fs::read(folder.join(format!("{name}.json"))).expect("the profile is in the repository")
}

/// Every event as text, read in pieces of these sizes (the last one repeats), and the result.
pub(crate) fn read_in_pieces(
    bytes: &[u8],
    sizes: &[usize],
    options: &ProfileOptions,
) -> (Vec<String>, ProfileOutcome) {
    let mut events = Vec::new();
    let mut out = |event: ortscope_decode::ort_profile::ProfileEvent<'_>| events.push(format!("{event:?}"));
    let mut reader = ProfileReader::new(options.clone());
    let mut rest = bytes;
    let mut sizes = sizes.iter().copied();
    let mut size = 1;
    while !rest.is_empty() {
        size = sizes.next().unwrap_or(size).max(1);
        let (piece, later) = rest.split_at(size.min(rest.len()));
        reader.feed(piece, &mut out);
        rest = later;
    }
    let outcome = reader.finish(&mut out);
    (events, outcome)
}

pub(crate) fn read(bytes: &[u8]) -> (Vec<String>, ProfileOutcome) {
    read_in_pieces(bytes, &[bytes.len()], &ProfileOptions::default())
}

pub(crate) fn outcome(bytes: &[u8]) -> ProfileOutcome {
    read(bytes).1
}

pub(crate) fn rows(bytes: &[u8], options: RowOptions) -> (Vec<OperatorRow>, ProfileOutcome, RowSummary) {
    let mut rows = Vec::new();
    let result = read_rows(bytes, ProfileOptions::default(), options, &mut |row| rows.push(row));
    let (outcome, summary) = result.expect("memory can be read");
    (rows, outcome, summary)
}

/// Writes events like ONNX Runtime.
#[derive(Debug, Clone, Default)]
pub(crate) struct Writer {
    pub(crate) events: Vec<String>,
}

impl Writer {
    pub(crate) fn event(
        mut self,
        category: &str,
        thread: i64,
        (start, end): (i64, i64),
        name: &str,
        args: &[(&str, &str)],
    ) -> Self {
        let duration = end - start;
        let mut text = format!(
            "{{\"cat\" : \"{category}\",\"pid\" :7,\"tid\" :{thread},\"dur\" :{duration},\"ts\" :{start},\"ph\" : \
             \"X\",\"name\" :\"{name}\",\"args\" : {{"
        );
        for (at, (key, value)) in args.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let quote = if value.starts_with(['[', '{']) { "" } else { "\"" };
            write!(text, "{comma}\"{key}\" : {quote}{value}{quote}").expect("memory can be written");
        }
        text.push_str("}}");
        self.events.push(text);
        self
    }

    pub(crate) fn node(self, thread: i64, span: (i64, i64), name: &str, op_type: &str) -> Self {
        let args = [("op_name", op_type), ("provider", "CPUExecutionProvider"), ("node_index", "3")];
        self.event("Node", thread, span, &format!("{name}_kernel_time"), &args)
    }

    pub(crate) fn executor(self, thread: i64, span: (i64, i64)) -> Self {
        self.event("Session", thread, span, "SequentialExecutor::Execute", &[])
    }

    pub(crate) fn run(self, thread: i64, span: (i64, i64)) -> Self {
        self.event("Session", thread, span, "model_run", &[])
    }

    /// The file with all events.
    pub(crate) fn file(&self) -> Vec<u8> {
        format!("[\n{}\n]\n", self.events.join(",\n")).into_bytes()
    }
}
