//! `/proc/PID/stat`, `/proc/PID/task/TID/stat` and `/proc/PID/statm`.

use super::scan::{fields, number, signed};

/// Set in the flags of kernel threads (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// A process or a thread. Fields that old kernels lack, or that were truncated, are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat<'a> {
    /// The kernel's name, at most 15 bytes (64 for kernel threads): not always UTF-8.
    pub name: &'a [u8],
    /// `R`, `S`, `D`, `Z` (zombie), `T`, `t`, `X`, `I`, …
    pub state: char,
    pub parent_pid: u32,
    /// Session leader; negative numbers from other pid namespaces become `None`.
    pub session: Option<u64>,
    pub kernel_thread: bool,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub user_ticks: u64,
    pub system_ticks: u64,
    /// 0 to 39 is nice −20 to 19; negative is −1 − the real-time priority.
    pub priority: i64,
    pub threads: u64,
    /// Clock ticks since boot when it started.
    pub start_ticks: u64,
    /// Processor it last ran on.
    pub processor: Option<u64>,
    /// The `wait` status. Also zero if the reader lacks permission.
    pub exit_status: Option<i64>,
}

/// Fields are counted from the last `)`, since the name in parentheses may itself contain any of them.
pub fn parse_stat(bytes: &[u8]) -> Option<Stat<'_>> {
    let open = bytes.iter().position(|byte| *byte == b'(')?;
    let close = bytes.iter().rposition(|byte| *byte == b')').filter(|close| *close > open)?;
    // The last number is valid only if the line was read to its end.
    let rest = bytes.get(close + 1..)?;
    let whole = rest.last() == Some(&b'\n');
    let mut left = fields(rest);
    // Field 3 of proc_pid_stat(5) is the first after the name.
    let state = char::from(*left.next()?.first()?);
    let parent_pid = u32::try_from(number(left.next()?)?).ok()?;
    let session = number(left.nth(1)?);
    let flags = number(left.nth(2)?)?;
    let minor_faults = number(left.next()?)?;
    let major_faults = number(left.nth(1)?)?;
    let user_ticks = number(left.nth(1)?)?;
    let system_ticks = number(left.next()?)?;
    let priority = signed(left.nth(2)?)?;
    let threads = number(left.nth(1)?)?;
    let start_ticks = number(left.nth(1)?)?;
    // Another field must follow, or the last digits of the start time may be missing.
    left.next()?;
    let processor_field = left.nth(15);
    let mut later = left.map(Some).chain(std::iter::repeat(None));
    let exit_field = later.nth(12).flatten();
    Some(Stat {
        name: &bytes[open + 1..close],
        state,
        parent_pid,
        session,
        kernel_thread: flags & KERNEL_THREAD != 0,
        minor_faults,
        major_faults,
        user_ticks,
        system_ticks,
        priority,
        threads,
        start_ticks,
        processor: processor_field.and_then(number).filter(|_| whole),
        exit_status: exit_field.and_then(signed).filter(|_| whole),
    })
}

impl Stat<'_> {
    /// It has exited; its memory is gone, and only its parent has to reap it.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Memory of a process in pages. All zero for kernel threads and exited processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statm {
    pub size: u64,
    pub resident: u64,
    /// Resident pages of files and shared memory; the rest is private.
    pub shared: u64,
}

pub fn parse_statm(bytes: &[u8]) -> Option<Statm> {
    let mut left = fields(bytes);
    let statm =
        Statm { size: number(left.next()?)?, resident: number(left.next()?)?, shared: number(left.next()?)? };
    // Four more follow in every kernel; without them the third may be truncated.
    left.next().map(|_| statm)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] =
        b"18734 (cat) R 18732 18733 10657 0 -1 4194304 102 4 3 5 11 22 7 9 20 0 6 0 2524830 3133440 361 \
        18446744073709551615 94908101582848 94908101602729 140726671364000 0 0 0 0 0 0 0 0 0 17 1 0 0 2 0 0 \
        94908101618736 94908101620352 94908173017088 140726671366829 140726671366901 140726671366901 \
        140726671368171 256\n";

    #[test]
    fn fields_match_the_manual() {
        let stat = parse_stat(LINE).unwrap();
        let wanted = Stat {
            name: b"cat",
            state: 'R',
            parent_pid: 18732,
            session: Some(10657),
            kernel_thread: false,
            minor_faults: 102,
            major_faults: 3,
            user_ticks: 11,
            system_ticks: 22,
            priority: 20,
            threads: 6,
            start_ticks: 2_524_830,
            processor: Some(1),
            exit_status: Some(256),
        };
        assert_eq!(stat, wanted);
    }

    #[test]
    fn names_with_parentheses_and_newlines_do_not_shift_fields() {
        let text =
            b"1234 (evil) R 1\n(\xffx) S 1 2 3 4 5 6 7 8 9 10 111 222 13 14 -2 16 17 18 987654 20 21\n";
        let stat = parse_stat(text).unwrap();
        assert_eq!(stat.name, b"evil) R 1\n(\xffx");
        assert_eq!((stat.state, stat.user_ticks, stat.system_ticks), ('S', 111, 222));
        assert_eq!((stat.priority, stat.start_ticks, stat.processor), (-2, 987_654, None));
    }

    #[test]
    fn kernel_threads_are_recognized_by_their_flag() {
        let stat =
            parse_stat(b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 6 0 0 20 0 1 0 25 0 0 1\n").unwrap();
        assert!(stat.kernel_thread && !stat.has_ended());
    }

    #[test]
    fn a_truncated_file_gives_nothing_or_the_same_numbers() {
        let whole = parse_stat(LINE).unwrap();
        for end in 0..LINE.len() {
            if let Some(cut) = parse_stat(&LINE[..end]) {
                assert_eq!(cut.start_ticks, whole.start_ticks, "{end}");
                assert!(cut.processor.is_none() && cut.exit_status.is_none(), "{end}");
            }
        }
        assert_eq!(parse_stat(b"12 )x( S 1 2"), None);
    }

    #[test]
    fn pages_need_the_whole_line() {
        assert_eq!(
            parse_statm(b"765 404 376 5 0 123 0\n"),
            Some(Statm { size: 765, resident: 404, shared: 376 })
        );
        assert_eq!(parse_statm(b"765 404 37"), None);
        assert_eq!(parse_statm(b"0 0 0 0 0 0 0\n"), Some(Statm::default()));
    }
}
