//! Converts answers to HTTP responses: JSON, gzip, errors, and the headers of every response.

use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Response, StatusCode};
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Frame;
use tokio::sync::mpsc::Receiver;

use crate::answers::Answer;
use crate::error::{ApiError, ErrorBody};

/// Shorter texts do not compress well.
const MIN_COMPRESSED: usize = 1400;
pub const JSON: &str = "application/json; charset=utf-8";

/// Compresses large answers. Uses CPU time: only for blocking threads.
pub fn compressed(answer: Answer, accepts_gzip: bool) -> Answer {
    match answer {
        Answer::Json(bytes) if accepts_gzip && bytes.len() >= MIN_COMPRESSED => match gzip(&bytes) {
            Some(packed) => Answer::Packed { bytes: packed, content_type: JSON },
            None => Answer::Json(bytes),
        },
        other => other,
    }
}

fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').any(|coding| {
            let mut parts = coding.trim().split(';');
            let is_gzip = matches!(parts.next().map(str::trim), Some("gzip" | "*"));
            let refused = parts.any(|part| matches!(part.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
            is_gzip && !refused
        })
    })
}

pub fn response(answer: Answer) -> Response<Body> {
    match answer {
        Answer::Json(bytes) => with_type(JSON, Body::from(bytes)),
        Answer::Packed { bytes, content_type } => {
            let mut response = with_type(content_type, Body::from(bytes));
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response
        }
        Answer::Text { text, content_type } => with_type(content_type, Body::from(text)),
        Answer::Nothing { cookie } => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            if let Some(value) = cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok()) {
                response.headers_mut().insert(header::SET_COOKIE, value);
            }
            response
        }
        Answer::Download { content_type, name, chunks } => {
            let mut response = with_type(content_type, Body::new(ChannelBody(chunks)));
            let disposition = format!("attachment; filename=\"{}\"", plain_name(&name));
            if let Ok(value) = HeaderValue::from_str(&disposition) {
                response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
            }
            response
        }
    }
}

/// A file name that is valid on every system: without quotes and separators.
fn plain_name(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).take(120).collect()
}

fn with_type(content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub fn error_response(error: &ApiError) -> Response<Body> {
    let text = serde_json::to_vec(&ErrorBody { error }).unwrap_or_default();
    let mut response = with_type(JSON, Body::from(text));
    *response.status_mut() = error.status;
    let headers = response.headers_mut();
    if let Some(seconds) = error.retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    if let Some(value) = error.allow.as_deref().and_then(|allow| HeaderValue::from_str(allow).ok()) {
        headers.insert(header::ALLOW, value);
    }
    if error.status == StatusCode::UPGRADE_REQUIRED {
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    }
    if error.status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Headers of every response: scripts and styles only from this server, no framing, no caching.
const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
         connect-src 'self'; manifest-src 'self'; worker-src 'self'; object-src 'none'; base-uri 'none'; \
         form-action 'self'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    // Allows communication with popups: one click opens a trace in ui.perfetto.dev.
    ("cross-origin-opener-policy", "same-origin-allow-popups"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
    ("cache-control", "no-store"),
];

pub fn protect(headers: &mut HeaderMap, secure: bool, allowed_origin: Option<&HeaderValue>) {
    for (name, value) in HEADERS {
        headers.entry(*name).or_insert(HeaderValue::from_static(value));
    }
    if secure {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    if let Some(origin) = allowed_origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert("cross-origin-resource-policy", HeaderValue::from_static("cross-origin"));
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("content-disposition, retry-after"),
        );
    }
    headers.append(header::VARY, HeaderValue::from_static("Origin, Accept-Encoding"));
}

/// Chunks of a download. An error closes the connection, so that a truncated file does not look complete.
#[derive(Debug)]
pub struct ChannelBody(pub Receiver<Result<Bytes, std::io::Error>>);

impl HttpBody for ChannelBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_used_only_if_the_client_accepts_it() {
        let asks = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            accepts_gzip(&headers)
        };
        assert!(asks("gzip, br") && asks("br;q=1.0, gzip;q=0.8") && asks("*"));
        assert!(!asks("br") && !asks("gzip;q=0") && !accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn download_names_contain_no_special_characters() {
        assert_eq!(plain_name("a\"b/../c\r\n.json"), "a_b_.._c__.json");
    }
}
