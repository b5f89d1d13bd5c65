//! The directory at the end of a segment: its tables, chunks and columns, their positions and ranges.
//!
//! ```text
//! "ORTSCOLS" format zero    column blocks …    directory (JSON, deflated)    crc32c  length  "ORTSDIR1"
//! ```
//! In an encrypted recording the format is 2, the head is followed by 40 bytes that identify the key, every block and
//! the directory are encrypted, and checksums are those of the encrypted bytes.
//!
//! The directory is JSON, so that later versions may add fields and earlier ones skip them.

use std::io::{Read, Seek, SeekFrom, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use ortscope_core::schema::{ColumnDef, ColumnType};
use serde::{Deserialize, Serialize};

use crate::encryption::{FileSeal, SEAL_HEADER_BYTES};

pub(crate) const FORMAT: u32 = 1;
pub(super) const HEAD: [u8; 16] = *b"ORTSCOLS\x01\0\0\0\0\0\0\0";
/// For encrypted recordings; followed by the key identification.
pub(super) const SEALED_HEAD: [u8; 16] = *b"ORTSCOLS\x02\0\0\0\0\0\0\0";
pub(super) const SEALED_HEAD_BYTES: usize = SEALED_HEAD.len() + SEAL_HEADER_BYTES;
/// Blocks are numbered by their place in the file, which is never this.
const DIRECTORY_NUMBER: u64 = u64::MAX;
const TAIL_MAGIC: [u8; 8] = *b"ORTSDIR1";
/// checksum, length of the directory, magic
const TAIL_BYTES: u64 = 4 + 8 + 8;
/// A directory that claims to be longer is damaged.
const MAX_DIRECTORY_BYTES: u64 = 64 << 20;
/// Rows of the largest chunk a reader accepts; writers make them much smaller.
pub(super) const MAX_CHUNK_ROWS: u64 = 1 << 20;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Footer {
    pub format: u32,
    pub tables: Vec<StoredTable>,
    pub chunks: Vec<Chunk>,
    /// Journal frames that were unreadable when the segment was built.
    #[serde(default)]
    pub damaged_frames: u64,
    #[serde(default)]
    pub skipped_bytes: u64,
    /// Something of it was lost, and a repair has accepted that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
}

/// A table as it was when it was stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredTable {
    pub name: String,
    pub columns: Vec<StoredColumn>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredColumn {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nullable: bool,
}

/// Some rows of one table, adjacent in time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Chunk {
    /// Index into the footer's tables.
    pub table: usize,
    pub rows: u64,
    pub from_ns: u64,
    /// Time of the last row.
    pub to_ns: u64,
    /// Where its first block lies in the file; the others follow.
    pub at: u64,
    /// One per column of the stored table.
    pub blocks: Vec<Block>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Block {
    pub bytes: u64,
    pub crc: u32,
    /// Smallest and largest number; none for texts, and without finite values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(Bound, Bound)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Bound {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

impl Chunk {
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.bytes).sum()
    }
}

impl StoredColumn {
    pub fn of(def: &ColumnDef) -> Self {
        Self { name: def.name.into(), kind: type_name(def.column_type).into(), nullable: def.nullable }
    }
}

pub(super) fn type_name(column_type: ColumnType) -> &'static str {
    match column_type {
        ColumnType::U64 => "u64",
        ColumnType::I64 => "i64",
        ColumnType::F64 => "f64",
        ColumnType::Bool => "bool",
        ColumnType::Text => "text",
    }
}

impl Footer {
    /// Writes the directory and the tail behind the blocks.
    pub fn write(&self, mut to: impl Write, seal: Option<&FileSeal>) -> std::io::Result<u64> {
        let json = serde_json::to_vec(self).map_err(std::io::Error::other)?;
        let mut deflater = DeflateEncoder::new(Vec::new(), Compression::default());
        deflater.write_all(&json)?;
        let mut bytes = deflater.finish()?;
        if let Some(seal) = seal {
            seal.seal_piece(DIRECTORY_NUMBER, &mut bytes)?;
        }
        let length = bytes.len() as u64;
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&TAIL_MAGIC);
        to.write_all(&bytes)?;
        Ok(bytes.len() as u64)
    }

    /// Reads and checks the directory of a file of `file_bytes` bytes. The inner error describes the damage.
    pub fn read(
        mut file: impl Read + Seek,
        file_bytes: u64,
        seal: Option<&FileSeal>,
    ) -> std::io::Result<Result<Self, String>> {
        let head_bytes = if seal.is_some() { SEALED_HEAD_BYTES } else { HEAD.len() } as u64;
        let Some(tail_at) = file_bytes.checked_sub(TAIL_BYTES).filter(|at| *at >= head_bytes) else {
            return Ok(Err("it is cut off".into()));
        };
        let mut tail = [0; TAIL_BYTES as usize];
        file.seek(SeekFrom::Start(tail_at))?;
        file.read_exact(&mut tail)?;
        let (crc, rest) = tail.split_at(4);
        let (length, magic) = rest.split_at(8);
        let crc = u32::from_le_bytes(crc.try_into().unwrap_or_default());
        let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
        if magic != TAIL_MAGIC {
            return Ok(Err("its end is missing".into()));
        }
        if length > MAX_DIRECTORY_BYTES || length > tail_at - head_bytes {
            return Ok(Err("its directory is damaged".into()));
        }
        let mut stored = vec![0; length as usize];
        file.seek(SeekFrom::Start(tail_at - length))?;
        file.read_exact(&mut stored)?;
        if crc32c::crc32c(&stored) != crc {
            return Ok(Err("the checksum of its directory does not hold".into()));
        }
        if let Some(seal) = seal
            && !seal.open_piece(DIRECTORY_NUMBER, &mut stored)
        {
            return Ok(Err("its directory is not what was encrypted".into()));
        }
        let mut json = Vec::new();
        if let Err(error) = DeflateDecoder::new(&*stored).take(MAX_DIRECTORY_BYTES).read_to_end(&mut json) {
            return Ok(Err(format!("its directory cannot be unpacked: {error}")));
        }
        Ok(Self::parse(&json, tail_at - length))
    }

    fn parse(json: &[u8], blocks_end: u64) -> Result<Self, String> {
        let footer: Self =
            serde_json::from_slice(json).map_err(|error| format!("its directory cannot be read: {error}"))?;
        if footer.format > FORMAT {
            return Err(format!("it has format {}; this program reads up to {FORMAT}", footer.format));
        }
        for chunk in &footer.chunks {
            let Some(table) = footer.tables.get(chunk.table) else {
                return Err("a chunk of it belongs to no table".into());
            };
            let sizes = || chunk.blocks.iter().map(|block| block.bytes);
            let end = sizes().try_fold(chunk.at, u64::checked_add);
            if chunk.blocks.len() != table.columns.len()
                || !(1..=MAX_CHUNK_ROWS).contains(&chunk.rows)
                || chunk.from_ns > chunk.to_ns
                || end.is_none_or(|end| end > blocks_end)
            {
                return Err(format!("a chunk of its table {} lies outside of it", table.name));
            }
        }
        Ok(footer)
    }
}
