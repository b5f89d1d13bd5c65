//! `/proc/net/dev`: traffic per interface of one network namespace. Linux keeps no such counters per process.

use super::scan::{fields, number, whole_lines};

/// Totals since the interfaces came up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetworkTotals {
    pub received_bytes: u64,
    pub received_packets: u64,
    pub sent_bytes: u64,
    pub sent_packets: u64,
}

/// All interfaces except loopback, which would count every byte twice although none is on a wire.
pub fn parse_net_dev(bytes: &[u8]) -> Option<NetworkTotals> {
    let mut totals = None::<NetworkTotals>;
    for line in whole_lines(bytes) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let mut numbers = [0u64; 10];
        let mut known = 0;
        for (slot, field) in numbers.iter_mut().zip(fields(&line[colon + 1..])) {
            let Some(value) = number(field) else {
                break;
            };
            *slot = value;
            known += 1;
        }
        if known < numbers.len() {
            continue;
        }
        let totals = totals.get_or_insert_default();
        if line[..colon].trim_ascii() != b"lo" {
            totals.received_bytes = totals.received_bytes.saturating_add(numbers[0]);
            totals.received_packets = totals.received_packets.saturating_add(numbers[1]);
            totals.sent_bytes = totals.sent_bytes.saturating_add(numbers[8]);
            totals.sent_packets = totals.sent_packets.saturating_add(numbers[9]);
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_summed_without_loopback() {
        let text = b"Inter-|   Receive  |  Transmit\n face |bytes packets|bytes\n\
            \x20   lo: 5625677 5320 0 0 0 0 0 0 5625677 5320 0 0 0 0 0 0\n\
            \x20 eth0:100 2 0 0 0 0 0 0 30 4 0 0 0 0 0 0\n  eth1: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n";
        let totals = parse_net_dev(text).unwrap();
        let wanted =
            NetworkTotals { received_bytes: 101, received_packets: 3, sent_bytes: 31, sent_packets: 5 };
        assert_eq!(totals, wanted);
        assert_eq!(parse_net_dev(b"Inter-|\n"), None);
    }
}
