//! Accelerators, energy meters and temperature sensors, for every observation.

use std::path::Path;

use ortscope_sources::devices::{
    DeviceSource, Found, NvmlLibrary, find, find_in, machine_load, process_counters,
};

/// Tests point it at a tree of files with devices that this machine does not have.
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

/// All devices of the machine; with the hardware counters of `counted_pids`, if there are any, and then the machine's load.
pub fn source(counted_pids: &[u32]) -> DeviceSource {
    let mut all = Found::default();
    if !counted_pids.is_empty() {
        // Counters see only threads that start after they were opened: looking for devices takes time.
        process_counters(counted_pids, &mut all);
        machine_load(&mut all);
    }
    let found = found();
    all.readers.extend(found.readers);
    all.missing.extend(found.missing);
    DeviceSource::new(all)
}
