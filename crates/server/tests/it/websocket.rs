//! WebSockets: authentication, frames, and slow readers.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use ortscope_server::security::Role;
use ortscope_server::security::tokens::TokenFile;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message, WebSocket, client};

use crate::support::{Request, World};

type Socket = WebSocket<TcpStream>;

fn connect(world: &World, headers: &[(&'static str, &str)]) -> Result<Socket, u16> {
    let mut request = format!("ws://{}/ws/metrics", world.address).into_client_request().expect("a request");
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().expect("a header"));
    }
    let stream = TcpStream::connect(world.address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    match client(request, stream) {
        Ok((socket, _)) => Ok(socket),
        Err(tokio_tungstenite::tungstenite::HandshakeError::Failure(Error::Http(response))) => {
            Err(response.status().as_u16())
        }
        Err(other) => panic!("{other}"),
    }
}

fn with_token(world: &World, role: Role) -> Result<Socket, u16> {
    connect(world, &[("authorization", &format!("Bearer {}", world.token(role)))])
}

fn subscribe(socket: &mut Socket, frame: &Value) {
    socket.send(Message::Text(frame.to_string().into())).expect("sent");
}

/// The next text frame; `None` if the server has closed the connection.
fn next(socket: &mut Socket) -> Option<Value> {
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).expect("JSON")),
            Ok(Message::Close(_)) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// Memory of this process, which runs the server; 0 if the system does not report it.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn live(topics: &[&str], rate: f64) -> Value {
    json!({ "type": "subscribe", "source": "live", "topics": topics, "rate_hertz": rate })
}

#[test]
fn frames_contain_the_subscribed_topics() {
    let mut world = World::new();
    world.feed();
    let mut socket = with_token(&world, Role::Viewer).expect("let in");
    subscribe(&mut socket, &live(&["system", "sessions", "processes", "events", "losses"], 20.0));
    let hello = next(&mut socket).expect("a frame");
    assert_eq!((hello["type"].as_str(), hello["source"].as_str()), (Some("hello"), Some("live")));
    let frame = next(&mut socket).expect("a frame");
    assert_eq!(frame["system"]["system"]["cpu_percent"].as_f64(), Some(31.0), "{frame}");
    assert_eq!(frame["sessions"][0]["model_name"].as_str(), Some("tiny.onnx"));
    assert_eq!(frame["processes"][0]["pid"].as_u64(), Some(4711));
    assert!(frame["events"]["t_ms"].is_array() && frame["losses"]["lost"].is_number());
    assert!(frame.get("devices").is_none());
    let after = next(&mut socket).expect("a frame");
    assert!(after["sequence"].as_u64() > frame["sequence"].as_u64());
    // A later subscription replaces the first.
    subscribe(&mut socket, &live(&["devices"], 20.0));
    let hello = std::iter::repeat_with(|| next(&mut socket).expect("a frame"))
        .take(100)
        .find(|frame| frame["type"] == "hello");
    assert_eq!(hello.expect("a hello")["topics"], json!(["devices"]));
    socket.send(Message::Text(json!({ "type": "ping", "id": 7 }).to_string().into())).expect("sent");
    let pong = std::iter::repeat_with(|| next(&mut socket).expect("a frame"))
        .take(100)
        .find(|frame| frame["type"] == "pong");
    assert_eq!(pong.expect("a pong")["id"].as_u64(), Some(7));
}

#[test]
fn a_recording_yields_one_frame() {
    let world = World::new();
    let mut socket = with_token(&world, Role::Viewer).expect("let in");
    subscribe(
        &mut socket,
        &json!({ "type": "subscribe", "source": world.recording, "topics": ["system"], "rate_hertz": 60 }),
    );
    assert_eq!(next(&mut socket).expect("a frame")["type"].as_str(), Some("hello"));
    assert_eq!(next(&mut socket).expect("a frame")["system"]["system"]["cpu_percent"].as_f64(), Some(31.0));
    socket.get_ref().set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    assert!(next(&mut socket).is_none());
}

#[test]
fn a_websocket_requires_a_token_or_a_fresh_ticket() {
    let world = World::new();
    assert_eq!(connect(&world, &[("authorization", "Bearer ortscope_x")]).err(), Some(401));
    assert_eq!(connect(&world, &[("cookie", "ortscope_session=0")]).err(), Some(401));
    assert_eq!(connect(&world, &[("origin", "https://evil.example")]).err(), Some(403));
    // Without credentials the connection opens, but no frame is sent without a ticket.
    let refused = |ticket: Option<&str>| {
        let mut socket = connect(&world, &[("origin", "https://eval.example")]).expect("let in");
        let mut frame = live(&["system"], 10.0);
        frame["ticket"] = ticket.into();
        subscribe(&mut socket, &frame);
        next(&mut socket).expect("a frame")
    };
    assert_eq!(refused(None)["error"]["code"].as_str(), Some("unauthorized"));
    let ask = Request::post("/api/v1/ws/ticket", "{}").token(world.token(Role::Viewer));
    let ticket = world.request(&ask).json()["ticket"].as_str().expect("a ticket").to_owned();
    assert_eq!(refused(Some(&ticket))["type"].as_str(), Some("hello"));
    assert_eq!(refused(Some(&ticket))["error"]["code"].as_str(), Some("unauthorized"));
}

