//! Recognizes other file formats by their first bytes.

use super::outcome::NotAProfile;

/// Enough for all formats below.
pub(super) const HEAD_BYTES: usize = 16;

/// Length of a byte order mark at the start.
pub(super) fn byte_order_mark(head: &[u8]) -> usize {
    if head.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 }
}

/// Names the format of a file that cannot be JSON.
pub(super) fn other_file(head: &[u8]) -> Option<NotAProfile> {
    const KNOWN: [(&[u8], &str); 10] = [
        (b"PK\x03\x04", "a zip archive"),
        (b"\x28\xb5\x2f\xfd", "compressed with zstd"),
        (b"\xfd7zXZ", "compressed with xz"),
        (b"BZh", "compressed with bzip2"),
        (b"\xff\xfe", "text in UTF-16; save it as UTF-8"),
        (b"\xfe\xff", "text in UTF-16; save it as UTF-8"),
        (b"SQLite format 3", "an SQLite database"),
        (b"PERFILE2", "a perf.data file"),
        (b"version https://", "a Git LFS pointer; fetch the file itself"),
        (b"<", "a web page or XML"),
    ];
    if head.starts_with(b"\x1f\x8b") {
        return Some(NotAProfile::Gzip);
    }
    let (_, what) = KNOWN.iter().find(|(magic, _)| head.starts_with(magic))?;
    Some(NotAProfile::OtherFile { what })
}

/// For a file that does not begin like a list of events.
pub(super) fn not_a_list(bytes: &[u8]) -> NotAProfile {
    let head = bytes.get(..bytes.len().min(HEAD_BYTES)).unwrap_or_default();
    NotAProfile::NotAList { first: String::from_utf8_lossy(head).into_owned() }
}
