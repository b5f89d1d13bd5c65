//! Segments round-trip bit for bit, and damage is detected.

use std::io::Write;

use fs_err::File;
use ortscope_core::batch::Batch;
use ortscope_core::schema::{
    Column, ColumnData, ColumnDef, ColumnType, LossRow, ProcessSampleRow, TableId, Text, Unit,
};
use proptest::prelude::*;

use super::block::{self, Nature};
use super::footer::StoredTable;
use super::{Segment, SegmentBuilder, SegmentWriter, View};

fn def(column_type: ColumnType, nullable: bool) -> ColumnDef {
    ColumnDef { name: "x", column_type, unit: Unit::None, nullable, doc: "any" }
}

/// NaN equals NaN here, and -0 does not equal 0.
fn bits(column: &Column) -> (Vec<bool>, Vec<String>) {
    let texts = match &column.data {
        ColumnData::U64(values) => values.iter().map(u64::to_string).collect(),
        ColumnData::I64(values) => values.iter().map(i64::to_string).collect(),
        ColumnData::F64(values) => values.iter().map(|value| value.to_bits().to_string()).collect(),
        ColumnData::Bool(values) => values.iter().map(bool::to_string).collect(),
        ColumnData::Text(values) => values.iter().map(|value| format!("{value:?}")).collect(),
    };
    (column.valid.clone(), texts)
}

fn column() -> impl Strategy<Value = Column> {
    let number = prop_oneof![Just(0), Just(u64::MAX), 0_u64..10, any::<u64>()];
    let float = prop_oneof![Just(f64::NAN), Just(-0.0), Just(f64::INFINITY), 0.0..1.0, any::<f64>()];
    let text = prop_oneof![Just(String::new()), "[a-c]{1,3}", "\\PC{0,20}"];
    let data = prop_oneof![
        prop::collection::vec(number.clone(), 1..300).prop_map(ColumnData::U64),
        // Times of a sampled table: few distinct values.
        prop::collection::vec(1_u64..5, 1..300)
            .prop_map(|times| ColumnData::U64(times.iter().map(|time| time * 10_000_019).collect())),
        prop::collection::vec(number.prop_map(u64::cast_signed), 1..300).prop_map(ColumnData::I64),
        prop::collection::vec(float, 1..300).prop_map(ColumnData::F64),
        prop::collection::vec(any::<bool>(), 1..300).prop_map(ColumnData::Bool),
        prop::collection::vec(text, 1..100)
            .prop_map(|texts| ColumnData::Text(texts.iter().map(|text| Text::from(text.as_str())).collect())),
    ];
    (data, prop::option::of((any::<u64>(), 0_u8..4))).prop_map(|(data, nulls)| {
        let mut column = Column { data, valid: Vec::new() };
        if let Some((seed, kind)) = nulls {
            let is_null = |row: usize| match kind {
                0 => true,
                1 => false,
                _ => seed >> (row % 64) & 1 == 1,
            };
            column.valid = (0..column.len()).map(|row| !is_null(row)).collect();
        }
        column
    })
}

/// Values under nulls are not stored.
fn without_values_under_nulls(mut column: Column) -> Column {
    for row in 0..column.valid.len() {
        if !column.valid[row] {
            match &mut column.data {
                ColumnData::U64(values) => values[row] = 0,
                ColumnData::I64(values) => values[row] = 0,
                ColumnData::F64(values) => values[row] = 0.0,
                ColumnData::Bool(values) => values[row] = false,
                ColumnData::Text(values) => values[row] = Text::from(""),
            }
        }
    }
    column
}

