//! Cost of writing and reading. Prints figures and asserts nothing about them:
//! `cargo nextest run -p ortscope-channel --run-ignored only --no-capture -- speed_of`
//!
//! Times are processor time of the thread, so that other programs on the machine do not count.
#![cfg(target_os = "linux")]

mod support;

use std::time::Duration;

use ortscope_channel::journal::{JournalOptions, JournalWriter, journal_files};
use ortscope_channel::{ChannelReader, ChannelWriter, FrameKind, RingWriter};
use ortscope_core::batch::Batch;
use ortscope_core::identity::ProcessIdentity;
use ortscope_core::schema::{InferenceRow, ProcessSampleRow, TableId};
use support::{Random, read_file};

const OWNER: ProcessIdentity = ProcessIdentity { pid: 1, start: 0 };

fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A tick of 100 processes with the spread of values that a machine shows.
fn real_samples() -> Batch {
    let mut batch = Batch::new(TableId::ProcessSamples);
    let random = &mut Random::new(1);
    for _ in 0..100 {
        let magnitude = 10 + random.below(30);
        let mut total = || Some(random.next() % (1 << magnitude));
        batch.push(&ProcessSampleRow {
            timestamp_ns: 123_456_789_000,
            pid: total().unwrap_or(0) % 30_000,
            process_start: total().unwrap_or(0),
            cpu_time_ns: total().unwrap_or(0),
            user_time_ns: total(),
            kernel_time_ns: total(),
            context_switches: total(),
            priority: Some(20),
            affinity_mask: Some(3),
            working_set_bytes: total().unwrap_or(0) & !4095,
            peak_working_set_bytes: total(),
            private_bytes: total(),
            virtual_bytes: total(),
            page_faults: total(),
            hard_faults: Some(0),
            thread_count: Some(4),
            read_operations: total(),
            write_operations: total(),
            read_bytes: total(),
            write_bytes: total(),
            handle_count: Some(17),
            ..ProcessSampleRow::default()
        });
    }
    batch
}

fn inferences() -> Batch {
    let mut batch = Batch::new(TableId::Inferences);
    let row =
        InferenceRow { session_id: "a session".into(), phase: "steady".into(), ..InferenceRow::default() };
    for sequence in 0..1024 {
        batch.push(&InferenceRow { sequence, batch_size: Some(1), ..row.clone() });
    }
    batch
}

#[expect(clippy::print_stdout, reason = "the figures")]
fn speed_of(name: &str, batch: &Batch, appends: u32, pause: Option<Duration>) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut writer = JournalWriter::create(directory.path(), JournalOptions::default()).expect("a journal");
    let mut each: Vec<u64> = Vec::new();
    for _ in 0..appends {
        let start = cpu_ns();
        writer.append(batch).expect("appended");
        each.push(cpu_ns() - start);
        if let Some(pause) = pause {
            std::thread::sleep(pause);
        }
    }
    writer.seal().expect("sealed");
    each.sort_unstable();
    let at = |share: f64| each[((each.len() - 1) as f64 * share) as usize];
    let mean = each.iter().sum::<u64>() / each.len() as u64;
    let files = journal_files(directory.path()).expect("its files");
    let bytes: u64 =
        files.iter().map(|file| std::fs::metadata(&file.path).map_or(0, |file| file.len())).sum();
    let start = cpu_ns();
    let rows: u64 = files.iter().map(|file| read_file(&file.path).1.rows).sum();
    let took = (cpu_ns() - start) as f64 / 1e9;
    assert_eq!(rows, u64::from(appends) * batch.len() as u64);
    println!(
        "{name}: append p50 {} ns, mean {mean} ns, p99 {} ns, max {} ns; {} bytes per append; {} files; \
         reading {:.0} MB/s, {:.0} MB/s of rows, {:.1} M rows/s",
        at(0.5),
        at(0.99),
        each[each.len() - 1],
        bytes / u64::from(appends),
        files.len(),
        bytes as f64 / took / 1e6,
        (batch.bytes() as u64 * u64::from(appends)) as f64 / took / 1e6,
        rows as f64 / took / 1e6,
    );
}

#[test]
#[ignore = "prints figures"]
fn speed_of_the_journal() {
    let tick = Some(Duration::from_millis(1));
    speed_of("100 process samples, back to back", &real_samples(), 1000, None);
    speed_of("100 process samples, every millisecond", &real_samples(), 3000, tick);
    speed_of("1024 inferences, every millisecond", &inferences(), 2000, tick);
}

#[test]
#[ignore = "prints figures"]
fn speed_of_a_ring() {
    const WRITES: u32 = 1 << 15;
    let directory = tempfile::tempdir().expect("a directory");
    let mut ring = RingWriter::create(directory.path(), "plain", 1 << 22, OWNER).unwrap();
    let channel = ChannelWriter::new(directory.path(), 1 << 22, || OWNER).unwrap();
    channel.write(FrameKind::INFERENCE, &[0; 72]);
    let mut reader = ChannelReader::new(directory.path());
    let (mut plain, mut by_thread) = (f64::MAX, f64::MAX);
    for _ in 0..50 {
        let start = cpu_ns();
        for number in 0..WRITES {
            assert!(ring.try_write(FrameKind::INFERENCE, &[number as u8; 72]));
        }
        plain = plain.min((cpu_ns() - start) as f64 / f64::from(WRITES));
        let start = cpu_ns();
        for number in 0..WRITES {
            assert!(channel.write(FrameKind::INFERENCE, &[number as u8; 72]));
        }
        by_thread = by_thread.min((cpu_ns() - start) as f64 / f64::from(WRITES));
        reader.drain(|_, _| {}).unwrap();
    }
    println!("a record into a ring {plain:.1} ns, through a channel writer {by_thread:.1} ns");
}
