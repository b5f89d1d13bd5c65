//! Reads a segment: the directory at once, blocks on demand.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use fs_err::File;
use ortscope_channel::disk::open_to_read;
use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, TableId};
use ortscope_core::tables::ReadError;

use super::block;
use super::footer::{Chunk, Footer, SEALED_HEAD, SEALED_HEAD_BYTES, StoredTable, type_name};
use crate::columns::blank_column;
use crate::encryption::{FileSeal, SEAL_HEADER_BYTES, Seal};

/// A segment whose directory was read.
#[derive(Debug)]
pub(crate) struct Segment {
    pub path: PathBuf,
    pub footer: Footer,
    /// The key of the file, if the recording is encrypted.
    seal: Option<FileSeal>,
    /// How each stored table maps to this program's schema.
    views: Vec<View>,
}

/// How a stored table is seen by this program.
#[derive(Debug)]
pub(crate) enum View {
    /// For each of our columns the number of the stored one; `None`: it was not stored, and may be null.
    Known { table: TableId, columns: Vec<Option<usize>>, unknown_columns: usize },
    /// A table this program does not know.
    Unknown,
    /// A table whose rows cannot be understood, and why.
    Refused { problem: String },
}

impl View {
    fn new(stored: &StoredTable) -> Self {
        let Some(table) = TableId::by_name(&stored.name) else {
            return Self::Unknown;
        };
        let def = table.def();
        let mut columns = Vec::with_capacity(def.columns.len());
        for wanted in def.columns {
            let found = stored.columns.iter().position(|column| column.name == wanted.name);
            let has_type = found.map(|index| stored.columns[index].kind.as_str());
            match has_type {
                Some(kind) if kind == type_name(wanted.column_type) => columns.push(found),
                None if wanted.nullable => columns.push(None),
                None => {
                    let problem =
                        format!("its table {} has no column {}, which must be there", def.name, wanted.name);
                    return Self::Refused { problem };
                }
                Some(kind) => {
                    let problem = format!("{}.{} is of the type {kind} in it", def.name, wanted.name);
                    return Self::Refused { problem };
                }
            }
        }
        let known = columns.iter().flatten().count();
        Self::Known { table, columns, unknown_columns: stored.columns.len() - known }
    }
}

impl Segment {
    /// Reads the directory. The inner error describes the damage.
    pub fn open(path: &Path, seal: Option<&Seal>) -> std::io::Result<Result<Self, String>> {
        let mut file = open_to_read(path)?;
        let file_bytes = file.metadata()?.len();
        let seal = match seal {
            Some(seal) => match file_seal(&mut file, path, seal)? {
                Ok(seal) => Some(seal),
                Err(problem) => return Ok(Err(problem)),
            },
            None if sealed_header(&mut file)?.is_some() => {
                return Ok(Err("it is encrypted, although the recording is not".into()));
            }
            None => None,
        };
        Ok(Footer::read(&mut file, file_bytes, seal.as_ref())?.map(|footer| {
            let views = footer.tables.iter().map(View::new).collect();
            Self { path: path.to_owned(), footer, seal, views }
        }))
    }

    /// Each stored table as this program sees it.
    pub fn views(&self) -> impl Iterator<Item = (&StoredTable, &View)> {
        self.footer.tables.iter().zip(&self.views)
    }

    pub fn view_of(&self, chunk: &Chunk) -> &View {
        // The directory was checked when it was read: every chunk has a table.
        &self.views[chunk.table]
    }

    /// The numbers of the chunks of a table, in the order of time.
    pub fn chunk_numbers(&self, table: TableId) -> impl Iterator<Item = usize> {
        let is_of_table = move |chunk: &Chunk| matches!(self.view_of(chunk), View::Known { table: known, .. } if *known == table);
        self.footer
            .chunks
            .iter()
            .enumerate()
            .filter(move |(_, chunk)| is_of_table(chunk))
            .map(|(number, _)| number)
    }

    pub fn chunks(&self, table: TableId) -> impl Iterator<Item = &Chunk> {
        self.chunk_numbers(table).map(|number| &self.footer.chunks[number])
    }

    /// Decodes a chunk of a known table. Columns that are not wanted are left blank and are not even read.
    pub fn decode(
        &self,
        file: &mut File,
        chunk: &Chunk,
        wants_column: impl Fn(&str) -> bool,
    ) -> Result<Batch, ReadError> {
        let stored = &self.footer.tables[chunk.table];
        let View::Known { table, columns, .. } = self.view_of(chunk) else {
            return Err(self.damaged(&stored.name, "cannot be understood"));
        };
        // The directory's check bounds the rows.
        let rows = chunk.rows as usize;
        let mut buffer = Vec::new();
        let mut decoded: Vec<Column> = Vec::with_capacity(columns.len());
        for (index, (def, at)) in table.def().columns.iter().zip(columns).enumerate() {
            let Some(at) = at.filter(|_| index == 0 || wants_column(def.name)) else {
                decoded.push(blank_column(def, rows));
                continue;
            };
            self.read_block(file, chunk, at, &mut buffer)?;
            let column = block::decode(&buffer, rows, def, stored.columns[at].nullable);
            decoded.push(
                column.map_err(|problem| self.damaged(&format!("{}.{}", stored.name, def.name), &problem))?,
            );
        }
        Batch::from_columns(*table, decoded).map_err(|problem| self.damaged(&stored.name, &problem))
    }

    /// The checked bytes of the blocks of a chunk, for copying.
    pub fn read_chunk(&self, file: &mut File, chunk: &Chunk) -> Result<Vec<Vec<u8>>, ReadError> {
        let read = |at: usize| {
            let mut block = Vec::new();
            self.read_block(file, chunk, at, &mut block).map(|()| block)
        };
        (0..chunk.blocks.len()).map(read).collect()
    }

    fn read_block(
        &self,
        file: &mut File,
        chunk: &Chunk,
        at: usize,
        into: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let block = &chunk.blocks[at];
        let before: u64 = chunk.blocks[..at].iter().map(|block| block.bytes).sum();
        // Inside the file, as the directory's check has shown.
        into.resize(block.bytes as usize, 0);
        file.seek(SeekFrom::Start(chunk.at + before))?;
        file.read_exact(into)?;
        let problem = if crc32c::crc32c(into) != block.crc {
            "its checksum does not hold"
        } else if self.seal.as_ref().is_some_and(|seal| !seal.open_piece(chunk.at + before, into)) {
            "it is not what was encrypted"
        } else {
            return Ok(());
        };
        let stored = &self.footer.tables[chunk.table];
        let place = format!("{}.{}", stored.name, stored.columns[at].name);
        Err(self.damaged(&place, &format!("{problem}; {} rows are lost", chunk.rows)))
    }

    fn damaged(&self, place: &str, problem: &str) -> ReadError {
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        ReadError::Damaged { place: format!("{place} in {file}"), problem: problem.into() }
    }
}

/// The key of a segment of an encrypted recording. The inner error describes the damage.
fn file_seal(file: &mut File, path: &Path, seal: &Seal) -> std::io::Result<Result<FileSeal, String>> {
    let Some(header) = sealed_header(file)? else {
        return Ok(Err("it is not encrypted, although the recording is".into()));
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(seal.find(&name, &header))
}

/// The unencrypted header of an encrypted segment.
pub(crate) fn sealed_header(file: &mut File) -> std::io::Result<Option<[u8; SEAL_HEADER_BYTES]>> {
    let mut head = Vec::new();
    file.rewind()?;
    file.by_ref().take(SEALED_HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head.strip_prefix(&SEALED_HEAD[..]).and_then(|header| header.try_into().ok()))
}
