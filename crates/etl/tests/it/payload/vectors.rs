//! Single events captured on Windows, with their expected field values.

use std::collections::BTreeMap;

use ortscope_etl::payload::kernel::{
    Config, IMAGE_ID_CLASS, KernelBody, KernelPayload, SYSTEM_CONFIG_EX_CLASS,
};
use ortscope_etl::payload::{InType, Scalar};
use ortscope_etl::{Classic, EventDescriptor, EventRecord, Guid, HeaderKind, Hook, Identity, PointerSize};

use super::Fields;
use crate::corpus;

struct Vector {
    name: String,
    bytes: Vec<u8>,
    expected: BTreeMap<String, String>,
}

fn vectors() -> Vec<Vector> {
    let Some(folder) = corpus::traces().first().map(|trace| trace.path.parent().unwrap().to_owned()) else {
        return Vec::new();
    };
    let text = std::fs::read_to_string(folder.join("event-vectors.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let hex = |text: &str| {
        let digits = text.as_bytes().as_chunks::<2>().0;
        digits.iter().map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    };
    let vectors: Vec<Vector> = json["vectors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|vector| Vector {
            name: vector["name"].as_str().unwrap().to_owned(),
            bytes: hex(vector["hex"].as_str().unwrap()),
            expected: vector["expected"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, value)| (name.clone(), plain(value.as_str().unwrap())))
                .collect(),
        })
        .collect();
    assert_eq!(vectors.len(), 39);
    vectors
}

/// The expectations are written in C++: `0x0000'7ff7ULL`, `std::u16string(u"a\\b")`.
fn plain(cpp: &str) -> String {
    let text = cpp.trim_end_matches("ULL").replace('\'', "");
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).map_or(text, |number| number.to_string());
    }
    match (text.find('"'), text.rfind('"')) {
        (Some(first), Some(last)) => text[first + 1..last].replace("\\\\", "\\"),
        _ => text,
    }
}

/// Names in the vectors that differ from ours, without case and separators.
const RENAMED: [(&str, &str); 22] = [
    ("reserved_flags", "ReservedFlags"),
    ("session_name", "SessionNameString"),
    ("file_name", "LogFileNameString"),
    ("max_file_size", "MaxFileSize"),
    ("perf_freq", "PerfFreq"),
    ("image_checksum", "ImageChecksum"),
    ("event_version_", "EventVersion"),
    ("win32_start_addr", "Win32StartAddr"),
    ("event_timestamp", "EventTimeStamp"),
    ("flags", "ThreadFlags"),
    ("drive_letter", "DriveLetterString"),
    ("volume_extent", "VolumeExt"),
    ("new_thread_wait_time", "NewThreadWaitTime"),
    ("time_zone_information.bias", "Bias"),
    ("time_zone_information.standard_name", "StandardName"),
    ("time_zone_information.standard_bias", "StandardBias"),
    ("time_zone_information.daylight_name", "DaylightName"),
    ("time_zone_information.daylight_bias", "DaylightBias"),
    ("thread_id", "TThreadId"),
    ("process_id", "StackProcess"),
    ("thread_id", "StackThread"),
    ("nt_path", "Value"),
];

