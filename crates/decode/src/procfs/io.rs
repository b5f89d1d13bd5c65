//! `/proc/PID/io`: readable by the same user, or with ptrace permission.

use super::scan::{colon_pairs, number};

/// Totals since the process started, including exited threads and reaped children.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessIo {
    /// Bytes of read calls on anything: files, pipes, sockets.
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub read_calls: u64,
    pub write_calls: u64,
    /// Bytes that were read from, or will be written to, a storage device.
    pub storage_read_bytes: Option<u64>,
    pub storage_write_bytes: Option<u64>,
}

pub fn parse_io(bytes: &[u8]) -> Option<ProcessIo> {
    let mut io = ProcessIo::default();
    let mut seen = 0;
    for (key, value) in colon_pairs(bytes) {
        let Some(value) = number(value) else {
            continue;
        };
        match key {
            b"rchar" => io.read_bytes = value,
            b"wchar" => io.write_bytes = value,
            b"syscr" => io.read_calls = value,
            b"syscw" => io.write_calls = value,
            b"read_bytes" => io.storage_read_bytes = Some(value),
            b"write_bytes" => io.storage_write_bytes = Some(value),
            _ => continue,
        }
        seen += usize::from(matches!(key, b"rchar" | b"wchar" | b"syscr" | b"syscw"));
    }
    (seen == 4).then_some(io)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_four_values_are_required() {
        let text = b"rchar: 7313\nwchar: 337\nsyscr: 16\nsyscw: 3\nread_bytes: 0\nwrite_bytes: 4096\n";
        let io = parse_io(text).unwrap();
        assert_eq!((io.read_bytes, io.write_bytes, io.read_calls, io.write_calls), (7313, 337, 16, 3));
        assert_eq!((io.storage_read_bytes, io.storage_write_bytes), (Some(0), Some(4096)));
        assert_eq!(parse_io(&text[..40]), None);
        assert_eq!(parse_io(b"rchar: 1\nwchar: -2\nsyscr: 1\nsyscw: 1\n"), None);
    }
}
