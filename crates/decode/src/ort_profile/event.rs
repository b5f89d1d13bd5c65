//! What a profile says, one event at a time, borrowed from the bytes it was read from.

/// What an event is about.
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
    /// Category `Kernel`: work of a device as its provider reports it.
    Kernel,
    /// Category `Api`: calls or device work as the provider reports them.
    Api,
    /// `profile_truncated` (1.31): ONNX Runtime's word on what the cap of events left out.
    CapNotice,
    /// Of ONNX Runtime's categories, with a name that is not known.
    Other,
    /// Of no category that ONNX Runtime writes.
    Foreign,
}

impl EventKind {
    /// Splits the name of an event into what it is and the name of what it is about.
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
    /// In use, with the arena's padding.
    pub in_use_bytes: Option<u64>,
    /// In use, as it was asked for.
    pub requested_bytes: Option<u64>,
    /// Most in use at once so far.
    pub peak_bytes: Option<u64>,
    /// Held by the arena, in use or not.
    pub arena_bytes: Option<u64>,
    pub in_use_delta_bytes: Option<i64>,
    pub requested_delta_bytes: Option<i64>,
    pub arena_delta_bytes: Option<i64>,
}

/// One event. Text lives as long as the call that hands the event out; what the file does not say is empty or `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileEvent<'a> {
    pub kind: EventKind,
    pub category: &'a str,
    /// Name of the node for operators and fences; the name of the event for all others.
    pub name: &'a str,
    /// -1 for work of a device.
    pub process: i64,
    /// -1 for work of a device.
    pub thread: i64,
    /// Since the start of profiling; before it, for a device with a clock of its own.
    pub start_ns: i64,
    pub duration_ns: u64,
    pub op_type: &'a str,
    /// ONNX Runtime's name of the execution provider.
    pub provider: &'a str,
    /// Index in the optimised graph; nodes of sub-graphs have their own numbers.
    pub node_index: Option<u64>,
    pub output_bytes: Option<u64>,
    pub activation_bytes: Option<u64>,
    pub parameter_bytes: Option<u64>,
    /// As it stands in the file: `[{"float":[1,576]},{"int64":[]}]`; see [`TypesAndShapes`](super::TypesAndShapes).
    pub input_type_shape: &'a str,
    pub output_type_shape: &'a str,
    /// As it stands in the file; see [`ThreadStats`](super::ThreadStats). Empty if the session has one thread.
    pub thread_stats: &'a str,
    pub memory: MemoryStats,
    /// Device work: the name of the event that caused it, as written.
    pub parent: &'a str,
    /// Device work: its stream.
    pub stream: Option<u64>,
    /// Device work of plug-ins: the execution that caused it.
    pub correlation: Option<u64>,
    /// WebGPU: the key of the program.
    pub cache_key: &'a str,
    /// Of [`EventKind::CapNotice`]: how many events ONNX Runtime left out.
    pub dropped_events: Option<u64>,
    /// All arguments as they stand in the file.
    pub args: &'a str,
    /// Where the event begins in the file.
    pub offset: u64,
}
