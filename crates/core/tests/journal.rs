//! The pump's guarantees about a journal: every batch is in it before a sink receives it, its emitter is notified,
//! and rows that a failing journal loses are counted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ortscope_core::batch::Batch;
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{
    Control, CostClass, Emitter, FlushError, Journal, JournalError, Pipeline, Sink, SinkError, Source,
    SourceError, SourceInfo, WhenFull,
};
use ortscope_core::schema::{AnnotationRow, LossRow, TableId};

/// Events in the order they happened.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    Journaled(TableId, usize),
    Finished,
    Sunk(TableId, usize),
    Flushed,
}

type Story = Arc<Mutex<Vec<Event>>>;

struct Telling {
    story: Story,
    refuse: fn(&Batch) -> Option<JournalError>,
}

impl Journal for Telling {
    fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
        if let Some(error) = (self.refuse)(batch) {
            return Err(error);
        }
        self.story.lock().expect("no thread panicked").push(Event::Journaled(batch.table(), batch.len()));
        Ok(())
    }

    fn finish(&mut self) -> Result<(), JournalError> {
        self.story.lock().expect("no thread panicked").push(Event::Finished);
        Ok(())
    }
}

struct Listening {
    story: Story,
    rows: Arc<AtomicUsize>,
}

impl Sink for Listening {
    fn name(&self) -> &str {
        "listening"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        self.rows.fetch_add(batch.rows::<AnnotationRow>().count(), Ordering::SeqCst);
        self.story.lock().expect("no thread panicked").push(Event::Sunk(batch.table(), batch.len()));
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        self.story.lock().expect("no thread panicked").push(Event::Flushed);
        Ok(())
    }
}

/// Sends batches one by one and waits for each to be kept.
struct Careful {
    info: SourceInfo,
    batches: u64,
    progress: Arc<Mutex<Vec<(u64, u64)>>>,
}

impl Careful {
    fn new(batches: u64) -> Self {
        let info =
            SourceInfo { name: "careful", tracks: vec![], cost: CostClass::Free, when_full: WhenFull::Wait };
        Self { info, batches, progress: Arc::default() }
    }
}

impl Source for Careful {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn probe(&mut self) -> Availability {
        Availability::Ready
    }

    fn run(&mut self, out: &mut Emitter, _control: &Control) -> Result<(), SourceError> {
        for number in 0..self.batches {
            out.lost("records", 2);
            out.emit(&AnnotationRow { timestamp_ns: number, ..AnnotationRow::default() });
            out.flush();
            while out.kept() < out.sent() {
                std::thread::yield_now();
            }
            self.progress.lock().expect("no thread panicked").push((out.sent(), out.kept()));
        }
        Ok(())
    }
}

fn parts(refuse: fn(&Batch) -> Option<JournalError>) -> (Story, Arc<AtomicUsize>, Telling, Listening) {
    let (story, rows) = (Story::default(), Arc::new(AtomicUsize::new(0)));
    let journal = Telling { story: Arc::clone(&story), refuse };
    let sink = Listening { story: Arc::clone(&story), rows: Arc::clone(&rows) };
    (story, rows, journal, sink)
}

#[test]
fn every_batch_is_journaled_before_sinks_and_shutdown_is_ordered() {
    let (story, _, journal, sink) = parts(|_| None);
    let source = Careful::new(20);
    let progress = Arc::clone(&source.progress);
    let report = Pipeline::default().source(source).journal(journal).sink(sink).start().unwrap().join();
    assert_eq!(report.journal_error, None);
    assert_eq!(
        *progress.lock().expect("no thread panicked"),
        (1..=20).map(|number| (number, number)).collect::<Vec<_>>()
    );

    let story = story.lock().expect("no thread panicked");
    let journaled: Vec<_> = story.iter().filter(|event| matches!(event, Event::Journaled(..))).collect();
    let sunk: Vec<_> = story.iter().filter(|event| matches!(event, Event::Sunk(..))).collect();
    assert_eq!(journaled.len(), sunk.len());
    assert_eq!(journaled.len(), 40, "20 batches, and the losses of each");
    let mut ahead = 0i64;
    for event in story.iter() {
        match event {
            Event::Journaled(..) => ahead += 1,
            Event::Sunk(..) => ahead -= 1,
            Event::Finished => assert_eq!(story.last(), Some(&Event::Flushed)),
            Event::Flushed => assert!(story.contains(&Event::Finished), "the journal ends before the sinks"),
        }
        assert!(ahead >= 0, "a sink had a batch that was not in the journal");
    }
}

