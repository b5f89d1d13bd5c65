//! What to export, and as what.

use std::path::Path;

use ortscope_core::filter::Filter;
use ortscope_core::schema::TableId;

use crate::error::ExportError;

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// One document with every table.
    Json,
    /// One object per line.
    JsonLines,
    /// One file per table.
    Csv,
    /// One file per table.
    Parquet,
    /// One database.
    Sqlite,
    /// Trace events for Perfetto, chrome://tracing, the Firefox Profiler and speedscope.
    Chrome,
    /// The same as Perfetto's own packets: smaller, times in whole nanoseconds.
    Perfetto,
    /// Metrics at the end of the recording, as Prometheus's text.
    Prometheus,
    /// A directory for TensorBoard: scalars, histograms, texts, and operators for its Profile tab.
    TensorBoard,
    /// A trace of Event Tracing for Windows, one event per row.
    Etl,
    /// Parquet in a directory that many machines share.
    Fleet,
}

impl Format {
    pub const ALL: &'static [Self] = &[
        Self::Json,
        Self::JsonLines,
        Self::Csv,
        Self::Parquet,
        Self::Sqlite,
        Self::Chrome,
        Self::Perfetto,
        Self::Prometheus,
        Self::TensorBoard,
        Self::Etl,
        Self::Fleet,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::JsonLines => "jsonl",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Sqlite => "sqlite",
            Self::Chrome => "chrome",
            Self::Perfetto => "perfetto",
            Self::Prometheus => "prometheus",
            Self::TensorBoard => "tensorboard",
            Self::Etl => "etl",
            Self::Fleet => "fleet",
        }
    }

    /// The format of this name; an error lists the names there are.
    pub fn from_name(name: &str) -> Result<Self, ExportError> {
        Self::named(name).ok_or_else(|| {
            let shown: String = name.chars().take(40).collect::<String>().escape_debug().collect();
            ExportError::usage(format!("there is no export format '{shown}'"), known_formats())
        })
    }

    fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "ndjson" | "json-lines" => Some(Self::JsonLines),
            "sqlite3" | "db" => Some(Self::Sqlite),
            "trace" | "chrome-trace" => Some(Self::Chrome),
            "pftrace" | "perfetto-trace" => Some(Self::Perfetto),
            "prom" => Some(Self::Prometheus),
            name => Self::ALL.iter().copied().find(|format| format.name() == name),
        }
    }

    /// The format that a file name asks for: `run.parquet`, `run.trace.json`, `run.csv.gz`.
    pub fn by_extension(path: &Path) -> Result<Self, ExportError> {
        let name =
            path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        if [".trace.json", ".chrome.json"].iter().any(|ending| name.ends_with(ending)) {
            return Ok(Self::Chrome);
        }
        let extension =
            name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension);
        extension.and_then(Self::named).ok_or_else(|| {
            let message = format!("the name {} does not say which format to write", path.display());
            ExportError::usage(message, format!("name the format; {}", known_formats()))
        })
    }

    /// The usual ending of a file's name, without gzip.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Chrome => "trace.json",
            Self::Perfetto => "pftrace",
            Self::Prometheus => "prom",
            other => other.name(),
        }
    }

    /// Whether gzip makes sense: the others compress in their own way, or must be read at random.
    pub fn can_gzip(self) -> bool {
        !matches!(self, Self::Parquet | Self::Sqlite | Self::TensorBoard | Self::Etl | Self::Fleet)
    }

    /// Whether it can be written to a stream; the others are directories or are written at random.
    pub fn is_stream(self) -> bool {
        !matches!(self, Self::Sqlite | Self::TensorBoard | Self::Etl | Self::Fleet)
    }

    /// Formats that are one file: what a server can send.
    pub fn downloads() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|format| !format.is_directory())
    }

    /// Whether it is a layout of several files in a directory, which other recordings share.
    pub fn is_directory(self) -> bool {
        matches!(self, Self::TensorBoard | Self::Fleet)
    }

    /// Whether each table becomes a file of its own.
    pub fn is_per_table(self) -> bool {
        matches!(self, Self::Csv | Self::Parquet)
    }
}

