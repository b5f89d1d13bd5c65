//! Which columns fit, and how wide they are. Narrow screens lose columns from the right.

use crate::model::{Column, Snapshot};

/// The name gets what the others leave, but not less than this.
const MIN_NAME_CELLS: usize = 12;
const USUAL_NAME_CELLS: usize = 24;
/// Six seconds per cell, and two.
const MIN_MINUTE_CELLS: usize = 10;
const MAX_MINUTE_CELLS: usize = 30;

/// A column and its cells.
pub type Sized = (Column, usize);

/// Columns worth showing: one without any value is omitted, and listed by the key `u`.
pub fn available(snapshot: &Snapshot) -> Vec<Column> {
    let worth = |column: &Column| match column {
        // A table that waits for its first values has its usual face.
        Column::Cpu | Column::Rss => true,
        column => column.metric().is_none_or(|metric| snapshot.has(metric)),
    };
    Column::ALL.into_iter().filter(worth).collect()
}

/// Those that the user can sort by.
pub fn sortable(snapshot: &Snapshot) -> Vec<Column> {
    let mut columns = available(snapshot);
    columns.retain(|column| *column != Column::Minute);
    columns
}

/// The columns that fit into the width, with their cells.
pub fn fitting(available: &[Column], width: usize) -> Vec<Sized> {
    let cells = |column: Column| match column {
        Column::Name => MIN_NAME_CELLS,
        Column::Minute => MIN_MINUTE_CELLS,
        Column::Pid | Column::Read | Column::Write => 7,
        Column::Cpu | Column::Rss | Column::Switches | Column::Faults => 6,
        Column::Threads => 5,
    };
    let mut columns: Vec<Sized> = available.iter().map(|column| (*column, cells(*column))).collect();
    let needed = |columns: &[Sized]| columns.iter().map(|(_, cells)| cells + 1).sum::<usize>() - 1;
    while columns.len() > 1 && needed(&columns) > width {
        columns.pop();
    }
    let mut spare = width.saturating_sub(needed(&columns));
    // Most names fit into this; then the sparkline gets wider, and the rest goes to long names.
    for (wanted, most) in
        [(Column::Name, USUAL_NAME_CELLS), (Column::Minute, MAX_MINUTE_CELLS), (Column::Name, usize::MAX)]
    {
        if let Some((_, cells)) = columns.iter_mut().find(|(column, _)| *column == wanted) {
            let more = spare.min(most.saturating_sub(*cells));
            *cells += more;
            spare -= more;
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_go_from_the_right_and_fill_the_width() {
        for width in 27..200 {
            let columns = fitting(&Column::ALL, width);
            assert_eq!(columns.iter().map(|(_, cells)| cells + 1).sum::<usize>() - 1, width);
            let names: Vec<Column> = columns.iter().map(|(column, _)| *column).collect();
            assert_eq!(names, Column::ALL[..names.len()]);
        }
        assert_eq!(fitting(&Column::ALL, 80).last().map(|(column, _)| *column), Some(Column::Switches));
        assert_eq!(fitting(&Column::ALL, 120).len(), Column::ALL.len());
        assert_eq!(fitting(&Column::ALL, 3).len(), 1);
    }
}
