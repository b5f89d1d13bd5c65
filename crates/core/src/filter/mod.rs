//! The filter language of reports, exports, server and dashboard: a line of terms that must all match.
//!
//! ```text
//! op:Conv prov:CPU !Relu dur>1ms pid:123 session:7f3a phase:steady table:operators from:2s to:10s
//! ```
//!
//! | term | keeps rows |
//! |---|---|
//! | `word` | whose name, operator type or other descriptive text contains the word |
//! | `key:value` | whose column equals the value; `*` matches any characters, `a,b` is a or b; `=` is the same as `:` |
//! | `key>value`, `>=`, `<`, `<=` | whose number compares as given; durations `1.5ms`, sizes `2MiB` |
//! | `table:operators,inferences` | of these tables |
//! | `from:2s`, `to:10s` | at or after, and before, this time since the start; `from:123456789ns` is absolute |
//! | `!term` | for which the term does not match (not for times) |
//!
//! Keys are the short ones of [`Filter::short_keys`] and the names of all columns. ASCII case is ignored. `"…"`
//! quotes a value or a word; inside, `\"` and `\\` are a quote and a backslash.
//!
//! **Missing columns.** A term about a column that a table lacks, or that is null in a row, does not match: `op:Conv`
//! keeps no inference, `!op:Conv` keeps all. Times are different: every row has one. A filter whose terms no single
//! table can satisfy is an error, not an empty result.

mod keys;
mod parse;
mod value;

use std::fmt;

use crate::batch::Batch;
use crate::schema::{Column, ColumnData, TableId, Text};
use crate::tables::{Scan, Tables};

use keys::{Key, SHORT_KEYS, WORD_COLUMNS};
pub use parse::{FilterError, MAX_BYTES};
use value::{Compare, Moment, Number, Pattern, quoted};

/// Terms that rows must satisfy, all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq)]
struct Term {
    exclude: bool,
    test: Test,
}

#[derive(Debug, Clone, PartialEq)]
enum Test {
    Word(Pattern),
    Tables(Vec<TableId>),
    Texts { key: Key, any_of: Vec<Pattern> },
    Numbers { key: Key, compare: Compare, any_of: Vec<Number> },
    Flag { key: Key, value: bool },
    From(Moment),
    To(Moment),
}

