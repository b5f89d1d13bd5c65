//! `ortscope.exe` itself under Wine, as a user meets it: measuring a real model, looking at the machine, reading a trace,
//! serving a page that this system fetches. What each command printed is kept, for eyes.
//!
//! Wine has no event tracing, and answers "access denied" where it should say so: nobody may be told to become an
//! administrator because of it.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{Wine, windows_path};
use crate::environment::{Environment, Workspace};
use crate::process::{Unavailable, seconds};
use crate::summary::{Counts, Outcome};

/// No command takes nearly as long, also on a busy machine.
const LONGEST: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);
/// Runs with every version of ONNX Runtime.
const MODEL: &str = "silero_vad_v6";
const TRACE: &str = "perfview_net.4.5.2.x64.etl";
/// What Wine's lack of event tracing must never be called.
const RIGHTS: &[&str] = &["administrator", "Performance Log Users", "Privilege"];

/// A command, and what it must and must not say.
#[derive(Default)]
struct Check {
    what: &'static str,
    arguments: Vec<String>,
    code: i32,
    says: Vec<String>,
    never: &'static [&'static str],
}

/// Where the program is and how it is started.
struct Place<'a> {
    wine: &'a Wine,
    program: PathBuf,
    /// Kept after the run: what each command printed.
    said: PathBuf,
    store: PathBuf,
}

/// Runs the built program. `libraries` are directories of ONNX Runtime, the newest first, each named by its version.
pub(super) fn test(
    environment: &Environment,
    wine: &Wine,
    program: &Path,
    libraries: &[PathBuf],
) -> Result<Outcome> {
    let said = super::products(&environment.workspace).join("program");
    if said.exists() {
        fs::remove_dir_all(&said).with_context(|| format!("cannot empty {}", said.display()))?;
    }
    let store = said.join("runs");
    fs::create_dir_all(&store).with_context(|| format!("cannot create {}", store.display()))?;
    let place = Place { wine, program: program.to_owned(), said, store };
    let mut counts = Counts::default();
    let mut count = |what: &str, result: Result<()>, begin: Instant| {
        let took = seconds(begin.elapsed());
        match result {
            Ok(()) => {
                counts.passed += 1;
                eprintln!("  ok      {what} ({took})");
            }
            Err(error) if error.is::<Unavailable>() => {
                counts.skipped += 1;
                eprintln!("  skipped {what}: {error:#}");
            }
            Err(error) => {
                counts.failed += 1;
                eprintln!("  FAILED  {what} ({took}): {error:#}");
            }
        }
    };
    let model = environment.models_dir().join(format!("{MODEL}.onnx"));
    for check in checks(&place, &model, libraries)? {
        let begin = Instant::now();
        count(check.what, place.check(&check), begin);
    }
    let begin = Instant::now();
    count("a trace that Windows wrote, counted", trace(&place, &environment.workspace), begin);
    let begin = Instant::now();
    count("a page of the dashboard, fetched from here", page(&place), begin);
    eprintln!("  what they printed is in {}", place.said.display());
    Ok(Outcome::Tests(counts))
}

fn checks(place: &Place<'_>, model: &Path, libraries: &[PathBuf]) -> Result<Vec<Check>> {
    let words =
        |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect::<Vec<_>>() };
    let with = |mut list: Vec<String>, path: &Path| {
        list.push(windows_path(path));
        list
    };
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let newest = libraries.first().context("there is no library of ONNX Runtime")?;
    let no_tracing = texts(&["emulates Windows", "privileges do not help"]);
    let trace = place.said.join("session.etl");
    let mut checks = vec![
        Check {
            what: "version",
            arguments: words("--version"),
            says: texts(&["ortscope"]),
            ..Check::default()
        },
        Check {
            what: "doctor",
            arguments: with(words("doctor --ort-library"), newest),
            says: [no_tracing.clone(), texts(&["CPUExecutionProvider", "(Wine)", "etw events"])].concat(),
            never: RIGHTS,
            ..Check::default()
        },
        Check {
            what: "top once",
            arguments: words("top --once"),
            says: texts(&["ortscope.exe"]),
            ..Check::default()
        },
        Check {
            what: "attach by name",
            arguments: words("attach plugplay.exe --threads --duration 1s --no-save"),
            says: texts(&["plugplay.exe"]),
            ..Check::default()
        },
        Check {
            what: "record",
            arguments: with(words("record --save recorded --"), &place.program)
                .into_iter()
                .chain(words("--version"))
                .collect(),
            says: texts(&["ortscope 0.", "exit code 0"]),
            ..Check::default()
        },
        Check { what: "runs", arguments: words("runs list"), says: texts(&["recorded"]), ..Check::default() },
        Check {
            what: "sessions listed",
            arguments: words("etl list"),
            says: texts(&["no sessions"]),
            ..Check::default()
        },
    ];
    for (what, arguments) in [
        ("no session with kernel events", "--force -o"),
        ("no session of providers", "--force --flags none --provider ort -o"),
    ] {
        let arguments = with([words("etl start"), words(arguments)].concat(), &trace);
        checks.push(Check { what, arguments, code: 2, says: no_tracing.clone(), never: RIGHTS });
    }
    checks.push(Check {
        what: "no session to stop",
        arguments: words("etl stop"),
        code: 2,
        says: no_tracing.clone(),
        never: RIGHTS,
    });
    for (library, what) in libraries.iter().zip(["run, newest ONNX Runtime", "run, oldest ONNX Runtime"]) {
        let version = library.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        checks.push(Check {
            what,
            arguments: [
                with(words("run --duration 2s --no-save"), model),
                with(words("--ort-library"), library),
            ]
            .concat(),
            says: vec![version.into_owned(), "p50".to_owned(), MODEL.to_owned()],
            ..Check::default()
        });
    }
    checks.push(Check {
        what: "run with kernel events that are not there",
        arguments: [
            with(words("run --duration 1s --profile off --kernel --no-save"), model),
            with(words("--ort-library"), newest),
        ]
        .concat(),
        says: [no_tracing, texts(&["p50"])].concat(),
        never: RIGHTS,
        ..Check::default()
    });
    Ok(checks)
}

