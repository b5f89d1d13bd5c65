//! Nothing waits for the end: while rows are read, earlier ones have already been written.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ortscope_core::batch::Batch;
use ortscope_core::schema::TableId;
use ortscope_core::tables::{Batches, Scan, Tables};
use ortscope_export::{ExportOptions, Format, export_to};

use crate::support::info;
use crate::traces::operators;

const BATCHES: usize = 12;

/// Makes its rows when they are asked for, and notes how much had been written by then.
struct Lazy {
    batch: Batch,
    written: Arc<AtomicU64>,
    seen: Arc<Mutex<Vec<u64>>>,
}

impl Tables for Lazy {
    fn row_count(&self, _: TableId) -> u64 {
        (self.batch.len() * BATCHES) as u64
    }

    fn time_range_ns(&self) -> Option<(u64, u64)> {
        Some((1_000, u64::MAX))
    }

    fn scan(&self, table: TableId, _: &Scan) -> Batches<'_> {
        if table != self.batch.table() {
            return Box::new(std::iter::empty());
        }
        Box::new((0..BATCHES).map(|_| {
            self.seen.lock().unwrap().push(self.written.load(Ordering::Relaxed));
            Ok(self.batch.clone())
        }))
    }
}

struct Counting(Arc<AtomicU64>);

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn rows_are_written_while_others_are_read() {
    for (format, gzip) in [
        (Format::Json, false),
        (Format::Json, true),
        (Format::JsonLines, false),
        (Format::Csv, false),
        (Format::Parquet, false),
        (Format::Chrome, false),
    ] {
        let mut batches = operators(40_000);
        let mut batch = batches.remove(0);
        batches.iter().for_each(|more| assert!(batch.append(more)));
        let written = Arc::new(AtomicU64::new(0));
        let tables = Lazy { batch, written: Arc::clone(&written), seen: Arc::default() };
        let mut options = ExportOptions::new(format);
        options.tables = Some(vec![TableId::Operators]);
        options.gzip = gzip;
        export_to(&tables, &info(), &options, &mut Counting(Arc::clone(&written))).unwrap();
        let seen = tables.seen.lock().unwrap().clone();
        let total = written.load(Ordering::Relaxed);
        assert_eq!(seen.len(), BATCHES);
        for (index, bytes) in seen.iter().enumerate() {
            // What was read so far is written but for two batches, more or less as much as the rows' share is.
            let share = total * (index as u64).saturating_sub(2) / BATCHES as u64;
            assert!(
                *bytes >= share * 8 / 10,
                "{format:?}: {bytes} of {total} bytes at batch {index}: {seen:?}"
            );
        }
    }
}
