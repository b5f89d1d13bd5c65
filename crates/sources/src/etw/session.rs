//! A session from its start to its end: nothing of it is left behind, and what it lost is known.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ortscope_core::kernel::threads::Limits;
use ortscope_decode::etw::{EtwDecoder, EtwSink, Filtering, live};

use super::api::{
    Answer, Control, EtwApi, InformationClass, Request, SessionHandle, SessionStatus, TraceHandle, codes,
};
use super::consumer::{Consumer, ConsumerCounts, RateLimit};
use super::counters;
use super::error::{EtwError, Who};
use super::flags::KernelFlags;
use super::note::EtwNote;
use super::settings::Settings;
use crate::kernel::DrainStats;

/// Windows is asked for its loss counters this often.
const POLL: Duration = Duration::from_secs(1);
/// A session with kernel events that is silent for so long does not work.
const SILENCE: Duration = Duration::from_secs(5);
/// The last buffers are handed out within this after a stop.
const LAST_BUFFERS: Duration = Duration::from_secs(3);
/// Buffers are doubled after losses, up to so many.
const MAX_BUFFERS: u32 = 1024;
/// Things that were refused and told; there are fewer parts than this.
const MAX_NOTES: usize = 64;

/// What a session could not keep, since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionLosses {
    /// Events that found no free buffer in the kernel.
    pub events: u64,
    /// Buffers that were not read in time.
    pub buffers: u64,
    /// Records that were read and not drained in time, too long, or lost to a panic.
    pub records: u64,
    /// Records beyond the most that are taken of a second.
    pub limited: u64,
}

impl SessionLosses {
    pub fn total(&self) -> u64 {
        self.events + self.buffers + self.records + self.limited
    }
}

/// Stops a session that was started here, whatever happens after.
struct Started {
    api: Arc<dyn EtwApi>,
    name: String,
    handle: SessionHandle,
    is_stopped: bool,
    /// The machine's own time between samples, if it was changed for this session.
    interval_before: Option<Vec<u8>>,
    _claim: Box<dyn Send + Sync>,
}

impl Started {
    fn stop(&mut self) -> Answer<SessionStatus> {
        self.is_stopped = true;
        let status = self.api.control(&self.name, Control::Stop);
        if let Some(before) = self.interval_before.take() {
            self.api.set_information(None, InformationClass::SampleInterval, &before).ok();
        }
        status
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.is_stopped {
            self.stop().ok();
        }
    }
}

/// A session that is read, until it is dropped.
pub struct LiveSession {
    api: Arc<dyn EtwApi>,
    settings: Settings,
    /// `None`: it is somebody else's.
    started: Option<Started>,
    trace: TraceHandle,
    thread: Option<JoinHandle<Answer<()>>>,
    consumer: Arc<Consumer>,
    decoder: EtwDecoder,
    filtering: Filtering,
    drained: Vec<u8>,
    seen: ConsumerCounts,
    /// The counters of Windows when we began: an attached session has its own past.
    base: (u32, u32),
    status: SessionStatus,
    losses: SessionLosses,
    polled: Instant,
    opened: Instant,
    notes: Vec<EtwNote>,
    ended: Option<String>,
    maximum_buffers: u32,
}

impl std::fmt::Debug for LiveSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveSession")
            .field("name", &self.settings.name)
            .field("losses", &self.losses)
            .finish_non_exhaustive()
    }
}

