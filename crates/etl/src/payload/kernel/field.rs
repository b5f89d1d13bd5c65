//! Reads kernel event fields: one small trait per field type, one macro per event.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Guid;
use crate::payload::cursor::Short;
use crate::payload::{Array, Cursor, NarrowText, Sid, Value, Visitor, WideText};

pub(super) trait Field<'a>: Sized {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Short>;
    fn visit<V: Visitor + ?Sized>(&self, name: &str, visitor: &mut V);
}

/// The whole body of an event.
pub(super) trait Record<'a>: Sized {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Short>;
    fn visit<V: Visitor + ?Sized>(&self, visitor: &mut V);
}

/// An address in the traced system; four or eight bytes in the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Pointer(pub u64);

/// A size or a mask with the width of a pointer in the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Word(pub u64);

/// A number shown in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Flags(pub u32);

/// Units of 100 ns since 1601.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FileTime(pub u64);

/// A port; big endian in the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Port(pub u16);

/// UTF-16 in a field of `UNITS` characters, shown up to the first NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FixedWide<'a, const UNITS: usize>(pub WideText<'a>);

/// All addresses up to the end of the payload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Addresses<'a>(pub Array<'a>);

impl<'a> Addresses<'a> {
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.0.iter().filter_map(|value| value.as_u64())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The rest of the payload, if its layout is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bytes<'a>(pub &'a [u8]);

/// The owner of a process: nothing, or a TOKEN_USER (two irrelevant pointers) and a SID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner<'a>(pub Option<Sid<'a>>);

/// A process id that version 0 wrote with the width of a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ProcessId(pub u32);

macro_rules! number {
    ($($type:ty => $variant:ident as $wide:ty),*) => {$(
        impl<'a> Field<'a> for $type {
            #[inline]
            fn read(cursor: &mut Cursor<'a>) -> Result<Self, Short> {
                cursor.array().map(<$type>::from_le_bytes)
            }

            #[inline]
            fn visit<V: Visitor + ?Sized>(&self, name: &str, visitor: &mut V) {
                visitor.field(name, Value::$variant(<$wide>::from(*self)));
            }
        }
    )*};
}

number!(u8 => Unsigned as u64, u16 => Unsigned as u64, u32 => Unsigned as u64, u64 => Unsigned as u64,
        i8 => Signed as i64, i16 => Signed as i64, i32 => Signed as i64, i64 => Signed as i64);

