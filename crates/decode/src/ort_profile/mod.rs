//! ONNX Runtime profiles: the JSON (Chrome trace format) that sessions with `enable_profiling` write, for versions 1.15
//! to 1.31.
//!
//! [`ProfileReader`] takes bytes in pieces and emits borrowed [`ProfileEvent`]s; it does no I/O, allocates nothing per
//! event and holds one event at a time, however large the file is. It accepts what strict parsers reject (unescaped
//! names, stray commas, truncated files) and counts all irregularities in [`ProfileOutcome`]. [`ProfileRows`] converts
//! events to rows of the schema: it finds the run and the subgraph of each event.

mod cache;
mod device;
mod escapes;
mod event;
mod fast;
mod fields;
mod frame;
mod keys;
mod number;
mod outcome;
mod reader;
mod rows;
mod shapes;
mod sniff;
mod tally;
mod thread_stats;
mod tolerant;
mod words;
mod wrapper;

use std::io::{self, Read};

use ortscope_core::schema::OperatorRow;

pub use device::device_of;
pub use event::{EventKind, MemoryStats, ProfileEvent};
pub use outcome::{NotAProfile, Problem, ProfileOutcome, VersionHint};
pub use reader::ProfileReader;
pub use rows::{ProfileRows, ProfileStart, RowOptions, RowSummary};
pub use shapes::TypesAndShapes;
pub use thread_stats::ThreadStats;

/// Options for reading a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileOptions {
    /// Limit for the size of an event. Default 4 MiB; larger ones are skipped and counted without being buffered.
    pub max_event_bytes: usize,
    /// The session's log reported "Maximum number of events reached". Versions before 1.31 report it nowhere else;
    /// without this a profile counts as capped if it has exactly ONNX Runtime's maximum number of events.
    pub cap_reported: bool,
}

impl Default for ProfileOptions {
    fn default() -> Self {
        Self { max_event_bytes: 4 << 20, cap_reported: false }
    }
}

/// Size of the pieces that [`read_rows`] reads.
const PIECE_BYTES: usize = 256 << 10;

/// Reads a whole profile from `input` and emits its rows.
pub fn read_rows(
    mut input: impl Read,
    options: ProfileOptions,
    row_options: RowOptions,
    out: &mut impl FnMut(OperatorRow),
) -> io::Result<(ProfileOutcome, RowSummary)> {
    let mut reader = ProfileReader::new(options);
    let mut rows = ProfileRows::new(row_options);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match input.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => {
                let bytes = piece.get(..length).unwrap_or_default();
                reader.feed(bytes, &mut |event| rows.push(&event, out));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let outcome = reader.finish(&mut |event| rows.push(&event, out));
    Ok((outcome, rows.finish(out)))
}
