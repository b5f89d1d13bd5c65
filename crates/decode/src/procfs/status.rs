//! `/proc/PID/status`: values that the cheaper files lack. Kernel threads have no memory lines.

use super::scan::{colon_pairs, fields, kilobytes, number};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
