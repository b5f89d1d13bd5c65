//! Everything but the API: the one-time link and the dashboard files.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderValue};
use axum::http::{Method as HttpMethod, Response, StatusCode};

use super::page;
use super::respond::error_response;
use super::who::{Peer, Who};
use crate::app::App;
use crate::error::ApiError;
use crate::params::shown;

/// Exchanges the one-time link for a cookie.
pub async fn login_link(State(app): State<Arc<App>>, request: Request) -> Response<Body> {
    let ip = Peer::ip(request.extensions());
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
            ApiError::new(StatusCode::UNAUTHORIZED, "link_used", "this link was already used or has expired")
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

/// The dashboard files, which contain no data.
pub async fn page_or_nothing(request: Request) -> Response<Body> {
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