/// Values that no single field has: bits and parts of fields, and counts of lists.
fn derived(body: &KernelBody<'_>, name: &str) -> Option<String> {
    let index = |name: &str| -> Option<(String, usize)> {
        let (list, rest) = name.split_once('(')?;
        let (number, rest) = rest.split_once(')')?;
        Some((format!("{list}{rest}"), number.parse().ok()?))
    };
    Some(match (body, name) {
        (KernelBody::LogfileHeader(header), _) => {
            let [major, minor, sub, sub_minor] = header.version.to_le_bytes();
            let date = |date: ortscope_etl::payload::SystemTime, part: &str| match part {
                "year" => date.year,
                "month" => date.month,
                "day_of_week" => date.day_of_week,
                "day" => date.day,
                "hour" => date.hour,
                "minute" => date.minute,
                "second" => date.second,
                "milliseconds" => date.millisecond,
                other => panic!("{other}"),
            };
            match name {
                "os_version_major" => major.to_string(),
                "os_version_minor" => minor.to_string(),
                "sp_version_major" => sub.to_string(),
                "sp_version_minor" => sub_minor.to_string(),
                "log_file_mode.count" => header.log_file_mode.count_ones().to_string(),
                "end_time" => header.end_time.0.to_string(),
                "boot_time" => header.boot_time.0.to_string(),
                "start_time" => header.start_time.0.to_string(),
                "logger_name" => header.logger_name.0.to_string(),
                "log_file_name" => header.log_file_name.0.to_string(),
                _ => {
                    let rest = name.strip_prefix("time_zone_information.")?;
                    match rest.split_once('.')? {
                        ("standard_date", part) => date(header.standard_date, part).to_string(),
                        ("daylight_date", part) => date(header.daylight_date, part).to_string(),
                        _ => return None,
                    }
                }
            }
        }
        // The vector's author reads flags and rank as one number.
        (KernelBody::SampledProfile(sample), "reserved") => {
            u16::from_le_bytes([sample.flags, sample.rank]).to_string()
        }
        (KernelBody::CounterConfig(config), "counter_count") => config.names().count().to_string(),
        (KernelBody::CounterConfig(config), _) => config.names().nth(index(name)?.1)?.to_string(),
        (KernelBody::CounterCorruption(corruption), _) => match index(name)? {
            (of, at) if of == "counter_status.profile_source" => corruption.entries().nth(at)?.0.to_string(),
            (_, at) => corruption.entries().nth(at)?.1.to_string(),
        },
        (KernelBody::StackWalk(stack), "stack_size") => stack.addresses.len().to_string(),
        (KernelBody::StackWalk(stack), _) => stack.addresses.iter().nth(index(name)?.1)?.to_string(),
        (KernelBody::StackDefinition(stack), "stack_size") => stack.addresses.len().to_string(),
        (KernelBody::StackDefinition(stack), _) => stack.addresses.iter().nth(index(name)?.1)?.to_string(),
        (KernelBody::Process(process), "user_sid.revision") => process.owner.0?.bytes()[0].to_string(),
        (KernelBody::Process(process), "user_sid.sub_authority_count") => {
            process.owner.0?.bytes()[1].to_string()
        }
        (KernelBody::Process(process), "flags") => process.flags?.0.to_string(),
        (KernelBody::PartitionInfo(_), _) => return None,
        (KernelBody::Config(Config::PlugAndPlay(device)), "dev_status") => device.status?.0.to_string(),
        (KernelBody::Config(Config::LogicalDisk(disk)), "drive_type") => {
            let names = ["", "drive_type::partition", "drive_type::volume", "drive_type::extended_partition"];
            names[disk.drive_type as usize].to_owned()
        }
        (KernelBody::BuildInfo(info), "install_date") => info.install_date.0.to_string(),
        _ => return None,
    })
}

/// The size is checked by the remaining bytes. TOKEN_USER is two irrelevant pointers, which are skipped. The vectors
/// lack the indices of the last two; the SID is compared as a whole below.
const NOT_COMPARED: [&str; 4] =
    ["dynamic_size", "user_sid_token_user", "user_sid.identifier_authority", "user_sid.sub_authority"];

fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// Hook and version of each kernel vector.
fn kernel_event(name: &str) -> Option<(u16, u16)> {
    Some(match name {
        "Kernel_EventTraceV2HeaderEventView" => (0x0000, 2),
        "Kernel_EventTraceV2HeaderPartitionInfoExtensionTypeGroup" => (0x0050, 2),
        "Kernel_EventTraceV2HeaderExtensionTypeGroup" => (0x0005, 2),
        "Kernel_PerfinfoV2SampledProfileEventView" => (0x0f2e, 2),
        "Kernel_PerfinfoV2PmcCounterProfileEventView" => (0x0f2f, 2),
        "Kernel_PerfinfoV2PmcCounterConfigEventView" => (0x0f30, 2),
        // Its text says version 2, but the source name exists since version 3.
        "Kernel_PerfinfoV2SampledProfileIntervalEventView" => (0x0f49, 3),
        "Kernel_PerfinfoV2PmcCounterCorruptionEventView" => (0x0f31, 2),
        "Kernel_StackwalkV2StackEventView" => (0x1820, 2),
        "Kernel_StackwalkV2KeyEventView" => (0x1825, 2),
        "Kernel_StackwalkV2TypeGroup1EventView" => (0x1824, 2),
        "Kernel_ImageV2LoadEventView" => (0x030a, 2),
        "Kernel_ProcessV4TypeGroup1EventView" => (0x0301, 4),
        "Kernel_ProcessV2TypeGroup2EventView" => (0x0320, 2),
        "Kernel_ThreadV3TypeGroup1EventView" => (0x0501, 3),
        "Kernel_ThreadV4TypeGroup1EventView" => (0x0501, 4),
        "Kernel_ThreadV4ContextSwitchEventView" => (0x0524, 4),
        "Kernel_ThreadV2SetNameEventView" => (0x0548, 2),
        "Kernel_SystemConfigV3CpuEventView" => (0x0b0a, 3),
        "Kernel_SystemConfigV2PhysicalDiskEventView" => (0x0b0b, 2),
        "Kernel_SystemConfigV2LogicalDiskEventView" => (0x0b0c, 2),
        "Kernel_SystemConfigV5PnpEventView" => (0x0b16, 5),
        _ => return None,
    })
}

