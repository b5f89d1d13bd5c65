//! Log lines of a real library. A test binary of its own, because the collector is one per process.

mod support;

use support::{models, session};

#[test]
fn logs_are_collected() {
    let Some(path) = support::library() else { return };
    let runtime = ortscope_ort::Runtime::load(&path).expect("loads");
    let environment =
        ortscope_ort::Environment::new(&runtime, ortscope_ort::LogLevel::Verbose).expect("an environment");
    // A second one shares ONNX Runtime's, and outlives the first without losing lines.
    let second = ortscope_ort::Environment::new(&runtime, ortscope_ort::LogLevel::Verbose).expect("another");
    drop(environment);
    let loaded = session(&second, &models::add());
    let lines = second.take_logs();
    assert!(lines.iter().any(|line| line.category == "onnxruntime" && !line.message.is_empty()), "{lines:?}");
    drop(loaded);
    let quiet = ortscope_ort::Environment::new(&runtime, ortscope_ort::LogLevel::Error).expect("a third");
    second.take_logs();
    drop(session(&quiet, &models::add()));
    assert_eq!(quiet.take_logs(), [], "the level holds for sessions made later");
}
