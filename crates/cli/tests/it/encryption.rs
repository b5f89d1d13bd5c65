//! Encrypted recordings as a user meets them: made, listed, refused without the key, read with it from each of its places.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::{Place, library, skips, small_model};

/// Found in the profile that is imported, and nowhere else.
const OPERATORS: [&str; 3] = ["Identity", "CPUExecutionProvider", "kernel_time"];

fn profile() -> String {
    let data = "../decode/tests/data/ort_profile/1.20.1.json";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(data).display().to_string()
}

/// A key in a file of this place: the path and the text.
fn key(place: &Place, name: &str) -> (String, String) {
    let path = place.directory.path().join(name).display().to_string();
    place.ortscope(&["key", "new", "-o", &path]).expect_code(0);
    let text = std::fs::read_to_string(&path).expect("a key").trim().to_owned();
    (path, text)
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a list").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[track_caller]
fn assert_unreadable(directory: &Path, words: &[&str]) {
    let files = files(directory);
    assert!(files.len() > 2, "{files:?}");
    for path in files {
        let bytes = std::fs::read(&path).expect("readable");
        for word in words {
            let has = bytes.windows(word.len()).any(|window| window == word.as_bytes());
            assert!(!has, "{word} stands in {}", path.display());
        }
    }
}

#[track_caller]
fn assert_refused(output: &Output, word: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains(word) && stderr.contains("hint:"), "{stderr}");
}

#[test]
fn an_encrypted_recording_is_read_with_its_key_from_each_place_and_refused_without() {
    let place = Place::new();
    let runs = place.directory.path().join("runs");
    let (file, text) = key(&place, "key");
    let profile = profile();
    place
        .ortscope(&["import", &profile, "--encrypt", "--name", "secret-name", "--key-file", &file])
        .expect_code(0);
    let mut words = OPERATORS.to_vec();
    words.extend(["secret-name", "ort_profile", "inferences", "operators"]);
    assert_unreadable(&runs, &words);

    // The file, the environment, the configuration.
    let by_flag = place.ortscope(&["report", "secret-name", "--key-file", &file]).expect_code(0).stdout();
    let run = |arguments: &[&str], key: &str| {
        place.command(arguments).env("ORTSCOPE_KEY", key).output().expect("ortscope starts")
    };
    let by_variable = run(&["report", "last"], &text);
    assert_eq!(String::from_utf8_lossy(&by_variable.stdout), by_flag);
    place.file("keyed.toml", format!("[store]\nkey_file = {file:?}\n"));
    let by_config = place.ortscope(&["report", "last", "--config", "keyed.toml"]).expect_code(0).stdout();
    assert_eq!(by_config, by_flag);
    let shown = run(&["runs", "show", "last"], &text);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("encrypted"), "{shown:?}");
    let exported = run(&["export", "last", "--to", "jsonl", "-o", "all.jsonl"], &text);
    assert_eq!(exported.status.code(), Some(0), "{exported:?}");

    // Listed, and not read, without the key or with another.
    let (other, other_text) = key(&place, "other");
    let list = place.ortscope(&["runs", "list"]).expect_code(0).stdout();
    assert!(list.contains("encrypted") && !list.contains("secret-name"), "{list}");
    let listed = place.ortscope(&["runs", "list", "--json"]).expect_code(0).json();
    assert_eq!(listed["runs"][0]["encrypted"], true);
    let commands: [&[&str]; 8] = [
        &["report", "last"],
        &["export", "last", "--to", "json", "-o", "no.json"],
        &["compare", "last", "last"],
        &["runs", "show", "last"],
        &["runs", "repair", "last"],
        &["runs", "pack", "last", "-o", "no.ortscope"],
        &["runs", "tag", "last", "x"],
        &["serve", "last", "--listen", "127.0.0.1:0"],
    ];
    for command in commands {
        assert_refused(&run(command, ""), "is encrypted with the key");
        assert_refused(&run(command, &other_text), "there is only");
    }
    assert_refused(&run(&["report", "last", "--key-file", &other], ""), "there is only");
    assert_refused(&run(&["report", "last"], "not-a-key"), "ORTSCOPE_KEY cannot be used");
    assert_refused(&run(&["report", "last", "--key-file", "nowhere"], ""), "nowhere");
    assert_refused(&run(&["import", &profile, "--encrypt"], ""), "no key to encrypt with");

    // Packed, it needs the same key; on request none.
    assert_eq!(run(&["runs", "pack", "last", "-o", "sealed.ortscope"], &text).status.code(), Some(0));
    assert_refused(&run(&["report", "./sealed.ortscope"], ""), "is encrypted with the key");
    assert_eq!(run(&["report", "./sealed.ortscope"], &text).status.code(), Some(0));
    assert_eq!(
        run(&["runs", "pack", "last", "-o", "open.ortscope", "--decrypt"], &text).status.code(),
        Some(0)
    );
    assert_eq!(run(&["report", "./open.ortscope"], "").status.code(), Some(0));
    assert_eq!(run(&["runs", "remove", "last"], "").status.code(), Some(0), "removing needs no key");
}

