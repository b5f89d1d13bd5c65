//! All processes and their threads in one call, read once per tick.

use std::time::Instant;

use ortscope_decode::nt::{Process, ProcessClass, ProcessList};

use super::native::{self, NoAnswer};
use crate::sampler::ReadError;

/// Initial buffer; a machine with 200 processes and 3,000 threads fills about half of it.
const FIRST_BYTES: usize = 512 << 10;
/// Maximum size: 65,536 processes with eight threads each take 50 MiB.
const MAX_BYTES: usize = 64 << 20;
/// The list can grow between two calls, so that the second buffer is too small again.
const MAX_TRIES: usize = 8;

/// The last list and the position of each process in it.
#[derive(Debug)]
pub(super) struct Snapshot {
    buffer: Vec<u64>,
    length: usize,
    class: ProcessClass,
    /// Pids with their positions, sorted by pid.
    places: Vec<(u32, usize)>,
    /// Administrators get more; determined at the first attempt.
    full: bool,
    /// Duration of the last call.
    cost_ns: u64,
}

impl Snapshot {
    pub fn new() -> Self {
        Self {
            buffer: Vec::new(),
            length: 0,
            class: ProcessClass::Plain,
            places: Vec::new(),
            full: true,
            cost_ns: 0,
        }
    }

    /// Takes a new snapshot. With `starts` it includes thread start addresses, which makes it larger.
    pub fn take(&mut self, starts: bool) -> Result<(), ReadError> {
        let begin = Instant::now();
        self.places.clear();
        self.length = 0;
        let classes: &[ProcessClass] = match (starts, self.full) {
            (false, _) => &[ProcessClass::Plain],
            (true, true) => &[ProcessClass::Full, ProcessClass::Extended, ProcessClass::Plain],
            (true, false) => &[ProcessClass::Extended, ProcessClass::Plain],
        };
        let mut result = Err(NoAnswer::Status(0));
        for class in classes {
            result = self.fill(*class);
            if result.is_ok() {
                break;
            }
            self.full &= *class != ProcessClass::Full;
        }
        result.map_err(|error| match error {
            NoAnswer::TooSmall(bytes) => {
                ReadError::Failed(format!("the process list takes {} MiB; the limit is 64", bytes >> 20))
            }
            NoAnswer::Status(status) => {
                ReadError::Failed(format!("NtQuerySystemInformation failed with {status:#010x}"))
            }
        })?;
        let mut places = std::mem::take(&mut self.places);
        for process in self.list().processes() {
            let process = process.map_err(|damaged| ReadError::Failed(damaged.to_string()))?;
            places.push((process.pid(), process.offset()));
        }
        places.sort_unstable();
        self.places = places;
        self.cost_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(())
    }

    fn fill(&mut self, class: ProcessClass) -> Result<(), NoAnswer> {
        let mut tries = 0;
        loop {
            tries += 1;
            if self.buffer.is_empty() {
                self.buffer.resize(FIRST_BYTES / size_of::<u64>(), 0);
            }
            match native::system_information(class.number(), &mut self.buffer) {
                Ok(length) => {
                    (self.length, self.class) = (length, class);
                    return Ok(());
                }
                Err(NoAnswer::TooSmall(needed)) if tries < MAX_TRIES => {
                    // A quarter more than required, because processes start all the time.
                    let wanted = (needed + needed / 4).max(size_of_val(&self.buffer[..]) * 2);
                    if needed > MAX_BYTES || size_of_val(&self.buffer[..]) >= MAX_BYTES {
                        return Err(NoAnswer::TooSmall(needed));
                    }
                    self.buffer.resize(wanted.min(MAX_BYTES).div_ceil(size_of::<u64>()), 0);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn list(&self) -> ProcessList<'_> {
        let bytes = native::as_bytes(&self.buffer);
        let bytes = bytes.get(..self.length).unwrap_or_default();
        ProcessList::new(bytes, bytes.as_ptr().addr() as u64, self.class)
    }

    pub fn cost_ns(&self) -> u64 {
        self.cost_ns
    }

    /// Process 0 is not a process but the idle time.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.places.iter().map(|(pid, _)| *pid).filter(|pid| *pid != 0)
    }

    /// The process with this id.
    pub fn process(&self, pid: u32) -> Option<Process<'_>> {
        let at = self.places.binary_search_by_key(&pid, |(pid, _)| *pid).ok().filter(|_| pid != 0)?;
        self.list().at(self.places[at].1).ok()
    }

    /// Exactly this process.
    pub fn same(&self, pid: u32, create_time: u64) -> Option<Process<'_>> {
        self.process(pid).filter(|process| process.create_time() == create_time)
    }

    /// The parent, unless it has exited and its id was reused.
    pub fn parent_of(&self, process: &Process<'_>) -> Option<u32> {
        let parent = process.parent_pid();
        let owner = self.process(parent)?;
        (owner.create_time() <= process.create_time()).then_some(parent)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn own_threads(snapshot: &Snapshot) -> BTreeSet<Option<u32>> {
        let own = snapshot.process(std::process::id()).expect("this process");
        own.threads().map(|thread| thread.id()).collect()
    }

    #[test]
    fn a_small_buffer_grows_and_every_list_has_this_process() {
        let mut small = Snapshot { buffer: vec![0; 8], ..Snapshot::new() };
        small.take(false).unwrap();
        assert_eq!(small.class, ProcessClass::Plain);
        assert!(small.length > 64 && small.cost_ns() > 0);
        assert!(small.pids().count() > 1 && small.process(0).is_none());
        assert!(!own_threads(&small).is_empty());

        let mut large = Snapshot::new();
        large.take(true).unwrap();
        assert_ne!(large.class, ProcessClass::Plain, "threads have start addresses");
        assert_eq!(large.full, large.class == ProcessClass::Full);
        let own = large.process(std::process::id()).unwrap();
        assert!(own.threads().all(|thread| thread.win32_start_address() > Some(0)));
        assert_eq!(large.same(own.pid(), own.create_time()).map(|same| same.offset()), Some(own.offset()));
        assert!(large.same(own.pid(), own.create_time() + 1).is_none());
        // The administrators' list is requested again only if it was granted.
        large.take(true).unwrap();
        assert_eq!(large.full, large.class == ProcessClass::Full);
    }
}
