//! ONNX Runtime's profiles: the JSON (Chrome trace format) that sessions with `enable_profiling` write, of the versions
//! 1.15 to 1.31.
//!
//! [`ProfileReader`] takes bytes in pieces and hands out borrowed [`ProfileEvent`]s; it does no I/O, allocates nothing per
//! event and holds one event at a time, however large the file is. It reads what strict parsers refuse (names that are
//! not escaped, stray commas, a file that is cut off) and counts everything it had to overlook in [`ProfileOutcome`].
//! [`ProfileRows`] turns events into rows of the schema: it finds the run and the sub-graph each one belongs to.

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

/// How to read a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileOptions {
    /// Size of an event. Default 4 MiB; larger ones are skipped and counted, their bytes are not kept.
    pub max_event_bytes: usize,
    /// The session's log said "Maximum number of events reached". Versions before 1.31 say so nowhere else; without it
    /// a profile counts as capped when it has exactly as many events as ONNX Runtime records at most.
    pub cap_reported: bool,
}

impl Default for ProfileOptions {
    fn default() -> Self {
        Self { max_event_bytes: 4 << 20, cap_reported: false }
    }
}

/// Size of the pieces that [`read_rows`] asks for.
const PIECE_BYTES: usize = 256 << 10;

/// Reads a whole profile from `input` and hands out its rows.
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
