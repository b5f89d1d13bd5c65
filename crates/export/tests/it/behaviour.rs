//! Names, directories, existing files, failures and damage.

use std::io;
use std::path::{Path, PathBuf};

use ortscope_core::batch::Batch;
use ortscope_core::filter::Filter;
use ortscope_core::schema::{DeviceSampleRow, InferenceRow, LossRow, OperatorRow, TableId};
use ortscope_core::tables::{Batches, MemoryTables, ReadError, Scan, Tables};
use ortscope_export::{ExportError, ExportOptions, Format, export, export_to};

use crate::support::{info, nasty_tables};
use crate::traces::batch;

/// Gives some rows, then a problem, for ever.
struct Failing {
    error: fn() -> ReadError,
    times: usize,
}

impl Tables for Failing {
    fn row_count(&self, _: TableId) -> u64 {
        0
    }

    fn time_range_ns(&self) -> Option<(u64, u64)> {
        None
    }

    fn scan(&self, table: TableId, _: &Scan) -> Batches<'_> {
        let times = [5_000, 6_000];
        let good = || match table {
            TableId::Losses => {
                batch(&[1, 2].map(|count| LossRow { timestamp_ns: 5_000, count, ..LossRow::default() }))
            }
            TableId::Inferences => {
                batch(&times.map(|timestamp_ns| InferenceRow { timestamp_ns, ..InferenceRow::default() }))
            }
            TableId::Operators => {
                batch(&times.map(|timestamp_ns| OperatorRow { timestamp_ns, ..OperatorRow::default() }))
            }
            TableId::DeviceSamples => batch(
                &times.map(|timestamp_ns| DeviceSampleRow { timestamp_ns, ..DeviceSampleRow::default() }),
            ),
            _ => Batch::new(table),
        };
        let errors = (0..self.times).map(|_| Err((self.error)()));
        Box::new([Ok(good())].into_iter().chain(errors).chain([Ok(good())]))
    }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Every file below a path with what is in it, or the file itself.
fn all_files(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    if path.is_file() {
        return vec![(path.to_owned(), std::fs::read(path).unwrap())];
    }
    names(path).iter().flat_map(|name| all_files(&path.join(name))).collect()
}

#[test]
fn a_failed_export_leaves_nothing() {
    let tables = Failing { error: || ReadError::Io(io::Error::other("the disk is gone")), times: 1 };
    let directory = tempfile::tempdir().unwrap();
    for format in Format::ALL {
        let target = directory.path().join("new").join("deep");
        let target = if format.is_per_table() { target } else { directory.path().join("one") };
        let error = export(&tables, &info(), &ExportOptions::new(*format), &target).unwrap_err();
        assert_eq!(error.to_string(), "cannot read the recording: the disk is gone", "{format:?}");
        assert!(!target.exists(), "{format:?}");
        let left = names(directory.path());
        assert!(left.is_empty() || left == ["new"], "{format:?} left {left:?}");
    }
}

#[test]
fn damaged_places_are_passed_over_and_counted() {
    let damaged = || ReadError::Damaged { place: "segment 3".into(), problem: "checksum".into() };
    // TensorBoard has no place for losses.
    let shown = [TableId::Inferences, TableId::Operators, TableId::DeviceSamples];
    let by_format = Format::ALL.iter().flat_map(|format| {
        let tables: &[TableId] = if *format == Format::TensorBoard { &shown } else { &[TableId::Losses] };
        tables.iter().map(move |table| (format, *table))
    });
    for (format, table) in by_format {
        let directory = tempfile::tempdir().unwrap();
        let mut options = ExportOptions::new(*format);
        options.tables = Some(vec![table]);
        let tables = Failing { error: damaged, times: 3 };
        let report = export(&tables, &info(), &options, &directory.path().join("out")).unwrap();
        assert_eq!(report.rows, 4, "{format:?} {table:?}");
        assert_eq!(report.damaged, ["segment 3: checksum"]);
        let endless = Failing { error: damaged, times: usize::MAX };
        let error = export(&endless, &info(), &options, &directory.path().join("again")).unwrap_err();
        assert!(matches!(error, ExportError::Read(_)), "{error}");
        assert_eq!(names(directory.path()), ["out"]);
    }
}