#[cfg(unix)]
#[test]
fn a_key_file_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let (file, _) = key(&place, "key");
    assert_eq!(std::fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("changed");
    let refused = place.ortscope(&["import", &profile(), "--encrypt", "--key-file", &file]);
    refused.expect_error(5, &["can be read by others", "chmod 600"]);
    assert!(!place.directory.path().join("runs").exists(), "nothing was made instead");
}

#[test]
fn keys_are_made_identified_and_never_shown_again() {
    let place = Place::new();
    let (file, text) = key(&place, "key");
    let shown = place.ortscope(&["key", "id", "--key-file", &file, "--json"]).expect_code(0);
    assert!(!shown.stdout().contains(&text[20..40]), "{}", shown.stdout());
    let id = shown.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(id.len(), 16);
    place.ortscope(&["key", "new", "-o", &file]).expect_error(5, &["already there"]);
    let printed = place.ortscope(&["key", "new", "-q"]).expect_code(0).stdout();
    let identified =
        place.command(&["key", "id"]).env("ORTSCOPE_KEY", printed.trim()).output().expect("runs");
    let identified = String::from_utf8_lossy(&identified.stdout).into_owned();
    assert!(identified.contains("ORTSCOPE_KEY") && !identified.contains(&id), "{identified}");
    place.file("all.toml", "[store]\nencrypt = true\n");
    let refused =
        place.command(&["import", &profile(), "--config", "all.toml"]).env("ORTSCOPE_KEY", "").output();
    assert_refused(&refused.expect("runs"), "no key to encrypt with");
}

/// A key in the key store only is gone with it: there is always a copy, and it can be put back.
#[test]
fn a_key_of_the_key_store_has_a_copy_that_can_be_put_back() {
    let place = Place::new();
    let file = place.directory.path().join("copy");
    let copy = file.display().to_string();
    let made = place.command(&["key", "new", "--system", "-o", &copy]).output().expect("it starts");
    // Containers often have no keyring; a key that is there already is the user's. The copy was written first.
    if matches!(made.status.code(), Some(2 | 5)) {
        assert!(file.exists() && String::from_utf8_lossy(&made.stderr).contains("hint:"));
        skips::skipped("the system has no key store, refuses, or has a key of the user");
        return;
    }
    let id = |output: &Output| String::from_utf8_lossy(&output.stdout).split(' ').next().map(str::to_owned);
    let found = place.command(&["key", "id"]).env_remove("ORTSCOPE_KEY").output().expect("it starts");
    assert_eq!(id(&found), id(&made), "{found:?}");
    place.ortscope(&["key", "forget"]).expect_code(0);
    place.ortscope(&["key", "keep", &copy]).expect_code(0);
    let found = place.command(&["key", "id"]).env_remove("ORTSCOPE_KEY").output().expect("it starts");
    assert_eq!(id(&found), id(&made), "{found:?}");
    place.ortscope(&["key", "keep", &copy]).expect_code(0);
    let (other, _) = key(&place, "other");
    place.ortscope(&["key", "keep", &other]).expect_code(2);
    place.ortscope(&["key", "forget"]).expect_code(0);
}

