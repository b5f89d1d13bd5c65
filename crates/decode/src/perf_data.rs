//! Files of Linux's `perf record`: samples with stacks, programs, context switches.
//!
//! A frame is named by its file and offset, `libonnxruntime.so+0x1a2b`; symbols are not resolved. Records that `perf`
//! synthesizes for itself, compressed records and those of other hardware are counted. A truncated file gives its
//! records before the end.

use std::collections::BTreeMap;

use ortscope_core::schema::{KernelEventRow, ProcessRow, Text};

const MAGIC: &[u8; 8] = b"PERFILE2";
/// Header length of a file that was written to a pipe.
const PIPE_HEAD: u64 = 16;
/// Limit for event attributes of a file.
const MAX_ATTRIBUTES: usize = 4_096;
/// Limit for mapped files of all processes.
const MAX_MAPPINGS: usize = 1_000_000;
/// Limit for frames per stack.
const MAX_FRAMES: usize = 127;
/// Addresses from here on are context markers: user, kernel, guest.
const FIRST_MARK: u64 = u64::MAX - 4_095;

mod sample_type {
    pub const IP: u64 = 1;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDRESS: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM: u64 = 1 << 9;
    pub const IDENTIFIER: u64 = 1 << 16;
}

mod record_type {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const LOST_SAMPLES: u32 = 13;
    pub const SWITCH: u32 = 14;
    pub const SWITCH_CPU_WIDE: u32 = 15;
}

/// In `misc` of a switch: the thread leaves the processor.
const SWITCH_OUT: u16 = 1 << 13;
/// In the flags of an attribute: records other than samples end with thread and time.
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// A row made from a record.
#[derive(Debug, Clone, PartialEq)]
pub enum PerfRow {
    Kernel(KernelEventRow),
    Process(ProcessRow),
}

/// Result of reading a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PerfOutcome {
    pub records: u64,
    pub samples: u64,
    pub switches: u64,
    pub processes: u64,
    pub mappings: u64,
    /// Records without information for us.
    pub other: u64,
    /// Damaged records, or samples with an unknown event.
    pub unreadable: u64,
    /// Records that the kernel lost while recording.
    pub lost: u64,
    /// The file ends before its records do.
    pub is_cut: bool,
    /// First and last time, on the file's clock.
    pub span_ns: Option<(u64, u64)>,
}

/// Why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PerfDataError {
    #[error("it does not begin like perf.data")]
    NotPerfData,
    #[error("it was written to a pipe; record with 'perf record -o perf.data'")]
    Pipe,
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

/// Whether bytes begin like such a file.
pub fn is_perf_data(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// Little-endian numbers; `None` beyond the end.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    number(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    number(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    number(bytes, at).map(u64::from_le_bytes)
}

/// A section of the file by offset and size, cut at the end of the file.
fn section(bytes: &[u8], at: usize) -> Option<(&[u8], bool)> {
    let (offset, size) = (u64_at(bytes, at)?, u64_at(bytes, at + 8)?);
    let start = usize::try_from(offset).ok()?.min(bytes.len());
    let end = usize::try_from(offset.checked_add(size)?).ok()?;
    Some((bytes.get(start..end.min(bytes.len()))?, end > bytes.len()))
}

/// The fields of the samples of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    sample_type: u64,
    read_format: u64,
    has_trailer: bool,
}

#[derive(Debug)]
struct Layouts {
    first: Layout,
    /// By the id in the samples, if they differ.
    by_id: BTreeMap<u64, Layout>,
    all_equal: bool,
}

impl Layouts {
    fn read(bytes: &[u8], entry_bytes: usize, entries: &[u8]) -> Option<Self> {
        let mut layouts = Vec::new();
        let mut by_id = BTreeMap::new();
        // For all together: many attributes may claim the same ids.
        let mut max_ids = MAX_MAPPINGS;
        for entry in entries.chunks_exact(entry_bytes).take(MAX_ATTRIBUTES) {
            let flags = u64_at(entry, 40)?;
            let layout = Layout {
                sample_type: u64_at(entry, 24)?,
                read_format: u64_at(entry, 32)?,
                has_trailer: flags & SAMPLE_ID_ALL != 0,
            };
            layouts.push(layout);
            let (offset, size) = (u64_at(entry, entry_bytes - 16)?, u64_at(entry, entry_bytes - 8)?);
            let start = usize::try_from(offset).ok()?.min(bytes.len());
            let end = usize::try_from(offset.checked_add(size)?).ok()?.min(bytes.len());
            let ids = bytes.get(start..end).unwrap_or_default();
            for id in ids.chunks_exact(8).take(max_ids) {
                by_id.insert(u64_at(id, 0)?, layout);
            }
            max_ids = max_ids.saturating_sub(ids.len() / 8);
        }
        let first = *layouts.first()?;
        let all_equal = layouts.iter().all(|layout| *layout == first);
        Some(Self { first, by_id, all_equal })
    }

