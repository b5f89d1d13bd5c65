//! Comparison with PerfView's output for the same files: the first five events of every kind with their fields, and
//! their numbers.
//!
//! Every line must match an event by time (to a microsecond), processor and length, and every field must agree.
//! Permitted differences are listed below with their reasons.

use std::collections::{BTreeMap, HashMap};

use ortscope_etl::payload::kernel::{self, KernelBody, KernelPayload};
use ortscope_etl::payload::trace_logging::TraceLogging;
use ortscope_etl::payload::{SchemaSource, SchemaStore};
use ortscope_etl::{Clock, EtlBytes, EventRecord, Identity};

use super::{Fields, each_record};
use crate::corpus::{self, Trace};

/// Events that PerfView drops or merges: our count differs.
const COUNTED_OTHERWISE: [(&str, &str); 14] = [
    ("Windows Kernel/Thread/DCStart", "dropped: its own table of threads"),
    ("Windows Kernel/Thread/DCStop", "dropped: its own table of threads"),
    ("Windows Kernel/PerfInfo/Sample", "samples of the idle thread without a stack are dropped"),
    ("Windows Kernel/StackWalk/Stack", "attached to events"),
    ("Windows Kernel/StackWalk/StackKeyKernel", "attached to events"),
    ("Windows Kernel/StackWalk/StackKeyUser", "attached to events"),
    ("Windows Kernel/StackWalk/KeyDelete", "attached to events"),
    ("Windows Kernel/StackWalk/KeyRundown", "attached to events"),
    ("Windows Kernel/FileIO/FileCreate", "its own table of files"),
    ("Windows Kernel/FileIO/FileDelete", "its own table of files"),
    ("Windows Kernel/FileIO/FileRundown", "its own table of files"),
    ("Windows Kernel/Image/HypercallPage", "not known to it"),
    ("Windows Kernel/SystemConfig/DPI", "not known to it"),
    ("Windows Kernel/SystemConfig/OpticalMedia", "not known to it"),
];

/// Unknown to the PerfView version of the baselines.
const NEWER: &str = "Windows Kernel/EventTrace/PartitionInfoExtension";

/// PerfView's names of fields that have the kernel schema's names here.
const RENAMED: [(&str, &str); 9] = [
    ("PageDirectoryBase", "DirectoryTableBase"),
    ("MemoryCount", "PageFaultCount"),
    ("SampleSource", "Source"),
    ("FileKey", "FileObject"),
    // Version 3 has the affinity where version 2 had the start address.
    ("StartAddr", "Affinity"),
    ("SessionName", "SessionNameString"),
    ("LogFileName", "LogFileNameString"),
    ("IrpPtr", "Irp"),
    ("FileAttributes", "CreateAttributes"),
];

