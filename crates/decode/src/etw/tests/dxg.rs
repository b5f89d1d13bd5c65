//! Engine times. No real trace with these events was available: the payloads are encoded from the documented layouts.

use ortscope_etl::payload::builtin::{DXGKRNL, KERNEL_ACPI};

use super::*;

const ADAPTER: u64 = 0xffff_a000_0000_1000;

/// Little-endian fields of given widths.
fn payload(fields: &[(u64, usize)]) -> Vec<u8> {
    fields.iter().flat_map(|(value, width)| value.to_le_bytes().into_iter().take(*width)).collect()
}

fn dxg(trace: &mut Trace, ticks: u64, id: u16, fields: &[(u64, usize)]) {
    put_event(trace, &Place::at(0, ticks).in_thread(4, 12), DXGKRNL, id, &payload(fields));
}

fn device(trace: &mut Trace, ticks: u64, pid: u64, device: u64, context: u64) {
    dxg(trace, ticks, 27, &[(pid, 8), (ADAPTER, 8), (0, 4), (device, 8), (0, 4), (0, 4)]);
    let fixed = [
        (device, 8),
        (2, 4),
        (1, 4),
        (0, 4),
        (0, 4),
        (0, 4),
        (0, 4),
        (0, 4),
        (0, 4),
        (context, 8),
        (0, 8),
        (0, 8),
    ];
    dxg(trace, ticks, 30, &fixed);
}

fn run() -> (EtwDecoder, Kept) {
    let mut trace = trace();
    let mut node = payload(&[(ADAPTER, 8), (2, 4), (6, 4)]);
    node.extend("Compute_0\0".encode_utf16().flat_map(u16::to_le_bytes));
    put_event(&mut trace, &Place::at(0, 1_001), DXGKRNL, 250, &node);
    device(&mut trace, 1_002, 100, 0xd1, 0xc1);
    device(&mut trace, 1_003, 200, 0xd2, 0xc2);
    dxg(&mut trace, 1_900, 178, &[(0xc1, 8), (0, 4), (1, 4), (0, 8), (0, 4), (0, 4), (0, 4), (0, 8)]);
    // Two packets are submitted, and the second one waits for the first.
    dxg(&mut trace, 2_000, 175, &[(0xc1, 8), (0, 8), (0, 4), (1, 8), (1, 4), (0, 8)]);
    dxg(&mut trace, 2_500, 175, &[(0xc2, 8), (0, 8), (0, 4), (2, 8), (1, 4), (0, 8)]);
    dxg(&mut trace, 4_000, 177, &[(0xc1, 8), (0, 4), (1, 8), (1, 4), (1, 4)]);
    dxg(&mut trace, 4_100, 176, &[(0xc1, 8), (0, 4), (1, 8), (1, 4), (0, 4)]);
    dxg(&mut trace, 4_200, 180, &[(0xc1, 8), (0, 4), (1, 4), (0, 4), (0, 4)]);
    dxg(&mut trace, 5_000, 177, &[(0xc2, 8), (0, 4), (2, 8), (1, 4), (1, 4)]);
    // Hardware scheduling.
    dxg(&mut trace, 5_500, 422, &[(0xc1, 8), (0x77, 8), (0, 8)]);
    dxg(&mut trace, 6_000, 450, &[(0x77, 8), (5, 8), (0, 8), (0, 4), (0, 4)]);
    dxg(&mut trace, 7_000, 451, &[(0x77, 8), (5, 8)]);
    // A packet of an unknown context, one that never ends, and an end without a start.
    dxg(&mut trace, 7_100, 175, &[(0xc9, 8), (0, 8), (0, 4), (1, 8), (1, 4), (0, 8)]);
    dxg(&mut trace, 7_200, 175, &[(0xc2, 8), (0, 8), (0, 4), (3, 8), (9, 4), (0, 8)]);
    dxg(&mut trace, 7_300, 451, &[(0x77, 8), (6, 8)]);
    // Too short for its sequence number.
    dxg(&mut trace, 7_400, 175, &[(0xc2, 8)]);
    // Temperature of a zone, in tenths of kelvin.
    let mut zone = 10_u16.to_le_bytes().to_vec();
    zone.extend("ACPI\\TZ01\0".encode_utf16().flat_map(u16::to_le_bytes));
    zone.extend(3_131_u32.to_le_bytes());
    put_event(&mut trace, &Place::at(0, 8_000), KERNEL_ACPI, 11, &zone);
    let file = bytes(trace);
    let mut kept = Kept::default();
    let (decoder, _) = decode(&Etl::new(file.as_slice()).unwrap(), 1, &mut kept);
    (decoder, kept)
}

#[test]
fn an_engine_processes_one_packet_after_the_other() {
    let (decoder, kept) = run();
    let busy: Vec<_> =
        kept.busy.iter().map(|busy| (busy.pid, busy.begin_ns / TICK_NS, busy.end_ns / TICK_NS)).collect();
    assert_eq!(busy, [(100, 2_000, 4_000), (200, 4_000, 5_000), (100, 6_000, 7_000)]);
    let engine = Engine { adapter: ADAPTER, node: 2 };
    assert!(kept.busy.iter().all(|busy| busy.engine == engine));
    let totals: Vec<_> =
        decoder.engine_totals().map(|total| (total.pid, total.busy_ns / TICK_NS, total.packets)).collect();
    assert_eq!(totals, [(100, 3_000, 2), (200, 1_000, 1)]);
    let info = decoder.engines().next().unwrap();
    assert_eq!((info.engine, info.type_name(), info.name.as_str()), (engine, "copy", "Compute_0"));
}

#[test]
fn queued_packets_and_losses_are_reported() {
    let (decoder, kept) = run();
    let [packet] = kept.packets.as_slice() else { panic!("{:?}", kept.packets) };
    assert_eq!((packet.kind, packet.pid), (PacketKind::Work, 100));
    assert_eq!((packet.begin_ns / TICK_NS, packet.end_ns / TICK_NS), (1_900, 4_200));
    let counts = decoder.counts().dxg;
    assert_eq!((counts.unmatched_starts, counts.unmatched_stops, counts.unknown_contexts), (1, 1, 1));
    let reasons: Vec<_> = decoder
        .coverage()
        .unused()
        .into_iter()
        .filter_map(|(kind, reason, count)| match kind {
            EventKind::Event { id, .. } => Some((id, reason, count)),
            _ => None,
        })
        .collect();
    assert_eq!(
        reasons,
        [(175, Unused::TooShort, 1), (175, Unused::NoContext, 1), (451, Unused::NoContext, 1)]
    );
}

#[test]
fn temperatures_give_rows() {
    let (_, kept) = run();
    let [row] = kept.devices.as_slice() else { panic!("{:?}", kept.devices) };
    assert_eq!((row.provider, row.name.as_str()), ("Microsoft-Windows-Kernel-Acpi", "TemperatureChange"));
    assert_eq!(row.fields.unsigned("Temperature"), Some(3_131));
}