fn merged_event(name: &str) -> Option<(Guid, u8, u16)> {
    Some(match name {
        "Xperf_ImageIdV2InfoEventView" => (IMAGE_ID_CLASS, 0, 2),
        "Xperf_ImageIdV2DbgIdPdbInfoEventView" => (IMAGE_ID_CLASS, 36, 2),
        "Xperf_SysConfigExV0BuildInfoEventView" => (SYSTEM_CONFIG_EX_CLASS, 32, 0),
        "Xperf_SysConfigExV0SysPathsEventView" => (SYSTEM_CONFIG_EX_CLASS, 33, 0),
        "Xperf_SysConfigExV0VolumeMappingEventView" => (SYSTEM_CONFIG_EX_CLASS, 35, 0),
        _ => return None,
    })
}

fn record(identity: Identity, payload: &[u8]) -> EventRecord<'_> {
    EventRecord {
        kind: HeaderKind::System,
        pointer_size: PointerSize::Eight,
        identity,
        ticks: 0,
        processor: 0,
        logger: 0,
        process_id: None,
        thread_id: None,
        cpu_times: None,
        activity: None,
        extended_bytes: &[],
        pebs_index: None,
        counter_bytes: &[],
        payload,
        bytes: payload,
    }
}

#[test]
fn kernel_and_merge_vectors_have_expected_values() {
    let mut decoded = 0;
    for vector in vectors() {
        let identity = match (kernel_event(&vector.name), merged_event(&vector.name)) {
            (Some((hook, version)), _) => Identity::Kernel { hook: Hook(hook), version },
            (None, Some((class, kind, version))) => {
                Identity::Classic(Classic { class, kind, level: 0, version })
            }
            (None, None) => continue,
        };
        let record = record(identity, &vector.bytes);
        let payload =
            KernelPayload::decode(&record).unwrap_or_else(|error| panic!("{}: {error}", vector.name));
        assert!(payload.left_over.is_empty() && !payload.newer_than_known, "{}", vector.name);
        let mut fields = Fields::default();
        payload.visit(&mut fields);
        for (name, expected) in &vector.expected {
            if NOT_COMPARED.contains(&name.as_str()) {
                continue;
            }
            // Both fields of one name are in RENAMED: the one that this event has is meant.
            let renamed = RENAMED.iter().filter(|(theirs, _)| theirs == name).map(|(_, ours)| *ours);
            let mut names = renamed.map(letters).chain([letters(name)]);
            let shown = derived(&payload.body, name).or_else(|| {
                names
                    .find_map(|wanted| fields.list.iter().find(|(ours, _)| letters(ours) == wanted))
                    .map(|(_, value)| plain(value))
            });
            assert_eq!(
                shown.as_ref(),
                Some(expected),
                "{} {name}; fields are {:?}",
                vector.name,
                fields.list
            );
        }
        if let KernelBody::Process(process) = payload.body {
            assert_eq!(process.owner.0.unwrap().to_string(), "S-1-5-18");
        }
        decoded += 1;
    }
    assert!(decoded == 27 || vectors().is_empty(), "{decoded}");
}

/// Events of two profiler providers: without a schema, but with plain consecutive types.
#[test]
fn profiler_vectors_are_read_as_plain_types() {
    let wide = |text: &str| text.to_owned();
    let layouts: [(&str, &[(InType, &str)]); 5] = [
        (
            "VsDiagHub_TargetProfilingStartedV2EventView",
            &[(InType::U32, "process_id"), (InType::U32, "?"), (InType::U64, "timestamp")],
        ),
        (
            "VsDiagHub_TargetProfilingStoppedV1EventView",
            &[(InType::U32, "process_id"), (InType::U64, "timestamp")],
        ),
        (
            "VsDiagHub_MachineInfoV0EventView",
            &[(InType::WIDE, "name"), (InType::WIDE, "os_description"), (InType::U32, "?")],
        ),
        (
            "VsDiagHub_CounterInfoV0EventView",
            &[(InType::U32, "?"), (InType::U64, "timestamp"), (InType::F64, "value")],
        ),
        ("SnailProfiler_ProfileTarget", &[(InType::U32, "process_id")]),
    ];
    let vectors = vectors();
    for (name, layout) in layouts {
        let Some(vector) = vectors.iter().find(|vector| vector.name == name) else { return };
        let mut cursor = ortscope_etl::payload::Cursor::new(&vector.bytes, PointerSize::Eight, 0);
        for (in_type, field) in layout {
            let value = Scalar::plain(*in_type).read(&mut cursor, None).unwrap().to_string();
            assert!(*field == "?" || wide(&vector.expected[*field]) == value, "{name} {field} {value}");
        }
        assert!(cursor.is_at_end(), "{name}");
    }
}

