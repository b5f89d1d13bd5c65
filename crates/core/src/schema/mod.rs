//! The schema: [`tables`] declares every table, column, unit, nullability and wire name of ortscope once. Row types,
//! batch columns and documentation derive from the declaration.

mod cell;
mod names;
mod tables;

use schemars::JsonSchema;
use serde::Serialize;

pub use cell::{Cell, Column, ColumnData, Text};
pub use names::{KernelEventKind, Method, NameSet, Named, OperatorKind, Phase, Severity};
pub use tables::*;

/// The type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnType {
    U64,
    I64,
    F64,
    Bool,
    Text,
}

/// The unit of a column's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    None,
    Nanoseconds,
    Milliseconds,
    Bytes,
    Count,
    /// 0 to 1.
    Ratio,
    /// 100 = one core for processes, 100 = all cores for the machine.
    Percent,
    Hertz,
    Watts,
    Joules,
}

#[derive(Debug, Serialize)]
pub struct ColumnDef {
    pub name: &'static str,
    pub column_type: ColumnType,
    pub unit: Unit,
    pub nullable: bool,
    pub doc: &'static str,
}

/// How the rows of a table relate to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind", content = "keys")]
pub enum TableKind {
    /// Each row happened once.
    Events,
    /// At every tick there is one row per sampled thing, identified by these columns. All rows of a tick have the
    /// same timestamp, so a row equal to the previous one need not be stored: it can be reconstructed.
    Samples(&'static [&'static str]),
}

#[derive(Debug, Serialize)]
pub struct TableDef {
    pub name: &'static str,
    pub doc: &'static str,
    pub kind: TableKind,
    /// The first one is the time of the row, in monotonic nanoseconds.
    pub columns: &'static [ColumnDef],
}

impl TableDef {
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// A typed row of a table.
pub trait Row: Sized + Clone + Send + 'static {
    const TABLE: TableId;

    fn push_into(&self, columns: &mut [Column]);

    /// Row `index` of these columns; `None` beyond the end or if the columns are of another table.
    fn read_from(columns: &[Column], index: usize) -> Option<Self>;
}

/// Declares tables: a documented row struct each, its [`TableDef`], and the [`TableId`] that names them all.
macro_rules! declare_tables {
    ($(
        $(#[doc = $table_doc:literal])+
        $row:ident in $id:ident = $table:literal $(, sampled by [$($key:ident),*])? {
            $( $(#[doc = $column_doc:literal])+ $column:ident: $type:ty, $unit:ident; )+
        }
    )+) => {
        /// Names a table of the schema.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum TableId { $( $id, )+ }

        impl TableId {
            pub const ALL: &'static [TableId] = &[ $( TableId::$id, )+ ];

            pub fn by_name(name: &str) -> Option<TableId> {
                Self::ALL.iter().copied().find(|table| table.def().name == name)
            }

            pub fn def(self) -> &'static TableDef {
                match self { $( TableId::$id => {
                    static DEF: TableDef = TableDef {
                        name: $table,
                        doc: concat!($($table_doc),+),
                        kind: table_kind!($([$($key),*])?),
                        columns: &[ $( ColumnDef {
                            name: stringify!($column),
                            column_type: <$type as Cell>::TYPE,
                            unit: Unit::$unit,
                            nullable: <$type as Cell>::NULLABLE,
                            doc: concat!($($column_doc),+),
                        }, )+ ],
                    };
                    &DEF
                } )+ }
            }
        }

        $(
            $(#[doc = $table_doc])+
            #[derive(Debug, Clone, PartialEq, Default)]
            pub struct $row { $( $(#[doc = $column_doc])+ pub $column: $type, )+ }

            impl Row for $row {
                const TABLE: TableId = TableId::$id;

                fn push_into(&self, columns: &mut [Column]) {
                    let mut columns = columns.iter_mut();
                    $( if let Some(column) = columns.next() { Cell::push(&self.$column, column); } )+
                }

                fn read_from(columns: &[Column], index: usize) -> Option<Self> {
                    let mut columns = columns.iter();
                    Some(Self { $( $column: Cell::get(columns.next()?, index)?, )+ })
                }
            }
        )+
    };
}
use declare_tables;

macro_rules! table_kind {
    () => {
        TableKind::Events
    };
    ([$($key:ident),*]) => {
        TableKind::Samples(&[$(stringify!($key)),*])
    };
}
use table_kind;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_documented() {
        let mut tables = std::collections::BTreeSet::new();
        for id in TableId::ALL {
            let def = id.def();
            assert!(tables.insert(def.name), "table {} declared twice", def.name);
            let mut columns = std::collections::BTreeSet::new();
            for column in def.columns {
                assert!(columns.insert(column.name), "{}.{} declared twice", def.name, column.name);
                assert!(!column.doc.trim().is_empty(), "{}.{} has no doc", def.name, column.name);
            }
        }
    }

    #[test]
    fn every_table_starts_with_its_time_and_has_its_keys() {
        for id in TableId::ALL {
            let def = id.def();
            let time = &def.columns[0];
            assert!(time.unit == Unit::Nanoseconds && !time.nullable, "{} has no time", def.name);
            assert_eq!(TableId::by_name(def.name), Some(*id));
            if let TableKind::Samples(keys) = def.kind {
                for key in keys {
                    assert!(def.column_index(key).is_some(), "{} has no column {key}", def.name);
                }
            }
        }
    }

    #[test]
    fn column_names_end_in_their_unit() {
        for id in TableId::ALL {
            for column in id.def().columns {
                let wanted = match column.unit {
                    Unit::Nanoseconds => "_ns",
                    Unit::Bytes => "bytes",
                    Unit::Percent => "percent",
                    Unit::Milliseconds => "_ms",
                    _ => continue,
                };
                assert!(
                    column.name.ends_with(wanted),
                    "{}.{} should end in {wanted}",
                    id.def().name,
                    column.name
                );
            }
        }
    }
}
