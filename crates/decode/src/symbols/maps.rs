//! `/proc/PID/maps`: the memory map of a process.

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
