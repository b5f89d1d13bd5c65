//! Batches as frames: they round-trip, later programs still read them, and malicious bytes are rejected.

mod support;

use ortscope_channel::batch_frame::schema::{WrittenSchema, WrittenType};
use ortscope_channel::batch_frame::{BatchEncoder, DecodeError, Decoded, Decoder};
use ortscope_core::batch::Batch;
use ortscope_core::schema::{InferenceRow, LossRow, Phase, TableId};
use proptest::prelude::*;
use support::{Random, random_batch};

fn encoded(batch: &Batch) -> Vec<u8> {
    let mut payload = Vec::new();
    BatchEncoder::default().encode(batch, 0..batch.len(), &mut payload);
    payload
}

/// The same schema with a change, and the payload relabelled as written under it.
fn rewritten(payload: &[u8], change: impl FnOnce(&mut WrittenSchema)) -> (Decoder, Vec<u8>) {
    let mut schema = WrittenSchema::current();
    change(&mut schema);
    let json = schema.to_json();
    let mut payload = payload.to_vec();
    payload[..4]
        .copy_from_slice(&ortscope_channel::batch_frame::schema::schema_checksum(&json).to_le_bytes());
    (Decoder::from_json(&json).expect("own text"), payload)
}

fn inferences() -> Batch {
    let mut batch = Batch::new(TableId::Inferences);
    for sequence in 0..10 {
        let token = (sequence % 2 == 0).then_some(sequence);
        batch.push(&InferenceRow { sequence, token, phase: "steady".into(), ..InferenceRow::default() });
    }
    batch
}

proptest! {
    #[test]
    fn every_table_comes_back(seed in any::<u64>(), rows in 0usize..400) {
        let random = &mut Random::new(seed);
        for table in TableId::ALL {
            let batch = random_batch(*table, rows, random);
            prop_assert_eq!(Decoder::current().decode(&encoded(&batch)), Ok(Decoded::Batch(batch)));
        }
    }

    #[test]
    fn a_part_of_a_batch_comes_back(seed in any::<u64>(), rows in 1usize..200, from in 0usize..200, to in 0usize..250) {
        let batch = random_batch(TableId::ThreadSamples, rows, &mut Random::new(seed));
        let (from, to) = (from.min(to), to);
        let mut payload = Vec::new();
        BatchEncoder::default().encode(&batch, from..to, &mut payload);
        let part = batch.take(&(from..to).collect::<Vec<_>>());
        prop_assert_eq!(Decoder::current().decode(&payload), Ok(Decoded::Batch(part)));
    }

    /// The checksum of a frame guards against accidents; a hostile file has right checksums and wrong bytes.
    #[test]
    fn changed_bytes_give_an_error_or_a_batch_but_never_a_panic(
        seed in any::<u64>(),
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..8),
        cut in any::<u16>(),
    ) {
        let random = &mut Random::new(seed);
        let table = TableId::ALL[random.below(TableId::ALL.len())];
        let mut payload = encoded(&random_batch(table, random.below(40), random));
        for (at, value) in changes {
            // The first bytes identify the schema; a batch with another schema is not decoded.
            let at = 4 + usize::from(at) % (payload.len() - 4);
            payload[at] = value;
        }
        if cut % 3 == 0 {
            payload.truncate(usize::from(cut) % (payload.len() + 1));
        }
        if let Ok(Decoded::Batch(batch)) = Decoder::current().decode(&payload) {
            prop_assert!(batch.len() <= payload.len() / 8);
        }
    }

    #[test]
    fn noise_is_rejected(noise in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut payload = encoded(&inferences());
        payload.truncate(8);
        payload.extend(noise);
        let _either = Decoder::current().decode(&payload);
    }
}

#[test]
fn flipped_bits_and_wrong_lengths_do_no_harm() {
    let payload = encoded(&inferences());
    for bit in 0..payload.len() * 8 {
        let mut broken = payload.clone();
        broken[bit / 8] ^= 1 << (bit % 8);
        let _either = Decoder::current().decode(&broken);
    }
    for at in [8, 12] {
        let mut huge = payload.clone();
        huge[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Decoder::current().decode(&huge).is_err(), "a length of 4 billion at {at}");
    }
    for length in 0..payload.len() {
        assert!(Decoder::current().decode(&payload[..length]).is_err(), "cut at {length}");
    }
    let mut longer = payload;
    longer.push(0);
    assert_eq!(Decoder::current().decode(&longer), Err(DecodeError::Inconsistent));
}

