//! The metadata of a recording: `manifest.json`, readable by people and by every later version.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ortscope_core::clock::WallAnchor;
use ortscope_core::recording::RecordingInfo;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::StoreError;
use crate::encryption::{Seal, find_key, from_hex, hex, open_small, seal_small, small_header};
use crate::files::{MANIFEST, read_small, write_whole};

/// Precedes the checksum, which is the last entry of a manifest and covers every byte before this.
const BEFORE_CHECKSUM: &str = ",\n  \"crc32c\": \"";

/// Version of the recording's layout. Older ones are opened through upgraders, newer ones are refused.
pub const FORMAT: u32 = 1;

/// An encrypted recording: its manifest is inside an [`Envelope`]. Programs without support for it refuse it.
const ENVELOPE_FORMAT: u32 = 2;
const _: () = assert!(FORMAT != ENVELOPE_FORMAT, "this number is taken: the next one is free");

/// One step from format `n` to format `n + 1`, with the `n` it starts from. Every change of the format adds a step and a
/// golden recording under `tests/golden`.
type Upgrader = (u32, fn(Value) -> Value);
const UPGRADERS: &[Upgrader] = &[];

/// The head of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    /// Unique, e.g. `2026-11-15-7f3a9c2e`; the name of the directory.
    pub id: String,
    /// The user's own name for it.
    pub name: Option<String>,
    pub tags: Vec<String>,
    pub ortscope_version: String,
    /// The command that created it: run, record, attach, import.
    pub origin: String,
    /// The recorded models or program, for lists.
    pub subject: String,
    /// The command that made it, redacted.
    pub command: Option<String>,
    /// Monotonic and wall time when it began.
    pub started: WallAnchor,
    /// The machine's boot, so that two recordings of one boot can be laid on one time line.
    pub boot_id: Option<String>,
    /// Host name of the recorded machine, for exports that combine many machines. Unknown for imports and recordings
    /// of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Facts that decide whether two recordings can be compared: cpu_model, logical_cpus, governor, os, ort_version …
    pub fingerprint: BTreeMap<String, String>,
    /// `session_ids[n]` names session number n of the channel in this recording, for recovery from its rings.
    pub session_ids: Vec<String>,
    /// Channels outside the recording: rings in memory, where writing disturbs least. Listed only until the recording
    /// has ended properly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<ChannelPlace>,
    /// CRC-32C of each document; of one that was replaced also the one before, because it may still be there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub documents: BTreeMap<String, Vec<u32>>,
    pub end: Option<RecordingEnd>,
    /// The recording is encrypted, and this is its key.
    #[serde(skip)]
    pub encryption: Option<Seal>,
}

/// The unencrypted part of an encrypted recording's `manifest.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Envelope {
    format: u32,
    /// For people; the format decides.
    cipher: String,
    /// The id of the key.
    key: String,
    /// It has a name or a tag, so that pruning leaves it alone.
    kept: bool,
    /// The manifest, sealed, in hexadecimal digits.
    sealed: String,
}

/// The directory of a channel, and its sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelPlace {
    pub directory: PathBuf,
    pub session_ids: Vec<String>,
}

/// Written when a recording ended in order. A recording without it was cut off, or is still being written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordingEnd {
    pub ended: WallAnchor,
    /// Rows by table name.
    pub rows: BTreeMap<String, u64>,
    /// Why it ended, for people.
    pub reason: String,
}

/// A manifest as it was found.
#[derive(Debug)]
pub(crate) enum Found {
    Whole(Box<Manifest>),
    Missing,
    Damaged(String),
}

impl Manifest {
    /// The facts about the recording that reports and exports show.
    pub fn info(&self) -> RecordingInfo {
        RecordingInfo {
            id: self.id.clone(),
            name: self.name.clone(),
            tags: self.tags.clone(),
            ortscope_version: self.ortscope_version.clone(),
            origin: self.origin.clone(),
            subject: self.subject.clone(),
            command: self.command.clone(),
            started: self.started,
            ended: self.end.as_ref().map(|end| end.ended),
            end_reason: self.end.as_ref().map(|end| end.reason.clone()),
            boot_id: self.boot_id.clone(),
            fingerprint: self.fingerprint.clone(),
        }
    }

