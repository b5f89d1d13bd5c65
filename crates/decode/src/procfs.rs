//! Text of Linux's /proc, as bytes in and values out. Works on every system, so that recordings and tests do not need
//! a Linux kernel. Process names may hold any byte but NUL, also blanks, parentheses and newlines.

/// What `/proc/PID/stat` says that ortscope uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// `R`, `S`, `D`, `Z` (ended, not yet collected), …
    pub state: char,
    pub user_ticks: u64,
    pub system_ticks: u64,
    /// Clock ticks since boot when the process started.
    pub start_ticks: u64,
}

/// What `/proc/PID/status` says that ortscope uses. Kernel threads have no memory lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    pub resident_bytes: Option<u64>,
    pub peak_resident_bytes: Option<u64>,
    pub anonymous_bytes: Option<u64>,
    pub threads: Option<u64>,
}

/// Fields are counted from the last `)`, since the name in parentheses may itself hold any of them.
pub fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let after_name = bytes.iter().rposition(|byte| *byte == b')')? + 1;
    let text = std::str::from_utf8(bytes.get(after_name..)?).ok()?;
    // Field 3 of proc_pid_stat(5) is the first after the name.
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse().ok();
    let state = fields.first()?.chars().next()?;
    Some(Stat { state, user_ticks: field(14)?, system_ticks: field(15)?, start_ticks: field(22)? })
}

pub fn parse_status(bytes: &[u8]) -> Status {
    let text = String::from_utf8_lossy(bytes);
    Status {
        resident_bytes: meminfo_bytes(&text, "VmRSS"),
        peak_resident_bytes: meminfo_bytes(&text, "VmHWM"),
        anonymous_bytes: meminfo_bytes(&text, "RssAnon"),
        threads: value_of(&text, "Threads").and_then(|value| value.parse().ok()),
    }
}

/// A `Key:   123 kB` line as bytes.
pub fn meminfo_bytes(text: &str, key: &str) -> Option<u64> {
    let kilobytes: u64 = value_of(text, key)?.strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The first `key : value` line of `/proc/cpuinfo`.
pub fn cpuinfo_value(text: &str, key: &str) -> Option<String> {
    value_of(text, key).map(str::to_owned)
}

fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_and_newlines_do_not_shift_fields() {
        let stat = b"1234 (evil) R 1\n(x) S 1 2 3 4 5 6 7 8 9 10 111 222 13 14 15 16 17 18 987654 20 21";
        let parsed = parse_stat(stat).unwrap();
        assert_eq!(parsed, Stat { state: 'S', user_ticks: 111, system_ticks: 222, start_ticks: 987_654 });
    }

    #[test]
    fn truncated_or_foreign_text_is_none() {
        assert_eq!(parse_stat(b""), None);
        assert_eq!(parse_stat(b"12 (x"), None);
        assert_eq!(parse_stat(b"12 (x) S 1 2"), None);
        assert_eq!(parse_stat(b"12 (x) \xff\xfe"), None);
        assert_eq!(parse_status(b"Name:\tkthreadd\n"), Status::default());
    }

    #[test]
    fn status_lines_are_kilobytes() {
        let text =
            b"Name:\tx: VmRSS\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nRssAnon:\t 512 kB\nThreads:\t7\n";
        let status = parse_status(text);
        assert_eq!(status.resident_bytes, Some(1 << 20));
        assert_eq!(status.peak_resident_bytes, Some(2 << 20));
        assert_eq!(status.anonymous_bytes, Some(512 << 10));
        assert_eq!(status.threads, Some(7));
    }
}
