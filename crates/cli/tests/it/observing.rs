//! Watching other processes: a program started for it, running ones by id and name, and what cannot be watched.

#[cfg(unix)]
use std::process::{Command, Stdio};

#[cfg(unix)]
use serde_json::Value;

use crate::support::Place;
#[cfg(target_os = "linux")]
use crate::support::{library, skips, small_model};

/// A program that is busy for a while and starts another one; every system with a shell has it.
#[cfg(unix)]
const BUSY: &[&str] =
    &["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sh -c 'sleep 0.3'; echo out; exit 3"];

#[cfg(unix)]
#[test]
fn a_program_is_recorded_with_its_children_and_keeps_its_exit_code() {
    let place = Place::new();
    let arguments: Vec<&str> =
        ["record", "--save", "w", "--rate", "200", "--"].iter().chain(BUSY).copied().collect();
    let run = place.ortscope(&arguments).expect_code(3);
    // The program's output is its own; the summary goes elsewhere.
    assert_eq!(run.stdout(), "out\n");
    assert!(run.stderr().contains("exit code 3"), "{}", run.stderr());
    let exported = place.ortscope(&["export", "w", "-o", "p.jsonl", "--table", "process_samples"]);
    exported.expect_code(0);
    let text = std::fs::read_to_string(place.directory.path().join("p.jsonl")).expect("it was written");
    let rows: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let first = rows.first().expect("there are samples");
    let cpu = |row: &Value| row["cpu_time_ns"].as_u64().unwrap_or(0);
    let of_first: Vec<&Value> = rows.iter().filter(|row| row["pid"] == first["pid"]).collect();
    // Totals never go back.
    assert!(of_first.windows(2).all(|pair| cpu(pair[0]) <= cpu(pair[1])));
    let report = place.ortscope(&["report", "w"]).expect_code(0).stdout();
    assert!(report.contains("sh"), "{report}");
}

#[cfg(unix)]
#[test]
fn a_running_process_is_watched_by_its_id() {
    let place = Place::new();
    let mut child = Command::new("sleep").arg("30").stdout(Stdio::null()).spawn().expect("sleep starts");
    let pid = child.id().to_string();
    let run = place.ortscope(&["attach", &pid, "--duration", "1s", "--no-save", "--threads", "--json"]);
    child.kill().ok();
    child.wait().ok();
    let document = run.expect_code(0).json();
    assert_eq!(document["ending"], "duration");
    assert_eq!(document["processes"][0]["pid"].as_u64(), Some(u64::from(child.id())));
    assert_eq!(document["processes"][0]["name"], "sleep");
    // What watching costs is known only after its first full second; the samples are there at once.
    assert!(document["processes"][0]["samples"].as_u64().is_some_and(|samples| samples > 5), "{document}");
}

/// Sources that never end by themselves, such as the kernel's events, do not keep it from ending.
#[cfg(target_os = "linux")]
#[test]
fn watching_ends_with_the_process_also_with_kernel_events() {
    let place = Place::new();
    let mut child = Command::new("sleep").arg("1").spawn().expect("sleep starts");
    let pid = child.id().to_string();
    let run = place.ortscope(&["attach", &pid, "--kernel", "--duration", "60s", "--no-save", "--json"]);
    child.wait().ok();
    let document = run.expect_code(0).json();
    assert_ne!(document["ending"], "duration", "{document}");
}

#[test]
fn what_cannot_be_watched_is_said_at_once() {
    let place = Place::new();
    place.ortscope(&["attach", "4294967295"]).expect_error(2, &["there is no process"]);
    place.ortscope(&["attach", "no such program at all"]).expect_error(2, &["no process is called"]);
    place.ortscope(&["record", "--", "/no/such/program"]).expect_error(2, &["cannot be started"]);
    for rate in ["0", "1e9", "nan", "-5"] {
        let argument = format!("--rate={rate}");
        place.ortscope(&["record", &argument, "--", "true"]).expect_error(2, &[]);
    }
    place.ortscope(&["record", "--spike=0", "--", "true"]).expect_error(2, &["--spike"]);
    place.ortscope(&["record", "--duration", "soon", "--", "true"]).expect_error(2, &[]);
    place
        .ortscope(&["record", "--kernel=everything", "--", "true"])
        .expect_error(2, &["class of kernel events"]);
}

