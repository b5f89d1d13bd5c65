//! Classic events that merging tools add to a file: image identities and volume names.

use super::field::{Bytes, FileTime, Pointer, Word, record};
use crate::Guid;
use crate::payload::{NarrowText, WideText};

record! {
    /// ImageID type 0.
    ImageId<'a> {
        image_base: Pointer = "ImageBase",
        image_size: Word = "ImageSize",
        process_id: u32 = "ProcessId",
        time_date_stamp: u32 = "TimeDateStamp",
        original_file_name: WideText<'a> = "OriginalFileName",
    }
}

record! {
    /// ImageID type 36 native, 37 of IL images: where the symbols are.
    ImageRsds<'a> {
        image_base: Pointer = "ImageBase",
        process_id: u32 = "ProcessId",
        guid: Guid = "GuidSig",
        age: u32 = "Age",
        pdb_file_name: NarrowText<'a> = "PDBFileName",
    }
}

record! {
    /// ImageID type 32 (no debug data) and 40: only the image itself.
    ImageMark {
        image_base: Pointer = "ImageBase",
        process_id: u32 = "ProcessId",
    }
}

record! {
    /// ImageID types 34, 38, 39: debug data with undocumented layouts.
    ImageDebugData<'a> {
        image_base: Pointer = "ImageBase",
        process_id: u32 = "ProcessId",
        data: Bytes<'a> = "Data",
    }
}

record! {
    /// ImageID type 41: why a file could not be examined.
    ImageFailure<'a> { text: WideText<'a> = "Text", }
}

record! {
    /// ImageID type 64: the version resource.
    ImageFileVersion<'a> {
        image_size: u32 = "ImageSize",
        time_date_stamp: u32 = "TimeDateStamp",
        original_file_name: WideText<'a> = "OrigFileName",
        file_description: WideText<'a> = "FileDescription",
        file_version: WideText<'a> = "FileVersion",
        binary_file_version: WideText<'a> = "BinFileVersion",
        language: WideText<'a> = "VerLanguage",
        product_name: WideText<'a> = "ProductName",
        company_name: WideText<'a> = "CompanyName",
        product_version: WideText<'a> = "ProductVersion",
        file_id: WideText<'a> = "FileId",
        program_id: WideText<'a> = "ProgramId",
    }
}

record! {
    /// SysConfigEx type 32.
    BuildInfo<'a> {
        install_date: FileTime = "InstallDate",
        build_lab: WideText<'a> = "BuildLab",
        product_name: WideText<'a> = "ProductName",
    }
}

record! {
    /// SysConfigEx type 33.
    SystemPaths<'a> {
        system_directory: WideText<'a> = "SystemDirectory",
        windows_directory: WideText<'a> = "SystemWindowsDirectory",
    }
}

record! {
    /// SysConfigEx type 34.
    UnknownVolume<'a> { nt_path: WideText<'a> = "Value", }
}

record! {
    /// SysConfigEx type 35: `\Device\HarddiskVolume3\` is `C:\`.
    VolumeMapping<'a> {
        nt_path: WideText<'a> = "NtPath",
        dos_path: WideText<'a> = "DosPath",
    }
}

record! {
    /// SysConfigEx types 36 (network interfaces) and 37 (device family): shown as bytes.
    SystemConfigData<'a> { data: Bytes<'a> = "Data", }
}

record! {
    /// PerfInfo type 34: a mark written by a tool.
    Mark<'a> { text: NarrowText<'a> = "Message", }
}

record! {
    /// Lost event types 32 events, 33 buffers, 34 file: the session could not keep up. No payload is documented.
    LostEvents<'a> { data: Bytes<'a> = "Data", }
}
