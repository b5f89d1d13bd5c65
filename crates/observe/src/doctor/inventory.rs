//! The inventory of this machine: every item has a value, or a reason and a remedy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ortscope_ort::search::FoundLibrary;
use ortscope_sources::{MachineFacts, MachineModel};
use serde::Serialize;

use super::{NoiseFacts, OrtFacts};
use ortscope_core::units;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Item {
    pub name: &'static str,
    pub value: Option<String>,
    /// Why there is no value.
    pub unavailable: Option<String>,
    /// How to get one.
    pub remedy: Option<String>,
}

fn item(name: &'static str, value: Option<String>, why: &str, remedy: &str) -> Item {
    let value = value.filter(|value| !value.trim().is_empty());
    let is_missing = value.is_none();
    Item {
        name,
        value,
        unavailable: is_missing.then(|| why.to_owned()),
        remedy: is_missing.then(|| remedy.to_owned()),
    }
}

/// Facts for the inventory.
#[derive(Debug)]
pub struct Inventory<'a> {
    pub machine: &'a MachineFacts,
    pub model: &'a MachineModel,
    /// Resolution and cost of the clock; absent if it did not advance.
    pub timer: Option<String>,
    pub noise: &'a NoiseFacts,
    pub ort: Option<&'a OrtFacts>,
    pub library: Option<&'a FoundLibrary>,
    /// Configuration files that exist.
    pub settings: Vec<PathBuf>,
    /// Configured number of intra-op threads.
    pub threads: Option<u32>,
    pub accelerators: Vec<String>,
}

impl Inventory<'_> {
    pub fn items(&self) -> Vec<Item> {
        let Self { machine, model, timer, noise, ort, library, settings, threads, accelerators } = self;
        let joined = |parts: &[Option<&str>]| {
            let parts: Vec<&str> = parts.iter().flatten().copied().collect();
            (!parts.is_empty()).then(|| parts.join(" "))
        };
        let no_library = "no library of ONNX Runtime was loaded";
        let install = "pip install onnxruntime, or name the library with --ort-library";
        let mut items = vec![
            item(
                "device type",
                model.kind.map(str::to_owned),
                "the firmware does not report the kind of machine",
                "nothing to do: no figure depends on it; inside a container the host knows",
            ),
            item(
                "model",
                joined(&[model.maker.as_deref(), model.model.as_deref()]),
                "the firmware's table cannot be read here (containers hide it)",
                "on the machine itself: /sys/class/dmi/id; in a container mount /sys",
            ),
            item(
                "processor",
                machine.cpu_model.as_ref().map(|model| format!("{model}, {} logical", machine.logical_cpus)),
                "the system does not report its processor model",
                "on Linux /proc/cpuinfo has it",
            ),
            item(
                "memory",
                machine.memory_bytes.map(|bytes| units::bytes(bytes as f64)),
                "the system does not report its memory size",
                "on Linux /proc/meminfo has it",
            ),
            item(
                "system",
                joined(&[Some(&machine.os), machine.os_version.as_deref(), Some(&machine.architecture)]),
                "the system does not report its name",
                "nothing to do",
            ),
            item(
                "accelerators",
                (!accelerators.is_empty()).then(|| accelerators.join("; ")),
                "no GPU or NPU with readable metrics found",
                "the checks gpu and npu below explain why",
            ),
            item(
                "drivers",
                (!machine.drivers.is_empty()).then(|| {
                    let drivers = machine.drivers.iter().map(|(name, version)| format!("{name} {version}"));
                    drivers.collect::<Vec<_>>().join(", ")
                }),
                "no driver of a GPU or NPU is loaded",
                "install the driver of its maker; in a virtual machine pass the device on",
            ),
            item("onnxruntime", ort.map(|ort| ort.version.clone()), no_library, install),
            item("providers", ort.map(|ort| ort.providers.join(", ")), no_library, install),
        ];
        items.extend(ort.iter().flat_map(|ort| backends(ort, *library)));
        let files: Vec<String> = settings.iter().map(|file| file.display().to_string()).collect();
        let files = if files.is_empty() { "built-in settings".to_owned() } else { files.join(", ") };
        let threads = threads.map_or_else(
            || "ONNX Runtime chooses its threads".to_owned(),
            |threads| format!("{threads} threads in an operator"),
        );
        let how = library.map(|library| format!("library {} ({})", library.path.display(), library.how));
        items.extend([
            item("build", ort.map(|ort| ort.build_info.clone()), no_library, install),
            item("configuration", how.map(|how| format!("{how}; {files}; {threads}")), no_library, install),
        ]);
        let governor = machine.governor.as_ref().map(|governor| format!("governor {governor}"));
        items.extend([
            item(
                "clocks",
                governor,
                "this system does not show how the processors' clock is governed",
                "virtual machines hide it; on the machine itself cpufreq or the power plan shows it",
            ),
            item(
                "timer",
                timer.clone(),
                "the clock did not move while it was read",
                "measure longer inferences; on Linux see current_clocksource (tsc is best)",
            ),
            item(
                "noise floor",
                Some(format!(
                    "fixed work of {} varies by {} at p99; a sleep of 1 ms is {} late",
                    units::nanoseconds(noise.median_ns as f64),
                    units::percent(noise.p99_over_median - 1.0),
                    units::nanoseconds(noise.sleep_1ms_late_median_ns as f64)
                )),
                "",
                "",
            ),
        ]);
        items
    }
}

