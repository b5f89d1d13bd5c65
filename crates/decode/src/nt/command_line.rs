//! Windows keeps one line of text per process; programs split it into arguments by the rules of the C runtime.

use super::bytes::{push_utf16, u16_at};

/// Limit for arguments; Windows allows as many as fit into 32,767 characters.
pub const MAX_ARGUMENTS: usize = 256;
/// `UNICODE_STRING` of 64-bit Windows.
const HEADER_BYTES: usize = 16;

/// The text of a `UNICODE_STRING` followed by its characters, as returned by `NtQueryInformationProcess`, as UTF-8.
pub fn unicode_string_after_header(answer: &[u8]) -> Option<Vec<u8>> {
    let length = usize::from(u16_at(answer, 0)?);
    let text = answer.get(HEADER_BYTES..HEADER_BYTES.checked_add(length)?)?;
    let mut out = Vec::with_capacity(length);
    push_utf16(text, &mut out);
    Some(out)
}

/// The arguments of a command line, the program first.
pub fn split_command_line(line: &[u8]) -> Vec<Vec<u8>> {
    let (program, mut rest) = split_program(line);
    let mut arguments = vec![program.to_vec()];
    if program.is_empty() && rest.trim_ascii().is_empty() {
        return Vec::new();
    }
    while arguments.len() < MAX_ARGUMENTS {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            break;
        }
        let (argument, after) = split_argument(rest);
        arguments.push(argument);
        rest = after;
    }
    arguments
}

/// In the program's name backslashes have no special meaning.
fn split_program(line: &[u8]) -> (&[u8], &[u8]) {
    let is_end = |byte: &u8| *byte == b' ' || *byte == b'\t';
    match line.strip_prefix(b"\"") {
        Some(quoted) => {
            let end = quoted.iter().position(|byte| *byte == b'"').unwrap_or(quoted.len());
            (&quoted[..end], quoted.get(end + 1..).unwrap_or_default())
        }
        None => line.split_at(line.iter().position(is_end).unwrap_or(line.len())),
    }
}

/// Backslashes are escapes only before a quote: two give one, and an odd one escapes the quote.
fn split_argument(line: &[u8]) -> (Vec<u8>, &[u8]) {
    let (mut argument, mut at, mut quoted) = (Vec::new(), 0, false);
    while let Some(byte) = line.get(at).copied() {
        match byte {
            b'\\' => {
                let backslashes = line[at..].iter().take_while(|byte| **byte == b'\\').count();
                at += backslashes;
                let before_quote = line.get(at) == Some(&b'"');
                let kept = if before_quote { backslashes / 2 } else { backslashes };
                argument.resize(argument.len() + kept, b'\\');
                if before_quote && backslashes % 2 == 1 {
                    argument.push(b'"');
                    at += 1;
                }
                continue;
            }
            b'"' if quoted && line.get(at + 1) == Some(&b'"') => {
                argument.push(b'"');
                at += 1;
            }
            b'"' => quoted = !quoted,
            b' ' | b'\t' if !quoted => break,
            _ => argument.push(byte),
        }
        at += 1;
    }
    (argument, line.get(at..).unwrap_or_default())
}
