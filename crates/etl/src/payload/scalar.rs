//! The types of single fields that are common to TraceLogging, manifests and TDH (`TDH_IN_TYPE`, `TDH_OUT_TYPE`).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::payload::cursor::Short;
use crate::payload::{Array, Cursor, NarrowText, Sid, SystemTime, Value, WideText};

/// The encoding of a value in the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InType(pub u16);

impl InType {
    pub const NULL: Self = Self(0);
    pub const WIDE: Self = Self(1);
    pub const NARROW: Self = Self(2);
    pub const I8: Self = Self(3);
    pub const U8: Self = Self(4);
    pub const I16: Self = Self(5);
    pub const U16: Self = Self(6);
    pub const I32: Self = Self(7);
    pub const U32: Self = Self(8);
    pub const I64: Self = Self(9);
    pub const U64: Self = Self(10);
    pub const F32: Self = Self(11);
    pub const F64: Self = Self(12);
    pub const BOOL32: Self = Self(13);
    pub const BINARY: Self = Self(14);
    pub const GUID: Self = Self(15);
    pub const POINTER: Self = Self(16);
    pub const FILE_TIME: Self = Self(17);
    pub const SYSTEM_TIME: Self = Self(18);
    pub const SID: Self = Self(19);
    pub const HEX32: Self = Self(20);
    pub const HEX64: Self = Self(21);
    pub const COUNTED_WIDE: Self = Self(22);
    pub const COUNTED_NARROW: Self = Self(23);
    pub const COUNTED_BINARY: Self = Self(25);
    pub const CHAR16: Self = Self(306);
    pub const CHAR8: Self = Self(307);
    pub const SIZE: Self = Self(308);
    pub const WBEM_SID: Self = Self(310);

    /// Size of one value, for types with a fixed size.
    pub fn fixed_size(self, pointer_bytes: usize) -> Option<usize> {
        Some(match self {
            Self::NULL => 0,
            Self::I8 | Self::U8 | Self::CHAR8 => 1,
            Self::I16 | Self::U16 | Self::CHAR16 => 2,
            Self::I32 | Self::U32 | Self::F32 | Self::BOOL32 | Self::HEX32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::FILE_TIME | Self::HEX64 => 8,
            Self::GUID | Self::SYSTEM_TIME => 16,
            Self::POINTER | Self::SIZE => pointer_bytes,
            _ => return None,
        })
    }
}

/// How a value is displayed. TraceLogging and TDH number these differently; only those that change the value are here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Show {
    #[default]
    Plain,
    Bool,
    Hex,
    /// Big endian in the payload.
    Port,
    Ipv4,
    Ipv6,
    CodePointer,
}

impl Show {
    /// `TlgOut` of TraceLogging.
    pub fn from_trace_logging(code: u8) -> Self {
        match code {
            3 => Self::Bool,
            4 | 13..=15 => Self::Hex,
            7 => Self::Port,
            8 => Self::Ipv4,
            9 => Self::Ipv6,
            37 => Self::CodePointer,
            _ => Self::Plain,
        }
    }

