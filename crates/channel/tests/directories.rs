//! Channel directories: orphans of killed recorders, and rings that come and go with threads.

use std::path::Path;
use std::sync::mpsc;

use ortscope_channel::{
    ChannelDirectory, ChannelReader, ChannelWriter, FrameKind, RingReader, directories_of, has_reader,
    orphaned_channels, pid_of, process_directory, recording_of,
};
use ortscope_core::identity::ProcessIdentity;

fn own() -> ProcessIdentity {
    ProcessIdentity { pid: std::process::id(), start: 4711 }
}

fn is_left(base: &Path, is_alive: impl Fn(ProcessIdentity) -> bool) -> bool {
    orphaned_channels(is_alive).iter().any(|left| left.directory() == base)
}

fn rings(directory: &Path) -> usize {
    let files = std::fs::read_dir(directory).expect("the directory exists").flatten();
    files.filter(|file| file.path().extension().is_some_and(|ending| ending == "ring")).count()
}

#[test]
fn a_directory_is_removed_with_its_reader_and_survives_a_kill() {
    let base = ChannelDirectory::create(own()).unwrap();
    let path = base.path().to_owned();
    assert!(has_reader(&path) && !is_left(&path, |_| false), "its reader lives");
    drop(base);
    assert!(!path.exists());

    let base = ChannelDirectory::create(own()).unwrap();
    base.set_recording(Path::new("/recordings/one")).unwrap();
    let directory = process_directory(base.path(), own().pid);
    assert_eq!(pid_of(&directory), Some(own().pid));
    let writer = ChannelWriter::new(&directory, 4096, own).unwrap();
    assert!(writer.write(FrameKind::MESSAGE, b"unread"));
    assert!(directories_of(own().pid, None).contains(&directory));
    // A killed reader removes nothing, and the system gives its lock back.
    let path = base.keep();
    assert!(!has_reader(&path));
    assert!(!is_left(&path, |owner| owner == own()), "a program still writes there");
    assert_eq!(recording_of(&path).as_deref(), Some(Path::new("/recordings/one")));
    let left =
        orphaned_channels(|_| false).into_iter().find(|left| left.directory() == path).expect("it is dead");
    assert_eq!(left.recording(), Some(Path::new("/recordings/one")));
    assert!(!is_left(&path, |_| false), "already taken");
    // Windows removes no file that is still mapped.
    drop(writer);
    left.remove().unwrap();
    assert!(!path.exists());
}

/// Only the ring of the thread that dropped the writer was closed once: a reader waited for the others for ever.
#[test]
fn dropping_a_writer_closes_the_rings_of_all_threads() {
    let directory = tempfile::tempdir().unwrap();
    let writer = std::sync::Arc::new(ChannelWriter::new(directory.path(), 4096, own).unwrap());
    let (written, wait_written) = mpsc::sync_channel(0);
    let (go, wait_go) = mpsc::sync_channel::<()>(0);
    let of_thread = std::sync::Arc::clone(&writer);
    let thread = std::thread::Builder::new().name("writer".to_owned()).spawn(move || {
        assert!(of_thread.write(FrameKind::MESSAGE, b"from another thread"));
        drop(of_thread);
        written.send(()).unwrap();
        wait_go.recv().unwrap();
    });
    let thread = thread.unwrap();
    wait_written.recv().unwrap();
    assert!(writer.write(FrameKind::MESSAGE, b"from this thread"));
    let mut reader = ChannelReader::new(directory.path());
    reader.read(|_, _| {}).unwrap();
    assert!(!reader.all_closed());
    drop(writer);
    assert!(reader.all_closed(), "the other thread still runs");
    go.send(()).unwrap();
    thread.join().unwrap();
}

/// A program that starts a thread for each request would fill the memory with rings of threads that are gone.
#[test]
fn rings_of_ended_threads_are_removed_after_reading() {
    let directory = tempfile::tempdir().unwrap();
    let writer = ChannelWriter::new(directory.path(), 4096, own).unwrap();
    let mut reader = ChannelReader::new(directory.path());
    let mut seen = 0;
    for _ in 0..20 {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| assert!(writer.write(FrameKind::MESSAGE, b"short work")));
            // The end of a scope does not wait for what threads drop at their very end; this does.
            thread.join().unwrap();
        });
        reader.read(|_, _| seen += 1).unwrap();
        assert_eq!(rings(directory.path()), 1, "it is not freed yet");
        reader.mark();
        reader.release();
        assert_eq!(rings(directory.path()), 0);
    }
    assert_eq!(seen, 20);
    assert!(reader.all_closed() && reader.is_exhausted());
}

#[test]
fn an_observer_sees_new_frames_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let writer = ChannelWriter::new(directory.path(), 4096, own).unwrap();
    writer.write(FrameKind::MESSAGE, b"before");
    let mut listener = ChannelReader::observe(directory.path()).unwrap();
    writer.write(FrameKind::MESSAGE, b"after");
    let mut heard = Vec::new();
    listener.drain(|_, payload| heard.push(payload.to_vec())).unwrap();
    assert_eq!(heard, [b"after"]);
    assert_eq!(listener.owner(), Some(own()));
    let mut reader = ChannelReader::new(directory.path());
    let mut read = Vec::new();
    reader.drain(|_, payload| read.push(payload.to_vec())).unwrap();
    assert_eq!(read, [b"before".to_vec(), b"after".to_vec()], "nothing was taken away");
    // One that is overtaken by the writer notices.
    for _ in 0..400 {
        writer.write(FrameKind::MESSAGE, b"much more than the ring holds");
        reader.drain(|_, _| {}).unwrap();
    }
    assert_eq!(listener.read(|_, _| {}).unwrap().damaged, 1);
    drop(writer);
    listener.mark();
    listener.release();
    let path = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    assert!(RingReader::open(&path).is_ok(), "it is not the listener's to remove");
}