impl LiveSession {
    pub fn open(api: Arc<dyn EtwApi>, settings: Settings, limits: Limits) -> Result<Self, EtwError> {
        let mut notes = Vec::new();
        let imitation = |what, error: EtwError, code| match api.is_imitation() {
            true => EtwError::of_imitation(what, code),
            false => error,
        };
        let who = Who { is_service: api.is_service() };
        let mut started = match settings.attach {
            true => None,
            false => Some(start(&api, &settings, &mut notes)?),
        };
        let mut counter_names = Vec::new();
        if let Some(started) = &mut started {
            counter_names = configure(started, &settings, &mut notes)
                .map_err(|code| imitation("TraceSetInformation", EtwError::of_kernel(code, who), code))?;
        }
        let status = match api.control(&settings.name, Control::Query) {
            Ok(status) => status,
            Err(code) if settings.attach => return Err(EtwError::of_open(&settings.name, code, who)),
            Err(_) => SessionStatus::default(),
        };
        let limit = RateLimit {
            most_per_second: u64::from(settings.most_records_per_second),
            ticks_per_second: api.ticks_per_second(),
        };
        let consumer = Arc::new(Consumer::new(settings.waiting_bytes, limit));
        let trace = api
            .open(&settings.name, Arc::clone(&consumer))
            .map_err(|code| imitation("OpenTrace", EtwError::of_open(&settings.name, code, who), code))?;
        let shared = Arc::clone(&api);
        let reader = move || shared.process(trace);
        let thread = match thread::Builder::new().name("etw-consumer".to_owned()).spawn(reader) {
            Ok(thread) => thread,
            Err(error) => {
                api.close(trace).ok();
                let what = format!("starting the thread that reads the session ({error})");
                return Err(EtwError::System { what, code: codes::NO_SYSTEM_RESOURCES });
            }
        };
        let now = Instant::now();
        let mut decoder = EtwDecoder::live(api.ticks_per_second(), limits);
        decoder.set_counter_names(counter_names);
        Ok(Self {
            decoder,
            filtering: Filtering::new(settings.filter.clone()),
            maximum_buffers: status.maximum_buffers.max(settings.maximum_buffers),
            base: if settings.attach { (status.events_lost, status.real_time_buffers_lost) } else { (0, 0) },
            api,
            settings,
            started,
            trace,
            thread: Some(thread),
            consumer,
            drained: Vec::new(),
            seen: ConsumerCounts::default(),
            status,
            losses: SessionLosses::default(),
            polled: now,
            opened: now,
            notes,
            ended: None,
        })
    }

    /// Hands out what all records since the last drain mean. 10 to 20 drains a second are enough: each has its own time.
    pub fn drain<S: EtwSink + ?Sized>(&mut self, sink: &mut S) -> DrainStats {
        let before = (self.losses.total(), self.decoder.counts().wrong_times);
        let is_over = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        let counts = self.consumer.swap(&mut self.drained);
        let (mut rest, mut events) = (self.drained.as_slice(), 0);
        let mut sink = self.filtering.over(sink);
        while let Some((record, after)) = live::unpack(rest) {
            self.decoder.push(&record, &mut sink);
            events += 1;
            rest = after;
        }
        self.losses.records = counts.no_room + counts.too_long + counts.panics;
        self.losses.limited = counts.limited;
        if counts.no_room > self.seen.no_room {
            self.note(EtwNote::TooSlow);
        }
        if counts.limited > self.seen.limited {
            self.note(EtwNote::TooMany { most: self.settings.most_records_per_second });
        }
        self.seen = counts;
        if self.polled.elapsed() >= POLL {
            self.poll();
        }
        if is_over && self.ended.is_none() {
            let answer = self.thread.take().map(JoinHandle::join);
            let why = match answer {
                Some(Ok(Err(code))) if code != codes::CANCELLED => format!("ProcessTrace ended with {code}"),
                _ => "somebody stopped it".to_owned(),
            };
            self.end(&why);
        }
        DrainStats {
            events,
            lost: self.losses.total() - before.0,
            late: self.decoder.counts().wrong_times - before.1,
            ..DrainStats::default()
        }
    }

    /// Hands out samples that came longer ago than stacks take to follow them. Whoever wants samples asks after each drain;
    /// for others they wait, bounded, until the end.
    pub fn settle_samples<S: EtwSink + ?Sized>(&mut self, longest_ns: u64, sink: &mut S) {
        let before_ns = self.decoder.last_ns().saturating_sub(longest_ns);
        self.decoder.settle(before_ns, &mut self.filtering.over(sink));
    }

    /// Asks Windows what was lost, and helps where it can.
    fn poll(&mut self) {
        self.polled = Instant::now();
        match self.api.control(&self.settings.name, Control::Query) {
            Ok(status) => self.status = status,
            Err(codes::INSTANCE_NOT_FOUND) => return self.end("somebody stopped it"),
            Err(_) => return,
        }
        let lost = self.losses.events + self.losses.buffers;
        self.losses.events = u64::from(self.status.events_lost.saturating_sub(self.base.0));
        self.losses.buffers = u64::from(self.status.real_time_buffers_lost.saturating_sub(self.base.1));
        if self.losses.events + self.losses.buffers > lost && self.started.is_some() {
            self.more_buffers();
        }
        if self.seen.records == 0
            && self.opened.elapsed() >= SILENCE
            && self.settings.kernel.has(KernelFlags::CSWITCH)
        {
            self.note(EtwNote::NothingArrives { name: self.settings.name.clone() });
        }
    }