#[test]
fn invalid_frames_are_answered_and_close_the_websocket() {
    let world = World::new();
    let cases = [
        "hello".to_owned(),
        "{}".to_owned(),
        json!({ "type": "ping" }).to_string(),
        json!({ "type": "subscribe", "topics": [], "rate_hertz": 1 }).to_string(),
        json!({ "type": "subscribe", "topics": ["cpu"], "rate_hertz": 1 }).to_string(),
        live(&["system"], 0.1).to_string(),
        live(&["system"], 61.0).to_string(),
        json!({ "type": "subscribe", "topics": ["system"], "rate_hertz": "fast" }).to_string(),
        json!({ "type": "subscribe", "topics": ["system"], "rate_hertz": 1, "x": 1 }).to_string(),
        json!({ "type": "subscribe", "source": "../x", "topics": ["system"], "rate_hertz": 1 }).to_string(),
    ];
    for case in cases {
        let mut socket = with_token(&world, Role::Viewer).expect("let in");
        socket.send(Message::Text(case.clone().into())).expect("sent");
        let frame = std::iter::repeat_with(|| next(&mut socket))
            .take(3)
            .flatten()
            .find(|frame| frame["type"] == "error");
        assert!(frame.is_some_and(|frame| frame["error"]["message"].is_string()), "{case}");
        assert!(next(&mut socket).is_none(), "{case}: it is closed");
    }
    let mut socket = with_token(&world, Role::Viewer).expect("let in");
    socket.send(Message::Text("x".repeat(20_000).into())).ok();
    assert!(
        std::iter::repeat_with(|| next(&mut socket)).take(3).any(|frame| frame.is_none()),
        "too large: it is closed"
    );
}

#[test]
fn a_token_allows_64_websockets_which_end_with_it() {
    let world = World::new();
    let mut sockets: Vec<Socket> = (0..64)
        .map(|_| {
            let mut socket = with_token(&world, Role::Viewer).expect("let in");
            subscribe(&mut socket, &live(&["losses"], 5.0));
            // The count starts with the subscription.
            assert_eq!(next(&mut socket).expect("a frame")["type"].as_str(), Some("hello"));
            socket
        })
        .collect();
    assert_eq!(with_token(&world, Role::Viewer).err(), Some(429));
    assert!(with_token(&world, Role::Operator).is_ok(), "another token has its own");
    TokenFile::new(&world.state).revoke("viewer").expect("written").expect("there");
    for socket in &mut sockets {
        let error =
            std::iter::repeat_with(|| next(socket)).take(100).flatten().find(|f| f["type"] == "error");
        assert_eq!(error.expect("an error")["error"]["code"].as_str(), Some("unauthorized"));
    }
}

#[test]
fn frames_follow_samples_and_continue_without_them() {
    let mut world = World::new();
    world.feed();
    let mut socket = with_token(&world, Role::Viewer).expect("let in");
    subscribe(&mut socket, &live(&["system"], 2.0));
    assert_eq!(next(&mut socket).expect("a frame")["type"].as_str(), Some("hello"));
    let mut newest = || next(&mut socket).expect("a frame")["newest_ms"].as_f64().expect("a number");
    let first = newest();
    // The source is paused.
    assert_eq!((newest(), newest()), (first, first));
    world.feed();
    let later = std::iter::repeat_with(newest).take(10).find(|later| *later > first);
    assert!(later.is_some());
}

#[test]
fn slow_readers_delay_nobody() {
    let mut world = World::new();
    world.feed();
    let topics = ["system", "sessions", "processes", "devices", "events", "losses"];
    // The maximum number of WebSockets of a token.
    let mut stuck: Vec<Socket> = (0..64)
        .map(|_| {
            let mut socket = with_token(&world, Role::Viewer).expect("let in");
            subscribe(&mut socket, &live(&topics, 60.0));
            socket
        })
        .collect();
    let mut reader = with_token(&world, Role::Operator).expect("let in");
    subscribe(&mut reader, &live(&topics, 60.0));
    let before = resident_bytes();
    let mut frames = 0;
    let begin = Instant::now();
    // At least four seconds, and longer where a second has few frames.
    while begin.elapsed() < Duration::from_secs(4)
        || (frames <= 20 && begin.elapsed() < Duration::from_secs(60))
    {
        assert!(next(&mut reader).is_some());
        frames += 1;
    }
    assert!(frames > 20, "{frames}");
    // Their queues are bounded: at most one megabyte each.
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    // A client that reads again gets the number of missed frames and the newest frame.
    let newest = next(&mut reader).expect("a frame")["sequence"].as_u64();
    let mut last = None;
    let mut stuck = stuck.swap_remove(63);
    stuck.get_ref().set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    for _ in 0..2000 {
        let Some(frame) = next(&mut stuck) else { break };
        last = frame["sequence"].as_u64().or(last);
        if last >= newest {
            break;
        }
    }
    assert!(last >= newest, "{last:?} {newest:?}");
}
