//! How another program reads our files: `dissect.etl`, in the Python environment prepared by `cargo xtask test`.

use std::ops::ControlFlow;
use std::process::Command;

use ortscope_etl::{EtlBytes, HeaderKind, Identity};

use crate::skips;
use crate::writing::sample;

/// One line per record: header kind, time, and the bytes after the header.
const SCRIPT: &str = r#"
import sys
from dissect.etl import etl
with open(sys.argv[1], "rb") as file:
    for record in etl.ETL(file):
        header = record.header
        provider = header.provider_id.hex if type(header).__name__ == "EventHeader" else ""
        print(type(header).__name__, header.time_delta, provider + ":" + bytes(header.payload).hex())
"#;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn dissect_reads_our_files() {
    let Some(python) = skips::python_with(&["dissect.etl"]) else { return };
    let bytes = sample();
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("written_for_dissect.etl");
    std::fs::write(&path, &bytes).unwrap();
    let output = Command::new(&python).arg("-c").arg(SCRIPT).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut theirs: Vec<String> =
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();

    let mut ours = Vec::new();
    EtlBytes::new(&bytes)
        .unwrap()
        .ordered(|record| {
            let (kind, payload) = match record.kind {
                HeaderKind::System => ("SystemHeader", record.payload),
                HeaderKind::PerfInfo => ("PerfinfoTraceHeader", record.payload),
                HeaderKind::Full => ("EventTraceHeader", record.payload),
                // dissect includes the extended items in the payload.
                HeaderKind::Event => ("EventHeader", &record.bytes[0x50..]),
                other => panic!("the sample has no {other:?}"),
            };
            // It shows the provider of these headers in byte order.
            let provider = match record.identity {
                Identity::Event { provider, .. } => hex(&provider.to_bytes()),
                _ => String::new(),
            };
            ours.push(format!("{kind} {} {provider}:{}", record.ticks, hex(payload)));
            ControlFlow::Continue(())
        })
        .unwrap();
    // dissect returns records buffer by buffer instead of chronologically.
    theirs.sort_unstable();
    ours.sort_unstable();
    assert_eq!(theirs.len(), ours.len());
    for (theirs, ours) in theirs.iter().zip(&ours) {
        assert_eq!(theirs, ours);
    }
}
