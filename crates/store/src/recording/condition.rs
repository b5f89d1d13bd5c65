//! In what state a recording was found.

use std::collections::BTreeMap;

use serde::Serialize;

/// Completeness of a recording.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Condition {
    /// It ended in order. Otherwise it was cut off, or it is still being written.
    pub finished: bool,
    /// Somebody writes it now.
    pub being_written: bool,
    /// Unreadable parts.
    pub damaged: Vec<Damage>,
    /// Rows that are still in the journal: they are read from there.
    pub journal_rows: u64,
    /// Rows that were found in the rings of the observed process and had not reached the journal.
    pub recovered_rows: u64,
    /// Records that the observed process had counted as lost, found in its rings.
    pub lost_in_rings: u64,
    /// Rows of tables that this program does not know, by name of the table.
    pub unknown_tables: BTreeMap<String, u64>,
    /// Unknown columns of known tables, counted once for each segment.
    pub unknown_columns: u64,
    /// Segments of which something was lost and that a repair has accepted as they are.
    pub repaired_segments: u64,
}

/// Something that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// File, and part of it.
    pub place: String,
    pub problem: String,
    /// `None` if unknown.
    pub rows_lost: Option<u64>,
}

impl Damage {
    pub fn sentence(&self) -> String {
        match self.rows_lost {
            Some(0) => format!("{}: {}", self.place, self.problem),
            Some(rows) => format!("{}: {} ({rows} rows lost)", self.place, self.problem),
            None => format!("{}: {} (an unknown number of rows is lost)", self.place, self.problem),
        }
    }
}

impl Condition {
    /// Nothing that was kept is missing. A recording that was cut off can be whole.
    pub fn is_whole(&self) -> bool {
        self.damaged.is_empty()
    }

    /// Sentences for the user; none if everything is in order.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if self.being_written {
            sentences.push("it is still being written".into());
        } else if !self.finished {
            sentences.push("it was cut off; what had been recorded until then is there".into());
        }
        if self.recovered_rows > 0 {
            sentences.push(format!(
                "{} rows were found in the rings of the observed process",
                self.recovered_rows
            ));
        }
        if self.lost_in_rings > 0 {
            sentences.push(format!("the observed process could not write {} records", self.lost_in_rings));
        }
        sentences.extend(self.damaged.iter().map(Damage::sentence));
        if self.repaired_segments > 0 {
            sentences.push(format!(
                "rows were lost in {} segments before it was repaired",
                self.repaired_segments
            ));
        }
        sentences.extend(
            self.unknown_tables
                .iter()
                .map(|(table, rows)| format!("{rows} rows of the table '{table}' are of a later version")),
        );
        if self.unknown_columns > 0 {
            sentences.push("it has columns of a later version, which are left out".into());
        }
        sentences
    }

    pub(crate) fn note(
        &mut self,
        place: impl Into<String>,
        problem: impl Into<String>,
        rows_lost: Option<u64>,
    ) {
        self.damaged.push(Damage { place: place.into(), problem: problem.into(), rows_lost });
    }

    /// Records rows that are missing according to the recorded totals and not accounted for otherwise.
    pub(crate) fn note_missing(&mut self, missing: u64) {
        let accounted: u64 = self.damaged.iter().filter_map(|damage| damage.rows_lost).sum();
        let missing = missing.saturating_sub(accounted);
        if missing == 0 {
            return;
        }
        let mut unknown: Vec<&mut Damage> =
            self.damaged.iter_mut().filter(|damage| damage.rows_lost.is_none()).collect();
        match unknown.as_mut_slice() {
            [only] => only.rows_lost = Some(missing),
            _ => self.note("segments", format!("{missing} rows are missing"), Some(missing)),
        }
    }
}
