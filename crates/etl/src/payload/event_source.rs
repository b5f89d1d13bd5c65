//! EventSource manifests: .NET providers write their own manifest into the trace, as XML chunks in events with id
//! 0xFFFE.

use std::collections::HashMap;
use std::sync::Arc;

use crate::payload::scalar::{InType, Scalar, Show};
use crate::payload::schema::{Extent, FieldKind, SchemaField};
use crate::payload::{Schema, ValueMap, xml};
use crate::{EventRecord, Guid, Identity};

/// The event id of manifest chunks.
pub const MANIFEST_EVENT: u16 = 0xfffe;

const MAGIC: u8 = 0x5b;
const CHUNK_HEAD_BYTES: usize = 8;
/// The largest real manifest seen has 64 kB.
const MAX_MANIFEST_BYTES: usize = 4 << 20;
/// Limit for concurrent manifests.
const MAX_PARTIAL: usize = 256;
const MAX_FIELDS: usize = 512;

/// One piece of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'a> {
    pub format: u8,
    pub major: u8,
    pub minor: u8,
    pub total: u16,
    pub number: u16,
    pub text: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// `None` if the record is not a manifest chunk.
    pub fn of(record: &EventRecord<'a>) -> Option<(Guid, Self)> {
        match record.identity {
            Identity::Event { provider, descriptor } if descriptor.id == MANIFEST_EVENT => {
                Self::parse(record.payload).map(|chunk| (provider, chunk))
            }
            _ => None,
        }
    }

    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        let (&[format, major, minor, magic, t0, t1, n0, n1], text) =
            payload.split_first_chunk::<CHUNK_HEAD_BYTES>()?;
        let (total, number) = (u16::from_le_bytes([t0, t1]), u16::from_le_bytes([n0, n1]));
        (format == 1 && magic == MAGIC && number < total).then_some(Self {
            format,
            major,
            minor,
            total,
            number,
            text,
        })
    }
}

/// Assembles chunks. Providers write a manifest again when a session starts, in several processes at once; a first chunk
/// restarts it.
#[derive(Debug, Default)]
pub struct Assembler {
    partial: HashMap<(Guid, u32), Partial>,
    bytes: usize,
    /// Unusable chunks: out of order, or too many at once.
    pub refused: u64,
}

#[derive(Debug)]
struct Partial {
    next: u16,
    total: u16,
    text: Vec<u8>,
}

impl Assembler {
    /// Adds a chunk; returns the whole text if it was the last.
    pub fn add(&mut self, provider: Guid, process: u32, chunk: &Chunk<'_>) -> Option<Vec<u8>> {
        let key = (provider, process);
        let known = self.partial.remove(&key);
        self.bytes -= known.as_ref().map_or(0, |partial| partial.text.len());
        let mut partial = match (chunk.number, known) {
            (0, _) => Partial { next: 0, total: chunk.total, text: Vec::new() },
            (number, Some(partial)) if partial.next == number && partial.total == chunk.total => partial,
            _ => {
                self.refused += 1;
                return None;
            }
        };
        if self.bytes + partial.text.len() + chunk.text.len() > MAX_MANIFEST_BYTES
            || self.partial.len() >= MAX_PARTIAL
        {
            self.refused += 1;
            return None;
        }
        partial.text.extend_from_slice(chunk.text);
        partial.next += 1;
        if partial.next == partial.total {
            return Some(partial.text);
        }
        self.bytes += partial.text.len();
        self.partial.insert(key, partial);
        None
    }
}

/// The events of one provider.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifest {
    pub provider: Guid,
    pub name: String,
    /// Id, version and schema.
    pub events: Vec<(u16, u8, Schema)>,
}

/// Parses the manifests in a text, one per `provider` element. Invalid parts are skipped.
pub fn parse(text: &str) -> Vec<Manifest> {
    let mut manifests = Vec::new();
    let mut draft: Option<Draft> = None;
    for tag in xml::tags(text) {
        if tag.name == "provider" && !tag.is_end {
            manifests.extend(draft.take().map(Draft::finish));
            let guid = tag.attribute("guid").and_then(|guid| guid.parse().ok()).unwrap_or_default();
            let name = tag.attribute("name").unwrap_or_default().into_owned();
            draft = Some(Draft { provider: guid, name, ..Draft::default() });
        } else if let Some(draft) = &mut draft {
            draft.take(&tag);
        }
    }
    manifests.extend(draft.map(Draft::finish));
    manifests
}

