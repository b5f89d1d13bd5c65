//! A schema from outside the event: from TDH metadata, an EventSource manifest or our own tables.

use std::fmt;
use std::sync::Arc;

use crate::PointerSize;
use crate::payload::scalar::Scalar;
use crate::payload::{Cursor, Nest, Value, Visitor};

/// Numbers that other fields use as counts or lengths are kept while an event is decoded; up to this many on the stack.
const KEPT: usize = 64;

/// The layout and the names of one event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    pub provider: Box<str>,
    pub task: Box<str>,
    pub opcode: Box<str>,
    pub(super) fields: Box<[SchemaField]>,
    /// The number of the event's own fields; the others are members of structures.
    pub(super) top_level: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SchemaField {
    pub name: Box<str>,
    pub kind: FieldKind,
    pub count: Extent,
    /// The name of a value map, and the map itself once it is known.
    pub map_name: Option<Box<str>>,
    pub map: Option<Arc<ValueMap>>,
    /// Another field uses this one as its count or length.
    pub is_kept: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum FieldKind {
    Scalar { scalar: Scalar, length: Extent },
    Struct { first: usize, members: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// One element, or the length given by the type.
    Natural,
    Fixed(u16),
    /// The value of the field with this index.
    FromField(usize),
}

/// Names for the values of a field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValueMap {
    /// The names represent bits, several of which may be set.
    pub is_bits: bool,
    /// In ascending order of the values.
    entries: Box<[(u32, Box<str>)]>,
}

impl ValueMap {
    pub fn new(is_bits: bool, mut entries: Vec<(u32, Box<str>)>) -> Self {
        entries.sort_by_key(|(value, _)| *value);
        Self { is_bits, entries: entries.into_boxed_slice() }
    }

    pub fn name(&self, value: u64) -> Option<&str> {
        let value = u32::try_from(value).ok()?;
        self.entries.binary_search_by_key(&value, |(of, _)| *of).ok().map(|index| &*self.entries[index].1)
    }

    pub(super) fn write(&self, value: u64, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name(value) {
            return out.write_str(name);
        }
        if !self.is_bits {
            return write!(out, "{value}");
        }
        let mut left = value;
        for (bit, name) in
            self.entries.iter().filter(|(bit, _)| *bit != 0 && value & u64::from(*bit) == u64::from(*bit))
        {
            if left != value {
                out.write_str("|")?;
            }
            out.write_str(name)?;
            left &= !u64::from(*bit);
        }
        match left {
            0 if value != 0 => Ok(()),
            _ if left == value => write!(out, "{value:#x}"),
            _ => write!(out, "|{left:#x}"),
        }
    }
}

/// How far a schema matched the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Followed {
    pub consumed: usize,
    /// Top-level fields missing in the payload: the event is older than the schema, or damaged.
    pub missing: usize,
}

impl Schema {
    pub(super) fn new(
        provider: &str,
        task: &str,
        opcode: &str,
        mut fields: Vec<SchemaField>,
        top_level: usize,
    ) -> Self {
        for index in 0..fields.len() {
            let of_kind = match fields[index].kind {
                FieldKind::Scalar { length, .. } => length,
                FieldKind::Struct { .. } => Extent::Natural,
            };
            for extent in [fields[index].count, of_kind] {
                if let Extent::FromField(other) = extent
                    && let Some(field) = fields.get_mut(other)
                {
                    field.is_kept = true;
                }
            }
        }
        Self {
            provider: provider.into(),
            task: task.into(),
            opcode: opcode.into(),
            fields: fields.into_boxed_slice(),
            top_level,
        }
    }

