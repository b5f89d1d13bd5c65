//! A recording as one file, to attach to a bug report or to carry to another machine.
//!
//! The file is a zip with the manifest, the segments and the documents. By default everything that identifies people
//! and places is removed: command lines, user and host names, directories, the environment. Names of programs and
//! operators stay, because a recording is useless without them. Recordings never contain tensors.

mod redact;
mod unpack;

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use ortscope_channel::disk::open_to_read;
use ortscope_core::schema::TableId;
use ortscope_core::tables::{ReadError, Scan};
use serde::Serialize;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

pub(crate) use unpack::{Unpacked, unpack};

use crate::StoreError;
use crate::encryption::{Seal, document_name, seal_small};
use crate::files::{
    DOCUMENTS, MANIFEST, NewFile, PACKED_EXTENSION, SEGMENTS, entries, is_plain_name, new_file_for,
    put_in_place, segment_name,
};
use crate::manifest::Manifest;
use crate::recording::{Recording, Unit};
use crate::segment::{Segment, SegmentBuilder, SegmentWriter, View};
use redact::Redactor;

/// How to pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackOptions {
    /// Remove identifying data. Default: yes.
    pub redact: bool,
    /// Pack an encrypted recording so that it can be read without its key. Default: no, the file needs the same key.
    pub decrypt: bool,
}

impl Default for PackOptions {
    fn default() -> Self {
        Self { redact: true, decrypt: false }
    }
}

/// Result of packing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PackReport {
    pub path: PathBuf,
    pub bytes: u64,
    pub rows: u64,
    /// Removed or omitted data, as sentences with numbers.
    pub removed: Vec<String>,
    /// Unreadable data that is not included.
    pub damaged: Vec<String>,
}

/// Packs a recording into the file `to`, which must not exist. The recording is not changed.
pub fn pack(recording: &Path, to: &Path, options: PackOptions) -> Result<PackReport, StoreError> {
    if to.exists() {
        return Err(StoreError::Argument(format!("'{}' exists already", to.display())));
    }
    if to.extension().is_none_or(|extension| extension != PACKED_EXTENSION) {
        let problem = format!("'{}' should end in .{PACKED_EXTENSION}", to.display());
        return Err(StoreError::Argument(problem));
    }
    let recording = Recording::open(recording)?;
    let seal = recording.manifest().encryption.clone().filter(|_| !options.decrypt);
    let mut packer = Packer {
        seal,
        zip: ZipWriter::new(BufWriter::new(new_file_for(to)?)).set_auto_large_file(),
        redactor: options.redact.then(|| Redactor::new(recording.manifest())),
        report: PackReport { path: to.to_owned(), ..PackReport::default() },
        left_out: Vec::new(),
        documents: BTreeMap::new(),
    };
    packer.report.damaged.extend(recording.condition().damaged.iter().map(|damage| damage.sentence()));
    for unit in recording.units() {
        packer.unit(unit)?;
    }
    packer.documents(&recording)?;
    packer.manifest(recording.manifest())?;
    packer.finish(to)
}

struct Packer {
    /// Packed files stay encrypted with the recording's key.
    seal: Option<Seal>,
    zip: ZipWriter<BufWriter<NewFile>>,
    redactor: Option<Redactor>,
    report: PackReport,
    left_out: Vec<String>,
    /// Checksums of the documents as they were packed.
    documents: BTreeMap<String, Vec<u32>>,
}

impl Packer {
    fn unit(&mut self, unit: &Unit) -> Result<(), StoreError> {
        // Blocks are compressed already, and readers insist on finding segments as they are.
        let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        let name = segment_name(unit.number);
        self.zip.start_file(format!("{SEGMENTS}/{name}"), stored)?;
        match unit.segment() {
            Some(segment) => self.segment(segment, &name),
            None => self.rows(unit, &name),
        }
    }