    /// Reads the manifest of a recording in any format up to ours. A newer one is an error.
    pub(crate) fn read(recording: &Path) -> Result<Found, StoreError> {
        Self::read_with(recording, None)
    }

    /// Like [`Self::read`], with an already known key.
    pub(crate) fn read_with(recording: &Path, known: Option<&Seal>) -> Result<Found, StoreError> {
        let path = recording.join(MANIFEST);
        let Some(bytes) = read_small(&path)? else {
            return Ok(Found::Missing);
        };
        if let Some(problem) = wrong_checksum(&bytes) {
            return Ok(Found::Damaged(problem));
        }
        let value: Value = match serde_json::from_slice(&bytes) {
            Ok(value) => value,
            Err(error) => return Ok(Found::Damaged(format!("it is not JSON: {error}"))),
        };
        let Some(format) = format_of(&value) else {
            return Ok(Found::Damaged("it does not say its format".into()));
        };
        if format == ENVELOPE_FORMAT {
            return open_envelope(recording, value, known);
        }
        if format > FORMAT {
            let place = recording.display().to_string();
            return Err(StoreError::NewerFormat { place, found: format, known: ENVELOPE_FORMAT });
        }
        Ok(match serde_json::from_value(upgrade(value, format, UPGRADERS)) {
            Ok(manifest) => Found::Whole(Box::new(manifest)),
            Err(error) => Found::Damaged(error.to_string()),
        })
    }

    pub(crate) fn write(&self, recording: &Path) -> Result<(), StoreError> {
        write_whole(&recording.join(MANIFEST), &self.to_bytes()?)
    }

    /// As it is written: JSON whose last entry is a checksum of all before it.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, StoreError> {
        let Some(seal) = &self.encryption else { return with_checksum(self) };
        let sealed = seal_small(seal, MANIFEST, &with_checksum(self)?)?;
        with_checksum(&Envelope {
            format: ENVELOPE_FORMAT,
            cipher: "chacha20-poly1305".into(),
            key: seal.key_id().to_string(),
            kept: self.is_kept(),
            sealed: hex(&sealed),
        })
    }

    /// It has a name or a tag: pruning leaves it alone.
    pub(crate) fn is_kept(&self) -> bool {
        self.name.is_some() || !self.tags.is_empty()
    }

    /// Whether these bytes are a document as it was written. Recordings of before had no checksums of documents.
    pub(crate) fn has_document(&self, name: &str, bytes: &[u8]) -> bool {
        self.documents.get(name).is_none_or(|checksums| checksums.contains(&crc32c::crc32c(bytes)))
    }

    /// Replaces a lost manifest with what can be derived from the directory.
    pub(crate) fn of_lost(recording: &Path) -> Self {
        let id = recording.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self {
            format: FORMAT,
            id,
            name: None,
            tags: Vec::new(),
            ortscope_version: String::new(),
            origin: "unknown".into(),
            subject: "unknown".into(),
            command: None,
            started: WallAnchor { monotonic_ns: 0, unix_ns: 0, error_ns: u64::MAX },
            boot_id: None,
            host: None,
            fingerprint: BTreeMap::new(),
            session_ids: Vec::new(),
            channels: Vec::new(),
            documents: BTreeMap::new(),
            end: None,
            encryption: None,
        }
    }
}

fn format_of(manifest: &Value) -> Option<u32> {
    let format = manifest.get("format")?.as_u64()?;
    Some(u32::try_from(format).unwrap_or(u32::MAX))
}

fn with_checksum(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let json = serde_json::to_string_pretty(value).map_err(|error| StoreError::Failed(error.to_string()))?;
    let entries = json.strip_suffix("\n}").unwrap_or(&json);
    let checksum = crc32c::crc32c(entries.as_bytes());
    Ok(format!("{entries}{BEFORE_CHECKSUM}{checksum:08x}\"\n}}\n").into_bytes())
}

