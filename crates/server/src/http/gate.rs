//! The way of a request: host, origin, who, role, form, then its handler; and afterwards headers and the audit log.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts as _, Request, State, WebSocketUpgrade};
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::request::Parts;
use axum::http::{Method as HttpMethod, Response, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::{MethodFilter, MethodRouter, any, get, on};
use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::respond::{accepts_gzip, compressed, error_response, protect, response};
use crate::app::{App, Asked, WAIT_FOR_TURN};
use crate::error::ApiError;
use crate::page;
use crate::params::{Params, decode_path, shown};
use crate::routes::{Access, BASE, Handler, Method, ROUTES, Route};
use crate::security::audit::Event;
use crate::security::tokens::Shown;
use crate::security::{Identity, Role};
use crate::ws;

/// Largest body of a request.
const MOST_BODY: usize = 1 << 20;
/// A body must have arrived by then.
const BODY_WITHIN: Duration = Duration::from_secs(30);
/// What scripts of our own page send, and forms of other pages cannot.
const REQUESTED_WITH: &str = "x-requested-with";

/// Where a request came from.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub ip: IpAddr,
}

/// Who a request was from, for the log.
#[derive(Debug, Clone)]
struct Who(Identity);

/// All routes behind all checks.
pub fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    let mut paths: Vec<(String, MethodRouter<Arc<App>>)> = Vec::new();
    for route in ROUTES {
        let handler = move |State(app): State<Arc<App>>, request: Request| handle(app, route, request);
        let filter = match route.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Delete => MethodFilter::DELETE,
        };
        let mut at = vec![format!("{BASE}{}", route.path)];
        if route.at_root {
            at.push(route.path.to_owned());
        }
        for path in at {
            match paths.iter_mut().find(|(known, _)| *known == path) {
                Some((_, methods)) => *methods = std::mem::take(methods).on(filter, handler),
                None => paths.push((path, on(filter, handler))),
            }
        }
    }
    for (path, methods) in paths {
        let allow = allowed_methods(&path);
        let refuse = move || {
            let allow = allow.clone();
            async move {
                let mut error = ApiError::new(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "method_not_allowed",
                    format!("this route has {allow} only"),
                );
                error.allow = Some(allow);
                error_response(&error)
            }
        };
        router = router.route(&path, methods.fallback(refuse));
    }
    router
        .route("/healthz", get(|| async { r#"{"status":"ok"}"# }))
        .route("/login", get(login_link))
        .fallback(any(page_or_nothing))
        .layer(from_fn_with_state(Arc::clone(app), gate))
        .with_state(Arc::clone(app))
}

fn allowed_methods(path: &str) -> String {
    let of_path = |route: &&Route| format!("{BASE}{}", route.path) == path || route.path == path;
    let mut names: Vec<&str> = ROUTES.iter().filter(of_path).map(|route| route.method.name()).collect();
    if names.contains(&"GET") {
        names.push("HEAD");
    }
    names.join(", ")
}

/// Before and after every request.
async fn gate(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response<Body> {
    let ip = request.extensions().get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.ip);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let query = request.uri().query().map(str::to_owned);
    let origin = request.headers().get(header::ORIGIN).cloned();
    let allowed =
        origin.as_ref().filter(|origin| origin.to_str().is_ok_and(|origin| app.hosts.is_allowed(origin)));
    let allowed = allowed.cloned();
    let mut response = match check(&app, &request, allowed.is_some()) {
        Err(error) => error_response(&error),
        Ok(()) if method == HttpMethod::OPTIONS && allowed.is_some() => preflight(),
        Ok(()) => {
            if let Some(identity) = identify(&app, request.headers()) {
                request.extensions_mut().insert(identity);
            }
            next.run(request).await
        }
    };
    protect(response.headers_mut(), app.secure, allowed.as_ref());
    let who = response.extensions_mut().remove::<Who>().map(|who| who.0);
    let event = Event {
        who: who.as_ref().map(|who| who.name.clone()).unwrap_or_default(),
        role: who.as_ref().map(|who| who.role.name().to_owned()),
        ip: ip.to_string(),
        what: format!("{method} {}", path.chars().take(300).collect::<String>()),
        status: response.status().as_u16(),
        detail: query.map(|query| without_secrets(&query)).unwrap_or_default(),
    };
    let changed_something =
        response.status().is_success() && method != HttpMethod::GET && method != HttpMethod::HEAD;
    if changed_something || path.ends_with("/login") {
        // What was changed is in the log before anybody is told.
        let app = Arc::clone(&app);
        spawn_blocking(move || app.audit.note_now(event)).await.ok();
    } else {
        app.audit.note(event);
    }
    response
}

/// The query for the log: without the secret of a link, and not without end.
fn without_secrets(query: &str) -> String {
    let part = |part: &str| {
        if part.starts_with("t=") || part.contains("token") { "(secret)".to_owned() } else { part.to_owned() }
    };
    query.split('&').map(part).collect::<Vec<_>>().join("&").chars().take(500).collect()
}

/// Host and origin.
fn check(app: &App, request: &Request, is_allowed_origin: bool) -> Result<(), ApiError> {
    let headers = request.headers();
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
    // A target with a name in it is for proxies.
    let is_plain_target = request.uri().authority().is_none();
    if hosts.next().is_some() || !is_plain_target || !app.hosts.has_host(host) {
        return Err(ApiError::new(
            StatusCode::MISDIRECTED_REQUEST,
            "wrong_host",
            format!("this server does not answer to the name '{}'", shown(host)),
        )
        .hint("--allow-host NAME makes it"));
    }
    let is_upgrade = headers.contains_key(header::UPGRADE);
    let changes = !matches!(*request.method(), HttpMethod::GET | HttpMethod::HEAD);
    let refused = |what: &str| {
        Err(ApiError::new(StatusCode::FORBIDDEN, "wrong_origin", format!("pages of {what} may not do this"))
            .hint("--allow-origin URL lets a page of another server in"))
    };
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        if (is_upgrade || changes) && !is_allowed_origin && !app.hosts.is_own(origin) {
            return refused(&format!("'{}'", shown(origin)));
        }
    } else if changes {
        let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
        if site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
            return refused("other origins");
        }
    }
    Ok(())
}

