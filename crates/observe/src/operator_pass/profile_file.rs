//! ONNX Runtime's operator profile, from its file to rows: for `import` and for the profiling pass of `run`.

use std::io::Read;
use std::path::Path;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{OperatorRow, TableId};
use ortscope_decode::ort_profile::{
    ProfileOptions, ProfileOutcome, ProfileReader, ProfileRows, RowOptions, RowSummary,
};

use ortscope_core::failure::{Failure, FailureKind};
use ortscope_core::units;

/// Read at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Rows handed on at once.
const BATCH_ROWS: usize = 4096;
/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What became of a profile.
#[derive(Debug)]
pub struct ProfileRead {
    pub outcome: ProfileOutcome,
    pub summary: RowSummary,
}

/// Reads a profile, plain or gzip, and hands its rows on in batches. Nothing of it stays in memory.
pub fn read(
    path: &Path,
    rows: RowOptions,
    mut keep: impl FnMut(&Batch) -> Result<(), Failure>,
) -> Result<ProfileRead, Failure> {
    let mut file: Box<dyn Read> = Box::new(open(path)?);
    let mut head = [0; 2];
    let known = file.read(&mut head)?;
    let begin = std::io::Cursor::new(head[..known].to_vec());
    file = Box::new(begin.chain(file));
    if head == GZIP {
        file = Box::new(flate2::read::MultiGzDecoder::new(file));
    }

    let mut batch = Batch::new(TableId::Operators);
    let mut failed = None;
    let mut reader = ProfileReader::new(ProfileOptions::default());
    let mut maker = ProfileRows::new(rows);
    let mut take = |row: OperatorRow| {
        batch.push(&row);
        if batch.len() >= BATCH_ROWS {
            let full = std::mem::replace(&mut batch, Batch::new(TableId::Operators));
            // The first failure is kept; what comes after it is not wanted any more.
            if failed.is_none() {
                failed = keep(&full).err();
            }
        }
    };
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => reader.feed(&chunk[..read], &mut |event| maker.push(&event, &mut take)),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // A gzip file that is cut off: what was readable is kept, and the reader says that the list has no end.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Err(error) => {
                return Err(Failure::input(format!("'{}' cannot be read: {error}", path.display())));
            }
        }
    }
    let outcome = reader.finish(&mut |event| maker.push(&event, &mut take));
    let summary = maker.finish(&mut take);
    if let Some(failure) = failed {
        return Err(failure);
    }
    if !batch.is_empty() {
        keep(&batch)?;
    }
    Ok(ProfileRead { outcome, summary })
}

fn open(path: &Path) -> Result<fs_err::File, Failure> {
    if path.is_dir() {
        return Err(Failure::usage(format!("'{}' is a directory, not a profile", path.display())));
    }
    fs_err::File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::usage(format!("there is no file '{}'", path.display())),
        _ => Failure::from(error),
    })
}

impl ProfileRead {
    /// What is missing or was mended, one sentence each: nothing disappears silently.
    pub fn sentences(&self) -> Vec<String> {
        let outcome = &self.outcome;
        let mut sentences = Vec::new();
        if outcome.capped {
            let dropped = outcome.dropped_events.map_or_else(
                || "how many are missing is not known".to_owned(),
                |dropped| format!("{} are missing", units::count(dropped)),
            );
            sentences
                .push(format!("ONNX Runtime stopped recording at its limit of 1,000,000 events: {dropped}"));
        }
        if outcome.truncated {
            sentences.push("the file ends before its list of events does: the end is missing".into());
        }
        let mut counted = |count: u64, what: &str| {
            if count > 0 {
                sentences.push(format!("{} {what}", units::count(count)));
            }
        };
        counted(outcome.skipped_events, "events could not be read and were left out");
        counted(outcome.repaired_events, "events were not valid JSON and were read all the same");
        counted(outcome.bad_commas, "commas were missing, doubled or too many");
        counted(outcome.junk_bytes, "bytes belong to no event");
        counted(
            self.summary.mended_means,
            "times of OpenVINO's primitives were means of all runs so far, and were taken apart",
        );
        counted(self.summary.without_run, "operators lie in no run that is known");
        counted(self.summary.ambiguous_run, "operators on helper threads could belong to several runs");
        if let Some(problem) = &outcome.first_problem {
            sentences.push(format!("the first problem: {problem}"));
        }
        sentences
    }

    /// Events that are known to be missing.
    pub fn lost_events(&self) -> u64 {
        self.outcome.skipped_events + self.outcome.dropped_events.unwrap_or(0)
    }

    pub fn refuse_foreign(&self, path: &Path, hint: &str) -> Result<(), Failure> {
        match &self.outcome.not_a_profile {
            Some(why) => {
                Err(Failure::new(FailureKind::Usage, format!("'{}': {why}", path.display())).with_hint(hint))
            }
            None => Ok(()),
        }
    }
}
