//! The one table of tables: every table, column, unit, nullability and wire name of ortscope is declared in
//! [`tables`]. Row types, batch columns and documentation derive from the declaration.

mod cell;
mod tables;

use serde::Serialize;

pub use cell::{Cell, Column, ColumnData, Text};
pub use tables::*;

/// What a column holds.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
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

#[derive(Debug, Serialize)]
pub struct TableDef {
    pub name: &'static str,
    pub doc: &'static str,
    pub columns: &'static [ColumnDef],
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
        $row:ident in $id:ident = $table:literal {
            $( $(#[doc = $column_doc:literal])+ $column:ident: $type:ty, $unit:ident; )+
        }
    )+) => {
        /// Names a table of the schema.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum TableId { $( $id, )+ }

        impl TableId {
            pub const ALL: &'static [TableId] = &[ $( TableId::$id, )+ ];

            pub fn def(self) -> &'static TableDef {
                match self { $( TableId::$id => {
                    static DEF: TableDef = TableDef {
                        name: $table,
                        doc: concat!($($table_doc),+),
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
            #[derive(Debug, Clone, PartialEq)]
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
    fn units_stand_in_names() {
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