#[test]
fn losses_before_a_kept_batch_are_journaled_with_it() {
    struct Checking {
        inner: Careful,
        story: Story,
    }
    impl Source for Checking {
        fn info(&self) -> &SourceInfo {
            self.inner.info()
        }
        fn probe(&mut self) -> Availability {
            Availability::Ready
        }
        fn run(&mut self, out: &mut Emitter, _control: &Control) -> Result<(), SourceError> {
            for number in 1..=50 {
                out.lost("records", 1);
                out.emit(&AnnotationRow::default());
                out.flush();
                while out.kept() < out.sent() {
                    std::thread::yield_now();
                }
                let story = self.story.lock().expect("no thread panicked");
                let losses =
                    story.iter().filter(|event| matches!(event, Event::Journaled(TableId::Losses, _)));
                assert_eq!(losses.count(), number);
            }
            Ok(())
        }
    }
    let (story, _, journal, sink) = parts(|_| None);
    let source = Checking { inner: Careful::new(0), story };
    let report = Pipeline::default().source(source).journal(journal).sink(sink).start().unwrap().join();
    assert!(report.source_errors.is_empty(), "{:?}", report.source_errors);
}

#[test]
fn a_failing_journal_is_reported_once_and_rows_still_arrive() {
    let (_, rows, journal, sink) = parts(|_| Some(JournalError::Failed("no space left".into())));
    let report =
        Pipeline::default().source(Careful::new(10)).journal(journal).sink(sink).start().unwrap().join();
    assert_eq!(report.journal_error.as_deref(), Some("no space left"));
    assert_eq!(rows.load(Ordering::SeqCst), 10);
    assert_eq!(
        report.losses,
        [("careful".into(), "records".into(), 20), ("journal".into(), "annotations".into(), 10),],
        "rows of losses do not count themselves"
    );
}

#[test]
fn rows_kept_by_the_journal_are_not_counted_as_lost() {
    let (_, _, journal, sink) = parts(|batch| {
        (batch.rows::<LossRow>().next().is_none())
            .then(|| JournalError::Partly { lost_rows: 1, problem: "a row is too large".into() })
    });
    let report =
        Pipeline::default().source(Careful::new(3)).journal(journal).sink(sink).start().unwrap().join();
    assert_eq!(report.losses[1], ("journal".into(), "annotations".into(), 3));
    assert_eq!(report.journal_error.as_deref(), Some("a row is too large"));
}

#[test]
fn a_panicking_journal_does_not_stop_the_pump() {
    let (_, rows, journal, sink) = parts(|_| panic!("the journal broke"));
    let report =
        Pipeline::default().source(Careful::new(5)).journal(journal).sink(sink).start().unwrap().join();
    assert_eq!(rows.load(Ordering::SeqCst), 5);
    assert_eq!(report.journal_error.as_deref(), Some("the journal panicked: the journal broke"));
}

#[test]
fn without_a_journal_a_batch_counts_as_kept_when_passed_on() {
    let (story, _, _, sink) = parts(|_| None);
    let source = Careful::new(5);
    let progress = Arc::clone(&source.progress);
    Pipeline::default().source(source).sink(sink).start().unwrap().join();
    assert_eq!(progress.lock().expect("no thread panicked").len(), 5);
    assert!(!story.lock().expect("no thread panicked").contains(&Event::Finished));
}
