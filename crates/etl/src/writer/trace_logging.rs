//! TraceLogging: events with the names and types of their fields, so that every reader can show them.

use super::record::{self, Place};
use super::{MAX_RECORD_BYTES, WriteError};
use crate::{EventDescriptor, ExtendedItem, FileTime, Guid, PointerSize};

/// The provider of the events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    pub name: String,
    pub id: Guid,
    /// Group of related providers; usually none.
    pub group: Option<Guid>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TraceLoggingEvent<'a> {
    pub provider: &'a Provider,
    pub name: &'a str,
    /// Level, opcode, task and keyword are used; id and version are usually 0.
    pub descriptor: EventDescriptor,
    pub fields: &'a [Field<'a>],
}

#[derive(Debug, Clone, PartialEq)]
pub struct Field<'a> {
    pub name: &'a str,
    pub value: Value<'a>,
    /// Display format, such as 4 for hexadecimal; 0 for the type's default. Structures have none.
    pub out_type: u8,
}

impl<'a> Field<'a> {
    pub const fn new(name: &'a str, value: Value<'a>) -> Self {
        Self { name, value, out_type: 0 }
    }
}

/// Type numbers in schemas.
pub mod simple_types {
    pub const WIDE_STRING: u8 = 1;
    pub const STRING: u8 = 2;
    pub const INT8: u8 = 3;
    pub const UINT8: u8 = 4;
    pub const INT16: u8 = 5;
    pub const UINT16: u8 = 6;
    pub const INT32: u8 = 7;
    pub const UINT32: u8 = 8;
    pub const INT64: u8 = 9;
    pub const UINT64: u8 = 10;
    pub const FLOAT: u8 = 11;
    pub const DOUBLE: u8 = 12;
    pub const BOOL32: u8 = 13;
    pub const BINARY: u8 = 14;
    pub const GUID: u8 = 15;
    pub const POINTER: u8 = 16;
    pub const FILE_TIME: u8 = 17;
    pub const SYSTEM_TIME: u8 = 18;
    pub const SID: u8 = 19;
    pub const HEX_INT32: u8 = 20;
    pub const HEX_INT64: u8 = 21;
    pub const COUNTED_WIDE_STRING: u8 = 22;
    pub const COUNTED_STRING: u8 = 23;
    pub const STRUCT: u8 = 24;
    pub const COUNTED_BINARY: u8 = 25;
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// UTF-16 with a NUL.
    WideStr(&'a str),
    /// UTF-8 with a NUL.
    Str(&'a str),
    I8(i8),
    U8(u8),
    I16(i16),
    U16(u16),
    I32(i32),
    U32(u32),
    I64(i64),
    U64(u64),
    F32(f32),
    F64(f64),
    Bool(bool),
    /// At most 65535 bytes, like all counted values.
    Binary(&'a [u8]),
    Guid(Guid),
    /// With the file's pointer size.
    Pointer(u64),
    FileTime(FileTime),
    /// Year, month, day of the week, day, hour, minute, second, millisecond.
    SystemTime([u16; 8]),
    /// The bytes of a security identifier.
    Sid(&'a [u8]),
    Hex32(u32),
    Hex64(u64),
    CountedWideStr(&'a str),
    CountedStr(&'a str),
    CountedBinary(&'a [u8]),
    Struct(&'a [Field<'a>]),
    /// All elements have one type; structures must have the same fields.
    Array(&'a [Self]),
    /// An array without elements still has a type, one of [`simple_types`].
    EmptyArray(u8),
}

const ARRAY: u8 = 0x40;
const MORE: u8 = 0x80;
/// UTF-8 text, marked as such for readers that would otherwise assume the system's code page.
const OUT_UTF8: u8 = 35;
const CHANNEL: u8 = 11;
const TRAIT_GROUP: u8 = 1;

impl Value<'_> {
    fn in_type(&self) -> u8 {
        use simple_types as types;
        match self {
            Self::WideStr(_) => types::WIDE_STRING,
            Self::Str(_) => types::STRING,
            Self::I8(_) => types::INT8,
            Self::U8(_) => types::UINT8,
            Self::I16(_) => types::INT16,
            Self::U16(_) => types::UINT16,
            Self::I32(_) => types::INT32,
            Self::U32(_) => types::UINT32,
            Self::I64(_) => types::INT64,
            Self::U64(_) => types::UINT64,
            Self::F32(_) => types::FLOAT,
            Self::F64(_) => types::DOUBLE,
            Self::Bool(_) => types::BOOL32,
            Self::Binary(_) => types::BINARY,
            Self::Guid(_) => types::GUID,
            Self::Pointer(_) => types::POINTER,
            Self::FileTime(_) => types::FILE_TIME,
            Self::SystemTime(_) => types::SYSTEM_TIME,
            Self::Sid(_) => types::SID,
            Self::Hex32(_) => types::HEX_INT32,
            Self::Hex64(_) => types::HEX_INT64,
            Self::CountedWideStr(_) => types::COUNTED_WIDE_STRING,
            Self::CountedStr(_) => types::COUNTED_STRING,
            Self::CountedBinary(_) => types::COUNTED_BINARY,
            Self::Struct(_) => types::STRUCT,
            Self::Array(values) => values.first().map_or(types::UINT8, Self::in_type) | ARRAY,
            Self::EmptyArray(element) => element & 0x1f | ARRAY,
        }
    }

    fn default_out_type(&self) -> u8 {
        match self {
            Self::Str(_) | Self::CountedStr(_) => OUT_UTF8,
            Self::Array(values) => values.first().map_or(0, Self::default_out_type),
            _ => 0,
        }
    }

    /// Whether two values can be elements of one array.
    fn has_shape_of(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Self::Struct(fields), Value::Struct(others)) => {
                fields.len() == others.len()
                    && fields.iter().zip(*others).all(|(field, other)| {
                        field.name == other.name
                            && field.out_type == other.out_type
                            && field.value.has_shape_of(&other.value)
                    })
            }
            (Self::Array(_) | Self::EmptyArray(_), _) | (_, Value::Array(_) | Value::EmptyArray(_)) => {
                // Arrays in structures in arrays: equal if their elements are.
                self.in_type() == other.in_type()
            }
            _ => self.in_type() == other.in_type(),
        }
    }
}

pub(super) fn record(
    pointer_size: PointerSize,
    place: &Place,
    event: &TraceLoggingEvent<'_>,
) -> Result<Vec<u8>, WriteError> {
    let traits = traits(event.provider)?;
    let schema = schema(event.name, event.fields)?;
    let mut payload = Vec::new();
    for field in event.fields {
        put_value(&mut payload, &field.value, pointer_size)?;
    }
    let related = place.related_activity.map(Guid::to_bytes);
    let mut items: Vec<(u16, &[u8])> = Vec::with_capacity(3);
    if let Some(related) = &related {
        items.push((ExtendedItem::RELATED_ACTIVITY, related));
    }
    items.push((ExtendedItem::PROVIDER_TRAITS, &traits));
    items.push((ExtendedItem::TRACE_LOGGING_SCHEMA, &schema));
    let descriptor = EventDescriptor { channel: CHANNEL, ..event.descriptor };
    record::event(pointer_size, place, event.provider.id, &descriptor, &items, &payload)
}

fn traits(provider: &Provider) -> Result<Vec<u8>, WriteError> {
    let mut out = vec![0, 0];
    put_name(&mut out, &provider.name)?;
    if let Some(group) = provider.group {
        out.extend(19_u16.to_le_bytes());
        out.push(TRAIT_GROUP);
        out.extend(group.to_bytes());
    }
    sized(out)
}

fn schema(name: &str, fields: &[Field<'_>]) -> Result<Vec<u8>, WriteError> {
    // One byte of tags follows the size: none.
    let mut out = vec![0, 0, 0];
    put_name(&mut out, name)?;
    put_fields(&mut out, fields)?;
    sized(out)
}

fn put_fields(out: &mut Vec<u8>, fields: &[Field<'_>]) -> Result<(), WriteError> {
    for field in fields {
        put_name(out, field.name)?;
        let in_type = field.value.in_type();
        let inner = match &field.value {
            Value::Struct(inner) => Some(*inner),
            Value::Array(values) => match values.first() {
                Some(Value::Struct(inner)) => Some(*inner),
                _ => None,
            },
            _ => None,
        };
        if let Some(inner) = inner {
            if inner.is_empty() || inner.len() > 127 {
                return Err(WriteError::TooManyFields(inner.len()));
            }
            out.extend([in_type | MORE, inner.len() as u8]);
            put_fields(out, inner)?;
            continue;
        }
        let out_type =
            if field.out_type == 0 { field.value.default_out_type() } else { field.out_type & 0x7f };
        if out_type == 0 {
            out.push(in_type);
        } else {
            out.extend([in_type | MORE, out_type]);
        }
    }
    Ok(())
}

/// NUL ends a text; one within would shift everything that follows.
fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().take_while(|&byte| byte != 0));
    out.push(0);
}

fn put_value(out: &mut Vec<u8>, value: &Value<'_>, pointer_size: PointerSize) -> Result<(), WriteError> {
    match value {
        Value::WideStr(text) => {
            out.extend(text.encode_utf16().take_while(|&unit| unit != 0).flat_map(u16::to_le_bytes));
            out.extend([0, 0]);
        }
        Value::Str(text) => put_text(out, text),
        Value::I8(number) => out.extend(number.to_le_bytes()),
        Value::U8(number) => out.push(*number),
        Value::I16(number) => out.extend(number.to_le_bytes()),
        Value::U16(number) => out.extend(number.to_le_bytes()),
        Value::I32(number) => out.extend(number.to_le_bytes()),
        Value::U32(number) | Value::Hex32(number) => out.extend(number.to_le_bytes()),
        Value::I64(number) => out.extend(number.to_le_bytes()),
        Value::U64(number) | Value::Hex64(number) | Value::FileTime(FileTime(number)) => {
            out.extend(number.to_le_bytes());
        }
        Value::F32(number) => out.extend(number.to_le_bytes()),
        Value::F64(number) => out.extend(number.to_le_bytes()),
        Value::Bool(truth) => out.extend(u32::from(*truth).to_le_bytes()),
        Value::Guid(guid) => out.extend(guid.to_bytes()),
        Value::Pointer(address) => out.extend(&address.to_le_bytes()[..pointer_size.bytes()]),
        Value::SystemTime(parts) => out.extend(parts.iter().flat_map(|part| part.to_le_bytes())),
        Value::Sid(bytes) => out.extend_from_slice(bytes),
        Value::Binary(bytes) | Value::CountedBinary(bytes) => put_counted(out, bytes)?,
        Value::CountedStr(text) => put_counted(out, text.as_bytes())?,
        Value::CountedWideStr(text) => {
            let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            put_counted(out, &bytes)?;
        }
        Value::Struct(fields) => {
            for field in *fields {
                put_value(out, &field.value, pointer_size)?;
            }
        }
        Value::EmptyArray(_) => out.extend([0, 0]),
        Value::Array(values) => {
            let count = u16::try_from(values.len()).map_err(|_| too_large(values.len()))?;
            out.extend(count.to_le_bytes());
            let Some(first) = values.first() else { return Ok(()) };
            for value in *values {
                if matches!(value, Value::Array(_) | Value::EmptyArray(_)) || !value.has_shape_of(first) {
                    return Err(WriteError::MixedArray);
                }
                put_value(out, value, pointer_size)?;
            }
        }
    }
    Ok(())
}

fn put_counted(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), WriteError> {
    let count = u16::try_from(bytes.len()).map_err(|_| too_large(bytes.len()))?;
    out.extend(count.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

fn put_name(out: &mut Vec<u8>, name: &str) -> Result<(), WriteError> {
    if name.contains('\0') {
        return Err(WriteError::NulInName);
    }
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    Ok(())
}

/// Both kinds of metadata begin with their own size.
fn sized(mut out: Vec<u8>) -> Result<Vec<u8>, WriteError> {
    let size = u16::try_from(out.len()).map_err(|_| too_large(out.len()))?;
    out[..2].copy_from_slice(&size.to_le_bytes());
    Ok(out)
}

fn too_large(bytes: usize) -> WriteError {
    WriteError::TooLarge { bytes, limit: MAX_RECORD_BYTES }
}