    /// `TDH_OUT_TYPE` of manifests.
    pub fn from_tdh(code: u16) -> Self {
        match code {
            13 => Self::Bool,
            16..=19 | 29..=32 => Self::Hex,
            22 => Self::Port,
            23 => Self::Ipv4,
            24 => Self::Ipv6,
            37 => Self::CodePointer,
            _ => Self::Plain,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scalar {
    pub in_type: InType,
    pub show: Show,
}

impl Scalar {
    pub const fn plain(in_type: InType) -> Self {
        Self { in_type, show: Show::Plain }
    }

    /// Reads one value. `length` is the schema's length of strings (in characters) and binaries (in bytes).
    pub fn read<'a>(self, cursor: &mut Cursor<'a>, length: Option<usize>) -> Result<Value<'a>, Short> {
        Ok(match self.in_type {
            InType::NULL => Value::Binary(&[]),
            InType::WIDE => match length {
                None => Value::Wide(cursor.wide()),
                Some(units) => Value::Wide(WideText::new(cursor.take(units.saturating_mul(2))?).until_nul()),
            },
            InType::NARROW => match length {
                None => Value::Narrow(cursor.narrow()),
                Some(bytes) => Value::Narrow(NarrowText::new(cursor.take(bytes)?).until_nul()),
            },
            InType::I8 => self.signed(i64::from(cursor.u8()? as i8), 8),
            InType::U8 | InType::CHAR8 => self.unsigned(u64::from(cursor.u8()?)),
            InType::I16 => self.signed(i64::from(cursor.u16()? as i16), 16),
            InType::U16 | InType::CHAR16 => {
                let number = cursor.u16()?;
                self.unsigned(u64::from(if self.show == Show::Port { number.swap_bytes() } else { number }))
            }
            InType::I32 => self.signed(i64::from(cursor.u32()? as i32), 32),
            InType::U32 => match self.show {
                Show::Ipv4 => Value::Ipv4(Ipv4Addr::from(cursor.array::<4>()?)),
                _ => self.unsigned(u64::from(cursor.u32()?)),
            },
            InType::I64 => self.signed(cursor.u64()? as i64, 64),
            InType::U64 => self.unsigned(cursor.u64()?),
            InType::F32 => Value::Single(f32::from_bits(cursor.u32()?)),
            InType::F64 => Value::Double(f64::from_bits(cursor.u64()?)),
            InType::BOOL32 => Value::Bool(cursor.u32()? != 0),
            InType::BINARY => match (length, self.show) {
                (None | Some(16), Show::Ipv6) => Value::Ipv6(Ipv6Addr::from(cursor.array::<16>()?)),
                (Some(bytes), _) => Value::Binary(cursor.take(bytes)?),
                (None, _) => Value::Binary(self.counted(cursor)?),
            },
            InType::GUID => Value::Guid(cursor.guid()?),
            InType::POINTER => Value::Pointer(cursor.pointer()?),
            InType::SIZE => Value::Unsigned(cursor.pointer()?),
            InType::FILE_TIME => Value::FileTime(cursor.u64()?),
            InType::SYSTEM_TIME => Value::SystemTime(SystemTime::from_bytes(cursor.array()?)),
            InType::SID => self.sid(cursor)?,
            InType::WBEM_SID => {
                let mut ahead = *cursor;
                if ahead.pointer()? == 0 {
                    *cursor = ahead;
                    Value::Binary(&[])
                } else {
                    cursor.take(2 * cursor.pointer_size.bytes())?;
                    self.sid(cursor)?
                }
            }
            InType::HEX32 => Value::Hex(u64::from(cursor.u32()?)),
            InType::HEX64 => Value::Hex(cursor.u64()?),
            // Manifests use 300 and 301 for what TraceLogging calls 22 and 23.
            InType::COUNTED_WIDE | InType(300) => Value::Wide(WideText::new(self.counted(cursor)?)),
            InType::COUNTED_NARROW | InType(301) => Value::Narrow(NarrowText::new(self.counted(cursor)?)),
            InType::COUNTED_BINARY => match self.show {
                Show::Ipv6 => ipv6_or_bytes(self.counted(cursor)?),
                _ => Value::Binary(self.counted(cursor)?),
            },
            InType(302) => Value::Wide(WideText::new(self.counted_big_endian(cursor)?)),
            InType(303) => Value::Narrow(NarrowText::new(self.counted_big_endian(cursor)?)),
            InType(304) => Value::Wide(WideText::new(self.all(cursor)?)),
            InType(305) => Value::Narrow(NarrowText::new(self.all(cursor)?)),
            _ => return Err(Short { at: cursor.position() }),
        })
    }

    /// Reads `len` values. Nothing is allocated: the elements are checked now and decoded on access.
    pub fn read_array<'a>(self, cursor: &mut Cursor<'a>, len: usize) -> Result<Array<'a>, Short> {
        let (start, pointer_size) = (*cursor, cursor.pointer_size);
        if let Some(size) = self.in_type.fixed_size(pointer_size.bytes()) {
            // Values without bytes could be claimed in any number.
            let len = if size == 0 { 0 } else { len };
            let bytes = cursor.take(len.saturating_mul(size))?;
            return Ok(Array { element: self, bytes, len, pointer_size });
        }
        for _ in 0..len {
            // At the end of the payload, strings without a terminator would be empty forever.
            if cursor.is_at_end() {
                return Err(Short { at: cursor.position() });
            }
            self.read(cursor, None)?;
        }
        let bytes = &start.rest()[..cursor.position() - start.position()];
        Ok(Array { element: self, bytes, len, pointer_size })
    }

    fn signed<'a>(self, number: i64, bits: u32) -> Value<'a> {
        match self.show {
            Show::Bool => Value::Bool(number != 0),
            Show::Hex => Value::Hex(number as u64 & (u64::MAX >> (64 - bits))),
            _ => Value::Signed(number),
        }
    }

    fn unsigned<'a>(self, number: u64) -> Value<'a> {
        match self.show {
            Show::Bool => Value::Bool(number != 0),
            Show::Hex => Value::Hex(number),
            Show::CodePointer => Value::Pointer(number),
            _ => Value::Unsigned(number),
        }
    }

    fn sid<'a>(self, cursor: &mut Cursor<'a>) -> Result<Value<'a>, Short> {
        let (sid, _) = Sid::split(cursor.rest()).ok_or(Short { at: cursor.position() })?;
        cursor.take(sid.bytes().len())?;
        Ok(Value::Sid(sid))
    }

    fn counted<'a>(self, cursor: &mut Cursor<'a>) -> Result<&'a [u8], Short> {
        let bytes = cursor.u16()?;
        cursor.take(usize::from(bytes))
    }

    fn counted_big_endian<'a>(self, cursor: &mut Cursor<'a>) -> Result<&'a [u8], Short> {
        let bytes = cursor.u16()?.swap_bytes();
        cursor.take(usize::from(bytes))
    }

    fn all<'a>(self, cursor: &mut Cursor<'a>) -> Result<&'a [u8], Short> {
        cursor.take(cursor.rest().len())
    }
}

fn ipv6_or_bytes(bytes: &[u8]) -> Value<'_> {
    <[u8; 16]>::try_from(bytes).map_or(Value::Binary(bytes), |octets| Value::Ipv6(Ipv6Addr::from(octets)))
}
