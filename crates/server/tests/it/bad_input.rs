//! Wrong hosts, origins, methods, bodies, parameters and recordings: the exact status, one sentence, no 5xx.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ortscope_server::security::Role;
use ortscope_server::security::audit;
use ortscope_server::security::tokens::TokenFile;
use serde_json::json;

use crate::support::{Request, World, send};

#[test]
fn bad_requests_get_a_status_and_a_message() {
    let world = World::new();
    let newer = world.add_damaged();
    let admin = |request: Request| request.token(world.token(Role::Admin));
    let get = |path: &str| admin(Request::get(path));
    let post = |path: &str, body: &str| admin(Request::post(path, body));
    let recording = &world.recording;
    let cases: Vec<(&str, Request, u16)> = vec![
        ("an unknown route", get("/api/v1/nothing"), 404),
        ("another version", get("/api/v2/hello"), 404),
        ("a file outside", get("/../../etc/passwd"), 404),
        ("a file outside, encoded", get("/%2e%2e/%2e%2e/etc/passwd"), 404),
        ("a method the route has not", admin(Request::new("PUT", "/api/v1/hello")), 405),
        ("a method nobody has", admin(Request::new("BREW", "/api/v1/hello")), 405),
        ("a post to a get", post("/api/v1/hello", "{}"), 405),
        ("a post to the page", post("/", "{}"), 405),
        ("an unknown parameter", get("/api/v1/hello?x=1"), 400),
        ("a parameter twice", get("/api/v1/latency?source=live&source=live"), 400),
        ("a broken encoding", get("/api/v1/latency?source=%zz"), 400),
        ("a number that is none", get("/api/v1/latency?from_ms=x"), 400),
        ("not a number", get("/api/v1/latency?from_ms=NaN"), 400),
        ("infinite", get("/api/v1/latency?to_ms=inf"), 400),
        ("a range that ends before it begins", get("/api/v1/latency?from_ms=5&to_ms=4"), 422),
        ("an unknown source", get("/api/v1/latency?source=nobody"), 404),
        ("a path as source", get("/api/v1/latency?source=/etc/passwd"), 404),
        ("a path up as source", get("/api/v1/latency?source=../store"), 404),
        ("a hidden name as source", get("/api/v1/latency?source=.git"), 404),
        ("an empty source", get("/api/v1/latency?source="), 404),
        ("a recording of a later version", get(&format!("/api/v1/latency?source={newer}")), 422),
        ("a path as recording", get("/api/v1/recordings/%2Fetc%2Fpasswd"), 404),
        ("live as recording", get("/api/v1/recordings/live"), 404),
        ("a wrong filter", get("/api/v1/timeline?width=100&filter=dur%3Elots"), 400),
        ("a width of nothing", get("/api/v1/timeline?width=0"), 400),
        ("a width beyond", get("/api/v1/timeline?width=99999"), 400),
        ("rectangles with a cursor", get("/api/v1/timeline?width=100&cursor=1"), 422),
        ("a wrong cursor", get("/api/v1/timeline?cursor=x"), 400),
        ("a negative duration", get("/api/v1/timeline?width=100&min_duration_ms=-1"), 400),
        ("a lane that is none", get("/api/v1/timeline/event?lane=x&id=1"), 400),
        (
            "an event that is none",
            get(&format!("/api/v1/timeline/event?source={recording}&lane=k%7C1%7C2&id=1")),
            404,
        ),
        ("a track that is none", get("/api/v1/metrics/history?track=cpu"), 400),
        ("no track", get("/api/v1/metrics/history"), 422),
        ("too many points", get("/api/v1/metrics/history?track=system/cpu_percent&points=9999999"), 400),
        ("a step of nothing", get("/api/v1/metrics/history?track=system/cpu_percent&step_ms=0"), 400),
        ("a limit of nothing", get("/api/v1/processes?limit=0"), 400),
        (
            "a report form that is none",
            get(&format!("/api/v1/recordings/{recording}/report?format=docx")),
            400,
        ),
        ("no export form", get(&format!("/api/v1/recordings/{recording}/export")), 400),
        (
            "an export form that is none",
            get(&format!("/api/v1/recordings/{recording}/export?format=docx")),
            400,
        ),
        ("csv of all tables", get(&format!("/api/v1/recordings/{recording}/export?format=csv")), 422),
        (
            "a flag that is none",
            get(&format!("/api/v1/recordings/{recording}/export?format=sqlite&gzip=1")),
            400,
        ),
        (
            "gzip of a database",
            get(&format!("/api/v1/recordings/{recording}/export?format=sqlite&gzip=true")),
            422,
        ),
        (
            "a filter that is too long with another parameter",
            get(&format!(
                "/api/v1/timeline?filter=op:{}&op={1}&provider={1}",
                "a".repeat(900),
                "%22".repeat(999)
            )),
            422,
        ),
        (
            "a track too often",
            get(&format!(
                "/api/v1/metrics/history?{}",
                "track=system/cpu_percent&".repeat(101).trim_end_matches('&')
            )),
            400,
        ),
        (
            "steps without number",
            get(&format!(
                "/api/v1/metrics/history?source={recording}&track=system/cpu_percent&step_ms=0.000001"
            )),
            422,
        ),
        (
            "a table that is none",
            get(&format!("/api/v1/recordings/{recording}/export?format=csv&table=x")),
            400,
        ),
        ("one side to compare", get(&format!("/api/v1/compare?a={recording}")), 400),
        ("a body that is no JSON", post("/api/v1/control/pause", "{"), 400),
        ("a body that is no object", post("/api/v1/control/pause", "[1]"), 400),
        ("a body with more", post("/api/v1/control/pause", r#"{"x":1}"#), 400),
        ("no rate", post("/api/v1/control/rate", "{}"), 400),
        ("a rate that is a text", post("/api/v1/control/rate", r#"{"hertz":"fast"}"#), 400),
        ("a rate beyond", post("/api/v1/control/rate", r#"{"hertz":1e9}"#), 400),
        ("a name that is a number", post("/api/v1/control/record/start", r#"{"name":1}"#), 400),
        ("a recording that cannot be", post("/api/v1/control/record/start", "{}"), 409),
        (
            "a form instead of JSON",
            Request {
                headers: vec![("Content-Type".into(), "application/x-www-form-urlencoded".into())],
                ..post("/api/v1/control/pause", "a=b")
            }
            .token(world.token(Role::Admin)),
            415,
        ),
        (
            "no content type",
            admin(Request { body: b"{}".to_vec(), ..Request::new("POST", "/api/v1/control/pause") }),
            415,
        ),
        (
            "a body that is too large",
            post("/api/v1/control/pause", &format!("{{\"x\":\"{}\"}}", "y".repeat(2 << 20))),
            413,
        ),
        ("no WebSocket", get("/ws/metrics"), 426),
        (
            "a cookie without the header",
            Request::post("/api/v1/logout", "{}").header("Cookie", "ortscope_session=0"),
            401,
        ),
    ];
    for (name, request, status) in cases {
        let answer = world.request(&request);
        assert_eq!(answer.status, status, "{name}: {}", answer.text());
        let error = answer.json();
        let message = error["error"]["message"].as_str().unwrap_or_default();
        assert!(!message.is_empty() && message.len() < 400 && !message.contains('\n'), "{name}: {message}");
        if status == 405 {
            assert!(answer.header("allow").is_some(), "{name}");
        }
    }
}

#[test]
fn hosts_and_origins_must_be_in_the_allow_lists() {
    let world = World::new();
    let port = world.address.port();
    let own = format!("127.0.0.1:{port}");
    let local = format!("localhost:{port}");
    for host in [own.as_str(), local.as_str()] {
        let request = Request::get("/api/v1/hello").header("Host", host).token(world.token(Role::Viewer));
        assert_eq!(world.request(&request).status, 200, "{host}");
    }
    let evil = format!("evil.example:{port}");
    for host in ["evil.example", evil.as_str(), "127.0.0.1", "localhost", "", "127.0.0.1:1", "[::1"] {
        for path in ["/", "/api/v1/hello", "/healthz", "/login?t=x", "/ws/metrics", "/nothing"] {
            let request = Request::get(path).header("Host", host).token(world.token(Role::Admin));
            assert_eq!(world.request(&request).status, 421, "{host} {path}");
        }
    }
    let two = Request::get("/api/v1/hello").header("Host", &own).header("Host", "evil.example");
    assert!([400, 421].contains(&world.request(&two).status));
    let whole =
        format!("GET http://evil.example/api/v1/hello HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n\r\n");
    assert_eq!(send(world.address, &whole, b"").status, 421);

    let pause = |origin: Option<&str>, site: Option<&str>| {
        let mut request = Request::post("/api/v1/control/pause", "{}").token(world.token(Role::Operator));
        if let Some(origin) = origin {
            request = request.header("Origin", origin);
        }
        if let Some(site) = site {
            request = request.header("Sec-Fetch-Site", site);
        }
        world.request(&request)
    };
    let own_origin = format!("http://{own}");
    for (origin, site, status) in [
        (None, None, 200),
        (Some(own_origin.as_str()), Some("same-origin"), 200),
        (Some("https://eval.example"), Some("cross-site"), 200),
        (Some("https://evil.example"), None, 403),
        (Some("null"), None, 403),
        (Some("http://eval.example"), None, 403),
        (None, Some("cross-site"), 403),
        (None, Some("same-site"), 403),
        (None, Some("none"), 200),
    ] {
        assert_eq!(pause(origin, site).status, status, "{origin:?} {site:?}");
    }
    let allowed = pause(Some("https://eval.example"), None);
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://eval.example"));
    assert!(pause(Some("https://evil.example"), None).header("access-control-allow-origin").is_none());
    let ask = Request::new("OPTIONS", "/api/v1/hello").header("Origin", "https://eval.example");
    let ask = world.request(&ask.header("Access-Control-Request-Method", "GET"));
    assert_eq!((ask.status, ask.header("access-control-allow-origin")), (204, Some("https://eval.example")));
    let stranger = Request::new("OPTIONS", "/api/v1/hello").header("Origin", "https://evil.example");
    assert_eq!(world.request(&stranger).status, 403);
}

#[test]
fn every_answer_has_security_headers_and_is_logged() {
    let mut world = World::new();
    for (path, token) in
        [("/", None), ("/api/v1/hello", None), ("/api/v1/hello", Some(Role::Viewer)), ("/x", None)]
    {
        let mut request = Request::get(path);
        if let Some(role) = token {
            request = request.token(world.token(role));
        }
        let answer = world.request(&request);
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert!(answer.header("access-control-allow-origin").is_none());
    }
    let secret = world.token(Role::Viewer).to_owned();
    world.stop();
    let verified = audit::verify(&world.state).expect("read");
    assert_eq!((verified.entries, verified.problems.len()), (4, 0), "{verified:?}");
    let entries = audit::entries(&world.state, 10).expect("read");
    assert!(entries.iter().any(|entry| entry.event.who == "viewer" && entry.event.status == 200));
    assert!(entries.iter().all(|entry| !format!("{entry:?}").contains(&secret)));
}

#[test]
fn oversized_headers_are_rejected() {
    let world = World::new();
    let long = Request::get("/api/v1/hello").header("X-Long", &"x".repeat(200_000));
    assert_eq!(world.request(&long).status, 431);
    let mut many = Request::get("/api/v1/hello");
    for index in 0..500 {
        many = many.header(&format!("X-{index}"), "y");
    }
    assert_eq!(world.request(&many).status, 431);
}

#[test]
fn links_work_once_and_guessing_is_rate_limited() {
    let world = World::new();
    let link = world.server.as_ref().expect("it runs").link.clone();
    let path = link.split_once("/login").map(|(_, query)| format!("/login{query}")).expect("a path");
    let first = world.request(&Request::get(&path));
    assert_eq!((first.status, first.header("location")), (303, Some("/")));
    let cookie = first.header("set-cookie").expect("a cookie").to_owned();
    for word in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    let cookie = cookie.split(';').next().expect("a pair").to_owned();
    let with = |request: Request| request.header("Cookie", &cookie);
    let hello = world.request(&with(Request::get("/api/v1/hello")));
    assert_eq!((hello.status, hello.json()["role"].as_str()), (200, Some("operator")));
    // Browsers send cookies automatically, so changes require a header that other pages cannot send.
    assert_eq!(world.request(&with(Request::post("/api/v1/control/pause", "{}"))).status, 403);
    let ours = with(Request::post("/api/v1/control/pause", "{}")).header("X-Requested-With", "ortscope");
    assert_eq!(world.request(&ours).json()["paused"].as_bool(), Some(true));
    let out = with(Request::post("/api/v1/logout", "{}")).header("X-Requested-With", "ortscope");
    assert_eq!(world.request(&out).status, 204);
    assert_eq!(world.request(&with(Request::get("/api/v1/hello"))).status, 401);
    assert_eq!(world.request(&Request::get(&path)).status, 401);
    for _ in 0..4 {
        assert_eq!(
            world.request(&Request::post("/api/v1/login", r#"{"token":"ortscope_guess"}"#)).status,
            401
        );
    }
    let late = world.request(&Request::post("/api/v1/login", r#"{"token":"ortscope_guess"}"#));
    assert!(late.status == 429 && late.header("retry-after").is_some(), "{}", late.text());
}

#[test]
fn revoking_a_token_ends_its_logins() {
    let world = World::new();
    let file = TokenFile::new(&world.state);
    let login = |token: &str| {
        // Servers look at the file of tokens twice a second. After a refusal they make an address wait.
        let body = json!({ "token": token }).to_string();
        let mut answer = world.request(&Request::post("/api/v1/login", &body));
        for _ in 0..2 {
            if answer.status != 204 {
                std::thread::sleep(Duration::from_secs(2));
                answer = world.request(&Request::post("/api/v1/login", &body));
            }
        }
        assert_eq!(answer.status, 204, "{}", answer.text());
        let cookie = answer.header("set-cookie").expect("a cookie");
        cookie.split(';').next().expect("a pair").to_owned()
    };
    let hello = |cookie: &str| world.request(&Request::get("/api/v1/hello").header("Cookie", cookie)).status;
    let becomes_401 = |cookie: &str| {
        let until = Instant::now() + Duration::from_secs(20);
        while hello(cookie) != 401 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        hello(cookie) == 401
    };
    let stays = login(world.token(Role::Viewer));
    let revoked = login(world.token(Role::Operator));
    assert_eq!((hello(&stays), hello(&revoked)), (200, 200));
    file.revoke("operator").expect("written").expect("there");
    assert!(becomes_401(&revoked), "revoked");
    let expires = unix_ms() + 8000;
    let (_, secret) = file.create("short", Role::Viewer, Some(expires)).expect("made");
    // Servers check the file regularly.
    std::thread::sleep(Duration::from_secs(1));
    let short = login(&secret);
    assert!(becomes_401(&short) && unix_ms() >= expires, "expired");
    assert_eq!(hello(&stays), 200);
}

fn unix_ms() -> u64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(passed.as_millis()).expect("small")
}

#[test]
fn reachable_addresses_require_tls_and_a_token() {
    use ortscope_server::{ServerConfig, start};
    let directory = tempfile::tempdir().expect("a directory");
    let config = |address: [u8; 4], tls, https_only| ServerConfig {
        listen: vec![(address, 0).into()],
        listen_if_possible: Vec::new(),
        tls,
        https_only,
        allow_hosts: Vec::new(),
        allow_origins: Vec::new(),
        state_directory: directory.path().join("state"),
        store: ortscope_store::Store::open(directory.path().join("store")),
        recordings: Vec::new(),
        live: None,
        own_usage: || (None, None),
        carbon_grams_per_kwh: None,
    };
    let error = start(config([0, 0, 0, 0], None, false)).expect_err("no TLS").to_string();
    assert!(error.contains("TLS"), "{error}");
    let tls = ortscope_server::security::tls::TlsChoice::SelfSigned;
    let error = start(config([0, 0, 0, 0], Some(tls), false)).expect_err("no token").to_string();
    assert!(error.contains("token create"), "{error}");
    let error = start(config([127, 0, 0, 1], None, true)).expect_err("HTTPS only").to_string();
    assert!(error.contains("HTTPS only"), "{error}");
}
