//! Stacks: complete ones, stack keys, and their definitions.

use super::field::{Addresses, Pointer, record};

record! {
    /// 0x1820. Belongs to the event with exactly this time stamp.
    StackWalk<'a> {
        event_ticks: u64 = "EventTimeStamp",
        process_id: u32 = "StackProcess",
        thread_id: u32 = "StackThread",
        addresses: Addresses<'a> = "Stack",
    }
}

record! {
    /// 0x1825 kernel part, 0x1826 user part.
    StackKey {
        event_ticks: u64 = "EventTimeStamp",
        process_id: u32 = "StackProcess",
        thread_id: u32 = "StackThread",
        key: Pointer = "StackKey",
    }
}

record! {
    /// 0x1822 create, 23 delete, 24 rundown: the definition comes at or after the uses, and keys are reused.
    StackDefinition<'a> {
        key: Pointer = "StackKey",
        addresses: Addresses<'a> = "Stack",
    }
}
