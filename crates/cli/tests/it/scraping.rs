//! Prometheus itself, scraping `ortscope serve`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Place, skips};

/// Ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn get(address: &str, path: &str, token: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok();
    let head = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

/// The values of a question, or none.
fn ask(prometheus: &str, question: &str) -> Vec<f64> {
    let encoded: String = question.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let Some(body) = get(prometheus, &format!("/api/v1/query?query={encoded}"), "") else {
        return Vec::new();
    };
    let answer: Value = serde_json::from_str(&body).expect("JSON");
    let results = answer["data"]["result"].as_array().cloned().unwrap_or_default();
    results
        .iter()
        .map(|result| result["value"][1].as_str().expect("a text").parse().expect("a number"))
        .collect()
}

/// Series and their values, as the text has them.
fn samples(text: &str) -> Vec<(&str, f64)> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            (series, value.parse().expect("a number"))
        })
        .collect()
}

#[test]
fn prometheus_scrapes_what_the_server_says() {
    let Some(program) = skips::program("prometheus") else { return };
    let place = Place::new();
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/../decode/tests/data/ort_profile/1.20.1.json");
    let imported = place.ortscope(&["import", profile, "--json"]).expect_code(0).json();
    let id = imported["id"].as_str().expect("an id").to_owned();
    let state = place.directory.path().join("state").display().to_string();
    let created = place.ortscope(&["token", "create", "scrape", "--role", "viewer", "--state", &state, "-q"]);
    let token = created.expect_code(0).stdout().trim().to_owned();
    let mut serving = place
        .command(&["serve", "--listen", "127.0.0.1:0", "--json", "--state", &state])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let output = serving.stdout.take().expect("an output");
    let _serving = Ended(serving);
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).expect("a line");
    let document: Value = serde_json::from_str(&line).expect("JSON");
    let ours = document["addresses"][0].as_str().expect("an address").to_owned();

    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number").port();
    let prometheus = format!("127.0.0.1:{port}");
    place.file("token", &token);
    let job = |name: &str, more: &str| {
        format!(
            "  - job_name: {name}\n    metrics_path: /prometheus\n    authorization: {{ credentials_file: token }}\n{more}    \
             static_configs: [{{ targets: [\"{ours}\"] }}]\n"
        )
    };
    let config = format!(
        "global: {{ scrape_interval: 1s }}\nscrape_configs:\n{}{}",
        job("live", ""),
        job("recorded", &format!("    params: {{ source: [\"{id}\"] }}\n"))
    );
    place.file("prometheus.yml", config);
    let started = Command::new(program)
        .current_dir(place.directory.path())
        .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=error"])
        .arg(format!("--web.listen-address={prometheus}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _started = Ended(started.expect("it starts"));
    let begun = Instant::now();
    while ask(&prometheus, "up") != [1.0, 1.0] || ask(&prometheus, "ortscope_memory_size_bytes").is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "up is {:?}", ask(&prometheus, "up"));
        std::thread::sleep(Duration::from_millis(200));
    }

    // A recording does not change: every value is there and equal.
    let text = get(&ours, &format!("/prometheus?source={id}"), &token).expect("an answer");
    let said = samples(&text);
    assert!(said.len() >= 2, "{text}");
    assert_eq!(ask(&prometheus, "scrape_samples_scraped{job=\"recorded\"}"), [said.len() as f64]);
    for (series, value) in &said {
        let question = match series.split_once('{') {
            Some((name, labels)) => format!("{name}{{job=\"recorded\",{labels}"),
            None => format!("{series}{{job=\"recorded\"}}"),
        };
        let found = ask(&prometheus, &question);
        assert_eq!(found.len(), 1, "{question}: {found:?}");
        assert!(
            (found[0] - value).abs() <= 1e-9 * value.abs().max(1.0),
            "{question}: {found:?} is not {value}"
        );
    }

    // The machine goes on: what only grows lies between two looks of our own.
    let look = || -> f64 {
        let text = get(&ours, "/prometheus", &token).expect("an answer");
        let found =
            samples(&text).into_iter().find(|(series, _)| *series == "ortscope_context_switches_total");
        found.expect("the counter").1
    };
    let before = look();
    let asked = Instant::now();
    let scraped = loop {
        let values = ask(&prometheus, "ortscope_context_switches_total{job=\"live\"}");
        if let [value] = values.as_slice()
            && *value >= before
        {
            break *value;
        }
        assert!(asked.elapsed() < Duration::from_secs(30), "{values:?} stays below {before}");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(scraped <= look(), "{scraped}");
}
