//! Arbitrary bytes: never a panic, never more than the payload contains.

use ortscope_etl::payload::kernel::{self, KernelPayload};
use ortscope_etl::payload::stacks::StackMatcher;
use ortscope_etl::payload::trace_logging::TraceLogging;
use ortscope_etl::payload::{Nest, SchemaStore, Value, Visitor, event_source, tdh};
use ortscope_etl::{Classic, EventDescriptor, EventRecord, Guid, HeaderKind, Hook, Identity, PointerSize};
use proptest::prelude::*;

/// Counts everything; fails if it receives more than any payload of the test can hold.
#[derive(Default)]
struct Count {
    fields: usize,
    text: usize,
}

impl Visitor for Count {
    fn field(&mut self, name: &str, value: Value<'_>) {
        self.fields += 1;
        let mut json = String::new();
        value.write_json(&mut json).unwrap();
        self.text += name.len() + value.to_string().len() + json.len();
    }

    fn open(&mut self, _name: &str, _nest: Nest) {
        self.fields += 1;
    }
}

fn record<'a>(
    identity: Identity,
    pointer_size: PointerSize,
    payload: &'a [u8],
    extended: &'a [u8],
) -> EventRecord<'a> {
    EventRecord {
        kind: HeaderKind::Event,
        pointer_size,
        identity,
        ticks: 7,
        processor: 0,
        logger: 0,
        process_id: Some(1),
        thread_id: Some(2),
        cpu_times: None,
        activity: None,
        extended_bytes: extended,
        pebs_index: None,
        counter_bytes: &[],
        payload,
        bytes: payload,
    }
}

fn pointers() -> impl Strategy<Value = PointerSize> {
    prop_oneof![Just(PointerSize::Four), Just(PointerSize::Eight)]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..600),
        // Small numbers make counts, lengths and versions that almost fit.
        proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(2), Just(0x41), 0..32u8], 0..600),
    ]
}

fn known_hooks() -> Vec<u16> {
    (0..=0x1fff).filter(|hook| kernel::hook_name(Hook(*hook)).is_some()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn kernel_events(payload in bytes(), version in 0..8u16, pointer_size in pointers()) {
        let mut matcher = StackMatcher::default();
        for hook in known_hooks() {
            let hook = Hook(hook);
            if let Ok(decoded) = KernelPayload::decode_hook(hook, version, pointer_size, &payload) {
                let mut count = Count::default();
                decoded.visit(&mut count);
                prop_assert!(count.fields <= payload.len() * 8 + 32, "{hook:?} {}", count.fields);
                prop_assert!(decoded.left_over.len() <= payload.len());
            }
            matcher.push(&record(Identity::Kernel { hook, version }, pointer_size, &payload, &[]), 1, |stack| {
                assert!(stack.len() <= payload.len());
            });
        }
        for class in [kernel::IMAGE_ID_CLASS, kernel::SYSTEM_CONFIG_EX_CLASS, kernel::METADATA_CLASS] {
            for kind in [0, 32, 33, 34, 35, 36, 37, 38, 40, 41, 64] {
                let classic = Classic { class, kind, level: 0, version };
                if let Ok(decoded) = KernelPayload::decode(&record(Identity::Classic(classic), pointer_size, &payload, &[])) {
                    decoded.visit(&mut Count::default());
                }
            }
        }
    }

    #[test]
    fn trace_logging(schema in bytes(), traits in bytes(), payload in bytes(), pointer_size in pointers()) {
        let mut sized = (schema.len() as u16 + 2).to_le_bytes().to_vec();
        sized.extend_from_slice(&schema);
        for schema in [&schema, &sized] {
            if let Some(event) = TraceLogging::parse(schema, Some(&traits)) {
                let mut count = Count::default();
                let consumed = event.visit(&payload, pointer_size, &mut count);
                prop_assert!(consumed.is_err() || consumed.is_ok_and(|bytes| bytes <= payload.len()));
                prop_assert!(count.fields <= 2 * (4 * payload.len() + schema.len() + 16), "{}", count.fields);
            }
        }
    }

    #[test]
    fn extended_items(extended in bytes(), payload in bytes(), pointer_size in pointers()) {
        let identity = Identity::Event { provider: Guid::default(), descriptor: EventDescriptor::default() };
        let record = record(identity, pointer_size, &payload, &extended);
        let decoded = SchemaStore::new().decode(&record, &mut Count::default());
        prop_assert!(decoded.consumed + decoded.left_over == payload.len());
        StackMatcher::default().push(&record, 1, |stack| assert!(stack.len() <= extended.len()));
    }

    #[test]
    fn metadata(blob in bytes(), count in 0..40u32, payload in bytes(), pointer_size in pointers()) {
        // A plausible head, so that the properties are reached.
        let mut info = vec![0; 112];
        info[100..104].copy_from_slice(&count.to_le_bytes());
        info[104..108].copy_from_slice(&count.to_le_bytes());
        info.extend_from_slice(&blob);
        for blob in [&blob, &info] {
            if let Some(event) = tdh::event_info(blob) {
                let mut seen = Count::default();
                let followed = event.schema.visit(&payload, pointer_size, &mut seen);
                prop_assert!(followed.consumed <= payload.len());
                prop_assert!(seen.fields <= 2 * (4 * payload.len() + 2 * count as usize + 32), "{}", seen.fields);
            }
            drop(tdh::map_info(blob));
        }
    }

    #[test]
    fn manifests(text in "(<(provider|event|template|data|map|valueMap|/template|/valueMap)( (name|value|version|tid|inType|length|count|guid|template|map)=\"[a-z0-9:&;#]{0,6}\"){0,4}/?>|.){0,60}", payload in bytes()) {
        for manifest in event_source::parse(&text) {
            for (_, _, schema) in manifest.events {
                schema.visit(&payload, PointerSize::Eight, &mut Count::default());
            }
        }
    }

    #[test]
    fn chunks(chunks in proptest::collection::vec((0..3u32, bytes()), 0..20)) {
        let mut store = SchemaStore::new();
        let descriptor = EventDescriptor { id: event_source::MANIFEST_EVENT, ..EventDescriptor::default() };
        let identity = Identity::Event { provider: Guid::default(), descriptor };
        for (process, text) in &chunks {
            let payload = [&[1, 1, 0, 0x5b, 3, 0, text.len() as u8 % 3, 0][..], text].concat();
            let mut record = record(identity, PointerSize::Eight, &payload, &[]);
            record.process_id = Some(*process);
            store.learn(&record);
            store.decode(&record, &mut Count::default());
        }
    }
}

/// Endlessly nested structures and empty arrays are rejected quickly.
#[test]
fn looping_schemas_are_rejected() {
    // Each field is an array of 65,535 structures with one member: the next field.
    let nested: Vec<u8> =
        std::iter::repeat_n([b'a', 0, 0x80 | 0x20 | 24, 1, 0xff, 0xff], 40).flatten().collect();
    let mut schema = (nested.len() as u16 + 4).to_le_bytes().to_vec();
    schema.extend_from_slice(&[0, 0]);
    schema.extend_from_slice(&nested);
    let event = TraceLogging::parse(&schema, None).unwrap();
    assert!(event.visit(&[0; 60_000], PointerSize::Eight, &mut ()).is_err());
}
