//! The bytes of single records, header and payload.

use super::{MAX_RECORD_BYTES, WriteError};
use crate::{Classic, EventDescriptor, Guid, Hook, PointerSize};

/// Place and time of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub processor: u16,
    pub ticks: u64,
    process_and_thread: Option<(u32, u32)>,
    pub cpu_times: (u32, u32),
    pub activity: Option<Guid>,
    pub related_activity: Option<Guid>,
}

impl Place {
    pub const fn at(processor: u16, ticks: u64) -> Self {
        Self {
            processor,
            ticks,
            process_and_thread: None,
            cpu_times: (0, 0),
            activity: None,
            related_activity: None,
        }
    }

    pub const fn in_thread(self, process_id: u32, thread_id: u32) -> Self {
        Self { process_and_thread: Some((process_id, thread_id)), ..self }
    }

    /// Correlates events; only TraceLogging events have it.
    pub const fn in_activity(self, activity: Guid) -> Self {
        Self { activity: Some(activity), ..self }
    }

    /// The activity that started this one.
    pub const fn from_activity(self, related: Guid) -> Self {
        Self { related_activity: Some(related), ..self }
    }

    pub const fn thread(&self) -> Option<(u32, u32)> {
        self.process_and_thread
    }

    /// Thread, process: the order in headers. Minus one means unknown.
    fn ids(&self) -> (u32, u32) {
        self.process_and_thread.map_or((u32::MAX, u32::MAX), |(process, thread)| (thread, process))
    }
}

/// Data between a perfinfo header and its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterBytes<'a> {
    pub pebs_index: Option<u64>,
    /// At most seven.
    pub counters: &'a [u64],
}

impl CounterBytes<'_> {
    pub const NONE: Self = Self { pebs_index: None, counters: &[] };
}

const fn by_size(pointer_size: PointerSize, four: u8, eight: u8) -> u8 {
    match pointer_size {
        PointerSize::Four => four,
        PointerSize::Eight => eight,
    }
}

/// Writes the size once it is known.
fn sealed(mut record: Vec<u8>, size_at: usize) -> Result<Vec<u8>, WriteError> {
    let size = u16::try_from(record.len())
        .map_err(|_| WriteError::TooLarge { bytes: record.len(), limit: MAX_RECORD_BYTES })?;
    record[size_at..size_at + 2].copy_from_slice(&size.to_le_bytes());
    Ok(record)
}

pub(super) fn system(
    pointer_size: PointerSize,
    place: &Place,
    hook: Hook,
    version: u16,
    payload: &[u8],
) -> Result<Vec<u8>, WriteError> {
    let (thread, process) = place.ids();
    let mut record = Vec::with_capacity(0x20 + payload.len());
    record.extend(version.to_le_bytes());
    record.extend([by_size(pointer_size, 0x01, 0x02), 0xc0, 0, 0]);
    record.extend(hook.0.to_le_bytes());
    record.extend(thread.to_le_bytes());
    record.extend(process.to_le_bytes());
    record.extend(place.ticks.to_le_bytes());
    record.extend(place.cpu_times.0.to_le_bytes());
    record.extend(place.cpu_times.1.to_le_bytes());
    record.extend_from_slice(payload);
    sealed(record, 4)
}

pub(super) fn perfinfo(
    pointer_size: PointerSize,
    place: &Place,
    hook: Hook,
    version: u16,
    counters: &CounterBytes<'_>,
    payload: &[u8],
) -> Result<Vec<u8>, WriteError> {
    if counters.counters.len() > 7 {
        return Err(WriteError::TooManyCounters(counters.counters.len()));
    }
    let announced =
        (counters.counters.len() as u16) << 8 | if counters.pebs_index.is_some() { 0x8000 } else { 0 };
    let mut record = Vec::with_capacity(0x50 + payload.len());
    record.extend((version & !0x8700 | announced).to_le_bytes());
    record.extend([by_size(pointer_size, 0x10, 0x11), 0xc0, 0, 0]);
    record.extend(hook.0.to_le_bytes());
    record.extend(place.ticks.to_le_bytes());
    for number in counters.pebs_index.iter().chain(counters.counters) {
        record.extend(number.to_le_bytes());
    }
    record.extend_from_slice(payload);
    sealed(record, 4)
}

pub(super) fn full(
    pointer_size: PointerSize,
    place: &Place,
    classic: &Classic,
    payload: &[u8],
) -> Result<Vec<u8>, WriteError> {
    let (thread, process) = place.ids();
    let mut record = Vec::with_capacity(0x30 + payload.len());
    record.extend([0, 0, by_size(pointer_size, 0x0a, 0x14), 0xc0, classic.kind, classic.level]);
    record.extend(classic.version.to_le_bytes());
    record.extend(thread.to_le_bytes());
    record.extend(process.to_le_bytes());
    record.extend(place.ticks.to_le_bytes());
    record.extend(classic.class.to_bytes());
    record.extend(place.cpu_times.0.to_le_bytes());
    record.extend(place.cpu_times.1.to_le_bytes());
    record.extend_from_slice(payload);
    sealed(record, 0)
}

pub(super) fn event(
    pointer_size: PointerSize,
    place: &Place,
    provider: Guid,
    descriptor: &EventDescriptor,
    items: &[(u16, &[u8])],
    payload: &[u8],
) -> Result<Vec<u8>, WriteError> {
    let (thread, process) = place.ids();
    let mut record = Vec::with_capacity(0x100 + payload.len());
    record.extend([0, 0, by_size(pointer_size, 0x12, 0x13), 0xc0]);
    record.extend(u16::from(!items.is_empty()).to_le_bytes());
    record.extend([0, 0]);
    record.extend(thread.to_le_bytes());
    record.extend(process.to_le_bytes());
    record.extend(place.ticks.to_le_bytes());
    record.extend(provider.to_bytes());
    record.extend(descriptor.id.to_le_bytes());
    record.extend([descriptor.version, descriptor.channel, descriptor.level, descriptor.opcode]);
    record.extend(descriptor.task.to_le_bytes());
    record.extend(descriptor.keyword.to_le_bytes());
    record.extend(place.cpu_times.0.to_le_bytes());
    record.extend(place.cpu_times.1.to_le_bytes());
    record.extend(place.activity.unwrap_or_default().to_bytes());
    for (index, (kind, data)) in items.iter().enumerate() {
        let total = (8 + data.len()).next_multiple_of(8);
        let too_large = || WriteError::TooLarge { bytes: total, limit: MAX_RECORD_BYTES };
        let total_size = u16::try_from(total).map_err(|_| too_large())?;
        record.extend(total_size.to_le_bytes());
        record.extend(kind.to_le_bytes());
        record.extend(u16::from(index + 1 < items.len()).to_le_bytes());
        record.extend((data.len() as u16).to_le_bytes());
        record.extend_from_slice(data);
        record.resize(record.len() + total - 8 - data.len(), 0);
    }
    record.extend_from_slice(payload);
    sealed(record, 0)
}
