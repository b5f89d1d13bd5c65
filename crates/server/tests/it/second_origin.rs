//! Pages of an origin that the user allowed with `--allow-origin`, and of other origins: preflight, requests and WebSockets.

use std::net::TcpStream;
use std::time::Duration;

use ortscope_server::security::Role;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::support::{Answer, Request, World};

const NAMED: &str = "https://eval.example";
const STRANGERS: [&str; 5] = [
    "https://evil.example",
    "http://eval.example",
    "https://eval.example:8443",
    "https://eval.example.evil.example",
    "null",
];

fn allowed(answer: &Answer) -> Option<&str> {
    answer.header("access-control-allow-origin")
}

#[test]
fn preflight_allows_only_the_configured_origin() {
    let world = World::new();
    let ask = |origin: &str, method: &str| {
        let request = Request::new("OPTIONS", "/api/v1/control/rate")
            .header("Origin", origin)
            .header("Access-Control-Request-Method", method)
            .header("Access-Control-Request-Headers", "authorization, content-type");
        world.request(&request)
    };
    for method in ["GET", "POST", "DELETE"] {
        let yes = ask(NAMED, method);
        assert_eq!((yes.status, allowed(&yes)), (204, Some(NAMED)));
        let list = |name: &str| yes.header(name).unwrap_or_default().to_ascii_lowercase();
        assert!(list("access-control-allow-methods").contains(&method.to_ascii_lowercase()));
        for header in ["authorization", "content-type"] {
            assert!(list("access-control-allow-headers").contains(header), "{header}");
        }
        // Cookies are for the server's own page only.
        assert_eq!(yes.header("access-control-allow-credentials"), None);
        assert!(yes.header("vary").is_some_and(|vary| vary.contains("Origin")));
    }
    for stranger in STRANGERS {
        let no = ask(stranger, "POST");
        assert_eq!((no.status, allowed(&no)), (403, None), "{stranger}");
    }
}

#[test]
fn only_the_configured_origin_can_use_a_token() {
    let mut world = World::new();
    world.feed();
    let token = world.token(Role::Operator);
    let paths =
        ["/metrics/current", "/api/v1/metrics/catalog", "/api/v1/timeline?width=100", "/api/v1/energy"];
    for path in paths {
        let answer = world.request(&Request::get(path).token(token).header("Origin", NAMED));
        assert_eq!((answer.status, allowed(&answer)), (200, Some(NAMED)), "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("cross-origin"));
    }
    // Errors are readable, too.
    let refused = world.request(&Request::get("/metrics/current").header("Origin", NAMED));
    assert_eq!((refused.status, allowed(&refused)), (401, Some(NAMED)));
    let change = |origin: &str| {
        world.request(
            &Request::post("/api/v1/control/rate", r#"{"hertz": 5}"#).token(token).header("Origin", origin),
        )
    };
    assert_eq!(change(NAMED).status, 200);
    for stranger in STRANGERS {
        let read = world.request(&Request::get("/metrics/current").token(token).header("Origin", stranger));
        assert_eq!(
            (allowed(&read), read.header("cross-origin-resource-policy")),
            (None, Some("same-origin"))
        );
        assert_eq!(change(stranger).status, 403, "{stranger}");
    }
    // Browsers that send no Origin send Sec-Fetch-Site.
    let hidden =
        Request::post("/api/v1/control/pause", "{}").token(token).header("Sec-Fetch-Site", "cross-site");
    assert_eq!(world.request(&hidden).status, 403);
}

fn connect(world: &World, origin: &str) -> Result<WebSocket<TcpStream>, String> {
    let mut request = format!("ws://{}/ws/metrics", world.address).into_client_request().expect("a request");
    request.headers_mut().insert("origin", origin.parse().expect("a header"));
    let stream = TcpStream::connect(world.address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    client(request, stream).map(|(socket, _)| socket).map_err(|error| error.to_string())
}

fn first_frame(socket: &mut WebSocket<TcpStream>, ticket: Option<&str>) -> Value {
    let frame = json!({ "type": "subscribe", "topics": ["system"], "rate_hertz": 10, "ticket": ticket });
    socket.send(Message::Text(frame.to_string().into())).expect("sent");
    loop {
        if let Message::Text(text) = socket.read().expect("a frame") {
            return serde_json::from_str(&text).expect("JSON");
        }
    }
}

#[test]
fn a_websocket_of_another_origin_requires_a_single_use_ticket() {
    let world = World::new();
    let ask =
        Request::post("/api/v1/ws/ticket", "{}").token(world.token(Role::Viewer)).header("Origin", NAMED);
    let answer = world.request(&ask);
    assert_eq!((answer.status, allowed(&answer)), (200, Some(NAMED)));
    let ticket = answer.json()["ticket"].as_str().expect("a ticket").to_owned();
    let mut socket = connect(&world, NAMED).expect("let in");
    assert_eq!(first_frame(&mut socket, Some(&ticket))["type"], "hello");
    for used in [Some(ticket.as_str()), Some("00"), None] {
        let mut socket = connect(&world, NAMED).expect("it may still show a ticket");
        let refused = first_frame(&mut socket, used);
        assert_eq!((&refused["type"], &refused["error"]["code"]), (&json!("error"), &json!("unauthorized")));
    }
    for stranger in STRANGERS {
        assert!(connect(&world, stranger).expect_err(stranger).contains("403"), "{stranger}");
    }
}
