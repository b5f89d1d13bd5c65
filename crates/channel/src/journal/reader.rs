//! Reading a journal file, whole or not.

use std::path::Path;

use ortscope_core::batch::Batch;

use super::header::{self, FORMAT, Found, SEALED_FORMAT};
use super::scan::Scan;
use super::window::Window;
use super::{FILE_BYTES, number_of, seal_name};
use crate::ChannelError;
use crate::batch_frame::{Decoded, Decoder};
use crate::frame::FrameKind;
use crate::seal::{FrameSeal, Sealer};

/// Result of reading a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalOutcome {
    /// Batches that were read.
    pub frames: u64,
    /// Rows in them.
    pub rows: u64,
    /// Frames that are damaged or missing (at least), or that this program cannot read.
    pub damaged_frames: u64,
    /// Bytes that were skipped because of damage.
    pub skipped_bytes: u64,
    /// Batches of tables that this program does not know.
    pub unknown_tables: u64,
    /// Description of the first problem.
    pub problem: Option<String>,
}

/// Reads the batches of one file in the order they were written, with little of it in memory. The file is not changed and
/// may be read-only; one that is being written is read at least as far as it was complete when it was opened.
#[derive(Debug)]
pub struct JournalFileReader {
    scan: Scan,
    /// For the schema in the file; what this program writes itself can be read even if that is lost.
    decoder: Option<Decoder>,
    own_decoder: &'static Decoder,
    /// The key of the file if its frames are encrypted, and a buffer to decrypt them.
    seal: Option<Box<dyn FrameSeal>>,
    opened: Vec<u8>,
    outcome: JournalOutcome,
    damage_in_header: u64,
    unreadable_frames: u64,
}

impl JournalFileReader {
    /// Refuses files that are no journals, too long for one, encrypted, or of another format.
    pub fn open(path: &Path) -> Result<Self, ChannelError> {
        Self::open_sealed(path, None)
    }

    /// Opens a file of an encrypted recording if `sealer` is given. An unencrypted file is then rejected.
    pub fn open_sealed(path: &Path, sealer: Option<&dyn Sealer>) -> Result<Self, ChannelError> {
        let not_a_journal = |problem: &str| ChannelError::NotAJournal {
            path: path.display().to_string(),
            problem: problem.into(),
        };
        let mut file = crate::disk::open_to_read(path)?;
        let length = file.metadata()?.len();
        if length > *FILE_BYTES.end() {
            return Err(not_a_journal("it is too long"));
        }
        // The head is read first: everything before it is complete in all later reads.
        let page = header::read_page(&mut file)?;
        let header = header::parse(&page);
        match (header, sealer) {
            (Found::Whole { format: FORMAT, .. }, Some(_)) => {
                return Err(not_a_journal("it is not encrypted, although the recording is"));
            }
            (Found::Whole { format: SEALED_FORMAT, .. }, None) => {
                return Err(ChannelError::Sealed(path.display().to_string()));
            }
            (Found::Whole { format, .. }, _) if !matches!(format, FORMAT | SEALED_FORMAT) => {
                let path = path.display().to_string();
                return Err(ChannelError::OtherFormat { path, found: format, known: SEALED_FORMAT });
            }
            _ => {}
        }
        let seal = match sealer {
            Some(sealer) => {
                let Some(seal) = header::seal_of(&page) else {
                    return Err(not_a_journal("what says how it is encrypted is lost"));
                };
                let name = seal_name(number_of(path).unwrap_or(0));
                Some(sealer.open_file(&name, &seal).map_err(|problem| not_a_journal(&problem))?)
            }
            None => None,
        };
        let mut scan = Scan::new(Window::new(file, length as usize, header));
        if !matches!(header, Found::Whole { .. }) && !scan.has_frames() {
            return Err(not_a_journal("it has no header and no frames"));
        }
        let mut outcome = JournalOutcome::default();
        let damage_in_header = match header {
            Found::Whole { .. } => 0,
            Found::Empty | Found::Damaged => {
                outcome.problem = Some("its first page is damaged".to_owned());
                page.len() as u64
            }
        };
        Ok(Self {
            scan,
            decoder: None,
            own_decoder: Decoder::current(),
            seal,
            opened: Vec::new(),
            outcome,
            damage_in_header,
            unreadable_frames: 0,
        })
    }

    /// The next batch; `None` at the end. Unreadable frames are skipped and counted.
    pub fn next_batch(&mut self) -> Option<Batch> {
        loop {
            let Some((kind, number, payload)) = self.scan.next() else {
                self.count_damage();
                if let Some(error) = self.scan.error() {
                    self.outcome.problem.get_or_insert_with(|| error.to_string());
                }
                return None;
            };
            let payload = match &self.seal {
                Some(seal) => {
                    self.opened.clear();
                    self.opened.extend_from_slice(payload);
                    let Some(payload) = seal.open(u64::from(number), kind.0, &mut self.opened) else {
                        self.unreadable("a frame is not what was encrypted".to_owned());
                        continue;
                    };
                    payload
                }
                None => payload,
            };
            match kind {
                FrameKind::SCHEMA => match Decoder::from_json(payload) {
                    Ok(decoder) => self.decoder = Some(decoder),
                    Err(error) => self.unreadable(format!("its schema cannot be read: {error}")),
                },
                FrameKind::BATCH => {
                    let own = Some(self.own_decoder).filter(|decoder| decoder.is_for(payload));
                    let Some(decoder) = own.or(self.decoder.as_ref()) else {
                        self.unreadable("its schema is lost".to_owned());
                        continue;
                    };
                    match decoder.decode(payload) {
                        Ok(Decoded::Batch(batch)) => {
                            self.count_damage();
                            self.outcome.frames += 1;
                            self.outcome.rows += batch.len() as u64;
                            return Some(batch);
                        }
                        Ok(Decoded::UnknownTable) => self.outcome.unknown_tables += 1,
                        Err(error) => self.unreadable(error.to_string()),
                    }
                }
                // From a newer program; unrelated to the rows we know.
                _ => {}
            }
        }
    }

    /// The findings so far; complete once [`JournalFileReader::next_batch`] returned `None`.
    pub fn outcome(&self) -> &JournalOutcome {
        &self.outcome
    }

    fn unreadable(&mut self, problem: String) {
        self.unreadable_frames += 1;
        self.outcome.problem.get_or_insert(problem);
        self.count_damage();
    }

    fn count_damage(&mut self) {
        let gap = self.scan.gap();
        self.outcome.damaged_frames = gap.frames + self.unreadable_frames;
        self.outcome.skipped_bytes = gap.bytes + self.damage_in_header;
        if gap.frames > 0 {
            let problem = || format!("at least {} frames are damaged", gap.frames);
            self.outcome.problem.get_or_insert_with(problem);
        }
    }
}
