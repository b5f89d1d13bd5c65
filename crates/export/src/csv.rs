//! CSV as RFC 4180 has it: a line of names, then rows; lines end in CR LF; fields with commas, quotes or line breaks are
//! quoted. A missing value is empty, an empty text is `""`. What is not a number is `NaN`, `inf` or `-inf`.
//!
//! **Spreadsheets run what looks like a formula.** Node names and command lines come from files that somebody else made,
//! so a text that begins with `=`, `+`, `-`, `@`, a tab or a carriage return gets a `'` in front, and so does one that
//! begins with `'`: taking one `'` away gives every text back as it was.

use std::io::Write;

use ortscope_core::schema::{Column, ColumnData, TableId};

use crate::error::ExportError;
use crate::source::{RowSource, TableRows};
use crate::text::{Chunked, json};

pub(crate) fn write(
    source: &RowSource<'_>,
    table: TableId,
    out: &mut (dyn Write + Send),
) -> Result<TableRows, ExportError> {
    let mut out = Chunked::new(out);
    let names: Vec<&str> = table.def().columns.iter().map(|column| column.name).collect();
    out.text(&names.join(","));
    out.text("\r\n");
    let mut rows = 0;
    for batch in source.batches(table) {
        let batch = batch?;
        for row in 0..batch.len() {
            for (index, column) in batch.columns().iter().enumerate() {
                if index > 0 {
                    out.bytes.push(b',');
                }
                cell(&mut out.bytes, column, row);
            }
            out.text("\r\n");
            out.boundary()?;
            rows += 1;
        }
    }
    out.flush()?;
    Ok(TableRows { table, rows })
}

fn cell(out: &mut Vec<u8>, column: &Column, row: usize) {
    if !column.has_value(row) {
        return;
    }
    match &column.data {
        ColumnData::U64(values) => json(out, &values[row]),
        ColumnData::I64(values) => json(out, &values[row]),
        ColumnData::F64(values) => number(out, values[row]),
        ColumnData::Bool(values) => json(out, &values[row]),
        ColumnData::Text(values) => text(out, &values[row]),
    }
}

fn number(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        json(out, &value);
    } else if value.is_nan() {
        out.extend_from_slice(b"NaN");
    } else {
        out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    let guard = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\'']);
    let quote = text.is_empty() || text.contains([',', '"', '\n', '\r']);
    if !guard && !quote {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    if quote {
        out.push(b'"');
    }
    if guard {
        out.push(b'\'');
    }
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    if quote {
        out.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    fn text(value: &str) -> String {
        let mut out = Vec::new();
        super::text(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts_are_quoted_and_formulas_disarmed() {
        for (value, written) in [
            ("plain", "plain"),
            ("", "\"\""),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("=1+1", "'=1+1"),
            ("@x,y", "\"'@x,y\""),
            ("-\"", "\"'-\"\"\""),
            ("'quoted", "''quoted"),
            ("ünï", "ünï"),
        ] {
            assert_eq!(text(value), written);
        }
    }
}
