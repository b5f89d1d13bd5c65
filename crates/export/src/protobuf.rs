//! The few shapes of a Protocol Buffers message, written by hand: the formats that need them use a handful of messages,
//! whose field numbers stand where they are written.

pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A whole number; negative ones as their two's complement.
pub(crate) fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field) << 3);
    varint(out, value);
}

/// Bytes, a text or a message.
pub(crate) fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    varint(out, u64::from(field) << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

pub(crate) fn text(out: &mut Vec<u8>, field: u32, value: &str) {
    bytes(out, field, value.as_bytes());
}

pub(crate) fn message(out: &mut Vec<u8>, field: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::with_capacity(64);
    fill(&mut inner);
    bytes(out, field, &inner);
}

pub(crate) fn real(out: &mut Vec<u8>, field: u32, value: f64) {
    fixed64(out, field, value.to_bits());
}

pub(crate) fn fixed64(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_those_of_the_format() {
        let mut out = Vec::new();
        number(&mut out, 1, 300);
        assert_eq!(out, [0x08, 0xac, 0x02]);
        out.clear();
        message(&mut out, 2, |inner| text(inner, 1, "ab"));
        assert_eq!(out, [0x12, 4, 0x0a, 2, b'a', b'b']);
        out.clear();
        real(&mut out, 3, 1.0);
        assert_eq!(out, [0x19, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
    }
}
