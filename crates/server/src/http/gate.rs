//! Checks before every request (host, origin, identity), and headers and audit log after it.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderValue};
use axum::http::{Method as HttpMethod, Response, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::{MethodFilter, MethodRouter, any, get, on};
use tokio::task::spawn_blocking;

use super::handle::handle;
use super::pages::{login_link, page_or_nothing};
use super::respond::{error_response, protect};
use super::who::{Peer, Who, identify};
use crate::app::App;
use crate::error::ApiError;
use crate::params::shown;
use crate::routes::{BASE, Method, ROUTES, Route};
use crate::security::audit::Event;

/// The router: all routes, wrapped in the checks.
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
    let ip = Peer::ip(request.extensions());
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
        // A change is logged before it is confirmed.
        let app = Arc::clone(&app);
        spawn_blocking(move || app.audit.note_now(event)).await.ok();
    } else {
        app.audit.note(event);
    }
    response
}

/// The query for the log, shortened and without secrets.
fn without_secrets(query: &str) -> String {
    let part = |part: &str| {
        if part.starts_with("t=") || part.contains("token") { "(secret)".to_owned() } else { part.to_owned() }
    };
    query.split('&').map(part).collect::<Vec<_>>().join("&").chars().take(500).collect()
}

/// Checks host and origin.
fn check(app: &App, request: &Request, is_allowed_origin: bool) -> Result<(), ApiError> {
    let headers = request.headers();
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
    // An absolute target is for proxies.
    let is_plain_target = request.uri().authority().is_none();
    if hosts.next().is_some() || !is_plain_target || !app.hosts.has_host(host) {
        return Err(ApiError::new(
            StatusCode::MISDIRECTED_REQUEST,
            "wrong_host",
            format!("this server does not accept the host name '{}'", shown(host)),
        )
        .hint("--allow-host NAME adds a name"));
    }
    let is_upgrade = headers.contains_key(header::UPGRADE);
    let changes = !matches!(*request.method(), HttpMethod::GET | HttpMethod::HEAD);
    let refused = |what: &str| {
        Err(ApiError::new(StatusCode::FORBIDDEN, "wrong_origin", format!("pages of {what} may not do this"))
            .hint("--allow-origin URL allows pages of another server"))
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

/// The answer to a CORS preflight request of an allowed origin.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_contains_no_secrets() {
        assert_eq!(without_secrets("a=1&t=abc&token=x"), "a=1&(secret)&(secret)");
        assert!(without_secrets(&"x".repeat(5000)).len() == 500);
    }
}
