//! Tables to export, among them the worst that the schema allows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Crc;
use ortscope_core::batch::Batch;
use ortscope_core::clock::WallAnchor;
use ortscope_core::recording::RecordingInfo;
use ortscope_core::schema::{Column, ColumnData, ColumnType, TableId, Text};
use ortscope_core::tables::{MemoryTables, Scan, Tables};
use serde_json::{Map, Value, json};

use crate::skips;

pub fn info() -> RecordingInfo {
    let anchor = |nanos| WallAnchor { monotonic_ns: nanos, unix_ns: 1_700_000_000_000_000_000, error_ns: 50 };
    RecordingInfo {
        id: "2026-11-15-7f3a9c2e".into(),
        name: Some("a \"name\", with <b>HTML</b>".into()),
        tags: vec!["nightly".into()],
        ortscope_version: "0.1.0".into(),
        origin: "run".into(),
        subject: "squeezenet".into(),
        command: None,
        started: anchor(1_000),
        end_reason: Some("done".into()),
        ended: Some(anchor(9_000_000_000)),
        boot_id: None,
        fingerprint: BTreeMap::from([("cpu_model".to_owned(), "a, b".to_owned())]),
    }
}

/// Texts that break formats which do not escape.
pub const TEXTS: &[&str] = &[
    "Conv_0",
    "",
    "with,comma",
    "with \"quotes\"",
    "two\nlines",
    "cr\r\nlf",
    "\ttab first",
    "=HYPERLINK(\"http://x\",\"y\")",
    "+1",
    "-1",
    "@SUM(A1)",
    "'apostrophe",
    "<script>alert(1)</script>&amp;",
    "naïve 模型 🚀 \u{2028}\u{feff}",
    "\u{1}\u{1f}\u{7f} control",
    "back\\slash /path:0",
    "nul \u{0} inside",
    "NaN",
    "null",
    "  spaces  ",
];

/// Small numbers that look like others each time.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = self.0 ^ (self.0 >> 33);
        mixed.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 11
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end.max(1)
    }
}

/// Rows of a table with values from the ends of their types, and nulls.
pub fn nasty_batch(table: TableId, rows: usize, seed: u64) -> Batch {
    let mut dice = Dice::new(seed);
    let columns = table.def().columns.iter().map(|def| {
        let mut column = Column::new(def.column_type);
        for _ in 0..rows {
            push(&mut column.data, &mut dice);
            if def.nullable {
                column.valid.push(dice.below(4) > 0);
            }
        }
        assert_eq!(column.column_type(), def.column_type);
        column
    });
    Batch::from_columns(table, columns.collect()).expect("columns of the table")
}

fn push(data: &mut ColumnData, dice: &mut Dice) {
    let choice = dice.below(10);
    match data {
        ColumnData::U64(values) => values.push(match choice {
            0 => 0,
            1 => u64::MAX,
            2 => i64::MAX as u64 + 1,
            3 => (1 << 53) + 1,
            _ => dice.roll(),
        }),
        ColumnData::I64(values) => values.push(match choice {
            0 => i64::MIN,
            1 => i64::MAX,
            2 => -1,
            _ => dice.roll() as i64 - (1 << 52),
        }),
        ColumnData::F64(values) => values.push(match choice {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            3 => -0.0,
            4 => f64::MIN_POSITIVE / 8.0,
            5 => f64::MAX,
            6 => 0.1,
            _ => dice.roll() as f64 / 1e6,
        }),
        ColumnData::Bool(values) => values.push(choice < 5),
        ColumnData::Text(values) => {
            let text = TEXTS[dice.below(TEXTS.len() as u64) as usize];
            values.push(if choice == 0 { text.repeat(300).into() } else { text.into() });
        }
    }
}

