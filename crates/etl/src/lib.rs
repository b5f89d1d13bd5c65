//! Event Trace Log (`.etl`) files of Event Tracing for Windows, on every platform.
//!
//! The core does no I/O and has no `unsafe`: it takes bytes and returns [`EventRecord`]s that borrow from them.
//! [`EtlFile`] reads from disk in pieces with constant memory; [`EtlBytes`] reads memory or mapped files.
//! [`Etl::ordered`] returns all records in chronological order, [`Etl::unordered`] distributes them to several threads,
//! [`Etl::cut`] writes a part as a new file, and [`writer`] creates files.
//!
//! Damage is not an error: a truncated, unclosed or overwritten file is read as far as possible, and [`Losses`] has the
//! reason and the number of everything that is missing.
//!
//! ```
//! use std::io::Cursor;
//! use std::ops::ControlFlow;
//!
//! use ortscope_etl::writer::{Field, FileSettings, Place, Provider, TraceLoggingEvent, Value, Writer};
//! use ortscope_etl::{EtlBytes, EventDescriptor, FileTime, Guid};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A file with one event, on a clock of 10 MHz.
//! let start = FileTime::from_unix_ns(1_700_000_000_000_000_000);
//! let mut writer = Writer::new(Cursor::new(Vec::new()), FileSettings::new(1, 10_000_000, 0, start))?;
//! let provider = Provider { name: "Example".to_owned(), id: Guid::new(0x2a), group: None };
//! let fields = [Field::new("answer", Value::U32(42))];
//! let event =
//!     TraceLoggingEvent { provider: &provider, name: "Asked", descriptor: EventDescriptor::default(), fields: &fields };
//! writer.trace_logging(&Place::at(0, 15_000_000).in_thread(7, 8), &event)?;
//! let (file, _) = writer.finish()?;
//!
//! // Read it back: the header's own record, then the event.
//! let bytes = file.into_inner();
//! let file = EtlBytes::new(&bytes)?;
//! let mut times = Vec::new();
//! let walk = file.ordered(|record| {
//!     times.push(file.header().clock.nanos_since_start(record.ticks));
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(times, [0, 1_500_000_000]);
//! assert_eq!(walk.records, 2);
//! assert!(walk.losses.is_empty());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod buffer;
mod clock;
mod cursor;
mod cut;
mod etl;
mod guid;
mod header;
mod index;
mod le;
mod logfile_header;
mod losses;
mod merge;
mod parallel;
pub mod payload;
mod read_ahead;
mod record;
mod select;
mod storage;
pub mod writer;
mod xpress;

pub use buffer::{BufferHeader, buffer_flags, buffer_kinds};
pub use clock::{Clock, ClockKind, FileTime};
pub use cut::{Cut, CutError, Filter};
pub use etl::{Compression, Etl, EtlBytes, EtlError, Walk};
pub use guid::Guid;
pub use logfile_header::{LogFileHeader, TimeZone, log_file_modes};
pub use losses::{Damage, Losses, Reason, Skipped};
pub use record::{
    Classic, EventDescriptor, EventRecord, ExtendedItem, ExtendedItems, HeaderKind, Hook, Identity, Message,
    PointerSize,
};
pub use select::{Matcher, Selection, SelectionError};
pub use storage::{EtlFile, FileStorage, Storage};
pub use xpress::{XpressError, xpress_decompress};
