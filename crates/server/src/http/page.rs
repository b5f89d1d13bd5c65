//! The embedded dashboard. Without `web/dist` at build time, a page explains how to build it.

use axum::body::Body;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Response, StatusCode};

use super::respond::accepts_gzip;

/// A dashboard file.
#[derive(Debug)]
struct File {
    /// Starts with a slash.
    path: &'static str,
    bytes: &'static [u8],
    /// The same bytes compressed with gzip.
    gzip: &'static [u8],
    /// Hash of the bytes, for caches.
    tag: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Whether the dashboard was built in.
pub fn is_built() -> bool {
    BUILT
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json" | "map" | "webmanifest") => "application/json; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// The file at a path. Paths without an extension are views of the single page.
pub fn response(path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let is_view = !path.starts_with("/api/") && !path.rsplit('/').next().unwrap_or("").contains('.');
    let wanted = if is_view { "/index.html" } else { path };
    // The dashboard has no other views with their own path.
    if is_view && !matches!(path, "/" | "/login" | "/index.html") {
        return None;
    }
    let file = FILES.iter().find(|file| file.path == wanted)?;
    let tag = format!("\"{}\"", file.tag);
    let is_known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()) == Some(&tag);
    let gzip = !file.gzip.is_empty() && accepts_gzip(headers);
    let body = match (is_known, gzip) {
        (true, _) => Body::empty(),
        (false, true) => Body::from(file.gzip),
        (false, false) => Body::from(file.bytes),
    };
    let mut response = Response::new(body);
    let to = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&tag) {
        to.insert(header::ETAG, value);
    }
    // Names of built files contain a hash of their content; only the page itself must be revalidated.
    let cache =
        if file.path.starts_with("/assets/") { "private, max-age=31536000, immutable" } else { "no-cache" };
    to.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Some(response);
    }
    to.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(file.path)));
    if gzip {
        to.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_exists_and_unknown_paths_do_not() {
        let headers = HeaderMap::new();
        let page = response("/", &headers).expect("a page");
        assert_eq!(page.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
        for path in
            ["/../Cargo.toml", "/etc/passwd", "/api/v1/nothing", "/x.js", "/assets/../index.html", "/other"]
        {
            assert!(response(path, &headers).is_none(), "{path}");
        }
        let tag = page.headers()[header::ETAG].clone();
        let mut again = HeaderMap::new();
        again.insert(header::IF_NONE_MATCH, tag);
        assert_eq!(response("/", &again).expect("the page").status(), StatusCode::NOT_MODIFIED);
    }
}