/// Two batches of every table but one, which stays empty.
pub fn nasty_tables(rows: usize) -> MemoryTables {
    let full = TableId::ALL.iter().filter(|table| **table != TableId::Losses);
    let batches = full.flat_map(|table| {
        let seed = *table as u64 * 10;
        [nasty_batch(*table, rows, seed + 1), nasty_batch(*table, rows / 3 + 1, seed + 2)]
    });
    MemoryTables { batches: batches.collect() }
}

/// What the checking script must find in a table.
pub fn figures(tables: &dyn Tables, table: TableId) -> Value {
    let batches: Vec<Batch> = tables.scan(table, &Scan::all()).map(|batch| batch.expect("a batch")).collect();
    let rows: usize = batches.iter().map(Batch::len).sum();
    let mut columns = Map::new();
    for (index, def) in table.def().columns.iter().enumerate() {
        let mut sums = Figures::default();
        for batch in &batches {
            let column = &batch.columns()[index];
            (0..batch.len()).for_each(|row| sums.add(column, row));
        }
        columns.insert(def.name.to_owned(), sums.value(def.column_type));
    }
    json!({"rows": rows, "columns": columns})
}

#[derive(Default)]
struct Figures {
    nulls: u64,
    integers: i128,
    bits: u64,
    nan: u64,
    inf: u64,
    minus_inf: u64,
    crc: Crc,
}

impl Figures {
    fn add(&mut self, column: &Column, row: usize) {
        if !column.has_value(row) {
            self.nulls += 1;
            return;
        }
        match &column.data {
            ColumnData::U64(values) => self.integers += i128::from(values[row]),
            ColumnData::I64(values) => self.integers += i128::from(values[row]),
            ColumnData::Bool(values) => self.integers += i128::from(values[row]),
            ColumnData::F64(values) => match values[row] {
                value if value.is_nan() => self.nan += 1,
                f64::INFINITY => self.inf += 1,
                f64::NEG_INFINITY => self.minus_inf += 1,
                // SQLite does not keep the sign of a zero.
                value => self.bits = self.bits.wrapping_add((value + 0.0).to_bits()),
            },
            ColumnData::Text(values) => {
                let text: &Text = &values[row];
                self.crc.update(&(text.len() as u64).to_le_bytes());
                self.crc.update(text.as_bytes());
            }
        }
    }

    fn value(&self, kind: ColumnType) -> Value {
        match kind {
            ColumnType::U64 | ColumnType::I64 => {
                json!({"nulls": self.nulls, "sum": self.integers.to_string()})
            }
            ColumnType::Bool => json!({"nulls": self.nulls, "true": self.integers as u64}),
            ColumnType::F64 => json!({
                "nulls": self.nulls, "bits": self.bits.to_string(),
                "nan": self.nan, "inf": self.inf, "-inf": self.minus_inf,
            }),
            ColumnType::Text => json!({"nulls": self.nulls, "crc32": self.crc.sum()}),
        }
    }
}

/// The schema as the script wants it.
fn schema() -> Value {
    let columns = |table: &TableId| -> Vec<Value> {
        table.def().columns.iter().map(|column| json!([column.name, column.column_type])).collect()
    };
    TableId::ALL
        .iter()
        .map(|table| (table.def().name.to_owned(), json!(columns(table))))
        .collect::<Map<_, _>>()
        .into()
}

/// Has other readers look at exports; `None` (and the test is noted as skipped) where Python or its packages are missing.
pub fn check(directory: &Path, exports: &[(&str, PathBuf)]) -> Option<Vec<Value>> {
    let python = skips::python_with(&["pyarrow", "viztracer"])?;
    let schema_file = directory.join("schema.json");
    std::fs::write(&schema_file, schema().to_string()).expect("the schema is written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/check_exports.py");
    let mut command = Command::new(&python);
    command.arg("-X").arg("utf8").arg(script).arg(schema_file);
    for (format, path) in exports {
        command.arg(format).arg(path);
    }
    let output = command.output().expect("the script runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).expect("the script prints JSON"))
}
