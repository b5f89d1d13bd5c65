//! Finds the schema of any event and shows its fields: the single entry point for events that are not decoded by type.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::payload::event_source::{self, Assembler, Chunk};
use crate::payload::kernel::{self, KernelPayload};
use crate::payload::tdh::{self, DecodingSource, Metadata};
use crate::payload::trace_logging::TraceLogging;
use crate::payload::{Schema, Value, ValueMap, Visitor, builtin};
use crate::{Classic, EventRecord, Guid, Identity};

/// Limit for schemas. The largest merged file seen has 61; all manifests of a machine have 55,000 events.
const MAX_SCHEMAS: usize = 1 << 16;
const MAX_MAPS: usize = 1 << 14;
/// Limit for metadata converted to schemas; a schema takes a small multiple of its blob.
const MAX_METADATA_BYTES: usize = 32 << 20;

/// The origin of an event's layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SchemaSource {
    /// The fixed layouts of the kernel and of merging tools.
    Kernel,
    /// The event carries its own schema.
    TraceLogging,
    /// TDH metadata in the file.
    Tdh,
    /// A manifest that the provider wrote into the trace.
    EventSource,
    BuiltIn,
    /// Metadata itself: manifest chunks and TDH blobs.
    Metadata,
    Unknown,
}

impl SchemaSource {
    /// The name in tables and JSON documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::TraceLogging => "trace_logging",
            Self::Tdh => "tdh",
            Self::EventSource => "event_source",
            Self::BuiltIn => "built_in",
            Self::Metadata => "metadata",
            Self::Unknown => "unknown",
        }
    }
}

/// How completely an event was decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    pub source: SchemaSource,
    /// Bytes of the payload that were decoded.
    pub consumed: usize,
    /// Bytes after the last field: 0 if everything was decoded.
    pub left_over: usize,
    /// The payload ended before the schema did, so fields are missing.
    pub is_short: bool,
}

/// Counts of dropped metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreLosses {
    /// Damaged or unknown metadata events.
    pub unreadable: u64,
    /// Schemas and maps beyond the limits.
    pub refused: u64,
    /// Manifest chunks that did not fit together.
    pub stray_chunks: u64,
}

/// Collects the schemas of a trace and returns the best one for each event: the event's own, then TDH metadata, then
/// EventSource manifests, then our tables.
#[derive(Debug)]
pub struct SchemaStore {
    /// Shared with all other stores until the trace adds its own.
    schemas: Arc<HashMap<Key, (SchemaSource, Schema)>>,
    /// The newest versions in our tables, for events of unknown versions.
    newest_built_in: Arc<HashMap<(Guid, u16), u8>>,
    maps: HashMap<(Guid, Box<str>), Arc<ValueMap>>,
    assembler: Assembler,
    metadata_bytes: usize,
    losses: StoreLosses,
}

/// The event of a schema: two numbers, because the key of every event is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    guid: u128,
    /// Id or kind, and version.
    event: u32,
}

impl Key {
    const fn event(provider: Guid, id: u16, version: u8) -> Self {
        Self { guid: bits(provider), event: (id as u32) << 8 | version as u32 }
    }

    const fn classic(class: Guid, kind: u8, version: u8) -> Self {
        Self { guid: bits(class), event: 1 << 24 | (kind as u32) << 8 | version as u32 }
    }

    fn is_of(self, provider: Guid) -> bool {
        self.guid == bits(provider) && self.event < 1 << 24
    }
}

const fn bits(guid: Guid) -> u128 {
    (guid.data1 as u128) << 96
        | (guid.data2 as u128) << 80
        | (guid.data3 as u128) << 64
        | u64::from_be_bytes(guid.data4) as u128
}

/// Its manifest declares two frames, but the runtime writes as many as it counts, as in our table.
const CLR_STACK_WALK: Key = Key::event(Guid::new(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4), 82, 0);

type OurTables = (Arc<HashMap<Key, (SchemaSource, Schema)>>, Arc<HashMap<(Guid, u16), u8>>);

/// Parsed once: several hundred events.
static OUR_TABLES: LazyLock<OurTables> = LazyLock::new(|| {
    let (mut schemas, mut newest_versions) = (HashMap::new(), HashMap::new());
    for event in builtin::events() {
        let newest: &mut u8 = newest_versions.entry((event.provider, event.id)).or_default();
        *newest = (*newest).max(*event.versions.end());
        for version in event.versions {
            let key = Key::event(event.provider, event.id, version);
            schemas.insert(key, (SchemaSource::BuiltIn, event.schema.clone()));
        }
    }
    (Arc::new(schemas), Arc::new(newest_versions))
});

