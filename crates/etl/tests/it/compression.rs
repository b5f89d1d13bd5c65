//! The decompressor with the examples of its specification and with our own compressor.

use ortscope_etl::{XpressError, xpress_decompress};
use proptest::prelude::*;

fn decompress(input: &[u8], limit: usize) -> Result<Vec<u8>, XpressError> {
    let mut output = Vec::new();
    xpress_decompress(input, limit, &mut output).map(|()| output)
}

/// MS-XCA, section 3.1.
#[test]
fn the_specification_examples_are_decompressed() {
    let alphabet = b"abcdefghijklmnopqrstuvwxyz";
    let mut packed = vec![0x3f, 0, 0, 0];
    packed.extend(alphabet);
    assert_eq!(decompress(&packed, 26).unwrap(), alphabet);

    let packed = [0xff, 0xff, 0xff, 0x1f, 0x61, 0x62, 0x63, 0x17, 0x00, 0x0f, 0xff, 0x26, 0x01];
    assert_eq!(decompress(&packed, 300).unwrap(), b"abc".repeat(100));
}

#[test]
fn damage_is_reported() {
    // A match at the very start has nothing to copy.
    assert_eq!(decompress(&[0, 0, 0, 0x80, 0, 0, 0, 0], 10), Err(XpressError::BadDistance));
    // The u16 length must be at least what the shorter forms cannot express.
    let short = [0, 0, 0, 0x40, b'a', 0x07, 0, 0x0f, 0xff, 5, 0];
    assert_eq!(decompress(&short, 10), Err(XpressError::BadLength));
    assert_eq!(decompress(&short[..9], 10), Err(XpressError::Truncated));
    // An end at a token boundary is a regular end.
    assert_eq!(decompress(&[0, 0, 0, 0, b'a'], 10).unwrap(), b"a");
    assert_eq!(decompress(&[], 10).unwrap(), b"");
}

/// Greedy and slow, with every form of length; written from the format description only.
pub fn compress(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut flags_at, mut flags, mut flag_count) = (0, 0_u32, 32);
    let mut nibble_at: Option<usize> = None;
    let mut at = 0;
    while at < data.len() {
        if flag_count == 32 {
            if !out.is_empty() {
                out[flags_at..flags_at + 4].copy_from_slice(&flags.to_le_bytes());
            }
            flags_at = out.len();
            out.extend([0; 4]);
            (flags, flag_count) = (0, 0);
        }
        let longest = (1..=at.min(8_192))
            .map(|distance| {
                let length = (at..data.len()).take_while(|&i| data[i] == data[i - distance]).count();
                (length, distance)
            })
            .max_by_key(|&(length, distance)| (length, std::cmp::Reverse(distance)))
            .filter(|&(length, _)| length >= 3);
        flags <<= 1;
        flag_count += 1;
        let Some((length, distance)) = longest else {
            out.push(data[at]);
            at += 1;
            continue;
        };
        flags |= 1;
        let rest = length - 3;
        let token = ((distance - 1) << 3 | rest.min(7)) as u16;
        out.extend(token.to_le_bytes());
        if rest >= 7 {
            let nibble = (rest - 7).min(15) as u8;
            match nibble_at.take() {
                Some(at) => out[at] |= nibble << 4,
                None => {
                    nibble_at = Some(out.len());
                    out.push(nibble);
                }
            }
            if rest >= 7 + 15 {
                if rest - 22 < 255 {
                    out.push((rest - 22) as u8);
                } else if let Ok(word) = u16::try_from(rest) {
                    out.push(255);
                    out.extend(word.to_le_bytes());
                } else {
                    out.extend([255, 0, 0]);
                    out.extend((rest as u32).to_le_bytes());
                }
            }
        }
        at += length;
    }
    if !out.is_empty() {
        // Unused flags are ones.
        let unused = 32 - flag_count;
        let flags = (u64::from(flags) << unused | ((1_u64 << unused) - 1)) as u32;
        out[flags_at..flags_at + 4].copy_from_slice(&flags.to_le_bytes());
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn compressed_data_round_trips(
        pieces in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..20), 1_usize..40), 0..12),
        limit_less in 0_usize..3,
    ) {
        let data: Vec<u8> = pieces.iter().flat_map(|(piece, times)| piece.repeat(*times)).collect();
        let limit = data.len().saturating_sub(limit_less);
        prop_assert_eq!(&decompress(&compress(&data), limit).unwrap()[..], &data[..limit]);
    }

    #[test]
    fn arbitrary_bytes_are_handled(packed in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut output = Vec::new();
        let answer = xpress_decompress(&packed, 10_000, &mut output);
        prop_assert!(output.len() <= 10_000, "{answer:?}");
    }
}

#[test]
fn matches_of_every_length_are_decompressed() {
    for length in (3..600).chain([65_534, 65_535, 65_536, 65_537, 65_538, 65_539, 70_000]) {
        let mut data = vec![7; 1 + length];
        data.push(9);
        assert_eq!(decompress(&compress(&data), data.len()).unwrap(), data, "{length}");
    }
}
