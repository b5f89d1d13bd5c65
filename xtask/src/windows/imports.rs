//! What a program for Windows needs before it can start: libraries and functions that Windows 10 version 1909 has.
//! Newer functions must be looked up when the program runs, or it would not start there at all.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::capture;

const LISTER: &str = "x86_64-w64-mingw32-objdump";

/// Libraries that every Windows 10 has; those whose names begin with `api-ms-win-core-` and `api-ms-win-crt-` too.
const LIBRARIES: &[&str] = &[
    "advapi32.dll",
    "bcrypt.dll",
    "bcryptprimitives.dll",
    "cfgmgr32.dll",
    "crypt32.dll",
    "dbghelp.dll",
    "dxgi.dll",
    "gdi32.dll",
    "iphlpapi.dll",
    "kernel32.dll",
    "msvcrt.dll",
    "ncrypt.dll",
    "netapi32.dll",
    "ntdll.dll",
    "ole32.dll",
    "oleaut32.dll",
    "pdh.dll",
    "powrprof.dll",
    "psapi.dll",
    "rpcrt4.dll",
    "secur32.dll",
    "setupapi.dll",
    "shell32.dll",
    "user32.dll",
    "userenv.dll",
    "winmm.dll",
    "ws2_32.dll",
];

/// Functions of these libraries that came after version 1909.
const TOO_NEW: &[&str] = &[
    "BuildIoRingReadFile",
    "BuildIoRingWriteFile",
    "CloseIoRing",
    "CreateFile3",
    "CreateIoRing",
    "D3DKMTEnumAdapters3",
    "GetMachineTypeAttributes",
    "GetNumaNodeProcessorMask2",
    "GetProcessDefaultCpuSetMasks",
    "GetTempPath2A",
    "GetTempPath2W",
    "GetThreadSelectedCpuSetMasks",
    "PopIoRingCompletion",
    "QueryIoRingCapabilities",
    "ReleasePseudoConsole",
    "SetProcessDefaultCpuSetMasks",
    "SetThreadSelectedCpuSetMasks",
    "SubmitIoRing",
    "TryCreatePackageDependency",
];

/// The number of functions that a program imports; an error names those that an older Windows does not have.
pub(super) fn check(program: &Path) -> Result<usize> {
    let list = capture(Command::new(LISTER).arg("-p").arg(program))
        .with_context(|| format!("cannot list what {} imports", program.display()))?;
    let (imports, problems) = judge(&list);
    if imports == 0 {
        bail!("{LISTER} lists no imports of {}", program.display());
    }
    if !problems.is_empty() {
        bail!("it would not start on Windows 10 version 1909:\n  {}", problems.join("\n  "));
    }
    Ok(imports)
}

fn judge(list: &str) -> (usize, Vec<String>) {
    let (mut library, mut imports, mut problems) = (String::new(), 0, Vec::new());
    for line in list.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("DLL Name: ") {
            library = name.to_ascii_lowercase();
            let known = LIBRARIES.contains(&library.as_str())
                || library.starts_with("api-ms-win-core-")
                || library.starts_with("api-ms-win-crt-");
            if !known {
                problems.push(format!("needs the library {name}"));
            }
            continue;
        }
        // An address, a number, the name of a function.
        let mut words = line.split_whitespace();
        let (Some(address), Some(hint), Some(name), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let is_import = !library.is_empty()
            && address.bytes().all(|byte| byte.is_ascii_hexdigit())
            && hint.bytes().all(|byte| byte.is_ascii_digit());
        if is_import {
            imports += 1;
            if TOO_NEW.contains(&name) {
                problems.push(format!("needs {name} of {library}"));
            }
        }
    }
    (imports, problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_functions_and_unknown_libraries_are_named() {
        let list = "\tDLL Name: KERNEL32.dll\n\tvma:  Hint/Ord Member-Name Bound-To\n\t1ab2  1024  CloseHandle\n\
                    \t1ab4  77  GetTempPath2W\n\n\tDLL Name: onnx.dll\n\t1ac0  1  OrtGetApiBase\n\
                    \tDLL Name: api-ms-win-core-synch-l1-2-0.dll\n\t1ad0  2  WaitOnAddress\n";
        let (imports, problems) = judge(list);
        assert_eq!(imports, 4);
        assert_eq!(problems, ["needs GetTempPath2W of kernel32.dll", "needs the library onnx.dll"]);
    }
}
