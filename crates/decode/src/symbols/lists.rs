//! Address-to-name lists in text form: kernel symbols and JIT-compiled code.

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
}
