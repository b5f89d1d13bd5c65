//! Every way in which a session can fail, with the words that a user reads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ortscope_core::kernel::threads::Limits;
use ortscope_decode::etw::live::{HEADER_BYTES, ProviderId};
use ortscope_sources::KernelTrace;
use ortscope_sources::etw::{
    Code, Consumer, EtwError, EtwNote, KernelFlags, LiveSession, RawRecord, SessionStatus, Settings,
    close_orphans, codes, providers, start_to_file, stop,
};
use ortscope_sources::kernel::{TraceError, TraceOptions};

use super::table::Table;

fn open(table: Table, settings: &Settings) -> (Arc<Table>, Result<LiveSession, EtwError>) {
    let table = Arc::new(table);
    let session = LiveSession::open(Arc::clone(&table) as Arc<_>, settings.clone(), Limits::default());
    (table, session)
}

fn status(name: &str) -> (String, SessionStatus) {
    (name.to_owned(), SessionStatus { name: name.to_owned(), ..SessionStatus::default() })
}

#[test]
fn every_refusal_in_its_own_words_and_nothing_left_behind() {
    let user = Settings { kernel: KernelFlags::default(), ..Settings::default() };
    let attach = Settings { attach: true, name: "NT Kernel Logger".to_owned(), ..Settings::default() };
    let mut full = Table::refusing("start", codes::NO_SYSTEM_RESOURCES);
    full.state.get_mut().unwrap().sessions = (0..64).map(|number| status(&format!("s{number}"))).collect();
    let mut taken = Table::default();
    taken.state.get_mut().unwrap().sessions.extend([status("mine")]);
    let mut claimed = Table::default();
    claimed.state.get_mut().unwrap().claimed.insert(Settings::default().name);
    let mut wine = Table::refusing("open", codes::ACCESS_DENIED);
    wine.imitation = true;
    let mut wine_flags = Table::refusing("flags", codes::CALL_NOT_IMPLEMENTED);
    wine_flags.imitation = true;
    let service = || Table { service: true, ..Table::refusing("start", codes::ACCESS_DENIED) };
    let named = Settings { name: "mine".to_owned(), ..Settings::default() };
    let cases = [
        ("no rights, kernel events", Table::refusing("start", codes::ACCESS_DENIED), Settings::default()),
        ("no rights, user providers", Table::refusing("start", codes::ACCESS_DENIED), user.clone()),
        ("no rights, kernel events, a service", service(), Settings::default()),
        ("no rights, user providers, a service", service(), user),
        ("no rights for the flags", Table::refusing("flags", codes::PRIVILEGE_NOT_HELD), Settings::default()),
        ("name taken by a stranger", taken, named),
        ("name taken by another ortscope", claimed, Settings::default()),
        ("all slots taken", full, Settings::default()),
        ("no session to attach to", Table::default(), attach),
        ("may not read", Table::refusing("open", codes::ACCESS_DENIED), Settings::default()),
        ("another clock", Table::refusing("open", codes::OTHER_CLOCK), Settings::default()),
        ("Wine, reading", wine, Settings::default()),
        ("Wine, flags", wine_flags, Settings::default()),
        ("old Windows", Table::refusing("flags", codes::PROC_NOT_FOUND), Settings::default()),
        ("anything else", Table::refusing("start", Code(1759)), Settings::default()),
    ];
    let mut text = String::new();
    for (name, table, settings) in cases {
        let before = table.state.lock().unwrap().sessions.len();
        let (table, session) = open(table, &settings);
        let error = session.expect_err(name);
        let after = table.state.lock().unwrap().sessions.len();
        assert_eq!(before, after, "{name}: a session was left behind or taken away");
        let permission = matches!(TraceError::from(error.clone()), TraceError::Permission { .. });
        text += &format!("# {name}{}\n{error}\n\n", if permission { " (a right is missing)" } else { "" });
    }
    insta::assert_snapshot!("refusals", text);
}

