//! The machine: processors, disks, network cards, firmware (hook group 0x0B).

use super::field::{Addresses, Bytes, FixedWide, Flags, Pointer, Record as _, record};
use crate::Guid;
use crate::payload::{NarrowText, Visitor, WideText};

record! {
    /// 0x0B0A.
    ConfigCpu<'a> {
        mhz: u32 = "MHz",
        number_of_processors: u32 = "NumberOfProcessors",
        /// In MB.
        memory_size: u32 = "MemSize",
        page_size: u32 = "PageSize",
        allocation_granularity: u32 = "AllocationGranularity",
        computer_name: FixedWide<'a, 256> = "ComputerName",
        domain_name: FixedWide<'a, 134> = "DomainName",
        hyper_threading_flag: Pointer = "HyperThreadingFlag",
        highest_user_address: Pointer = "HighestUserAddress" if 3..,
        processor_architecture: u16 = "ProcessorArchitecture" if 3..,
        processor_level: u16 = "ProcessorLevel" if 3..,
        processor_revision: u16 = "ProcessorRevision" if 3..,
        pae_enabled: u8 = "PaeEnabled" if 3..,
        nx_enabled: u8 = "NxEnabled" if 3..,
        memory_speed: u32 = "MemorySpeed" if 3..,
    }
}

record! {
    /// 0x0B0B.
    ConfigPhysicalDisk<'a> {
        disk_number: u32 = "DiskNumber",
        bytes_per_sector: u32 = "BytesPerSector",
        sectors_per_track: u32 = "SectorsPerTrack",
        tracks_per_cylinder: u32 = "TracksPerCylinder",
        cylinders: u64 = "Cylinders",
        scsi_port: u32 = "SCSIPort",
        scsi_path: u32 = "SCSIPath",
        scsi_target: u32 = "SCSITarget",
        scsi_lun: u32 = "SCSILun",
        manufacturer: FixedWide<'a, 256> = "Manufacturer",
        partition_count: u32 = "PartitionCount",
        write_cache_enabled: u8 = "WriteCacheEnabled",
        padding: u8 = "Pad",
        boot_drive_letter: FixedWide<'a, 3> = "BootDriveLetter",
        spare: FixedWide<'a, 2> = "Spare",
    }
}

record! {
    /// 0x0B0C.
    ConfigLogicalDisk<'a> {
        start_offset: u64 = "StartOffset",
        partition_size: u64 = "PartitionSize",
        disk_number: u32 = "DiskNumber",
        size: u32 = "Size",
        /// 1 partition, 2 volume, 3 extended partition.
        drive_type: u32 = "DriveType",
        drive_letter: FixedWide<'a, 4> = "DriveLetterString",
        padding1: u32 = "Pad1",
        partition_number: u32 = "PartitionNumber",
        sectors_per_cluster: u32 = "SectorsPerCluster",
        bytes_per_sector: u32 = "BytesPerSector",
        padding2: u32 = "Pad2",
        free_clusters: i64 = "NumberOfFreeClusters",
        total_clusters: i64 = "TotalNumberOfClusters",
        file_system: FixedWide<'a, 16> = "FileSystem",
        volume_extent: u32 = "VolumeExt",
        padding3: u32 = "Pad3",
    }
}

record! {
    /// 0x0B0D.
    ConfigNetworkCard<'a> {
        physical_address: u64 = "PhysicalAddr",
        physical_address_length: u32 = "PhysicalAddrLen",
        ipv4_index: u32 = "Ipv4Index",
        ipv6_index: u32 = "Ipv6Index",
        description: WideText<'a> = "NICDescription",
        ip_addresses: WideText<'a> = "IpAddresses",
        dns_server_addresses: WideText<'a> = "DnsServerAddresses",
    }
}

record! {
    /// 0x0B0E.
    ConfigVideo<'a> {
        memory_size: u32 = "MemorySize",
        x_resolution: u32 = "XResolution",
        y_resolution: u32 = "YResolution",
        bits_per_pixel: u32 = "BitsPerPixel",
        refresh_rate: u32 = "VRefresh",
        chip_type: FixedWide<'a, 256> = "ChipType",
        dac_type: FixedWide<'a, 256> = "DACType",
        adapter: FixedWide<'a, 256> = "AdapterString",
        bios: FixedWide<'a, 256> = "BiosString",
        device_id: FixedWide<'a, 256> = "DeviceId",
        state_flags: Flags = "StateFlags",
    }
}

