//! Files of one process or thread: `/proc/PID/{stat,statm,schedstat,status,io}`.

use super::scan::{colon_pairs, fields, kilobytes, number, signed};

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

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a processor; for a running thread as of its last tick or switch.
    pub run_ns: u64,
    /// Time in which it was runnable but waited for a processor.
    pub wait_ns: u64,
    /// How often it got a processor.
    pub time_slices: u64,
}

pub fn parse_schedstat(bytes: &[u8]) -> Option<SchedStat> {
    let mut left = fields(bytes.strip_suffix(b"\n")?);
    let stat = SchedStat {
        run_ns: number(left.next()?)?,
        wait_ns: number(left.next()?)?,
        time_slices: number(left.next()?)?,
    };
    left.next().is_none().then_some(stat)
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    pub resident_bytes: Option<u64>,
    pub peak_resident_bytes: Option<u64>,
    pub anonymous_bytes: Option<u64>,
    pub swapped_bytes: Option<u64>,
    pub threads: Option<u64>,
    /// Both kinds together, for the thread of this file.
    pub context_switches: Option<u64>,
    /// The first 64 processors that it may run on.
    pub affinity_mask: Option<u64>,
    /// Effective user.
    pub user_id: Option<u64>,
}

pub fn parse_status(bytes: &[u8]) -> Status {
    let mut status = Status::default();
    let (mut voluntary, mut forced) = (None, None);
    for (key, value) in colon_pairs(bytes) {
        match key {
            b"Uid" => status.user_id = fields(value).nth(1).and_then(number),
            b"VmRSS" => status.resident_bytes = kilobytes(value),
            b"VmHWM" => status.peak_resident_bytes = kilobytes(value),
            b"RssAnon" => status.anonymous_bytes = kilobytes(value),
            b"VmSwap" => status.swapped_bytes = kilobytes(value),
            b"Threads" => status.threads = number(value),
            b"Cpus_allowed" => status.affinity_mask = mask(value),
            b"voluntary_ctxt_switches" => voluntary = number(value),
            b"nonvoluntary_ctxt_switches" => forced = number(value),
            _ => {}
        }
    }
    status.context_switches = voluntary.zip(forced).map(|(a, b)| a.saturating_add(b));
    status
}

/// Groups of 32 bits in hexadecimal, highest first: `ff,ffffffff`.
fn mask(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let mut groups = text.rsplit(',');
    let low = u64::from_str_radix(groups.next()?, 16).ok()?;
    let high = match groups.next() {
        Some(group) => u64::from_str_radix(group, 16).ok()?,
        None => 0,
    };
    Some((high << 32) | low)
}

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

    #[test]
    fn three_numbers_and_a_newline() {
        let wanted = SchedStat { run_ns: 5, wait_ns: 3_654_733, time_slices: 1 };
        assert_eq!(parse_schedstat(b"5 3654733 1\n"), Some(wanted));
        for wrong in [&b"5 3654733 1"[..], b"5 3654733\n", b"1 2 3 4\n", b"", b"\n"] {
            assert_eq!(parse_schedstat(wrong), None);
        }
    }

    #[test]
    fn a_name_cannot_imitate_another_line() {
        let text = b"Name:\tx: VmRSS\nUid:\t1000\t1001\t0\t0\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n\
            RssAnon:\t 512 kB\nVmSwap:\t 4 kB\nThreads:\t7\nCpus_allowed:\t3,00000005\n\
            voluntary_ctxt_switches:\t10\nnonvoluntary_ctxt_switches:\t5\n";
        let status = parse_status(text);
        assert_eq!(status.resident_bytes, Some(1 << 20));
        assert_eq!(status.peak_resident_bytes, Some(2 << 20));
        assert_eq!((status.anonymous_bytes, status.swapped_bytes), (Some(512 << 10), Some(4096)));
        assert_eq!((status.threads, status.context_switches), (Some(7), Some(15)));
        assert_eq!((status.affinity_mask, status.user_id), (Some(0x3_0000_0005), Some(1001)));
    }

    #[test]
    fn kernel_threads_have_no_memory() {
        assert_eq!(parse_status(b"Name:\tkthreadd\n"), Status::default());
    }

    #[test]
    fn masks_of_small_and_large_machines_are_parsed() {
        assert_eq!(mask(b"3"), Some(3));
        assert_eq!(mask(b"ffffffff,ffffffff,00000001"), Some(0xffff_ffff_0000_0001));
        assert_eq!((mask(b""), mask(b"x,1"), mask(b"1,x")), (None, None, None));
    }

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
