//! A sliding window over a journal file: only a part of it is in memory, regardless of its length.

use std::io::{Read as _, Seek as _, SeekFrom};

use super::header::{self, Found};

/// Read at once. A frame that is longer makes the window longer.
const WINDOW_BYTES: usize = 1 << 20;

/// The bytes of a file up to where they can be believed.
#[derive(Debug)]
pub(super) struct Window {
    file: fs_err::File,
    /// How far the writer had come when the file was opened, if the header contains it.
    head: Option<u64>,
    /// Reading stops here: the end of the file, or of the part that was complete when it was opened.
    limit: usize,
    start: usize,
    buffer: Vec<u8>,
    error: Option<std::io::Error>,
}

impl Window {
    pub(super) fn new(file: fs_err::File, length: usize, header: Found) -> Self {
        let head = match header {
            Found::Whole { head, .. } => Some(head),
            Found::Empty | Found::Damaged => None,
        };
        Self { file, head, limit: length, start: 0, buffer: Vec::new(), error: None }
    }

    pub(super) fn head(&self) -> Option<u64> {
        self.head
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The error that stopped reading before the end of the file.
    pub(super) fn error(&self) -> Option<&std::io::Error> {
        self.error.as_ref()
    }

    /// These bytes, if the file has them.
    pub(super) fn get(&mut self, at: usize, length: usize) -> Option<&[u8]> {
        let end = at.checked_add(length).filter(|end| *end <= self.limit)?;
        if at < self.start || end > self.start + self.buffer.len() {
            self.load(at, length);
        }
        self.buffer.get(at.checked_sub(self.start)?..end - self.start)
    }

    fn load(&mut self, at: usize, length: usize) {
        self.start = at;
        self.buffer.resize(length.max(WINDOW_BYTES).min(self.limit - at), 0);
        let read =
            self.file.seek(SeekFrom::Start(at as u64)).and_then(|_| fill(&mut self.file, &mut self.buffer));
        match read {
            // A writer that ends shortens its last file.
            Ok(count) if count < self.buffer.len() => self.limit = at + count,
            Ok(_) => {}
            Err(error) => {
                self.limit = at;
                self.error = Some(error);
            }
        }
        if let Some(head) = self.head
            && (at + self.buffer.len()) as u64 > head
            && self.is_growing(head)
        {
            // Of what came since it was opened, some parts may be in the window and some not.
            self.limit = self.limit.min(usize::try_from(head).unwrap_or(usize::MAX));
        }
        self.buffer.truncate(self.limit.saturating_sub(at));
    }

    fn is_growing(&mut self, head: u64) -> bool {
        match header::read_page(&mut self.file).map(|page| header::parse(&page)) {
            Ok(Found::Whole { head: now, .. }) => now != head,
            _ => false,
        }
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut fs_err::File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read(&mut buffer[count..]) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}
