//! A batch: rows of one table, column by column. The unit of data between the pump and the sinks.

use crate::schema::{Column, ColumnData, Row, TableId};

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

    /// An empty batch with capacity for this many rows.
    pub fn with_capacity(table: TableId, rows: usize) -> Self {
        let mut batch = Self::new(table);
        for (column, def) in batch.columns.iter_mut().zip(table.def().columns) {
            column.reserve(rows, def.nullable);
        }
        batch
    }

    /// Builds a batch from whole columns; the error describes the mismatch with the table.
    pub fn from_columns(table: TableId, columns: Vec<Column>) -> Result<Self, String> {
        let def = table.def();
        if columns.len() != def.columns.len() {
            return Err(format!("{} has {} columns, not {}", def.name, def.columns.len(), columns.len()));
        }
        let rows = columns.first().map_or(0, Column::len);
        for (column, wanted) in columns.iter().zip(def.columns) {
            let marks = if wanted.nullable { rows } else { 0 };
            if column.column_type() != wanted.column_type
                || column.len() != rows
                || column.valid.len() != marks
            {
                return Err(format!("the column {}.{} does not fit its table", def.name, wanted.name));
            }
        }
        Ok(Self { table, columns, rows })
    }

    /// The rows whose mark is true; rows beyond the marks are dropped.
    pub fn filter(&self, keep: &[bool]) -> Self {
        let indices: Vec<usize> = (0..self.rows.min(keep.len())).filter(|index| keep[*index]).collect();
        self.take(&indices)
    }

    /// The rows at these indices, in this order; indices beyond the end are skipped.
    pub fn take(&self, indices: &[usize]) -> Self {
        let kept: Vec<usize> = indices.iter().copied().filter(|index| *index < self.rows).collect();
        let columns = self.columns.iter().map(|column| column.take(&kept)).collect();
        Self { table: self.table, columns, rows: kept.len() }
    }

    /// Appends the rows of another batch; returns `false` if it belongs to another table.
    pub fn append(&mut self, other: &Self) -> bool {
        if other.table != self.table {
            return false;
        }
        for (column, more) in self.columns.iter_mut().zip(&other.columns) {
            column.append(more);
        }
        self.rows += other.rows;
        true
    }

    /// The time of every row: the first column.
    pub fn times_ns(&self) -> &[u64] {
        match self.columns.first().map(|column| &column.data) {
            Some(ColumnData::U64(times)) => times,
            _ => &[],
        }
    }

    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.get(self.table.def().column_index(name)?)
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

    /// Adds a row; returns `false` if it belongs to another table.
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

    /// Memory use.
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
    fn rejects_a_row_of_another_table() {
        let mut batch = Batch::new(TableId::Inferences);
        let loss = LossRow { timestamp_ns: 0, place: "x".into(), kind: "y".into(), count: 1 };
        assert!(!batch.push(&loss));
        assert!(batch.is_empty());
        assert_eq!(batch.rows::<LossRow>().count(), 0);
    }

    #[test]
    fn rows_can_be_selected_appended_and_validated() {
        let mut batch = Batch::new(TableId::Losses);
        for count in 0..5 {
            batch.push(&LossRow { timestamp_ns: 10 + count, count, ..LossRow::default() });
        }
        let even = batch.filter(&[true, false, true, false, true]);
        assert_eq!(even.times_ns(), [10, 12, 14]);
        let mut both = batch.take(&[4, 0, 99]);
        assert!(both.append(&even) && both.len() == 5);
        assert_eq!(both.rows::<LossRow>().map(|row| row.count).collect::<Vec<_>>(), [4, 0, 0, 2, 4]);
        let again = Batch::from_columns(TableId::Losses, both.columns().to_vec()).expect("they fit");
        assert_eq!(again, both);
        let mut short = both.columns().to_vec();
        short.pop();
        assert!(Batch::from_columns(TableId::Losses, short).is_err());
        assert!(Batch::from_columns(TableId::Annotations, both.columns().to_vec()).is_err());
    }
}