/// The answer to a browser that asks whether a page of an allowed origin may ask.
fn preflight() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("authorization, content-type, x-requested-with"),
    );
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// What a request showed.
#[derive(Debug, Clone)]
enum Credentials {
    Good(Identity, Option<String>),
    Bad(&'static str),
}

/// Name of the cookie. With TLS the prefix makes browsers refuse it from anybody else.
pub fn cookie_name(secure: bool) -> &'static str {
    if secure { "__Host-ortscope_session" } else { "ortscope_session" }
}

/// A token comes before a cookie: it was sent on purpose.
fn identify(app: &App, headers: &HeaderMap) -> Option<Credentials> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let token = value.to_str().ok().and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        return Some(match token.map(|token| app.tokens.check(token)) {
            Some(Shown::Valid(identity)) => Credentials::Good(identity, None),
            Some(Shown::Expired) => Credentials::Bad("the token has expired"),
            Some(Shown::Unknown) => Credentials::Bad("the token is not known"),
            None => Credentials::Bad("the header Authorization has no bearer token"),
        });
    }
    let name = cookie_name(app.secure);
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let secret = cookies.flat_map(|value| value.split(';')).find_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    })?;
    Some(match app.logins.cookie(secret).map(|identity| app.tokens.check_again(&identity)) {
        Some(Shown::Valid(identity)) => Credentials::Good(identity, Some(secret.to_owned())),
        Some(Shown::Expired | Shown::Unknown) => {
            app.logins.end_cookie(secret);
            Credentials::Bad("the token of this login has expired or was revoked")
        }
        None => Credentials::Bad("the login has ended"),
    })
}

/// Whether somebody may use a route, and who it is.
fn admit(access: Access, shown: Option<&Credentials>) -> Result<Option<Identity>, ApiError> {
    let Access::Role(needed) = access else { return Ok(None) };
    let refused = |why: &str| {
        ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", why)
            .hint("open the link that `ortscope serve` printed, or send a token of `ortscope token create`")
    };
    match shown {
        None => Err(refused("this needs a token or a login")),
        Some(Credentials::Bad(why)) => Err(refused(why)),
        Some(Credentials::Good(identity, _)) if identity.role < needed => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            format!(
                "this needs the role {}, and '{}' is {}",
                needed.name(),
                identity.name,
                identity.role.name()
            ),
        )),
        Some(Credentials::Good(identity, _)) => Ok(Some(identity.clone())),
    }
}