/// The header vectors, wrapped into a file, give the records that they describe.
#[test]
fn header_vectors_are_parsed() {
    let vectors = vectors();
    let vector = |name: &str| vectors.iter().find(|vector| vector.name == name);
    let Some(buffer) = vector("WmiBufferHeader") else { return };
    let field = |name: &str| buffer.expected[name].parse::<u32>().unwrap();
    let word = |at: usize| u32::from_le_bytes(buffer.bytes[at..at + 4].try_into().unwrap());
    assert_eq!(
        (word(0), word(4), word(0x30)),
        (field("wnode.buffer_size"), field("wnode.saved_offset"), field("offset"))
    );

    // A file of two buffers: the captured header buffer, and one with the headers as events.
    let header = vector("Kernel_EventTraceV2HeaderEventView").unwrap();
    let mut first = buffer.bytes.clone();
    first.extend_from_slice(&vector("SystemTraceHeader").unwrap().bytes);
    first.extend_from_slice(&header.bytes);
    first.resize(0x10000, 0xff);
    let mut second = buffer.bytes.clone();
    let names = [
        "PerfInfoTraceHeader",
        "PerfInfoTraceHeaderExtPmc",
        "PerfInfoTraceHeaderExtPebsExtPmc",
        "FullHeaderTraceHeader",
        "EventHeaderTraceHeader",
    ];
    for name in names {
        let bytes = &vector(name).unwrap().bytes;
        let at_4 = name.starts_with("PerfInfo");
        let size_at = if at_4 { 4 } else { 0 };
        let said = usize::from(u16::from_le_bytes([bytes[size_at], bytes[size_at + 1]]));
        let start = second.len();
        second.extend_from_slice(bytes);
        second.resize(start + said.max(bytes.len()).next_multiple_of(8), 0);
        // The vector with PEBS states the size of the one without.
        let size = (said.max(bytes.len()) as u16).to_le_bytes();
        second[start + size_at..start + size_at + 2].copy_from_slice(&size);
    }
    let end = (second.len() as u32).to_le_bytes();
    second[4..8].copy_from_slice(&end);
    second[0x30..0x34].copy_from_slice(&end);
    second[0x18] = 1;
    second[0x34..0x38].copy_from_slice(&[0, 0, 0, 0]);
    second.resize(0x10000, 0xff);
    let mut seen = Vec::new();
    super::each_record(&[first, second].concat(), |record| {
        seen.push((
            record.identity,
            record.ticks,
            record.thread_id,
            record.pebs_index,
            record.counters().collect::<Vec<_>>(),
        ));
    });
    let kernel = |hook, version| Identity::Kernel { hook: Hook(hook), version };
    assert!(seen.contains(&(kernel(0, 2), 3_072_009_292_933, Some(18296), None, vec![])));
    assert!(seen.iter().any(|(identity, ..)| *identity == kernel(0x0f2e, 2)));
    let switches: Vec<_> = seen.iter().filter(|(identity, ..)| *identity == kernel(0x0524, 4)).collect();
    let [plain, pebs] = &switches[..] else { panic!("{switches:?}") };
    assert_eq!((plain.3, &plain.4[..]), (None, &[3896, 9400][..]));
    assert_eq!((pebs.3, &pebs.4[..]), (Some(0x7ff7_4fc9_4559), &[3896, 9400][..]));
    let classic = Classic { class: IMAGE_ID_CLASS, kind: 64, level: 0, version: 0 };
    assert!(
        seen.iter()
            .any(|(identity, ticks, ..)| *identity == Identity::Classic(classic)
                && *ticks == 3_072_009_312_284)
    );
    let provider = Guid::new(0x9e5f9046_43c6_4f62_ba13_7b19896253ff);
    let event =
        Identity::Event { provider, descriptor: EventDescriptor { id: 6, ..EventDescriptor::default() } };
    assert!(seen.iter().any(|(identity, ticks, ..)| *identity == event && *ticks == 3_072_041_514_673));
}
