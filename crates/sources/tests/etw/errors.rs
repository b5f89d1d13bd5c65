//! Every failure of a session, with the user-facing messages.

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
fn every_refusal_has_its_message_and_leaves_nothing_behind() {
    let user = Settings { kernel: KernelFlags::default(), ..Settings::default() };
    let attach = Settings { attach: true, name: "NT Kernel Logger".to_owned(), ..Settings::default() };
    let mut full = Table::refusing("start", codes::NO_SYSTEM_RESOURCES);
    full.state.get_mut().unwrap().sessions = (0..64).map(|number| status(&format!("s{number}"))).collect();
    let mut taken = Table::default();
    taken.state.get_mut().unwrap().sessions.extend([status("mine")]);
    let mut claimed = Table::default();
    claimed.state.get_mut().unwrap().claimed.insert(Settings::default().name);
    let mut wine = Table::refusing("open", codes::ACCESS_DENIED);
    wine.is_emulated = true;
    let mut wine_flags = Table::refusing("flags", codes::CALL_NOT_IMPLEMENTED);
    wine_flags.is_emulated = true;
    let service = || Table { service: true, ..Table::refusing("start", codes::ACCESS_DENIED) };
    let named = Settings { name: "mine".to_owned(), ..Settings::default() };
    let cases = [
        ("no privileges, kernel events", Table::refusing("start", codes::ACCESS_DENIED), Settings::default()),
        ("no privileges, user providers", Table::refusing("start", codes::ACCESS_DENIED), user.clone()),
        ("no privileges, kernel events, a service", service(), Settings::default()),
        ("no privileges, user providers, a service", service(), user),
        (
            "no privileges for the flags",
            Table::refusing("flags", codes::PRIVILEGE_NOT_HELD),
            Settings::default(),
        ),
        ("name used by another program", taken, named),
        ("name used by another ortscope", claimed, Settings::default()),
        ("all slots used", full, Settings::default()),
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
        assert_eq!(before, after, "{name}: a session was left behind or removed");
        let permission = matches!(TraceError::from(error.clone()), TraceError::Permission { .. });
        text +=
            &format!("# {name}{}\n{error}\n\n", if permission { " (a privilege is missing)" } else { "" });
    }
    insta::assert_snapshot!("refusals", text);
}

/// An emulation reports success for everything without a consumer, but nothing is written or stopped.
#[test]
fn sessions_of_an_emulation_are_not_reported_as_running() {
    let table = Arc::new(Table { is_emulated: true, ..Table::default() });
    let user = Settings { kernel: KernelFlags::default(), ..Settings::default() };
    let started = start_to_file(&(Arc::clone(&table) as Arc<_>), &user).expect_err("an emulation");
    let stopped = stop(&*table, "x").expect_err("an emulation");
    insta::assert_snapshot!(format!("{started}\n{stopped}"), @r"
    this system emulates Windows without event tracing (StartTrace has no effect)
      hint: privileges do not help; it works on Windows itself
    this system emulates Windows without event tracing (ControlTrace has no effect)
      hint: privileges do not help; it works on Windows itself
    ");
    assert!(table.state.lock().unwrap().sessions.is_empty());
}

/// Every part that can be refused and everything that can go wrong later, with the user-facing messages. The session
/// continues in all cases except the last two.
#[test]
fn refused_parts_are_reported_and_the_session_continues() {
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
        ("counter list refused", Table::refusing("query", codes::PROC_NOT_FOUND), &counted(&["TotalCycles"])),
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
        assert!(flags, "{name}: the kernel events are not enabled");
    }
    let mut report = |name: &str, note: &str| text += &format!("# {name}\n{note}\n\n");
    // More records than fit, for a consumer that is never drained.
    let storm = |records: u64| Table {
        deliver: Box::new(move |consumer, _| (0..records).for_each(|_| deliver_one(consumer))),
        ..Table::default()
    };
    let small = Settings { waiting_bytes: 1 << 10, ..Settings::default() };
    let (_, session) = open(storm(100), &small);
    let mut session = session.unwrap();
    let lost = wait_until(&mut session, |session| !session.notes().is_empty());
    assert!(lost > 0 && session.losses().records == lost, "{lost} {:?}", session.losses());
    assert_eq!(session.notes()[0], EtwNote::TooSlow);
    report("too slow", &session.notes()[0].to_string());
    let few = Settings { max_records_per_second: 30, ..Settings::default() };
    let (_, session) = open(storm(100), &few);
    let mut session = session.unwrap();
    let lost = wait_until(&mut session, |session| session.losses().limited == 70);
    assert_eq!((lost, session.losses().limited, session.losses().total()), (70, 70, 70));
    report("too many in a second", &session.notes()[0].to_string());
    let (table, session) = open(Table::default(), &Settings::default());
    let mut session = session.unwrap();
    table.stop_from_outside(&Settings::default().name);
    wait_until(&mut session, |session| session.ended().is_some());
    report("stopped by another program", session.ended().unwrap());
    let (_, session) = open(Table::default(), &Settings::default());
    let mut session = session.unwrap();
    let begin = Instant::now();
    while session.notes().is_empty() && begin.elapsed() < Duration::from_secs(20) {
        session.drain(&mut ());
        std::thread::sleep(Duration::from_millis(50));
    }
    let silent = EtwNote::NothingArrives { name: Settings::default().name };
    assert_eq!(session.notes(), [silent]);
    report("nothing arrives", &session.notes()[0].to_string());
    insta::assert_snapshot!("notes", text);
}

