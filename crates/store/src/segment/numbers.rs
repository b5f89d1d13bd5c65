//! Numbers: constant, plain, compressed by `pco`, or as a dictionary of distinct values with compressed indices,
//! whichever fits.

use pco::ChunkConfig;
use pco::data_types::Number;
use pco::standalone::{simple_compress, simple_decompress_into};

use super::bytes::{Bytes, Problem, put_varint};

const CONSTANT: u8 = 0;
const PLAIN: u8 = 1;
const PCO: u8 = 2;
const DICTIONARY: u8 = 3;

/// Below this count the plain form may be shorter than the header of `pco`.
const FEW: usize = 32;

/// A number with a fixed form of 8 bytes.
pub(super) trait Word: Number + Default {
    fn to_word(self) -> u64;
    fn from_word(word: u64) -> Option<Self>;
}

impl Word for u64 {
    fn to_word(self) -> u64 {
        self
    }
    fn from_word(word: u64) -> Option<Self> {
        Some(word)
    }
}

impl Word for i64 {
    fn to_word(self) -> u64 {
        self.cast_unsigned()
    }
    fn from_word(word: u64) -> Option<Self> {
        Some(word.cast_signed())
    }
}

impl Word for f64 {
    fn to_word(self) -> u64 {
        self.to_bits()
    }
    fn from_word(word: u64) -> Option<Self> {
        Some(Self::from_bits(word))
    }
}

impl Word for u32 {
    fn to_word(self) -> u64 {
        u64::from(self)
    }
    fn from_word(word: u64) -> Option<Self> {
        Self::try_from(word).ok()
    }
}

/// Appends the numbers. They take everything up to the end of the block: `decode` must be given exactly these bytes.
pub(super) fn encode<T: Word>(values: &[T], into: &mut Vec<u8>) -> Result<(), Problem> {
    let Some(first) = values.first().map(|value| value.to_word()) else {
        return Ok(());
    };
    if values.iter().all(|value| value.to_word() == first) {
        into.push(CONSTANT);
        into.extend_from_slice(&first.to_le_bytes());
        return Ok(());
    }
    let packed = simple_compress(values, &ChunkConfig::default()).map_err(|error| error.to_string())?;
    if values.len() < FEW && packed.len() > values.len() * 8 {
        into.push(PLAIN);
        into.extend(values.iter().flat_map(|value| value.to_word().to_le_bytes()));
    } else {
        into.push(PCO);
        into.extend_from_slice(&packed);
    }
    Ok(())
}

/// Appends times of a sampled table. Many rows share the time of their tick, and the distance between ticks jitters:
/// the index of the tick needs a fraction of the bits.
pub(super) fn encode_shared(values: &[u64], into: &mut Vec<u8>) -> Result<(), Problem> {
    let mut distinct = values.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() < 2 || distinct.len() > values.len() / 2 {
        return encode(values, into);
    }
    let indices: Vec<u32> = values
        .iter()
        // Every value is found, because the list was built from them. A block has far fewer than 2^32.
        .map(|value| distinct.binary_search(value).unwrap_or_default() as u32)
        .collect();
    let mut dictionary = Vec::new();
    encode(&distinct, &mut dictionary)?;
    into.push(DICTIONARY);
    put_varint(into, distinct.len() as u64);
    put_varint(into, dictionary.len() as u64);
    into.extend_from_slice(&dictionary);
    encode(&indices, into)
}

/// Reads `count` numbers; the caller has bounded `count`.
pub(super) fn decode<T: Word>(bytes: &mut Bytes<'_>, count: usize) -> Result<Vec<T>, Problem> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let word = |bytes: &[u8]| -> Result<T, Problem> {
        let bytes = bytes.try_into().map_err(|_| "it ends early")?;
        T::from_word(u64::from_le_bytes(bytes)).ok_or_else(|| "a number in it is too large".into())
    };
    match bytes.byte()? {
        CONSTANT => Ok(vec![word(bytes.take(8)?)?; count]),
        PLAIN => bytes.take(count.checked_mul(8).ok_or("it is too long")?)?.chunks(8).map(word).collect(),
        PCO => {
            let mut values = vec![T::default(); count];
            let progress = simple_decompress_into(bytes.0, &mut values).map_err(|error| error.to_string())?;
            if progress.n_processed != count {
                return Err(format!("it has {} numbers instead of {count}", progress.n_processed));
            }
            bytes.0 = &[];
            Ok(values)
        }
        DICTIONARY => {
            let entries = bytes.count(count)?;
            let length = bytes.count(bytes.0.len())?;
            let dictionary: Vec<T> = decode(&mut Bytes(bytes.take(length)?), entries)?;
            let indices: Vec<u32> = decode(bytes, count)?;
            indices
                .into_iter()
                .map(|index| dictionary.get(index as usize).copied())
                .collect::<Option<_>>()
                .ok_or_else(|| "it points outside its dictionary".into())
        }
        other => Err(format!("its numbers are coded in the unknown way {other}")),
    }
}