impl Default for SchemaStore {
    fn default() -> Self {
        Self::new()
    }
}

impl SchemaStore {
    /// A store with only our tables.
    pub fn new() -> Self {
        let (schemas, newest_built_in) = &*OUR_TABLES;
        Self {
            schemas: Arc::clone(schemas),
            newest_built_in: Arc::clone(newest_built_in),
            ..Self::without_tables()
        }
    }

    /// An empty store, to see only the schemas of a trace itself.
    pub fn without_tables() -> Self {
        Self {
            schemas: Arc::default(),
            newest_built_in: Arc::default(),
            maps: HashMap::new(),
            assembler: Assembler::default(),
            metadata_bytes: 0,
            losses: StoreLosses::default(),
        }
    }

    pub fn losses(&self) -> StoreLosses {
        StoreLosses { stray_chunks: self.assembler.refused, ..self.losses }
    }

    /// Number of known schemas, including our own.
    pub fn len(&self) -> usize {
        self.schemas.len()
    }

    pub fn is_empty(&self) -> bool {
        self.schemas.is_empty()
    }

    /// Learns from a record if it has metadata; cheap for all others. Metadata may precede or follow the events it
    /// describes, even in another file of the same trace, so learn from all records first if that matters.
    pub fn learn(&mut self, record: &EventRecord<'_>) {
        match record.identity {
            Identity::Classic(Classic { class: kernel::METADATA_CLASS, .. }) => self.learn_metadata(record),
            Identity::Event { descriptor, .. } if descriptor.id == event_source::MANIFEST_EVENT => {
                if let Some((provider, chunk)) = Chunk::of(record)
                    && let Some(text) = self.assembler.add(provider, record.process_id.unwrap_or(0), &chunk)
                {
                    self.learn_manifest(provider, &text);
                }
            }
            _ => {}
        }
    }

    fn learn_metadata(&mut self, record: &EventRecord<'_>) {
        if !self.has_room(record.payload.len()) {
            return;
        }
        match tdh::metadata_of(record) {
            Some(Metadata::Event(event)) => {
                let key = match event.source {
                    DecodingSource::Manifest => Key::event(event.provider, event.id, event.version),
                    DecodingSource::Mof => Key::classic(event.class, event.opcode, event.version),
                    // All TraceLogging events have id 0 and carry their schema; WPP has no fields.
                    _ => return,
                };
                if key == CLR_STACK_WALK {
                    return;
                }
                let mut schema = event.schema;
                for field in &mut schema.fields {
                    let map = field
                        .map_name
                        .as_ref()
                        .and_then(|name| self.maps.get(&(event.provider, name.clone())));
                    field.map = map.cloned();
                }
                self.insert(key, SchemaSource::Tdh, schema);
            }
            Some(Metadata::Map { provider, name, map }) => self.insert_map(provider, name, map),
            None => self.losses.unreadable += 1,
        }
    }

    fn learn_manifest(&mut self, writer: Guid, text: &[u8]) {
        if !self.has_room(text.len()) {
            return;
        }
        let text = String::from_utf8_lossy(text);
        let manifests = event_source::parse(&text);
        if manifests.is_empty() {
            self.losses.unreadable += 1;
        }
        for manifest in manifests {
            // The manifest's own GUID is the provider's; if unreadable, the event's is used.
            let provider = if manifest.provider.is_zero() { writer } else { manifest.provider };
            for (id, version, schema) in manifest.events {
                self.insert(Key::event(provider, id, version), SchemaSource::EventSource, schema);
            }
        }
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        self.metadata_bytes += bytes;
        let has_room = self.metadata_bytes <= MAX_METADATA_BYTES;
        self.losses.refused += u64::from(!has_room);
        has_room
    }

    fn insert(&mut self, key: Key, source: SchemaSource, schema: Schema) {
        let known = self.schemas.get(&key).map(|(source, _)| *source);
        if known.is_some_and(|known| known < source) {
            return;
        }
        if known.is_none() && self.schemas.len() >= MAX_SCHEMAS {
            self.losses.refused += 1;
            return;
        }
        Arc::make_mut(&mut self.schemas).insert(key, (source, schema));
    }

