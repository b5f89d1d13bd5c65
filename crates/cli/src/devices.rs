//! Devices beside the processors, for every command that watches.

use std::path::Path;

use ortscope_sources::devices::{DeviceSource, Found, NvmlLibrary, counters_of, find, find_in};

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
    let mut found = found();
    counters_of(pids, &mut found);
    DeviceSource::new(found)
}
