//! TraceLogging: every event contains its schema.
//!
//! Extended item 11 has the event's name and the names and types of its fields, item 12 the provider's name. Both are
//! decoded in place without a cache, because decoding is cheaper than a lookup.

use crate::payload::cursor::Short;
use crate::payload::scalar::{InType, Scalar, Show};
use crate::payload::{Cursor, Nest, Visitor};
use crate::{EventRecord, ExtendedItem, Guid, Identity, PointerSize};

/// Limit for nested structures. Real providers use one or two levels; the limit keeps the stack small.
const MAX_DEPTH: u32 = 16;

const STRUCT: u8 = 24;

/// Shown for a name that is not UTF-8.
const NOT_TEXT: &str = "<not UTF-8>";

/// The metadata of one TraceLogging event.
#[derive(Debug, Clone, Copy)]
pub struct TraceLogging<'a> {
    pub provider_name: Option<&'a str>,
    pub provider_group: Option<Guid>,
    pub event_name: &'a str,
    fields: &'a [u8],
}

/// The payload could not be decoded to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TraceLoggingError {
    #[error("the schema of the event is cut at byte {at}")]
    Schema { at: usize },
    #[error("the payload ends inside field number {field}")]
    Payload { field: usize },
    #[error("structures are nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("the schema repeats fields without end")]
    TooMany,
    #[error("field type {in_type} is not known")]
    UnknownType { in_type: u8 },
}

impl<'a> TraceLogging<'a> {
    /// `None` if the event has no TraceLogging schema, or one that is truncated inside the event's name.
    pub fn of(record: &EventRecord<'a>) -> Option<Self> {
        if !matches!(record.identity, Identity::Event { .. }) || record.extended_bytes.is_empty() {
            return None;
        }
        let (mut schema, mut traits) = (None, None);
        for item in record.extended() {
            match item.kind {
                ExtendedItem::TRACE_LOGGING_SCHEMA => schema = Some(item.data),
                ExtendedItem::PROVIDER_TRAITS => traits = Some(item.data),
                _ => {}
            }
        }
        Self::parse(schema?, traits)
    }

    /// The same from the two extended items.
    pub fn parse(schema: &'a [u8], traits: Option<&'a [u8]>) -> Option<Self> {
        let size = usize::from(u16::from_le_bytes(*schema.first_chunk()?));
        let mut cursor = Cursor::new(schema.get(2..size.min(schema.len()))?, PointerSize::Four, 0);
        skip_tags(&mut cursor).ok()?;
        let event_name = text(&mut cursor);
        let fields = cursor.rest();
        let (provider_name, provider_group) =
            traits.and_then(provider_traits).map_or((None, None), |t| (Some(t.0), t.1));
        Some(Self { provider_name, provider_group, event_name, fields })
    }

    /// Passes every field to the visitor and returns the number of payload bytes that they took.
    pub fn visit<V: Visitor + ?Sized>(
        &self,
        payload: &'a [u8],
        pointer_size: PointerSize,
        visitor: &mut V,
    ) -> Result<usize, TraceLoggingError> {
        let mut walk = Walk {
            schema: Cursor::new(self.fields, PointerSize::Four, 0),
            payload: Cursor::new(payload, pointer_size, 0),
            visitor,
            field: 0,
            // Every present field takes a byte of the payload or occurs once in the schema.
            budget: 4 * payload.len() + self.fields.len() + 16,
        };
        while !walk.schema.is_at_end() {
            walk.field(0, true)?;
        }
        Ok(walk.payload.position())
    }
}

/// The provider's name and group.
fn provider_traits(traits: &[u8]) -> Option<(&str, Option<Guid>)> {
    let size = usize::from(u16::from_le_bytes(*traits.first_chunk()?));
    let mut cursor = Cursor::new(traits.get(2..size.min(traits.len()))?, PointerSize::Four, 0);
    let name = text(&mut cursor);
    let mut group = None;
    while let (Ok(size), Ok(kind)) = (cursor.u16(), cursor.u8()) {
        let Ok(data) = cursor.take(usize::from(size).saturating_sub(3)) else { break };
        if let (1, Ok(bytes)) = (kind, <[u8; 16]>::try_from(data)) {
            group = Some(Guid::from_bytes(bytes));
        }
    }
    Some((name, group))
}

