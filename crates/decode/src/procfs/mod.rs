//! Parsers for Linux's /proc, /sys and cgroup files. They work on every system, so that recordings and tests do not need
//! a Linux kernel.
//!
//! Process names may contain any byte except NUL, including blanks, parentheses and newlines. A file may be truncated
//! anywhere (a buffer that was too small, a process that exited): truncated values are missing, never wrong. Nothing
//! here allocates except for text values; the parsers of sampled files run thousands of times per second.

mod cgroup;
mod machine;
mod process;
mod scan;
mod topology;

pub use cgroup::{
    CpuQuota, CpuThrottling, cgroup_v2_path, parse_cpu_max, parse_cpu_stat, parse_memory_limit,
};
pub use machine::{
    HidePid, LoadAverage, MachineMemory, MachineStat, NetworkTotals, PagingCounters, Pressure, PressureLine,
    ProcessorTicks, each_processor, hide_pid, meminfo_bytes, parse_load_average, parse_machine_memory,
    parse_machine_stat, parse_net_dev, parse_pressure, parse_vmstat,
};
pub use process::{
    ProcessIo, SchedStat, Stat, Statm, Status, parse_io, parse_schedstat, parse_stat, parse_statm,
    parse_status,
};
pub use scan::{cpuinfo_value, number};
pub use topology::{CoreKind, core_kinds, parse_cpu_list};

#[cfg(test)]
mod hostile {
    //! Every parser with every prefix of real files, and with noise: none panics, and truncated values are missing.

    use proptest::prelude::*;

    use super::*;

    fn everything(bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let _ = (parse_stat(bytes), parse_statm(bytes), parse_status(bytes), parse_io(bytes));
        let _ = (parse_schedstat(bytes), parse_machine_stat(bytes), parse_load_average(bytes));
        let _ = (parse_machine_memory(bytes), parse_vmstat(bytes), meminfo_bytes(&text, "MemTotal"));
        let _ = (parse_net_dev(bytes), parse_pressure(bytes), parse_cpu_stat(bytes), parse_cpu_max(bytes));
        let _ = (parse_memory_limit(bytes), cgroup_v2_path(bytes), hide_pid(bytes), parse_cpu_list(bytes));
        let _ = (cpuinfo_value(&text, "flags"), number(bytes), core_kinds(&[Some(1), None]));
    }

    const FILES: &[&str] = &[
        "18734 (cat (x) R) R 18732 18732 10657 0 -1 4194304 102 0 0 0 7 8 0 0 20 0 1 0 2524830 3133440 361 \
         18446744073709551615 1 1 1 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 9 9 9 1 1 1 1 0\n",
        "765 404 376 5 0 123 0\n",
        "Name:\ta\\nb\nState:\tR (running)\nVmHWM:\t 2 kB\nVmRSS:\t 1 kB\nThreads:\t7\n",
        "rchar: 7313\nwchar: 337\nsyscr: 16\nsyscw: 3\nread_bytes: 0\nwrite_bytes: 4096\n",
        "cpu  2192310 1086940 438596 1240052 17169 0 7714 19673 0 0\ncpu0 1 2 3 4\nintr 5 0\nctxt 6\n",
        "some avg10=6.86 avg60=11.56 avg300=13.07 total=10541467438\nfull avg10=0.00 total=0\n",
        "usage_usec 5\nnr_periods 3\nnr_throttled 1\nthrottled_usec 9\n",
        "    lo: 5625677 5320 0 0 0 0 0 0 5625677 5320 0 0 0 0 0 0\n",
        "0-3,5,7-9\n",
        "proc /proc proc rw,nosuid,hidepid=invisible 0 0\n",
    ];

    #[test]
    fn every_prefix_of_every_file() {
        for file in FILES {
            for end in 0..=file.len() {
                everything(&file.as_bytes()[..end]);
            }
        }
    }

    proptest! {
        #[test]
        fn noise(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            everything(&bytes);
        }

        #[test]
        fn damaged_files(file in 0..FILES.len(), at in 0usize..200, byte in any::<u8>()) {
            let mut bytes = FILES[file].as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            everything(&bytes);
        }
    }
}
