//! Closed sets of names that columns hold: an enum in code, text in recordings, exports and JSON.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cell, Column, ColumnData, ColumnType, Text};

/// An enum whose values are stored by name.
pub trait NameSet: Copy + Eq + 'static {
    /// All values with their names.
    const NAMES: &'static [(Self, &'static str)];

    /// The name; cloning it allocates nothing.
    fn text(self) -> &'static Text;

    fn by_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(value, _)| *value)
    }
}

/// A value of the set `T`, or a name that this version does not know. Newer recordings and imported files contain such
/// names; they are kept as they are. `From` never makes `Unknown` of a known name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Named<T> {
    Known(T),
    Unknown(Text),
}

impl<T: NameSet> Named<T> {
    pub fn known(&self) -> Option<T> {
        match self {
            Self::Known(value) => Some(*value),
            Self::Unknown(_) => None,
        }
    }

    pub fn text(&self) -> &Text {
        match self {
            Self::Known(value) => value.text(),
            Self::Unknown(name) => name,
        }
    }
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self::Unknown(Text::default())
    }
}

impl<T: NameSet> Deref for Named<T> {
    type Target = str;

    fn deref(&self) -> &str {
        self.text()
    }
}

impl<T: NameSet> PartialEq<T> for Named<T> {
    fn eq(&self, other: &T) -> bool {
        self.known() == Some(*other)
    }
}

impl<T: NameSet> PartialOrd for Named<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: NameSet> Ord for Named<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text().cmp(other.text())
    }
}

impl<T: NameSet> fmt::Display for Named<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl<T: NameSet> Serialize for Named<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<T: NameSet> From<T> for Named<T> {
    fn from(value: T) -> Self {
        Self::Known(value)
    }
}

impl<T: NameSet> From<&str> for Named<T> {
    fn from(name: &str) -> Self {
        T::by_name(name).map_or_else(|| Self::Unknown(name.into()), Self::Known)
    }
}

impl<T: NameSet> From<String> for Named<T> {
    fn from(name: String) -> Self {
        name.as_str().into()
    }
}

impl<T: NameSet> Cell for Named<T> {
    const TYPE: ColumnType = ColumnType::Text;
    const NULLABLE: bool = false;

    fn push(&self, column: &mut Column) {
        self.text().push(column);
    }

    fn get(column: &Column, index: usize) -> Option<Self> {
        let ColumnData::Text(names) = &column.data else { return None };
        let name = names.get(index)?;
        Some(T::by_name(name).map_or_else(|| Self::Unknown(Text::clone(name)), Self::Known))
    }
}

/// Declares enums with the names under which their values are stored.
macro_rules! name_sets {
    ($( $(#[$set_meta:meta])* $set:ident { $( $(#[$meta:meta])* $value:ident = $name:literal, )+ } )+) => { $(
        $(#[$set_meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum $set { $( $(#[$meta])* #[serde(rename = $name)] $value, )+ }

        impl $set {
            pub fn name(self) -> &'static str {
                match self { $( Self::$value => $name, )+ }
            }
        }

        impl NameSet for $set {
            const NAMES: &'static [(Self, &'static str)] = &[ $( (Self::$value, $name), )+ ];

            fn text(self) -> &'static Text {
                match self { $( Self::$value => {
                    static NAME: LazyLock<Text> = LazyLock::new(|| $name.into());
                    &NAME
                } )+ }
            }
        }
    )+ };
}

name_sets! {
    /// The part of a measurement that an inference belongs to. Channels transfer the position in this list: append only.
    Phase {
        /// The first run of a session.
        First = "first",
        /// A measured run. The analysis detects and excludes warm-up runs among these.
        Steady = "steady",
        /// A decoder processes its prompt.
        Prefill = "prefill",
        /// A decoder generates one token.
        Token = "token",
        /// Run under the operator profiler, which slows it down: excluded from all latency figures.
        Profiled = "profiled",
    }

    /// The kind of span that a row of the operators table describes. Spans that start at the same time nest in this
    /// order.
    OperatorKind {
        /// The whole call, from the outside.
        Run = "run",
        /// The executor inside the call; subgraphs have their own.
        Executor = "executor",
        Operator = "operator",
        /// Data moved between devices.
        Copy = "copy",
        /// Waiting for a device.
        Wait = "wait",
        /// Loading and initializing a session, outside runs.
        Session = "session",
        Other = "other",
    }

    /// What the kernel did. The order is that of frequency.
    KernelEventKind {
        /// A thread that could have run on was off the processor.
        ContextSwitch = "context_switch",
        /// A thread waited for something else.
        Wait = "wait",
        Migration = "migration",
        PageFault = "page_fault",
        HardFault = "hard_fault",
        /// A sample of the executed code.
        Sample = "sample",
        DiskIo = "disk_io",
        MemoryMap = "memory_map",
        MemoryUnmap = "memory_unmap",
        MemoryHeap = "memory_heap",
        ImageLoad = "image_load",
        FileRead = "file_read",
        FileWrite = "file_write",
        FileOpen = "file_open",
        FileSync = "file_sync",
        ThreadStart = "thread_start",
        ThreadExit = "thread_exit",
        /// Hardware counters of a processor.
        ProcessorCounter = "processor_counter",
        NetworkSend = "network_send",
        NetworkReceive = "network_receive",
        NetworkConnect = "network_connect",
        NetworkDisconnect = "network_disconnect",
        NetworkRetransmit = "network_retransmit",
        /// A clock was limited by heat or power.
        Throttle = "throttle",
        /// A power state changed.
        Power = "power",
    }

    /// How a number was obtained, the most trustworthy method first.
    Method {
        /// Read from an instrument: a clock, a counter, a sensor.
        Measured = "measured",
        /// A measured total divided among its causes.
        Attributed = "attributed",
        /// Computed from a model of the world.
        Estimated = "estimated",
    }

    /// How urgent a finding is, the gravest first.
    Severity {
        /// The figures do not mean what they seem to mean.
        Error = "error",
        Warning = "warning",
        Advice = "advice",
    }
}

impl OperatorKind {
    /// Work on a lane, as opposed to spans that contain it.
    pub fn is_work(self) -> bool {
        matches!(self, Self::Operator | Self::Copy | Self::Wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_survive_a_column() {
        let mut column = Column::new(ColumnType::Text);
        let written: [Named<Phase>; 4] =
            [Phase::Token.into(), "first".into(), "cooldown".into(), Named::default()];
        written.iter().for_each(|phase| phase.push(&mut column));
        let read: Vec<Named<Phase>> = (0..4).filter_map(|row| Cell::get(&column, row)).collect();
        assert_eq!(read, written);
        assert_eq!(read[1], Phase::First);
        assert_eq!((read[2].known(), read[2].to_string()), (None, "cooldown".to_owned()));
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"["token","first","cooldown",""]"#);
    }

    #[test]
    fn json_uses_the_same_names_as_columns() {
        for (kind, name) in OperatorKind::NAMES {
            assert_eq!((kind.name(), &**kind.text()), (*name, *name));
            assert_eq!(serde_json::to_value(kind).unwrap(), *name);
        }
    }
}