fn known_formats() -> String {
    let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
    format!("the formats are {}", names.join(", "))
}

/// What to export. [`ExportOptions::new`] exports everything as it is stored.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    pub format: Format,
    pub filter: Option<Filter>,
    /// Sampled tables: a row for every tick. Otherwise only rows that changed are written, with the tables `ticks` and
    /// `sample_ends` beside them, which say when the unchanged ones were read. With a filter of times this is the way to
    /// have the values at its beginning.
    pub every_tick: bool,
    /// Compress text formats; a target whose name ends in `.gz` is compressed anyway.
    pub gzip: bool,
    /// Only these tables; `None`: all that tell about what was recorded.
    pub tables: Option<Vec<TableId>>,
    /// Replace files that exist.
    pub overwrite: bool,
    /// JSON lines: the records of the API (inference, operation, system) instead of the rows of tables.
    pub records: bool,
    /// The machine, for formats that put those of many together.
    pub host: String,
}

impl ExportOptions {
    pub fn new(format: Format) -> Self {
        Self {
            format,
            filter: None,
            every_tick: false,
            gzip: false,
            tables: None,
            overwrite: false,
            records: false,
            host: "unknown".to_owned(),
        }
    }

    /// The tables to write, in the order of the schema.
    pub(crate) fn selected_tables(&self) -> Vec<TableId> {
        let can_match = self.filter.as_ref().map(Filter::tables);
        let wanted = |table: &TableId| match &self.tables {
            Some(tables) => tables.contains(table),
            None => self.is_usual(*table),
        };
        let matching = |table: &TableId| can_match.as_ref().is_none_or(|tables| tables.contains(table));
        TableId::ALL.iter().copied().filter(|table| wanted(table) && matching(table)).collect()
    }

    fn is_usual(&self, table: TableId) -> bool {
        match table {
            // Only for the recovery after a crash.
            TableId::ChannelPositions => false,
            // What they tell is in the rows themselves then.
            TableId::Ticks | TableId::SampleEnds => !self.every_tick,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_names_and_endings() {
        for format in Format::ALL {
            assert_eq!(Format::from_name(format.name()).unwrap(), *format);
            let name = format!("run.{}", format.extension());
            if format.is_directory() {
                continue;
            }
            assert_eq!(Format::by_extension(Path::new(&name)).unwrap(), *format);
        }
        let by = |name: &str| Format::by_extension(Path::new(name)).ok();
        assert_eq!(by("a/b.JSONL.gz"), Some(Format::JsonLines));
        assert_eq!(by("x.db"), Some(Format::Sqlite));
        assert_eq!((by(".csv"), by("x.docx"), by(""), by("/")), (None, None, None, None));
        let error = Format::from_name("excel").unwrap_err();
        assert_eq!(error.to_string(), "there is no export format 'excel'");
        assert_eq!(
            error.hint(),
            Some(
                "the formats are json, jsonl, csv, parquet, sqlite, chrome, perfetto, prometheus, tensorboard, etl, fleet"
            )
        );
    }

    #[test]
    fn usual_tables_leave_out_what_only_recovery_needs() {
        let mut options = ExportOptions::new(Format::Json);
        let usual = options.selected_tables();
        assert!(!usual.contains(&TableId::ChannelPositions) && usual.contains(&TableId::Ticks));
        options.every_tick = true;
        assert!(!options.selected_tables().contains(&TableId::Ticks));
        options.tables = Some(vec![TableId::Ticks, TableId::Operators]);
        assert_eq!(options.selected_tables(), [TableId::Operators, TableId::Ticks]);
        options.filter = Some(Filter::parse("op:Conv").unwrap());
        assert_eq!(options.selected_tables(), [TableId::Operators]);
    }
}
