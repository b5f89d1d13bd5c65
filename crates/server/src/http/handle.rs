//! Handles a request: validation, handler, answer.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts as _, Request, WebSocketUpgrade};
use axum::http::header;
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::respond::{accepts_gzip, compressed, error_response, response};
use super::who::{Credentials, Peer, Who, admit};
use crate::app::{App, Asked, WAIT_FOR_TURN};
use crate::error::ApiError;
use crate::params::{Params, decode_path, shown};
use crate::routes::{BASE, Handler, Method, Route};
use crate::security::Identity;
use crate::ws;

/// Maximum size of a request body.
const MAX_BODY: usize = 1 << 20;
/// Time limit for the body of a request.
const BODY_WITHIN: Duration = Duration::from_secs(30);
/// Header that scripts of our own page send and forms of other pages cannot.
const REQUESTED_WITH: &str = "x-requested-with";

/// Handles a request of a route.
pub async fn handle(app: Arc<App>, route: &'static Route, request: Request) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    let shown = parts.extensions.remove::<Credentials>();
    let (mut answer, who) = match route.handler {
        Handler::WebSocket => upgrade(&app, route, &mut parts, shown.as_ref()).await,
        Handler::Blocking(handler) => match admit(route.access, shown.as_ref()) {
            Err(error) => (error_response(&error), None),
            Ok(identity) => {
                let gzip = accepts_gzip(&parts.headers);
                let asked = asked(route, &parts, body, identity.clone(), shown).await;
                let made = match asked {
                    Ok(asked) => compute(&app, handler, asked, gzip).await,
                    Err(error) => Err(error),
                };
                (made.unwrap_or_else(|error| error_response(&error)), identity)
            }
        },
    };
    if let Some(who) = who {
        answer.extensions_mut().insert(Who(who));
    }
    answer
}

/// Reads and validates a request.
async fn asked(
    route: &Route,
    parts: &Parts,
    body: Body,
    identity: Option<Identity>,
    shown: Option<Credentials>,
) -> Result<Asked, ApiError> {
    let by_cookie = identity.as_ref().is_some_and(|identity| identity.by_cookie);
    if route.method != Method::Get && by_cookie && !parts.headers.contains_key(REQUESTED_WITH) {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "cross_site",
            "with a cookie this needs the header X-Requested-With",
        )
        .hint("X-Requested-With: ortscope"));
    }
    let params = Params::read(parts.uri.query(), route.params)?;
    let id = match route.path.split('/').position(|part| part == "{id}") {
        None => None,
        Some(index) => {
            let path = parts.uri.path().strip_prefix(BASE).unwrap_or(parts.uri.path());
            let text = path.split('/').nth(index).unwrap_or_default();
            Some(decode_path(text).ok_or_else(|| ApiError::not_found("the path is not valid UTF-8"))?)
        }
    };
    let body = if route.method == Method::Post { read_body(route, parts, body).await? } else { Value::Null };
    let ip = Peer::ip(&parts.extensions);
    let cookie = match shown {
        Some(Credentials::Good(_, cookie)) => cookie,
        _ => None,
    };
    Ok(Asked { identity, ip, params, id, body, cookie })
}

async fn read_body(route: &Route, parts: &Parts, body: Body) -> Result<Value, ApiError> {
    let content_type =
        parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let kind = content_type.split(';').next().unwrap_or("").trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let sentence = "the body must be application/json";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", sentence));
    }
    let bad = |sentence: String| ApiError::new(StatusCode::BAD_REQUEST, "bad_body", sentence);
    let bytes = match timeout(BODY_WITHIN, to_bytes(body, MAX_BODY)).await {
        Err(_) => {
            let sentence = format!("the body did not arrive within {} s", BODY_WITHIN.as_secs());
            return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "too_slow", sentence));
        }
        Ok(Err(error)) => {
            let source = std::error::Error::source(&error);
            // Either the limit was exceeded or the connection failed.
            let is_limit = source.is_some_and(|source| source.to_string().contains("length limit"));
            return Err(if is_limit {
                ApiError::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "too_large",
                    format!("the body is larger than {MAX_BODY} bytes"),
                )
            } else {
                bad("the body could not be read".to_owned())
            });
        }
        Ok(Ok(bytes)) => bytes,
    };
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|error| bad(format!("the body is not JSON: {error}")))?;
    let Value::Object(fields) = &value else {
        return Err(bad("the body is not a JSON object".to_owned()));
    };
    if let Some(unknown) =
        fields.keys().find(|name| !route.body.iter().any(|field| field.name == name.as_str()))
    {
        return Err(bad(format!("the body has the unknown field '{}'", shown(unknown))));
    }
    for field in route.body {
        field.check(fields)?;
    }
    Ok(value)
}

type Compute = fn(&App, &Asked) -> Result<crate::answers::Answer, ApiError>;

/// Runs a handler on a blocking thread, within the limit of simultaneous requests.
async fn compute(
    app: &Arc<App>,
    handler: Compute,
    asked: Asked,
    gzip: bool,
) -> Result<Response<Body>, ApiError> {
    let busy =
        || ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "too many requests at once").retry_after(1);
    let turn = timeout(WAIT_FOR_TURN, Arc::clone(&app.computing).acquire_owned()).await;
    let turn = turn.map_err(|_| busy())?.map_err(|_| busy())?;
    let app = Arc::clone(app);
    let computed = spawn_blocking(move || {
        let answer = handler(&app, &asked).map(|answer| compressed(answer, gzip));
        drop(turn);
        answer
    });
    let answer =
        computed.await.map_err(|error| ApiError::internal(format!("a request panicked: {error}")))?;
    Ok(response(answer?))
}

/// Upgrades to a WebSocket. Without a cookie or token, the first frame must have a ticket.
async fn upgrade(
    app: &Arc<App>,
    route: &'static Route,
    parts: &mut Parts,
    shown: Option<&Credentials>,
) -> (Response<Body>, Option<Identity>) {
    let identity = match admit(route.access, shown) {
        Ok(identity) => identity,
        // Browsers cannot send headers with a WebSocket: the ticket is in the first frame.
        Err(_) if shown.is_none() && parts.headers.contains_key(header::UPGRADE) => None,
        Err(error) => return (error_response(&error), None),
    };
    if let Err(error) = Params::read(parts.uri.query(), route.params) {
        return (error_response(&error), identity);
    }
    let ip = Peer::ip(&parts.extensions);
    match WebSocketUpgrade::from_request_parts(parts, &()).await {
        Err(_) => {
            let error =
                ApiError::new(StatusCode::UPGRADE_REQUIRED, "not_a_websocket", "this address is a WebSocket")
                    .hint("connect to it with ws:// or wss://");
            (error_response(&error), identity)
        }
        Ok(upgrade) => {
            if let Some(identity) = &identity
                && let Err(error) = app.groups.has_room(&identity.name)
            {
                return (error_response(&error), Some(identity.clone()));
            }
            let app = Arc::clone(app);
            let who = identity.clone();
            let upgrade = upgrade.max_message_size(ws::MAX_FRAME).max_frame_size(ws::MAX_FRAME);
            (upgrade.on_upgrade(move |socket| ws::serve(app, socket, who, ip)), identity)
        }
    }
}
