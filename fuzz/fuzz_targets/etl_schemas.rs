//! Any bytes as a schema of each kind, and as a payload that follows it: never a panic, never without end.
//!
//! Input: which kind, the pointer size, the length of the schema (2 bytes), the schema, the payload. For a store of
//! schemas: records one after the other, of which each begins with its kind and its length (2 bytes).

#![no_main]

use std::fmt::{self, Write};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ortscope_etl::payload::event_source::{self, Assembler, Chunk, MANIFEST_EVENT};
use ortscope_etl::payload::kernel::METADATA_CLASS;
use ortscope_etl::payload::trace_logging::TraceLogging;
use ortscope_etl::payload::{SchemaStore, Value, Visitor, builtin, tdh};
use ortscope_etl::{Classic, EventDescriptor, EventRecord, Guid, HeaderKind, Identity, PointerSize};

/// Writes without keeping.
struct Sink;

impl Write for Sink {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}

impl Visitor for Sink {
    fn field(&mut self, _name: &str, value: Value<'_>) {
        value.write_json(&mut Sink).expect("the sink takes all");
    }
}

/// Every event of our tables: random providers and ids would meet none.
static TABLES: LazyLock<(SchemaStore, Vec<(Guid, u16, u8)>)> = LazyLock::new(|| {
    let events = builtin::events().map(|event| (event.provider, event.id, *event.versions.end())).collect();
    (SchemaStore::new(), events)
});

/// Learns from records and decodes them, metadata and events in any order, as they come in a trace.
fn store(mut rest: &[u8], pointer_size: PointerSize) {
    let (tables, known) = &*TABLES;
    let mut store = SchemaStore::without_tables();
    // The event that the last metadata describes, so that some events meet their schema.
    let mut described = (Guid::default(), EventDescriptor::default());
    let mut opcode = 0;
    let mut learned = 0;
    while let Some((&[kind, which, low, high], behind)) = rest.split_first_chunk::<4>() {
        let (bytes, next) = behind.split_at(usize::from(u16::from_le_bytes([low, high])).min(behind.len()));
        rest = next;
        let event = |provider, descriptor| Identity::Event { provider, descriptor };
        let mut extended: &[u8] = &[];
        let mut payload = bytes;
        let identity = match kind % 8 {
            0 | 1 => {
                if let Some(guid) = bytes.first_chunk() {
                    described.0 = Guid::from_bytes(*guid);
                }
                if let Some(&[a, b, version, ..]) = bytes.get(32..40) {
                    described.1 = EventDescriptor {
                        id: u16::from_le_bytes([a, b]),
                        version,
                        ..EventDescriptor::default()
                    };
                    opcode = bytes[37];
                }
                Identity::Classic(Classic {
                    class: METADATA_CLASS,
                    kind: if which % 4 == 3 { which } else { 32 + kind % 8 },
                    level: 0,
                    version: 0,
                })
            }
            2 => event(Guid::new(1), EventDescriptor { id: MANIFEST_EVENT, ..EventDescriptor::default() }),
            3 => event(Guid::new(1), EventDescriptor { id: u16::from(which), ..EventDescriptor::default() }),
            4 => event(described.0, described.1),
            5 => {
                let (provider, id, version) = known[usize::from(which) % known.len()];
                event(provider, EventDescriptor { id, version, ..EventDescriptor::default() })
            }
            6 => {
                (extended, payload) = bytes.split_at((usize::from(which) * 8).min(bytes.len()));
                event(Guid::new(2), EventDescriptor { channel: 11, ..EventDescriptor::default() })
            }
            _ => Identity::Classic(Classic {
                class: described.0,
                kind: opcode,
                level: 0,
                version: u16::from(described.1.version),
            }),
        };
        let record = EventRecord {
            kind: HeaderKind::Event,
            pointer_size,
            identity,
            ticks: 1,
            processor: 0,
            logger: 0,
            process_id: Some(u32::from(which & 1)),
            thread_id: Some(2),
            cpu_times: None,
            activity: None,
            extended_bytes: extended,
            pebs_index: None,
            counter_bytes: &[],
            payload,
            bytes: payload,
        };
        store.learn(&record);
        learned += 1;
        let from = if kind % 8 == 5 { tables } else { &store };
        let decoded = from.decode(&record, &mut Sink);
        assert_eq!(decoded.consumed + decoded.left_over, payload.len());
    }
    let losses = store.losses();
    assert!(losses.unreadable + losses.stray_chunks <= learned, "at most one for each record");
}

fuzz_target!(|data: &[u8]| {
    let Some((&[kind, flags, low, high], rest)) = data.split_first_chunk::<4>() else { return };
    let pointer_size = if flags & 1 == 0 { PointerSize::Eight } else { PointerSize::Four };
    let (schema, payload) = rest.split_at(usize::from(u16::from_le_bytes([low, high])).min(rest.len()));
    match kind % 8 {
        0 => {
            if let Some(event) = tdh::event_info(schema) {
                event.schema.visit(payload, pointer_size, &mut Sink);
            }
        }
        1 => {
            if let Some(tdh::Metadata::Map { map, .. }) = tdh::map_info(schema) {
                let _ = map.name(u64::from(flags));
            }
        }
        2 => {
            for manifest in event_source::parse(&String::from_utf8_lossy(schema)) {
                for (_, _, schema) in manifest.events {
                    schema.visit(payload, pointer_size, &mut Sink);
                }
            }
        }
        3 => {
            let traits = (flags & 2 != 0).then_some(payload);
            if let Some(event) = TraceLogging::parse(schema, traits)
                && let Ok(used) = event.visit(payload, pointer_size, &mut Sink)
            {
                assert!(used <= payload.len());
            }
        }
        4 => {
            let mut assembler = Assembler::default();
            for piece in rest.chunks(usize::from(flags).max(9)) {
                if let Some(chunk) = Chunk::parse(piece) {
                    let _ = assembler.add(
                        Guid::default(),
                        u32::from(chunk.text.first().copied().unwrap_or(0) & 3),
                        &chunk,
                    );
                }
            }
        }
        _ => store(rest, pointer_size),
    }
});
