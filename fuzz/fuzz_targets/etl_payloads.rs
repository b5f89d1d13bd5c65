//! Any bytes as the payload of any kernel event, and as stacks: never a panic, every field can be shown.
//!
//! Input: which event (2 bytes), its version, the pointer size and the processor, then payloads of which each begins
//! with its length.

#![no_main]

use std::fmt::{self, Write};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ortscope_etl::payload::kernel::{
    IMAGE_ID_CLASS, KernelPayload, LOST_EVENT_CLASS, PERF_INFO_CLASS, SYSTEM_CONFIG_EX_CLASS, hook_name,
};
use ortscope_etl::payload::stacks::StackMatcher;
use ortscope_etl::payload::{Value, Visitor};
use ortscope_etl::{Classic, EventDescriptor, EventRecord, Guid, HeaderKind, Hook, Identity, PointerSize};

/// Every hook that has a name: random numbers would hardly meet one.
static HOOKS: LazyLock<Vec<Hook>> =
    LazyLock::new(|| (0..=u16::MAX).map(Hook).filter(|hook| hook_name(*hook).is_some()).collect());

/// Writes without keeping.
struct Sink;

impl Write for Sink {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}

impl Visitor for Sink {
    fn field(&mut self, _name: &str, value: Value<'_>) {
        value.write_json(&mut Sink).expect("the sink takes all");
    }
}

fn identity(which: [u8; 2], version: u8) -> Identity {
    let classes = [IMAGE_ID_CLASS, SYSTEM_CONFIG_EX_CLASS, LOST_EVENT_CLASS, PERF_INFO_CLASS];
    match which[1] {
        0xe0..0xf0 => Identity::Event { provider: Guid::new(1), descriptor: EventDescriptor::default() },
        0xf0.. => Identity::Classic(Classic {
            class: classes[usize::from(which[1]) % classes.len()],
            kind: which[0] % 80,
            level: 0,
            version: u16::from(version),
        }),
        _ => {
            let hook = HOOKS[usize::from(u16::from_le_bytes(which)) % HOOKS.len()];
            Identity::Kernel { hook, version: u16::from(version) }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    let mut matcher = StackMatcher::new(16, 16);
    let mut ticks = 0;
    while let Some((&[a, b, version, flags, length], behind)) = rest.split_first_chunk::<5>() {
        let (payload, next) = behind.split_at((usize::from(length) * 4).min(behind.len()));
        rest = next;
        ticks += u64::from(flags >> 4);
        let record = EventRecord {
            kind: HeaderKind::PerfInfo,
            pointer_size: if flags & 1 == 0 { PointerSize::Eight } else { PointerSize::Four },
            identity: identity([a, b], version % 8),
            ticks,
            processor: u16::from(flags >> 1 & 3),
            logger: 0,
            process_id: Some(1),
            thread_id: Some(2),
            cpu_times: None,
            activity: None,
            // Stacks may lie in the event itself.
            extended_bytes: if b & 0xf0 == 0xe0 { payload } else { &[] },
            pebs_index: None,
            counter_bytes: &[],
            payload,
            bytes: payload,
        };
        if let Ok(decoded) = KernelPayload::decode(&record) {
            decoded.visit(&mut Sink);
        }
        matcher.push(&record, ticks, |stack| assert_eq!(stack.addresses().count(), stack.len()));
    }
});
