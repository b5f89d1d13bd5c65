//! Built-in schemas for providers whose events may arrive without metadata.
//!
//! The tables are text: a `provider` line, then one line with id, versions and name per event, and its fields on
//! indented lines. `name:type`, with `[field]` for a length and `*field` for a count from another field. In a range of
//! versions each adds fields at the end of the previous one.

pub mod ort;

use crate::Guid;
use crate::payload::Schema;
use crate::payload::scalar::{InType, Scalar, Show};
use crate::payload::schema::{Extent, FieldKind, SchemaField};

const TABLES: [&str; 6] = [
    include_str!("clr.txt"),
    include_str!("dxgkrnl.txt"),
    include_str!("energy_estimation_engine.txt"),
    include_str!("kernel_acpi.txt"),
    include_str!("kernel_power.txt"),
    include_str!("kernel_processor_power.txt"),
];

pub const DXGKRNL: Guid = Guid::new(0x802ec45a_1e99_4b83_9920_87c98277ba9d);
pub const ENERGY_ESTIMATION: Guid = Guid::new(0xddcc3826_a68a_4e0d_bcfd_9c06c27c6948);
pub const KERNEL_ACPI: Guid = Guid::new(0xc514638f_7723_485b_bcfc_96565d735d4a);
pub const KERNEL_POWER: Guid = Guid::new(0x331c3b3a_2005_44c2_ac5e_77220c37d6b4);
pub const KERNEL_PROCESSOR_POWER: Guid = Guid::new(0x0f67e49f_fe51_4e9f_b490_6f2948cc6027);

/// One event of the tables, and the versions that its schema covers.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltIn {
    pub provider: Guid,
    pub id: u16,
    pub versions: std::ops::RangeInclusive<u8>,
    pub schema: Schema,
}

/// All events of the tables.
pub fn events() -> impl Iterator<Item = BuiltIn> {
    TABLES.iter().flat_map(|table| parse(table))
}

fn parse(table: &str) -> Vec<BuiltIn> {
    let (mut provider, mut provider_name) = (Guid::default(), "");
    let mut events = Vec::new();
    let mut lines = table.lines().filter(|line| !line.starts_with('#')).peekable();
    while let Some(line) = lines.next() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("provider"), Some(guid), Some(name)) => {
                (provider, provider_name) = (guid.parse().unwrap_or_default(), name);
            }
            (Some(id), Some(versions), Some(name)) => {
                let mut fields = Vec::new();
                while let Some(more) = lines.next_if(|next| next.starts_with(' ')) {
                    for word in more.split_whitespace() {
                        fields.extend(field(word, &fields));
                    }
                }
                let (first, last) = versions.split_once('-').unwrap_or((versions, versions));
                let (task, opcode) = name.split_once('/').unwrap_or((name, ""));
                if let (Ok(id), Ok(first), Ok(last)) = (id.parse(), first.parse(), last.parse()) {
                    let count = fields.len();
                    let schema = Schema::new(provider_name, task, opcode, fields, count);
                    events.push(BuiltIn { provider, id, versions: first..=last, schema });
                }
            }
            _ => {}
        }
    }
    events
}

fn field(word: &str, before: &[SchemaField]) -> Option<SchemaField> {
    let (name, kind) = word.split_once(':')?;
    let index = |wanted: &str| before.iter().position(|field| *field.name == *wanted);
    let (kind, count) = match kind.split_once('*') {
        Some((kind, of)) => (kind, Extent::FromField(index(of)?)),
        None => (kind, Extent::Natural),
    };
    let (kind, length) = match kind.strip_suffix(']').and_then(|kind| kind.split_once('[')) {
        Some((kind, of)) => (kind, Extent::FromField(index(of)?)),
        None => (kind, Extent::Natural),
    };
    let in_type = match kind {
        "wstr" => InType::WIDE,
        "str" => InType::NARROW,
        "i8" => InType::I8,
        "u8" => InType::U8,
        "i16" => InType::I16,
        "u16" => InType::U16,
        "i32" => InType::I32,
        "u32" => InType::U32,
        "i64" => InType::I64,
        "u64" => InType::U64,
        "f32" => InType::F32,
        "f64" => InType::F64,
        "bool" => InType::BOOL32,
        "bin" => InType::BINARY,
        "guid" => InType::GUID,
        "ptr" => InType::POINTER,
        "filetime" => InType::FILE_TIME,
        "systemtime" => InType::SYSTEM_TIME,
        "sid" => InType::SID,
        "x32" => InType::HEX32,
        "x64" => InType::HEX64,
        _ => return None,
    };
    let kind = FieldKind::Scalar { scalar: Scalar { in_type, show: Show::Plain }, length };
    Some(SchemaField { name: name.into(), kind, count, map_name: None, map: None, is_kept: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A misspelled word would silently drop a field or an event.
    #[test]
    fn every_line_of_the_tables_is_understood() {
        for table in TABLES {
            let events = parse(table);
            let (mut heads, mut words) = (0, 0);
            for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
                match line.starts_with(' ') {
                    true => words += line.split_whitespace().count(),
                    false => heads += usize::from(!line.starts_with("provider")),
                }
            }
            assert_eq!(events.len(), heads);
            assert_eq!(events.iter().map(|event| event.schema.field_names().count()).sum::<usize>(), words);
            assert!(
                events.iter().all(|event| !event.provider.is_zero() && !event.schema.provider.is_empty())
            );
        }
        for provider in [DXGKRNL, ENERGY_ESTIMATION, KERNEL_ACPI, KERNEL_POWER, KERNEL_PROCESSOR_POWER] {
            assert!(events().any(|event| event.provider == provider), "{provider}");
        }
    }
}
