//! Why threads leave their processor, in the numbers of Windows' scheduler.

use ortscope_core::kernel::SwitchReason;

/// Why a thread waits: `KWAIT_REASON`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitReason(pub u8);

const NAMES: [&str; 40] = [
    "Executive",
    "FreePage",
    "PageIn",
    "PoolAllocation",
    "DelayExecution",
    "Suspended",
    "UserRequest",
    "WrExecutive",
    "WrFreePage",
    "WrPageIn",
    "WrPoolAllocation",
    "WrDelayExecution",
    "WrSuspended",
    "WrUserRequest",
    "WrEventPair",
    "WrQueue",
    "WrLpcReceive",
    "WrLpcReply",
    "WrVirtualMemory",
    "WrPageOut",
    "WrRendezvous",
    "WrKeyedEvent",
    "WrTerminated",
    "WrProcessInSwap",
    "WrCpuRateControl",
    "WrCalloutStack",
    "WrKernel",
    "WrResource",
    "WrPushLock",
    "WrMutex",
    "WrQuantumEnd",
    "WrDispatchInt",
    "WrPreempted",
    "WrYieldExecution",
    "WrFastMutex",
    "WrGuardedMutex",
    "WrRundown",
    "WrAlertByThreadId",
    "WrDeferredPreempt",
    "WrPhysicalFault",
];

impl WaitReason {
    /// The name in Windows' headers; `Unknown` for newer ones.
    pub fn name(self) -> &'static str {
        NAMES.get(usize::from(self.0)).copied().unwrap_or("Unknown")
    }

    /// Memory must be read from a disk, or must become free.
    fn is_for_memory(self) -> bool {
        matches!(self.0, 1 | 2 | 8 | 9 | 18 | 19 | 23 | 39)
    }

    fn is_suspended(self) -> bool {
        matches!(self.0, 5 | 12)
    }
}

/// Meaning of the old thread's state in a switch (`KTHREAD_STATE`) and its wait reason.
pub(super) fn switch_reason(state: i8, wait: WaitReason) -> SwitchReason {
    match state {
        // Ready, running, standby, deferred ready.
        1 | 2 | 3 | 7 => SwitchReason::Preempted,
        4 => SwitchReason::Ended,
        5 if wait.is_suspended() => SwitchReason::Stopped,
        5 if wait.is_for_memory() => SwitchReason::Blocked,
        5 | 8 => SwitchReason::Sleeping,
        // Ready, but its kernel stack is not in memory.
        6 => SwitchReason::Blocked,
        _ => SwitchReason::Unknown,
    }
}
