//! Token generators: the first token, the tokens after it, and how they slow down with position.
//!
//! The first token pays for the whole prompt, the others for one step each; a mean over both describes neither. The
//! cost of a step grows with the cache it attends to, so the slope per 100 tokens is part of the answer.

use serde::{Deserialize, Serialize};

use crate::order::{median_in_place, ms};
use crate::percentile::{Percentile, percentiles};
use crate::theil_sen::theil_sen;

/// Positions are grouped into at most this many steps for the slope.
const MAX_STEPS: usize = 200;

/// One generated sequence: when the request was made and when each token was there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    pub start_ns: u64,
    /// Ascending.
    pub token_ns: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generation {
    pub sequences: usize,
    pub tokens: u64,
    /// Median time to the first token; `None` without a token.
    pub first_token_median_ms: Option<f64>,
    /// p50, p90, p99 of the time to the first token, over the sequences.
    pub first_token: Vec<Percentile>,
    /// p50, p90, p99 of the time between tokens, over all sequences.
    pub between_tokens: Vec<Percentile>,
    /// Tokens after the first over the time they took: the speed of decoding.
    pub decode_tokens_per_second: Option<f64>,
    /// All tokens over the time from request to last token: the speed a user sees in one sequence.
    pub tokens_per_second: Option<f64>,
    /// Change of the time between tokens per 100 tokens of position; `None` with fewer than three positions.
    pub growth_ms_per_100_tokens: Option<f64>,
}

const PERCENTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// Summarises generated sequences. Sequences without a token are left out.
pub fn summarize_generation(sequences: &[Sequence]) -> Generation {
    let sequences: Vec<&Sequence> =
        sequences.iter().filter(|sequence| !sequence.token_ns.is_empty()).collect();
    let first: Vec<u64> = sequences.iter().filter_map(|sequence| first_token(sequence)).collect();
    let gaps: Vec<Vec<u64>> = sequences.iter().map(|sequence| gaps(&sequence.token_ns)).collect();
    let between: Vec<u64> = gaps.iter().flatten().copied().collect();
    let decoding: f64 = between.iter().map(|nanos| *nanos as f64).sum();
    let prefill: f64 = first.iter().map(|nanos| *nanos as f64).sum();
    let tokens: u64 = sequences.iter().map(|sequence| sequence.token_ns.len() as u64).sum();
    let rate = |tokens: f64, nanos: f64| (nanos > 0.0 && tokens > 0.0).then(|| tokens * 1e9 / nanos);
    let mut first_values: Vec<f64> = first.iter().map(|nanos| *nanos as f64).collect();
    Generation {
        sequences: sequences.len(),
        tokens,
        first_token_median_ms: median_in_place(&mut first_values).map(ms),
        first_token: percentiles(&first, &PERCENTILES),
        between_tokens: percentiles(&between, &PERCENTILES),
        decode_tokens_per_second: rate(between.len() as f64, decoding),
        tokens_per_second: rate(tokens as f64, decoding + prefill),
        growth_ms_per_100_tokens: growth(&gaps),
    }
}

fn first_token(sequence: &Sequence) -> Option<u64> {
    Some(sequence.token_ns.first()?.saturating_sub(sequence.start_ns))
}

fn gaps(token_ns: &[u64]) -> Vec<u64> {
    token_ns.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect()
}

/// Slope through the medians of steps of positions, over all sequences that reach them.
fn growth(gaps: &[Vec<u64>]) -> Option<f64> {
    let longest = gaps.iter().map(Vec::len).max()?;
    let step = longest.div_ceil(MAX_STEPS).max(1);
    let mut points = Vec::new();
    for begin in (0..longest).step_by(step) {
        let end = begin + step;
        let mut values: Vec<f64> = gaps
            .iter()
            .filter_map(|gaps| gaps.get(begin..end.min(gaps.len())))
            .flatten()
            .map(|nanos| ms(*nanos as f64))
            .collect();
        if let Some(median) = median_in_place(&mut values) {
            points.push((begin as f64 + (step - 1) as f64 / 2.0, median));
        }
    }
    if points.len() < 3 {
        return None;
    }
    theil_sen(&points).map(|line| line.slope * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 50 ms to the first token, then 10 ms + 1 µs per position.
    fn sequence(start_ns: u64, tokens: u64) -> Sequence {
        let mut now = start_ns + 50_000_000;
        let mut token_ns = vec![now];
        for position in 0..tokens - 1 {
            now += 10_000_000 + position * 1000;
            token_ns.push(now);
        }
        Sequence { start_ns, token_ns }
    }

    #[test]
    fn first_token_rate_and_growth() {
        let sequences: Vec<Sequence> = (0..10).map(|index| sequence(index * 10_000_000_000, 501)).collect();
        let generation = summarize_generation(&sequences);
        assert_eq!((generation.sequences, generation.tokens), (10, 5010));
        assert_eq!(generation.first_token_median_ms, Some(50.0));
        assert_eq!(generation.first_token[0].value_ns, Some(50_000_000));
        assert!((generation.growth_ms_per_100_tokens.unwrap() - 0.1).abs() < 1e-6);
        // Mean step 10.2495 ms.
        assert!((generation.decode_tokens_per_second.unwrap() - 1000.0 / 10.2495).abs() < 1e-6);
        let whole = 501.0 / (0.05 + 500.0 * 0.010_249_5);
        assert!((generation.tokens_per_second.unwrap() - whole).abs() < 1e-6);
    }

    #[test]
    fn without_tokens_there_is_no_figure() {
        let empty = Sequence { start_ns: 5, token_ns: Vec::new() };
        let generation = summarize_generation(&[empty]);
        assert_eq!((generation.sequences, generation.first_token_median_ms), (0, None));
        assert_eq!((generation.decode_tokens_per_second, generation.growth_ms_per_100_tokens), (None, None));
    }
}