/// Finds the key and reads the manifest inside. Its checksum was verified before: if it does not open, it was
/// tampered with.
fn open_envelope(recording: &Path, value: Value, known: Option<&Seal>) -> Result<Found, StoreError> {
    let damaged = |problem: &str| Ok(Found::Damaged(problem.to_owned()));
    let Ok(envelope) = serde_json::from_value::<Envelope>(value) else {
        return damaged("what says how it is encrypted cannot be read");
    };
    let Some((sealed, header)) =
        from_hex(&envelope.sealed).and_then(|sealed| small_header(&sealed).map(|header| (sealed, header)))
    else {
        return damaged("its encrypted part is truncated");
    };
    let seal = match known.filter(|seal| seal.find(MANIFEST, &header).is_ok()) {
        Some(seal) => seal.clone(),
        None => find_key(&recording.display().to_string(), &header, envelope.kept)?,
    };
    let json = match open_small(&seal, MANIFEST, &sealed) {
        Ok(json) => json,
        Err(problem) => return damaged(&problem),
    };
    Ok(match serde_json::from_slice::<Value>(&json).map(|value| (format_of(&value), value)) {
        Ok((Some(found), _)) if found > FORMAT => {
            let place = recording.display().to_string();
            return Err(StoreError::NewerFormat { place, found, known: FORMAT });
        }
        Ok((format, value)) => {
            match serde_json::from_value(upgrade(value, format.unwrap_or(FORMAT), UPGRADERS)) {
                Ok(manifest) => Found::Whole(Box::new(Manifest { encryption: Some(seal), ..manifest })),
                Err(error) => Found::Damaged(error.to_string()),
            }
        }
        Err(error) => Found::Damaged(error.to_string()),
    })
}

/// The problem with the checksum of a manifest, if it has one: older manifests have none.
fn wrong_checksum(bytes: &[u8]) -> Option<String> {
    let before = BEFORE_CHECKSUM.as_bytes();
    let at = bytes.windows(before.len()).rposition(|window| window == before)?;
    let stored = bytes.get(at + before.len()..)?.split(|byte| *byte == b'"').next()?;
    let found = format!("{:08x}", crc32c::crc32c(&bytes[..at]));
    (stored != found.as_bytes()).then(|| "its checksum does not hold".to_owned())
}

fn upgrade(mut value: Value, format: u32, steps: &[Upgrader]) -> Value {
    for (_, step) in steps.iter().filter(|(from, _)| *from >= format) {
        value = step(value);
    }
    value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn upgraders_run_in_order_from_the_format_that_was_found() {
        fn step(value: &Value, name: &str) -> Value {
            let so_far = value["steps"].as_str().unwrap_or_default();
            json!({"steps": format!("{so_far}{name}")})
        }
        let steps: &[Upgrader] = &[
            (1, |value| step(&value, "1→2 ")),
            (2, |value| step(&value, "2→3 ")),
            (3, |value| step(&value, "3→4 ")),
        ];
        let upgraded =
            |format| upgrade(json!({}), format, steps)["steps"].as_str().unwrap_or_default().to_owned();
        assert_eq!(upgraded(1), "1→2 2→3 3→4 ");
        assert_eq!(upgraded(3), "3→4 ");
        assert_eq!(upgraded(4), "");
    }

    #[test]
    fn a_changed_byte_in_a_manifest_is_detected() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut manifest = Manifest::of_lost(directory.path());
        manifest.end = Some(RecordingEnd {
            ended: manifest.started,
            rows: BTreeMap::from([("inferences".into(), 3)]),
            reason: "finished".into(),
        });
        let good = manifest.to_bytes().expect("written");
        let read = |bytes: &[u8]| {
            fs_err::write(directory.path().join(MANIFEST), bytes).expect("written");
            Manifest::read(directory.path())
        };
        assert!(matches!(read(&good), Ok(Found::Whole(same)) if *same == manifest));
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            // In the name of the checksum itself a change costs the checksum and nothing else.
            match read(&bytes) {
                Ok(Found::Whole(other)) => assert_eq!(*other, manifest, "bit {bit}"),
                Ok(Found::Damaged(_)) => {}
                other => panic!("bit {bit}: {other:?}"),
            }
        }
    }

    #[test]
    fn every_format_before_ours_has_an_upgrader() {
        let from: Vec<u32> = UPGRADERS.iter().map(|(from, _)| *from).collect();
        assert_eq!(from, (1..FORMAT).collect::<Vec<_>>());
    }
}
