//! Real traces: results are compared with the records themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::*;

fn folder() -> Option<PathBuf> {
    let root = std::env::var_os("ORTSCOPE_CORPUS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let folder = root.join("etl");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no traces in {}; set ORTSCOPE_CORPUS", folder.display());
    None
}

/// Kernel records by hook, and the disk bytes read at their documented offset.
#[derive(Default)]
struct Raw {
    hooks: BTreeMap<u16, u64>,
    disk_bytes: u64,
    threads_of_idle: BTreeMap<u16, u64>,
    stack_records: u64,
}

impl Raw {
    fn of<S: Storage>(etl: &Etl<S>) -> Self {
        let mut raw = Self::default();
        etl.ordered(|record| {
            if let Identity::Kernel { hook, .. } = record.identity {
                *raw.hooks.entry(hook.0).or_default() += 1;
                if matches!(hook.0, 0x010a | 0x010b) {
                    let size: [u8; 4] = record.payload[8..12].try_into().unwrap();
                    raw.disk_bytes += u64::from(u32::from_le_bytes(size));
                }
                if hook.group() == 5 && matches!(hook.kind(), 1..=4) && record.payload[4..8] == [0; 4] {
                    *raw.threads_of_idle.entry(hook.0).or_default() += 1;
                }
                raw.stack_records += u64::from(matches!(hook.0, 0x1820 | 0x1825 | 0x1826));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        raw
    }

    fn count(&self, hook: u16) -> u64 {
        self.hooks.get(&hook).copied().unwrap_or(0) - self.threads_of_idle.get(&hook).copied().unwrap_or(0)
    }
}

#[test]
fn processes_images_disks_and_samples_match_the_records() {
    let Some(folder) = folder() else { return };
    for (name, least_processes) in [
        ("perfview_net.4.5.2.x64.etl", 30),
        ("etlparser_ShutdownPerfDiagLogger.etl", 30),
        ("dotnetperf_DynamicEvents.etl", 1),
        ("perfview_diaghub.kernel.1.etl", 1),
    ] {
        let file = std::fs::read(folder.join(name)).unwrap();
        let etl = Etl::new(file.as_slice()).unwrap();
        let raw = Raw::of(&etl);
        let mut kept = Kept::default();
        let (decoder, walk) = decode(&etl, 2, &mut kept);
        let counts = decoder.counts();
        println!(
            "{name}: {} records, {} used, {} processes, {} threads, {} images, {} samples ({} with stack), {} disk",
            walk.records,
            decoder.coverage().used(),
            kept.processes.len(),
            kept.threads.len(),
            kept.images.len(),
            kept.samples.len(),
            counts.samples.with_stack,
            kept.disks.len()
        );
        assert_eq!(decoder.coverage().total(), walk.records, "{name}");

        let started = |list: &[Option<u64>]| list.iter().flatten().count() as u64;
        let starts: Vec<_> = kept.processes.iter().map(|life| life.start_ns).collect();
        let ends: Vec<_> = kept.processes.iter().map(|life| life.end_ns).collect();
        assert_eq!(
            (started(&starts), started(&ends)),
            (raw.count(0x0301), raw.count(0x0302)),
            "{name}: processes"
        );
        assert!(kept.processes.len() >= least_processes, "{name}: {} processes", kept.processes.len());
        let starts: Vec<_> = kept.threads.iter().map(|life| life.start_ns).collect();
        let ends: Vec<_> = kept.threads.iter().map(|life| life.end_ns).collect();
        assert_eq!(
            (started(&starts), started(&ends)),
            (raw.count(0x0501), raw.count(0x0502)),
            "{name}: threads"
        );

        let images = |moment| kept.images.iter().filter(|image| image.moment == moment).count() as u64;
        let moments =
            [ImageMoment::Load, ImageMoment::Unload, ImageMoment::Before, ImageMoment::After].map(images);
        assert_eq!(moments, [0x030a, 0x1402, 0x1403, 0x1404].map(|hook| raw.count(hook)), "{name}: images");

        assert_eq!(
            kept.disks.iter().map(|disk| u64::from(disk.io.bytes)).sum::<u64>(),
            raw.disk_bytes,
            "{name}"
        );
        assert_eq!(kept.disks.len() as u64, raw.count(0x010a) + raw.count(0x010b), "{name}");
        assert_eq!(kept.faults.len() as u64, raw.count(0x0220), "{name}: hard faults");

        assert_eq!(kept.samples.len() as u64, raw.count(0x0f2e), "{name}: samples");
        let known: BTreeSet<u32> = kept.processes.iter().map(|life| life.pid).collect();
        let strays: BTreeSet<(u32, u32)> = kept
            .samples
            .iter()
            .map(|sample| sample.cpu.thread)
            .filter(|thread| !thread.is_idle() && !known.contains(&thread.pid))
            .map(|thread| (thread.tid, thread.pid))
            .collect();
        assert!(strays.is_empty(), "{name}: samples of threads without a process: {strays:?}");
        assert_eq!(counts.wrong_times, 0, "{name}");
        assert_eq!(counts.lives.dropped + counts.samples.late_stacks + counts.io.dropped, 0, "{name}");
    }
}

/// Every file of the corpus, in one pass.
#[test]
fn every_record_of_every_trace_is_accounted_for() {
    let Some(folder) = folder() else { return };
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "etl"));
    files.sort();
    assert!(files.len() >= 39, "{} files", files.len());
    let (mut records, mut used) = (0, 0);
    let mut reasons: BTreeMap<Unused, u64> = BTreeMap::new();
    for path in files {
        let file = std::fs::read(&path).unwrap();
        let etl = Etl::new(file.as_slice()).unwrap();
        let mut sink = ();
        let (decoder, walk) = decode(&etl, 1, &mut sink);
        assert_eq!(decoder.coverage().total(), walk.records, "{}", path.display());
        records += walk.records;
        used += decoder.coverage().used();
        for (kind, reason, count) in decoder.coverage().unused() {
            *reasons.entry(reason).or_default() += count;
            if reason == Unused::TooShort {
                println!("{}: {kind:?} {}: {count}", path.display(), reason.reason());
            }
        }
    }
    println!("{records} records, {used} used, not used: {reasons:?}");
}
