//! `serve`, `token` and `audit` as processes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::Place;

/// A server that ends with the test.
pub struct Server {
    child: Child,
    address: String,
    token: String,
}

impl Server {
    /// Starts it on a free port, with a token for viewers.
    pub fn start(place: &Place, prepare: impl FnOnce(&mut Command)) -> Self {
        let state = state(place);
        let token = place.ortscope(&["token", "create", "ci", "--role", "viewer", "--state", &state, "-q"]);
        let token = token.expect_code(0).stdout().trim().to_owned();
        let mut command = place.command(&["serve", "--listen", "127.0.0.1:0", "--json", "--state", &state]);
        prepare(&mut command);
        let (child, document) = start(&mut command);
        let address = document["addresses"][0].as_str().expect("an address").to_owned();
        Self { child, address, token }
    }

    pub fn get(&self, path: &str) -> String {
        get(&self.address, path, &self.token)
    }
}

/// Starts a server and reads the first line of its output.
fn start(command: &mut Command) -> (Child, Value) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let output = child.stdout.take().expect("an output");
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).expect("a line");
    (child, serde_json::from_str(&line).expect("JSON"))
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn state(place: &Place) -> String {
    place.directory.path().join("state").display().to_string()
}

fn get(address: &str, path: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn help_of_serve() {
    let place = Place::new();
    let help = place.ortscope(&["serve", "--help"]).expect_code(0).stdout();
    for word in
        ["--listen", "--tls", "--allow-host", "--allow-origin", "--open", "Examples:", "127.0.0.1:9464"]
    {
        assert!(help.contains(word), "{word} is missing in {help}");
    }
}

#[test]
fn a_server_watches_the_machine_and_lets_a_token_in_until_it_is_revoked() {
    let place = Place::new();
    let state = state(&place);
    let server = Server::start(&place, |_| {});
    let list = place.ortscope(&["token", "list", "--state", &state]).expect_code(0).stdout();
    assert!(list.contains("ci") && !list.contains(&server.token));
    let hello = server.get("/api/v1/hello");
    assert!(hello.starts_with("HTTP/1.1 200") && hello.contains("\"has_live\":true"), "{hello}");
    assert!(server.get("/api/v1/audit").starts_with("HTTP/1.1 403"));
    place.ortscope(&["token", "revoke", "ci", "--state", &state]).expect_code(0);
    // The server looks at the list twice a second.
    let begin = std::time::Instant::now();
    while !server.get("/api/v1/hello").starts_with("HTTP/1.1 401") {
        assert!(begin.elapsed().as_secs() < 30, "the token still works");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let shown = place.ortscope(&["audit", "show", "--state", &state]).expect_code(0).stdout();
    assert!(shown.contains("token create") && shown.contains("GET /api/v1/hello"), "{shown}");
    assert!(
        place.ortscope(&["audit", "verify", "--state", &state]).expect_code(0).stdout().contains("whole")
    );
}

#[test]
fn what_would_be_unsafe_is_refused_at_the_start() {
    let place = Place::new();
    let state = state(&place);
    for (arguments, word) in [
        (vec!["serve", "--listen", "0.0.0.0:0"], "--tls"),
        (vec!["serve", "--listen", "0.0.0.0:0", "--tls", "auto"], "token create"),
        (vec!["serve", "--https-only", "--listen", "127.0.0.1:0"], "--tls auto"),
        (vec!["serve", "--tls", "x", "--listen", "127.0.0.1:0"], "CERT.pem,KEY.pem"),
        (vec!["serve", "--allow-origin", "*", "--listen", "127.0.0.1:0"], "is not an origin"),
        (vec!["serve", "nobody", "--listen", "127.0.0.1:0"], "nobody"),
        (vec!["token", "revoke", "nobody"], "token list"),
        (vec!["token", "create", "x", "--expires", "soon"], "soon"),
    ] {
        let mut arguments = arguments;
        arguments.extend(["--state", &state]);
        let run = place.ortscope(&arguments).expect_code(2);
        assert!(run.stderr().contains(word), "{arguments:?}: {}", run.stderr());
    }
}

/// A server with TLS on a free port of this machine: its first line of output.
fn secure_server(place: &Place, state: &str) -> (Server, Value) {
    let (child, document) = start(&mut place.command(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--tls",
        "auto",
        "--https-only",
        "--json",
        "--state",
        state,
    ]));
    (Server { child, address: String::new(), token: String::new() }, document)
}

#[test]
fn top_watches_a_server_that_it_trusts_with_a_token_that_is_no_flag() {
    let place = Place::new();
    let state = state(&place);
    let token = place.ortscope(&["token", "create", "ci", "--state", &state, "-q"]).expect_code(0).stdout();
    let (_server, document) = secure_server(&place, &state);
    let address = document["addresses"][0].as_str().expect("an address");
    let fingerprint = document["fingerprint"].as_str().expect("a fingerprint");
    let url = format!("https://{address}");
    let certificate = place.directory.path().join("state/tls/self-signed-cert.pem").display().to_string();
    let token_file = place.directory.path().join("token.txt");
    std::fs::write(&token_file, &token).expect("written");
    let token_file = token_file.display().to_string();
    let top = |arguments: &[&str], token: &str| {
        let mut all = vec!["top", "--once", "--json", "--connect"];
        all.extend(arguments);
        place.command(&all).env("ORTSCOPE_TOKEN", token).output().expect("it runs")
    };
    for (arguments, token) in [
        (vec![url.as_str(), "--fingerprint", fingerprint], token.as_str()),
        (vec![url.as_str(), "--ca", &certificate, "--token-file", &token_file], ""),
    ] {
        let shown = top(&arguments, token);
        let problem = String::from_utf8_lossy(&shown.stderr).into_owned();
        assert_eq!(shown.status.code(), Some(0), "{arguments:?}: {problem}");
        let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
        assert!(shown["processes"].as_array().is_some_and(|list| !list.is_empty()), "{shown}");
    }
    let wrong = ["00"; 32].join(":");
    let plain = format!("http://{address}");
    for (arguments, token, code, word) in [
        (vec![url.as_str(), "--fingerprint", &wrong], token.as_str(), 5, "is not trusted"),
        (vec![url.as_str(), "--fingerprint", fingerprint], "ortscope_wrong", 5, "does not know the token"),
        (vec![url.as_str(), "--fingerprint", fingerprint], "", 2, "token create"),
        (vec![url.as_str()], token.as_str(), 2, "--fingerprint"),
        (vec![plain.as_str()], token.as_str(), 5, "https://"),
        (vec!["http://box.example:1"], token.as_str(), 2, "https://"),
        (vec!["https://127.0.0.1:1", "--fingerprint", fingerprint], token.as_str(), 1, "cannot be reached"),
    ] {
        let shown = top(&arguments, token);
        let problem =
            String::from_utf8_lossy(&shown.stderr).into_owned() + &String::from_utf8_lossy(&shown.stdout);
        assert_eq!(shown.status.code(), Some(code), "{arguments:?}: {problem}");
        assert!(problem.contains(word), "{arguments:?}: {problem}");
    }
}

#[test]
fn the_configuration_has_the_settings_of_the_server_and_flags_win() {
    let place = Place::new();
    let state = state(&place);
    let file = place.directory.path().join("server.toml").display().to_string();
    let write = |text: &str| std::fs::write(&file, text).expect("written");
    write("[server]\nhttps_only = true\n");
    let shown = place.ortscope(&["config", "show", "--config", &file]).expect_code(0).stdout();
    assert!(shown.contains("[server]") && shown.contains("https_only = true"), "{shown}");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--state", &state, "--config", &file];
    assert!(place.ortscope(&serve).expect_code(2).stderr().contains("tls = \"auto\""));
    write("[server]\nhttps-only = true\n");
    let refused = place.ortscope(&serve).expect_code(2).stderr();
    assert!(refused.contains("https-only") && refused.contains("https_only"), "{refused}");
}
