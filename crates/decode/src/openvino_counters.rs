//! The CSV file with layer times that ONNX Runtime's OpenVINO provider writes after every inference, one for each
//! compiled part.
//!
//! It is written when the variable `ORT_OPENVINO_PERF_COUNT` names a directory and the part was compiled with counters
//! (`backend_utils.cc` and `basic_backend.cc` in ONNX Runtime). Every inference overwrites the file. Names are cut after
//! 26 letters and not quoted, so a line is split from its end; layers are identified by their position.

use serde::Serialize;

/// Further lines are only counted; a network of that size is not compiled as one part.
const MAX_LAYERS: usize = 100_000;

/// Suffix of all such file names.
pub const FILE_SUFFIX: &str = "_perf_count.csv";

/// One file: the layers of a compiled part, in execution order.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OpenVinoCounters {
    pub layers: Vec<Layer>,
    pub unreadable_lines: u64,
    pub skipped_lines: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Layer {
    /// At most 29 letters: longer ones end with three dots.
    pub name: String,
    pub layer_type: String,
    /// The executed kernel: `jit_avx2_FP32`.
    pub exec_type: String,
    pub status: LayerStatus,
    /// On a CPU the mean of all inferences so far, on other devices the time of this inference.
    pub microseconds: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerStatus {
    #[default]
    Executed,
    NotRun,
    OptimizedOut,
}

/// Why a text is not such a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenVinoCountersError {
    #[error("the file is empty: the device has no counters, or the model was compiled without them")]
    Empty,
    #[error("the file is not an OpenVINO counter file: its first line is not '{HEADER}'")]
    Header,
}

const HEADER: &str = "Layer Name,Status,Layer Type,Real Time (us),Exec Type";

/// Whether a text begins like such a file.
pub fn is_counters(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').lines().next().is_some_and(|line| line.trim_end() == HEADER)
}

/// Reads a whole file.
pub fn read(text: &str) -> Result<OpenVinoCounters, OpenVinoCountersError> {
    if text.trim().is_empty() {
        return Err(OpenVinoCountersError::Empty);
    }
    if !is_counters(text) {
        return Err(OpenVinoCountersError::Header);
    }
    let mut read = OpenVinoCounters::default();
    for line in text.lines().skip(1).filter(|line| !line.trim().is_empty()) {
        if read.layers.len() >= MAX_LAYERS {
            read.skipped_lines += 1;
            continue;
        }
        match layer(line) {
            Some(layer) => read.layers.push(layer),
            None => read.unreadable_lines += 1,
        }
    }
    Ok(read)
}

/// A name may contain commas; the other columns do not.
fn layer(line: &str) -> Option<Layer> {
    let mut parts = line.trim_end().rsplitn(5, ',');
    let (exec_type, time, layer_type, status, name) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    Some(Layer {
        name: name.to_owned(),
        layer_type: layer_type.to_owned(),
        exec_type: exec_type.to_owned(),
        status: match status {
            "EXECUTED" => LayerStatus::Executed,
            "NOT_RUN" => LayerStatus::NotRun,
            "OPTIMIZED_OUT" => LayerStatus::OptimizedOut,
            _ => return None,
        },
        // A clock that went back gives a negative number, which is not a time.
        microseconds: time.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: &[&str]) -> String {
        format!("{HEADER}\n{}\n", lines.join("\n"))
    }

    #[test]
    fn layers_are_read_in_order_with_their_kernels() {
        let read = read(&file(&[
            "x,NOT_RUN,Parameter,0,unknown_f32",
            "/features/features.0/featu...,EXECUTED,Convolution,124,brgconv_avx2_f32",
            "a, name,EXECUTED,Reorder,7,jit_uni_f32",
            "/features/features.0/featu...,OPTIMIZED_OUT,Eltwise,0,undef",
        ]))
        .unwrap();
        assert_eq!((read.layers.len(), read.unreadable_lines, read.skipped_lines), (4, 0, 0));
        let seen: Vec<_> =
            read.layers.iter().map(|of| (of.name.as_str(), of.status, of.microseconds)).collect();
        assert_eq!(
            seen,
            [
                ("x", LayerStatus::NotRun, 0),
                ("/features/features.0/featu...", LayerStatus::Executed, 124),
                ("a, name", LayerStatus::Executed, 7),
                ("/features/features.0/featu...", LayerStatus::OptimizedOut, 0),
            ]
        );
        assert_eq!(
            (&*read.layers[1].layer_type, &*read.layers[1].exec_type),
            ("Convolution", "brgconv_avx2_f32")
        );
    }

    #[test]
    fn other_and_damaged_files_are_reported() {
        assert_eq!(read(""), Err(OpenVinoCountersError::Empty));
        assert_eq!(read("\n\n"), Err(OpenVinoCountersError::Empty));
        assert_eq!(read("Msg Timestamp,Message,Time\n0,NODE,5\n"), Err(OpenVinoCountersError::Header));
        let damaged = file(&[
            "a,EXECUTED,Conv,-3,x",
            "a,DREAMED,Conv,3,x",
            "EXECUTED,Conv,3,x",
            "b,EXECUTED,Conv,3,x",
            "c,EXEC",
        ]);
        let read = read(&damaged).unwrap();
        assert_eq!((read.layers.len(), read.unreadable_lines), (1, 4));
        let windows = super::read(&format!("\u{feff}{HEADER}\r\nb,EXECUTED,Conv,3,x\r\n")).unwrap();
        assert_eq!((&*windows.layers[0].exec_type, windows.layers.len()), ("x", 1));
    }

    #[test]
    fn layers_beyond_the_limit_are_counted() {
        let text = file(&["n,EXECUTED,Conv,1,x"]).lines().next().unwrap().to_owned()
            + &"\nn,EXECUTED,Conv,1,x".repeat(MAX_LAYERS + 3);
        let read = read(&text).unwrap();
        assert_eq!((read.layers.len(), read.skipped_lines), (MAX_LAYERS, 3));
    }
}
