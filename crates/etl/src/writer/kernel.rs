//! Payloads of the kernel events that a recording of inferences needs, for 64-bit files.
//!
//! Pass them to [`Writer::kernel`](super::Writer::kernel) with the hook and version of each.

use crate::Hook;

/// The payload of one kind of kernel event, with its hook and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelPayload {
    pub hook: Hook,
    pub version: u16,
    pub bytes: Vec<u8>,
}

/// The moment in a lifetime that an event describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Start,
    End,
    /// It existed when the recording began.
    RundownStart,
    /// It existed when the recording ended.
    RundownEnd,
}

impl Moment {
    const fn kind(self) -> u16 {
        match self {
            Self::Start => 1,
            Self::End => 2,
            Self::RundownStart => 3,
            Self::RundownEnd => 4,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process<'a> {
    /// Unique among all processes of the recording.
    pub key: u64,
    pub process_id: u32,
    pub parent_id: u32,
    pub session_id: u32,
    pub exit_status: i32,
    /// File name without its folder; non-ASCII characters become `?`.
    pub image_name: &'a str,
    pub command_line: &'a str,
}

impl Process<'_> {
    /// Version 4, without a security identifier.
    pub fn payload(&self, moment: Moment) -> KernelPayload {
        let mut bytes = Vec::new();
        bytes.extend(self.key.to_le_bytes());
        for number in [self.process_id, self.parent_id, self.session_id, self.exit_status as u32] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([0; 8]); // directory table
        bytes.extend([0; 4]); // flags
        bytes.extend([0; 4]); // no security identifier
        bytes.extend(self.image_name.chars().map(|c| if c.is_ascii() && c != '\0' { c as u8 } else { b'?' }));
        bytes.push(0);
        wide(&mut bytes, self.command_line);
        wide(&mut bytes, ""); // package
        wide(&mut bytes, ""); // application
        KernelPayload { hook: Hook(0x0300 | moment.kind()), version: 4, bytes }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread<'a> {
    pub process_id: u32,
    pub thread_id: u32,
    pub start_address: u64,
    pub base_priority: u8,
    pub name: &'a str,
}

impl Thread<'_> {
    /// Version 4, which has the thread's name.
    pub fn payload(&self, moment: Moment) -> KernelPayload {
        let mut bytes = Vec::new();
        bytes.extend(self.process_id.to_le_bytes());
        bytes.extend(self.thread_id.to_le_bytes());
        bytes.extend([0; 4 * 8]); // stacks
        bytes.extend([0; 8]); // affinity
        bytes.extend(self.start_address.to_le_bytes());
        bytes.extend([0; 8]); // environment block
        bytes.extend([0; 4]); // service tag
        bytes.extend([self.base_priority, 5, 2, 0]); // page and I/O priority are normal
        wide(&mut bytes, self.name);
        KernelPayload { hook: Hook(0x0500 | moment.kind()), version: 4, bytes }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image<'a> {
    pub base: u64,
    pub size: u64,
    pub process_id: u32,
    pub checksum: u32,
    pub time_date_stamp: u32,
    pub path: &'a str,
}

impl Image<'_> {
    /// Version 3.
    pub fn payload(&self, moment: Moment) -> KernelPayload {
        let mut bytes = Vec::new();
        bytes.extend(self.base.to_le_bytes());
        bytes.extend(self.size.to_le_bytes());
        for number in [self.process_id, self.checksum, self.time_date_stamp] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([0; 4]); // signature
        bytes.extend(self.base.to_le_bytes()); // default base
        bytes.extend([0; 16]);
        wide(&mut bytes, self.path);
        let hook = match moment {
            Moment::Start => 0x030a,
            other => 0x1400 | other.kind(),
        };
        KernelPayload { hook: Hook(hook), version: 3, bytes }
    }
}

/// A processor switches from one thread to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContextSwitch {
    pub new_thread: u32,
    pub old_thread: u32,
    pub new_priority: i8,
    pub old_priority: i8,
    pub old_wait_reason: i8,
    pub old_wait_mode: i8,
    pub old_state: i8,
    pub old_ideal_processor: i8,
    /// In clock interrupts.
    pub new_wait_time: u32,
}

impl ContextSwitch {
    /// Version 3; written without a thread.
    pub fn payload(&self) -> KernelPayload {
        let mut bytes = Vec::with_capacity(24);
        bytes.extend(self.new_thread.to_le_bytes());
        bytes.extend(self.old_thread.to_le_bytes());
        let signed = [
            self.new_priority,
            self.old_priority,
            0,
            0,
            self.old_wait_reason,
            self.old_wait_mode,
            self.old_state,
            self.old_ideal_processor,
        ];
        bytes.extend(signed.map(|number| number as u8));
        bytes.extend(self.new_wait_time.to_le_bytes());
        bytes.extend([0; 4]);
        KernelPayload { hook: Hook(0x0524), version: 3, bytes }
    }
}

/// The position of a thread at a timer interrupt of the profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledProfile {
    pub instruction_pointer: u64,
    pub thread_id: u32,
    pub count: u16,
}

impl SampledProfile {
    /// Version 2; written without a thread.
    pub fn payload(&self) -> KernelPayload {
        let mut bytes = Vec::with_capacity(16);
        bytes.extend(self.instruction_pointer.to_le_bytes());
        bytes.extend(self.thread_id.to_le_bytes());
        bytes.extend(self.count.to_le_bytes());
        bytes.extend([0; 2]);
        KernelPayload { hook: Hook(0x0f2e), version: 2, bytes }
    }
}

/// The call stack of the event with these ticks on the same processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackWalk<'a> {
    pub event_ticks: u64,
    pub process_id: u32,
    pub thread_id: u32,
    /// Innermost first.
    pub addresses: &'a [u64],
}

impl StackWalk<'_> {
    /// Version 2; written without a thread, after its event.
    pub fn payload(&self) -> KernelPayload {
        let mut bytes = Vec::with_capacity(16 + 8 * self.addresses.len());
        bytes.extend(self.event_ticks.to_le_bytes());
        bytes.extend(self.process_id.to_le_bytes());
        bytes.extend(self.thread_id.to_le_bytes());
        bytes.extend(self.addresses.iter().flat_map(|address| address.to_le_bytes()));
        KernelPayload { hook: Hook(0x1820), version: 2, bytes }
    }
}

/// NUL-terminated UTF-16; a NUL within ends the text.
fn wide(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend(text.encode_utf16().take_while(|&unit| unit != 0).flat_map(u16::to_le_bytes));
    bytes.extend([0, 0]);
}