/// An imitation says "done" to everything that needs no consumer: nothing would be written, and nothing was stopped.
#[test]
fn sessions_of_an_imitation_are_not_said_to_run() {
    let table = Arc::new(Table { imitation: true, ..Table::default() });
    let user = Settings { kernel: KernelFlags::default(), ..Settings::default() };
    let started = start_to_file(&(Arc::clone(&table) as Arc<_>), &user).expect_err("nothing is written");
    let stopped = stop(&*table, "x").expect_err("nothing is stopped");
    insta::assert_snapshot!(format!("{started}\n{stopped}"), @r"
    this system imitates Windows and has no event tracing (StartTrace does nothing)
      hint: this is not a question of rights; on Windows itself it works
    this system imitates Windows and has no event tracing (ControlTrace does nothing)
      hint: this is not a question of rights; on Windows itself it works
    ");
    assert!(table.state.lock().unwrap().sessions.is_empty());
}

/// Every part that can be refused, and everything that can go wrong on the way, in the words that a user reads. The session
/// goes on in all of them but the last two.
#[test]
fn what_is_refused_in_part_is_told_and_the_rest_goes_on() {
    let counted = |names: &[&str]| Settings {
        counters: names.iter().map(|&name| name.to_owned()).collect(),
        ..Settings::default()
    };
    let everything = Settings {
        kernel: KernelFlags::ALWAYS | KernelFlags::PROFILE,
        stacks: true,
        providers: vec![providers::ONNX_RUNTIME],
        ..Settings::default()
    };
    let user = Settings { kernel: KernelFlags(0x2), ..counted(&["TotalCycles"]) };
    let virtual_machine = Table { counters: Vec::new(), ..Table::default() };
    let cases = [
        ("no privilege", Table::refusing("privilege", codes::PRIVILEGE_NOT_HELD), &everything),
        ("interval refused", Table::refusing("interval", codes::INVALID_PARAMETER), &everything),
        ("stacks refused", Table::refusing("stacks", codes::INVALID_PARAMETER), &everything),
        ("provider refused", Table::refusing("provider", codes::ACCESS_DENIED), &everything),
        ("provider unknown", Table::refusing("provider", codes::NOT_FOUND), &everything),
        (
            "list of counters refused",
            Table::refusing("query", codes::PROC_NOT_FOUND),
            &counted(&["TotalCycles"]),
        ),
        ("no counters", virtual_machine, &counted(&["TotalCycles"])),
        ("counter unknown", Table::default(), &counted(&["Nonsense", "TotalCycles"])),
        (
            "too many counters",
            Table::default(),
            &counted(&["TotalCycles", "totalcycles", "CacheMisses", "InstructionRetired"]),
        ),
        ("counters in use", Table::refusing("counters", Code(170)), &counted(&["TotalCycles"])),
        ("counters without switches", Table::default(), &user),
    ];
    let mut text = String::new();
    for (name, table, settings) in cases {
        let (table, session) = open(table, settings);
        let session = session.unwrap();
        assert_eq!(session.notes().len(), 1, "{name}: {:?}", session.notes());
        text += &format!("# {name}\n{}\n\n", session.notes()[0]);
        let flags = table.calls().iter().any(|call| call.starts_with("set KernelFlags"));
        assert!(flags, "{name}: the kernel's events do not begin");
    }
    let mut told = |name: &str, note: &str| text += &format!("# {name}\n{note}\n\n");
    // As many records as do not fit, of a consumer that nobody drains.
    let storm = |records: u64| Table {
        deliver: Box::new(move |consumer, _| (0..records).for_each(|_| hand_out_one(consumer))),
        ..Table::default()
    };
    let small = Settings { waiting_bytes: 1 << 10, ..Settings::default() };
    let (_, session) = open(storm(100), &small);
    let mut session = session.unwrap();
    let lost = wait_until(&mut session, |session| !session.notes().is_empty());
    assert!(lost > 0 && session.losses().records == lost, "{lost} {:?}", session.losses());
    assert_eq!(session.notes()[0], EtwNote::TooSlow);
    told("too slow", &session.notes()[0].to_string());
    let few = Settings { most_records_per_second: 30, ..Settings::default() };
    let (_, session) = open(storm(100), &few);
    let mut session = session.unwrap();
    let lost = wait_until(&mut session, |session| session.losses().limited == 70);
    assert_eq!((lost, session.losses().limited, session.losses().total()), (70, 70, 70));
    told("too many in a second", &session.notes()[0].to_string());
    let (table, session) = open(Table::default(), &Settings::default());
    let mut session = session.unwrap();
    table.stop_from_outside(&Settings::default().name);
    wait_until(&mut session, |session| session.ended().is_some());
    told("stopped by somebody", session.ended().unwrap());
    let (_, session) = open(Table::default(), &Settings::default());
    let mut session = session.unwrap();
    let begin = Instant::now();
    while session.notes().is_empty() && begin.elapsed() < Duration::from_secs(20) {
        session.drain(&mut ());
        std::thread::sleep(Duration::from_millis(50));
    }
    let silent = EtwNote::NothingArrives { name: Settings::default().name };
    assert_eq!(session.notes(), [silent]);
    told("nothing arrives", &session.notes()[0].to_string());
    insta::assert_snapshot!("notes", text);
}

/// A switch of the year 1601.
fn hand_out_one(consumer: &Consumer) {
    let mut header = [0; HEADER_BYTES];
    header[4..6].copy_from_slice(&0x140u16.to_le_bytes());
    header[24..40].copy_from_slice(&ProviderId::new(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c).to_bytes());
    header[45] = 36;
    let payload = [0; 24];
    let record = RawRecord {
        header,
        processor: 0,
        logger: 1,
        items: 0,
        payload_bytes: 24,
        item_list: std::ptr::null(),
        payload: payload.as_ptr(),
        context: std::ptr::null_mut(),
    };
    // SAFETY: everything that the record shows lives until the end of this function.
    unsafe { consumer.take(&record) };
}

/// The order in which Windows takes it: flags last, because they begin the events.
#[test]
fn a_session_is_asked_for_in_the_order_that_works_and_stopped_before_it_is_closed() {
    let settings = Settings {
        kernel: KernelFlags::ALWAYS | KernelFlags::PROFILE,
        stacks: true,
        counters: vec!["TotalCycles".to_owned()],
        samples_per_second: 999,
        providers: vec![providers::ONNX_RUNTIME],
        ..Settings::default()
    };
    let (table, session) = open(Table::default(), &settings);
    drop(session.unwrap());
    let mut calls = table.calls();
    // The thread that reads comes at any moment.
    calls.retain(|call| call != "process");
    insta::assert_snapshot!("order", calls.join("\n"));
}

#[test]
fn a_session_that_a_killed_process_left_is_replaced_and_a_strangers_never() {
    let name = Settings::default().name;
    let mut table = Table::default();
    table.state.get_mut().unwrap().sessions.extend([status(&name)]);
    let (_, session) = open(table, &Settings::default());
    let left = session.unwrap().notes()[0].clone();
    assert_eq!(left, EtwNote::LeftBehind { name: name.clone() });
    assert!(left.to_string().contains("was left behind"));

    let mut table = Table::default();
    let state = table.state.get_mut().unwrap();
    state.sessions.extend([
        status(&name),
        status("ortscope-7"),
        status("ortscope-8"),
        status("NT Kernel Logger"),
    ]);
    state.claimed.insert("ortscope-8".to_owned());
    let mut closed = close_orphans(&table);
    closed.sort();
    assert_eq!(closed, [name.as_str(), "ortscope-7"]);
    assert_eq!(table.state.lock().unwrap().sessions.len(), 2);
}

#[test]
fn an_attached_session_is_read_and_never_touched() {
    let settings = Settings { attach: true, name: "NT Kernel Logger".to_owned(), ..Settings::default() };
    let mut table = Table::default();
    let (name, mut before) = status(&settings.name);
    // It lost events before we came: they are not ours.
    before.events_lost = 77;
    table.state.get_mut().unwrap().sessions.insert(name, before);
    let (table, session) = open(table, &settings);
    let mut session = session.unwrap();
    wait_until(&mut session, |_| false);
    assert_eq!(session.losses().total(), 0);
    drop(session);
    let calls = table.calls();
    assert!(
        calls.iter().all(|call| call.starts_with("Query")
            || ["open NT Kernel Logger", "process", "close"].contains(&call.as_str())),
        "{calls:?}"
    );
    assert_eq!(table.state.lock().unwrap().sessions.len(), 1);
}

#[test]
fn losses_are_asked_for_told_and_answered_with_more_buffers() {
    let (table, session) = open(Table::default(), &Settings::default());
    let mut session = session.unwrap();
    {
        let mut state = table.state.lock().unwrap();
        let status = state.sessions.get_mut(&Settings::default().name).unwrap();
        (status.events_lost, status.real_time_buffers_lost) = (40, 2);
    }
    let lost = wait_until(&mut session, |session| session.losses().total() == 42);
    assert_eq!((lost, session.losses().events, session.losses().buffers), (42, 40, 2));
    assert_eq!(session.notes(), [EtwNote::MoreBuffers { buffers: 128 }]);
    let told = session.notes()[0].to_string();
    assert_eq!(told, "events were lost: the session now has up to 128 buffers");
    let maximum = table.state.lock().unwrap().sessions[&Settings::default().name].maximum_buffers;
    assert_eq!(maximum, 128);
}

#[test]
fn a_session_that_somebody_stops_says_so() {
    let (table, session) = open(Table::default(), &Settings::default());
    let mut session = session.unwrap();
    table.stop_from_outside(&Settings::default().name);
    wait_until(&mut session, |session| session.ended().is_some());
    assert_eq!(session.ended(), Some("the session 'OnnxInferenceMonitor' has ended: somebody stopped it"));
    let (_, session) = open(Table::refusing("process", Code(120)), &Settings::default());
    let mut session = session.unwrap();
    wait_until(&mut session, |session| session.ended().is_some());
    assert_eq!(
        session.ended(),
        Some("the session 'OnnxInferenceMonitor' has ended: ProcessTrace ended with error 120")
    );
}

/// Drains as the program does; what was lost meanwhile.
fn wait_until(session: &mut LiveSession, is_done: impl Fn(&LiveSession) -> bool) -> u64 {
    let (begin, mut lost) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_millis(1500) && !is_done(session) {
        lost += session.drain(&mut ()).lost;
        std::thread::sleep(Duration::from_millis(20));
    }
    lost
}

/// With the functions of the system that this runs on. Under Wine starting a session "succeeds" and reading it is
/// "denied": that must not be called a missing right.
#[test]
fn the_systems_own_functions_answer_with_events_or_a_true_reason() {
    if std::env::consts::OS != "windows" {
        println!("skipped: event tracing is Windows'");
        return;
    }
    match KernelTrace::open(&TraceOptions::default()) {
        Ok(mut trace) => {
            std::thread::sleep(Duration::from_secs(2));
            let stats = trace.drain(&mut |_| ());
            println!("{stats:?}, {:?}", trace.ended());
            assert!(stats.events > 0);
        }
        Err(error) => {
            println!("{error}");
            let is_wine = error.to_string().contains("imitates Windows");
            assert!(is_wine || error.is_permission(), "{error}");
        }
    }
}