    fn for_sample(&self, body: &[u8]) -> Option<Layout> {
        if self.all_equal {
            return Some(self.first);
        }
        // If events differ, perf puts the id first.
        self.by_id.get(&u64_at(body, 0)?).copied()
    }
}

/// Fields common to all records.
#[derive(Debug, Clone, Copy, Default)]
struct Common {
    pid: Option<u32>,
    tid: Option<u32>,
    time_ns: Option<u64>,
    cpu: Option<u32>,
}

/// The trailer of records other than samples.
fn trailer(record: &[u8], layout: Layout) -> Common {
    use sample_type as has;
    if !layout.has_trailer {
        return Common::default();
    }
    let fields = [has::TID, has::TIME, has::ID, has::STREAM, has::CPU, has::IDENTIFIER];
    let present = fields.iter().filter(|field| layout.sample_type & **field != 0).count();
    let Some(mut at) = record.len().checked_sub(present * 8) else { return Common::default() };
    let mut common = Common::default();
    for field in fields.iter().filter(|field| layout.sample_type & **field != 0) {
        match *field {
            has::TID => (common.pid, common.tid) = (u32_at(record, at), u32_at(record, at + 4)),
            has::TIME => common.time_ns = u64_at(record, at),
            has::CPU => common.cpu = u32_at(record, at),
            _ => {}
        }
        at += 8;
    }
    common
}

#[derive(Debug, Clone)]
struct Mapping {
    end: u64,
    file_offset: u64,
    name: Text,
}

/// Reads a file. The first record with a time is placed at `start_ns`.
pub fn read(
    bytes: &[u8],
    start_ns: u64,
    keep: &mut dyn FnMut(PerfRow),
) -> Result<PerfOutcome, PerfDataError> {
    if !is_perf_data(bytes) {
        return Err(PerfDataError::NotPerfData);
    }
    let damaged = PerfDataError::Damaged;
    if u64_at(bytes, 8).ok_or(damaged("its header is truncated"))? == PIPE_HEAD {
        return Err(PerfDataError::Pipe);
    }
    let entry_bytes = u64_at(bytes, 16).and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
    if !(64..=4_096).contains(&entry_bytes) {
        return Err(damaged("the size of its attributes is impossible"));
    }
    let (entries, _) = section(bytes, 24).ok_or(damaged("its attributes are outside the file"))?;
    let layouts = Layouts::read(bytes, entry_bytes, entries).ok_or(damaged("it has no event"))?;
    let (data, is_cut) = section(bytes, 40).ok_or(damaged("its records are outside the file"))?;
    let mut reader = Reader {
        keep,
        layouts,
        start_ns,
        first_ns: None,
        mappings: BTreeMap::new(),
        outcome: PerfOutcome { is_cut, ..PerfOutcome::default() },
    };
    let mut rest = data;
    while !rest.is_empty() {
        let size = u16_at(rest, 6).map(usize::from).filter(|size| *size >= 8);
        let Some(record) = size.and_then(|size| rest.get(..size)) else {
            reader.outcome.is_cut = true;
            break;
        };
        reader.record(record);
        rest = rest.get(record.len()..).unwrap_or_default();
    }
    Ok(reader.outcome)
}

struct Reader<'k> {
    keep: &'k mut dyn FnMut(PerfRow),
    layouts: Layouts,
    start_ns: u64,
    first_ns: Option<u64>,
    /// Files by process and address.
    mappings: BTreeMap<(u32, u64), Mapping>,
    outcome: PerfOutcome,
}

/// Text up to NUL.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

