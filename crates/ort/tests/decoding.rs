//! Generation with a cache, against a real library.

mod support;

use ortscope_core::tensor::ElementType;
use ortscope_ort::decoder::KvDecoder;
use support::{environment, models, session};

#[test]
fn the_cache_grows_and_starts_over() {
    let Some(environment) = environment() else { return };
    let session = session(&environment, &models::decoder());
    let layout = KvDecoder::detect(&session).expect("understood").expect("a decoder");
    assert_eq!(layout.pairs.len(), 2);
    assert_eq!(layout.pairs[0].empty_dims, [1, 1, 0, 1]);
    assert_eq!(layout.position_ids, Some(("position_ids".to_owned(), ElementType::Int64)));
    assert!(layout.extras.is_empty());

    let mut decoder = KvDecoder::new(&session, layout, &[]).expect("starts");
    for _ in 0..2 {
        // The model answers with the number of positions it sees.
        assert_eq!(decoder.prefill(&[5, 5, 5]).expect("a prompt"), 3);
        assert_eq!(decoder.step(3).expect("a step"), 4);
        decoder.prepare_step(&[4]).expect("prepared");
        decoder.run_step().expect("run");
        assert_eq!(decoder.finish_step().expect("a token"), 5);
        assert_eq!(decoder.length(), 5);
        decoder.reset().expect("starts over");
        assert_eq!(decoder.length(), 0);
    }
    assert!(decoder.prefill(&[]).is_err());
    assert!(decoder.finish_step().is_err(), "there was no run");
}

#[test]
fn a_model_without_cache_is_not_a_decoder() {
    let Some(environment) = environment() else { return };
    assert_eq!(KvDecoder::detect(&session(&environment, &models::add())).expect("understood"), None);
}
