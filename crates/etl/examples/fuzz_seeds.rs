//! Creates seeds for the fuzz targets `etl_…` from real traces: `fuzz_seeds DIRECTORY TRACE…` fills
//! `DIRECTORY/container`, `DIRECTORY/payloads` and `DIRECTORY/schemas` with inputs in the targets' format.
//!
//! Each seed is small, because small inputs are tried often: one record of each kind and version in a trace.

#![expect(clippy::print_stdout, reason = "an example is a program")]

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::Path;

use ortscope_etl::payload::SchemaStore;
use ortscope_etl::payload::event_source::MANIFEST_EVENT;
use ortscope_etl::payload::kernel::{
    IMAGE_ID_CLASS, LOST_EVENT_CLASS, METADATA_CLASS, PERF_INFO_CLASS, SYSTEM_CONFIG_EX_CLASS, hook_name,
};
use ortscope_etl::payload::trace_logging::TraceLogging;
use ortscope_etl::writer::{FileSettings, Writer};
use ortscope_etl::{EtlFile, EventRecord, FileTime, Hook, Identity, PointerSize, log_file_modes};

const MAX_BYTES: usize = 4096;

type AnyError = Box<dyn std::error::Error>;

fn main() -> Result<(), AnyError> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("say where the seeds go, then which traces to take")?;
    let mut seeds = Seeds { directory: Path::new(&directory), written: HashMap::new() };
    for trace in arguments {
        let file = EtlFile::open(&trace)?;
        let mut store = SchemaStore::new();
        file.ordered(|record| {
            store.learn(record);
            ControlFlow::Continue(())
        })?;
        let (mut kinds, mut records, mut metadata) = (HashSet::new(), Vec::new(), HashMap::new());
        file.ordered(|record| {
            if record.bytes.len() > 1500 {
                return ControlFlow::Continue(());
            }
            if let Identity::Classic(classic) = record.identity
                && classic.class == METADATA_CLASS
            {
                metadata.insert(record.payload.get(..38).unwrap_or(&[]).to_vec(), record.payload.to_vec());
            }
            // Two of each: some structures only occur in repetitions.
            let name = TraceLogging::of(record).map(|event| event.event_name.to_owned());
            let key = (record.kind, record.identity, record.extended_bytes.len() / 16, name);
            if kinds.insert((key.clone(), 0)) || kinds.insert((key, 1)) {
                records.push(Kept::new(record));
            }
            ControlFlow::Continue(())
        })?;
        seeds.containers(&records)?;
        for record in &records {
            seeds.payload(record)?;
            seeds.schema(record, &metadata)?;
        }
    }
    println!("{:?}", seeds.written);
    Ok(())
}

/// An owned record.
struct Kept {
    identity: Identity,
    is_four: bool,
    processor: u16,
    ticks: u64,
    bytes: Vec<u8>,
    extended: Vec<u8>,
    payload: Vec<u8>,
}

impl Kept {
    fn new(record: &EventRecord<'_>) -> Self {
        Self {
            identity: record.identity,
            is_four: record.pointer_size == PointerSize::Four,
            processor: record.processor,
            ticks: record.ticks,
            bytes: record.bytes.to_vec(),
            extended: record.extended_bytes.to_vec(),
            payload: record.payload.to_vec(),
        }
    }
}

struct Seeds<'a> {
    directory: &'a Path,
    written: HashMap<&'static str, usize>,
}

