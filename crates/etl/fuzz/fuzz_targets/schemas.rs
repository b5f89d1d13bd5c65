//! Any bytes as a schema of each kind, and as a payload that follows it: never a panic, never without end.
//!
//! Input: which kind, the pointer size, the length of the schema (2 bytes), the schema, the payload.

#![no_main]

use std::fmt::{self, Write};

use libfuzzer_sys::fuzz_target;
use ortscope_etl::payload::event_source::{self, Assembler, Chunk};
use ortscope_etl::payload::trace_logging::TraceLogging;
use ortscope_etl::payload::{Value, Visitor, tdh};
use ortscope_etl::{Guid, PointerSize};

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

fuzz_target!(|data: &[u8]| {
    let Some((&[kind, flags, low, high], rest)) = data.split_first_chunk::<4>() else { return };
    let pointer_size = if flags & 1 == 0 { PointerSize::Eight } else { PointerSize::Four };
    let (schema, payload) = rest.split_at(usize::from(u16::from_le_bytes([low, high])).min(rest.len()));
    match kind % 5 {
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
        _ => {
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
    }
});