record! {
    /// 0x0B0F.
    ConfigService<'a> {
        process_id: u32 = "ProcessId",
        state: u32 = "ServiceState",
        sub_process_tag: u32 = "SubProcessTag",
        service_name: WideText<'a> = "ServiceName",
        display_name: WideText<'a> = "DisplayName",
        process_name: WideText<'a> = "ProcessName",
        load_order_group: Option<WideText<'a>> = "LoadOrderGroup" if 3..,
        svchost_group: Option<WideText<'a>> = "SvchostGroup" if 3..,
    }
}

record! {
    /// 0x0B10: which sleep states exist.
    ConfigPower<'a> {
        s1: u8 = "S1",
        s2: u8 = "S2",
        s3: u8 = "S3",
        s4: u8 = "S4",
        s5: u8 = "S5",
        padding: Bytes<'a> = "Pad",
    }
}

record! {
    /// 0x0B11.
    ConfigNetwork {
        tcb_table_partitions: u32 = "TcbTablePartitions",
        max_hash_table_size: u32 = "MaxHashTableSize",
        max_user_port: u32 = "MaxUserPort",
        tcp_timed_wait_delay: u32 = "TcpTimedWaitDelay",
    }
}

record! {
    /// 0x0B12.
    ConfigOpticalMedia<'a> {
        disk_number: u16 = "DiskNumber",
        bus_type: u16 = "BusType",
        device_type: u16 = "DeviceType",
        media_type: u16 = "MediaType",
        starting_offset: u64 = "StartingOffset",
        size: u64 = "Size",
        free_blocks: u64 = "NumberOfFreeBlocks",
        total_blocks: u64 = "TotalNumberOfBlocks",
        next_writable_address: u64 = "NextWritableAddress",
        sessions: u32 = "NumberOfSessions",
        tracks: u32 = "NumberOfTracks",
        bytes_per_sector: u32 = "BytesPerSector",
        disc_status: u16 = "DiscStatus",
        last_session_status: u16 = "LastSessionStatus",
        drive_letter: WideText<'a> = "DriveLetter",
        file_system: WideText<'a> = "FileSystemName",
        device: NarrowText<'a> = "DeviceName",
        manufacturer: NarrowText<'a> = "ManufacturerName",
    }
}

record! {
    /// 0x0B15.
    ConfigIrq<'a> {
        affinity: u64 = "IRQAffinity",
        group: u16 = "IRQGroup" if 3..,
        reserved: u16 = "Reserved" if 3..,
        number: i32 = "IRQNum",
        description_length: u32 = "DeviceDescriptionLen",
        description: WideText<'a> = "DeviceDescription",
    }
}

record! {
    /// 0x0B16.
    ConfigPlugAndPlay<'a> {
        id_length: u32 = "IDLength" if 0..=3,
        description_length: u32 = "DescriptionLength" if 0..=3,
        friendly_name_length: u32 = "FriendlyNameLength" if 0..=3,
        class: Guid = "ClassGuid" if 4..,
        upper_filters: u32 = "UpperFiltersCount" if 4..,
        lower_filters: u32 = "LowerFiltersCount" if 4..,
        status: Flags = "DevStatus" if 5..,
        problem: u32 = "DevProblem" if 5..,
        device_id: WideText<'a> = "DeviceID",
        description: WideText<'a> = "DeviceDescription",
        friendly_name: WideText<'a> = "FriendlyName",
        pdo_name: Option<WideText<'a>> = "PdoName" if 3..,
        service_name: Option<WideText<'a>> = "ServiceName" if 3..,
        filters: Option<Bytes<'a>> = "Filters" if 4..,
    }
}

record! {
    /// 0x0B17.
    ConfigIdeChannel<'a> {
        target_id: u32 = "TargetId",
        device_type: Flags = "DeviceType",
        device_timing_mode: Flags = "DeviceTimingMode",
        location_length: u32 = "LocationInformationLen",
        location: WideText<'a> = "LocationInformation",
    }
}

record! {
    /// 0x0B18: a mask and a group per node.
    ConfigNuma<'a> {
        node_count: u32 = "NodeCount",
        nodes: Bytes<'a> = "NodeMap",
    }
}

record! {
    /// 0x0B19.
    ConfigPlatform<'a> {
        manufacturer: WideText<'a> = "SystemManufacturer",
        product: WideText<'a> = "SystemProductName",
        bios_date: WideText<'a> = "BiosDate",
        bios_version: WideText<'a> = "BiosVersion",
    }
}

