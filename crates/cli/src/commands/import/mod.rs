//! `ortscope import`: a recording from another tool's file.

mod batches;
mod chrome;
mod frame;
mod perf;
mod profile;
mod qhas;
mod qnn;
mod series;
mod summary;
mod trace;
mod trace_rows;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use trace::{Imported, import_trace};

use crate::args::{GlobalArgs, ImportArgs};
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;
use ortscope_core::units;

pub fn run(args: &ImportArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if is_trace(&args.file) {
        return trace::run(args, global, terminal);
    }
    if begins_as_perf_data(&args.file) {
        return perf::run(args, global, terminal);
    }
    match kind_of_text(&args.file) {
        Kind::Profile => profile::run(args, global, terminal),
        Kind::Qnn => qnn::run(args, &whole_text(&args.file)?, global, terminal),
        Kind::Qhas => qhas::run(args, &whole_text(&args.file)?, global, terminal),
        Kind::Chrome => chrome::run(args, opened(&args.file)?, global, terminal),
    }
}

fn begins_as_perf_data(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(8).read_to_end(&mut start));
    read.is_ok() && ortscope_decode::perf_data::is_perf_data(&start)
}

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Of ONNX Runtime; also what is nothing of the others, so that its reader says what is wrong.
    Profile,
    Chrome,
    Qnn,
    Qhas,
}

/// What is looked at to tell texts apart.
const LOOK_BYTES: u64 = 256 << 10;
/// A profile of QNN is read at once.
const MAX_TEXT: u64 = 1 << 30;

/// Unpacked; more than is read at once is refused, since half of a profile would pass for the whole.
fn whole_text(path: &Path) -> Result<String, Failure> {
    text_up_to(opened(path)?, MAX_TEXT, path)
}

fn text_up_to(input: impl Read, most: u64, path: &Path) -> Result<String, Failure> {
    let mut text = Vec::new();
    input.take(most + 1).read_to_end(&mut text)?;
    if text.len() as u64 > most {
        let message = format!("'{}' has more than {} of text", path.display(), units::bytes(most as f64));
        return Err(Failure::usage(message).with_hint("profile fewer executions"));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Plain or gzip.
fn opened(path: &Path) -> Result<Box<dyn Read>, Failure> {
    let mut file = fs_err::File::open(path)?;
    let mut head = [0; 2];
    let known = file.read(&mut head)?;
    let whole = std::io::Cursor::new(head[..known].to_vec()).chain(file);
    let is_gzip = head == [0x1f, 0x8b];
    Ok(if is_gzip { Box::new(flate2::read::MultiGzDecoder::new(whole)) } else { Box::new(whole) })
}

fn kind_of_text(path: &Path) -> Kind {
    let mut start = Vec::new();
    // What cannot be opened or unpacked is refused by the reader of profiles, in a sentence.
    if !path.is_file()
        || opened(path).and_then(|file| Ok(file.take(LOOK_BYTES).read_to_end(&mut start)?)).is_err()
    {
        return Kind::Profile;
    }
    kind_of(&String::from_utf8_lossy(&start))
}

fn kind_of(start: &str) -> Kind {
    let first = start.lines().next().unwrap_or_default();
    if ["Message", "Unit of Measurement", "Event Identifier"].iter().all(|column| first.contains(column)) {
        return Kind::Qnn;
    }
    if start.contains("\"htp_overall_summary\"") || start.contains("\"qnn_op_instances_nodes\"") {
        return Kind::Qhas;
    }
    // ONNX Runtime writes a list of events of these two categories.
    let is_profile = ["Session", "Node"].iter().any(|category| {
        ["\"cat\" : \"", "\"cat\": \"", "\"cat\":\""]
            .iter()
            .any(|key| start.contains(&format!("{key}{category}\"")))
    });
    let is_chrome = start.contains("\"traceEvents\"")
        || (start.contains("\"ph\"") && start.trim_start().starts_with('['));
    if is_chrome && !is_profile { Kind::Chrome } else { Kind::Profile }
}

/// What can be imported, for hints.
pub const READS: &str = "'ortscope import' reads profiles of ONNX Runtime (JSON, enable_profiling) and of QNN (CSV, QHAS), traces of chrome://tracing (JSON), of Windows (.etl) and of Linux (perf.data)";

/// A file that is none of those that can be imported.
fn unknown(path: &Path, why: &str) -> Failure {
    Failure::usage(format!("'{}' cannot be imported: {why}", path.display())).with_hint(READS)
}

/// By its name; a file with another name by what it begins with: text is a profile.
fn is_trace(path: &Path) -> bool {
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("etl")) {
        return true;
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut start));
    // A trace begins with the size of its first buffer, which has a zero among its four bytes.
    read.is_ok()
        && start.get(..4).is_some_and(|size| size.contains(&0))
        && ortscope_etl::EtlFile::open(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once a file above the limit was cut without a word.
    #[test]
    fn a_text_above_the_limit_is_refused() {
        let path = Path::new("qnn.csv");
        assert_eq!(text_up_to(&b"12345"[..], 5, path).expect("it fits"), "12345");
        let failure = text_up_to(&b"123456"[..], 5, path).expect_err("it does not fit");
        assert_eq!(failure.kind, crate::exit::FailureKind::Usage);
        assert!(
            failure.message.contains("qnn.csv") && failure.message.contains("5 B"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn texts_are_told_apart_by_how_they_begin() {
        let ort = r#"[{"cat" : "Session","pid" :1,"tid" :1,"dur" :5,"ts" :1,"ph" : "X","name" :"model_loading_uri","args" : {}},"#;
        assert_eq!(kind_of(ort), Kind::Profile);
        assert_eq!(
            kind_of(r#"{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op"}]}"#),
            Kind::Chrome
        );
        assert_eq!(kind_of(" [\n{\"name\":\"x\",\"ph\":\"X\"}"), Kind::Chrome);
        assert_eq!(
            kind_of(
                "Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier\n"
            ),
            Kind::Qnn
        );
        assert_eq!(kind_of(r#"{"data":{"htp_overall_summary":{"data":[]}}}"#), Kind::Qhas);
        assert_eq!(
            (kind_of(""), kind_of("hello"), kind_of("{}")),
            (Kind::Profile, Kind::Profile, Kind::Profile)
        );
    }
}