impl Filter {
    /// Parses a line of terms; an error names the term and the correct form.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        parse::parse(text)
    }

    /// The short keys and what they mean, for help texts.
    pub fn short_keys() -> impl Iterator<Item = (&'static str, &'static str)> {
        SHORT_KEYS.iter().map(|key| (key.name, key.doc))
    }

    /// The origin of `from:` and `to:`: the recording's start, or its first row if all rows are earlier (imported
    /// data has its own time). All users of a filter must agree on this.
    pub fn start_ns(recording_started_ns: u64, tables: &dyn Tables) -> u64 {
        match tables.time_range_ns() {
            Some((first, last)) if last < recording_started_ns => first,
            _ => recording_started_ns,
        }
    }

    /// The tables that can have matching rows.
    pub fn tables(&self) -> Vec<TableId> {
        TableId::ALL.iter().copied().filter(|table| self.can_match(*table)).collect()
    }

    fn can_match(&self, table: TableId) -> bool {
        self.terms.iter().all(|term| match &term.test {
            Test::Tables(tables) => tables.contains(&table) != term.exclude,
            test => term.exclude || test.applies_to(table),
        })
    }

    /// The columns of a table that [`Self::mask`] reads, including the time; a scan must request them.
    pub fn columns(&self, table: TableId) -> Vec<&'static str> {
        let def = table.def();
        let used = self.terms.iter().flat_map(|term| term.test.column_indices(table));
        let mut indices: Vec<usize> = std::iter::once(0).chain(used).collect();
        indices.sort_unstable();
        indices.dedup();
        indices.into_iter().filter_map(|index| def.columns.get(index)).map(|column| column.name).collect()
    }

    /// A scan of the filter's time range.
    pub fn scan(&self, start_ns: u64) -> Scan {
        let mut scan = Scan::all();
        for term in &self.terms {
            match &term.test {
                Test::From(moment) => {
                    let from = moment.at(start_ns);
                    scan.from_ns = Some(scan.from_ns.map_or(from, |other| other.max(from)));
                }
                Test::To(moment) => {
                    let to = moment.at(start_ns);
                    scan.to_ns = Some(scan.to_ns.map_or(to, |other| other.min(to)));
                }
                _ => {}
            }
        }
        scan
    }

    /// Refuses a time range that is empty once the start is known (one end relative, the other absolute).
    pub fn check_range(&self, start_ns: u64) -> Result<(), FilterError> {
        match self.scan(start_ns) {
            Scan { from_ns: Some(from), to_ns: Some(to), .. } if from >= to => {
                Err(parse::empty_range(&self.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// One mark per row: whether all terms hold.
    pub fn mask(&self, batch: &Batch, start_ns: u64) -> Vec<bool> {
        let mut mask = vec![true; batch.len()];
        for term in &self.terms {
            let holds = term.test.holds(batch, start_ns);
            for (mark, holds) in mask.iter_mut().zip(holds) {
                *mark &= holds != term.exclude;
            }
        }
        mask
    }
}

impl Test {
    fn applies_to(&self, table: TableId) -> bool {
        match self {
            Self::From(_) | Self::To(_) => true,
            Self::Tables(tables) => tables.contains(&table),
            _ => !self.column_indices(table).is_empty(),
        }
    }

    fn column_indices(&self, table: TableId) -> Vec<usize> {
        let def = table.def();
        match self {
            Self::Word(_) => WORD_COLUMNS.iter().filter_map(|name| def.column_index(name)).collect(),
            Self::Texts { key, .. } | Self::Numbers { key, .. } | Self::Flag { key, .. } => {
                key.column_indices(table)
            }
            Self::Tables(_) | Self::From(_) | Self::To(_) => Vec::new(),
        }
    }

    fn holds(&self, batch: &Batch, start_ns: u64) -> Vec<bool> {
        let mut marks = vec![false; batch.len()];
        match self {
            Self::Tables(tables) => marks.fill(tables.contains(&batch.table())),
            Self::From(moment) => {
                let from = moment.at(start_ns);
                mark_times(&mut marks, batch, |time| time >= from);
            }
            Self::To(moment) => {
                let to = moment.at(start_ns);
                mark_times(&mut marks, batch, |time| time < to);
            }
            Self::Word(pattern) => {
                for index in self.column_indices(batch.table()) {
                    mark_texts(&mut marks, &batch.columns()[index], |text| pattern.is_in(text));
                }
            }
            Self::Texts { key, any_of } => {
                for index in key.column_indices(batch.table()) {
                    let matches = |text: &str| any_of.iter().any(|pattern| key.text_matches(pattern, text));
                    mark_texts(&mut marks, &batch.columns()[index], matches);
                }
            }
            Self::Numbers { key, compare, any_of } => {
                let matches = |value: Number| any_of.iter().any(|wanted| compare.holds(value, *wanted));
                if key.is_duration() {
                    keys::mark_durations(&mut marks, batch, |nanos| matches(Number::Integer(nanos.into())));
                } else {
                    for index in key.column_indices(batch.table()) {
                        mark_numbers(&mut marks, &batch.columns()[index], matches);
                    }
                }
            }
            Self::Flag { key, value } => {
                for index in key.column_indices(batch.table()) {
                    let column = &batch.columns()[index];
                    if let ColumnData::Bool(flags) = &column.data {
                        for (row, flag) in flags.iter().enumerate() {
                            marks[row] |= column.has_value(row) && flag == value;
                        }
                    }
                }
            }
        }
        marks
    }
}

fn mark_times(marks: &mut [bool], batch: &Batch, wanted: impl Fn(u64) -> bool) {
    for (mark, time) in marks.iter_mut().zip(batch.times_ns()) {
        *mark = wanted(*time);
    }
}

/// Rows share their texts, so the previous result is cached.
fn mark_texts(marks: &mut [bool], column: &Column, matches: impl Fn(&str) -> bool) {
    let ColumnData::Text(texts) = &column.data else {
        return;
    };
    let mut last: Option<(&Text, bool)> = None;
    for (row, text) in texts.iter().enumerate() {
        if marks[row] || !column.has_value(row) {
            continue;
        }
        let answer = match last {
            Some((same, answer)) if Text::ptr_eq(same, text) => answer,
            _ => matches(text),
        };
        last = Some((text, answer));
        marks[row] = answer;
    }
}

fn mark_numbers(marks: &mut [bool], column: &Column, matches: impl Fn(Number) -> bool) {
    for (row, mark) in marks.iter_mut().enumerate() {
        let value = match &column.data {
            ColumnData::U64(values) => values.get(row).map(|value| Number::Integer((*value).into())),
            ColumnData::I64(values) => values.get(row).map(|value| Number::Integer((*value).into())),
            ColumnData::F64(values) => values.get(row).map(|value| Number::Real(*value)),
            ColumnData::Bool(_) | ColumnData::Text(_) => None,
        };
        *mark |= column.has_value(row) && value.is_some_and(&matches);
    }
}

/// The filter in its shortest form, which reads back as the same filter.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            if term.exclude {
                f.write_str("!")?;
            }
            write!(f, "{}", term.test)?;
        }
        Ok(())
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: ToString>(values: &[T]) -> String {
            values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        }
        match self {
            Self::Word(pattern) => write!(f, "{pattern}"),
            Self::Tables(tables) => {
                let names: Vec<String> = tables.iter().map(|table| quoted(table.def().name)).collect();
                write!(f, "table:{}", list(&names))
            }
            Self::Texts { key, any_of } => write!(f, "{}:{}", key.name, list(any_of)),
            Self::Numbers { key, compare, any_of } => {
                let values: Vec<String> = any_of.iter().map(|value| key.number_text(*value)).collect();
                write!(f, "{}{compare}{}", key.name, list(&values))
            }
            Self::Flag { key, value } => write!(f, "{}:{value}", key.name),
            Self::From(moment) => write!(f, "from:{moment}"),
            Self::To(moment) => write!(f, "to:{moment}"),
        }
    }
}

impl std::str::FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests;