proptest! {
    #[test]
    fn columns_of_every_type_round_trip(column in column()) {
        let def = def(column.column_type(), !column.valid.is_empty());
        let column = without_values_under_nulls(column);
        let mut natures = vec![Nature::Own];
        if def.column_type == ColumnType::U64 && !def.nullable {
            natures.push(Nature::SharedTimes);
        }
        for nature in natures {
            let bytes = block::encode(&column, nature).expect("every column can be stored");
            let again = block::decode(&bytes, column.len(), &def, def.nullable).expect("it was just stored");
            prop_assert_eq!(bits(&again), bits(&column));
        }
    }

    #[test]
    fn a_column_that_became_nullable_is_readable(values in prop::collection::vec(any::<u64>(), 1..50)) {
        let column = Column { data: ColumnData::U64(values), valid: Vec::new() };
        let bytes = block::encode(&column, Nature::Own).expect("stored");
        let again = block::decode(&bytes, column.len(), &def(ColumnType::U64, true), false).expect("read");
        prop_assert_eq!(&again.data, &column.data);
        prop_assert!(again.valid.len() == column.len() && again.valid.iter().all(|valid| *valid));
    }

    #[test]
    fn blocks_with_wrong_bytes_are_survived(column in column(), flips in prop::collection::vec(any::<u32>(), 1..4)) {
        let def = def(column.column_type(), !column.valid.is_empty());
        let mut bytes = block::encode(&column, Nature::Own).expect("stored");
        for flip in flips {
            let bit = flip as usize % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        if let Ok(again) = block::decode(&bytes, column.len(), &def, def.nullable) {
            prop_assert_eq!(again.len(), column.len());
        }
    }
}

fn samples() -> Batch {
    let mut batch = Batch::new(TableId::ProcessSamples);
    for tick in 0..200_u64 {
        for pid in [7, 3, 5] {
            batch.push(&ProcessSampleRow {
                timestamp_ns: 1_000_000_000 + tick * 10_000_000 + tick % 7,
                pid,
                process_start: pid * 100,
                cpu_time_ns: tick * pid * 1000,
                working_set_bytes: 4096 * (100 + tick % 3),
                priority: (tick % 2 == 0).then_some(-20),
                ..ProcessSampleRow::default()
            });
        }
    }
    batch
}

fn losses(rows: u64) -> Batch {
    let mut batch = Batch::new(TableId::Losses);
    for count in 0..rows {
        batch.push(&LossRow {
            timestamp_ns: 5 * (rows - count),
            place: "here".into(),
            kind: "x".into(),
            count,
        });
    }
    batch
}

fn written(batches: &[Batch]) -> Vec<u8> {
    let mut builder = SegmentBuilder::default();
    for batch in batches {
        builder.add(batch);
    }
    let mut writer = SegmentWriter::new(Vec::new(), None, "x").expect("memory can be written");
    builder.write_into(&mut writer).expect("memory can be written");
    writer.finish().expect("memory can be written")
}

fn kept(bytes: &[u8]) -> tempfile::TempPath {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("written");
    file.into_temp_path()
}

fn rows_of(
    segment: &Segment,
    table: TableId,
    wanted: impl Fn(&str) -> bool + Copy,
) -> Result<Vec<Batch>, String> {
    let mut file = File::open(&segment.path).map_err(|error| error.to_string())?;
    let chunks: Vec<_> = segment.chunks(table).collect();
    chunks
        .iter()
        .map(|chunk| segment.decode(&mut file, chunk, wanted).map_err(|error| error.to_string()))
        .collect()
}

#[test]
fn sampled_rows_lie_by_key_and_events_by_time() {
    let path = kept(&written(&[samples(), losses(100)]));
    let segment = Segment::open(&path, None).expect("readable").expect("whole");
    let back = &rows_of(&segment, TableId::ProcessSamples, |_| true).expect("whole")[0];
    let mut wanted: Vec<ProcessSampleRow> = samples().rows().collect();
    wanted.sort_by_key(|row| (row.pid, row.timestamp_ns));
    assert_eq!(back.rows::<ProcessSampleRow>().collect::<Vec<_>>(), wanted);
    let back = &rows_of(&segment, TableId::Losses, |_| true).expect("whole")[0];
    let times: Vec<u64> = back.times_ns().to_vec();
    assert!(times.is_sorted() && times.len() == 100);
    assert_eq!(back.rows::<LossRow>().map(|row| row.count).sum::<u64>(), 4950);
}

#[test]
fn long_tables_are_split_into_chunks_in_time_order() {
    let path = kept(&written(&[losses(150_000)]));
    let segment = Segment::open(&path, None).expect("readable").expect("whole");
    let chunks: Vec<_> = segment.chunks(TableId::Losses).collect();
    assert_eq!(chunks.iter().map(|chunk| chunk.rows).collect::<Vec<_>>(), [65_536, 65_536, 18_928]);
    assert!(chunks.windows(2).all(|pair| pair[0].to_ns < pair[1].from_ns));
}

#[test]
fn unrequested_columns_are_blank() {
    let path = kept(&written(&[samples()]));
    let segment = Segment::open(&path, None).expect("readable").expect("whole");
    let back = &rows_of(&segment, TableId::ProcessSamples, |name| name == "cpu_time_ns").expect("whole")[0];
    let row: ProcessSampleRow = back.rows().last().expect("a row");
    assert_eq!((row.pid, row.priority, row.working_set_bytes), (0, None, 0));
    assert_eq!(row.cpu_time_ns, 199 * 7 * 1000);
    assert!(row.timestamp_ns > 0, "the time is always there");
}

/// Every single bit: either the directory does not open, or the chunk is refused, or nothing that is read has changed.
#[test]
fn no_flipped_bit_changes_a_value() {
    let good = written(&[samples().take(&(0..60).collect::<Vec<_>>())]);
    let whole = {
        let path = kept(&good);
        let segment = Segment::open(&path, None).expect("readable").expect("whole");
        rows_of(&segment, TableId::ProcessSamples, |_| true).expect("whole")
    };
    let (mut refused, mut lost_directory) = (0, 0);
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let path = kept(&bytes);
        match Segment::open(&path, None).expect("readable") {
            Err(_) => lost_directory += 1,
            Ok(segment) => match rows_of(&segment, TableId::ProcessSamples, |_| true) {
                Err(_) => refused += 1,
                Ok(rows) => assert!(rows == whole && bit < 16 * 8, "bit {bit} went unnoticed"),
            },
        }
    }
    assert!(refused > 100 && lost_directory > 100, "{refused} {lost_directory}");
}

