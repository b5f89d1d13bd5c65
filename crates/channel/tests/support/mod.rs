//! Shared test helpers.
#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::allow_attributes, reason = "which part is unused differs between the binaries")]

use ortscope_channel::journal::{JournalFileReader, JournalOutcome, journal_files};
use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, ColumnData, ColumnType, ProcessSampleRow, TableId, Text};

/// A small generator of numbers: the same seed gives the same test.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit.max(1)
    }
}

/// Any values that the table allows, with columns that are full, empty and mixed.
pub fn random_batch(table: TableId, rows: usize, random: &mut Random) -> Batch {
    let texts: Vec<Text> = (0..1 + random.below(600))
        .map(|number| format!("text ü {number} {}", random.next()).into())
        .collect();
    let columns = table.def().columns.iter().map(|def| {
        let valid: Vec<bool> = match (def.nullable, random.below(3)) {
            (false, _) => Vec::new(),
            (true, 0) => vec![true; rows],
            (true, 1) => vec![false; rows],
            (true, _) => (0..rows).map(|_| random.below(2) == 0).collect(),
        };
        let has = |row: usize| valid.get(row).copied().unwrap_or(true);
        let data =
            match def.column_type {
                ColumnType::U64 => {
                    ColumnData::U64((0..rows).map(|row| if has(row) { random.next() } else { 0 }).collect())
                }
                ColumnType::I64 => ColumnData::I64(
                    (0..rows).map(|row| if has(row) { random.next() as i64 } else { 0 }).collect(),
                ),
                ColumnType::F64 => ColumnData::F64(
                    (0..rows).map(|row| if has(row) { random.next() as f64 / 3.0 } else { 0.0 }).collect(),
                ),
                ColumnType::Bool => {
                    ColumnData::Bool((0..rows).map(|row| has(row) && random.below(2) == 0).collect())
                }
                ColumnType::Text => ColumnData::Text(
                    (0..rows)
                        .map(|row| {
                            if has(row) { texts[random.below(texts.len())].clone() } else { Text::default() }
                        })
                        .collect(),
                ),
            };
        Column { data, valid }
    });
    Batch::from_columns(table, columns.collect()).expect("the columns fit their table")
}

/// Process samples as Linux gives them; `number` is in the first row's time.
pub fn samples(number: u64, rows: u64) -> Batch {
    let mut batch = Batch::new(TableId::ProcessSamples);
    for row in 0..rows {
        batch.push(&ProcessSampleRow {
            timestamp_ns: number * 1_000_000 + row,
            pid: 1000 + row,
            process_start: 77,
            cpu_time_ns: number * 17 + row,
            user_time_ns: Some(number * 11),
            kernel_time_ns: Some(number * 6),
            context_switches: Some(number),
            priority: Some(20),
            working_set_bytes: 4096 * number,
            private_bytes: Some(4096 * row),
            virtual_bytes: Some(1 << 30),
            page_faults: Some(row),
            hard_faults: Some(0),
            thread_count: Some(4),
            read_bytes: Some(number),
            write_bytes: Some(row),
            ..ProcessSampleRow::default()
        });
    }
    batch
}

/// Reads a file to its end.
pub fn read_file(path: &std::path::Path) -> (Vec<Batch>, JournalOutcome) {
    let mut reader = JournalFileReader::open(path).expect("a journal file");
    let batches = std::iter::from_fn(|| reader.next_batch()).collect();
    (batches, reader.outcome().clone())
}

/// Reads all files of a journal.
pub fn read_all(directory: &std::path::Path) -> (Vec<Batch>, Vec<JournalOutcome>) {
    let files = journal_files(directory).expect("a journal");
    let (batches, outcomes): (Vec<_>, Vec<_>) = files.iter().map(|file| read_file(&file.path)).unzip();
    (batches.into_iter().flatten().collect(), outcomes)
}