/// A run with kernel events can be explained: its report knows the process, and says what was recorded.
#[cfg(target_os = "linux")]
#[test]
fn a_run_records_what_the_kernel_does_to_its_worker() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let arguments =
        ["run", &model, "--duration", "1s", "--kernel", "--profile", "off", "--save", "k", "--json"];
    let document = place.with_library(&library, &arguments).expect_code(0).json();
    let exported = place.ortscope(&["export", "k", "-o", "k.jsonl", "--table", "kernel_events", "--json"]);
    let rows = exported.expect_code(0).json()["rows"].as_u64().unwrap_or(0);
    if rows == 0 {
        let notes = document["results"][0]["notes"].to_string();
        assert!(notes.contains("CAP_BPF") || notes.contains("permission"), "{notes}");
        skips::skipped("kernel events need CAP_BPF and CAP_PERFMON");
        return;
    }
    let report = place.ortscope(&["report", "k"]).expect_code(0).stdout();
    assert!(!report.contains("does not say which process"), "{report}");
    assert!(!report.contains("Kernel events were not recorded"), "{report}");
}

/// Kernel events of a program: every stretch without a processor, and what its milliseconds were. Without the rights the
/// rest works, and the document says what is missing.
#[cfg(target_os = "linux")]
#[test]
fn the_kernel_tells_what_it_did_to_a_program() {
    let place = Place::new();
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 0.2; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let arguments = ["record", "--kernel", "--spike", "60", "--save", "k", "--json", "--", "sh", "-c", busy];
    let run = place.ortscope(&arguments).expect_code(0);
    let document = run.json();
    let scheduling = document["scheduling"].as_object().expect("a map");
    if scheduling.is_empty() {
        let notes = document["notes"].to_string();
        assert!(notes.contains("CAP_BPF") || notes.contains("permission"), "{document}");
        skips::skipped("kernel events need CAP_BPF and CAP_PERFMON");
        return;
    }
    // It slept once at least, and was busy twice.
    let waits: u64 = scheduling.values().filter_map(|of| of["waits"].as_u64()).sum();
    assert!(waits >= 1, "{document}");
    let spikes = document["spikes"].as_array().expect("a list");
    let busy_ns: u64 =
        spikes.iter().filter_map(|spike| Some(spike["to_ns"].as_u64()? - spike["from_ns"].as_u64()?)).sum();
    assert!(busy_ns > 10_000_000, "{spikes:?}");
    let exported = place.ortscope(&["export", "k", "-o", "k.jsonl", "--table", "kernel_events", "--json"]);
    assert!(exported.expect_code(0).json()["rows"].as_u64().is_some_and(|rows| rows > 0));
}

/// Where the time of a program goes, in each form of the flame graph.
#[cfg(target_os = "linux")]
#[test]
fn a_flame_graph_of_a_program() {
    let place = Place::new();
    let busy = "i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done";
    for name in ["f.svg", "f.html", "f.folded"] {
        let arguments =
            ["record", "--flame", name, "--sample-hz", "499", "--no-save", "--json", "--", "sh", "-c", busy];
        let document = place.ortscope(&arguments).expect_code(0).json();
        let sampling = &document["sampling"];
        if sampling.is_null() {
            assert!(document["notes"].to_string().contains("perf_event_paranoid"), "{document}");
            skips::skipped("sampling needs kernel.perf_event_paranoid at 2 or below, or CAP_PERFMON");
            return;
        }
        assert!(sampling["samples"].as_u64().is_some_and(|samples| samples > 20), "{sampling}");
        assert!(!sampling["functions"].as_array().expect("a list").is_empty(), "{sampling}");
        let text = std::fs::read_to_string(place.directory.path().join(name)).expect("it was written");
        match name {
            "f.folded" => {
                let counted: u64 =
                    text.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum();
                assert_eq!(Some(counted), sampling["samples"].as_u64());
                assert!(text.lines().any(|line| line.starts_with("sh;")), "{text}");
            }
            "f.svg" => assert!(text.starts_with("<?xml") && text.trim_end().ends_with("</svg>")),
            _ => assert!(text.starts_with("<!doctype html>") && text.contains("id=\"search\"")),
        }
    }
}