#[test]
fn a_truncated_segment_is_rejected_at_every_length() {
    let good = written(&[samples()]);
    for length in (0..good.len()).step_by(97) {
        let path = kept(&good[..length]);
        assert!(Segment::open(&path, None).expect("readable").is_err(), "{length}");
    }
}

#[test]
fn other_schemas_are_read_by_name() {
    let path = kept(&written(&[losses(10)]));
    let segment = Segment::open(&path, None).expect("readable").expect("whole");
    let rewrite = |change: &dyn Fn(&mut StoredTable)| {
        let mut table = segment.footer.tables[0].clone();
        change(&mut table);
        let mut file = File::open(&segment.path).expect("there");
        let mut writer = SegmentWriter::new(Vec::new(), None, "x").expect("memory");
        let chunk = &segment.footer.chunks[0];
        writer.copy(&table, chunk, segment.read_chunk(&mut file, chunk).expect("whole")).expect("memory");
        let path = kept(&writer.finish().expect("memory"));
        (Segment::open(&path, None).expect("readable").expect("whole"), path)
    };
    let (newer, _path) = rewrite(&|table| table.columns[1].name = "a_new_column".into());
    let View::Refused { problem } = newer.view_of(&newer.footer.chunks[0]) else {
        panic!("losses.place must be there");
    };
    assert!(problem.contains("losses has no column place"), "{problem}");
    let (unknown, _path) = rewrite(&|table| table.name = "from_the_future".into());
    assert!(matches!(unknown.views().next(), Some((_, View::Unknown))));
    assert_eq!(unknown.chunks(TableId::Losses).count(), 0);
    let (other_type, _path) = rewrite(&|table| table.columns[3].kind = "text".into());
    assert!(matches!(other_type.views().next(), Some((_, View::Refused { .. }))));
}