macro_rules! wrapped {
    ($type:ty, $read:expr, $show:expr) => {
        impl<'a> Field<'a> for $type {
            #[inline]
            fn read(cursor: &mut Cursor<'a>) -> Result<Self, Short> {
                let read: fn(&mut Cursor<'a>) -> Result<Self, Short> = $read;
                read(cursor)
            }

            #[inline]
            fn visit<V: Visitor + ?Sized>(&self, name: &str, visitor: &mut V) {
                let show: fn(&Self) -> Value<'a> = $show;
                visitor.field(name, show(self));
            }
        }
    };
}

wrapped!(Pointer, |c| c.pointer().map(Pointer), |p| Value::Pointer(p.0));
wrapped!(Word, |c| c.pointer().map(Word), |w| Value::Unsigned(w.0));
wrapped!(Flags, |c| c.u32().map(Flags), |n| Value::Hex(u64::from(n.0)));
wrapped!(FileTime, |c| c.u64().map(FileTime), |t| Value::FileTime(t.0));
wrapped!(Port, |c| c.array().map(u16::from_be_bytes).map(Port), |p| Value::Unsigned(u64::from(p.0)));
wrapped!(Guid, |c| c.guid(), |g| Value::Guid(*g));
wrapped!(Ipv4Addr, |c| c.array::<4>().map(Ipv4Addr::from), |a| Value::Ipv4(*a));
wrapped!(Ipv6Addr, |c| c.array::<16>().map(Ipv6Addr::from), |a| Value::Ipv6(*a));
wrapped!(WideText<'a>, |c| Ok(c.wide()), |t| Value::Wide(*t));
wrapped!(NarrowText<'a>, |c| Ok(c.narrow()), |t| Value::Narrow(*t));
wrapped!(Bytes<'a>, |c| c.take(c.rest().len()).map(Bytes), |b| Value::Binary(b.0));
wrapped!(
    ProcessId,
    |c| match c.version {
        0 => c.pointer().map(|id| ProcessId(id as u32)),
        _ => c.u32().map(ProcessId),
    },
    |id| Value::Unsigned(u64::from(id.0))
);
wrapped!(
    Addresses<'a>,
    |c| {
        let pointer_size = c.pointer_size;
        let bytes = c.rest().len() / pointer_size.bytes() * pointer_size.bytes();
        Ok(Addresses(Array::of_pointers(c.take(bytes)?, pointer_size)))
    },
    |a| Value::Array(a.0)
);
wrapped!(
    Owner<'a>,
    |c| {
        let mut ahead = *c;
        if ahead.u32()? == 0 && !is_sid_after_zeroes(c) {
            *c = ahead;
            return Ok(Owner(None));
        }
        c.take(2 * c.pointer_size.bytes())?;
        let (sid, _) = Sid::split(c.rest()).ok_or(Short { at: c.position() })?;
        c.take(sid.bytes().len())?;
        Ok(Owner(Some(sid)))
    },
    |owner| owner.0.map_or(Value::Binary(&[]), Value::Sid)
);

/// Programs that log process events themselves write a zeroed TOKEN_USER before the SID; the kernel writes four zero
/// bytes for no SID, and the name of the image follows.
fn is_sid_after_zeroes(cursor: &Cursor<'_>) -> bool {
    match cursor.rest().split_at_checked(2 * cursor.pointer_size.bytes()) {
        Some((token, [1, 1..=15, 0, 0, 0, 0, ..])) => token.iter().all(|&byte| byte == 0),
        _ => false,
    }
}

impl<'a, const UNITS: usize> Field<'a> for FixedWide<'a, UNITS> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Short> {
        cursor.take(2 * UNITS).map(|bytes| Self(WideText::new(bytes).until_nul()))
    }

    fn visit<V: Visitor + ?Sized>(&self, name: &str, visitor: &mut V) {
        visitor.field(name, Value::Wide(self.0));
    }
}

/// A field that newer builds append without a new version: absent if the payload ends before it.
impl<'a, T: Field<'a>> Field<'a> for Option<T> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Short> {
        if cursor.is_at_end() { Ok(None) } else { T::read(cursor).map(Some) }
    }

    fn visit<V: Visitor + ?Sized>(&self, name: &str, visitor: &mut V) {
        if let Some(field) = self {
            field.visit(name, visitor);
        }
    }
}

macro_rules! field_type {
    ($type:ty) => { $type };
    ($type:ty, $versions:pat) => { Option<$type> };
}

macro_rules! field_read {
    ($cursor:ident, $type:ty) => {
        <$type as $crate::payload::kernel::field::Field<'_>>::read($cursor)?
    };
    ($cursor:ident, $type:ty, $versions:pat) => {
        if matches!($cursor.version, $versions) {
            Some(<$type as $crate::payload::kernel::field::Field<'_>>::read($cursor)?)
        } else {
            None
        }
    };
}

/// Declares an event: the struct, and how its fields are read and shown. Fields are in the given order; `if PATTERN`
/// limits one to those versions and makes it an `Option`. The text is the name that tools print.
macro_rules! record {
    ($(#[$meta:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $type:ty = $label:literal $(if $versions:pat)?,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct $name { $($(#[$about])* pub $field: $crate::payload::kernel::field::field_type!($type $(, $versions)?),)* }
        $crate::payload::kernel::field::record!(@impl $name [] { $($field: $type = $label $(if $versions)?,)* });
    };
    ($(#[$meta:meta])* $name:ident<'a> { $($(#[$about:meta])* $field:ident: $type:ty = $label:literal $(if $versions:pat)?,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct $name<'a> { $($(#[$about])* pub $field: $crate::payload::kernel::field::field_type!($type $(, $versions)?),)* }
        $crate::payload::kernel::field::record!(@impl $name [<'a>] { $($field: $type = $label $(if $versions)?,)* });
    };
    (@impl $name:ident [$($lifetime:tt)*] { $($field:ident: $type:ty = $label:literal $(if $versions:pat)?,)* }) => {
        impl<'a> $crate::payload::kernel::field::Record<'a> for $name $($lifetime)* {
            #[inline]
            fn read(cursor: &mut $crate::payload::Cursor<'a>) -> Result<Self, $crate::payload::cursor::Short> {
                $(let $field = $crate::payload::kernel::field::field_read!(cursor, $type $(, $versions)?);)*
                Ok(Self { $($field),* })
            }

            #[inline]
            fn visit<V: $crate::payload::Visitor + ?Sized>(&self, visitor: &mut V) {
                $($crate::payload::kernel::field::Field::visit(&self.$field, $label, visitor);)*
            }
        }
    };
}

pub(super) use {field_read, field_type, record};