#[test]
fn what_exists_is_only_replaced_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let tables = nasty_tables(3);
    for format in Format::ALL {
        let target = directory.path().join(format.name());
        let mut options = ExportOptions::new(*format);
        let report = export(&tables, &info(), &options, &target).unwrap();
        match format {
            format if format.is_per_table() => assert_eq!(report.files.len(), TableId::ALL.len() - 1),
            format if format.is_directory() => assert!(report.files.len() > 1, "{format:?}"),
            _ => assert_eq!(report.files.len(), 1),
        }
        let first = &report.files[0].path;
        std::fs::write(first, "mine").unwrap();
        let before = all_files(&target);
        let error = export(&tables, &info(), &options, &target).unwrap_err();
        // Fleets look at the manifest first: what has one is complete.
        let named = if *format == Format::Fleet { &report.files.last().unwrap().path } else { first };
        assert_eq!(error.to_string(), format!("{} exists already", named.display()));
        assert!(error.hint().is_some_and(|hint| hint.contains("overwrite")));
        assert_eq!(std::fs::read_to_string(first).unwrap(), "mine");
        assert_eq!(all_files(&target), before, "{format:?}");
        options.overwrite = true;
        export(&tables, &info(), &options, &target).unwrap();
        assert_ne!(std::fs::read(first).unwrap(), b"mine");
    }
    assert_eq!(names(directory.path()).len(), Format::ALL.len(), "{:?}", names(directory.path()));
}

#[test]
fn one_table_is_a_file_and_several_are_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let tables = nasty_tables(3);
    for format in [Format::Csv, Format::Parquet] {
        let mut options = ExportOptions::new(format);
        options.filter = Some(Filter::parse("table:operators").unwrap());
        let file = directory.path().join(format!("operators.{}", format.extension()));
        let report = export(&tables, &info(), &options, &file).unwrap();
        assert_eq!((report.files[0].table, report.files[0].rows), (Some(TableId::Operators), 5));
        assert!(file.is_file());
        // A directory that is there is used as one.
        let inside = export(&tables, &info(), &options, directory.path()).unwrap_err();
        assert!(inside.to_string().ends_with("exists already"), "{inside}");
        // A file where a directory is needed.
        let several = export(&tables, &info(), &ExportOptions::new(format), &file).unwrap_err();
        assert!(several.to_string().ends_with("is not a directory"), "{several}");
        let stream = export_to(&tables, &info(), &ExportOptions::new(format), &mut Vec::new()).unwrap_err();
        assert!(stream.to_string().contains("do not fit into one"), "{stream}");
        let mut out = Vec::new();
        assert_eq!(export_to(&tables, &info(), &options, &mut out).unwrap().rows, 5);
        assert_eq!(out, std::fs::read(&file).unwrap());
    }
    let error = export(&tables, &info(), &ExportOptions::new(Format::Json), directory.path()).unwrap_err();
    assert!(error.to_string().ends_with("is a directory"), "{error}");
}

#[test]
fn what_does_not_go_together_is_said_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("x");
    let tables = MemoryTables::default();
    for format in [Format::Parquet, Format::Sqlite] {
        let options = ExportOptions { gzip: true, ..ExportOptions::new(format) };
        let error = export(&tables, &info(), &options, &target).unwrap_err();
        assert!(error.to_string().starts_with("gzip does not fit"), "{error}");
    }
    let options = ExportOptions { records: true, ..ExportOptions::new(Format::Csv) };
    assert!(export(&tables, &info(), &options, &target).is_err());
    let sqlite =
        export_to(&tables, &info(), &ExportOptions::new(Format::Sqlite), &mut Vec::new()).unwrap_err();
    assert!(sqlite.to_string().contains("stream"), "{sqlite}");
    let nowhere = directory.path().join("no/such/directory/x.json");
    let error = export(&tables, &info(), &ExportOptions::new(Format::Json), &nowhere).unwrap_err();
    assert!(matches!(&error, ExportError::Io(io) if io.kind() == io::ErrorKind::NotFound), "{error}");
    assert!(error.to_string().contains("x.json"), "{error}");
    assert_eq!(names(directory.path()), [""; 0]);
}

/// A stream that is full after some bytes.
struct Full(usize);

impl io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_one_sentence_and_a_hint() {
    let tables = nasty_tables(400);
    for format in [Format::Json, Format::JsonLines, Format::Csv, Format::Parquet, Format::Chrome] {
        let mut options = ExportOptions::new(format);
        options.tables = Some(vec![TableId::Operators]);
        let error = export_to(&tables, &info(), &options, &mut Full(1_000)).unwrap_err();
        assert!(matches!(error, ExportError::Io(_)), "{format:?}: {error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("space")), "{format:?}: {error:?}");
    }
}
