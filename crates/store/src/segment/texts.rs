//! Texts: each distinct one once, deflated together, and the number of the text for every row.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use ortscope_core::schema::Text;

use super::bytes::{Bytes, Problem, put_varint};
use super::numbers;

/// The distinct texts of one block together; a block that claims more is damaged.
pub(super) const MAX_DICTIONARY_BYTES: usize = 256 << 20;

pub(super) fn encode<'a>(values: impl Iterator<Item = &'a Text>, into: &mut Vec<u8>) -> Result<(), Problem> {
    let mut numbers_of: HashMap<&str, u32> = HashMap::new();
    let mut dictionary = Vec::new();
    let mut indices = Vec::new();
    let mut last: Option<(&Text, u32)> = None;
    for text in values {
        // Rows of one source mostly share the very same text: no need to hash it again.
        let index = match last {
            Some((before, index)) if Arc::ptr_eq(before, text) => index,
            _ => {
                let next = numbers_of.len() as u32;
                *numbers_of.entry(text).or_insert_with(|| {
                    put_varint(&mut dictionary, text.len() as u64);
                    dictionary.extend_from_slice(text.as_bytes());
                    next
                })
            }
        };
        last = Some((text, index));
        indices.push(index);
    }
    if indices.is_empty() {
        return Ok(());
    }
    if dictionary.len() > MAX_DICTIONARY_BYTES {
        return Err(format!("its texts take {} bytes", dictionary.len()));
    }
    let mut deflater = DeflateEncoder::new(Vec::new(), Compression::default());
    let deflated = deflater
        .write_all(&dictionary)
        .and_then(|()| deflater.finish())
        .map_err(|error| error.to_string())?;
    put_varint(into, numbers_of.len() as u64);
    put_varint(into, dictionary.len() as u64);
    // A stored length equal to the plain one means: not deflated.
    let stored = if deflated.len() < dictionary.len() { deflated } else { dictionary };
    put_varint(into, stored.len() as u64);
    into.extend_from_slice(&stored);
    numbers::encode(&indices, into)
}

/// Reads `count` texts; the caller has bounded `count`.
pub(super) fn decode(bytes: &mut Bytes<'_>, count: usize) -> Result<Vec<Text>, Problem> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let entries = bytes.count(count)?;
    let plain_bytes = bytes.count(MAX_DICTIONARY_BYTES)?;
    let stored_bytes = bytes.count(bytes.0.len())?;
    let stored = bytes.take(stored_bytes)?;
    let inflated;
    let plain = if stored_bytes == plain_bytes {
        stored
    } else {
        let mut buffer = Vec::new();
        DeflateDecoder::new(stored)
            .take(plain_bytes as u64 + 1)
            .read_to_end(&mut buffer)
            .map_err(|error| error.to_string())?;
        if buffer.len() != plain_bytes {
            return Err(format!("its texts take {} bytes instead of {plain_bytes}", buffer.len()));
        }
        inflated = buffer;
        &inflated
    };
    let mut plain = Bytes(plain);
    let dictionary = (0..entries)
        .map(|_| {
            let length = plain.count(plain.0.len())?;
            let text = std::str::from_utf8(plain.take(length)?).map_err(|error| error.to_string())?;
            Ok(Text::from(text))
        })
        .collect::<Result<Vec<Text>, Problem>>()?;
    let indices: Vec<u32> = numbers::decode(bytes, count)?;
    indices
        .into_iter()
        .map(|index| dictionary.get(index as usize).map(Text::clone))
        .collect::<Option<_>>()
        .ok_or_else(|| "it points outside its texts".into())
}
