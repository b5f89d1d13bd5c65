//! Finding the frames in a journal file.
//!
//! The file header is not trusted: a frame counts if its checksum is right and its number is the next one. After
//! damage the scan searches for the next position where a possible successor begins.

use super::header::PAGE_BYTES;
use super::window::Window;
use crate::frame::{FrameKind, HEADER_BYTES, Header, frame_bytes};

/// Damage that the scan went over.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    /// At least this many frames are missing.
    pub(super) frames: u64,
    pub(super) bytes: u64,
}

/// Walks over the frames of a file.
#[derive(Debug)]
pub(super) struct Scan {
    window: Window,
    at: usize,
    sequence: u32,
    /// Bytes that may still be checked in the search after damage, so that a malicious file cannot keep us busy.
    search_bytes: usize,
    gap: Gap,
}

/// Result of a search after damage.
struct Search {
    next: Option<usize>,
    /// Behind the last byte that is not zero.
    used: usize,
}

impl Scan {
    pub(super) fn new(window: Window) -> Self {
        let search_bytes = window.limit().saturating_mul(4);
        Self { window, at: PAGE_BYTES, sequence: 0, search_bytes, gap: Gap::default() }
    }

    /// Whether there is any frame at all; the walk begins anew.
    pub(super) fn has_frames(&mut self) -> bool {
        let found = self.next().is_some();
        (self.at, self.sequence, self.gap) = (PAGE_BYTES, 0, Gap::default());
        found
    }

    /// Damage so far.
    pub(super) fn gap(&self) -> Gap {
        self.gap
    }

    /// The I/O error that stopped reading.
    pub(super) fn error(&self) -> Option<&std::io::Error> {
        self.window.error()
    }

    /// The next frame: its kind, its number and its payload. `None` at the end.
    pub(super) fn next(&mut self) -> Option<(FrameKind, u32, &[u8])> {
        let header = match self.frame_at(self.at).filter(|header| header.sequence == self.sequence) {
            Some(header) => header,
            None => self.find_next()?,
        };
        let (payload, length) = (self.at + HEADER_BYTES, header.length as usize);
        self.at += frame_bytes(length);
        self.sequence = header.sequence.wrapping_add(1);
        Some((header.kind, header.sequence, self.window.get(payload, length)?))
    }

    /// The header of the whole frame that begins here, if one does.
    fn frame_at(&mut self, at: usize) -> Option<Header> {
        let header = self.header_at(at)?;
        let length = header.length as usize;
        // Header and payload together, so that one window has both.
        let frame = self.window.get(at, HEADER_BYTES + length)?;
        header.holds(&frame[HEADER_BYTES..]).then_some(header)
    }

    /// The possible header of a frame that begins here, before its checksum is verified.
    fn header_at(&mut self, at: usize) -> Option<Header> {
        let bytes = self.window.get(at, HEADER_BYTES)?;
        let header = Header::from_bytes(bytes.try_into().ok()?);
        (header.is_possible() && bytes[6..8] == [0; 2]).then_some(header)
    }

    /// Goes on behind what does not hold: to the next frame, or to the end.
    fn find_next(&mut self) -> Option<Header> {
        let start = self.at;
        let Search { next, used } = self.search(start);
        if let Some(found) = next {
            let header = self.header_at(found)?;
            self.gap.frames += u64::from(header.sequence.wrapping_sub(self.sequence));
            self.gap.bytes += (found - start) as u64;
            self.at = found;
            return Some(header);
        }
        let missing = match self.window.head() {
            // After the head there can be the frame during which the writer was killed: it was never confirmed as
            // kept.
            Some(head) => head.saturating_sub(start as u64).min(*super::FILE_BYTES.end()),
            None => used.saturating_sub(start) as u64,
        };
        if missing > 0 {
            self.gap.frames += 1;
            self.gap.bytes += missing;
        }
        self.at = self.window.limit();
        None
    }

    /// Where the next frame that can follow begins.
    fn search(&mut self, start: usize) -> Search {
        let mut used = start;
        // Most often the header is intact and its payload is not: then the next frame follows directly.
        if let Some(header) = self.header_at(start).filter(|header| header.sequence == self.sequence) {
            let behind = start + frame_bytes(header.length as usize);
            if self.frame_at(behind).is_some_and(|next| next.sequence == self.sequence.wrapping_add(1)) {
                return Search { next: Some(behind), used };
            }
        }
        let mut at = start;
        while let Some(bytes) = self.window.get(at, HEADER_BYTES) {
            if bytes[..8] != [0; 8] {
                used = at + 8;
            } else if at.is_multiple_of(PAGE_BYTES) && self.is_empty_page(at) {
                at += PAGE_BYTES;
                continue;
            }
            if let Some(header) = self.header_at(at).filter(|header| self.can_follow(header, at - start)) {
                let Some(left) = self.search_bytes.checked_sub(header.length as usize) else {
                    break;
                };
                self.search_bytes = left;
                if self.frame_at(at).is_some() {
                    return Search { next: Some(at), used };
                }
            }
            at += 8;
        }
        Search { next: None, used }
    }

    /// Whether a frame with this header can follow this much damage.
    fn can_follow(&self, header: &Header, skipped_bytes: usize) -> bool {
        let missing = header.sequence.wrapping_sub(self.sequence) as usize;
        matches!(header.kind, FrameKind::SCHEMA | FrameKind::BATCH)
            && missing > 0
            && missing <= skipped_bytes / HEADER_BYTES
    }

    fn is_empty_page(&mut self, at: usize) -> bool {
        self.window.get(at, PAGE_BYTES).is_some_and(|page| page.iter().all(|byte| *byte == 0))
    }
}
