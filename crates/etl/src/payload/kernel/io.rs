//! Memory, disk and file events.

use super::field::{Flags, Pointer, Word, record};
use crate::payload::WideText;

record! {
    /// 0x020A transition, 0B demand zero, 0C copy on write, 0D guard page, 0E hard, 0F access violation.
    SoftFault {
        virtual_address: Pointer = "VirtualAddress",
        program_counter: Pointer = "ProgramCounter",
    }
}

record! {
    /// 0x0220. The event's time is the end of the read.
    HardFault {
        initial_ticks: u64 = "InitialTime",
        read_offset: u64 = "ReadOffset",
        virtual_address: Pointer = "VirtualAddress",
        file_object: Pointer = "FileObject",
        thread_id: u32 = "TThreadId",
        byte_count: u32 = "ByteCount",
    }
}

record! {
    /// 0x0262 allocate, 63 free, 80 and 81 rundown.
    VirtualMemory {
        base_address: Pointer = "BaseAddress",
        region_size: Word = "RegionSize",
        process_id: u32 = "ProcessId",
        flags: Flags = "Flags",
    }
}

record! {
    /// 0x010A read, 0B write, when they end.
    DiskTransfer {
        disk_number: u32 = "DiskNumber",
        irp_flags: Flags = "IrpFlags",
        transfer_size: u32 = "TransferSize",
        reserved: u32 = "Reserved",
        byte_offset: u64 = "ByteOffset",
        file_object: Pointer = "FileObject",
        irp: Pointer = "Irp",
        /// In ticks of the performance counter.
        response_ticks: u64 = "HighResResponseTime",
        issuing_thread_id: u32 = "IssuingThreadId" if 3..,
    }
}

record! {
    /// 0x010C read, 0D write, 0F flush, when they begin.
    DiskStart {
        irp: Pointer = "Irp",
        issuing_thread_id: u32 = "IssuingThreadId" if 3..,
    }
}

record! {
    /// 0x010E, when it ends.
    DiskFlush {
        disk_number: u32 = "DiskNumber",
        irp_flags: Flags = "IrpFlags",
        response_ticks: u64 = "HighResResponseTime",
        irp: Pointer = "Irp",
        issuing_thread_id: u32 = "IssuingThreadId" if 3..,
    }
}

record! {
    /// 0x0400 name, 20 create, 23 delete, 24 rundown.
    FileName<'a> {
        file_object: Pointer = "FileObject",
        file_name: WideText<'a> = "FileName",
    }
}

record! {
    /// 0x0440. Version 2 writes the thread as wide as a pointer, before the file object.
    FileCreate<'a> {
        irp: Pointer = "IrpPtr",
        thread_id_wide: Word = "TTID" if 0..=2,
        file_object: Pointer = "FileObject",
        thread_id: u32 = "TTID" if 3..,
        create_options: Flags = "CreateOptions",
        file_attributes: Flags = "FileAttributes",
        share_access: Flags = "ShareAccess",
        open_path: WideText<'a> = "OpenPath",
    }
}

record! {
    /// 0x0441 cleanup, 42 close, 49 flush.
    FileSimple {
        irp: Pointer = "IrpPtr",
        thread_id_wide: Word = "TTID" if 0..=2,
        file_object: Pointer = "FileObject",
        file_key: Pointer = "FileKey",
        thread_id: u32 = "TTID" if 3..,
    }
}

record! {
    /// 0x0443 read, 44 write, when they begin.
    FileTransfer {
        offset: u64 = "Offset",
        irp: Pointer = "IrpPtr",
        thread_id_wide: Word = "TTID" if 0..=2,
        file_object: Pointer = "FileObject",
        file_key: Pointer = "FileKey",
        thread_id: u32 = "TTID" if 3..,
        size: u32 = "IoSize",
        flags: Flags = "IoFlags",
        extra_flags: Option<Flags> = "ExtraFlags" if 3..,
    }
}

record! {
    /// 0x0445 set, 46 delete, 47 rename, 4A query information, 4B file system control.
    FileInformation {
        irp: Pointer = "IrpPtr",
        thread_id_wide: Word = "TTID" if 0..=2,
        file_object: Pointer = "FileObject",
        file_key: Pointer = "FileKey",
        extra: Pointer = "ExtraInfo",
        thread_id: u32 = "TTID" if 3..,
        class: u32 = "InfoClass",
    }
}

record! {
    /// 0x0448 enumerate, 4D notify.
    FileDirectory<'a> {
        irp: Pointer = "IrpPtr",
        thread_id_wide: Word = "TTID" if 0..=2,
        file_object: Pointer = "FileObject",
        file_key: Pointer = "FileKey",
        thread_id: u32 = "TTID" if 3..,
        length: u32 = "Length",
        class: u32 = "InfoClass",
        file_index: u32 = "FileIndex",
        file_name: WideText<'a> = "FileName",
    }
}

record! {
    /// 0x044C: the operation with this IRP ended.
    FileEnd {
        irp: Pointer = "IrpPtr",
        extra: Pointer = "ExtraInfo",
        status: Flags = "NtStatus",
    }
}

macro_rules! issuing_thread {
    ($($name:ty),*) => {$(
        impl $name {
            /// The requesting thread, in every version.
            pub fn thread(&self) -> Option<u32> {
                self.thread_id.or_else(|| self.thread_id_wide.map(|wide| wide.0 as u32))
            }
        }
    )*};
}

issuing_thread!(FileCreate<'_>, FileSimple, FileTransfer, FileInformation, FileDirectory<'_>);
