//! Recognizes formats by their content.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use ortscope_core::units;
use ortscope_decode::perf_data;
use ortscope_etl::EtlFile;

use crate::ImportError;

/// Bytes of a text that are read to recognize it.
const HEAD_BYTES: u64 = 256 << 10;
/// Maximum size of a text that is read as a whole. A larger one is refused: a part of a profile would pass for all of it.
const MAX_TEXT: u64 = 1 << 30;
/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A format that can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    Etl,
    PerfData,
    /// A profile of ONNX Runtime. Also any text that is not recognized, because its reader explains what is wrong.
    OrtProfile,
    ChromeTrace,
    /// The CSV file of the QNN execution provider.
    QnnProfile,
    /// The analysis of QNN's profile viewer.
    Qhas,
}

pub(crate) fn format(path: &Path) -> Result<Format, ImportError> {
    if path.is_dir() {
        return Err(ImportError::Directory(path.to_owned()));
    }
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("etl")) {
        return Ok(Format::Etl);
    }
    let mut head = Vec::new();
    let mut open = || File::open(path)?.take(64).read_to_end(&mut head);
    open().map_err(|error| ImportError::io(path, error))?;
    // A trace begins with the size of its first buffer, which has a zero among its four bytes; text has none.
    if head.get(..4).is_some_and(|size| size.contains(&0)) && EtlFile::open(path).is_ok() {
        return Ok(Format::Etl);
    }
    if perf_data::is_perf_data(&head) {
        return Ok(Format::PerfData);
    }
    let mut text = Vec::new();
    let read = open_text(path)?.take(HEAD_BYTES).read_to_end(&mut text);
    // The reader of profiles explains what is wrong with a file that cannot be unpacked.
    Ok(if read.is_ok() { text_format(&String::from_utf8_lossy(&text)) } else { Format::OrtProfile })
}

fn text_format(head: &str) -> Format {
    let first = head.lines().next().unwrap_or_default();
    if ["Message", "Unit of Measurement", "Event Identifier"].iter().all(|column| first.contains(column)) {
        return Format::QnnProfile;
    }
    if head.contains("\"htp_overall_summary\"") || head.contains("\"qnn_op_instances_nodes\"") {
        return Format::Qhas;
    }
    // ONNX Runtime writes a list of events with these two categories.
    let is_profile = ["Session", "Node"].iter().any(|category| {
        ["\"cat\" : \"", "\"cat\": \"", "\"cat\":\""]
            .iter()
            .any(|key| head.contains(&format!("{key}{category}\"")))
    });
    let is_chrome =
        head.contains("\"traceEvents\"") || (head.contains("\"ph\"") && head.trim_start().starts_with('['));
    if is_chrome && !is_profile { Format::ChromeTrace } else { Format::OrtProfile }
}

/// Opens a text file, plain or gzip.
pub(crate) fn open_text(path: &Path) -> Result<Box<dyn Read>, ImportError> {
    let failed = |error| ImportError::io(path, error);
    let mut file = File::open(path).map_err(failed)?;
    let mut head = [0; 2];
    let known = file.read(&mut head).map_err(failed)?;
    let whole = Cursor::new(head[..known].to_vec()).chain(file);
    Ok(if head == GZIP { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) })
}

/// The whole text of a file, plain or gzip.
pub(crate) fn whole_text(path: &Path) -> Result<String, ImportError> {
    text_up_to(open_text(path)?, MAX_TEXT, path)
}

fn text_up_to(input: impl Read, max: u64, path: &Path) -> Result<String, ImportError> {
    let mut text = Vec::new();
    input.take(max + 1).read_to_end(&mut text).map_err(|error| ImportError::io(path, error))?;
    if text.len() as u64 > max {
        return Err(ImportError::TooLarge {
            path: path.to_owned(),
            size: format!("more than {} of text", units::bytes(max as f64)),
            hint: "profile fewer executions",
        });
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file above the limit was once cut silently.
    #[test]
    fn a_text_above_the_limit_is_refused() {
        let path = Path::new("qnn.csv");
        assert_eq!(text_up_to(&b"12345"[..], 5, path).expect("it fits"), "12345");
        let error = text_up_to(&b"123456"[..], 5, path).expect_err("it does not fit");
        assert!(matches!(error, ImportError::TooLarge { .. }));
        let text = error.to_string();
        assert!(text.contains("qnn.csv") && text.contains("5 B"), "{text}");
    }

    #[test]
    fn text_formats_are_recognized_by_their_beginning() {
        let ort = r#"[{"cat" : "Session","pid" :1,"tid" :1,"dur" :5,"ts" :1,"ph" : "X","name" :"model_loading_uri","args" : {}},"#;
        let qnn =
            "Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier\n";
        for (text, format) in [
            (ort, Format::OrtProfile),
            (r#"{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op"}]}"#, Format::ChromeTrace),
            (" [\n{\"name\":\"x\",\"ph\":\"X\"}", Format::ChromeTrace),
            (qnn, Format::QnnProfile),
            (r#"{"data":{"htp_overall_summary":{"data":[]}}}"#, Format::Qhas),
            ("", Format::OrtProfile),
            ("hello", Format::OrtProfile),
            ("{}", Format::OrtProfile),
        ] {
            assert_eq!(text_format(text), format, "{text}");
        }
    }
}