/// Fields by event (a prefix) and name that are not compared.
const NOT_COMPARED: [(&str, &str, &str); 48] = [
    ("", "PName", "looked up: the process of the id"),
    ("", "BuildTime", "computed from TimeDateStamp"),
    ("", "UtcOffsetMinutes", "computed from the time zone"),
    ("", "ModuleILFileName", "computed from the path"),
    ("", "PayloadLength", "the length of the event again"),
    ("", "level", "an enumeration of PerfView's own"),
    ("Windows Kernel/DiskIO", "DiskServiceTimeMSec", "computed from all transfers of the disk"),
    ("Windows Kernel/DiskIO", "FileName", "looked up: the file of the key"),
    ("Windows Kernel/DiskIO", "IrpFlags", "shown as names"),
    ("Windows Kernel/DiskIO", "Priority", "computed from IrpFlags"),
    ("Windows Kernel/DiskIO/FlushBuffers", "TID", "read at the wrong place by PerfView"),
    ("Windows Kernel/Memory/HardFault", "FileName", "looked up: the file of the key"),
    ("Windows Kernel/Process", "Flags", "shown as names"),
    ("Windows Kernel/Thread", "ParentProcessID", "of the header, for starts only"),
    ("Windows Kernel/Thread", "ParentThreadID", "of the header, for starts only"),
    ("Windows Kernel/Thread", "ThreadName", "empty where the event has none"),
    ("Windows Kernel/UdpIp", "context", "read as the layout of version 0 by PerfView"),
    ("Windows Kernel/UdpIp", "dsize", "read as the layout of version 0 by PerfView"),
    ("Windows Kernel/SystemConfig/NIC", "PhysicalAddr", "shown as a signed number and cut"),
    ("Windows Kernel/SystemConfig/Services", "ProcessName", "looked up: the process of the id"),
    ("KernelTraceControl/ImageID", "ProcessID", "PerfView shows the upper half of the size"),
    ("Microsoft-Windows-DNS-Client", "Address", "a socket address, shown as bytes here"),
    ("Microsoft-Windows-Kernel-File/Create", "CreateDisposition", "a part of CreateOptions"),
    ("Microsoft-Windows-Kernel-File/Create", "CreateOptions", "without the disposition"),
    ("Microsoft-Windows-Kernel-File/Create", "ShareAccess", "shown as names"),
    ("PerfView/KernelEnableParameters", "keywords", "shown as names"),
    ("PerfView/KernelEnableParameters", "stacks", "shown as names"),
    ("solar_system", "system_time_type", "PerfView shows the month as milliseconds"),
    ("Microsoft-Windows-DotNETRuntime", "Flags", "shown as a number"),
    ("Microsoft-Windows-DotNETRuntime", "AppDomainFlags", "shown as a number where a bit has no name"),
    ("Microsoft-Windows-DotNETRuntime", "AssemblyFlags", "no bits are shown as a name"),
    ("Microsoft-Windows-DotNETRuntime", "ModuleFlags", "names are separated otherwise"),
    ("Microsoft-Windows-DotNETRuntime", "AllocationKind", "shown as a name"),
    ("Microsoft-Windows-DotNETRuntime", "Type", "shown as a name"),
    ("Microsoft-Windows-DotNETRuntime", "Reason", "shown as a name"),
    ("Microsoft-Windows-DotNETRuntime", "ReasonCode", "shown as a name"),
    ("Microsoft-Windows-DotNETRuntime", "Sku", "shown as a name"),
    ("Microsoft-Windows-DotNETRuntime", "StartupMode", "shown as a name"),
    ("Microsoft-Windows-DotNETRuntime", "StartupFlags", "shown as a name"),
    ("Microsoft-Windows-DotNETRuntime", "BucketKind", "shown as a name"),
    ("Microsoft-Windows-DotNETRuntime", "PauseMode", "shown as a name"),
    ("Microsoft-Windows-DotNETRuntime", "GlobalMechanisms", "shown as names"),
    ("Microsoft-Windows-DotNETRuntime", "CompactMechanisms", "shown as names"),
    ("Microsoft-Windows-DotNETRuntime", "ExpandMechanisms", "shown as names"),
    ("Microsoft-Windows-DotNETRuntime", "OptimizationTier", "of newer versions of the event"),
    ("Microsoft-Windows-DotNETRuntime", "TypeName_0", "a list of structures, one field each"),
    ("Microsoft-Windows-DotNETRuntime", "TypeID_0", "a list of structures, one field each"),
    (
        "Microsoft-Windows-DotNETRuntimePrivate/GC/PerHeapHistory",
        "",
        "the layout of version 2 is not in the manifest",
    ),
];

/// Fields that PerfView shows for every version although the event's version lacks them: computed, empty or 0.
const OF_NEWER_VERSIONS: [&str; 14] = [
    "ObjectSize",
    "Depth",
    "GenerationSize4",
    "TotalPromotedSize4",
    "TotalHeapSize",
    "TotalPromoted",
    "ClientSequenceNumber",
    "ReJITID",
    "CondemnReasons0",
    "CondemnReasons1",
    "Count",
    "MemoryPressure",
    "PauseMode",
    "ConcurrentCompactMechanisms",
];

