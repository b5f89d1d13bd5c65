//! Context switches, wake-ups, samples and performance counters.

use super::field::{Bytes, Field as _, Flags, Pointer, Record, record};
use crate::payload::cursor::Short;
use crate::payload::{Array, Cursor, InType, Scalar, Value, Visitor, WideText};

record! {
    /// 0x0524. The counters in its header are those of the PMC configuration.
    ContextSwitch {
        new_thread_id: u32 = "NewThreadId",
        old_thread_id: u32 = "OldThreadId",
        new_thread_priority: i8 = "NewThreadPriority",
        old_thread_priority: i8 = "OldThreadPriority",
        new_thread_quantum: i8 = "NewThreadQuantum" if 0..=1,
        old_thread_quantum: i8 = "OldThreadQuantum" if 0..=1,
        previous_c_state: u8 = "PreviousCState" if 2..,
        /// Newer builds write the new thread's priority decrement here.
        spare: i8 = "SpareByte" if 2..,
        old_thread_wait_reason: i8 = "OldThreadWaitReason",
        /// Version 4 writes flags of the thread here.
        old_thread_wait_mode: i8 = "OldThreadWaitMode" if 0..=3,
        thread_flags: u8 = "ThreadFlags" if 4..,
        old_thread_state: i8 = "OldThreadState",
        old_thread_ideal_processor: i8 = "OldThreadWaitIdealProcessor",
        /// In ticks of the system timer.
        new_thread_wait_time: u32 = "NewThreadWaitTime",
        /// Newer builds write the old thread's remaining quantum here.
        reserved: u32 = "Reserved" if 2..,
    }
}

record! {
    /// 0x0532. The readying thread is the one running on the event's processor.
    ReadyThread {
        thread_id: u32 = "TThreadId",
        /// 1 unwait, 2 boost.
        adjust_reason: u8 = "AdjustReason",
        adjust_increment: i8 = "AdjustIncrement",
        /// 1 in a DPC, 2 kernel stack swapped out, 4 process swapped out, 8 direct switch.
        flags: u8 = "Flag",
        reserved: u8 = "Reserved",
    }
}

/// 0x0525: many switches of one processor in few bytes. Only the old thread of each is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompactContextSwitches<'a> {
    pub first_ticks: u64,
    threads: &'a [u8],
    base_priorities: &'a [u8],
    packets: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactContextSwitch {
    pub ticks: u64,
    /// `None`: the idle thread was switched out.
    pub old_thread: Option<CompactOldThread>,
    /// In ticks of the system timer; 0 if the packet has no space for it.
    pub new_thread_wait_time: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactOldThread {
    pub thread_id: u32,
    pub priority: i8,
    /// State and wait reason in one six-bit number; the encoding is undocumented.
    pub state_and_reason: u8,
}

impl<'a> Record<'a> for CompactContextSwitches<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Short> {
        Ok(Self {
            first_ticks: cursor.u64()?,
            threads: cursor.take(64)?,
            base_priorities: cursor.take(16)?,
            packets: cursor.take(cursor.rest().len())?,
        })
    }

    fn visit<V: Visitor + ?Sized>(&self, visitor: &mut V) {
        visitor.field("FirstTimeStamp", Value::Unsigned(self.first_ticks));
        for switch in self.iter() {
            visitor.field("TimeStamp", Value::Unsigned(switch.ticks));
            if let Some(old) = switch.old_thread {
                visitor.field("OldThreadId", Value::Unsigned(u64::from(old.thread_id)));
                visitor.field("OldThreadPriority", Value::Signed(i64::from(old.priority)));
                visitor.field("OldThreadStateWr", Value::Unsigned(u64::from(old.state_and_reason)));
            }
            visitor.field("NewThreadWaitTime", Value::Unsigned(u64::from(switch.new_thread_wait_time)));
        }
    }
}

impl<'a> CompactContextSwitches<'a> {
    /// The switches in order; each packet's time is relative to the previous one. A truncated last packet is
    /// dropped.
    pub fn iter(&self) -> impl Iterator<Item = CompactContextSwitch> + use<'a> {
        let (mut packets, mut ticks) = (self.packets, self.first_ticks);
        let (threads, priorities) = (self.threads, self.base_priorities);
        let thread = move |index: u32| {
            let index = (index & 15) as usize;
            threads.as_chunks::<4>().0.get(index).map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        std::iter::from_fn(move || {
            let low = *packets.first_chunk::<2>()?;
            let kind = low[0] & 3;
            if kind == 0 {
                packets = &packets[2..];
                ticks = ticks.wrapping_add(u64::from(u16::from_le_bytes(low) >> 2));
                return Some(CompactContextSwitch { ticks, old_thread: None, new_thread_wait_time: 0 });
            }
            let word = u32::from_le_bytes(*packets.first_chunk::<4>()?);
            packets = &packets[4..];
            let delta = if kind == 2 { word >> 15 } else { word >> 2 };
            ticks = ticks.wrapping_add(u64::from(delta));
            match kind {
                1 => Some(CompactContextSwitch { ticks, old_thread: None, new_thread_wait_time: 0 }),
                2 => {
                    let index = word >> 2 & 15;
                    let base = priorities.get(index as usize).map_or(0, |&byte| byte as i8);
                    let old = CompactOldThread {
                        thread_id: thread(index),
                        priority: base.wrapping_add((word >> 6 & 7) as i8),
                        state_and_reason: (word >> 9 & 63) as u8,
                    };
                    Some(CompactContextSwitch { ticks, old_thread: Some(old), new_thread_wait_time: 0 })
                }
                _ => {
                    let second = u32::from_le_bytes(*packets.first_chunk::<4>()?);
                    packets = &packets[4..];
                    let old = CompactOldThread {
                        thread_id: thread(second),
                        priority: (second >> 10 & 31) as i8,
                        state_and_reason: (second >> 4 & 63) as u8,
                    };
                    let new_thread_wait_time = second >> 15;
                    Some(CompactContextSwitch { ticks, old_thread: Some(old), new_thread_wait_time })
                }
            }
        })
    }
}

