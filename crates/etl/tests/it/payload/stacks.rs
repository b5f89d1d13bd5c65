//! Every stack record of the real traces belongs to an event.

use ortscope_etl::Identity;
use ortscope_etl::payload::stacks::{StackMatcher, StackPart};

use super::each_record;
use crate::corpus;

#[test]
fn every_stack_finds_its_event() {
    let mut total = 0;
    for trace in corpus::traces() {
        let mut matcher = StackMatcher::default();
        let mut ticks = Vec::new();
        let (mut parts, mut frames) = (0, 0);
        each_record(&trace.bytes(), |record| {
            let token = ticks.len() as u64;
            ticks.push(record.ticks);
            matcher.push(record, token, |stack| {
                parts += 1;
                frames += stack.addresses().count();
                assert_eq!(ticks[stack.owner.token as usize], stack.owner.ticks);
                assert!(
                    !stack.is_empty() || matches!(stack.part, StackPart::InEvent { .. }),
                    "{}",
                    trace.name
                );
                // The kernel's half of the address space is the upper one.
                match stack.part {
                    StackPart::Kernel => assert!(stack.addresses().all(|address| address >> 63 == 1)),
                    // A callback goes from user mode through the kernel to user mode again.
                    StackPart::User => {
                        assert!(stack.addresses().next().is_some_and(|address| address >> 63 == 0));
                    }
                    StackPart::Whole | StackPart::InEvent { .. } => {}
                }
            });
        });
        let counts = matcher.counts();
        assert_eq!(counts.attached, parts);
        if counts.records > 0 {
            println!("{}: {counts:?}, {frames} frames", trace.name);
        }
        assert_eq!(
            (counts.without_owner, counts.keys_dropped, counts.keys_waiting),
            (0, 0, 0),
            "{}",
            trace.name
        );
        assert_eq!(counts.records, counts.attached, "{}", trace.name);
        total += counts.records;
        if trace.name == "perfview_net.4.5.2.x64.etl" {
            assert_eq!((counts.keys, counts.definitions), (2061 + 7046, 1909 + 1012));
            // In addition, 655 stacks are inside their events.
            assert_eq!(counts.records, 252 + 2061 + 7046 + 655);
        }
    }
    println!("{total} stack records");
}

/// A window of one event and capacity for one key: the excess is counted, and nothing grows.
#[test]
fn excess_stacks_are_counted() {
    let Some(trace) = corpus::trace("perfview_net.4.5.2.x64.etl") else { return };
    let mut matcher = StackMatcher::new(1, 1);
    each_record(&trace.bytes(), |record| matcher.push(record, 0, |_| {}));
    let counts = matcher.counts();
    assert_eq!(
        counts.records,
        counts.attached + counts.without_owner + counts.keys_dropped + counts.keys_waiting
    );
    assert!(counts.without_owner > 0 && counts.keys_waiting <= 1);
}

/// Keys of kernel logger events belong to its own events, never to other stacks.
#[test]
fn stacks_are_not_owners() {
    let Some(trace) = corpus::trace("perfview_net.4.5.2.x64.etl") else { return };
    let mut matcher = StackMatcher::default();
    let mut is_stack = Vec::new();
    each_record(&trace.bytes(), |record| {
        is_stack.push(matches!(record.identity, Identity::Kernel { hook, .. } if hook.group() == 0x18));
        let token = is_stack.len() as u64 - 1;
        matcher.push(record, token, |stack| assert!(!is_stack[stack.owner.token as usize]));
    });
}
