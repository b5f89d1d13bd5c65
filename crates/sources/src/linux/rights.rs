//! Explains missing privileges and kernel settings.

use std::io;

use ortscope_decode::procfs;

use crate::kernel::TraceError;

/// Bits of `CapEff` in `/proc/self/status`.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

fn has(capabilities: u64, bit: u32) -> bool {
    capabilities & (1 << bit) != 0
}

fn effective_capabilities() -> Option<u64> {
    let status = std::fs::read("/proc/self/status").ok()?;
    u64::from_str_radix(&procfs::cpuinfo_value(&String::from_utf8_lossy(&status), "CapEff")?, 16).ok()
}

/// Capabilities that BPF programs reading kernel memory need and this process lacks.
fn missing_for_bpf(capabilities: u64) -> Vec<&'static str> {
    if has(capabilities, CAP_SYS_ADMIN) {
        return Vec::new();
    }
    let wanted = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")];
    wanted.iter().filter(|(bit, _)| !has(capabilities, *bit)).map(|(_, name)| *name).collect()
}

/// Explains an error of bpf(2): a missing privilege or an unsupported kernel.
pub fn bpf_error(what: &str, source: io::Error) -> TraceError {
    let what = what.to_owned();
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            let missing = effective_capabilities().map(missing_for_bpf).unwrap_or_default();
            if missing.is_empty() {
                let missing = "a permission that this process's capabilities do not provide".to_owned();
                let hint = "kernel lockdown in confidentiality mode, a container's seccomp profile or a security module \
                            may forbid bpf(2)";
                return TraceError::Permission { what, missing, hint: hint.to_owned() };
            }
            let hint = "run as root, or give the program the capabilities: \
                        setcap cap_bpf,cap_perfmon+ep ortscope";
            TraceError::Permission { what, missing: missing.join(" and "), hint: hint.to_owned() }
        }
        Some(libc::ENOSYS) => TraceError::Unsupported {
            what,
            why: "this kernel has no bpf(2)".to_owned(),
            hint: "use a kernel with CONFIG_BPF_SYSCALL".to_owned(),
        },
        _ => TraceError::System { what, source },
    }
}

/// Explains an error of `perf_event_open` for a whole processor.
pub fn perf_error(what: &str, source: io::Error) -> TraceError {
    let what = what.to_owned();
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            let paranoid =
                std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
            let missing = format!("CAP_PERFMON (kernel.perf_event_paranoid is {})", paranoid.trim());
            let hint = "run as root, setcap cap_perfmon+ep ortscope, or sysctl kernel.perf_event_paranoid=0";
            TraceError::Permission { what, missing, hint: hint.to_owned() }
        }
        Some(libc::ENOSYS) => TraceError::Unsupported {
            what,
            why: "this kernel has no perf_event_open".to_owned(),
            hint: "use a kernel with CONFIG_PERF_EVENTS".to_owned(),
        },
        _ => TraceError::System { what, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_capabilities_are_named() {
        assert_eq!(missing_for_bpf(0), ["CAP_BPF", "CAP_PERFMON"]);
        assert_eq!(missing_for_bpf(1 << CAP_BPF), ["CAP_PERFMON"]);
        assert!(missing_for_bpf(1 << CAP_SYS_ADMIN).is_empty());
    }
}