record! {
    /// 0x0F2E.
    SampledProfile {
        instruction_pointer: Pointer = "InstructionPointer",
        thread_id: u32 = "ThreadId",
        count: u16 = "Count",
        /// 1 in a DPC, 2 in an interrupt, the thread's priority from bit 3.
        flags: u8 = "Flags",
        rank: u8 = "Rank",
    }
}

impl SampledProfile {
    pub fn in_dpc(&self) -> bool {
        self.flags & 1 != 0
    }

    pub fn in_interrupt(&self) -> bool {
        self.flags & 2 != 0
    }

    pub fn priority(&self) -> u8 {
        self.flags >> 3
    }
}

record! {
    /// 0x0F48 set, 0x0F49 and 0x0F4A at the start and end of the trace. Intervals in units of 100 ns.
    ProfileInterval<'a> {
        source: u32 = "Source",
        new_interval: u32 = "NewInterval",
        old_interval: u32 = "OldInterval",
        source_name: Option<WideText<'a>> = "SourceName" if 3..,
    }
}

record! {
    /// 0x0F2F: a counter reached its interval.
    CounterSample {
        instruction_pointer: Pointer = "InstructionPointer",
        thread_id: u32 = "ThreadId",
        profile_source: u16 = "ProfileSource",
        reserved: u16 = "Reserved",
    }
}

/// 0x0F30: the names of the counters in the headers of later events, in order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CounterConfig<'a> {
    names: Array<'a>,
}

impl<'a> CounterConfig<'a> {
    pub fn names(&self) -> impl Iterator<Item = WideText<'a>> + use<'a> {
        self.names.iter().filter_map(|value| match value {
            Value::Wide(name) => Some(name),
            _ => None,
        })
    }
}

impl<'a> Record<'a> for CounterConfig<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Short> {
        let count = cursor.u32()? as usize;
        Ok(Self { names: Scalar::plain(InType::WIDE).read_array(cursor, count)? })
    }

    fn visit<V: Visitor + ?Sized>(&self, visitor: &mut V) {
        visitor.field("CounterCount", Value::Unsigned(self.names.len() as u64));
        visitor.field("CounterName", Value::Array(self.names));
    }
}

/// 0x0F31: counters whose values are invalid since a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CounterCorruption<'a> {
    pub processor: u32,
    pub count: u32,
    entries: &'a [u8],
}

impl<'a> CounterCorruption<'a> {
    /// Profile source, and the last time its counter was valid.
    pub fn entries(&self) -> impl Iterator<Item = (u32, u64)> + use<'a> {
        self.entries.as_chunks::<12>().0.iter().map(|entry| {
            let [source @ .., _, _, _, _, _, _, _, _] = *entry;
            let [_, _, _, _, ticks @ ..] = *entry;
            (u32::from_le_bytes(source), u64::from_le_bytes(ticks))
        })
    }
}

impl<'a> Record<'a> for CounterCorruption<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Short> {
        let (processor, count) = (cursor.u32()?, cursor.u32()?);
        Ok(Self { processor, count, entries: cursor.take((count as usize).saturating_mul(12))? })
    }

    fn visit<V: Visitor + ?Sized>(&self, visitor: &mut V) {
        self.processor.visit("ProcessorNumber", visitor);
        self.count.visit("CounterCount", visitor);
        for (source, ticks) in self.entries() {
            source.visit("ProfileSource", visitor);
            ticks.visit("LastKnownGoodTimestamp", visitor);
        }
    }
}

record! {
    /// 0x0F42 threaded, 44 plain, 45 timer. The event's time is the end.
    Dpc {
        initial_ticks: u64 = "InitialTime",
        routine: Pointer = "Routine",
    }
}

record! {
    /// 0x0F43, and 0x0F32 for message-signaled ones. The event's time is the end.
    Interrupt<'a> {
        initial_ticks: u64 = "InitialTime",
        routine: Pointer = "Routine",
        return_value: u8 = "ReturnValue",
        vector: u16 = "Vector",
        reserved: u8 = "Reserved",
        message_number: Option<Bytes<'a>> = "MessageNumber",
    }
}

record! {
    /// 0x0F33.
    SystemCallEnter { address: Pointer = "SysCallAddress", }
}

record! {
    /// 0x0F34.
    SystemCallExit { status: Flags = "SysCallNtStatus", }
}
