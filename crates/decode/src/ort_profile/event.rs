//! The events of a profile, borrowed from the bytes they were read from.

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// `model_run`: one call of `Run`.
    Run,
    /// `SequentialExecutor::Execute`: the graph of a run, or one execution of a sub-graph inside a node.
    Executor,
    /// `model_loading_*` and `session_initialization`.
    Session,
    /// `NODE_kernel_time`: one node.
    Operator,
    /// `NODE_fence_before` (up to 1.20): waiting for the inputs of a node.
    FenceBefore,
    /// `NODE_fence_after` (up to 1.20): waiting for the outputs of a node.
    FenceAfter,
    /// Category `Kernel`: device work as reported by its provider.
    Kernel,
    /// Category `Api`: calls or device work as reported by the provider.
    Api,
    /// `profile_truncated` (1.31): ONNX Runtime's notice of events dropped by its cap.
    CapNotice,
    /// A category of ONNX Runtime with an unknown name.
    Other,
    /// A category that ONNX Runtime does not write.
    Foreign,
}

impl EventKind {
    /// Splits the name of an event into its kind and its subject.
    pub(super) fn of<'a>(category: &str, name: &'a str) -> (Self, &'a str) {
        match category {
            "Node" => {
                const SUFFIXES: [(&str, EventKind); 3] = [
                    ("_kernel_time", EventKind::Operator),
                    ("_fence_before", EventKind::FenceBefore),
                    ("_fence_after", EventKind::FenceAfter),
                ];
                for (suffix, kind) in SUFFIXES {
                    if let Some(node) = name.strip_suffix(suffix) {
                        return (kind, node);
                    }
                }
                (Self::Other, name)
            }
            "Session" => {
                let kind = match name {
                    "model_run" => Self::Run,
                    "session_initialization" => Self::Session,
                    "profile_truncated" => Self::CapNotice,
                    _ if name.ends_with("Executor::Execute") => Self::Executor,
                    _ if name.starts_with("model_loading") => Self::Session,
                    _ => Self::Other,
                };
                (kind, name)
            }
            "Kernel" => (Self::Kernel, name),
            "Api" => (Self::Api, name),
            _ => (Self::Foreign, name),
        }
    }

    /// Whether no other tool is known to write such an event.
    pub fn is_of_onnx_runtime(self) -> bool {
        !matches!(self, Self::Kernel | Self::Api | Self::Other | Self::Foreign)
    }
}

/// State of the provider's allocator after a node (since 1.28, if the allocator keeps statistics).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// In use, including the arena's padding.
    pub in_use_bytes: Option<u64>,
    /// In use, as requested.
    pub requested_bytes: Option<u64>,
    /// Peak use so far.
    pub peak_bytes: Option<u64>,
    /// Held by the arena, in use or not.
    pub arena_bytes: Option<u64>,
    pub in_use_delta_bytes: Option<i64>,
    pub requested_delta_bytes: Option<i64>,
    pub arena_delta_bytes: Option<i64>,
}

/// One event. Texts are valid during the callback; missing values are empty or `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileEvent<'a> {
    pub kind: EventKind,
    pub category: &'a str,
    /// Name of the node for operators and fences; name of the event for all others.
    pub name: &'a str,
    /// -1 for device work.
    pub process: i64,
    /// -1 for device work.
    pub thread: i64,
    /// Since the start of profiling; negative for a device with its own clock.
    pub start_ns: i64,
    pub duration_ns: u64,
    pub op_type: &'a str,
    /// ONNX Runtime's name of the execution provider.
    pub provider: &'a str,
    /// Index in the optimized graph; nodes of subgraphs have their own numbers.
    pub node_index: Option<u64>,
    pub output_bytes: Option<u64>,
    pub activation_bytes: Option<u64>,
    pub parameter_bytes: Option<u64>,
    /// Raw text: `[{"float":[1,576]},{"int64":[]}]`; see [`TypesAndShapes`](super::TypesAndShapes).
    pub input_type_shape: &'a str,
    pub output_type_shape: &'a str,
    /// Raw text; see [`ThreadStats`](super::ThreadStats). Empty if the session has one thread.
    pub thread_stats: &'a str,
    pub memory: MemoryStats,
    /// Device work: the name of its cause, as written.
    pub parent: &'a str,
    /// Device work: its stream.
    pub stream: Option<u64>,
    /// Device work of plug-ins: the execution that caused it.
    pub correlation: Option<u64>,
    /// WebGPU: the key of the program.
    pub cache_key: &'a str,
    /// For [`EventKind::CapNotice`]: number of events that ONNX Runtime dropped.
    pub dropped_events: Option<u64>,
    /// All arguments as raw text.
    pub args: &'a str,
    /// Offset of the event in the file.
    pub offset: u64,
}