struct Line {
    microseconds: i64,
    /// Provider and event, as `Windows Kernel/Process/Start`.
    name: String,
    fields: Vec<(String, String)>,
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let (time, rest) = line.strip_prefix("EVENT ")?.split_once(": ")?;
        let (name, fields) = rest.split_at(rest.find(" PID=")?);
        let (whole, part) = time.split_once('.')?;
        let microseconds = format!("{}{part}", whole.replace(',', "")).parse().ok()?;
        let fields =
            fields.trim().split("; ").filter_map(|field| field.trim_end_matches(';').split_once('='));
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Some(Self { microseconds, name: name.to_owned(), fields })
    }

    fn get(&self, name: &str) -> &str {
        self.fields.iter().find(|(of, _)| of == name).map_or("", |(_, value)| value)
    }
}

/// State when a line's event is reached in chronological order.
#[derive(Default)]
struct Context {
    process_of_thread: HashMap<u32, u32>,
    /// Maps device names to drives.
    volumes: Vec<(String, String)>,
}

impl Context {
    fn learn(&mut self, record: &EventRecord<'_>) {
        match KernelPayload::decode(record).map(|payload| payload.body) {
            Ok(KernelBody::Thread(thread)) => {
                self.process_of_thread.insert(thread.thread_id, thread.process_id);
            }
            Ok(KernelBody::VolumeMapping(volume)) if !volume.dos_path.is_empty() => {
                self.volumes.push((volume.nt_path.to_string(), volume.dos_path.to_string()));
            }
            _ => {}
        }
    }

    fn dos_path(&self, path: &str) -> String {
        let network = path.strip_prefix(r"\Device\Mup").map(|rest| format!(r"\{rest}"));
        let mapped = || {
            let (nt, dos) = self.volumes.iter().find(|(nt, _)| path.starts_with(nt.as_str()))?;
            Some(format!("{dos}{}", &path[nt.len()..]))
        };
        // Paths on the system drive may omit the drive.
        let system = || path.starts_with(r"\Windows\").then(|| format!("C:{path}"));
        network.or_else(mapped).or_else(system).unwrap_or_else(|| path.to_owned())
    }
}

fn name_of(record: &EventRecord<'_>) -> Option<String> {
    let kernel = match record.identity {
        Identity::Kernel { hook, .. } => kernel::hook_name(hook)?,
        Identity::Classic(classic) => kernel::classic_name(&classic)?,
        Identity::Event { .. } => {
            let event = TraceLogging::of(record)?;
            return Some(format!("{}/{}", event.provider_name?, event.event_name));
        }
        _ => return None,
    };
    Some(match kernel {
        "SysConfig/DeviceFamily" => "Windows Kernel/SysConfig/Opcode(37)".to_owned(),
        "Image/KernelBase" | "SystemConfig/Platform" => format!("MSNT_SystemTrace/{kernel}"),
        _ if kernel.starts_with("ImageID") || kernel.starts_with("MetaData") => {
            format!("KernelTraceControl/{kernel}")
        }
        _ => format!("Windows Kernel/{kernel}"),
    })
}

fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// `65,536`, `0x0a`, `-1` for 2³²-1, `True`, text cut after 20 characters, `20/07/29 00:07:10.69...`.
fn same(theirs: &str, ours: &str) -> bool {
    if theirs.eq_ignore_ascii_case(ours) {
        return true;
    }
    if let Some(start) = theirs.strip_suffix("...") {
        let date = ours.get(2..).unwrap_or("").replacen('-', "/", 2).replacen('T', " ", 1);
        return start.chars().count() == 20 && (ours.starts_with(start) || date.starts_with(start));
    }
    let number = |text: &str| -> Option<i128> {
        let text = text.replace(',', "");
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok().map(i128::from),
            None => text.parse().ok(),
        }
    };
    match (number(theirs), number(ours)) {
        (Some(a), Some(b)) => a == b || (a < 0 && (a + (1 << 32) == b || a + (1 << 64) == b)),
        _ => false,
    }
}

