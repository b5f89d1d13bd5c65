//! Listening addresses, and no plain text on TLS ports.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ortscope_server::security::Role;
use ortscope_server::security::audit;
use ortscope_server::security::tls::TlsChoice;

use crate::support::{Request, World};

#[test]
fn https_only_refuses_plain_http_and_websockets_on_loopback_too() {
    let mut world = World::with(|config| {
        config.tls = Some(TlsChoice::SelfSigned);
        config.https_only = true;
    });
    for request in [Request::get("/"), Request::get("/healthz"), Request::get("/ws/metrics").upgrade()] {
        let answer = world.request(&request.token(world.token(Role::Viewer)));
        assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (400, Some("needs_tls")));
    }
    let secure = secure_get(&world, "/api/v1/hello");
    assert!(secure.starts_with("HTTP/1.1 200") && secure.contains("\"secure\":true"), "{secure}");
    let state = world.state.clone();
    world.stop();
    let entries = audit::entries(&state, 100).expect("a log");
    let refused = entries.iter().filter(|entry| entry.event.what == "HTTP without TLS").count();
    assert_eq!(refused, 3);
}

#[test]
fn ipv6_is_used_if_available() {
    if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        println!("skipped: this system has no IPv6");
        return;
    }
    let world = World::with(|config| config.listen_if_possible = vec![(Ipv6Addr::LOCALHOST, 0).into()]);
    let addresses = &world.server.as_ref().expect("it runs").addresses;
    let [four, six]: [SocketAddr; 2] = addresses.as_slice().try_into().expect("two addresses");
    assert!(four.is_ipv4() && six.is_ipv6());
    for address in [four, six] {
        let request = Request::get("/api/v1/hello").token(world.token(Role::Viewer));
        assert_eq!(world.request_at(address, &request).status, 200, "{address}");
        let elsewhere = Request::get("/healthz").header("Host", &format!("evil.example:{}", address.port()));
        assert_eq!(world.request_at(address, &elsewhere).status, 421, "{address}");
    }
}

#[test]
fn only_optional_addresses_may_be_missing() {
    // Documentation addresses are never assigned.
    let nobody: SocketAddr = "[2001:db8::1]:0".parse().expect("an address");
    let world = World::with(|config| {
        config.tls = Some(TlsChoice::SelfSigned);
        config.listen_if_possible = vec![nobody];
    });
    assert_eq!(world.server.as_ref().expect("it runs").addresses.len(), 1);
}

/// The prefix makes browsers accept the cookie only over TLS, for this host and all of its paths.
#[test]
fn with_tls_the_cookie_has_the_host_prefix() {
    let world = World::with(|config| config.tls = Some(TlsChoice::SelfSigned));
    let link = world.server.as_ref().expect("it runs").link.clone();
    let query = link.split_once("/login").expect("a link").1;
    let answer = secure_get(&world, &format!("/login{query}"));
    let cookie = answer.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("set-cookie").then_some(value)
    });
    let cookie = cookie.unwrap_or_else(|| panic!("no cookie in {answer}"));
    let mut words = cookie.split("; ");
    assert!(words.next().is_some_and(|pair| pair.starts_with("__Host-ortscope_session=")), "{cookie}");
    let rest: Vec<&str> = words.collect();
    for word in ["Secure", "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(rest.contains(&word), "{word} in {cookie}");
    }
    assert!(!cookie.contains("Domain"), "{cookie}");
}

/// A GET over TLS from a client that trusts the printed fingerprint.
fn secure_get(world: &World, path: &str) -> String {
    use std::io::{Read as _, Write as _};

    let pem = fs_err::read(world.state.join("tls").join("self-signed-cert.pem")).expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    let certificate =
        <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(&pem)
            .expect("a certificate");
    let hash = ortscope_server::security::hex(&ortscope_server::security::sha256(&certificate));
    let fingerprint = world.server.as_ref().expect("it runs").fingerprint.as_deref();
    assert_eq!(fingerprint.map(|text| text.replace(':', "").to_ascii_lowercase()), Some(hash));
    roots.add(certificate).expect("a root");
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
    let name = "127.0.0.1".try_into().expect("a name");
    let connection = rustls::ClientConnection::new(Arc::new(config), name).expect("a client");
    let stream = std::net::TcpStream::connect(world.address).expect("a connection");
    let mut stream = rustls::StreamOwned::new(connection, stream);
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        world.address,
        world.token(Role::Viewer)
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    // The server may close the connection without a TLS close message.
    stream.read_to_end(&mut answer).ok();
    String::from_utf8_lossy(&answer).into_owned()
}
