//! ONNX Runtime's TraceLogging providers. Fields are in each event and are found by name, because releases add and
//! remove some; here are the names of the events.

use crate::Guid;

/// `Microsoft.ML.ONNXRuntime`: sessions, evaluations, QNN profiling.
pub const ONNX_RUNTIME: Guid = Guid::new(0x3a26b1ff_7484_7484_7484_15261f42614d);
/// `WinML`.
pub const WINML: Guid = Guid::new(0xbcad6aee_c08d_4f66_828c_4c43461a033d);

macro_rules! events {
    ($($(#[$about:meta])* $variant:ident = $name:literal,)*) => {
        /// The meaning of an event of [`ONNX_RUNTIME`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum OrtEvent { $($(#[$about])* $variant,)* }

        impl OrtEvent {
            /// By the event's name; ids are 0 in TraceLogging.
            pub fn of(provider: Guid, event_name: &str) -> Option<Self> {
                match (provider, event_name) {
                    $((ONNX_RUNTIME, $name) => Some(Self::$variant),)*
                    _ => None,
                }
            }

            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

events! {
    ProcessInfo = "ProcessInfo",
    SessionCreationStart = "SessionCreationStart",
    SessionCreation = "SessionCreation",
    /// Repeated on request, so that later readers learn of existing sessions.
    SessionCreationCaptureState = "SessionCreation_CaptureState",
    SessionCreationEnd = "SessionCreationEnd",
    ModelLoadStart = "ModelLoadStart",
    ModelLoadEnd = "ModelLoadEnd",
    CompileModelStart = "CompileModelStart",
    CompileModelComplete = "CompileModelComplete",
    /// One inference begins; `sessionId`.
    EvaluationStart = "EvaluationStart",
    EvaluationStop = "EvaluationStop",
    RuntimeError = "RuntimeError",
    RuntimeInferenceError = "RuntimeInferenceError",
    RuntimePerf = "RuntimePerf",
    EpDeviceUsage = "EpDeviceUsage",
    EpAutoSelection = "EpAutoSelection",
    ExecutionProvider = "ExecutionProviderEvent",
    DriverInfo = "DriverInfo",
    ProviderOptions = "ProviderOptions",
    ProviderOptionsCaptureState = "ProviderOptions_CaptureState",
    /// One line of QNN's profile.
    QnnProfiling = "QNNProfilingEvent",
    /// Only in builds with `onnxruntime_ENABLE_INSTRUMENT`: one kernel ended; `op_name`, `time` in µs.
    OpEnd = "OpEnd",
    OrtRun = "OrtRun",
    InferenceSessionActivity = "OrtInferenceSessionActivity",
    SessionOptions = "SessionOptions",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_by_provider_and_name() {
        assert_eq!(OrtEvent::of(ONNX_RUNTIME, "EvaluationStop"), Some(OrtEvent::EvaluationStop));
        assert_eq!(OrtEvent::of(WINML, "EvaluationStop"), None);
        assert_eq!(OrtEvent::QnnProfiling.name(), "QNNProfilingEvent");
    }
}
