//! Processes, threads and images.

use super::field::{FileTime, Flags, Owner, Pointer, ProcessId, Word, record};
use crate::payload::{NarrowText, WideText};

record! {
    /// 0x0301 start, 02 end, 03 and 04 rundown, 27 defunct.
    Process<'a> {
        /// The EPROCESS; version 1 wrote the page directory's base here.
        key: Pointer = "UniqueProcessKey" if 1..,
        process_id: ProcessId = "ProcessId",
        parent_id: ProcessId = "ParentId",
        session_id: u32 = "SessionId" if 1..,
        /// 259 (still active) until the process has ended.
        exit_status: i32 = "ExitStatus" if 1..,
        directory_table_base: Pointer = "DirectoryTableBase" if 3..,
        /// 1 package id, 2 WOW64, 4 protected, 8 packaged.
        flags: Flags = "Flags" if 4..,
        owner: Owner<'a> = "UserSID",
        image_file_name: NarrowText<'a> = "ImageFileName",
        command_line: WideText<'a> = "CommandLine" if 2..,
        package_full_name: WideText<'a> = "PackageFullName" if 4..,
        application_id: WideText<'a> = "ApplicationId" if 4..,
        exit_time: Option<FileTime> = "ExitTime" if 5..,
    }
}

record! {
    /// 0x030B: the process was asked to end; its threads are still running.
    ProcessTerminate { process_id: u32 = "ProcessId", }
}

record! {
    /// 0x0320 at the end of a process, 0x0321 at the end of the trace.
    ProcessCounters {
        process_id: u32 = "ProcessId",
        page_fault_count: u32 = "PageFaultCount",
        handle_count: u32 = "HandleCount",
        reserved: u32 = "Reserved",
        peak_virtual_size: Word = "PeakVirtualSize",
        peak_working_set_size: Word = "PeakWorkingSetSize",
        peak_pagefile_usage: Word = "PeakPagefileUsage",
        quota_peak_paged_pool_usage: Word = "QuotaPeakPagedPoolUsage",
        quota_peak_non_paged_pool_usage: Word = "QuotaPeakNonPagedPoolUsage",
        virtual_size: Word = "VirtualSize",
        working_set_size: Word = "WorkingSetSize",
        pagefile_usage: Word = "PagefileUsage",
        quota_paged_pool_usage: Word = "QuotaPagedPoolUsage",
        quota_non_paged_pool_usage: Word = "QuotaNonPagedPoolUsage",
        private_page_count: Word = "PrivatePageCount",
    }
}

record! {
    /// 0x0501 start, 02 end, 03 and 04 rundown, from version 1. Version 1 writes only the ids when a thread ends.
    Thread<'a> {
        process_id: u32 = "ProcessId",
        thread_id: u32 = "TThreadId",
        stack_base: Option<Pointer> = "StackBase",
        stack_limit: Option<Pointer> = "StackLimit",
        user_stack_base: Option<Pointer> = "UserStackBase",
        user_stack_limit: Option<Pointer> = "UserStackLimit",
        start_address: Option<Pointer> = "StartAddr" if 0..=2,
        affinity: Word = "Affinity" if 3..,
        win32_start_address: Option<Pointer> = "Win32StartAddr",
        wait_mode: Option<i8> = "WaitMode" if 0..=1,
        teb_base: Pointer = "TebBase" if 2..,
        sub_process_tag: u32 = "SubProcessTag" if 2..,
        base_priority: u8 = "BasePriority" if 3..,
        page_priority: u8 = "PagePriority" if 3..,
        io_priority: u8 = "IoPriority" if 3..,
        flags: u8 = "ThreadFlags" if 3..,
        /// Windows 10 and later append it without a new version.
        name: Option<WideText<'a>> = "ThreadName" if 3..,
    }
}

record! {
    /// The same events in version 0: the ids are in reverse order.
    ThreadV0 {
        thread_id: u32 = "TThreadId",
        process_id: u32 = "ProcessId",
    }
}

record! {
    /// 0x0548.
    ThreadName<'a> {
        process_id: u32 = "ProcessId",
        thread_id: u32 = "ThreadId",
        name: WideText<'a> = "ThreadName",
    }
}

record! {
    /// 0x030A load, 0x1402 unload, 1403 and 1404 rundown.
    Image<'a> {
        image_base: Pointer = "ImageBase",
        /// Version 0 wrote 32 bits and no process.
        module_size: u32 = "ModuleSize" if 0,
        image_size: Word = "ImageSize" if 1..,
        process_id: u32 = "ProcessId" if 1..,
        checksum: u32 = "ImageChecksum" if 2..,
        time_date_stamp: u32 = "TimeDateStamp" if 2..,
        /// Version 2 keeps the four bytes from here reserved; later builds of it fill them too.
        signature_level: u8 = "SignatureLevel" if 2..,
        signature_type: u8 = "SignatureType" if 2..,
        reserved0: u16 = "Reserved0" if 2..,
        default_base: Pointer = "DefaultBase" if 2..,
        reserved1: u32 = "Reserved1" if 2..,
        reserved2: u32 = "Reserved2" if 2..,
        reserved3: u32 = "Reserved3" if 2..,
        reserved4: u32 = "Reserved4" if 2..,
        file_name: WideText<'a> = "FileName",
    }
}

impl Image<'_> {
    /// The size in every version.
    pub fn size(&self) -> u64 {
        self.image_size.map_or_else(|| self.module_size.map_or(0, u64::from), |size| size.0)
    }
}

record! {
    /// 0x1421 base of the kernel, 0x1422 the hypervisor's call page.
    ImageAddress { address: Pointer = "ImageBase", }
}
