//! JSON lines: one object per line. `"table"` says which table a row is of; the first line is the recording itself
//! (`"table": "info"`). Values are written as in the JSON document. The two tables that have a column named `table`
//! (`ticks`, `sample_ends`) carry it as `sampled_table` here.

use std::io::Write;

use crate::error::ExportError;
use crate::info::SCHEMA;
use crate::source::{RowSource, TableRows};
use crate::text::{Chunked, JsonRows};
use crate::wire::records;

pub(crate) fn write(
    source: &RowSource<'_>,
    out: &mut (dyn Write + Send),
) -> Result<Vec<TableRows>, ExportError> {
    let mut out = Chunked::new(out);
    head(source, &mut out);
    let written = if source.options.records {
        records::write(source, &mut out)?
    } else {
        source.selected.iter().map(|table| rows(source, *table, &mut out)).collect::<Result<_, _>>()?
    };
    out.flush()?;
    Ok(written)
}

fn head(source: &RowSource<'_>, out: &mut Chunked<'_>) {
    #[derive(serde::Serialize)]
    struct Line<'a> {
        table: &'static str,
        schema: &'static str,
        #[serde(flatten)]
        head: crate::info::Head<'a>,
    }
    out.json(&Line { table: "info", schema: SCHEMA, head: source.head() });
    out.text("\n");
}

fn rows(
    source: &RowSource<'_>,
    table: ortscope_core::schema::TableId,
    out: &mut Chunked<'_>,
) -> Result<TableRows, ExportError> {
    let objects = JsonRows::new(table, &format!("\"table\":\"{}\"", table.def().name));
    let mut rows = 0;
    for batch in source.batches(table) {
        let batch = batch?;
        for row in 0..batch.len() {
            objects.write(&mut out.bytes, &batch, row);
            out.text("\n");
            out.boundary()?;
            rows += 1;
        }
    }
    Ok(TableRows { table, rows })
}
