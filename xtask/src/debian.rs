//! Programs of other projects from Debian's packages. Those that run from any directory are unpacked into the environment,
//! which needs no rights and leaves the machine as it is. The others are installed, by root only.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::environment::Environment;
use crate::process::{self, Unavailable, capture, find_program};

/// A package whose programs need no file of their package at a fixed place.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    programs: &'static [&'static str],
}

/// The servers that receive what ortscope exports.
pub(crate) const SERVERS: &[Package] = &[
    Package { name: "prometheus", programs: &["prometheus", "promtool"] },
    Package { name: "victoria-metrics", programs: &["victoria-metrics"] },
];

/// Puts the programs of a package into the environment unless they are on the path; gives the last one's path.
pub(crate) fn unpack(environment: &Environment, package: &Package) -> Result<PathBuf> {
    let bin = environment.programs_dir();
    let mut last = None;
    for program in package.programs {
        let unpacked = Some(bin.join(program)).filter(|path| path.is_file());
        let found = match find_program(program).or(unpacked) {
            Some(path) => path,
            None => {
                let name = package.name;
                process::step(&format!("Debian's {name}"), || unpack_into(environment, package, &bin))
                    .with_context(|| Unavailable(format!("Debian's package {name} cannot be unpacked")))?;
                bin.join(program)
            }
        };
        last = Some(found);
    }
    last.with_context(|| format!("{} has no programs", package.name))
}

fn unpack_into(environment: &Environment, package: &Package, bin: &Path) -> Result<()> {
    let apt_get = find_program("apt-get").context("apt-get is not on the path")?;
    let dpkg = find_program("dpkg").context("dpkg is not on the path")?;
    let state = environment.dir.join("debian");
    let lists = state.join("lists");
    fs::create_dir_all(lists.join("partial"))
        .with_context(|| format!("cannot create {}", lists.display()))?;
    // Package lists and caches of our own: the machine's may be missing or old, and only root may change them.
    let apt = |subcommand: &[&str]| {
        let mut command = Command::new(&apt_get);
        command.arg("-o").arg(format!("Dir::State::Lists={}", lists.display()));
        command.arg("-o").arg(format!("Dir::Cache={}", state.join("cache").display()));
        command.args(["-o", "Debug::NoLocking=true", "-o", "APT::Sandbox::User=root", "-qq"]);
        command.args(subcommand);
        command
    };
    let scratch = environment.scratch(package.name)?;
    let download = || capture(apt(&["download", package.name]).current_dir(&scratch));
    if download().is_err() {
        capture(&mut apt(&["update"]))?;
        download()?;
    }
    let archive = crate::models::only_file(&scratch).context("apt-get downloaded no file")?;
    capture(Command::new(dpkg).arg("-x").arg(archive).arg(&scratch))?;
    fs::create_dir_all(bin).with_context(|| format!("cannot create {}", bin.display()))?;
    for program in package.programs {
        let from = scratch.join("usr/bin").join(program);
        fs::rename(&from, bin.join(program)).with_context(|| format!("there is no {}", from.display()))?;
    }
    fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))
}

/// A program on the path; on Debian, as root, its package is installed first where it is missing.
pub(crate) fn find_or_install(program: &str, package: &str) -> Option<PathBuf> {
    find_program(program).or_else(|| install(package).then(|| find_program(program))?)
}

/// Installs a package on this machine, and says so; does nothing unless this is Debian and root.
fn install(package: &str) -> bool {
    let is_root = capture(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let Some(apt_get) = find_program("apt-get").filter(|_| is_root) else { return false };
    let run = |arguments: &[&str]| {
        // The package's own service is not wanted, only its program.
        let mut command = Command::new(&apt_get);
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        capture(&mut command).map(drop)
    };
    process::step(&format!("installing Debian's {package} on this machine"), || {
        run(&["-qq", "update"])?;
        run(&["-qq", "install", "--yes", "--no-install-recommends", package])
    })
    .is_ok()
}
