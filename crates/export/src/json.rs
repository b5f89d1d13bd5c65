//! One JSON document: `{"schema": …, "info": {…}, "columns": {table: {…}}, "tables": {table: [row, …]}}`.
//!
//! Rows are objects with every column, `null` where there is no value. Integers are written in full: some readers
//! (JavaScript) round what is beyond 2^53. What is not a number stands as `"NaN"`, `"Infinity"` or `"-Infinity"`.

use std::io::Write;

use crate::error::ExportError;
use crate::info::{SCHEMA, columns};
use crate::source::{RowSource, TableRows};
use crate::text::{Chunked, JsonRows};

pub(crate) fn write(
    source: &RowSource<'_>,
    out: &mut (dyn Write + Send),
) -> Result<Vec<TableRows>, ExportError> {
    let mut out = Chunked::new(out);
    out.text("{\"schema\":");
    out.json(SCHEMA);
    out.text(",\n\"info\":");
    out.json(&source.head());
    out.text(",\n\"columns\":");
    out.json(&columns(&source.selected));
    out.text(",\n\"tables\":{");
    let mut written = Vec::new();
    for (index, table) in source.selected.iter().copied().enumerate() {
        out.text(if index == 0 { "\n" } else { ",\n" });
        out.json(table.def().name);
        out.text(":[");
        let objects = JsonRows::new(table, "");
        let mut rows = 0;
        for batch in source.batches(table) {
            let batch = batch?;
            for row in 0..batch.len() {
                out.text(if rows == 0 { "\n" } else { ",\n" });
                objects.write(&mut out.bytes, &batch, row);
                out.boundary()?;
                rows += 1;
            }
        }
        out.text("]");
        written.push(TableRows { table, rows });
    }
    out.text("}}\n");
    out.flush()?;
    Ok(written)
}