/// Versions of the libraries behind the providers: CUDA, DirectML, OpenVINO, QNN.
fn backends(ort: &OrtFacts, library: Option<&FoundLibrary>) -> Vec<Item> {
    let mut beside =
        library.and_then(|library| library.path.parent()).map(versions_beside).unwrap_or_default();
    for (name, library) in &ort.plug_ins {
        let with_it = Path::new(library).parent().map(versions_beside).unwrap_or_default();
        beside.extend(with_it.into_iter().filter(|(provider, _)| provider == name));
    }
    let inside = ort.providers.iter().map(String::as_str);
    let others = inside
        .chain(ort.plug_ins.keys().copied())
        .filter(|name| !matches!(*name, "CPUExecutionProvider" | "AzureExecutionProvider"));
    let versions: Vec<Item> = others
        .map(|provider| {
            let device = ort.devices.iter().find(|device| device.ep_name == provider);
            let reported = device.and_then(|device| device.ep_metadata.get("version")).cloned();
            let version = reported.or_else(|| beside.get(provider).cloned());
            let short = provider.trim_end_matches("ExecutionProvider").to_lowercase();
            let why = format!("{provider} reports its version only to a session");
            let remedy = format!(
                "ortscope run MODEL --provider {short} shows it (placement.provider_versions in the JSON)"
            );
            item("backend", version.map(|version| format!("{provider} {version}")), &why, &remedy)
        })
        .collect();
    if versions.is_empty() {
        let why = "this library has no provider but the CPU's, which has no backend of its own";
        return vec![item(
            "backend",
            None,
            why,
            "other flavours: onnxruntime-gpu, -directml, -openvino, -qnn",
        )];
    }
    versions
}

/// Versions in the names of libraries next to ONNX Runtime's: `libopenvino.so.2500`.
fn versions_beside(directory: &Path) -> BTreeMap<&'static str, String> {
    const KNOWN: [(&str, &str, &str); 4] = [
        ("libopenvino.so.", "OpenVINOExecutionProvider", "OpenVINO"),
        ("libcudart.so.", "CUDAExecutionProvider", "CUDA runtime"),
        ("libnvinfer.so.", "TensorrtExecutionProvider", "TensorRT"),
        ("libmigraphx.so.", "MIGraphXExecutionProvider", "MIGraphX"),
    ];
    let files = fs_err::read_dir(directory).into_iter().flatten().flatten();
    let mut versions = BTreeMap::new();
    for file in files {
        let name = file.file_name().to_string_lossy().into_owned();
        for (prefix, provider, words) in KNOWN {
            if let Some(version) = name.strip_prefix(prefix).filter(|version| !version.is_empty()) {
                versions.insert(provider, format!("{words} {version}"));
            }
        }
    }
    versions
}