/// Fields that disagree and are not listed.
fn differences(
    line: &Line,
    record: &EventRecord<'_>,
    store: &SchemaStore,
    context: &Context,
    clock: &Clock,
) -> Vec<String> {
    let mut fields = Fields::default();
    if store.decode(record, &mut fields).source == SchemaSource::Unknown {
        // Structures without a schema in the file or in our tables.
        return if line.name.ends_with("/BulkType") { vec![] } else { vec!["no schema".to_owned()] };
    }
    let number = |name: &str| fields.get(name).and_then(|value| value.parse::<u32>().ok());
    let signed = |id: Option<u32>| id.map_or_else(|| "-1".to_owned(), |id| (id as i32).to_string());
    let payload_thread = number("TThreadId").or(number("ThreadId")).or(number("IssuingThreadId"));
    let payload_process = number("ProcessId").or(number("PID")).or(number("StackProcess"));
    let is_any = |theirs: &str, ids: [Option<u32>; 3]| ids.iter().any(|id| signed(*id) == theirs);
    let milliseconds = |ticks: u64| format!("{:.3}", clock.nanos_of(ticks) as f64 / 1e6);
    let field_u64 = |name: &str| fields.get(name).and_then(|value| value.parse::<u64>().ok());
    let flags = number("Flags").unwrap_or(0);
    let mut bad = Vec::new();
    for (name, theirs) in &line.fields {
        if NOT_COMPARED
            .iter()
            .any(|(event, field, _)| line.name.starts_with(event) && (field == name || field.is_empty()))
        {
            continue;
        }
        let ours = match name.as_str() {
            "DataLen" => record.payload.len().to_string(),
            "ProceNum" | "ProcessorNumber" => record.processor.to_string(),
            // From the header or the payload: PerfView uses the process that an event is about.
            "PID" => {
                let by_thread =
                    payload_thread.and_then(|thread| context.process_of_thread.get(&thread).copied());
                if is_any(theirs, [record.process_id, payload_process, by_thread]) {
                    continue;
                }
                format!("{:?} {payload_process:?} {by_thread:?}", record.process_id)
            }
            // Events about a process or an image are not attributed to the thread that logged them.
            "TID" => {
                let about_process = line.name.contains("/Process/") || line.name.contains("/Image");
                if is_any(theirs, [record.thread_id, payload_thread, None])
                    && (theirs != "-1" || about_process || record.thread_id.is_none())
                {
                    continue;
                }
                format!("{:?} {payload_thread:?}", record.thread_id)
            }
            "ElapsedTimeMSec" => match field_u64("InitialTime") {
                Some(start) => milliseconds(record.ticks - start),
                None => milliseconds(field_u64("HighResResponseTime").unwrap_or(0)),
            },
            "ExecutingDPC" => (flags & 1 != 0).to_string(),
            "ExecutingISR" => (flags & 2 != 0).to_string(),
            "Priority" => (flags >> 3).to_string(),
            _ => {
                let renamed =
                    RENAMED.iter().find(|(theirs, ours)| theirs == name && fields.get(ours).is_some());
                let wanted = letters(renamed.map_or(name.as_str(), |(_, ours)| ours));
                let found = fields.list.iter().find(|(of, _)| letters(of) == wanted);
                match found {
                    Some((_, value)) if name == "FileName" => context.dos_path(value),
                    Some((_, value)) => value.clone(),
                    None if line.name.contains("DotNETRuntime")
                        && OF_NEWER_VERSIONS.contains(&name.as_str()) =>
                    {
                        continue;
                    }
                    // Looked up in the type table that other events fill.
                    None if name == "TypeName" && line.name.ends_with("/FinalizeObject") => continue,
                    None => "absent".to_owned(),
                }
            }
        };
        // Half a microsecond is rounded to even there and up here.
        let is_near = |theirs: &str| match (theirs.replace(',', "").parse::<f64>(), ours.parse::<f64>()) {
            (Ok(a), Ok(b)) => name == "ElapsedTimeMSec" && (a - b).abs() < 0.0015,
            _ => false,
        };
        if !same(theirs, &ours) && !is_near(theirs) {
            bad.push(format!("{name}: {theirs} here {ours}"));
        }
    }
    bad
}