impl Seeds<'_> {
    fn write(&mut self, target: &'static str, mut bytes: Vec<u8>) -> Result<(), AnyError> {
        bytes.truncate(MAX_BYTES);
        let number = self.written.entry(target).or_default();
        *number += 1;
        let directory = self.directory.join(target);
        fs::create_dir_all(&directory)?;
        Ok(fs::write(directory.join(format!("{number:05}")), bytes)?)
    }

    /// Small files with a few records each; buffers end with their records, and every second file is compressed.
    fn containers(&mut self, records: &[Kept]) -> Result<(), AnyError> {
        for (number, some) in records.chunks(12).enumerate() {
            let settings = FileSettings::new(2, 10_000_000, 0, FileTime(133_500_000_000_000_000));
            let mut writer = Writer::new(Cursor::new(Vec::new()), settings.names("s", "f"))?;
            for record in some {
                writer.raw(record.processor % 4, record.ticks, &record.bytes)?;
            }
            let whole = writer.finish()?.0.into_inner();
            self.write("container", shrunk(&whole, number % 2 == 1))?;
        }
        Ok(())
    }

    fn payload(&mut self, record: &Kept) -> Result<(), AnyError> {
        let hooks = || (0..=u16::MAX).map(Hook).filter(|hook| hook_name(*hook).is_some());
        let classes = [IMAGE_ID_CLASS, SYSTEM_CONFIG_EX_CLASS, LOST_EVENT_CLASS, PERF_INFO_CLASS];
        let (which, version) = match record.identity {
            Identity::Kernel { hook, version } => match hooks().position(|known| known == hook) {
                Some(place) => ((place as u16).to_le_bytes(), version),
                None => return Ok(()),
            },
            Identity::Classic(classic) => match classes.iter().position(|class| *class == classic.class) {
                Some(place) => ([classic.kind, 0xf0 + place as u8], classic.version),
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        let head = [which[0], which[1], version as u8, u8::from(record.is_four) | 0x10];
        let mut seed = head.to_vec();
        seed.push(record.payload.len().div_ceil(4).min(255) as u8);
        seed.extend_from_slice(&record.payload);
        self.write("payloads", seed)
    }

    fn schema(&mut self, record: &Kept, metadata: &HashMap<Vec<u8>, Vec<u8>>) -> Result<(), AnyError> {
        let flags = u8::from(record.is_four);
        let part = |kind: u8, which: u8, bytes: &[u8]| {
            let mut part = vec![kind, which];
            part.extend((bytes.len() as u16).to_le_bytes());
            part.extend_from_slice(bytes);
            part
        };
        let Identity::Event { provider, descriptor } = record.identity else { return Ok(()) };
        let mut seed = vec![5, flags, 0, 0];
        if !record.extended.is_empty() {
            seed.extend(part(
                6,
                (record.extended.len() / 8) as u8,
                &[&record.extended[..], &record.payload].concat(),
            ));
        } else if descriptor.id == MANIFEST_EVENT {
            seed.extend(part(2, 0, &record.payload));
        } else if let Some(blob) = metadata.values().find(|blob| {
            blob.get(..16) == Some(&provider.to_bytes()[..])
                && blob.get(32..35)
                    == Some(&[
                        descriptor.id.to_le_bytes()[0],
                        descriptor.id.to_le_bytes()[1],
                        descriptor.version,
                    ])
        }) {
            seed.extend(part(0, 0, blob));
            seed.extend(part(4, 0, &record.payload));
        } else {
            return Ok(());
        }
        self.write("schemas", seed)
    }
}

/// The file with buffers that end where their events do. Compressed ones contain only literals.
fn shrunk(file: &[u8], compress: bool) -> Vec<u8> {
    const HEAD: usize = 0x48;
    let number = |at: usize| file[at..at + 4].iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let mut out = Vec::new();
    let mut at = 0;
    while at < file.len() {
        let (size, end) = (number(at), number(at + 0x30));
        let mut head = file[at..at + HEAD].to_vec();
        let mut data = file[at + HEAD..at + end].to_vec();
        if at == 0 {
            // The mode of the file is in the payload of the first event.
            let mode = 0x20 + 0x20;
            data[mode + 3] |= if compress { (log_file_modes::COMPRESSED >> 24) as u8 } else { 0 };
        } else if compress {
            head[0x34] |= 0x40;
            data = data.chunks(32).flat_map(|piece| [&[0; 4][..], piece].concat()).collect();
        }
        head[..4].copy_from_slice(&((HEAD + data.len()) as u32).to_le_bytes());
        out.extend(head);
        out.extend(data);
        at += size;
    }
    out
}
