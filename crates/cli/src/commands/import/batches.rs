//! Rows of several tables on their way into a recording.

use ortscope_core::batch::Batch;
use ortscope_core::schema::Row;
use ortscope_store::RecordingWriter;

use crate::exit::Failure;

/// Rows handed on at once.
const BATCH_ROWS: usize = 4096;

/// Batches that are being filled, one for each table.
#[derive(Debug)]
pub struct Batches<'w> {
    writer: &'w RecordingWriter,
    batches: Vec<Batch>,
    failed: Option<Failure>,
}

impl<'w> Batches<'w> {
    pub fn new(writer: &'w RecordingWriter) -> Self {
        Self { writer, batches: Vec::new(), failed: None }
    }

    pub fn push<R: Row>(&mut self, row: &R) {
        let index = match self.batches.iter().position(|batch| batch.table() == R::TABLE) {
            Some(index) => index,
            None => {
                self.batches.push(Batch::new(R::TABLE));
                self.batches.len() - 1
            }
        };
        let batch = &mut self.batches[index];
        batch.push(row);
        if batch.len() >= BATCH_ROWS {
            let full = std::mem::replace(batch, Batch::new(R::TABLE));
            self.keep(&full);
        }
    }

    /// The first failure is kept; what comes after it is not wanted any more.
    fn keep(&mut self, batch: &Batch) {
        if self.failed.is_none() && !batch.is_empty() {
            self.failed = self.writer.append(batch).err().map(Failure::from);
        }
    }

    pub fn finish(mut self) -> Result<(), Failure> {
        for batch in std::mem::take(&mut self.batches) {
            self.keep(&batch);
        }
        self.failed.map_or(Ok(()), Err)
    }
}