fn compare(trace: &Trace, baseline: &str) {
    let folder = trace.path.parent().unwrap().join("perfview-expected");
    let text = std::fs::read_to_string(folder.join(baseline)).unwrap();
    let lines: Vec<Line> = text.lines().filter_map(Line::parse).collect();
    assert_eq!(lines.len(), text.lines().filter(|line| line.starts_with("EVENT")).count());
    let bytes = trace.bytes();
    let clock = EtlBytes::new(&bytes).unwrap().header().clock;
    let mut store = SchemaStore::new();
    // Threads are also known from the list at the end, so the whole trace is read first.
    let mut context = Context::default();
    each_record(&bytes, |record| {
        store.learn(record);
        context.learn(record);
    });
    let mut wanted: HashMap<i64, Vec<usize>> = HashMap::new();
    for (index, line) in lines.iter().enumerate() {
        for near in -1..=1 {
            wanted.entry(line.microseconds + near).or_default().push(index);
        }
    }
    // The fewest differences among the events with the line's time, processor, length and name.
    let mut best: Vec<Option<Vec<String>>> = lines.iter().map(|_| None).collect();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    each_record(&bytes, |record| {
        context.learn(record);
        let name = name_of(record);
        if let Some(name) = &name {
            *counts.entry(name.clone()).or_default() += 1;
        }
        let microseconds = (clock.nanos_since_start(record.ticks) + 500).div_euclid(1000);
        for &index in wanted.get(&microseconds).into_iter().flatten() {
            let line = &lines[index];
            let fits = line.get("ProceNum") == record.processor.to_string()
                && line.get("DataLen") == record.payload.len().to_string()
                && name.as_ref().is_none_or(|name| *name == line.name);
            if fits && best[index].as_ref().is_none_or(|best| !best.is_empty()) {
                let found = differences(line, record, &store, &context, &clock);
                if best[index].as_ref().is_none_or(|best| best.len() > found.len()) {
                    best[index] = Some(found);
                }
            }
        }
    });
    let mut problems = Vec::new();
    for (line, found) in lines.iter().zip(best) {
        match found {
            None => problems.push(format!("{} {}: no such event", line.microseconds, line.name)),
            Some(found) => problems
                .extend(found.iter().map(|field| format!("{} {}: {field}", line.microseconds, line.name))),
        }
    }
    for line in text.lines().filter_map(|line| line.strip_prefix("COUNT ")) {
        let (name, count) = line.rsplit_once(':').unwrap();
        let ours = counts.remove(name);
        let is_named_here = name.starts_with("Windows Kernel")
            || name.starts_with("KernelTrace")
            || name.starts_with("MSNT")
            || ours.is_some();
        if is_named_here && ours != count.parse().ok() && !COUNTED_OTHERWISE.iter().any(|(of, _)| *of == name)
        {
            problems.push(format!("{name}: {count} events, here {ours:?}"));
        }
    }
    for (name, count) in counts {
        if name != NEWER && !COUNTED_OTHERWISE.iter().any(|(of, _)| *of == name) {
            problems.push(format!("{name}: none, here {count}"));
        }
    }
    assert!(
        problems.is_empty(),
        "{}: {} of {} lines:\n{}",
        trace.name,
        problems.len(),
        lines.len(),
        problems.join("\n")
    );
    println!("{}: {} lines agree", trace.name, lines.len());
}

#[test]
fn net_4_5_2_x64() {
    if let Some(trace) = corpus::trace("perfview_net.4.5.2.x64.etl") {
        compare(&trace, "net.4.5.2.x64.baseline.txt");
    }
}

#[test]
fn gcevents() {
    if let Some(trace) = corpus::trace("perfview_gcevents.etl") {
        compare(&trace, "gcevents.baseline.txt");
    }
}

#[test]
fn primitive_types() {
    if let Some(trace) = corpus::trace("perfview_primitive-types.etl") {
        compare(&trace, "primitive-types.baseline.txt");
    }
}