    /// A segment, chunk by chunk: only tables with identifying texts are rewritten.
    fn segment(&mut self, segment: &Segment, name: &str) -> Result<(), StoreError> {
        let mut file = open_to_read(&segment.path)?;
        let mut writer = SegmentWriter::new(&mut self.zip, self.seal.as_ref(), name)?;
        writer.note_damage(segment.footer.damaged_frames, segment.footer.skipped_bytes);
        if segment.footer.accepted {
            writer.accept_loss();
        }
        for chunk in &segment.footer.chunks {
            let stored = &segment.footer.tables[chunk.table];
            let result = match (&mut self.redactor, segment.view_of(chunk)) {
                (Some(redactor), View::Known { table, .. }) if redact::is_identifying(*table) => segment
                    .decode(&mut file, chunk, |_| true)
                    .map(|batch| writer.add(&redact::redacted(&batch, redactor))),
                (Some(_), View::Unknown | View::Refused { .. }) => {
                    let rows = chunk.rows;
                    self.left_out
                        .push(format!("{rows} rows of '{}', which this version does not know", stored.name));
                    continue;
                }
                _ => segment.read_chunk(&mut file, chunk).map(|blocks| writer.copy(stored, chunk, blocks)),
            };
            match result {
                Ok(written) => {
                    written?;
                    self.report.rows += chunk.rows;
                }
                Err(error @ ReadError::Damaged { .. }) => {
                    writer.note_damage(1, chunk.bytes());
                    self.report.damaged.push(error.to_string());
                }
                Err(error) => return Err(error.into()),
            }
        }
        writer.finish()?;
        Ok(())
    }

    /// Rows that are in no segment yet.
    fn rows(&mut self, unit: &Unit, name: &str) -> Result<(), StoreError> {
        let mut builder = SegmentBuilder::default();
        for table in TableId::ALL {
            for batch in unit.scan(*table, &Scan::all()) {
                let batch = batch?;
                match &mut self.redactor {
                    Some(redactor) if redact::is_identifying(*table) => {
                        builder.add(&redact::redacted(&batch, redactor));
                    }
                    _ => builder.add(&batch),
                }
            }
        }
        self.report.rows += builder.rows();
        let mut writer = SegmentWriter::new(&mut self.zip, self.seal.as_ref(), name)?;
        if !unit.complete {
            writer.note_damage(1, 0);
        }
        builder.write_into(&mut writer)?;
        writer.finish()?;
        Ok(())
    }

    fn documents(&mut self, recording: &Recording) -> Result<(), StoreError> {
        for path in entries(&recording.directory().join(DOCUMENTS))? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !is_plain_name(&name) {
                continue;
            }
            let mut bytes = match recording.document(&name) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                Err(error @ StoreError::Damaged { .. }) => {
                    self.report.damaged.push(error.to_string());
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some(redactor) = &mut self.redactor {
                let Ok(text) = std::str::from_utf8(&bytes) else {
                    self.left_out.push(format!("the document '{name}', which is not text"));
                    continue;
                };
                bytes = redactor.document(text).into_bytes();
            }
            self.zip.start_file(format!("{DOCUMENTS}/{name}"), SimpleFileOptions::default())?;
            let checksum = crc32c::crc32c(&bytes);
            if let Some(seal) = &self.seal {
                bytes = seal_small(seal, &document_name(&name), &bytes)?;
            }
            self.zip.write_all(&bytes)?;
            self.documents.insert(name, vec![checksum]);
        }
        Ok(())
    }

    fn manifest(&mut self, manifest: &Manifest) -> Result<(), StoreError> {
        let mut manifest = manifest.clone();
        manifest.channels.clear();
        manifest.encryption.clone_from(&self.seal);
        manifest.documents.clone_from(&self.documents);
        if let Some(redactor) = &mut self.redactor {
            redactor.manifest(&mut manifest);
        }
        if let Some(end) = &mut manifest.end
            && !self.left_out.is_empty()
        {
            // Deliberately omitted rows are not missing.
            end.rows.retain(|table, _| TableId::by_name(table).is_some());
        }
        let bytes = manifest.to_bytes()?;
        self.zip.start_file(MANIFEST, SimpleFileOptions::default())?;
        self.zip.write_all(&bytes)?;
        Ok(())
    }

    fn finish(mut self, to: &Path) -> Result<PackReport, StoreError> {
        let mut buffered = self.zip.finish()?;
        buffered.flush()?;
        let file = buffered.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        put_in_place(file, to)?;
        self.report.bytes = fs_err::metadata(to)?.len();
        self.report.removed = self.redactor.map(Redactor::into_removed).unwrap_or_default();
        self.left_out.sort();
        self.left_out.dedup();
        self.report.removed.append(&mut self.left_out);
        Ok(self.report)
    }
}
