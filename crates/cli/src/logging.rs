//! Logs: to stderr for people (`-v`), to a file as JSON lines for machines (`--log-file`), rotated by size.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::exit::Failure;

/// A log file is moved aside when it has this size.
const ROTATE_BYTES: u64 = 10_000_000;
/// Files kept: `x.log`, `x.log.1` … `x.log.4`. The oldest goes.
const KEPT_FILES: u32 = 5;

pub fn start(verbose: u8, quiet: bool, file: Option<&Path>) -> Result<(), Failure> {
    let level = match (quiet, verbose) {
        (true, _) => LevelFilter::OFF,
        (false, 0) => LevelFilter::WARN,
        (false, 1) => LevelFilter::INFO,
        (false, _) => LevelFilter::DEBUG,
    };
    // `ortscope_store=debug,warn`: a level for a module, and one for the rest.
    let wanted = std::env::var("ORTSCOPE_LOG").ok().and_then(|directives| directives.parse::<Targets>().ok());
    let to_stderr = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        .with_ansi(false)
        .with_filter(wanted.unwrap_or_else(|| Targets::new().with_default(level)));
    let to_file = match file {
        Some(path) => {
            let writer = RotatingFile::open(path, ROTATE_BYTES)?;
            Some(tracing_subscriber::fmt::layer().json().with_writer(writer).with_filter(LevelFilter::DEBUG))
        }
        None => None,
    };
    tracing_subscriber::registry().with(to_stderr).with(to_file).try_init().map_err(Failure::internal)
}

/// A file that is renamed away when it is full.
#[derive(Debug)]
struct RotatingFile {
    path: PathBuf,
    limit: u64,
    state: Mutex<Option<(fs_err::File, u64)>>,
}

impl RotatingFile {
    fn open(path: &Path, limit: u64) -> Result<Self, Failure> {
        let file = Self { path: path.to_owned(), limit, state: Mutex::new(None) };
        *file.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(file.append()?);
        Ok(file)
    }

    fn append(&self) -> std::io::Result<(fs_err::File, u64)> {
        let file = fs_err::OpenOptions::new().create(true).append(true).open(&self.path)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    }

    fn rotate(&self) {
        let numbered = |number: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..KEPT_FILES - 1).rev() {
            // Absent while there are fewer files than are kept.
            fs_err::rename(numbered(number), numbered(number + 1)).ok();
        }
        fs_err::rename(&self.path, numbered(1)).ok();
    }

    fn write_line(&self, line: &[u8]) -> std::io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.as_ref().is_some_and(|(_, size)| *size > 0 && size + line.len() as u64 > self.limit) {
            *state = None;
            self.rotate();
        }
        if state.is_none() {
            *state = Some(self.append()?);
        }
        if let Some((file, size)) = state.as_mut() {
            file.write_all(line)?;
            *size += line.len() as u64;
        }
        Ok(())
    }
}

/// Writes whole events, so that a line is never split between two files.
#[derive(Debug)]
struct LineWriter<'a> {
    file: &'a RotatingFile,
    line: Vec<u8>,
}

impl Write for LineWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for LineWriter<'_> {
    fn drop(&mut self) {
        // A full disk must not stop a measurement.
        self.file.write_line(&self.line).ok();
    }
}

impl<'a> MakeWriter<'a> for RotatingFile {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LineWriter { file: self, line: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_files_move_aside_and_the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.log");
        let file = RotatingFile::open(&path, 100).unwrap();
        for number in 0..60 {
            file.write_line(format!("{number:>30}\n").as_bytes()).unwrap();
        }
        let mut names: Vec<_> = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["x.log", "x.log.1", "x.log.2", "x.log.3", "x.log.4"]);
        let newest = std::fs::read_to_string(&path).unwrap();
        assert!(newest.trim_end().ends_with("59"), "{newest}");
        assert!(newest.len() <= 100);
    }
}
