//! Where libraries lie, for Linux and Windows alike: the rules are data, so that both are tested everywhere.

use std::path::{Path, PathBuf};

use super::EnvironmentVariables;

/// The rules of one operating system.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) windows: bool,
    /// Directories of the system, in the order the loader has them.
    pub(super) system_directories: Vec<PathBuf>,
    pub(super) executable_directory: Option<PathBuf>,
    /// Windows ships an old onnxruntime.dll there.
    pub(super) system32: Option<PathBuf>,
}

impl Layout {
    pub(super) fn of_this_machine(environment: &EnvironmentVariables) -> Self {
        let windows = crate::os::IS_WINDOWS;
        let root = environment.get("SystemRoot").map_or_else(|| PathBuf::from(r"C:\Windows"), PathBuf::from);
        Self {
            windows,
            system_directories: if windows { Vec::new() } else { loader_directories() },
            executable_directory: std::env::current_exe()
                .ok()
                .and_then(|exe| exe.parent().map(Path::to_owned)),
            system32: windows.then(|| root.join("System32")),
        }
    }

    /// Whether a file name is the library: `onnxruntime.dll`, `libonnxruntime.so`, `libonnxruntime.so.1.31.1`, but not
    /// `libonnxruntime_providers_shared.so`.
    fn is_library(&self, name: &str) -> bool {
        if self.windows {
            return name.eq_ignore_ascii_case("onnxruntime.dll");
        }
        let versioned = name.strip_prefix("libonnxruntime.so");
        versioned.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            || (name.starts_with("libonnxruntime.") && name.ends_with(".dylib"))
    }

    /// The library in a directory. Of several names the longest is the file itself rather than a link to it.
    pub(super) fn directory(&self, directory: &Path) -> Option<PathBuf> {
        let mut names: Vec<_> = fs_err::read_dir(directory)
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| self.is_library(name))
            .collect();
        names.sort_by_key(|name| (name.len(), name.clone()));
        names.pop().map(|name| directory.join(name))
    }

    pub(super) fn first_in(&self, directories: &[PathBuf]) -> Result<PathBuf, String> {
        if directories.is_empty() {
            return Err("no directories".to_owned());
        }
        directories
            .iter()
            .find_map(|directory| self.directory(directory))
            .ok_or_else(|| format!("no {} in {} directories", self.library_name(), directories.len()))
    }

    fn library_name(&self) -> &'static str {
        if self.windows { "onnxruntime.dll" } else { "libonnxruntime.so" }
    }

    /// A file or directory that the user named.
    pub(super) fn named(&self, path: &Path) -> Result<PathBuf, String> {
        if path.is_dir() {
            return self
                .directory(path)
                .or_else(|| self.directory(&path.join("lib")))
                .or_else(|| self.directory(&path.join("capi")))
                .ok_or_else(|| format!("the directory {} has no {}", path.display(), self.library_name()));
        }
        if path.is_file() {
            return Ok(path.to_owned());
        }
        Err(format!("{} does not exist", path.display()))
    }

    /// The package in a virtual or conda environment.
    pub(super) fn python_prefix(&self, prefix: &Path) -> Result<PathBuf, String> {
        let packages = self.site_packages(prefix);
        if packages.is_empty() {
            return Err("no site-packages there".to_owned());
        }
        let mut outcome = Err("the onnxruntime package is not installed there".to_owned());
        for package in
            packages.iter().map(|directory| directory.join("onnxruntime")).filter(|path| path.is_dir())
        {
            outcome = self.package(&package);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn site_packages(&self, prefix: &Path) -> Vec<PathBuf> {
        if self.windows {
            let directory = prefix.join("Lib").join("site-packages");
            return Vec::from_iter(directory.is_dir().then_some(directory));
        }
        let versions = |parent: PathBuf| {
            let mut found: Vec<PathBuf> = fs_err::read_dir(parent)
                .into_iter()
                .flatten()
                .filter_map(|entry| entry.ok())
                .filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"))
                .map(|entry| entry.path().join("site-packages"))
                .filter(|path| path.is_dir())
                .collect();
            found.sort();
            found
        };
        versions(prefix.join("lib")).into_iter().chain(versions(prefix.join("lib64"))).collect()
    }

    /// The library inside an installed Python package.
    pub(super) fn package(&self, package: &Path) -> Result<PathBuf, String> {
        if let Some(library) = self.directory(&package.join("capi")) {
            return Ok(library);
        }
        let version = package_version(package);
        let named = version.as_deref().unwrap_or("of an unknown version");
        let lacks = match version.as_deref().and_then(minor) {
            Some(minor) if minor < 19 && !self.windows => {
                "packages before 1.19 have no separate libonnxruntime.so on Linux"
            }
            _ => "it has no separate library",
        };
        Err(format!(
            "onnxruntime {named} is installed, but {lacks}: `pip install -U 'onnxruntime>=1.19'`, or name a library with \
             --ort-library"
        ))
    }

    /// The system's places, each with a name.
    pub(super) fn system(&self, environment: &EnvironmentVariables) -> Vec<(String, Vec<PathBuf>)> {
        let beside = ("next to this program".to_owned(), Vec::from_iter(self.executable_directory.clone()));
        if !self.windows {
            return vec![
                ("LD_LIBRARY_PATH".to_owned(), environment.paths("LD_LIBRARY_PATH")),
                beside,
                ("the system's library directories".to_owned(), self.system_directories.clone()),
            ];
        }
        let own = |path: &PathBuf| self.system32.as_ref().is_some_and(|system32| same(path, system32));
        let path = environment.paths("PATH").into_iter().filter(|path| !own(path)).collect();
        vec![beside, ("PATH".to_owned(), path)]
    }

    /// Windows' own copy is years behind and is only better than nothing.
    pub(super) fn windows_own(&self) -> Option<PathBuf> {
        self.system32.clone()
    }
}

fn same(a: &Path, b: &Path) -> bool {
    let plain = |path: &Path| path.to_string_lossy().trim_end_matches(['\\', '/']).to_lowercase();
    plain(a) == plain(b)
}

/// `__version__` of a package, read as text: importing it would run its code.
fn package_version(package: &Path) -> Option<String> {
    let init = fs_err::read_to_string(package.join("__init__.py")).ok()?;
    let line = init.lines().find_map(|line| line.strip_prefix("__version__"))?;
    Some(line.trim_start_matches([' ', '=']).trim().trim_matches(['"', '\'']).to_owned())
}

fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

/// The dynamic loader's directories: those of its configuration, and the built-in ones.
fn loader_directories() -> Vec<PathBuf> {
    let configuration = fs_err::read_dir("/etc/ld.so.conf.d")
        .into_iter()
        .flatten()
        .filter_map(|entry| fs_err::read_to_string(entry.ok()?.path()).ok())
        .flat_map(|text| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>())
        .filter(|line| line.starts_with('/'))
        .map(PathBuf::from);
    let fixed = ["/usr/local/lib", "/usr/local/lib64", "/usr/lib64", "/usr/lib", "/opt/onnxruntime/lib"];
    let mut directories: Vec<PathBuf> = Vec::new();
    for directory in configuration.chain(fixed.map(PathBuf::from)) {
        if directory.is_dir() && !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    directories
}