impl Reader<'_> {
    fn record(&mut self, record: &[u8]) {
        self.outcome.records += 1;
        let kind = u32_at(record, 0).unwrap_or(0);
        let misc = u16_at(record, 4).unwrap_or(0);
        let body = record.get(8..).unwrap_or_default();
        let read = match kind {
            record_type::SAMPLE => self.sample(body),
            record_type::MMAP => self.mapping(body, 32),
            record_type::MMAP2 => self.mapping(body, 64),
            record_type::COMM => self.program(body),
            record_type::EXIT => self.exit(body),
            record_type::SWITCH | record_type::SWITCH_CPU_WIDE => self.switch(body, misc),
            record_type::LOST => u64_at(body, 8).map(|lost| self.lost(lost)),
            record_type::LOST_SAMPLES => u64_at(body, 0).map(|lost| self.lost(lost)),
            // Forks are visible through the names of the new processes.
            _ => {
                self.outcome.other += 1;
                Some(())
            }
        };
        self.outcome.unreadable += u64::from(read.is_none());
    }

    /// A file may contain any number.
    fn lost(&mut self, records: u64) {
        self.outcome.lost = self.outcome.lost.saturating_add(records);
    }

    /// On the recording's clock.
    fn at(&mut self, time_ns: u64) -> u64 {
        let first = *self.first_ns.get_or_insert(time_ns);
        let (earliest, latest) = self.outcome.span_ns.unwrap_or((time_ns, time_ns));
        self.outcome.span_ns = Some((earliest.min(time_ns), latest.max(time_ns)));
        u64::try_from(i128::from(self.start_ns) + i128::from(time_ns) - i128::from(first)).unwrap_or(0)
    }

    fn sample(&mut self, body: &[u8]) -> Option<()> {
        use sample_type as has;
        let layout = self.layouts.for_sample(body)?;
        let mut at = 0;
        let mut next = |field: u64| -> Option<Option<usize>> {
            if layout.sample_type & field == 0 {
                return Some(None);
            }
            let place = at;
            at += 8;
            (body.len() >= at).then_some(Some(place))
        };
        next(has::IDENTIFIER)?;
        let ip = next(has::IP)?.and_then(|at| u64_at(body, at));
        let tid = next(has::TID)?;
        let time = next(has::TIME)?.and_then(|at| u64_at(body, at));
        next(has::ADDRESS)?;
        next(has::ID)?;
        next(has::STREAM)?;
        let cpu = next(has::CPU)?.and_then(|at| u32_at(body, at));
        next(has::PERIOD)?;
        let (pid, tid) = (tid.and_then(|at| u32_at(body, at)), tid.and_then(|at| u32_at(body, at + 4)));
        let stack =
            if layout.sample_type & has::CALLCHAIN != 0 { self.stack(body, at, layout, pid)? } else { None };
        self.outcome.samples += 1;
        let detail = stack.or_else(|| ip.map(|ip| self.frame(pid.unwrap_or(0), ip)));
        let timestamp_ns = time.map_or(self.start_ns, |time| self.at(time));
        (self.keep)(PerfRow::Kernel(KernelEventRow {
            timestamp_ns,
            kind: "sample".into(),
            processor: cpu.map(u64::from),
            pid: pid.map(u64::from),
            tid: tid.map(u64::from),
            duration_ns: None,
            value: ip,
            detail: detail.map(Into::into),
        }));
        Some(())
    }

    /// Frames from the outermost to the innermost, as in flame graphs.
    fn stack(&self, body: &[u8], mut at: usize, layout: Layout, pid: Option<u32>) -> Option<Option<String>> {
        if layout.sample_type & sample_type::READ != 0 {
            at = at.checked_add(read_bytes(body, at, layout.read_format)?)?;
        }
        let count = usize::try_from(u64_at(body, at)?).ok()?;
        let addresses = body.get(at + 8..(at + 8).checked_add(count.checked_mul(8)?)?)?;
        let mut frames: Vec<String> = addresses
            .chunks_exact(8)
            .filter_map(|address| u64_at(address, 0))
            .filter(|address| *address < FIRST_MARK)
            .take(MAX_FRAMES)
            .map(|address| self.frame(pid.unwrap_or(0), address))
            .collect();
        frames.reverse();
        Some((!frames.is_empty()).then(|| frames.join(";")))
    }

    fn frame(&self, pid: u32, address: u64) -> String {
        // Mappings of the kernel have the process id -1.
        for owner in [pid, u32::MAX] {
            let before = self.mappings.range((owner, 0)..=(owner, address)).next_back();
            if let Some(((_, start), mapping)) = before
                && address < mapping.end
            {
                let file_offset = if owner == u32::MAX { 0 } else { mapping.file_offset };
                // A mapping may claim any file offset.
                let offset = (address - start).saturating_add(file_offset);
                return format!("{}+0x{offset:x}", mapping.name);
            }
        }
        format!("0x{address:x}")
    }

    fn mapping(&mut self, body: &[u8], name_at: usize) -> Option<()> {
        let pid = u32_at(body, 0)?;
        let (start, length, file_offset) = (u64_at(body, 8)?, u64_at(body, 16)?, u64_at(body, 24)?);
        let path = text(body.get(name_at..)?);
        self.outcome.mappings += 1;
        let name = path.rsplit('/').next().unwrap_or(&path);
        let end = start.saturating_add(length);
        if self.mappings.len() < MAX_MAPPINGS {
            self.mappings.insert((pid, start), Mapping { end, file_offset, name: name.into() });
        }
        Some(())
    }

    fn program(&mut self, body: &[u8]) -> Option<()> {
        let (pid, tid) = (u32_at(body, 0)?, u32_at(body, 4)?);
        if pid != tid {
            self.outcome.other += 1;
            return Some(());
        }
        let name = text(body.get(8..)?);
        self.process(pid, None, "seen", &name, trailer(body, self.layouts.first).time_ns);
        Some(())
    }

    fn exit(&mut self, body: &[u8]) -> Option<()> {
        let (pid, parent, tid) = (u32_at(body, 0)?, u32_at(body, 4)?, u32_at(body, 8)?);
        let time = u64_at(body, 16)?;
        if pid != tid {
            self.outcome.other += 1;
            return Some(());
        }
        self.process(pid, Some(parent), "exited", "", Some(time));
        Some(())
    }

    fn process(&mut self, pid: u32, parent: Option<u32>, event: &str, name: &str, time: Option<u64>) {
        self.outcome.processes += 1;
        // Processes that existed before the first record have the time 0.
        let timestamp_ns = time.filter(|time| *time > 0).map_or(self.start_ns, |time| self.at(time));
        (self.keep)(PerfRow::Process(ProcessRow {
            timestamp_ns,
            pid: u64::from(pid),
            process_start: 0,
            event: event.into(),
            name: name.into(),
            parent_pid: parent.map(u64::from),
            ..ProcessRow::default()
        }));
    }

    /// A thread leaves its processor.
    fn switch(&mut self, body: &[u8], misc: u16) -> Option<()> {
        let common = trailer(body, self.layouts.first);
        if misc & SWITCH_OUT == 0 {
            self.outcome.other += 1;
            return Some(());
        }
        let time = common.time_ns?;
        self.outcome.switches += 1;
        let timestamp_ns = self.at(time);
        (self.keep)(PerfRow::Kernel(KernelEventRow {
            timestamp_ns,
            kind: "context_switch".into(),
            processor: common.cpu.map(u64::from),
            pid: common.pid.map(u64::from),
            tid: common.tid.map(u64::from),
            ..KernelEventRow::default()
        }));
        Some(())
    }
}