    /// A map may follow the schemas that use it.
    fn insert_map(&mut self, provider: Guid, name: Box<str>, map: ValueMap) {
        if self.maps.len() >= MAX_MAPS {
            self.losses.refused += 1;
            return;
        }
        if self.maps.contains_key(&(provider, name.clone())) {
            return;
        }
        let map = Arc::new(map);
        #[expect(clippy::iter_over_hash_type, reason = "each schema is completed by itself")]
        for (key, (_, schema)) in Arc::make_mut(&mut self.schemas) {
            let is_of_provider = key.is_of(provider);
            for field in schema.fields.iter_mut().filter(|_| is_of_provider) {
                if field.map_name.as_ref() == Some(&name) {
                    field.map = Some(Arc::clone(&map));
                }
            }
        }
        self.maps.insert((provider, name), map);
    }

    /// The schema of an event that does not carry its own.
    pub fn schema(&self, record: &EventRecord<'_>) -> Option<(SchemaSource, &Schema)> {
        let found = match record.identity {
            Identity::Event { provider, descriptor } => {
                let key = |version| Key::event(provider, descriptor.id, version);
                self.schemas.get(&key(descriptor.version)).or_else(|| {
                    // Versions append fields: an unknown version is decoded as the newest known one.
                    let newest = *self.newest_built_in.get(&(provider, descriptor.id))?;
                    self.schemas.get(&key(newest))
                })?
            }
            Identity::Classic(Classic { class, kind, version, .. }) => {
                self.schemas.get(&Key::classic(class, kind, u8::try_from(version).ok()?))?
            }
            _ => return None,
        };
        Some((found.0, &found.1))
    }

    /// Shows every field of the event.
    pub fn decode<V: Visitor + ?Sized>(&self, record: &EventRecord<'_>, visitor: &mut V) -> Decoded {
        let size = record.payload.len();
        let decoded = |source, consumed: usize, is_short| Decoded {
            source,
            consumed,
            left_over: size.saturating_sub(consumed),
            is_short,
        };
        let unknown = decoded(SchemaSource::Unknown, 0, false);
        match record.identity {
            Identity::Classic(Classic { class: kernel::METADATA_CLASS, .. }) => {
                visitor.field("Metadata", Value::Binary(record.payload));
                return decoded(SchemaSource::Metadata, size, false);
            }
            Identity::Kernel { .. } | Identity::Classic(_) => {}
            Identity::Event { .. } => {
                if let Some(event) = TraceLogging::of(record) {
                    let consumed = event.visit(record.payload, record.pointer_size, visitor);
                    return decoded(SchemaSource::TraceLogging, consumed.unwrap_or(0), consumed.is_err());
                }
                return match (self.schema(record), Chunk::of(record)) {
                    (_, Some((_, chunk))) => {
                        visit_chunk(&chunk, visitor);
                        decoded(SchemaSource::Metadata, size, false)
                    }
                    (Some((source, schema)), None) => {
                        let followed = schema.visit(record.payload, record.pointer_size, visitor);
                        decoded(source, followed.consumed, followed.missing > 0)
                    }
                    (None, None) => unknown,
                };
            }
            Identity::Message(_) | Identity::Error => return unknown,
        }
        match KernelPayload::visit_record(record, visitor) {
            Ok(consumed) => decoded(SchemaSource::Kernel, consumed, false),
            Err(crate::payload::PayloadError::TooShort { at, .. }) => {
                decoded(SchemaSource::Kernel, at.min(size), true)
            }
            Err(_) => match self.schema(record) {
                Some((source, schema)) => {
                    let followed = schema.visit(record.payload, record.pointer_size, visitor);
                    decoded(source, followed.consumed, followed.missing > 0)
                }
                None => unknown,
            },
        }
    }
}

fn visit_chunk<V: Visitor + ?Sized>(chunk: &Chunk<'_>, visitor: &mut V) {
    visitor.field("Format", Value::Unsigned(u64::from(chunk.format)));
    visitor.field("MajorVersion", Value::Unsigned(u64::from(chunk.major)));
    visitor.field("MinorVersion", Value::Unsigned(u64::from(chunk.minor)));
    visitor.field("Magic", Value::Unsigned(0x5b));
    visitor.field("TotalChunks", Value::Unsigned(u64::from(chunk.total)));
    visitor.field("ChunkNumber", Value::Unsigned(u64::from(chunk.number)));
    visitor.field("Manifest", Value::Narrow(crate::payload::NarrowText::new(chunk.text)));
}
