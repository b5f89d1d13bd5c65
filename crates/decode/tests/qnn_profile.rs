//! A real QNN file: ResNet-50 on a Snapdragon NPU.

use std::path::PathBuf;

use ortscope_decode::qnn_profile::read;

#[path = "../../ort/tests/support/skips.rs"]
mod skips;

#[test]
fn a_real_profile_is_read_completely() {
    let corpus = std::env::var_os("ORTSCOPE_CORPUS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let path = corpus.join("hardware").join("qnn_profile_resnet50.csv");
    let Ok(text) = std::fs::read_to_string(&path) else {
        skips::skipped("the corpus lacks hardware/qnn_profile_resnet50.csv");
        return;
    };
    let profile = read(&text).unwrap();
    assert_eq!((profile.executions, profile.unreadable_lines), (5, 0));
    // 395 node lines in five executions.
    assert_eq!((profile.nodes.len(), profile.nodes.iter().map(|node| node.calls).sum::<u64>()), (79, 395));
    let conv = profile.nodes.iter().find(|node| node.name == "/resnet/embedder/embedder/convolution/Conv");
    assert!(conv.is_some_and(|conv| conv.calls == 5 && conv.cycles > 671_293));
    // The nodes account for all cycles and all of the time of the device.
    let nodes: u64 = profile.nodes.iter().map(|node| node.cycles).sum();
    assert_eq!(Some(nodes), profile.device_cycles());
    let us: f64 = profile.nodes.iter().map(|node| node.estimated_us).sum();
    let whole = profile.event("Accelerator (execute) time").unwrap().total as f64;
    assert!((us / whole - 1.0).abs() < 1e-9, "{us} of {whole}");
    assert_eq!(profile.preparation.len(), 12);
}