    /// The names of the event's own fields.
    pub fn field_names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().take(self.top_level).map(|field| &*field.name)
    }

    /// Task and opcode as printed by tools: `Task/Opcode`, without an uninformative opcode.
    pub fn event_name(&self) -> String {
        let opcode = self.opcode.strip_prefix("win:").unwrap_or(&self.opcode);
        match (&*self.task, opcode) {
            (task, "" | "Info") => task.to_owned(),
            ("", opcode) => opcode.to_owned(),
            (task, opcode) => format!("{task}/{opcode}"),
        }
    }

    /// Shows every field of a payload.
    pub fn visit<V: Visitor + ?Sized>(
        &self,
        payload: &[u8],
        pointer_size: PointerSize,
        visitor: &mut V,
    ) -> Followed {
        let mut on_stack = [0; KEPT];
        let mut on_heap = Vec::new();
        let kept: &mut [u32] = if self.fields.len() <= KEPT {
            &mut on_stack
        } else {
            on_heap.resize(self.fields.len(), 0);
            &mut on_heap
        };
        let mut walk = Walk {
            fields: &self.fields,
            cursor: Cursor::new(payload, pointer_size, 0),
            kept,
            visitor,
            budget: 4 * payload.len() + self.fields.len() + 16,
        };
        for index in 0..self.top_level.min(self.fields.len()) {
            if walk.field(index).is_none() {
                return Followed { consumed: walk.cursor.position(), missing: self.top_level - index };
            }
        }
        Followed { consumed: walk.cursor.position(), missing: 0 }
    }
}

struct Walk<'a, 's, V: ?Sized> {
    fields: &'s [SchemaField],
    cursor: Cursor<'a>,
    kept: &'s mut [u32],
    visitor: &'s mut V,
    /// Every field takes a byte of the payload or occurs once in the schema; a looping schema exhausts this budget.
    budget: usize,
}

impl<'a, 's, V: Visitor + ?Sized> Walk<'a, 's, V> {
    /// `None`: the payload ends in this field, or the schema is invalid from here on.
    fn field(&mut self, index: usize) -> Option<()> {
        self.budget = self.budget.checked_sub(1)?;
        let fields = self.fields;
        let field = fields.get(index)?;
        let count = self.extent(field.count)?;
        let (scalar, length) = match field.kind {
            FieldKind::Struct { first, members } => {
                return self.structure(field, index, first, members, count);
            }
            FieldKind::Scalar { scalar, length } => (scalar, self.extent(length)?),
        };
        let value = match count {
            None => scalar.read(&mut self.cursor, length).ok()?,
            Some(count) => Value::Array(scalar.read_array(&mut self.cursor, count).ok()?),
        };
        if field.is_kept {
            // A count out of range requests more than any payload has.
            *self.kept.get_mut(index)? =
                value.as_u64().map_or(u32::MAX, |n| u32::try_from(n).unwrap_or(u32::MAX));
        }
        match (&field.map, value.as_u64()) {
            (Some(map), Some(number)) => self.visitor.field(&field.name, Value::Named { number, map }),
            _ => self.visitor.field(&field.name, value),
        }
        Some(())
    }

    fn structure(
        &mut self,
        field: &SchemaField,
        index: usize,
        first: usize,
        members: usize,
        count: Option<usize>,
    ) -> Option<()> {
        // Members follow their structure: a schema that points backwards would never end.
        if first <= index {
            return None;
        }
        if let Some(count) = count {
            self.visitor.open(&field.name, Nest::Array(count));
        }
        for _ in 0..count.unwrap_or(1) {
            let before = self.cursor.position();
            self.visitor.open(if count.is_some() { "" } else { &field.name }, Nest::Struct);
            for member in first..first.saturating_add(members) {
                self.field(member)?;
            }
            self.visitor.close();
            if count.is_some() && self.cursor.position() == before {
                return None;
            }
        }
        if count.is_some() {
            self.visitor.close();
        }
        Some(())
    }

    fn extent(&self, extent: Extent) -> Option<Option<usize>> {
        Some(match extent {
            Extent::Natural => None,
            Extent::Fixed(n) => Some(usize::from(n)),
            Extent::FromField(other) => Some(*self.kept.get(other)? as usize),
        })
    }
}
