//! Writes a segment: the chunks, then the directory.

use std::borrow::Cow;
use std::io::Write;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, ColumnData, TableId, TableKind};

use super::block::{self, Nature};
use super::footer::{Block, Bound, Chunk, FORMAT, Footer, HEAD, SEALED_HEAD, StoredColumn, StoredTable};
use crate::StoreError;
use crate::columns::integers;
use crate::encryption::{FileSeal, Seal};

/// A segment that grows.
#[derive(Debug)]
pub(crate) struct SegmentWriter<W: Write> {
    to: W,
    at: u64,
    footer: Footer,
    /// The key of the file, if the recording is encrypted.
    seal: Option<FileSeal>,
}

impl<W: Write> SegmentWriter<W> {
    /// `name` is what the file will be called.
    pub fn new(mut to: W, seal: Option<&Seal>, name: &str) -> Result<Self, StoreError> {
        let footer = Footer { format: FORMAT, ..Footer::default() };
        let Some(seal) = seal else {
            to.write_all(&HEAD)?;
            return Ok(Self { to, at: HEAD.len() as u64, footer, seal: None });
        };
        let (header, seal) = seal.begin(name)?;
        let head = [&SEALED_HEAD[..], &header].concat();
        to.write_all(&head)?;
        Ok(Self { to, at: head.len() as u64, footer, seal: Some(seal) })
    }

    /// Records unreadable parts of the journal.
    pub fn note_damage(&mut self, damaged_frames: u64, skipped_bytes: u64) {
        self.footer.damaged_frames += damaged_frames;
        self.footer.skipped_bytes += skipped_bytes;
    }

    /// Records that a loss in this segment was already reported.
    pub fn accept_loss(&mut self) {
        self.footer.accepted = true;
        self.footer.damaged_frames = self.footer.damaged_frames.max(1);
    }

    /// Adds the rows of a batch as one chunk.
    pub fn add(&mut self, batch: &Batch) -> std::io::Result<()> {
        self.add_columns(batch.table(), batch.columns().iter().map(Cow::Borrowed))
    }

    /// Adds a chunk column by column, so that no more than one need be in memory in its new order.
    pub fn add_columns<'c>(
        &mut self,
        table: TableId,
        columns: impl Iterator<Item = Cow<'c, Column>>,
    ) -> std::io::Result<()> {
        let is_sampled = matches!(table.def().kind, TableKind::Samples(_));
        let mut chunk = Chunk { table: 0, rows: 0, from_ns: 0, to_ns: 0, at: self.at, blocks: Vec::new() };
        for (index, column) in columns.enumerate() {
            if index == 0 {
                let times = integers(&column);
                let (Some(from_ns), Some(to_ns)) = (times.iter().min(), times.iter().max()) else {
                    return Ok(());
                };
                (chunk.rows, chunk.from_ns, chunk.to_ns) = (times.len() as u64, *from_ns, *to_ns);
            }
            let nature = if is_sampled && index == 0 { Nature::SharedTimes } else { Nature::Own };
            let bytes = block::encode(&column, nature).map_err(std::io::Error::other)?;
            chunk.blocks.push(self.write_block(bytes, range(&column))?);
        }
        chunk.table = self.table_index(stored_table(table));
        self.footer.chunks.push(chunk);
        Ok(())
    }

    /// Adds a chunk of another segment as it is, also one of a table this program does not know: the bytes of its blocks.
    pub fn copy(&mut self, table: &StoredTable, chunk: &Chunk, blocks: Vec<Vec<u8>>) -> std::io::Result<()> {
        let mut copied = Chunk {
            table: self.table_index(table.clone()),
            at: self.at,
            blocks: Vec::new(),
            ..chunk.clone()
        };
        for (bytes, block) in blocks.into_iter().zip(&chunk.blocks) {
            copied.blocks.push(self.write_block(bytes, block.range)?);
        }
        self.footer.chunks.push(copied);
        Ok(())
    }

    /// A sealed block is numbered by its place in the file: no two have the same, since none is empty.
    fn write_block(&mut self, mut bytes: Vec<u8>, range: Option<(Bound, Bound)>) -> std::io::Result<Block> {
        if let Some(seal) = &self.seal {
            seal.seal_piece(self.at, &mut bytes)?;
        }
        self.to.write_all(&bytes)?;
        self.at += bytes.len() as u64;
        Ok(Block { bytes: bytes.len() as u64, crc: crc32c::crc32c(&bytes), range })
    }

    pub fn finish(mut self) -> std::io::Result<W> {
        self.footer.write(&mut self.to, self.seal.as_ref())?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn table_index(&mut self, table: StoredTable) -> usize {
        let tables = &mut self.footer.tables;
        tables.iter().position(|known| *known == table).unwrap_or_else(|| {
            tables.push(table);
            tables.len() - 1
        })
    }
}

fn stored_table(table: TableId) -> StoredTable {
    let def = table.def();
    StoredTable { name: def.name.into(), columns: def.columns.iter().map(StoredColumn::of).collect() }
}

/// Smallest and largest finite value that is there.
fn range(column: &Column) -> Option<(Bound, Bound)> {
    fn of<T: Copy>(
        values: &[T],
        valid: &[bool],
        wanted: impl Fn(T) -> bool,
        less: impl Fn(T, T) -> bool,
        bound: impl Fn(T) -> Bound,
    ) -> Option<(Bound, Bound)> {
        let mut range: Option<(T, T)> = None;
        for (index, value) in values.iter().copied().enumerate() {
            if valid.get(index).copied().unwrap_or(true) && wanted(value) {
                let (low, high) = range.unwrap_or((value, value));
                range = Some((
                    if less(value, low) { value } else { low },
                    if less(high, value) { value } else { high },
                ));
            }
        }
        range.map(|(low, high)| (bound(low), bound(high)))
    }
    let valid = &column.valid;
    match &column.data {
        ColumnData::U64(values) => of(values, valid, |_| true, |a, b| a < b, Bound::Unsigned),
        ColumnData::I64(values) => of(values, valid, |_| true, |a, b| a < b, Bound::Signed),
        ColumnData::F64(values) => of(values, valid, f64::is_finite, |a, b| a < b, Bound::Float),
        ColumnData::Bool(_) | ColumnData::Text(_) => None,
    }
}
