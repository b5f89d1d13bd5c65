//! WebSockets. Clients that subscribe to the same topics of the same source at the same rate form a group; a frame is built
//! and encoded once for all of them. Each client has a slot for one frame, the newest: a slow client misses frames, gets
//! their number, and delays nobody.

mod frames;
mod ticker;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use axum::http::StatusCode;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use frames::HelloFrame;
pub use frames::{ClientFrame, ServerFrame};

use crate::app::App;
use crate::clients::{Frame, Groups, Key, MAX_HERTZ, MIN_HERTZ, Topic};
use crate::error::ApiError;
use crate::security::audit::Event;
use crate::security::tokens::Shown;
use crate::security::{Identity, Role};

/// Maximum size of a client's frame.
pub const MAX_FRAME: usize = 16 << 10;
/// Time limit for the first frame.
const FIRST_WITHIN: Duration = Duration::from_secs(10);
/// A client that reads nothing for this long is disconnected.
const SEND_WITHIN: Duration = Duration::from_secs(30);
/// Interval of pings when there is nothing to send.
const PING_EVERY: Duration = Duration::from_secs(20);
/// Interval of checks for revoked and expired tokens, which close their WebSockets.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of frames from a client per second; more are a mistake or an attack.
const MAX_PER_SECOND: u32 = 50;

/// An error in one line, even if it quotes the client's text.
fn bad(message: impl Into<String>) -> ApiError {
    let written = |letter: char| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    let message: String = message.into().chars().map(written).collect();
    ApiError::new(StatusCode::BAD_REQUEST, "bad_frame", message)
}

fn message(frame: &ServerFrame) -> Result<Message, ApiError> {
    Ok(Message::Text(frame.to_json()?.into()))
}

/// Closes with a reason. Codes from 4000 on are reserved for applications: 4000 + status.
async fn close(mut socket: WebSocket, error: &ApiError) {
    let code = 4000 + error.status.as_u16() % 1000;
    let reason = Utf8Bytes::from(error.message.chars().take(100).collect::<String>());
    let both = async {
        if let Ok(message) = message(&ServerFrame::Error { error: error.clone() }) {
            socket.send(message).await.ok();
        }
        socket.send(Message::Close(Some(CloseFrame { code, reason }))).await.ok();
    };
    timeout(SEND_WITHIN, both).await.ok();
}

/// Serves a client until it disconnects.
pub async fn serve(app: Arc<App>, mut socket: WebSocket, identity: Option<Identity>, ip: IpAddr) {
    let first = match timeout(FIRST_WITHIN, next(&mut socket)).await {
        Err(_) => {
            let sentence = format!("no subscription within {} s", FIRST_WITHIN.as_secs());
            return close(socket, &ApiError::new(StatusCode::REQUEST_TIMEOUT, "too_slow", sentence)).await;
        }
        Ok(Ok(None)) => return,
        Ok(Err(error)) => return close(socket, &error).await,
        Ok(Ok(Some(first))) => first,
    };
    let ClientFrame::Subscribe { ticket, .. } = &first else {
        return close(socket, &bad("the first frame must be a subscription")).await;
    };
    let identity = identity.or_else(|| app.logins.use_ticket(ticket.as_deref()?));
    let identity = identity.filter(|identity| is_still_good(&app, identity));
    let Some(identity) = identity else {
        note(&app, None, ip, StatusCode::UNAUTHORIZED, "no ticket, or a used one");
        let error = ApiError::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "this needs a cookie, a token or a fresh ticket",
        )
        .hint("POST /api/v1/ws/ticket gives one");
        return close(socket, &error).await;
    };
    let place = match Groups::enter(&app.groups, &identity.name) {
        Ok(place) => place,
        Err(error) => {
            note(&app, Some(&identity), ip, error.status, &error.message);
            return close(socket, &error).await;
        }
    };
    note(&app, Some(&identity), ip, StatusCode::SWITCHING_PROTOCOLS, "subscribed");
    let result = stream(&app, &mut socket, &identity, first).await;
    drop(place);
    match result {
        Ok(frames) => {
            note(&app, Some(&identity), ip, StatusCode::OK, &format!("closed after {frames} frames"));
        }
        Err(error) => {
            note(&app, Some(&identity), ip, error.status, &error.message);
            close(socket, &error).await;
        }
    }
}

fn note(app: &App, identity: Option<&Identity>, ip: IpAddr, status: StatusCode, detail: &str) {
    app.audit.note(Event {
        who: identity.map(|identity| identity.name.clone()).unwrap_or_default(),
        role: identity.map(|identity| identity.role.name().to_owned()),
        ip: ip.to_string(),
        what: "WS /ws/metrics".into(),
        status: status.as_u16(),
        detail: detail.to_owned(),
    });
}

/// Whether the client's token is still valid for viewing.
fn is_still_good(app: &App, identity: &Identity) -> bool {
    matches!(app.tokens.check_again(identity), Shown::Valid(now) if now.role >= Role::Viewer)
}

fn understood(text: &str) -> Result<ClientFrame, ApiError> {
    serde_json::from_str(text).map_err(|error| bad(format!("the frame is invalid: {error}")))
}

fn check_subscription(topics: &BTreeSet<Topic>, rate_hertz: f64) -> Result<(), ApiError> {
    if !(MIN_HERTZ..=MAX_HERTZ).contains(&rate_hertz) {
        return Err(bad(format!("rate_hertz must be between {MIN_HERTZ} and {MAX_HERTZ}")));
    }
    if topics.is_empty() { Err(bad("topics is empty")) } else { Ok(()) }
}