#[test]
fn a_column_missing_from_the_data_is_null() {
    let mut batch = Batch::new(TableId::Inferences);
    // Without any token the column is one byte, so that it can be cut out here.
    batch.push(&InferenceRow { sequence: 7, phase: "steady".into(), ok: true, ..InferenceRow::default() });
    let payload = encoded(&batch);
    let token = TableId::Inferences.def().column_index("token").unwrap();
    let (decoder, mut payload) = rewritten(&payload, |schema| {
        schema.tables[0].columns.remove(token);
    });
    // Only `ok` follows: one byte.
    payload.remove(payload.len() - 2);
    assert_eq!(decoder.decode(&payload), Ok(Decoded::Batch(batch)));
}

#[test]
fn a_missing_required_column_is_named_in_the_error() {
    let payload = encoded(&inferences());
    let (decoder, payload) = rewritten(&payload, |schema| schema.tables[0].columns[3].name = "number".into());
    let error = decoder.decode(&payload).unwrap_err();
    assert_eq!(error, DecodeError::MissingColumn { table: "inferences", column: "sequence" });
    assert!(error.to_string().contains("inferences has no column sequence"), "{error}");
}

#[test]
fn unknown_columns_and_tables_are_skipped() {
    let batch = inferences();
    let payload = encoded(&batch);
    // The same bytes, read as if `token`, which some rows have, had another name.
    let token = TableId::Inferences.def().column_index("token").unwrap();
    let (decoder, renamed) =
        rewritten(&payload, |schema| schema.tables[0].columns[token].name = "future".into());
    let Ok(Decoded::Batch(read)) = decoder.decode(&renamed) else { panic!("it is readable") };
    assert!(read.rows::<InferenceRow>().all(|row| row.token.is_none() && row.phase == Phase::Steady));
    assert_eq!(read.column("sequence"), batch.column("sequence"));

    let (decoder, renamed) = rewritten(&payload, |schema| schema.tables[0].name = "futures".into());
    assert_eq!(decoder.decode(&renamed), Ok(Decoded::UnknownTable));
    let (decoder, retyped) =
        rewritten(&payload, |schema| schema.tables[0].columns[3].column_type = WrittenType::Unknown);
    assert_eq!(decoder.decode(&retyped), Ok(Decoded::UnknownTable));
}

#[test]
fn reordered_and_retyped_columns_are_detected() {
    let mut batch = Batch::new(TableId::Losses);
    batch.push(&LossRow { count: 3, ..LossRow::default() });
    let payload = encoded(&batch);
    let losses = TableId::Losses as usize;
    let (decoder, retyped) =
        rewritten(&payload, |schema| schema.tables[losses].columns[3].column_type = WrittenType::F64);
    assert_eq!(decoder.decode(&retyped), Err(DecodeError::OtherType { table: "losses", column: "count" }));

    let (decoder, mut moved) = rewritten(&payload, |schema| schema.tables.rotate_right(1));
    moved[4..6].copy_from_slice(&(losses as u16 + 1).to_le_bytes());
    assert_eq!(decoder.decode(&moved), Ok(Decoded::Batch(batch)));
    assert_eq!(Decoder::current().decode(&moved), Err(DecodeError::OtherSchema));
}

#[test]
fn a_column_that_became_required_must_have_every_value() {
    // `batch_size` may be missing in our schema; the writer's `sequence` may be missing in its own.
    let mut batch = Batch::new(TableId::Losses);
    batch.push(&LossRow { timestamp_ns: 5, count: 3, ..LossRow::default() });
    let payload = encoded(&batch);
    let losses = TableId::Losses as usize;
    let make_nullable = |presence: u8| {
        let (decoder, mut payload) =
            rewritten(&payload, |schema| schema.tables[losses].columns[3].nullable = true);
        payload.insert(payload.len() - 9, presence);
        decoder.decode(&payload)
    };
    assert_eq!(make_nullable(0), Ok(Decoded::Batch(batch)));
    assert!(make_nullable(1).is_err() && make_nullable(7).is_err());
}
