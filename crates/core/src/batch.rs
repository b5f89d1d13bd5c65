//! A batch: rows of one table, column by column. The currency between the pump and the sinks.

use crate::schema::{Column, Row, TableId};

/// Rows of one table in columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    table: TableId,
    columns: Vec<Column>,
    rows: usize,
}

impl Batch {
    pub fn new(table: TableId) -> Self {
        let columns = table.def().columns.iter().map(|column| Column::new(column.column_type)).collect();
        Self { table, columns, rows: 0 }
    }

    pub fn table(&self) -> TableId {
        self.table
    }

    pub fn len(&self) -> usize {
        self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Adds a row. A row of another table is refused: `false`.
    pub fn push<R: Row>(&mut self, row: &R) -> bool {
        if R::TABLE != self.table {
            return false;
        }
        row.push_into(&mut self.columns);
        self.rows += 1;
        true
    }

    /// The rows as typed values; empty if the batch is of another table.
    pub fn rows<R: Row>(&self) -> impl Iterator<Item = R> + '_ {
        let rows = if R::TABLE == self.table { self.rows } else { 0 };
        (0..rows).filter_map(|index| R::read_from(&self.columns, index))
    }

    /// What the batch costs in memory.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(Column::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{LossRow, UnavailabilityRow};

    #[test]
    fn rows_round_trip() {
        let rows = [
            UnavailabilityRow {
                from_ns: 1,
                to_ns: None,
                track: "energy.power_w".into(),
                reason: "no RAPL".into(),
                hint: Some("load intel_rapl_msr".into()),
            },
            UnavailabilityRow {
                from_ns: 2,
                to_ns: Some(3),
                track: "gpu".into(),
                reason: "none".into(),
                hint: None,
            },
        ];
        let mut batch = Batch::new(TableId::Unavailability);
        for row in &rows {
            assert!(batch.push(row));
        }
        assert_eq!(batch.len(), 2);
        assert_eq!(batch.rows::<UnavailabilityRow>().collect::<Vec<_>>(), rows);
        assert!(batch.bytes() > 40);
    }

    #[test]
    fn a_row_of_another_table_is_refused() {
        let mut batch = Batch::new(TableId::Inferences);
        let loss = LossRow { timestamp_ns: 0, place: "x".into(), kind: "y".into(), count: 1 };
        assert!(!batch.push(&loss));
        assert!(batch.is_empty());
        assert_eq!(batch.rows::<LossRow>().count(), 0);
    }
}