/// A partly parsed manifest: templates and maps follow the events that use them.
#[derive(Debug, Default)]
struct Draft {
    provider: Guid,
    name: String,
    events: Vec<DraftEvent>,
    templates: HashMap<String, Vec<SchemaField>>,
    open_template: Option<(String, Vec<SchemaField>)>,
    maps: HashMap<String, Arc<ValueMap>>,
    open_map: Option<DraftMap>,
}

#[derive(Debug)]
struct DraftMap {
    name: String,
    is_bits: bool,
    entries: Vec<(u32, Box<str>)>,
}

#[derive(Debug)]
struct DraftEvent {
    id: u16,
    version: u8,
    task: String,
    opcode: String,
    template: Option<String>,
}

impl Draft {
    fn take(&mut self, tag: &xml::Tag<'_>) {
        match (tag.name, tag.is_end) {
            ("event", false) => self.event(tag),
            ("template", false) => {
                let id = tag.attribute("tid").unwrap_or_default().into_owned();
                self.open_template = Some((id, Vec::new()));
                if tag.is_empty {
                    self.close_template();
                }
            }
            ("template", true) => self.close_template(),
            ("data", false) => {
                if let Some((_, fields)) = &mut self.open_template
                    && fields.len() < MAX_FIELDS
                {
                    let field = field(tag, fields);
                    fields.push(field);
                }
            }
            ("valueMap" | "bitMap", false) => {
                let name = tag.attribute("name").unwrap_or_default().into_owned();
                self.open_map = Some(DraftMap { name, is_bits: tag.name == "bitMap", entries: Vec::new() });
            }
            ("map", false) => {
                if let (Some(map), Some(value)) = (&mut self.open_map, tag.attribute("value")) {
                    let text = tag.attribute("message").unwrap_or_default();
                    map.entries.extend(number(&value).map(|value| (value, last_word(&text).into())));
                }
            }
            ("valueMap" | "bitMap", true) => {
                if let Some(DraftMap { name, is_bits, entries }) = self.open_map.take() {
                    self.maps.insert(name, Arc::new(ValueMap::new(is_bits, entries)));
                }
            }
            _ => {}
        }
    }

    fn close_template(&mut self) {
        if let Some((id, fields)) = self.open_template.take() {
            self.templates.insert(id, fields);
        }
    }

    fn event(&mut self, tag: &xml::Tag<'_>) {
        let Some(id) = tag.attribute("value").as_deref().and_then(number) else { return };
        let version = tag.attribute("version").as_deref().and_then(number).unwrap_or(0);
        let (Ok(id), Ok(version)) = (u16::try_from(id), u8::try_from(version)) else { return };
        let text = |name| tag.attribute(name).map(std::borrow::Cow::into_owned);
        self.events.push(DraftEvent {
            id,
            version,
            task: text("task").or_else(|| text("symbol")).unwrap_or_default(),
            opcode: text("opcode").unwrap_or_default(),
            template: text("template"),
        });
    }

    fn finish(self) -> Manifest {
        let Self { provider, name, events, mut templates, maps, .. } = self;
        for field in templates.values_mut().flatten() {
            field.map = field.map_name.as_deref().and_then(|name| maps.get(name)).cloned();
        }
        let events = events.into_iter().map(|event| {
            let fields = event.template.and_then(|id| templates.get(&id).cloned()).unwrap_or_default();
            let count = fields.len();
            (event.id, event.version, Schema::new(&name, &event.task, &event.opcode, fields, count))
        });
        Manifest { provider, events: events.collect(), name: name.clone() }
    }
}

fn field(tag: &xml::Tag<'_>, before: &[SchemaField]) -> SchemaField {
    let extent = |name| match tag.attribute(name) {
        None => Extent::Natural,
        Some(text) => match text.parse() {
            Ok(number) => Extent::Fixed(number),
            Err(_) => before
                .iter()
                .position(|field| *field.name == *text)
                .map_or(Extent::Natural, Extent::FromField),
        },
    };
    let in_type = in_type(&tag.attribute("inType").unwrap_or_default());
    let show = show(&tag.attribute("outType").unwrap_or_default());
    SchemaField {
        name: tag.attribute("name").unwrap_or_default().into(),
        kind: FieldKind::Scalar { scalar: Scalar { in_type, show }, length: extent("length") },
        count: extent("count"),
        map_name: tag.attribute("map").map(Into::into),
        map: None,
        is_kept: false,
    }
}

