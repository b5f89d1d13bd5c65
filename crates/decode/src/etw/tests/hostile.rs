//! Arbitrary bytes: nothing panics, and every event is counted.

use ortscope_etl::payload::builtin::{DXGKRNL, KERNEL_PROCESSOR_POWER};
use ortscope_etl::{Classic, EventDescriptor, EventRecord, HeaderKind, Hook, Identity};
use proptest::prelude::*;

use super::*;

const HOOKS: [u16; 40] = [
    0x0005, 0x010a, 0x010b, 0x010c, 0x010e, 0x020a, 0x020e, 0x0220, 0x0262, 0x0263, 0x0301, 0x0302, 0x0303,
    0x0304, 0x030a, 0x0400, 0x0440, 0x0442, 0x0443, 0x0448, 0x044c, 0x0501, 0x0502, 0x0503, 0x0504, 0x0524,
    0x0532, 0x0548, 0x060a, 0x061b, 0x080b, 0x0f2e, 0x0f2f, 0x0f30, 0x0f44, 0x1402, 0x1236, 0x1820, 0x1824,
    0x1825,
];
const DXG_IDS: [u16; 20] =
    [24, 27, 28, 30, 31, 110, 175, 176, 177, 178, 180, 245, 250, 254, 422, 423, 450, 451, 468, 509];

fn identity() -> impl Strategy<Value = Identity> {
    let event = |provider, id| Identity::Event {
        provider,
        descriptor: EventDescriptor { id, ..EventDescriptor::default() },
    };
    prop_oneof![
        4 => (prop::sample::select(&HOOKS[..]), 0_u16..6)
            .prop_map(|(hook, version)| Identity::Kernel { hook: Hook(hook), version }),
        1 => any::<(u16, u16)>().prop_map(|(hook, version)| Identity::Kernel { hook: Hook(hook), version }),
        2 => prop::sample::select(&DXG_IDS[..]).prop_map(move |id| event(DXGKRNL, id)),
        1 => any::<u16>().prop_map(move |id| event(ONNX_RUNTIME, id)),
        1 => (0_u16..70).prop_map(move |id| event(KERNEL_PROCESSOR_POWER, id)),
        1 => (any::<u8>(), any::<u16>()).prop_map(|(kind, version)| {
            let class = ortscope_etl::payload::kernel::IMAGE_ID_CLASS;
            Identity::Classic(Classic { class, kind, level: 0, version })
        }),
        1 => Just(Identity::Error),
    ]
}

/// Small numbers make ids and handles collide; random bytes do the rest.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..96),
        prop::collection::vec(prop::sample::select(&[0_u8, 0, 0, 1, 2, 5, 0xff][..]), 0..96),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_bytes_panic_and_all_are_counted(
        records in prop::collection::vec((identity(), payload(), payload(), any::<u64>(), 0_u16..4, any::<bool>()), 1..60),
    ) {
        let file = bytes(trace());
        let etl = Etl::new(file.as_slice()).unwrap();
        let mut decoder = EtwDecoder::new(etl.header());
        let mut kept = Kept::default();
        for pass in 0..2 {
            for (identity, payload, extended, ticks, processor, has_thread) in &records {
                let record = EventRecord {
                    kind: HeaderKind::System,
                    pointer_size: PointerSize::Eight,
                    identity: *identity,
                    ticks: *ticks,
                    processor: *processor,
                    logger: 0,
                    process_id: has_thread.then_some(2),
                    thread_id: has_thread.then_some(1),
                    cpu_times: None,
                    activity: None,
                    extended_bytes: extended,
                    pebs_index: None,
                    counter_bytes: payload,
                    payload,
                    bytes: payload,
                };
                match pass {
                    0 => decoder.learn(&record),
                    _ => decoder.push(&record, &mut kept),
                }
            }
        }
        decoder.finish(&mut kept);
        prop_assert_eq!(decoder.coverage().total(), records.len() as u64);
        let counts = decoder.counts();
        prop_assert_eq!(kept.samples.len() as u64, counts.samples.samples);
        prop_assert_eq!(kept.processes.len() as u64, counts.lives.processes);
        prop_assert_eq!(kept.threads.len() as u64, counts.lives.threads);
    }
}
