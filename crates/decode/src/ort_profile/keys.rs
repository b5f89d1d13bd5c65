//! The keys of events and of their arguments.

/// How a value is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    /// As raw text.
    Text,
    /// An integer, quoted or not.
    Number,
    /// Microseconds.
    Time,
    /// Ignored.
    Nothing,
}

macro_rules! keys {
    ($( $reads:ident { $( $key:ident = $( $name:literal )|+ ; )+ } )+) => {
        /// All supported keys.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum Key { $( $( $key, )+ )+ }

        impl Key {
            pub(super) const ALL: &'static [Key] = &[ $( $( Key::$key, )+ )+ ];

            #[inline]
            pub(super) fn reads(self) -> Reads {
                match self { $( $( Key::$key )|+ => Reads::$reads, )+ }
            }

            #[cfg(test)]
            pub(super) fn names(self) -> &'static [&'static str] {
                match self { $( $( Key::$key => &[ $( $name ),+ ], )+ )+ }
            }
        }
    };
}

keys! {
    Text {
        Category = "cat";
        Phase = "ph";
        Name = "name";
        Args = "args";
        OpType = "op_name";
        DeviceOpType = "ov_node_type";
        Provider = "provider";
        Ep = "ep";
        InputTypeShape = "input_type_shape";
        OutputTypeShape = "output_type_shape";
        ThreadStats = "thread_scheduling_stats";
        Parent = "parent_name" | "parent_ort_event_name";
        Program = "cache_key";
    }
    Number {
        Process = "pid";
        Thread = "tid";
        NodeIndex = "node_index" | "graph_index";
        OutputBytes = "output_size";
        ActivationBytes = "activation_size";
        ParameterBytes = "parameter_size";
        InUse = "mem_bytes_in_use";
        Requested = "mem_bytes_requested_in_use";
        Peak = "mem_in_use_peak";
        Arena = "mem_arena_held";
        InUseDelta = "mem_in_use_delta";
        RequestedDelta = "mem_requested_in_use_delta";
        ArenaDelta = "mem_arena_held_delta";
        Stream = "stream";
        Correlation = "ort_correlation_id";
        DroppedEvents = "dropped_event_count";
    }
    Time {
        Start = "ts";
        Duration = "dur";
    }
    Nothing {
        Known = "exec_plan_index" | "max_num_events" | "shapes" | "ov_exec_type" | "ov_status" | "grid_x"
            | "grid_y" | "grid_z" | "block_x" | "block_y" | "block_z";
        Unknown = "";
    }
}

impl Key {
    #[inline]
    pub(super) fn of_event(name: &[u8]) -> Self {
        match name {
            b"cat" => Self::Category,
            b"pid" => Self::Process,
            b"tid" => Self::Thread,
            b"dur" => Self::Duration,
            b"ts" => Self::Start,
            b"ph" => Self::Phase,
            b"name" => Self::Name,
            b"args" => Self::Args,
            _ => Self::Unknown,
        }
    }

    /// By length first: an event of 1.31 has sixteen arguments in any order.
    #[inline]
    pub(super) fn of_args(name: &[u8]) -> Self {
        let choose = |wanted: &[u8], key| if name == wanted { key } else { Self::rare(name) };
        match name.len() {
            7 => choose(b"op_name", Self::OpType),
            8 => choose(b"provider", Self::Provider),
            10 => choose(b"node_index", Self::NodeIndex),
            11 => choose(b"output_size", Self::OutputBytes),
            14 if name == b"mem_arena_held" => Self::Arena,
            14 => choose(b"parameter_size", Self::ParameterBytes),
            15 if name == b"mem_in_use_peak" => Self::Peak,
            15 => choose(b"activation_size", Self::ActivationBytes),
            16 if name == b"mem_bytes_in_use" => Self::InUse,
            16 if name == b"mem_in_use_delta" => Self::InUseDelta,
            16 => choose(b"input_type_shape", Self::InputTypeShape),
            17 => choose(b"output_type_shape", Self::OutputTypeShape),
            20 => choose(b"mem_arena_held_delta", Self::ArenaDelta),
            23 => choose(b"thread_scheduling_stats", Self::ThreadStats),
            26 if name == b"mem_bytes_requested_in_use" => Self::Requested,
            26 => choose(b"mem_requested_in_use_delta", Self::RequestedDelta),
            _ => Self::rare(name),
        }
    }

    #[cold]
    fn rare(name: &[u8]) -> Self {
        match name {
            b"graph_index" => Self::NodeIndex,
            b"parent_name" | b"parent_ort_event_name" => Self::Parent,
            b"ep" => Self::Ep,
            b"ov_node_type" => Self::DeviceOpType,
            b"stream" => Self::Stream,
            b"ort_correlation_id" => Self::Correlation,
            b"cache_key" => Self::Program,
            b"dropped_event_count" => Self::DroppedEvents,
            b"exec_plan_index" | b"max_num_events" | b"shapes" | b"ov_exec_type" | b"ov_status"
            | b"grid_x" | b"grid_y" | b"grid_z" | b"block_x" | b"block_y" | b"block_z" => Self::Known,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_gives_its_key() {
        for key in Key::ALL {
            for name in key.names() {
                let found = [Key::of_event(name.as_bytes()), Key::of_args(name.as_bytes())];
                assert!(found.contains(key), "{name}");
                assert!(found.contains(&Key::Unknown), "{name} is a key of events and of arguments");
            }
        }
        // Same length as a known one, but different.
        assert_eq!(Key::of_args(b"op_nama"), Key::Unknown);
        assert_eq!(Key::of_args(b"mem_bytes_in_usf"), Key::Unknown);
    }
}
