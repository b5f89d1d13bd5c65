//! Core kinds and NUMA nodes from /sys. Read once at the start.

use std::fs;

use ortscope_decode::procfs;

use crate::machine::{CoreKind, Processor};

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// Online processors; empty if /sys does not list them.
pub(in super::super) fn processors() -> Vec<Processor> {
    let list = |path: String| fs::read(path).ok().and_then(|bytes| procfs::parse_cpu_list(&bytes));
    let number = |path: String| fs::read(path).ok().and_then(|bytes| procfs::number(bytes.trim_ascii()));
    let numbers = list(format!("{CPUS}/online")).unwrap_or_default();
    // Kernels for hybrid machines expose the capacity; otherwise the maximum frequency indicates it.
    let capacity = |cpu: &u32| {
        number(format!("{CPUS}/cpu{cpu}/cpu_capacity"))
            .or_else(|| number(format!("{CPUS}/cpu{cpu}/cpufreq/cpuinfo_max_freq")))
    };
    let capacities: Vec<Option<u64>> = numbers.iter().map(capacity).collect();
    let nodes: Vec<(u32, Vec<u32>)> = list(format!("{NODES}/online"))
        .unwrap_or_default()
        .into_iter()
        .filter_map(|node| Some((node, list(format!("{NODES}/node{node}/cpulist"))?)))
        .collect();
    let processor = |(number_of, kind): (&u32, procfs::CoreKind)| Processor {
        number: *number_of,
        kind: match kind {
            procfs::CoreKind::Uniform => CoreKind::Uniform,
            procfs::CoreKind::Performance => CoreKind::Performance,
            procfs::CoreKind::Efficiency => CoreKind::Efficiency,
        },
        numa_node: nodes.iter().find(|(_, cpus)| cpus.contains(number_of)).map(|(node, _)| *node),
        core: number(format!("{CPUS}/cpu{number_of}/topology/core_id"))
            .and_then(|core| u32::try_from(core).ok()),
    };
    numbers.iter().zip(procfs::core_kinds(&capacities)).map(processor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_processors() {
        let processors = processors();
        assert!(!processors.is_empty());
        let allowed = std::thread::available_parallelism().unwrap().get();
        assert!(processors.len() >= allowed, "{processors:?}");
        let hybrid = processors.iter().any(|processor| processor.kind != CoreKind::Uniform);
        assert_eq!(hybrid, processors.iter().all(|processor| processor.kind != CoreKind::Uniform));
    }
}
