//! Metadata of the logger: the file's header, its group masks, the partition, its own image.

use super::field::{FileTime, FixedWide, Flags, Pointer, Record, record};
use crate::Guid;
use crate::payload::cursor::Short;
use crate::payload::{Cursor, NarrowText, SystemTime, Value, Visitor, WideText};

record! {
    /// 0x0000, the first event of every file.
    LogfileHeader<'a> {
        buffer_size: u32 = "BufferSize",
        version: u32 = "Version",
        provider_version: u32 = "ProviderVersion",
        number_of_processors: u32 = "NumberOfProcessors",
        end_time: FileTime = "EndTime",
        timer_resolution: u32 = "TimerResolution",
        max_file_size: u32 = "MaxFileSize",
        log_file_mode: u32 = "LogFileMode",
        buffers_written: u32 = "BuffersWritten",
        start_buffers: u32 = "StartBuffers",
        pointer_size: u32 = "PointerSize",
        events_lost: u32 = "EventsLost",
        cpu_speed: u32 = "CPUSpeed",
        logger_name: Pointer = "LoggerName",
        log_file_name: Pointer = "LogFileName",
        bias: i32 = "Bias",
        standard_name: FixedWide<'a, 32> = "StandardName",
        standard_date: SystemTime = "StandardDate",
        standard_bias: i32 = "StandardBias",
        daylight_name: FixedWide<'a, 32> = "DaylightName",
        daylight_date: SystemTime = "DaylightDate",
        daylight_bias: i32 = "DaylightBias",
        padding: u32 = "Padding",
        boot_time: FileTime = "BootTime",
        performance_frequency: u64 = "PerfFreq",
        start_time: FileTime = "StartTime",
        reserved_flags: u32 = "ReservedFlags",
        buffers_lost: u32 = "BuffersLost",
        session_name: WideText<'a> = "SessionNameString",
        file_name: WideText<'a> = "LogFileNameString",
    }
}

impl<'a> super::field::Field<'a> for SystemTime {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Short> {
        cursor.array().map(Self::from_bytes)
    }

    fn visit<V: Visitor + ?Sized>(&self, name: &str, visitor: &mut V) {
        visitor.field(name, Value::SystemTime(*self));
    }
}

record! {
    /// 0x0005 at the start, 0x0020 at the end: the session's group masks.
    HeaderExtension {
        group_mask1: Flags = "GroupMask1",
        group_mask2: Flags = "GroupMask2",
        group_mask3: Flags = "GroupMask3",
        group_mask4: Flags = "GroupMask4",
        group_mask5: Flags = "GroupMask5",
        group_mask6: Flags = "GroupMask6",
        group_mask7: Flags = "GroupMask7",
        group_mask8: Flags = "GroupMask8",
        kernel_event_version: u32 = "KernelEventVersion",
    }
}

impl HeaderExtension {
    pub fn group_masks(&self) -> [u32; 8] {
        [
            self.group_mask1.0,
            self.group_mask2.0,
            self.group_mask3.0,
            self.group_mask4.0,
            self.group_mask5.0,
            self.group_mask6.0,
            self.group_mask7.0,
            self.group_mask8.0,
        ]
    }
}

/// 0x0050. Its layout depends on a version inside the payload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartitionInfo<'a> {
    pub event_version: u16,
    pub reserved: u16,
    pub partition_type: u32,
    /// Ticks of this partition's performance counter minus those of the root.
    pub qpc_offset_from_root: i64,
    pub ids: PartitionIds<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PartitionIds<'a> {
    Guids { partition: Guid, parent: Guid },
    Text { partition: WideText<'a>, parent: WideText<'a> },
}

impl<'a> Record<'a> for PartitionInfo<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Short> {
        let event_version = cursor.u16()?;
        Ok(Self {
            event_version,
            reserved: cursor.u16()?,
            partition_type: cursor.u32()?,
            qpc_offset_from_root: cursor.u64()? as i64,
            ids: match event_version {
                0 => PartitionIds::Guids { partition: cursor.guid()?, parent: cursor.guid()? },
                _ => PartitionIds::Text { partition: cursor.wide(), parent: cursor.wide() },
            },
        })
    }

    fn visit<V: Visitor + ?Sized>(&self, visitor: &mut V) {
        visitor.field("EventVersion", Value::Unsigned(u64::from(self.event_version)));
        visitor.field("Reserved", Value::Unsigned(u64::from(self.reserved)));
        visitor.field("PartitionType", Value::Unsigned(u64::from(self.partition_type)));
        visitor.field("QpcOffsetFromRoot", Value::Signed(self.qpc_offset_from_root));
        let (partition, parent) = match self.ids {
            PartitionIds::Guids { partition, parent } => (Value::Guid(partition), Value::Guid(parent)),
            PartitionIds::Text { partition, parent } => (Value::Wide(partition), Value::Wide(parent)),
        };
        visitor.field("PartitionId", partition);
        visitor.field("ParentId", parent);
    }
}

record! {
    /// 0x0040: the PDB of the binary that logs (private loggers).
    LoggerPdb<'a> {
        guid: Guid = "GuidSig",
        age: u32 = "Age",
        pdb_name: NarrowText<'a> = "PdbName",
    }
}

record! {
    /// 0x0042 build of Windows, 0x0043 path of the binary.
    LoggerText<'a> { text: NarrowText<'a> = "Text", }
}
