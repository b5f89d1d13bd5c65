//! The first page of a journal file.
//!
//! ```text
//! 0 magic  8 format  16 number  24 made, monotonic ns  32 made, unix ns  40 checksum of these
//! 128 head: bytes written   192 state: 0 spare, 1 in use, 2 sealed
//! 256 and 2048, if the frames are encrypted (format 2): the key description and its checksum
//! ```
//! Head and state are hints: a power loss can take them without the frames, or the frames without them. Readers rely
//! on the frames.

use std::io::{Read as _, Seek as _};
use std::path::Path;

use ortscope_core::clock::WallAnchor;

use crate::frame::{HEADER_BYTES, Header, frame_bytes};
use crate::seal::SEAL_HEADER_BYTES;

pub(super) const PAGE_BYTES: usize = 4096;
pub(super) const AT_HEAD: usize = 128;
pub(super) const AT_STATE: usize = 192;
pub(super) const FORMAT: u32 = 1;
/// The same, with every frame sealed. Programs that do not know it refuse the file.
pub(super) const SEALED_FORMAT: u32 = 2;
/// Twice, in sectors of their own: without it nothing of the file can be read.
const AT_SEALS: [usize; 2] = [256, 2048];
const MAGIC: [u8; 8] = *b"ORTSJRNL";
const FIXED_BYTES: usize = 40;

/// The current use of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum State {
    /// Made in advance, not used yet.
    Spare = 0,
    InUse = 1,
    Sealed = 2,
}

/// The part of the header that never changes.
pub(super) fn fixed_part(format: u32, number: u64) -> [u8; FIXED_BYTES + 8] {
    let made = WallAnchor::now();
    let mut bytes = [0; FIXED_BYTES + 8];
    bytes[..8].copy_from_slice(&MAGIC);
    for (slot, word) in bytes[8..FIXED_BYTES].chunks_exact_mut(8).zip([
        u64::from(format),
        number,
        made.monotonic_ns,
        made.unix_ns,
    ]) {
        slot.copy_from_slice(&word.to_le_bytes());
    }
    let checksum = u64::from(crc32c::crc32c(&bytes[..FIXED_BYTES]));
    bytes[FIXED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Positions and bytes of the unencrypted key description.
pub(super) fn seal_parts(seal: &[u8; SEAL_HEADER_BYTES]) -> [(usize, Vec<u8>); 2] {
    AT_SEALS.map(|at| {
        let checksum = u64::from(crc32c::crc32c(seal));
        (at, [&seal[..], &checksum.to_le_bytes()].concat())
    })
}

/// The unencrypted key description, from the first intact copy.
pub(super) fn seal_of(page: &[u8]) -> Option<[u8; SEAL_HEADER_BYTES]> {
    AT_SEALS.into_iter().find_map(|at| {
        let seal: [u8; SEAL_HEADER_BYTES] = page.get(at..at + SEAL_HEADER_BYTES)?.try_into().ok()?;
        let checksum = page.get(at + SEAL_HEADER_BYTES..at + SEAL_HEADER_BYTES + 8)?;
        let holds = u64::from(crc32c::crc32c(&seal)).to_le_bytes() == checksum;
        (holds && seal != [0; SEAL_HEADER_BYTES]).then_some(seal)
    })
}

/// A header as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The first page holds nothing: its disk never got it.
    Empty,
    /// Present, but not as written.
    Damaged,
    Whole {
        format: u32,
        head: u64,
        state: State,
    },
}

pub(super) fn parse(page: &[u8]) -> Found {
    let word = |at: usize| {
        let bytes = page.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let holds = page.starts_with(&MAGIC)
        && page.len() >= PAGE_BYTES
        && word(FIXED_BYTES) == Some(u64::from(crc32c::crc32c(&page[..FIXED_BYTES])));
    let (Some(format), Some(head), Some(state)) = (word(8), word(AT_HEAD), word(AT_STATE)) else {
        return Found::Damaged;
    };
    if !holds {
        return if page.iter().all(|byte| *byte == 0) { Found::Empty } else { Found::Damaged };
    }
    let state = match state {
        0 => State::Spare,
        2 => State::Sealed,
        _ => State::InUse,
    };
    Found::Whole { format: u32::try_from(format).unwrap_or(u32::MAX), head, state }
}

/// The first page of a file, or what there is of it.
pub(super) fn read_page(file: &mut fs_err::File) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    file.rewind()?;
    file.by_ref().take(PAGE_BYTES as u64).read_to_end(&mut page)?;
    Ok(page)
}

/// Whether a file is sealed, in use, or was made and never used. Where the header is lost, the file counts as in use
/// unless there is nothing in it: its maker was killed before it was done.
pub(super) fn state_of(path: &Path) -> std::io::Result<State> {
    let mut file = crate::disk::open_to_read(path)?;
    let page = read_page(&mut file)?;
    let is_unused = match parse(&page) {
        // Its maker was killed while it wrote the schema. A file that was ever used had its head on the disk before.
        Found::Whole { state: State::Spare, head: 0, .. } => true,
        Found::Whole { state: State::Spare, .. } => !has_batches(&mut file)?,
        Found::Whole { state, .. } => return Ok(state),
        Found::Empty | Found::Damaged => is_empty(&mut file)?,
    };
    // If it is not, a power loss took the news that it is in use.
    Ok(if is_unused { State::Spare } else { State::InUse })
}

/// Whether there are only zeros from here on.
fn is_empty(file: &mut fs_err::File) -> std::io::Result<bool> {
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(true),
            read if chunk[..read].iter().any(|byte| *byte != 0) => return Ok(false),
            _ => {}
        }
    }
}

/// Whether anything follows the first frame. `file` is read from after its header page.
fn has_batches(file: &mut fs_err::File) -> std::io::Result<bool> {
    let mut header = [0; HEADER_BYTES];
    if file.read_exact(&mut header).is_err() {
        return Ok(false);
    }
    let schema = Header::from_bytes(header);
    if !schema.is_possible() {
        // Not the layout of a spare file: let the reader decide.
        return Ok(true);
    }
    let rest = frame_bytes(schema.length as usize) - HEADER_BYTES;
    let mut after = Vec::new();
    file.take((rest + HEADER_BYTES) as u64).read_to_end(&mut after)?;
    Ok(after.get(rest..).is_some_and(|next| next.iter().any(|byte| *byte != 0)))
}
