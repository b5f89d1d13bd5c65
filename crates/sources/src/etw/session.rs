//! A session from start to end: it leaves nothing behind, and its losses are known.

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
use super::error::{EtwError, EtwNote, Who};
use super::flags::KernelFlags;
use super::settings::Settings;
use crate::kernel::DrainStats;

/// Interval for querying loss counters.
const POLL: Duration = Duration::from_secs(1);
/// A session with kernel events that is silent for this long does not work.
const SILENCE: Duration = Duration::from_secs(5);
/// The last buffers are delivered within this time after a stop.
const LAST_BUFFERS: Duration = Duration::from_secs(3);
/// Limit for doubling the buffers after losses.
const MAX_BUFFERS: u32 = 1024;
/// Limit for notes; there are fewer parts.
const MAX_NOTES: usize = 64;

/// Losses of a session since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionLosses {
    /// Events that found no free buffer in the kernel.
    pub events: u64,
    /// Buffers that were not read in time.
    pub buffers: u64,
    /// Records that were not drained in time, too long, or lost to a panic.
    pub records: u64,
    /// Records beyond the limit per second.
    pub limited: u64,
}

impl SessionLosses {
    pub fn total(&self) -> u64 {
        self.events + self.buffers + self.records + self.limited
    }
}

/// Stops a session that was started here, in any case.
struct Started {
    api: Arc<dyn EtwApi>,
    name: String,
    handle: SessionHandle,
    is_stopped: bool,
    /// The machine's previous sampling interval, if it was changed for this session.
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

/// A session that is read until it is dropped.
pub struct LiveSession {
    api: Arc<dyn EtwApi>,
    settings: Settings,
    /// `None` for an attached session.
    started: Option<Started>,
    trace: TraceHandle,
    thread: Option<JoinHandle<Answer<()>>>,
    consumer: Arc<Consumer>,
    decoder: EtwDecoder,
    filtering: Filtering,
    drained: Vec<u8>,
    seen: ConsumerCounts,
    /// Windows' loss counters at the beginning: an attached session has its own past.
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
        let failure = |what, error: EtwError, code| match api.is_emulated() {
            true => EtwError::emulated(what, code),
            false => error,
        };
        let who = Who { is_service: api.is_service() };
        let mut started = match settings.attach {
            true => None,
            false => Some(start(&api, &settings, &mut notes)?),
        };
        let mut counter_names = Vec::new();
        if let Some(started) = &mut started {
            counter_names = configure(started, &settings, &mut notes).map_err(|code| {
                failure("TraceSetInformation", EtwError::kernel_flags_failed(code, who), code)
            })?;
        }
        let status = match api.control(&settings.name, Control::Query) {
            Ok(status) => status,
            Err(code) if settings.attach => return Err(EtwError::open_failed(&settings.name, code, who)),
            Err(_) => SessionStatus::default(),
        };
        let limit = RateLimit {
            max_per_second: u64::from(settings.max_records_per_second),
            ticks_per_second: api.ticks_per_second(),
        };
        let consumer = Arc::new(Consumer::new(settings.waiting_bytes, limit));
        let trace = api
            .open(&settings.name, Arc::clone(&consumer))
            .map_err(|code| failure("OpenTrace", EtwError::open_failed(&settings.name, code, who), code))?;
        let shared = Arc::clone(&api);
        let reader = move || shared.process(trace);
        let thread = match thread::Builder::new().name("etw-consumer".to_owned()).spawn(reader) {
            Ok(thread) => thread,
            Err(error) => {
                api.close(trace).ok();
                let what = format!("starting the reader thread of the session ({error})");
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

    /// Emits the decoded records since the last drain. 10 to 20 drains per second are enough because each record has
    /// its own time.
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
        self.losses.records = counts.queue_full + counts.too_long + counts.panics;
        self.losses.limited = counts.limited;
        if counts.queue_full > self.seen.queue_full {
            self.note(EtwNote::TooSlow);
        }
        if counts.limited > self.seen.limited {
            self.note(EtwNote::TooMany { max: self.settings.max_records_per_second });
        }
        self.seen = counts;
        if self.polled.elapsed() >= POLL {
            self.poll();
        }
        if is_over && self.ended.is_none() {
            let answer = self.thread.take().map(JoinHandle::join);
            let why = match answer {
                Some(Ok(Err(code))) if code != codes::CANCELLED => format!("ProcessTrace ended with {code}"),
                _ => "it was stopped by another program".to_owned(),
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

    /// Emits samples that are older than the time stacks take to arrive. Called after each drain if samples are
    /// needed; otherwise they are kept, bounded, until the end.
    pub fn settle_samples<S: EtwSink + ?Sized>(&mut self, longest_ns: u64, sink: &mut S) {
        let before_ns = self.decoder.last_ns().saturating_sub(longest_ns);
        self.decoder.settle(before_ns, &mut self.filtering.over(sink));
    }

    /// Queries losses and adds buffers if necessary.
    fn poll(&mut self) {
        self.polled = Instant::now();
        match self.api.control(&self.settings.name, Control::Query) {
            Ok(status) => self.status = status,
            Err(codes::INSTANCE_NOT_FOUND) => return self.end("it was stopped by another program"),
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

    /// Refused parts, and measures against losses.
    pub fn notes(&self) -> &[EtwNote] {
        &self.notes
    }

    /// Why no more events arrive.
    pub fn ended(&self) -> Option<&str> {
        self.ended.as_deref()
    }

    pub fn losses(&self) -> SessionLosses {
        self.losses
    }

    /// State at the last query.
    pub fn status(&self) -> &SessionStatus {
        &self.status
    }

    pub fn counts(&self) -> ConsumerCounts {
        self.consumer.counts()
    }

    /// Events of processes that the filter excludes.
    pub fn filtered_out(&self) -> u64 {
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

    /// Ends the session if it is ours, and emits everything up to its last event.
    pub fn finish<S: EtwSink + ?Sized>(&mut self, sink: &mut S) -> DrainStats {
        self.close();
        let stats = self.drain(sink);
        self.decoder.finish(&mut self.filtering.over(sink));
        stats
    }

    /// Stopped before it is closed, so that Windows delivers its last buffers.
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
        // A thread that is still running is abandoned: it holds only the consumer.
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

fn wait_for(thread: &JoinHandle<Answer<()>>, timeout: Duration) {
    let begin = Instant::now();
    while !thread.is_finished() && begin.elapsed() < timeout {
        thread::sleep(Duration::from_millis(2));
    }
}

fn start(api: &Arc<dyn EtwApi>, settings: &Settings, notes: &mut Vec<EtwNote>) -> Result<Started, EtwError> {
    let name = &settings.name;
    let Some(claim) = api.claim(name) else { return Err(EtwError::NameTaken { name: name.clone() }) };
    let first = match api.start(settings) {
        // Not claimed by a running process: one of our processes was killed, and its session continued.
        Err(codes::ALREADY_EXISTS) if is_orphan(&**api, name) && api.control(name, Control::Stop).is_ok() => {
            notes.push(EtwNote::LeftBehind { name: name.clone() });
            api.start(settings)
        }
        answer => answer,
    };
    let handle = first.map_err(|code| {
        let sessions = api.sessions().ok().map(|list| list.len());
        let who = Who { is_service: api.is_service() };
        EtwError::start_failed(name, settings.kernel != KernelFlags::default(), code, sessions, who)
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

/// Only we start sessions with these names. A session that writes to a file continues without its starter.
fn is_ours(status: &SessionStatus) -> bool {
    let name = &status.name;
    (*name == Settings::default().name || name.starts_with("ortscope-")) && status.log_file.is_empty()
}

fn is_orphan(api: &dyn EtwApi, name: &str) -> bool {
    api.control(name, Control::Query).is_ok_and(|status| is_ours(&status))
}

/// Starts a session that writes to a file and runs independently; returns the refused parts.
pub fn start_to_file(api: &Arc<dyn EtwApi>, settings: &Settings) -> Result<Vec<EtwNote>, EtwError> {
    let mut notes = Vec::new();
    let mut started = start(api, settings, &mut notes)?;
    configure(&mut started, settings, &mut notes).map_err(|code| match api.is_emulated() {
        true => EtwError::emulated("TraceSetInformation", code),
        false => EtwError::kernel_flags_failed(code, Who { is_service: api.is_service() }),
    })?;
    if api.is_emulated() {
        return Err(EtwError::emulated("StartTrace", codes::SUCCESS));
    }
    // It is left running.
    started.is_stopped = true;
    Ok(notes)
}

/// Ends any session; returns its final state.
pub fn stop(api: &dyn EtwApi, name: &str) -> Result<SessionStatus, EtwError> {
    if api.is_emulated() {
        return Err(EtwError::emulated("ControlTrace", codes::SUCCESS));
    }
    let who = Who { is_service: api.is_service() };
    api.control(name, Control::Stop).map_err(|code| match code {
        codes::ACCESS_DENIED => EtwError::start_failed(name, true, code, None, who),
        code => EtwError::open_failed(name, code, who),
    })
}

/// Configures in the required order: the interval, then stacks and counters, then the flags, which start the events.
/// Only the last step is essential. Returns the names of the recorded counters.
fn configure(started: &mut Started, settings: &Settings, notes: &mut Vec<EtwNote>) -> Answer<Vec<String>> {
    let (api, session) = (Arc::clone(&started.api), started.handle);
    let samples = settings.kernel.has(KernelFlags::PROFILE);
    if (samples || !settings.counters.is_empty())
        && let Err(code) = api.enable_profile_privilege()
    {
        notes.push(EtwNote::refused("the privilege to sample processors (SeSystemProfilePrivilege)", code));
    }
    if samples {
        let wanted = settings.sample_interval();
        // The interval is machine-wide: it is restored when the session ends.
        let before = api.query_information(InformationClass::SampleInterval, &[0; 8]).ok();
        match api.set_information(None, InformationClass::SampleInterval, &wanted) {
            Ok(()) => {
                started.interval_before = before.filter(|before| before.len() == 8 && *before != wanted);
            }
            Err(code) => {
                let what = format!("{} samples per second", settings.samples_per_second);
                notes.push(EtwNote::refused(what, code));
            }
        }
    }
    if settings.stacks
        && let Err(code) =
            api.set_information(Some(session), InformationClass::StackTracing, &settings.stack_events())
    {
        notes.push(EtwNote::refused("stack recording", code));
    }
    let counters = match settings.counters.as_slice() {
        [] => Vec::new(),
        wanted => counters::switch_on(&*api, session, wanted, &settings.counter_events(), notes),
    };
    if !counters.is_empty() && !settings.kernel.has(KernelFlags::CSWITCH) {
        let why = "counters are recorded with context switches, which this session does not have";
        notes.push(EtwNote::Counters(why.to_owned()));
    }
    if settings.kernel != KernelFlags::default() {
        let flags = settings.kernel.0.to_le_bytes();
        api.set_information(Some(session), InformationClass::KernelFlags, &flags)?;
    }
    for provider in &settings.providers {
        let request = |request| api.enable(session, provider.id, request, provider.level, provider.keywords);
        match request(Request::Enable) {
            Ok(()) if provider.capture_state => {
                // This only adds existing state.
                request(Request::CaptureState).ok();
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

/// Ends sessions of ours that no running process owns; returns their names.
pub fn close_orphans(api: &dyn EtwApi) -> Vec<String> {
    let sessions = api.sessions().unwrap_or_default().into_iter();
    let orphans = sessions.filter(|status| is_ours(status) && api.claim(&status.name).is_some());
    orphans.map(|status| status.name).filter(|name| api.control(name, Control::Stop).is_ok()).collect()
}
