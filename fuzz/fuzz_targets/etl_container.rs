//! Any bytes as a file: never a panic, and all walks agree.

#![no_main]

use std::io::Cursor;
use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use ortscope_etl::{Etl, EtlBytes, FileStorage, Filter};

fuzz_target!(|data: &[u8]| {
    let Ok(file) = EtlBytes::new(data) else { return };
    // A few bytes can decompress to a buffer of 16 MB, which shows nothing that a smaller one does not.
    if file.compressed_buffers() > 0 && file.header().buffer_size > 1 << 16 {
        return;
    }
    let mut seen = 0;
    let mut payload_bytes = 0;
    let walk = file
        .ordered(|record| {
            seen += 1;
            payload_bytes +=
                record.payload.len() + record.extended().map(|item| item.data.len()).sum::<usize>();
            let _ = file.header().time_of(record.ticks).to_string().len() + record.counters().count();
            ControlFlow::Continue(())
        })
        .expect("memory does not fail");
    assert_eq!(walk.records, seen);
    assert!(payload_bytes <= data.len() * 8192 + (32 << 20), "payloads cannot outgrow the buffers");
    // One of the other ways, so that most inputs stay cheap.
    match data.len() % 4 {
        0 => {
            let storage = FileStorage::new(Cursor::new(data)).expect("memory does not fail");
            let pieces = Etl::new(storage).expect("the header was read before");
            let (_, again) = pieces.unordered(1, || (), |(), _| {}).expect("memory does not fail");
            assert_eq!(again.records, walk.records);
        }
        1 => {
            let storage = FileStorage::new(Cursor::new(data)).expect("memory does not fail");
            let pieces = Etl::new(storage).expect("the header was read before");
            let again = pieces.ordered(|_| ControlFlow::Continue(())).expect("memory does not fail");
            assert_eq!(again, walk);
        }
        2 if file.header().buffer_size <= 8192 => {
            let out = Cursor::new(Vec::new());
            let (out, cut) = file.cut(&Filter::default(), out).expect("what was read can be written");
            let copy = out.into_inner();
            let copy = EtlBytes::new(&copy).expect("we wrote it");
            let walk = copy.ordered(|_| ControlFlow::Continue(())).expect("memory does not fail");
            assert_eq!(walk.records, cut.kept + cut.context);
        }
        _ => {}
    }
});