fn in_type(name: &str) -> InType {
    match name.strip_prefix("win:").unwrap_or(name) {
        "UnicodeString" => InType::WIDE,
        "AnsiString" => InType::NARROW,
        "Int8" => InType::I8,
        "UInt8" => InType::U8,
        "Int16" => InType::I16,
        "UInt16" => InType::U16,
        "Int32" => InType::I32,
        "UInt32" => InType::U32,
        "Int64" => InType::I64,
        "UInt64" => InType::U64,
        "Float" => InType::F32,
        "Double" => InType::F64,
        "Boolean" => InType::BOOL32,
        "Binary" => InType::BINARY,
        "GUID" => InType::GUID,
        "Pointer" => InType::POINTER,
        "FILETIME" => InType::FILE_TIME,
        "SYSTEMTIME" => InType::SYSTEM_TIME,
        "SID" => InType::SID,
        "HexInt32" => InType::HEX32,
        "HexInt64" => InType::HEX64,
        "CountedUnicodeString" => InType::COUNTED_WIDE,
        "CountedAnsiString" => InType::COUNTED_NARROW,
        "CountedBinary" => InType::COUNTED_BINARY,
        // Decoding stops at it, so that later fields are missing instead of wrong.
        _ => InType(u16::MAX),
    }
}

fn show(name: &str) -> Show {
    match name.split_once(':').map_or(name, |(_, local)| local) {
        "boolean" => Show::Bool,
        "HexInt8" | "HexInt16" | "HexInt32" | "HexInt64" | "ErrorCode" | "Win32Error" | "NTSTATUS"
        | "HResult" => Show::Hex,
        "Port" => Show::Port,
        "IPv4" => Show::Ipv4,
        "IPv6" => Show::Ipv6,
        "CodePointer" => Show::CodePointer,
        _ => Show::Plain,
    }
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `$(string.map_ColourRed)` refers to the text `Red` in EventSource's string table.
fn last_word(message: &str) -> &str {
    let key = message.strip_prefix("$(string.").and_then(|rest| rest.strip_suffix(')')).unwrap_or(message);
    key.strip_prefix("map_").unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PointerSize;
    use crate::payload::{Value, Visitor};

    const TEXT: &str = r#"<instrumentationManifest><provider name="My-Source" guid="{319dc449-ada5-50f7-428e-957db6791668}">
        <tasks><task name="Work" value="1"/></tasks>
        <events><event value="7" version="1" task="Work" opcode="win:Start" template="t"/>
        <event value="8" symbol="Idle"/></events>
        <templates><template tid="t"><data name="n" inType="win:UInt32"/><data name="b" inType="win:Binary" length="n"/>
        <data name="kind" inType="win:Int32" map="k"/><data name="s" inType="win:UnicodeString"/></template></templates>
        <maps><valueMap name="k"><map value="2" message="$(string.map_kTwo)"/></valueMap></maps></provider></instrumentationManifest>"#;

    #[derive(Default)]
    struct Lines(Vec<String>);

    impl Visitor for Lines {
        fn field(&mut self, name: &str, value: Value<'_>) {
            self.0.push(format!("{name}={value}"));
        }
    }

    #[test]
    fn a_manifest_describes_its_events() {
        let [manifest] = &parse(TEXT)[..] else { panic!("one provider") };
        assert_eq!(manifest.name, "My-Source");
        let [(7, 1, start), (8, 0, idle)] = &manifest.events[..] else { panic!("{:?}", manifest.events) };
        assert_eq!((start.event_name().as_str(), idle.event_name().as_str()), ("Work/Start", "Idle"));
        let mut lines = Lines::default();
        let payload = [2, 0, 0, 0, 9, 8, 2, 0, 0, 0, b'h', 0, b'i', 0, 0, 0];
        let followed = start.visit(&payload, PointerSize::Eight, &mut lines);
        assert_eq!((followed.consumed, followed.missing), (16, 0));
        assert_eq!(lines.0, ["n=2", "b=0908", "kind=kTwo", "s=hi"]);
        assert_eq!(start.visit(&payload[..5], PointerSize::Eight, &mut ()).missing, 3);
    }

    #[test]
    fn chunks_are_put_together_in_order_only() {
        let piece = |number, text| {
            let mut bytes = vec![1, 1, 0, MAGIC, 3, 0, number, 0];
            bytes.extend_from_slice(text);
            bytes
        };
        let (a, b, c) = (piece(0, b"<a"), piece(1, b"b"), piece(2, b"/>"));
        let mut assembler = Assembler::default();
        let mut add =
            |bytes: &[u8]| assembler.add(Guid::default(), 1, &Chunk::parse(bytes).expect("a chunk"));
        assert_eq!((add(&a), add(&c), add(&b)), (None, None, None));
        assert_eq!((add(&a), add(&b)), (None, None));
        assert_eq!(add(&c).as_deref(), Some(&b"<ab/>"[..]));
        assert_eq!(assembler.refused, 2);
        assert!(Chunk::parse(&piece(3, b"")).is_none(), "past the last");
    }
}
