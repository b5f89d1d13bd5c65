//! A Wine that works before anything counts on it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{prepare, products, shim};
use crate::environment::Workspace;
use crate::process::{capture, succeed};

/// How often the first program is tried, a second apart: Wine's services start beside it.
const TRIES: u32 = 10;
/// The server goes by itself when nobody needed it for so many seconds. Debian's goes with its last program, and one that
/// starts in that moment ends with exit code 1 and not a word.
const SERVER_STAYS: &str = "-p600";

/// Starts a program of tests, again if Wine did not start it: then it ends at once and not even the first line, which every
/// such program prints, is there. No test has begun by then. What began is never tried again, and a program that cannot start
/// at all fails as before. Each such start is a line in the file of the second argument.
const STARTER: &str = r#"#!/bin/sh
said=$(mktemp -d) || exit 125
trap 'rm -rf "$said"' EXIT
notes=$1
shift
for try in 1 2 3; do
    wine "$@" >"$said/out" 2>"$said/err"
    code=$?
    if [ "$code" -eq 0 ] || [ -s "$said/out" ]; then break; fi
    echo "try $try: exit code $code: $1" >>"$notes"
    sleep 1
done
cat "$said/out"
cat "$said/err" >&2
exit "$code"
"#;

/// A Wine with a prefix of its own, so that nothing of the user's is touched.
#[derive(Debug)]
pub(crate) struct Wine {
    home: PathBuf,
}

impl Wine {
    /// A Wine that works, installed where this machine allows that.
    pub(crate) fn prepare(workspace: &Workspace) -> Result<Self> {
        prepare(workspace, true)?;
        Self::start(workspace)
    }

    pub(super) fn start(workspace: &Workspace) -> Result<Self> {
        let wine = Self { home: products(workspace).join("wine") };
        wine.start_server()?;
        // Tests that start at once would otherwise all try to make the prefix. Its services stay, with whatever output they
        // are given: nobody could wait for the end of that.
        let mut boot = wine.command("wine");
        boot.args(["wineboot", "--init"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        succeed(&mut boot).context("Wine does not start")?;
        // Where Windows has it: Python does not look along the path for what its modules import.
        let system = wine.home.join("prefix/drive_c/windows/system32");
        let shim = shim(workspace);
        if system.is_dir() && shim.is_file() {
            std::fs::copy(&shim, system.join("bcryptprimitives.dll"))?;
        }
        std::fs::write(wine.home.join("start.sh"), STARTER)?;
        std::fs::write(wine.not_started(), "")?;
        wine.first_program()?;
        Ok(wine)
    }

    /// The programs that Wine did not start at first.
    fn not_started(&self) -> PathBuf {
        self.home.join("not-started.txt")
    }

    /// Says how often a program had to be started again, if that was so.
    pub(super) fn tell_not_started(&self) {
        let notes = std::fs::read_to_string(self.not_started()).unwrap_or_default();
        if !notes.is_empty() {
            eprintln!("  Wine did not start {} programs at first:\n{notes}", notes.lines().count());
        }
    }

    /// Before all else, and for as long as this takes. One that runs already stays as it is, and says so by exit code 2.
    fn start_server(&self) -> Result<()> {
        let prefix = self.home.join("prefix");
        std::fs::create_dir_all(&prefix).with_context(|| format!("cannot create {}", prefix.display()))?;
        let mut server = self.command("wineserver");
        let status = server.arg(SERVER_STAYS).status().context("cannot start wineserver")?;
        match status.code() {
            Some(0 | 2) => Ok(()),
            _ => bail!("wineserver does not start ({status})"),
        }
    }

    /// A program that says something, heard before the tests are asked for their names.
    fn first_program(&self) -> Result<()> {
        let mut last = None;
        for _ in 0..TRIES {
            match capture(self.command("wine").args(["cmd", "/c", "echo", "ready"])) {
                Ok(said) if said.contains("ready") => return Ok(()),
                Ok(said) => last = Some(format!("it printed '{}'", said.trim())),
                Err(error) => last = Some(format!("{error:#}")),
            }
            thread::sleep(Duration::from_secs(1));
        }
        bail!("Wine does not run a first program: {}", last.unwrap_or_default());
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        self.tell(&mut command);
        command
    }

    pub(crate) fn tell(&self, command: &mut Command) {
        let starter = format!("sh {} {}", self.home.join("start.sh").display(), self.not_started().display());
        // Cargo takes the words apart at spaces.
        let has_spaces = self.home.display().to_string().contains(char::is_whitespace);
        let runner = if has_spaces { "wine" } else { &starter };
        command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", runner);
        command.env("WINEPREFIX", self.home.join("prefix"));
        command.env("WINEPATH", &self.home);
        // No log, no question whether to install a browser engine or .NET.
        command.env("WINEDEBUG", "-all").env("WINEDLLOVERRIDES", "mscoree,mshtml=");
    }
}
