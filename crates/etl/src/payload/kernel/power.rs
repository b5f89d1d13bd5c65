//! Processor power management (hook group 0x12). From documentation only: no file here holds one.

use super::field::{Flags, record};

record! {
    /// 0x1235.
    IdleStateChange {
        new_state: u32 = "NewState",
        old_state: u32 = "OldState",
        processors: u64 = "Processors",
    }
}

record! {
    /// 0x1233 frequency and voltage, 0x1234 clock throttling.
    PerfStateChange {
        /// 1 frequency and voltage, 2 stop-clock throttling.
        kind: u32 = "Type",
        new_state: u32 = "NewState",
        old_state: u32 = "OldState",
        result: Flags = "Result",
        processors: u64 = "Processors",
    }
}

record! {
    /// 0x1236: firmware limits the speed, in percent.
    ThermalConstraint {
        constraint: u32 = "Constraint",
        padding: u32 = "Padding",
        processors: u64 = "Processors",
    }
}

record! {
    /// 0x1239.
    IdleStateEnter {
        state: u32 = "State",
        properties: u16 = "Properties",
        expected_wake_reason: u8 = "ExpectedWakeReason",
        reserved: u8 = "Reserved",
        expected_duration: u64 = "ExpectedDuration",
    }
}

record! {
    /// 0x123A.
    IdleStateExit {
        state: u32 = "State",
        status: Flags = "Status",
    }
}

record! {
    /// 0x123C.
    IdleExitLatency {
        flags: Flags = "Flags",
        platform_state: u32 = "PlatformState",
        processor_state: u32 = "ProcessorState",
        return_latency: u32 = "ReturnLatency",
        total_latency: u32 = "TotalLatency",
    }
}
