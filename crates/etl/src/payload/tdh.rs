//! TDH metadata that merging tools add to a file: TRACE_EVENT_INFO and EVENT_MAP_INFO as classic events.
//!
//! With it, manifest events can be decoded on machines without the manifest.

use crate::payload::kernel::METADATA_CLASS;
use crate::payload::scalar::{InType, Scalar, Show};
use crate::payload::schema::{Extent, FieldKind, SchemaField};
use crate::payload::{Cursor, Schema, ValueMap, WideText};
use crate::{Classic, EventRecord, Guid, Identity, PointerSize};

const HEAD_BYTES: usize = 112;
const PROPERTY_BYTES: usize = 24;
const MAP_HEAD_BYTES: usize = 16;
/// Far more than any real event has; bounds the memory.
const MAX_PROPERTIES: usize = 1024;
const MAX_MAP_ENTRIES: usize = 8192;

/// Contents of a metadata event.
#[derive(Debug, Clone, PartialEq)]
pub enum Metadata {
    Event(EventMetadata),
    Map { provider: Guid, name: Box<str>, map: ValueMap },
}

/// The schema of one event, and the event it is for.
#[derive(Debug, Clone, PartialEq)]
pub struct EventMetadata {
    pub source: DecodingSource,
    pub provider: Guid,
    /// The class of classic (MOF) events.
    pub class: Guid,
    pub id: u16,
    pub version: u8,
    pub opcode: u8,
    pub schema: Schema,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodingSource {
    Manifest,
    /// Classic events, described by a MOF class.
    Mof,
    Wpp,
    TraceLogging,
    Unknown(u32),
}

/// The metadata in this record, if it is a complete metadata event.
pub fn metadata_of(record: &EventRecord<'_>) -> Option<Metadata> {
    match record.identity {
        Identity::Classic(Classic { class: METADATA_CLASS, kind: 32, .. }) => {
            event_info(record.payload).map(Metadata::Event)
        }
        Identity::Classic(Classic { class: METADATA_CLASS, kind: 33, .. }) => map_info(record.payload),
        _ => None,
    }
}

/// Reads a TRACE_EVENT_INFO.
pub fn event_info(blob: &[u8]) -> Option<EventMetadata> {
    let mut head = Cursor::new(blob.get(..HEAD_BYTES)?, PointerSize::Eight, 0);
    let (provider, class) = (head.guid().ok()?, head.guid().ok()?);
    let id = head.u16().ok()?;
    let [version, _channel, _level, opcode] = head.array().ok()?;
    head.take(10).ok()?;
    let source = match head.u32().ok()? {
        0 => DecodingSource::Manifest,
        1 => DecodingSource::Mof,
        2 => DecodingSource::Wpp,
        3 => DecodingSource::TraceLogging,
        other => DecodingSource::Unknown(other),
    };
    let provider_name = head.u32().ok()?;
    head.take(12).ok()?;
    let (task_name, opcode_name) = (head.u32().ok()?, head.u32().ok()?);
    head.take(24).ok()?;
    let (count, top_level) = (head.u32().ok()? as usize, head.u32().ok()? as usize);
    if count > MAX_PROPERTIES || top_level > count {
        return None;
    }
    let properties = blob.get(HEAD_BYTES..HEAD_BYTES + count * PROPERTY_BYTES)?;
    let fields = properties.as_chunks::<PROPERTY_BYTES>().0.iter().map(|property| field(blob, property));
    let schema = Schema::new(
        text_at(blob, provider_name).trim_end(),
        text_at(blob, task_name).trim_end(),
        text_at(blob, opcode_name).trim_end(),
        fields.collect::<Option<Vec<_>>>()?,
        top_level,
    );
    Some(EventMetadata { source, provider, class, id, version, opcode, schema })
}

fn field(blob: &[u8], property: &[u8; PROPERTY_BYTES]) -> Option<SchemaField> {
    const STRUCT: u32 = 1;
    const LENGTH_FROM_FIELD: u32 = 2;
    const COUNT_FROM_FIELD: u32 = 4;
    const FIXED_LENGTH: u32 = 0x10;
    const FIXED_COUNT: u32 = 0x20;
    let mut cursor = Cursor::new(property, PointerSize::Eight, 0);
    let (flags, name) = (cursor.u32().ok()?, cursor.u32().ok()?);
    let (first, second, map_name) = (cursor.u16().ok()?, cursor.u16().ok()?, cursor.u32().ok()?);
    let (count, length) = (cursor.u16().ok()?, cursor.u16().ok()?);
    let count = match flags & (COUNT_FROM_FIELD | FIXED_COUNT) {
        f if f & COUNT_FROM_FIELD != 0 => Extent::FromField(usize::from(count)),
        0 if count <= 1 => Extent::Natural,
        _ => Extent::Fixed(count),
    };
    let kind = if flags & STRUCT != 0 {
        FieldKind::Struct { first: usize::from(first), members: usize::from(second) }
    } else {
        let in_type = InType(first);
        let takes_length = matches!(in_type, InType::WIDE | InType::NARROW | InType::BINARY);
        let length = match flags & (LENGTH_FROM_FIELD | FIXED_LENGTH) {
            f if f & LENGTH_FROM_FIELD != 0 => Extent::FromField(usize::from(length)),
            _ if takes_length && length > 0 => Extent::Fixed(length),
            _ => Extent::Natural,
        };
        FieldKind::Scalar { scalar: Scalar { in_type, show: Show::from_tdh(second) }, length }
    };
    let has_map = flags & STRUCT == 0 && map_name != 0;
    Some(SchemaField {
        name: text_at(blob, name).into(),
        kind,
        count,
        map_name: has_map.then(|| text_at(blob, map_name).into()),
        map: None,
        is_kept: false,
    })
}

/// Reads the provider's GUID and the EVENT_MAP_INFO that follows it.
pub fn map_info(blob: &[u8]) -> Option<Metadata> {
    let (provider, info) = blob.split_first_chunk::<16>()?;
    let mut cursor = Cursor::new(info, PointerSize::Eight, 0);
    let (name, flags, count) = (cursor.u32().ok()?, cursor.u32().ok()?, cursor.u32().ok()? as usize);
    if count > MAX_MAP_ENTRIES {
        return None;
    }
    let entries = info.get(MAP_HEAD_BYTES..MAP_HEAD_BYTES + count * 8)?.as_chunks::<8>().0;
    let entries = entries.iter().map(|entry| {
        let [o0, o1, o2, o3, v0, v1, v2, v3] = *entry;
        let text = text_at(info, u32::from_le_bytes([o0, o1, o2, o3]));
        (u32::from_le_bytes([v0, v1, v2, v3]), text.trim_end().into())
    });
    const BITS: u32 = 2;
    Some(Metadata::Map {
        provider: Guid::from_bytes(*provider),
        name: text_at(info, name).into(),
        map: ValueMap::new(flags & BITS != 0, entries.collect()),
    })
}

/// Text at an offset of the blob; offset 0 means none.
fn text_at(blob: &[u8], offset: u32) -> String {
    match blob.get(offset as usize..) {
        Some(rest) if offset != 0 => WideText::new(rest).until_nul().to_string(),
        _ => String::new(),
    }
}
