//! Recordings of many machines in one directory, for engines that read Parquet: DuckDB, ClickHouse, Spark, Trino.
//!
//! ```text
//! DIR/operators/model=squeezenet/host=pc7/date=2026-11-15/2026-11-15-7f3a9c2e.parquet
//! DIR/inferences/…
//! DIR/manifests/model=squeezenet/host=pc7/date=2026-11-15/2026-11-15-7f3a9c2e.json
//! ```
//!
//! Files never change. The manifest gets its name last: a recording with a manifest is complete. The name is the
//! recording's own, so that the same one is there once, however often it is exported.

use std::io::Write as _;
use std::path::Path;

use ortscope_core::schema::TableId;
use serde_json::json;

use crate::error::ExportError;
use crate::info::SCHEMA;
use crate::parquet;
use crate::place::{Models, path_part};
use crate::source::RowSource;
use crate::target::Staged;

const MANIFESTS: &str = "manifests";

pub(crate) fn write(source: &RowSource<'_>, target: &Path, staged: &mut Staged) -> Result<(), ExportError> {
    let model = Models::read(source)?.only();
    let partition = format!(
        "model={}/host={}/date={}",
        path_part(&model),
        path_part(&source.options.host),
        date(source.info.started.unix_ns)
    );
    let id = path_part(&source.info.id);
    let manifest = target.join(MANIFESTS).join(&partition).join(format!("{id}.json"));
    staged.check(&manifest)?;
    let mut files = Vec::new();
    for table in &source.selected {
        let path = target.join(table.def().name).join(&partition).join(format!("{id}.parquet"));
        staged.check(&path)?;
        let Some((rows, bytes)) = write_table(source, *table, &path, staged)? else { continue };
        let name = format!("{}/{partition}/{id}.parquet", table.def().name);
        files.push(json!({"table": table.def().name, "path": name, "rows": rows, "bytes": bytes}));
    }
    let document = json!({
        "schema": "ortscope.fleet/1",
        "export_schema": SCHEMA,
        "model": &*model,
        "host": source.options.host,
        "recording": serde_json::to_value(source.head()).unwrap_or_default(),
        "files": files,
    });
    staged.create_directory(manifest.parent().unwrap_or(target))?;
    let mut file = staged.begin(&manifest)?;
    let text = serde_json::to_string_pretty(&document).unwrap_or_default() + "\n";
    file.write_all(text.as_bytes()).map_err(|error| ExportError::file(&manifest, &error))?;
    staged.add(file, &manifest, None, 0)
}

/// Rows and bytes; `None` for a table without rows, which would only be one more file to open.
fn write_table(
    source: &RowSource<'_>,
    table: TableId,
    path: &Path,
    staged: &mut Staged,
) -> Result<Option<(u64, u64)>, ExportError> {
    if source.batches(table).next().transpose()?.is_none() {
        return Ok(None);
    }
    staged.create_directory(path.parent().unwrap_or(path))?;
    let mut file = staged.begin(path)?;
    let written = parquet::write(source, table, file.as_file_mut()).map_err(|error| error.at(path))?;
    let bytes = file.as_file().metadata().map_err(|error| ExportError::file(path, &error))?.len();
    staged.add(file, path, Some(table), written.rows)?;
    Ok(Some((written.rows, bytes)))
}

/// The day in universal time, as 2026-11-15.
fn date(unix_ns: u64) -> String {
    let days = (unix_ns / 86_400_000_000_000) as i64;
    // Years from March, so that the day that is sometimes there is the last one.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let of = |seconds: u64| date(seconds * 1_000_000_000);
        assert_eq!(of(0), "1970-01-01");
        assert_eq!(of(951_782_400), "2000-02-29");
        assert_eq!(of(951_868_800), "2000-03-01");
        assert_eq!(of(1_700_000_000), "2023-11-14");
        assert_eq!(of(4_102_444_799), "2099-12-31");
    }
}