fn text<'a>(cursor: &mut Cursor<'a>) -> &'a str {
    cursor.narrow().as_str().unwrap_or(NOT_TEXT)
}

/// Tags have seven bits per byte while the eighth is set.
fn skip_tags(cursor: &mut Cursor<'_>) -> Result<(), Short> {
    while cursor.u8()? & 0x80 != 0 {}
    Ok(())
}

struct Walk<'a, 'v, V: ?Sized> {
    schema: Cursor<'a>,
    payload: Cursor<'a>,
    visitor: &'v mut V,
    field: usize,
    budget: usize,
}

impl<V: Visitor + ?Sized> Walk<'_, '_, V> {
    /// One field: its schema, then its values. Without `present`, only the schema is processed.
    fn field(&mut self, depth: u32, present: bool) -> Result<(), TraceLoggingError> {
        self.budget = self.budget.checked_sub(1).ok_or(TraceLoggingError::TooMany)?;
        self.field += 1;
        let name = text(&mut self.schema);
        let cut = |short: Short| TraceLoggingError::Schema { at: short.at };
        let code = self.schema.u8().map_err(cut)?;
        let mut show = 0;
        if code & 0x80 != 0 {
            show = self.schema.u8().map_err(cut)?;
            if show & 0x80 != 0 {
                skip_tags(&mut self.schema).map_err(cut)?;
                show &= 0x7f;
            }
        }
        let in_type = code & 0x1f;
        let count = match code & 0x60 {
            0 => None,
            0x20 => Some(usize::from(self.schema.u16().map_err(cut)?)),
            0x60 => {
                let bytes = self.schema.u16().map_err(cut)?;
                self.schema.take(usize::from(bytes)).map_err(cut)?;
                Some(0)
            }
            _ if present => Some(usize::from(self.payload.u16().map_err(|_| self.ends())?)),
            _ => Some(0),
        };
        if in_type == STRUCT {
            return self.structure(name, usize::from(show), count, depth, present);
        }
        if !present {
            return Ok(());
        }
        if in_type > 25 {
            return Err(TraceLoggingError::UnknownType { in_type });
        }
        let scalar = Scalar { in_type: InType(u16::from(in_type)), show: Show::from_trace_logging(show) };
        let value = match (code & 0x60, count) {
            // A custom type is a counted blob that only its provider can read.
            (0x60, _) => Scalar::plain(InType::COUNTED_BINARY).read(&mut self.payload, None),
            (_, Some(count)) => scalar.read_array(&mut self.payload, count).map(crate::payload::Value::Array),
            _ => scalar.read(&mut self.payload, None),
        };
        self.visitor.field(name, value.map_err(|_| self.ends())?);
        Ok(())
    }

    fn structure(
        &mut self,
        name: &str,
        members: usize,
        count: Option<usize>,
        depth: u32,
        present: bool,
    ) -> Result<(), TraceLoggingError> {
        if depth >= MAX_DEPTH {
            return Err(TraceLoggingError::TooDeep);
        }
        if !present || count == Some(0) {
            for _ in 0..members {
                self.field(depth + 1, false)?;
            }
            if present {
                self.visitor.open(name, Nest::Array(0));
                self.visitor.close();
            }
            return Ok(());
        }
        if let Some(count) = count {
            self.visitor.open(name, Nest::Array(count));
        }
        let (first, first_number) = (self.schema, self.field);
        for _ in 0..count.unwrap_or(1) {
            (self.schema, self.field) = (first, first_number);
            let before = self.payload.position();
            self.visitor.open(if count.is_some() { "" } else { name }, Nest::Struct);
            for _ in 0..members {
                self.field(depth + 1, true)?;
            }
            self.visitor.close();
            if count.is_some() && self.payload.position() == before {
                return Err(TraceLoggingError::TooMany);
            }
        }
        if count.is_some() {
            self.visitor.close();
        }
        Ok(())
    }

    fn ends(&self) -> TraceLoggingError {
        TraceLoggingError::Payload { field: self.field }
    }
}