record! {
    /// 0x0B1A.
    ConfigProcessorGroups<'a> {
        group_count: u32 = "GroupCount",
        affinity: Addresses<'a> = "Affinity",
    }
}

record! {
    /// 0x0B1B: group, number in the group and a spare byte per processor.
    ConfigProcessorNumbers<'a> {
        processor_count: u32 = "ProcessorCount",
        numbers: Bytes<'a> = "ProcessorNumber",
    }
}

record! {
    /// 0x0B1C.
    ConfigDpi {
        machine: u32 = "MachineDPI",
        user: u32 = "UserDPI",
    }
}

record! {
    /// 0x0B1D.
    ConfigCodeIntegrity { information: Flags = "CodeIntegrityInfo", }
}

record! {
    /// 0x0B1E.
    ConfigMachineId { id: Guid = "MachineId", }
}

record! {
    /// 0x0B21.
    ConfigDeviceFamily {
        /// Four numbers of 16 bits: major, minor, build, revision, from the top.
        version: u64 = "UAPInfo",
        family: u32 = "DeviceFamily",
        form: u32 = "DeviceForm",
    }
}

record! {
    /// 0x0B22.
    ConfigFlights<'a> {
        update_id: WideText<'a> = "UpdateId",
        flight_ids: WideText<'a> = "FlightIdList",
    }
}

record! {
    /// 0x0B23, one per processor.
    ConfigProcessor<'a> {
        index: u32 = "ProcessorIndex",
        feature_set: Flags = "FeatureSet",
        speed: u32 = "ProcessorSpeed",
        name: FixedWide<'a, 64> = "ProcessorName",
        identifier: FixedWide<'a, 128> = "ProcessorIdentifier",
        vendor: FixedWide<'a, 16> = "VendorIdentifier",
    }
}

record! {
    /// 0x0B24.
    ConfigVirtualization {
        vbs_enabled: u8 = "VbsEnabled",
        hvci_enabled: u8 = "HvciEnabled",
        hypervisor_enabled: u8 = "HyperVisorEnabled",
        reserved: u8 = "Reserved",
    }
}

record! {
    /// 0x0B25.
    ConfigBoot {
        flags: u64 = "BootFlags",
        /// 1 BIOS, 2 UEFI.
        firmware_type: u32 = "FirmwareType",
        secure_boot_enabled: u8 = "SecureBootEnabled",
        secure_boot_capable: u8 = "SecureBootCapable",
        reserved: u16 = "Reserved",
    }
}

/// Every kind of this group, so that the large ones do not widen the common events.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Config<'a> {
    Cpu(ConfigCpu<'a>),
    PhysicalDisk(ConfigPhysicalDisk<'a>),
    LogicalDisk(ConfigLogicalDisk<'a>),
    NetworkCard(ConfigNetworkCard<'a>),
    Video(ConfigVideo<'a>),
    Service(ConfigService<'a>),
    Power(ConfigPower<'a>),
    Network(ConfigNetwork),
    OpticalMedia(ConfigOpticalMedia<'a>),
    Irq(ConfigIrq<'a>),
    PlugAndPlay(ConfigPlugAndPlay<'a>),
    IdeChannel(ConfigIdeChannel<'a>),
    Numa(ConfigNuma<'a>),
    Platform(ConfigPlatform<'a>),
    ProcessorGroups(ConfigProcessorGroups<'a>),
    ProcessorNumbers(ConfigProcessorNumbers<'a>),
    Dpi(ConfigDpi),
    CodeIntegrity(ConfigCodeIntegrity),
    MachineId(ConfigMachineId),
    DeviceFamily(ConfigDeviceFamily),
    Flights(ConfigFlights<'a>),
    Processor(ConfigProcessor<'a>),
    Virtualization(ConfigVirtualization),
    Boot(ConfigBoot),
}

macro_rules! each {
    ($config:expr, $($variant:ident),*; $body:ident => $result:expr) => {
        match $config { $(Config::$variant($body) => $result,)* }
    };
}

impl Config<'_> {
    pub(super) fn visit<V: Visitor + ?Sized>(&self, visitor: &mut V) {
        each!(self, Cpu, PhysicalDisk, LogicalDisk, NetworkCard, Video, Service, Power, Network, OpticalMedia, Irq,
              PlugAndPlay, IdeChannel, Numa, Platform, ProcessorGroups, ProcessorNumbers, Dpi, CodeIntegrity,
              MachineId, DeviceFamily, Flights, Processor, Virtualization, Boot; body => body.visit(visitor));
    }
}