impl Place<'_> {
    fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new("wine");
        self.wine.tell(&mut command);
        command.arg(&self.program).args(arguments).stdin(Stdio::null()).current_dir(&self.said);
        command.env("ORTSCOPE_STORE", windows_path(&self.store)).env("NO_COLOR", "1");
        for variable in ["ORTSCOPE_ORT_LIBRARY", "ORT_DYLIB_PATH", "ORTSCOPE_CONFIG", "ORTSCOPE_LOG"] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs a command to its end; its exit code and everything that it printed.
    fn run(&self, what: &str, arguments: &[String]) -> Result<(i32, String)> {
        let name = what.replace([' ', ','], "-");
        let path = |stream: &str| self.said.join(format!("{name}.{stream}.txt"));
        let (stdout, stderr) = (File::create(path("stdout"))?, File::create(path("stderr"))?);
        let child = self.command(arguments).stdout(stdout).stderr(stderr).spawn();
        let mut child = Ended(child.context("cannot start wine")?);
        let begin = Instant::now();
        let status = loop {
            match child.0.try_wait()? {
                Some(status) => break status,
                None if begin.elapsed() > LONGEST => bail!("it did not end within {}", seconds(LONGEST)),
                None => std::thread::sleep(POLL),
            }
        };
        let read = |stream| fs::read(path(stream)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok((status.code().unwrap_or(-1), read("stdout")? + &read("stderr")?))
    }

    fn check(&self, check: &Check) -> Result<()> {
        let (code, text) = self.run(check.what, &check.arguments)?;
        ensure!(code == check.code, "exit code {code}, not {}:\n{text}", check.code);
        for word in &check.says {
            ensure!(text.contains(word.as_str()), "'{word}' is not in:\n{text}");
        }
        if let Some(word) = check.never.iter().find(|word| text.contains(**word)) {
            bail!("'{word}' must not be in:\n{text}");
        }
        Ok(())
    }
}

/// A program that is ended with its owner.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn trace(place: &Place<'_>, workspace: &Workspace) -> Result<()> {
    let corpus = std::env::var_os("ORTSCOPE_CORPUS")
        .map_or_else(|| workspace.root.join("../shared/data"), PathBuf::from);
    let file = corpus.join("etl").join(TRACE);
    let file = file.canonicalize().context(Unavailable(format!("no trace {TRACE}; set ORTSCOPE_CORPUS")))?;
    place.check(&Check {
        what: "etl stats",
        arguments: vec!["etl".to_owned(), "stats".to_owned(), windows_path(&file)],
        says: ["528        all  kernel", "PerfInfo/Sample", "CLRStackWalk"].map(str::to_owned).to_vec(),
        ..Check::default()
    })
}

/// Logs in by the link that the program prints, as a browser does, and gets the page and the state behind it.
fn page(place: &Place<'_>) -> Result<()> {
    let state = windows_path(&place.said.join("state"));
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--json", "--state", &state].map(str::to_owned);
    let mut command = place.command(&arguments);
    command.stdout(Stdio::piped()).stderr(File::create(place.said.join("serve.stderr.txt"))?);
    let mut server = Ended(command.spawn().context("cannot start wine")?);
    let line = first_line(&mut server.0)?;
    fs::write(place.said.join("serve.stdout.txt"), &line)?;
    let told: Value = serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))?;
    let address = told["addresses"][0].as_str().context("no address")?;
    let link = told["link"].as_str().context("no link")?;
    let path = link.strip_prefix(&format!("http://{address}")).context("a link to somewhere else")?;
    let login = get(address, path, "")?;
    let cookie = login
        .lines()
        .find_map(|line| line.to_ascii_lowercase().starts_with("set-cookie: ").then(|| &line[12..]))
        .and_then(|value| value.split(';').next())
        .with_context(|| format!("no cookie in:\n{login}"))?;
    ensure!(get(address, path, "")?.starts_with("HTTP/1.1 4"), "the link works twice");
    let page = get(address, "/", cookie)?;
    fs::write(place.said.join("page.txt"), &page)?;
    ensure!(page.starts_with("HTTP/1.1 200") && page.contains("<title>ortscope"), "no page:\n{page}");
    let hello = get(address, "/api/v1/hello", cookie)?;
    ensure!(hello.contains("\"has_live\":true"), "nothing is live:\n{hello}");
    // The first samples come within a second.
    let begin = Instant::now();
    loop {
        let now = get(address, "/metrics/current", cookie)?;
        if now.starts_with("HTTP/1.1 200") && now.contains("cpu_percent") {
            fs::write(place.said.join("metrics.txt"), &now)?;
            return Ok(());
        }
        ensure!(begin.elapsed() < Duration::from_secs(30), "no metrics:\n{now}");
        std::thread::sleep(POLL);
    }
}

fn first_line(child: &mut Child) -> Result<String> {
    let mut output = child.stdout.take().context("no output")?;
    let (mut line, mut byte) = (Vec::new(), [0]);
    while output.read(&mut byte).context("the server's output ended")? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn get(address: &str, path: &str, cookie: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).context("the server does not listen")?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).context("no whole answer")?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
