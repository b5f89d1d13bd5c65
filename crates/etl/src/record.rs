//! One event record: its header, whatever its kind, and the bytes of its payload.

use crate::Guid;

/// The kind of a record's header, which determines the available fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HeaderKind {
    /// Kernel event with thread, process and CPU times.
    System,
    /// Kernel event with thread and process.
    Compact,
    /// Kernel event with a time stamp only, perhaps with performance counters.
    PerfInfo,
    /// Classic (MOF) event of a user or kernel provider.
    Full,
    /// Classic event that names instances.
    Instance,
    /// Event of a manifest, TraceLogging or EventSource provider.
    Event,
    /// WPP software tracing.
    Message,
    /// A marker that the logger wrote instead of an event.
    Error,
}

impl HeaderKind {
    pub const ALL: [Self; 8] = [
        Self::System,
        Self::Compact,
        Self::PerfInfo,
        Self::Full,
        Self::Instance,
        Self::Event,
        Self::Message,
        Self::Error,
    ];
}

/// The size of pointers in one event: files of 64-bit systems also contain events of 32-bit processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PointerSize {
    Four,
    Eight,
}

impl PointerSize {
    pub const fn bytes(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

/// The kind of a kernel event: `group << 8 | type`, such as 0x0524 for a context switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hook(pub u16);

impl Hook {
    pub const fn group(self) -> u8 {
        (self.0 >> 8) as u8
    }

    pub const fn kind(self) -> u8 {
        self.0 as u8
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Classic {
    pub class: Guid,
    pub kind: u8,
    pub level: u8,
    pub version: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EventDescriptor {
    pub id: u16,
    pub version: u8,
    pub channel: u8,
    pub level: u8,
    pub opcode: u8,
    pub task: u16,
    pub keyword: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Message {
    pub number: u16,
    pub flags: u16,
    pub sequence: Option<u32>,
    /// The message GUID, if the provider wrote one.
    pub guid: Option<Guid>,
    pub component: Option<u32>,
}

/// The identity of an event: one of the four naming schemes of ETW, and the name in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Identity {
    /// System, compact and perfinfo headers. `version` excludes the bits that announce counters.
    Kernel {
        hook: Hook,
        version: u16,
    },
    /// Full and instance headers.
    Classic(Classic),
    Event {
        provider: Guid,
        descriptor: EventDescriptor,
    },
    Message(Message),
    Error,
}

/// One event, borrowed from its (decompressed) buffer.
#[derive(Debug, Clone, Copy)]
pub struct EventRecord<'a> {
    pub kind: HeaderKind,
    pub pointer_size: PointerSize,
    pub identity: Identity,
    /// Ticks of the file's clock; the file's header converts them to a time. 0 if the header has none.
    pub ticks: u64,
    pub processor: u16,
    pub logger: u16,
    pub process_id: Option<u32>,
    pub thread_id: Option<u32>,
    /// Kernel and user time of the thread, in units of the timer's resolution, if the header has them.
    pub cpu_times: Option<(u32, u32)>,
    pub activity: Option<Guid>,
    /// Bytes of the extended items of an `Event` header, see [`Self::extended`]; empty for others.
    pub extended_bytes: &'a [u8],
    /// Perfinfo extension: index into the PEBS buffer.
    pub pebs_index: Option<u64>,
    /// Perfinfo extension: the performance counters, eight bytes each, in the order of the PMC configuration event.
    pub counter_bytes: &'a [u8],
    pub payload: &'a [u8],
    /// The whole record as in the buffer, including its header, without padding.
    pub bytes: &'a [u8],
}

impl<'a> EventRecord<'a> {
    pub fn extended(&self) -> ExtendedItems<'a> {
        ExtendedItems { rest: self.extended_bytes }
    }

    /// The data of the first extended item of this type.
    pub fn extended_item(&self, kind: u16) -> Option<&'a [u8]> {
        self.extended().find(|item| item.kind == kind).map(|item| item.data)
    }

    pub fn counters(&self) -> impl Iterator<Item = u64> + 'a {
        self.counter_bytes.as_chunks::<8>().0.iter().map(|&bytes| u64::from_le_bytes(bytes))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtendedItem<'a> {
    pub kind: u16,
    pub data: &'a [u8],
}

impl ExtendedItem<'_> {
    pub const RELATED_ACTIVITY: u16 = 1;
    pub const SID: u16 = 2;
    pub const STACK_32: u16 = 5;
    pub const STACK_64: u16 = 6;
    pub const COUNTERS: u16 = 8;
    pub const TRACE_LOGGING_SCHEMA: u16 = 11;
    pub const PROVIDER_TRAITS: u16 = 12;
    pub const STACK_KEY_32: u16 = 17;
    pub const STACK_KEY_64: u16 = 18;
}

/// The extended items of a record. The header parser has checked their lengths; damaged bytes end the iteration.
#[derive(Debug, Clone)]
pub struct ExtendedItems<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for ExtendedItems<'a> {
    type Item = ExtendedItem<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let (head, _) = self.rest.split_first_chunk::<8>()?;
        let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let (total, kind, linkage, data_bytes) = (word(0), word(2), word(4), word(6));
        let Some(data) = self.rest.get(8..8 + usize::from(data_bytes)) else {
            self.rest = &[];
            return None;
        };
        let another = linkage & 1 != 0 && usize::from(total) >= 8 + usize::from(data_bytes);
        self.rest = if another { self.rest.get(usize::from(total)..).unwrap_or(&[]) } else { &[] };
        Some(ExtendedItem { kind, data })
    }
}