    fn more_buffers(&mut self) {
        let wanted = self.maximum_buffers.saturating_mul(2).min(MAX_BUFFERS);
        if wanted > self.maximum_buffers
            && self.api.control(&self.settings.name, Control::MaximumBuffers(wanted)).is_ok()
        {
            self.maximum_buffers = wanted;
            self.note(EtwNote::MoreBuffers { buffers: wanted });
        }
    }

    fn end(&mut self, why: &str) {
        if self.ended.is_none() {
            self.ended = Some(format!("the session '{}' has ended: {why}", self.settings.name));
        }
    }

    fn note(&mut self, note: EtwNote) {
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Parts that were asked for and refused, and what was done about losses.
    pub fn notes(&self) -> &[EtwNote] {
        &self.notes
    }

    /// Why nothing comes any more.
    pub fn ended(&self) -> Option<&str> {
        self.ended.as_deref()
    }

    pub fn losses(&self) -> SessionLosses {
        self.losses
    }

    /// What Windows told when it was last asked.
    pub fn status(&self) -> &SessionStatus {
        &self.status
    }

    pub fn counts(&self) -> ConsumerCounts {
        self.consumer.counts()
    }

    /// Events of processes that the filter does not tell of.
    pub fn left_out(&self) -> u64 {
        self.filtering.dropped()
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn decoder(&self) -> &EtwDecoder {
        &self.decoder
    }

    pub fn ring_bytes(&self) -> usize {
        self.consumer.ring_bytes()
    }

    /// Ends the session if it is ours, and hands out everything up to its last event.
    pub fn finish<S: EtwSink + ?Sized>(&mut self, sink: &mut S) -> DrainStats {
        self.close();
        let stats = self.drain(sink);
        self.decoder.finish(&mut self.filtering.over(sink));
        stats
    }

    /// Stopped first: Windows then hands out its last buffers. Closed first they would be lost.
    fn close(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if let Some(mut started) = self.started.take() {
            if let Ok(status) = started.stop() {
                self.losses.events = u64::from(status.events_lost);
                self.losses.buffers = u64::from(status.real_time_buffers_lost);
                self.status = status;
            }
            wait_for(&thread, LAST_BUFFERS);
        }
        self.api.close(self.trace).ok();
        wait_for(&thread, LAST_BUFFERS);
        // One that still runs is left to itself: it holds only the consumer.
        if thread.is_finished() {
            thread.join().ok();
        }
        self.end("it was closed");
    }
}

impl Drop for LiveSession {
    fn drop(&mut self) {
        self.close();
    }
}

fn wait_for(thread: &JoinHandle<Answer<()>>, longest: Duration) {
    let begin = Instant::now();
    while !thread.is_finished() && begin.elapsed() < longest {
        thread::sleep(Duration::from_millis(2));
    }
}

fn start(api: &Arc<dyn EtwApi>, settings: &Settings, notes: &mut Vec<EtwNote>) -> Result<Started, EtwError> {
    let name = &settings.name;
    let Some(claim) = api.claim(name) else { return Err(EtwError::NameTaken { name: name.clone() }) };
    let first = match api.start(settings) {
        // Nobody alive has claimed it: a process of ours was killed and its session went on.
        Err(codes::ALREADY_EXISTS) if is_orphan(&**api, name) && api.control(name, Control::Stop).is_ok() => {
            notes.push(EtwNote::LeftBehind { name: name.clone() });
            api.start(settings)
        }
        answer => answer,
    };
    let handle = first.map_err(|code| {
        let sessions = api.sessions().ok().map(|list| list.len());
        let who = Who { is_service: api.is_service() };
        EtwError::of_start(name, settings.kernel != KernelFlags::default(), code, sessions, who)
    })?;
    Ok(Started {
        api: Arc::clone(api),
        name: name.clone(),
        handle,
        is_stopped: false,
        interval_before: None,
        _claim: claim,
    })
}

/// Sessions with these names are started by nobody else. One that writes to a file goes on without its starter.
fn is_ours(status: &SessionStatus) -> bool {
    let name = &status.name;
    (*name == Settings::default().name || name.starts_with("ortscope-")) && status.log_file.is_empty()
}

fn is_orphan(api: &dyn EtwApi, name: &str) -> bool {
    api.control(name, Control::Query).is_ok_and(|status| is_ours(&status))
}

/// Starts a session that writes to a file and goes on by itself; what was refused of it.
pub fn start_to_file(api: &Arc<dyn EtwApi>, settings: &Settings) -> Result<Vec<EtwNote>, EtwError> {
    let mut notes = Vec::new();
    let mut started = start(api, settings, &mut notes)?;
    configure(&mut started, settings, &mut notes).map_err(|code| match api.is_imitation() {
        true => EtwError::of_imitation("TraceSetInformation", code),
        false => EtwError::of_kernel(code, Who { is_service: api.is_service() }),
    })?;
    if api.is_imitation() {
        return Err(EtwError::of_imitation("StartTrace", codes::SUCCESS));
    }
    // It is left to run.
    started.is_stopped = true;
    Ok(notes)
}

/// Ends a session, whoever started it; what it wrote and lost.
pub fn stop(api: &dyn EtwApi, name: &str) -> Result<SessionStatus, EtwError> {
    if api.is_imitation() {
        return Err(EtwError::of_imitation("ControlTrace", codes::SUCCESS));
    }
    let who = Who { is_service: api.is_service() };
    api.control(name, Control::Stop).map_err(|code| match code {
        codes::ACCESS_DENIED => EtwError::of_start(name, true, code, None, who),
        code => EtwError::of_open(name, code, who),
    })
}

/// The order that works: the interval, then stacks and counters, then the flags, which start the events. Only without the
/// last is there nothing to see. Returns the names of the counters that come.
fn configure(started: &mut Started, settings: &Settings, notes: &mut Vec<EtwNote>) -> Answer<Vec<String>> {
    let (api, session) = (Arc::clone(&started.api), started.handle);
    let samples = settings.kernel.has(KernelFlags::PROFILE);
    if (samples || !settings.counters.is_empty())
        && let Err(code) = api.enable_profile_privilege()
    {
        notes.push(EtwNote::refused("the right to sample processors (SeSystemProfilePrivilege)", code));
    }
    if samples {
        let wanted = settings.sample_interval();
        // The interval is the machine's: it is set back when the session ends.
        let before = api.query_information(InformationClass::SampleInterval, &[0; 8]).ok();
        match api.set_information(None, InformationClass::SampleInterval, &wanted) {
            Ok(()) => {
                started.interval_before = before.filter(|before| before.len() == 8 && *before != wanted);
            }
            Err(code) => {
                let what = format!("sampling {} times a second", settings.samples_per_second);
                notes.push(EtwNote::refused(what, code));
            }
        }
    }
    if settings.stacks
        && let Err(code) =
            api.set_information(Some(session), InformationClass::StackTracing, &settings.stack_events())
    {
        notes.push(EtwNote::refused("recording stacks", code));
    }
    let counters = match settings.counters.as_slice() {
        [] => Vec::new(),
        wanted => counters::switch_on(&*api, session, wanted, &settings.counter_events(), notes),
    };
    if !counters.is_empty() && !settings.kernel.has(KernelFlags::CSWITCH) {
        let why = "counters come with context switches, which this session does not have";
        notes.push(EtwNote::Counters(why.to_owned()));
    }
    if settings.kernel != KernelFlags::default() {
        let flags = settings.kernel.0.to_le_bytes();
        api.set_information(Some(session), InformationClass::KernelFlags, &flags)?;
    }
    for provider in &settings.providers {
        let ask = |request| api.enable(session, provider.id, request, provider.level, provider.keywords);
        match ask(Request::Enable) {
            Ok(()) if provider.capture_state => {
                // It only adds what was before.
                ask(Request::CaptureState).ok();
            }
            Ok(()) => {}
            Err(code @ (codes::NOT_FOUND | codes::WMI_GUID_NOT_FOUND)) => {
                notes.push(EtwNote::ProviderUnknown { name: provider.name, code });
            }
            Err(code) => notes.push(EtwNote::ProviderRefused { name: provider.name, code }),
        }
    }
    Ok(counters)
}

/// Ends sessions of ours that no living process owns; their names.
pub fn close_orphans(api: &dyn EtwApi) -> Vec<String> {
    let sessions = api.sessions().unwrap_or_default().into_iter();
    let orphans = sessions.filter(|status| is_ours(status) && api.claim(&status.name).is_some());
    orphans.map(|status| status.name).filter(|name| api.control(name, Control::Stop).is_ok()).collect()
}
