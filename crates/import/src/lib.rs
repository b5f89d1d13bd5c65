//! Files of other tools as sources of the pipeline.
//!
//! [`open`] recognizes a file and returns an [`Import`]. [`Import::source`] turns it into a [`Source`] whose rows go through
//! the ordinary pipeline, and a [`Handle`] that reports progress and, at the end, the [`Summary`]. The emitter waits when the
//! pipeline is full, so that no row of a file is lost.
//!
//! ```no_run
//! use ortscope_core::pipeline::Pipeline;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let import = ortscope_import::open("trace.etl".as_ref())?;
//! let (source, handle) = import.source(ortscope_core::clock::now_ns());
//! let running = Pipeline::default().source(source).start()?;
//! let summary = handle.finish(|progress| eprintln!("{} events", progress.done()))?;
//! running.join();
//! println!("{}", summary.lines.join("\n"));
//! # Ok(())
//! # }
//! ```

mod chrome;
mod detect;
mod error;
mod etl;
pub mod etl_text;
pub mod ort_profile;
mod output;
mod perf;
mod qhas;
mod qnn;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Control, CostClass, Emitter, Source, SourceError, SourceInfo, WhenFull};
use ortscope_etl::EtlFile;
use serde_json::Value;

pub use detect::Format;
pub use error::{FORMATS, ImportError};
use output::Output;
pub use output::Progress;

/// How often [`Handle::finish`] reports progress.
const PROGRESS_PERIOD: Duration = Duration::from_millis(100);

/// The result of an import.
#[derive(Debug)]
pub struct Summary {
    /// The facts about the imported file, to be kept with the recording and printed by `--json`.
    pub document: Value,
    /// The same for people.
    pub lines: Vec<String>,
    pub warnings: Vec<String>,
    /// The time from the first to the last event, where the file has one.
    pub span_ns: Option<u64>,
    /// Records of the file are missing or unreadable.
    pub is_incomplete: bool,
}

/// Reads one format.
trait Reader: Send {
    /// Facts about the machine that made the file.
    fn fingerprint(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Emits all rows.
    fn read(&mut self, out: &mut Output<'_>) -> Result<Summary, ImportError>;
}

/// A file that was recognized and can be opened.
pub struct Import {
    path: PathBuf,
    format: Format,
    reader: Box<dyn Reader>,
}

impl std::fmt::Debug for Import {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Import")
            .field("path", &self.path)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

/// Opens an ETL file.
pub fn open_etl(path: &Path) -> Result<EtlFile, ImportError> {
    EtlFile::open(path).map_err(|error| ImportError::not_opened(path, error))
}

/// Recognizes a file by its content. Content errors may show only when the file is read.
pub fn open(path: &Path) -> Result<Import, ImportError> {
    let format = detect::format(path)?;
    let file = path.to_owned();
    let reader: Box<dyn Reader> = match format {
        Format::Etl => Box::new(etl::EtlReader { file: open_etl(path)?, path: file }),
        Format::PerfData => Box::new(perf::PerfReader { path: file }),
        Format::OrtProfile => Box::new(ort_profile::ProfileImport { path: file }),
        Format::ChromeTrace => Box::new(chrome::ChromeReader { path: file }),
        Format::QnnProfile => Box::new(qnn::QnnReader { path: file }),
        Format::Qhas => Box::new(qhas::QhasReader { path: file }),
    };
    Ok(Import { path: path.to_owned(), format, reader })
}

impl Import {
    pub fn format(&self) -> Format {
        self.format
    }

    /// The file's name without its directory.
    pub fn file_name(&self) -> String {
        self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Facts about the machine that made the file, where the file names it.
    pub fn fingerprint(&self) -> BTreeMap<String, String> {
        self.reader.fingerprint()
    }

    /// The source of the file's rows. The first event of the file is placed at `start_ns`: most formats do not say when they
    /// were made on a clock that other recordings share.
    pub fn source(self, start_ns: u64) -> (ImportSource, Handle) {
        let (sender, receiver) = sync_channel(1);
        let progress = Arc::new(Progress::default());
        let info = SourceInfo {
            name: "import",
            tracks: Vec::new(),
            cost: CostClass::Free,
            when_full: WhenFull::Wait,
        };
        let file_name = self.file_name();
        let source = ImportSource {
            info,
            file_name,
            reader: self.reader,
            start_ns,
            progress: Arc::clone(&progress),
            done: sender,
        };
        (source, Handle { progress, result: receiver })
    }
}

/// A file as a source of the pipeline.
pub struct ImportSource {
    info: SourceInfo,
    file_name: String,
    reader: Box<dyn Reader>,
    start_ns: u64,
    progress: Arc<Progress>,
    done: SyncSender<Result<Summary, ImportError>>,
}

impl std::fmt::Debug for ImportSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImportSource").field("file_name", &self.file_name).finish_non_exhaustive()
    }
}

impl Source for ImportSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn probe(&mut self) -> Availability {
        Availability::Ready
    }

    fn run(&mut self, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
        let mut output = Output::new(out, control, &self.progress, self.start_ns, &self.file_name);
        let result = self.reader.read(&mut output);
        out.flush();
        let failed = result.as_ref().err().map(|error| SourceError::Failed(error.to_string()));
        // Nobody waits for the result if the handle was dropped.
        self.done.send(result).ok();
        failed.map_or(Ok(()), Err)
    }
}

/// The other end of an [`ImportSource`].
#[derive(Debug)]
pub struct Handle {
    progress: Arc<Progress>,
    result: Receiver<Result<Summary, ImportError>>,
}

impl Handle {
    /// Waits until the file was read, and reports progress meanwhile. The rows may still be on their way through the pipeline.
    pub fn finish(self, mut on_progress: impl FnMut(&Progress)) -> Result<Summary, ImportError> {
        loop {
            match self.result.recv_timeout(PROGRESS_PERIOD) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => on_progress(&self.progress),
                // The source panicked; the pipeline's report has the message.
                Err(RecvTimeoutError::Disconnected) => return Err(ImportError::Stopped),
            }
        }
    }
}
