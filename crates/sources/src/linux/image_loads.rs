//! Programs and libraries mapped by any process, from perf's records.

use std::os::fd::OwnedFd;

use ortscope_core::kernel::ImageLoad;
use ortscope_decode::perf_record_samples::{self as records, SampleRecord};

use super::perf_raw::{Next, RawRing};
use super::{perf_open, processors, rights};
use crate::kernel::TraceError;

/// Per processor. A mapping record has about 150 bytes.
const RING_BYTES: usize = 256 << 10;
const WHAT: &str = "recording mapped files";

#[derive(Debug)]
pub struct ImageLoads {
    rings: Vec<RawRing>,
    /// Keeps the events open.
    _events: Vec<OwnedFd>,
    record: Vec<u8>,
}

impl ImageLoads {
    pub fn open() -> Result<Self, TraceError> {
        let (mut rings, mut events) = (Vec::new(), Vec::new());
        for cpu in 0..processors::online() as u32 {
            match perf_open::open_mappings(cpu) {
                Ok(event) => {
                    rings.push(RawRing::map(&event, RING_BYTES, WHAT)?);
                    events.push(event);
                }
                // The processor is offline.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(rights::perf_error(WHAT, error)),
            }
        }
        Ok(Self { rings, _events: events, record: Vec::new() })
    }

    /// Emits the mappings since the last call; returns the number of lost records.
    pub fn drain(&mut self, out: &mut dyn FnMut(ImageLoad)) -> u64 {
        let mut lost = 0;
        for ring in &mut self.rings {
            loop {
                let length = match ring.peek() {
                    Next::Nothing => break,
                    Next::Record(length) => length,
                    Next::Damaged => {
                        lost += 1;
                        break;
                    }
                };
                self.record.resize(length, 0);
                ring.copy(&mut self.record);
                ring.skip(length);
                match records::decode(&self.record, 0) {
                    SampleRecord::Mapped(mapped) if mapped.is_executable && mapped.path.starts_with(b"/") => {
                        out(ImageLoad {
                            at_ns: records::time_ns(&self.record).unwrap_or(0),
                            pid: mapped.pid,
                            address: mapped.address,
                            bytes: mapped.bytes,
                            path: mapped.path.to_vec(),
                            build_id: mapped.build_id.map(<[u8]>::to_vec),
                        });
                    }
                    SampleRecord::Lost(count) => lost += count,
                    _ => {}
                }
            }
            ring.release();
        }
        lost
    }
}
