//! Any bytes as the records of two processors in a trace, up to what they mean: processes, threads, switches, samples, I/O,
//! inferences and engine time. Never a panic, every event is counted, and what is told adds up.
//!
//! Input: where the second processor's records begin (in 256ths), whether the trace is read twice, then records as they
//! stand in a file.

#![no_main]

use std::io::Cursor;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ortscope_decode::etw::{EtwDecoder, EtwSink, OrtRow, ProcessLife, Sample, ThreadLife};
use ortscope_etl::writer::{FileSettings, Writer};
use ortscope_etl::{EtlBytes, FileTime};

const BUFFER_BYTES: usize = 4096;
const HEADER_BYTES: usize = 0x48;

/// A file without events: the buffer with its header.
static EMPTY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let start = FileTime::from_unix_ns(1_700_000_000_000_000_000);
    let settings = FileSettings::new(2, 10_000_000, 1_000, start).buffer_bytes(BUFFER_BYTES as u32);
    let writer = Writer::new(Cursor::default(), settings).expect("memory takes all");
    writer.finish().expect("memory takes all").0.into_inner()
});

/// Counts what it is told.
#[derive(Default)]
struct Told {
    samples: u64,
    processes: u64,
    threads: u64,
    letters: usize,
}

impl EtwSink for Told {
    fn sample(&mut self, _: &Sample) {
        self.samples += 1;
    }
    fn process_ends(&mut self, process: &ProcessLife) {
        self.processes += 1;
        self.letters += format!("{process:?}").len();
    }
    fn thread_ends(&mut self, _: &ThreadLife) {
        self.threads += 1;
    }
    fn ort(&mut self, row: &OrtRow) {
        self.letters += format!("{row:?}").len();
    }
}

/// A buffer of one processor, whose header agrees with what is in it.
fn buffer(file: &mut Vec<u8>, processor: u8, records: &[u8]) {
    let begin = file.len();
    let records = &records[..records.len().min(BUFFER_BYTES - HEADER_BYTES)];
    let end = (HEADER_BYTES + records.len()) as u32;
    file.resize(begin + HEADER_BYTES, 0);
    file.extend_from_slice(records);
    file.resize(begin + BUFFER_BYTES, 0xff);
    let head = &mut file[begin..];
    head[..4].copy_from_slice(&(BUFFER_BYTES as u32).to_le_bytes());
    head[4..8].copy_from_slice(&end.to_le_bytes());
    head[8..12].copy_from_slice(&end.to_le_bytes());
    head[0x18] = processor + 1;
    head[0x28] = processor;
    head[0x2a] = 1;
    head[0x2c] = 3;
    head[0x30..0x34].copy_from_slice(&end.to_le_bytes());
}

fuzz_target!(|data: &[u8]| {
    let Some((&[share, passes], records)) = data.split_first_chunk::<2>() else { return };
    let (one, two) = records.split_at(records.len() * usize::from(share) / 256);
    let mut file = EMPTY.clone();
    buffer(&mut file, 0, two);
    if !one.is_empty() {
        buffer(&mut file, 1, one);
    }
    let etl = EtlBytes::new(&file).expect("the header is ours");
    let mut decoder = EtwDecoder::new(etl.header());
    if passes % 2 == 1 {
        etl.ordered(|record| {
            decoder.learn(record);
            ControlFlow::Continue(())
        })
        .expect("memory does not fail");
    }
    let mut told = Told::default();
    let walk = etl
        .ordered(|record| {
            decoder.push(record, &mut told);
            ControlFlow::Continue(())
        })
        .expect("memory does not fail");
    decoder.settle(decoder.last_ns() / 2, &mut told);
    decoder.finish(&mut told);
    let counts = decoder.counts();
    assert_eq!(decoder.coverage().total(), walk.records);
    assert_eq!(
        (told.samples, told.processes, told.threads),
        (counts.samples.samples, counts.lives.processes, counts.lives.threads)
    );
    let shown = format!("{:?} {:?} {:?}", decoder.cores(), decoder.coverage().unused(), counts);
    let engines = decoder.engine_totals().count() + decoder.adapters().count() + decoder.engines().count();
    assert!(shown.len() + engines + told.letters > 0);
});