/// A program that is watched had our key in its environment, and with it everything that it starts.
#[test]
#[cfg(unix)]
fn a_watched_program_does_not_see_keys_and_tokens() {
    let place = Place::new();
    let (_, text) = key(&place, "key");
    let mut command = place.command(&["record", "--no-save", "--", "sh", "-c", "env > seen"]);
    let secrets = ["ORTSCOPE_KEY", "ORTSCOPE_PUSH_TOKEN", "ORTSCOPE_PUSH_BASIC", "ORTSCOPE_TOKEN"];
    command.envs(secrets.map(|name| (name, &text))).env("HARMLESS", "kept");
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let seen = std::fs::read_to_string(place.directory.path().join("seen")).expect("written");
    assert!(seen.contains("HARMLESS=kept"), "{seen}");
    assert!(!seen.contains(&text) && secrets.iter().all(|name| !seen.contains(name)), "{seen}");
}

#[test]
fn a_run_is_encrypted_with_all_its_parts() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let (file, _) = key(&place, "key");
    let model = small_model(&place);
    let run = ["run", &model, "--runs", "200", "--encrypt", "--key-file", &file, "--save", "secret-name"];
    place.with_library(&library, &run).expect_code(0);
    let words = ["small", "secret-name", "MatMul", "inference", "results", "cpu_model"];
    assert_unreadable(&place.directory.path().join("runs"), &words);
    let report =
        place.ortscope(&["report", "secret-name", "--key-file", &file, "--json"]).expect_code(0).json();
    assert_eq!(report["schema"], "ortscope.report/1");
}

/// A server that is started with many rights keeps a few, and gets no new ones.
#[cfg(target_os = "linux")]
#[test]
fn a_server_gives_up_rights_and_serves_encrypted_recordings() {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    let place = Place::new();
    let (file, _) = key(&place, "key");
    place.ortscope(&["import", &profile(), "--encrypt", "--key-file", &file]).expect_code(0);
    let state = place.directory.path().join("state").display().to_string();
    let token = place.ortscope(&["token", "create", "ci", "--state", &state, "-q"]).expect_code(0).stdout();
    let arguments = [
        "serve",
        "last",
        "--live",
        "--listen",
        "127.0.0.1:0",
        "--json",
        "--state",
        &state,
        "--key-file",
        &file,
    ];
    let mut child = place
        .command(&arguments)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("an output")).read_line(&mut line).expect("a line");
    let document: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let address = document["addresses"][0].as_str().expect("an address").to_owned();
    let mut stream = std::net::TcpStream::connect(&address).expect("the server listens");
    let head = format!(
        "GET /api/v1/recordings HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        token.trim()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let mut threads = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{}/task", child.id())).expect("its threads") {
        threads.push(std::fs::read_to_string(entry.expect("one").path().join("status")).expect("its status"));
    }
    child.kill().ok();
    child.wait().ok();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"encrypted\":true"), "{answer}");
    // CAP_DAC_READ_SEARCH, NET_BIND_SERVICE, SYS_PTRACE, PERFMON, BPF; SYS_ADMIN only where there is no PERFMON, on old
    // kernels. The store is its own: DAC_OVERRIDE is not needed.
    let own = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let permitted = own.lines().find_map(|line| line.strip_prefix("CapPrm:")).expect("a line").trim();
    let permitted = u64::from_str_radix(permitted, 16).expect("bits");
    if permitted == 0 {
        skips::skipped("without rights there are none to give up");
    }
    let old = if permitted >> 38 & 1 == 0 { 1 << 21 } else { 0 };
    let kept: u64 = 1 << 2 | 1 << 10 | 1 << 19 | 1 << 38 | 1 << 39 | old;
    assert!(threads.len() > 1);
    for status in threads {
        let value = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).expect("a line");
            line.split_whitespace().nth(1).expect("a value").to_owned()
        };
        assert_eq!(value("NoNewPrivs"), "1");
        let permitted = u64::from_str_radix(&value("CapPrm"), 16).expect("bits");
        assert_eq!(permitted & !kept, 0, "{status}");
    }
}
