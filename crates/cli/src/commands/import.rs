//! `ortscope import`: a recording from another tool's file.

mod modules;
mod profile;
mod series;
mod sessions;
mod summary;
mod trace;
mod trace_rows;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use sessions::Sessions as TraceSessions;
pub use trace::{Imported, import_trace};

use crate::args::{GlobalArgs, ImportArgs};
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;

pub fn run(args: &ImportArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if is_trace(&args.file) {
        trace::run(args, global, terminal)
    } else {
        profile::run(args, global, terminal)
    }
}

/// By its name; a file with another name by what it begins with: text is a profile.
fn is_trace(path: &Path) -> bool {
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("etl")) {
        return true;
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut start));
    // A trace begins with the size of its first buffer, which has a zero among its four bytes.
    read.is_ok()
        && start.get(..4).is_some_and(|size| size.contains(&0))
        && ortscope_etl::EtlFile::open(path).is_ok()
}
