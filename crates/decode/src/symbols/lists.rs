//! Address lists in text form: kernel symbols, JIT-compiled code, and the memory map of a process.

/// Limit for names per list: 64 MB. Further entries are dropped and counted.
const MAX_TEXT_BYTES: usize = 64 << 20;
/// Entries of one list.
const MAX_ENTRIES: usize = 4 << 20;

/// Addresses with names, looked up by the address below.
#[derive(Debug, Clone, Default)]
pub struct NameList {
    /// (address, length or 0 for "up to the next one", offset in the text), sorted by address.
    entries: Vec<(u64, u64, u32)>,
    /// Each name ends with a newline.
    text: String,
    /// Entries beyond the limit, and unreadable lines.
    pub dropped: u64,
}

impl NameList {
    fn add(&mut self, address: u64, length: u64, name: &str, tail: Option<&str>) {
        let bytes = name.len() + tail.map_or(0, str::len) + 4;
        if self.entries.len() >= MAX_ENTRIES || self.text.len() + bytes > MAX_TEXT_BYTES {
            self.dropped += 1;
            return;
        }
        // Below 64 MB.
        let place = self.text.len() as u32;
        self.text.push_str(name);
        if let Some(tail) = tail {
            self.text.push(' ');
            self.text.push_str(tail);
        }
        self.text.push('\n');
        self.entries.push((address, length, place));
    }

    fn sorted(mut self) -> Self {
        // Stable: of equal addresses the last one wins.
        self.entries.sort_by_key(|(address, ..)| *address);
        self
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The start and the name of the function at this address.
    pub fn find(&self, address: u64) -> Option<(u64, &str)> {
        let after = self.entries.partition_point(|(start, ..)| *start <= address);
        let (start, length, place) = *self.entries.get(after.checked_sub(1)?)?;
        if length > 0 && address - start >= length {
            return None;
        }
        let rest = self.text.get(place as usize..)?;
        Some((start, &rest[..rest.find('\n').unwrap_or(rest.len())]))
    }
}

/// `/proc/kallsyms`: functions only. Empty if the kernel hides addresses by showing zeros.
pub fn parse_kallsyms(text: &str) -> NameList {
    let mut list = NameList::default();
    for line in text.lines() {
        let mut parts = line.split_ascii_whitespace();
        let (Some(address), Some(kind), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
            list.dropped += 1;
            continue;
        };
        if !matches!(kind, "t" | "T" | "w" | "W") {
            continue;
        }
        match u64::from_str_radix(address, 16) {
            Ok(0) => {}
            // The module is in brackets.
            Ok(address) => list.add(address, 0, name, parts.next()),
            Err(_) => list.dropped += 1,
        }
    }
    list.sorted()
}

/// `/tmp/perf-PID.map`: hexadecimal address and length, then the name, which may contain blanks.
pub fn parse_perf_map(text: &str) -> NameList {
    let mut list = NameList::default();
    for line in text.lines() {
        let mut parts = line.splitn(3, ' ');
        let mut number = || u64::from_str_radix(parts.next()?.trim_start_matches("0x"), 16).ok();
        match (number(), number(), parts.next()) {
            (Some(address), Some(length), Some(name)) => list.add(address, length.max(1), name, None),
            _ => list.dropped += 1,
        }
    }
    list.sorted()
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapLine<'a> {
    pub start: u64,
    pub end: u64,
    pub is_executable: bool,
    pub file_offset: u64,
    /// 0 without a file.
    pub inode: u64,
    /// A path, a name in brackets, or empty. The path of a deleted file ends with ` (deleted)`.
    pub path: &'a [u8],
}

/// Invalid lines are skipped.
pub fn parse_maps(text: &[u8]) -> impl Iterator<Item = MapLine<'_>> {
    text.split(|byte| *byte == b'\n').filter_map(line)
}

fn line(line: &[u8]) -> Option<MapLine<'_>> {
    let mut rest = line;
    let mut part = || {
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after.get(1..).unwrap_or_default();
        std::str::from_utf8(part).ok()
    };
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = part()?.split_once('-')?;
    let permissions = part()?;
    let file_offset = hexadecimal(part()?)?;
    part()?;
    let inode = part()?.parse().ok()?;
    Some(MapLine {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        is_executable: permissions.as_bytes().get(2) == Some(&b'x'),
        file_offset,
        inode,
        path: rest.trim_ascii_start(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_kernels_functions_by_address() {
        let list = parse_kallsyms(
            "ffffffff81000200 T second\nffffffff81000100 t first\nffffffff81000150 D data\n\
             ffffffffc0000000 t probe\t[module]\n0 T hidden\nbad\n",
        );
        assert_eq!(list.len(), 3);
        assert_eq!(list.find(0xffff_ffff_8100_01ff), Some((0xffff_ffff_8100_0100, "first")));
        assert_eq!(list.find(0xffff_ffff_c000_0001).unwrap().1, "probe [module]");
        assert_eq!(list.find(5), None);
        assert_eq!(list.dropped, 1);
    }

    #[test]
    fn jit_compiled_code_is_found() {
        let list = parse_perf_map("7f00 10 py::f:/a b.py\n0x8000 20 g\nhalf a li");
        assert_eq!(list.find(0x7f0f), Some((0x7f00, "py::f:/a b.py")));
        assert_eq!(list.find(0x7f10), None);
        assert_eq!(list.find(0x801f).unwrap().1, "g");
        assert_eq!(list.dropped, 1);
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in ".{0,200}", address in any::<u64>()) {
            parse_kallsyms(&text).find(address);
            parse_perf_map(&text).find(address);
        }
    }

    #[test]
    fn paths_may_contain_any_bytes() {
        let text = b"7f00-8000 r-xp 00001000 fe:00 42    /a b (deleted)\n9000-a000 rw-p 00000000 00:00 0 \nnonsense\n\
                     ff-100 r-xp 0 00:00 0  [vdso]\n";
        let lines: Vec<MapLine<'_>> = parse_maps(text).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            (lines[0].start, lines[0].end, lines[0].file_offset, lines[0].inode),
            (0x7f00, 0x8000, 0x1000, 42)
        );
        assert_eq!((lines[0].path, lines[0].is_executable), (&b"/a b (deleted)"[..], true));
        assert_eq!((lines[1].path, lines[1].is_executable), (&b""[..], false));
        assert_eq!(lines[2].path, b"[vdso]");
    }
}