/// A switch of the year 1601.
fn deliver_one(consumer: &Consumer) {
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
    // SAFETY: everything that the record points to lives until the end of this function.
    unsafe { consumer.push(&record) };
}

/// The order that Windows requires: flags last, because they start the events.
#[test]
fn a_session_is_configured_in_order_and_stopped_before_it_is_closed() {
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
    // The reader thread starts at any moment.
    calls.retain(|call| call != "process");
    insta::assert_snapshot!("order", calls.join("\n"));
}

#[test]
fn an_orphaned_session_is_replaced_but_never_another_programs() {
    let name = Settings::default().name;
    let mut table = Table::default();
    table.state.get_mut().unwrap().sessions.extend([status(&name)]);
    let (_, session) = open(table, &Settings::default());
    let left = session.unwrap().notes()[0].clone();
    assert_eq!(left, EtwNote::LeftBehind { name: name.clone() });
    assert!(left.to_string().contains("of a process that has exited was closed"));

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
fn an_attached_session_is_read_and_never_changed() {
    let settings = Settings { attach: true, name: "NT Kernel Logger".to_owned(), ..Settings::default() };
    let mut table = Table::default();
    let (name, mut before) = status(&settings.name);
    // Events lost before we attached are not our losses.
    before.events_lost = 77;
    table.state.get_mut().unwrap().sessions.insert(name, before);
    let (table, session) = open(table, &settings);
    let mut session = session.unwrap();
    let begin = Instant::now();
    wait_until(&mut session, |_| begin.elapsed() > Duration::from_millis(1500));
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
fn losses_are_reported_and_answered_with_more_buffers() {
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
    let note = session.notes()[0].to_string();
    assert_eq!(note, "events were lost: the session now has up to 128 buffers");
    let maximum = table.state.lock().unwrap().sessions[&Settings::default().name].maximum_buffers;
    assert_eq!(maximum, 128);
}

#[test]
fn a_session_stopped_by_another_program_is_reported() {
    let (table, session) = open(Table::default(), &Settings::default());
    let mut session = session.unwrap();
    table.stop_from_outside(&Settings::default().name);
    wait_until(&mut session, |session| session.ended().is_some());
    assert_eq!(
        session.ended(),
        Some("the session 'OnnxInferenceMonitor' has ended: it was stopped by another program")
    );
    let (_, session) = open(Table::refusing("process", Code(120)), &Settings::default());
    let mut session = session.unwrap();
    wait_until(&mut session, |session| session.ended().is_some());
    assert_eq!(
        session.ended(),
        Some("the session 'OnnxInferenceMonitor' has ended: ProcessTrace ended with error 120")
    );
}

/// Drains like the program; returns the losses.
fn wait_until(session: &mut LiveSession, is_done: impl Fn(&LiveSession) -> bool) -> u64 {
    let (begin, mut lost) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_secs(30) && !is_done(session) {
        lost += session.drain(&mut ()).lost;
        std::thread::sleep(Duration::from_millis(20));
    }
    lost
}

/// With the functions of the current system. On Wine, starting a session "succeeds" and reading it is "denied", which
/// must not be reported as a missing privilege.
#[test]
fn the_systems_own_functions_give_events_or_the_true_reason() {
    if std::env::consts::OS != "windows" {
        println!("skipped: event tracing exists only on Windows");
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
            let is_wine = error.to_string().contains("emulates Windows");
            assert!(is_wine || error.is_permission(), "{error}");
        }
    }
}