/// One request of the table's routes.
async fn handle(app: Arc<App>, route: &'static Route, request: Request) -> Response<Body> {
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

/// Reads and checks the form of a request.
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
    let ip = parts.extensions.get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.ip);
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
    let bytes = match timeout(BODY_WITHIN, to_bytes(body, MOST_BODY)).await {
        Err(_) => {
            let sentence = format!("the body did not arrive within {} s", BODY_WITHIN.as_secs());
            return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "too_slow", sentence));
        }
        Ok(Err(error)) => {
            let source = std::error::Error::source(&error);
            // The limit is one of two things that can go wrong; the other is the connection.
            let is_limit = source.is_some_and(|source| source.to_string().contains("length limit"));
            return Err(if is_limit {
                ApiError::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "too_large",
                    format!("the body is larger than {MOST_BODY} bytes"),
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
    if let Some(unknown) = fields.keys().find(|name| !route.body.iter().any(|(known, _)| known == name)) {
        return Err(bad(format!("the body has a field '{}' that this route does not know", shown(unknown))));
    }
    Ok(value)
}

type Compute = fn(&App, &Asked) -> Result<crate::answers::Answer, ApiError>;

/// Runs a handler where it may take its time, but not too many at once.
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

/// A WebSocket. Without a cookie or token a ticket in the first frame must do.
async fn upgrade(
    app: &Arc<App>,
    route: &'static Route,
    parts: &mut Parts,
    shown: Option<&Credentials>,
) -> (Response<Body>, Option<Identity>) {
    let identity = match admit(route.access, shown) {
        Ok(identity) => identity,
        // A browser cannot send a header with a WebSocket: its ticket comes in the first frame.
        Err(_) if shown.is_none() && parts.headers.contains_key(header::UPGRADE) => None,
        Err(error) => return (error_response(&error), None),
    };
    if let Err(error) = Params::read(parts.uri.query(), route.params) {
        return (error_response(&error), identity);
    }
    let ip = parts.extensions.get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.ip);
    match WebSocketUpgrade::from_request_parts(parts, &()).await {
        Err(_) => {
            let error =
                ApiError::new(StatusCode::BAD_REQUEST, "not_a_websocket", "this address is a WebSocket")
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
            let upgrade = upgrade.max_message_size(ws::MOST_FRAME).max_frame_size(ws::MOST_FRAME);
            (upgrade.on_upgrade(move |socket| ws::serve(app, socket, who, ip)), identity)
        }
    }
}

/// The one-time link becomes a cookie.
async fn login_link(State(app): State<Arc<App>>, request: Request) -> Response<Body> {
    let ip = request.extensions().get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.ip);
    let secret = request.uri().query().unwrap_or("").split('&').find_map(|part| part.strip_prefix("t="));
    let refused = |error: &ApiError| error_response(error);
    if let Some(wait) = app.logins.must_wait(ip) {
        return refused(&crate::answers::access::too_many(wait));
    }
    let Some(secret) = secret else {
        return page::response("/index.html", request.headers())
            .unwrap_or_else(|| refused(&ApiError::not_found("there is no such page")));
    };
    let Some(identity) = app.logins.use_link(secret) else {
        app.logins.failed(ip);
        let error =
            ApiError::new(StatusCode::UNAUTHORIZED, "link_used", "this link was used already or is too old")
                .hint("start `ortscope serve` again, or log in with a token of `ortscope token create`");
        return refused(&error);
    };
    app.logins.succeeded(ip);
    let cookie = match crate::answers::access::cookie(&app, &identity) {
        Ok(cookie) => cookie,
        Err(error) => return refused(&error),
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/"));
    if let Ok(value) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response.extensions_mut().insert(Who(identity));
    response
}

/// Files of the dashboard; they hold no data.
async fn page_or_nothing(request: Request) -> Response<Body> {
    let path = request.uri().path();
    if !matches!(*request.method(), HttpMethod::GET | HttpMethod::HEAD) {
        let mut error = ApiError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "this path has GET and HEAD only",
        );
        error.allow = Some("GET, HEAD".into());
        return error_response(&error);
    }
    if let Some(response) = page::response(path, request.headers()) {
        return response;
    }
    let error = ApiError::not_found(format!("there is nothing at '{}'", shown(path)))
        .hint("docs/API.md lists the routes; they are under /api/v1");
    error_response(&error)
}

/// For tests of the table: what a role may.
pub fn may(access: Access, role: Option<Role>) -> bool {
    match (access, role) {
        (Access::Public, _) => true,
        (Access::Role(_), None) => false,
        (Access::Role(needed), Some(role)) => role >= needed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_reach_the_log() {
        assert_eq!(without_secrets("a=1&t=abc&token=x"), "a=1&(secret)&(secret)");
        assert!(without_secrets(&"x".repeat(5000)).len() == 500);
    }
}
