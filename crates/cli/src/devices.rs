//! Devices beside the processors, for every command that watches.

use std::path::Path;

use ortscope_sources::devices::{
    DeviceSource, Found, NvmlLibrary, find, find_in, machine_load, process_counters,
};

/// Tests have trees of files with devices that this machine does not have.
const TREE: &str = "ORTSCOPE_TEST_DEVICES";
const NVML: &str = "ORTSCOPE_TEST_NVML";

pub fn found() -> Found {
    match std::env::var_os(TREE) {
        Some(tree) => {
            let nvidia =
                std::env::var_os(NVML).map_or(NvmlLibrary::None, |path| NvmlLibrary::At(path.into()));
            find_in(Path::new(&tree), &nvidia)
        }
        None => find(),
    }
}

pub fn source() -> DeviceSource {
    DeviceSource::new(found())
}

/// The same with the processor's counters of some processes.
pub fn source_of(pids: &[u32]) -> DeviceSource {
    // Counters see the threads that are started after they are opened: they are opened before anything that takes time.
    let mut all = Found::default();
    process_counters(pids, &mut all);
    machine_load(&mut all);
    let found = found();
    all.readers.extend(found.readers);
    all.missing.extend(found.missing);
    DeviceSource::new(all)
}