/// Functions of Python are in the graph where Python leaves them there, which it does since 3.12.
#[cfg(target_os = "linux")]
#[test]
fn a_flame_graph_has_the_functions_of_python() {
    let has_support = |python: &&str| {
        let check = "import sys; sys.exit(0 if hasattr(sys, 'activate_stack_trampoline') else 1)";
        let status = Command::new(python).args(["-c", check]).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let Some(python) = ["python3", "python3.14", "python3.13", "python3.12"].into_iter().find(has_support)
    else {
        skips::skipped("there is no Python 3.12 or newer");
        return;
    };
    let place = Place::new();
    let script = "def ortscope_inner(n):\n    return sum(i * i for i in range(n))\n\
                  def ortscope_outer():\n    for _ in range(60):\n        ortscope_inner(40000)\nortscope_outer()\n";
    place.file("work.py", script);
    let arguments = [
        "record",
        "--flame",
        "p.folded",
        "--sample-hz",
        "499",
        "--no-save",
        "--json",
        "--",
        python,
        "work.py",
    ];
    let document = place.ortscope(&arguments).expect_code(0).json();
    if document["sampling"].is_null() {
        skips::skipped("sampling needs kernel.perf_event_paranoid at 2 or below, or CAP_PERFMON");
        return;
    }
    let text = std::fs::read_to_string(place.directory.path().join("p.folded")).expect("it was written");
    let in_order = text.lines().any(|line| {
        let (outer, inner) = (line.find("ortscope_outer (work.py)"), line.find("ortscope_inner (work.py)"));
        outer.zip(inner).is_some_and(|(outer, inner)| outer < inner)
    });
    assert!(in_order, "{text}");
}

/// Frames of any version of Python, read from outside by a library that not every build has.
#[cfg(target_os = "linux")]
#[test]
fn a_flame_graph_of_python_alone() {
    let place = Place::new();
    let script = "import time\ndef ortscope_inner(n):\n    return sum(i * i for i in range(n))\n\
                  end = time.monotonic() + 2\nwhile time.monotonic() < end:\n    ortscope_inner(40000)\n";
    place.file("work.py", script);
    let arguments =
        ["record", "--flame-python", "p.folded", "--sample-hz", "199", "--no-save", "--json", "--"];
    let python = [&arguments[..], &["python3", "work.py"]].concat();
    let document = place.ortscope(&python).expect_code(0).json();
    let sampling = &document["python_sampling"];
    let file = place.directory.path().join("p.folded");
    if sampling.is_null() {
        let notes = document["notes"].to_string();
        assert!(notes.contains("--features python-stacks") && !file.exists(), "{notes}");
        skips::skipped("this build has no reader of Python's stacks (feature python-stacks)");
        return;
    }
    let text = std::fs::read_to_string(file).expect("it was written");
    assert!(text.contains("ortscope_inner (work.py)"), "{text} {sampling}");
    assert!(sampling["samples"].as_u64() > Some(20), "{sampling}");
    // A program that is no Python says so, and runs as it would.
    let other = [&arguments[..], &["sleep", "0.6"]].concat();
    let document = place.ortscope(&other).expect_code(0).json();
    assert!(
        document["python_sampling"]["missing"].to_string().contains("only CPython is read"),
        "{document}"
    );
}

#[test]
fn a_flame_graph_that_cannot_be_written_is_refused_before_the_program_starts() {
    let place = Place::new();
    let run = |argument: &str| place.ortscope(&["record", argument, "--", "/no/such/program"]);
    run("--flame=out.png").expect_error(2, &["OUT.svg"]);
    run("--flame=/no/such/directory/out.svg").expect_error(2, &["there is no directory"]);
    run("--flame-python=out.png").expect_error(2, &["OUT.svg"]);
    run("--sample-hz=0").expect_error(2, &["--sample-hz"]);
    run("--sample-hz=1000000000").expect_error(2, &["--sample-hz"]);
}

/// What the classes of files tell, and what each class costs.
#[cfg(target_os = "linux")]
#[test]
fn file_calls_mappings_and_costs_are_told() {
    let place = Place::new();
    let script = "dd if=/dev/zero of=written bs=65536 count=64 conv=fsync 2>/dev/null; cat written > /dev/null; sleep 0.1";
    let arguments =
        ["record", "--kernel=files,images,memory", "--save", "k", "--json", "--", "sh", "-c", script];
    let document = place.ortscope(&arguments).expect_code(0).json();
    let kernel = &document["kernel"];
    if kernel["backend"] != "bpf" {
        skips::skipped("kernel events by BPF need CAP_BPF and CAP_PERFMON");
        return;
    }
    let sums = kernel["file_io"].as_array().expect("a list");
    let bytes = |operation: &str| -> u64 {
        let of = sums.iter().filter(|sum| sum["operation"] == operation && sum["kind"] == "file");
        of.filter_map(|sum| sum["bytes"].as_u64()).sum()
    };
    // dd may have begun before the programs were loaded, cat is later.
    assert!(bytes("read") >= 1 << 20, "{kernel}");
    assert!(sums.iter().all(|sum| sum["longest_seconds"].as_f64() <= sum["seconds"].as_f64()), "{kernel}");
    assert!(kernel["image_loads"].as_u64().is_some_and(|loads| loads > 0), "{kernel}");
    let costs = kernel["costs"].as_array().expect("a list");
    for class in ["switches", "starts and ends", "file I/O", "memory calls"] {
        let cost = costs.iter().find(|cost| cost["class"] == class);
        assert!(
            cost.is_some_and(|cost| cost["nanoseconds_per_run"].as_f64() > Some(0.0)),
            "{class}: {kernel}"
        );
    }
    let exported = place.ortscope(&["export", "k", "-o", "k.jsonl", "--table", "kernel_events"]);
    exported.expect_code(0);
    let text = std::fs::read_to_string(place.directory.path().join("k.jsonl")).expect("it was written");
    for kind in ["file_read", "image_load", "memory_map", "memory_heap", "thread_exit"] {
        assert!(text.contains(&format!("\"{kind}\"")), "no {kind}");
    }
}

/// In a pid namespace of its own, ids are those of the namespace everywhere: the kernel's own are others.
#[cfg(target_os = "linux")]
#[test]
fn in_a_container_kernel_events_have_its_own_ids() {
    let place = Place::new();
    let may = Command::new("unshare").args(["-pf", "--mount-proc", "true"]).stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        skips::skipped("unshare -pf --mount-proc needs root");
        return;
    }
    let busy = "echo $$ > inner; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 0.2; exit 0";
    let inner =
        place.command(&["record", "--kernel=wakeups,faults", "--no-save", "--json", "--", "sh", "-c", busy]);
    let mut command = Command::new("unshare");
    command.args(["-pf", "--mount-proc"]).arg(inner.get_program()).args(inner.get_args());
    for (key, value) in inner.get_envs() {
        value.map(|value| command.env(key, value));
    }
    command.current_dir(place.directory.path());
    let output = command.output().expect("unshare starts");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    if document["kernel"]["backend"] != "bpf" {
        skips::skipped("kernel events by BPF need CAP_BPF and CAP_PERFMON");
        return;
    }
    let pid = document["processes"][0]["pid"].as_u64().expect("a process was seen");
    let inner = std::fs::read_to_string(place.directory.path().join("inner")).expect("the shell wrote it");
    assert_eq!(inner.trim().parse(), Ok(pid), "{document}");
    let scheduling = &document["scheduling"][pid.to_string()];
    assert!(scheduling["waits"].as_u64().is_some_and(|waits| waits >= 1), "{document}");
    // The shell had its pages before it was watched; the program that it starts has not.
    let all = document["scheduling"].as_object().expect("a map");
    // What the shell starts has the ids after its own.
    assert!(
        all.keys().all(|one| one.parse::<u64>().is_ok_and(|one| one >= pid && one < pid + 50)),
        "{document}"
    );
    let faults: u64 = all.values().filter_map(|of| of["page_faults"].as_u64()).sum();
    assert!(faults >= 1, "{document}");
}

/// The view had a terminal that went away without a signal (`su`, `nohup`): reading from it never ended, at a full core.
#[cfg(target_os = "linux")]
#[test]
fn the_live_view_ends_with_its_terminal() {
    let Some(python) = skips::variable("ORTSCOPE_TEST_PYTHON") else { return };
    // Without a controlling terminal nobody tells the program that it was closed.
    let script = "
import fcntl, os, struct, subprocess, sys, termios
ours, theirs = os.openpty()
fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
top = subprocess.Popen([sys.argv[1], 'top'], stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, start_new_session=True)
os.close(theirs)
seen = b''
while b'PID' not in seen:
    seen = os.read(ours, 65536)
    if b'[6n' in seen:
        os.write(ours, bytes([27]) + b'[1;1R')
os.close(ours)
try:
    top.wait(30)
except subprocess.TimeoutExpired:
    top.kill()
    top.wait()
    sys.exit('the view goes on without a terminal')
";
    let place = Place::new();
    let output = Command::new(python)
        .args(["-c", script, env!("CARGO_BIN_EXE_ortscope")])
        .current_dir(place.directory.path())
        .output()
        .expect("python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
