//! Decodes JSON texts.

/// Length of the escape that starts here with its backslash; 0 if there is none.
pub(super) fn escape_width(bytes: &[u8]) -> usize {
    match bytes.get(1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
        Some(b'u') => {
            let digits = bytes.get(2..6).unwrap_or_default();
            if digits.len() == 4 && digits.iter().all(u8::is_ascii_hexdigit) { 6 } else { 0 }
        }
        _ => 0,
    }
}

/// Appends bytes as text; invalid UTF-8 becomes the replacement character. `false` if there was any.
pub(super) fn copy(scratch: &mut String, raw: &[u8]) -> bool {
    let mut is_good = true;
    for chunk in raw.utf8_chunks() {
        scratch.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            scratch.push(char::REPLACEMENT_CHARACTER);
            is_good = false;
        }
    }
    is_good
}

/// Appends a text with valid escapes. `false` if it contained invalid UTF-8.
pub(super) fn unescape(scratch: &mut String, raw: &[u8]) -> bool {
    let mut is_good = true;
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        let (plain, escape) = rest.split_at(at);
        is_good &= copy(scratch, plain);
        let width = escape_width(escape).max(1).min(escape.len());
        let (escape, mut after) = escape.split_at(width);
        let decoded = match escape.get(1) {
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let high = code_unit(escape);
                let low = if after.starts_with(b"\\u") { code_unit(after) } else { 0 };
                if (0xd800..0xdc00).contains(&high) && (0xdc00..0xe000).contains(&low) {
                    after = after.get(6..).unwrap_or_default();
                    char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
                } else {
                    char::from_u32(high)
                }
                .unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            Some(byte) => char::from(*byte),
            None => '\\',
        };
        scratch.push(decoded);
        rest = after;
    }
    copy(scratch, rest) && is_good
}

/// The number in `\u0041`; 0 if there is none.
fn code_unit(escape: &[u8]) -> u32 {
    let digits = escape.get(2..6).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0)
}