/// Length of the counter values.
fn read_bytes(body: &[u8], at: usize, format: u64) -> Option<usize> {
    const TIME_ENABLED: u64 = 1;
    const TIME_RUNNING: u64 = 2;
    const ID: u64 = 4;
    const GROUP: u64 = 8;
    const LOST: u64 = 16;
    let times = usize::from(format & TIME_ENABLED != 0) + usize::from(format & TIME_RUNNING != 0);
    let of_each = 1 + usize::from(format & ID != 0) + usize::from(format & LOST != 0);
    if format & GROUP == 0 {
        return Some((times + of_each) * 8);
    }
    let count = usize::try_from(u64_at(body, at)?).ok()?;
    count.checked_mul(of_each)?.checked_add(1 + times)?.checked_mul(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one event: ip, tid, time, cpu, call chain, and a trailer.
    fn file(records: &[Vec<u8>]) -> Vec<u8> {
        let sample_type = sample_type::IP
            | sample_type::TID
            | sample_type::TIME
            | sample_type::CPU
            | sample_type::CALLCHAIN;
        let mut attribute = vec![0; 136];
        attribute[24..32].copy_from_slice(&sample_type.to_le_bytes());
        attribute[40..48].copy_from_slice(&SAMPLE_ID_ALL.to_le_bytes());
        attribute.extend_from_slice(&[0; 16]);
        let data: Vec<u8> = records.concat();
        let mut bytes = MAGIC.to_vec();
        for number in [104, 152, 104, 152, 256, data.len() as u64] {
            bytes.extend_from_slice(&u64::to_le_bytes(number));
        }
        bytes.resize(104, 0);
        bytes.extend_from_slice(&attribute);
        bytes.extend_from_slice(&data);
        bytes
    }

    fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend_from_slice(&misc.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u16 + 8).to_le_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn sample(time: u64) -> Vec<u8> {
        record(9, 0, &words(&[0x1010, 7 | 8 << 32, time, 3, 3, u64::MAX - 511, 0x1010, 0x5000]))
    }

    fn mapping() -> Vec<u8> {
        let mut body = words(&[7 | 7 << 32, 0x1000, 0x1000, 0x200]);
        body.extend_from_slice(b"/usr/lib/libx.so\0\0\0\0\0\0\0\0");
        body.extend_from_slice(&words(&[7 | 7 << 32, 0, 0]));
        record(1, 0, &body)
    }

    fn all(bytes: &[u8]) -> Result<(Vec<PerfRow>, PerfOutcome), PerfDataError> {
        let mut rows = Vec::new();
        let outcome = read(bytes, 1_000, &mut |row| rows.push(row))?;
        Ok((rows, outcome))
    }

    #[test]
    fn samples_have_frames_and_times() {
        let bytes = file(&[mapping(), sample(50), sample(70), record(2, 0, &words(&[0, 9]))]);
        let (rows, outcome) = all(&bytes).unwrap();
        assert_eq!((outcome.samples, outcome.lost, outcome.unreadable, outcome.is_cut), (2, 9, 0, false));
        let PerfRow::Kernel(row) = &rows[1] else { panic!("{rows:?}") };
        assert_eq!((row.timestamp_ns, row.processor, row.pid, row.tid), (1_020, Some(3), Some(7), Some(8)));
        assert_eq!(row.detail.as_deref(), Some("0x5000;libx.so+0x210"));
        assert_eq!(outcome.span_ns, Some((50, 70)));
    }

    #[test]
    fn damaged_files_never_panic_and_truncated_ones_give_their_records() {
        let bytes = file(&[mapping(), sample(50), sample(70)]);
        for end in 0..bytes.len() {
            if let Ok((rows, outcome)) = all(&bytes[..end]) {
                assert!(outcome.is_cut && rows.len() <= 2, "{end}");
            }
        }
        for at in 0..bytes.len() {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                all(&damaged).ok();
            }
        }
        assert_eq!(all(b"PERFILE2\x10\0\0\0\0\0\0\0"), Err(PerfDataError::Pipe));
        assert_eq!(all(b"ELF"), Err(PerfDataError::NotPerfData));
    }

    /// Found by fuzzing: sums of extreme numbers overflowed, which panicked.
    #[test]
    fn extreme_numbers_are_clamped() {
        let mut body = words(&[7 | 7 << 32, 0x1000, 0x1000, u64::MAX - 1]);
        body.extend_from_slice(b"/x.so\0\0\0");
        body.extend_from_slice(&words(&[7 | 7 << 32, 0, 0]));
        let lost = record(2, 0, &words(&[0, u64::MAX]));
        let bytes = file(&[record(1, 0, &body), sample(50), lost.clone(), lost]);
        let (rows, outcome) = all(&bytes).unwrap();
        assert_eq!(outcome.lost, u64::MAX);
        let PerfRow::Kernel(row) = &rows[0] else { panic!("{rows:?}") };
        assert_eq!(row.detail.as_deref(), Some("0x5000;x.so+0xffffffffffffffff"));
    }
}
