//! Profiles that ONNX Runtime wrote as JSON.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use ortscope_analyze::operators::{
    self, FindingContext, OperatorAnalysis, OperatorEvent, OperatorOptions, OperatorReport, RunAssembler,
};
use ortscope_core::schema::{FindingRow, OperatorRow, SessionRow, Text};
use ortscope_core::units;
use ortscope_decode::ort_profile::{
    ProfileOptions, ProfileOutcome, ProfileReader, ProfileRows, ProfileStart, RowOptions, RowSummary,
};

use crate::detect::open_text;
use crate::output::Output;
use crate::{ImportError, Reader, Summary};

/// Bytes read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// What was found in a profile.
#[derive(Debug)]
pub struct ProfileRead {
    pub outcome: ProfileOutcome,
    pub summary: RowSummary,
}

/// Reads a profile, plain or gzip, and passes its rows on. Memory does not grow with the file.
pub fn read(
    path: &Path,
    options: RowOptions,
    keep: &mut impl FnMut(OperatorRow),
) -> Result<ProfileRead, ImportError> {
    let mut file = open_text(path)?;
    let mut reader = ProfileReader::new(ProfileOptions::default());
    let mut maker = ProfileRows::new(options);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => reader.feed(&chunk[..read], &mut |event| maker.push(&event, keep)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // A truncated gzip file: the readable part is kept, and the reader reports that the list has no end.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(ImportError::Io { path: path.to_owned(), error }),
        }
    }
    let outcome = reader.finish(&mut |event| maker.push(&event, keep));
    let summary = maker.finish(keep);
    Ok(ProfileRead { outcome, summary })
}

impl ProfileRead {
    /// Everything that is missing or was repaired, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
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
            self.summary.corrected_means,
            "times of OpenVINO's primitives were means of all runs so far, and were taken apart",
        );
        counted(self.summary.without_run, "operators lie in no run that is known");
        counted(self.summary.ambiguous_run, "operators on helper threads could belong to several runs");
        if let Some(problem) = &outcome.first_problem {
            sentences.push(format!("the first problem: {problem}"));
        }
        sentences
    }

    /// Number of events that are known to be missing.
    pub fn lost_events(&self) -> u64 {
        self.outcome.skipped_events + self.outcome.dropped_events.unwrap_or(0)
    }

    /// Fails if the file is not a profile.
    pub fn refuse_foreign(&self, path: &Path) -> Result<(), ImportError> {
        match &self.outcome.not_a_profile {
            Some(why) => Err(ImportError::unsupported(path, why)),
            None => Ok(()),
        }
    }
}

#[derive(Debug)]
pub(crate) struct ProfileImport {
    pub path: PathBuf,
}

impl Reader for ProfileImport {
    fn read(&mut self, out: &mut Output<'_>) -> Result<Summary, ImportError> {
        let start = ProfileStart::from_monotonic_ns(out.start_ns);
        let options = RowOptions { session_id: Text::clone(&out.session), start, ..RowOptions::default() };
        let mut analysis = OperatorAnalysis::new(OperatorOptions::default());
        let mut assembler = RunAssembler::default();
        let read = read(&self.path, options, &mut |row| {
            if let Some(run) = row.run {
                assembler.push(run, OperatorEvent::from(&row), &mut |_, events| analysis.add_run(events));
            }
            out.emit(&row);
        })?;
        read.refuse_foreign(&self.path)?;
        let outcome = &read.outcome;
        if read.summary.rows == 0 {
            return Err(ImportError::unsupported(&self.path, "it is a profile without a single event"));
        }
        out.session(SessionRow { pid: outcome.process, ..SessionRow::default() });
        out.note("note", "the profile does not say when it was made: its times count from the import");
        assembler.finish(&mut |_, events| analysis.add_run(events));
        for row in findings(&analysis.finish(), out.start_ns) {
            out.emit(&row);
        }
        let lost = read.lost_events();
        out.lost("import", "operators", lost);
        if outcome.truncated || outcome.capped {
            out.incomplete();
        }
        for sentence in read.warnings() {
            out.warn(sentence);
        }
        let document = serde_json::json!({
            "schema": "ortscope.import/1",
            "events": outcome.events, "operators": outcome.operators, "runs": outcome.runs,
            "rows": read.summary.rows, "lost_events": lost, "capped": outcome.capped,
            "truncated": outcome.truncated,
        });
        let line = format!(
            "{}, {} of {}",
            units::counted(outcome.runs, "run"),
            units::counted(outcome.operators, "operator event"),
            units::counted(outcome.events, "event"),
        );
        out.summary(document, vec![line], None)
    }
}

/// The findings that need nothing but the profile. A run also knows the graph, the machine and the requested providers.
fn findings(report: &OperatorReport, timestamp_ns: u64) -> Vec<FindingRow> {
    let transitions = operators::transitions(report, None);
    let context = FindingContext { transitions: Some(&transitions), ..FindingContext::default() };
    operators::findings(report, &context)
        .into_iter()
        .map(|finding| FindingRow {
            timestamp_ns,
            id: finding.id.into(),
            severity: finding.severity.name().into(),
            evidence: finding.evidence.into(),
            advice: finding.advice.into(),
            command: None,
        })
        .collect()
}
