//! One export from beginning to end.

use std::io::Write;
use std::path::{Path, PathBuf};

use ortscope_core::schema::TableId;
use ortscope_core::tables::Tables;
use serde::Serialize;

use crate::error::ExportError;
use crate::options::{ExportOptions, Format};
use crate::source::{RowSource, TableRows};
use crate::target::{ExportedFile, Staged, compressed};
use crate::{csv, etl, fleet, json, jsonl, metrics, parquet, sqlite, tensorboard, trace};
use ortscope_core::recording::RecordingInfo;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportReport {
    /// Empty for an export to a stream.
    pub files: Vec<ExportedFile>,
    /// Rows of all tables; of a trace, the rows that it draws.
    pub rows: u64,
    /// Places of the recording that could not be read; the rest was exported.
    pub damaged: Vec<String>,
    /// What a reader of the export should know, in sentences.
    pub notes: Vec<String>,
}

/// Writes a recording to `target`.
///
/// CSV and Parquet make one file per table: `target` is a directory then, which is made if it is not there, unless
/// exactly one table is chosen (by the options or the filter) and `target` is not a directory. The other formats write
/// one file. Nothing that exists is replaced unless the options say so. Files get their names when all are complete.
pub fn export(
    tables: &dyn Tables,
    info: &RecordingInfo,
    options: &ExportOptions,
    target: &Path,
) -> Result<ExportReport, ExportError> {
    let named_gzip = options.format.can_gzip() && target.extension().is_some_and(|ending| ending == "gz");
    let options = &ExportOptions { gzip: options.gzip || named_gzip, ..options.clone() };
    check(options)?;
    let source = RowSource::new(tables, info, options)?;
    let mut staged = Staged::new(options.overwrite);
    if options.format == Format::TensorBoard {
        tensorboard::write(&source, target, &mut staged)?;
    } else if options.format == Format::Fleet {
        fleet::write(&source, target, &mut staged)?;
    } else if options.format.is_per_table() {
        for (table, path) in table_files(&source, target, &mut staged)? {
            let mut file = staged.begin(&path)?;
            let rows = write_table(&source, table, file.as_file_mut()).map_err(|error| error.at(&path))?;
            staged.add(file, &path, Some(table), rows.rows)?;
        }
    } else {
        let mut file = staged.begin(target)?;
        let written = match options.format {
            Format::Sqlite => sqlite::write(&source, file.path()),
            Format::Etl => etl::write(&source, file.as_file_mut()),
            _ => write_all(&source, file.as_file_mut()),
        };
        let written = written.map_err(|error| error.at(target))?;
        let only = if let [only] = source.selected.as_slice() { Some(*only) } else { None };
        staged.add(file, target, only, total(&written))?;
    }
    let files = staged.commit()?;
    let rows = files.iter().map(|file| file.rows).sum();
    let (damaged, notes) = source.into_damaged_and_notes();
    Ok(ExportReport { files, rows, damaged, notes })
}

/// Writes a recording to a stream. CSV and Parquet need exactly one table; SQLite needs a file.
pub fn export_to(
    tables: &dyn Tables,
    info: &RecordingInfo,
    options: &ExportOptions,
    out: &mut (dyn Write + Send),
) -> Result<ExportReport, ExportError> {
    check(options)?;
    let source = RowSource::new(tables, info, options)?;
    let rows = match (options.format, source.selected.as_slice()) {
        (Format::Sqlite, _) => {
            return Err(ExportError::usage("a database cannot be written to a stream", "name a file"));
        }
        (format, _) if !format.is_stream() => {
            let message = format!("{} cannot be written to a stream", format.name());
            return Err(ExportError::usage(message, "use the command `ortscope export`, which writes files"));
        }
        (Format::Csv | Format::Parquet, [only]) => write_table(&source, *only, out)?.rows,
        (Format::Csv | Format::Parquet, several) => {
            let message =
                format!("{} tables do not fit into one {} stream", several.len(), options.format.name());
            return Err(ExportError::usage(
                message,
                "choose one table, e.g. with table:operators, or name a directory",
            ));
        }
        _ => total(&write_all(&source, out)?),
    };
    out.flush()?;
    let (damaged, notes) = source.into_damaged_and_notes();
    Ok(ExportReport { files: Vec::new(), rows, damaged, notes })
}

fn check(options: &ExportOptions) -> Result<(), ExportError> {
    if options.gzip && !options.format.can_gzip() {
        let message = format!(
            "gzip does not fit {}, which compresses in its own way or is read at random",
            options.format.name()
        );
        return Err(ExportError::usage(message, "leave it out, or compress the file afterwards"));
    }
    if options.records && options.format != Format::JsonLines {
        return Err(ExportError::usage("records are written as JSON lines", "choose the format jsonl"));
    }
    Ok(())
}

fn total(written: &[TableRows]) -> u64 {
    written.iter().map(|table| table.rows).sum()
}

/// The files that the tables become.
fn table_files(
    source: &RowSource<'_>,
    target: &Path,
    staged: &mut Staged,
) -> Result<Vec<(TableId, PathBuf)>, ExportError> {
    if let [only] = source.selected.as_slice()
        && !target.is_dir()
    {
        return Ok(vec![(*only, target.to_owned())]);
    }
    staged.create_directory(target)?;
    let gzip = if source.options.gzip { ".gz" } else { "" };
    let file = |table: &TableId| format!("{}.{}{gzip}", table.def().name, source.options.format.extension());
    let files: Vec<_> = source.selected.iter().map(|table| (*table, target.join(file(table)))).collect();
    files.iter().try_for_each(|(_, path)| staged.check(path))?;
    Ok(files)
}

fn write_table(
    source: &RowSource<'_>,
    table: TableId,
    out: &mut (dyn Write + Send),
) -> Result<TableRows, ExportError> {
    match source.options.format {
        Format::Parquet => parquet::write(source, table, out),
        _ => compressed(out, source.options.gzip, |out| csv::write(source, table, out)),
    }
}

fn write_all(source: &RowSource<'_>, out: &mut (dyn Write + Send)) -> Result<Vec<TableRows>, ExportError> {
    compressed(out, source.options.gzip, |out| match source.options.format {
        Format::Chrome => trace::write_json(source, out),
        Format::Perfetto => trace::write_perfetto(source, out),
        Format::Prometheus => metrics::write(source, out),
        Format::JsonLines => jsonl::write(source, out),
        _ => json::write(source, out),
    })
}
