//! The seeds to run, and the printed figures.

use std::io::Write as _;
use std::ops::Range;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The requested seeds of a test, or a few.
pub fn seeds(few: u64) -> Range<u64> {
    let first = number("ORTSCOPE_TRUST_SEED").unwrap_or(0);
    first..first + number("ORTSCOPE_TRUST_SEEDS").unwrap_or(few)
}

/// Whether a thorough run was requested.
pub fn is_thorough() -> bool {
    number("ORTSCOPE_TRUST_SEEDS").is_some()
}

/// A directory for a disk, in memory where there is such a place: none of this is about how fast a disk is.
pub fn disk() -> tempfile::TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm").ok();
    in_memory.unwrap_or_else(|| tempfile::tempdir().expect("a directory"))
}

/// Prints a figure for the caller.
#[expect(clippy::print_stderr, reason = "figures of a long run are read by people")]
pub fn print_figure(name: &str, value: u64) {
    eprintln!("{name} {value}");
    if let Some(path) = std::env::var_os("ORTSCOPE_TRUST_FIGURES") {
        let mut file =
            fs_err::OpenOptions::new().create(true).append(true).open(path).expect("a file of figures");
        writeln!(file, "{name} {value}").expect("written");
    }
}

/// Tells which case failed, so that it can be made again.
#[expect(clippy::print_stderr, reason = "a failure must name its seed")]
pub fn print_failure(case: &str) {
    eprintln!("{case}");
}