/// Checks a text from a client and returns the error message it would get. For tests with hostile input.
pub fn check_frame(text: &str) -> Result<(), String> {
    let checked = understood(text).and_then(|frame| match frame {
        ClientFrame::Subscribe { topics, rate_hertz, .. } => check_subscription(&topics, rate_hertz),
        ClientFrame::Ping { .. } => Ok(()),
    });
    checked.map_err(|error| error.message)
}

/// The next frame of the client; `None` if it has disconnected.
async fn next(socket: &mut WebSocket) -> Result<Option<ClientFrame>, ApiError> {
    loop {
        match socket.recv().await {
            None | Some(Err(_)) | Some(Ok(Message::Close(_))) => return Ok(None),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Binary(_))) => return Err(bad("frames must be JSON text")),
            Some(Ok(Message::Text(text))) => return understood(&text).map(Some),
        }
    }
}

/// A client's subscription.
struct Followed {
    frames: watch::Receiver<Frame>,
    hello: Message,
}

fn follow(
    app: &Arc<App>,
    source: Option<&str>,
    topics: BTreeSet<Topic>,
    rate_hertz: f64,
) -> Result<Followed, ApiError> {
    check_subscription(&topics, rate_hertz)?;
    let source = app.sources.get(source.unwrap_or(app.sources.default_id()))?;
    let hello = message(&ServerFrame::Hello(HelloFrame {
        source: source.id.clone(),
        topics: topics.clone(),
        rate_hertz,
        origin_unix_ms: source.origin_unix_ms(),
    }))?;
    let key = Key { source: source.id, topics, millihertz: (rate_hertz * 1000.0).round() as u64 };
    let (frames, new_group) = app.groups.join(&key);
    if let Some(sender) = new_group {
        tokio::runtime::Handle::current().spawn(ticker::tick(Arc::clone(app), key, sender));
    }
    Ok(Followed { frames, hello })
}

/// Sends frames until the client disconnects; returns their number.
async fn stream(
    app: &Arc<App>,
    socket: &mut WebSocket,
    identity: &Identity,
    first: ClientFrame,
) -> Result<u64, ApiError> {
    let mut checked = Instant::now();
    let (mut waiting, mut followed): (Option<ClientFrame>, Option<Followed>) = (Some(first), None);
    let (mut sent, mut dropped, mut last_sequence) = (0_u64, 0_u64, None::<u64>);
    let (mut second, mut in_second) = (Instant::now(), 0_u32);
    loop {
        match waiting.take() {
            Some(ClientFrame::Subscribe { source, topics, rate_hertz, .. }) => {
                let app = Arc::clone(app);
                // Opening a recording may block.
                let new =
                    tokio::task::spawn_blocking(move || follow(&app, source.as_deref(), topics, rate_hertz))
                        .await;
                let new =
                    new.map_err(|error| ApiError::internal(format!("a subscription panicked: {error}")))??;
                send(socket, new.hello.clone()).await?;
                (followed, last_sequence) = (Some(new), None);
            }
            Some(ClientFrame::Ping { id }) => {
                send(socket, message(&ServerFrame::Pong { id })?).await?;
            }
            None => {}
        }
        if checked.elapsed() >= CHECK_EVERY {
            checked = Instant::now();
            if !is_still_good(app, identity) {
                let sentence = "the token has expired or was revoked";
                return Err(ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", sentence));
            }
        }
        let Some(following) = &mut followed else { return Ok(sent) };
        tokio::select! {
            changed = following.frames.changed() => {
                if changed.is_err() {
                    return Ok(sent);
                }
                let frame = following.frames.borrow_and_update().clone();
                let Some(text) = frame.text else { continue };
                let missed = last_sequence.map_or(0, |last| frame.sequence.saturating_sub(last + 1));
                last_sequence = Some(frame.sequence);
                if missed > 0 {
                    dropped += missed;
                    app.groups.counters.dropped.fetch_add(missed, Ordering::Relaxed);
                    send(socket, message(&ServerFrame::Dropped { dropped })?).await?;
                }
                send(socket, Message::Text(text)).await?;
                sent += 1;
                app.groups.counters.sent.fetch_add(1, Ordering::Relaxed);
            }
            received = next(socket) => match received? {
                None => return Ok(sent),
                Some(frame) => {
                    if second.elapsed() >= Duration::from_secs(1) {
                        (second, in_second) = (Instant::now(), 0);
                    }
                    in_second += 1;
                    if in_second > MAX_PER_SECOND {
                        let sentence = format!("more than {MAX_PER_SECOND} frames in a second");
                        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_frames", sentence));
                    }
                    waiting = Some(frame);
                }
            },
            () = tokio::time::sleep(PING_EVERY) => send(socket, Message::Ping(Default::default())).await?,
        }
    }
}

async fn send(socket: &mut WebSocket, message: Message) -> Result<(), ApiError> {
    let slow = || {
        let sentence = format!("the client read nothing for {} s", SEND_WITHIN.as_secs());
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "too_slow", sentence)
    };
    match timeout(SEND_WITHIN, socket.send(message)).await {
        Err(_) => Err(slow()),
        Ok(Err(_)) => Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "gone", "the client has disconnected")),
        Ok(Ok(())) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by fuzzing: a line break in a name was copied into the answer and into the log.
    #[test]
    fn quoted_text_in_errors_contains_no_control_characters() {
        for text in [r#"{"type":"pi\ng"}"#, r#"{"type":"subscribe","topics":["a\u001b[2J\nb"]}"#] {
            let sentence = check_frame(text).expect_err("refused");
            assert!(!sentence.is_empty() && !sentence.contains(char::is_control), "{sentence:?}");
        }
    }
}
