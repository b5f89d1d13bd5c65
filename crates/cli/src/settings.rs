//! Where configuration comes from: flag > environment > ./ortscope.toml > the user's file > default.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use ortscope_core::config::Config;

use crate::exit::Failure;

pub const FILE_NAME: &str = "ortscope.toml";
/// Longest file; a device or a wrong file would be read without end.
const MAX_BYTES: u64 = 1 << 20;

/// The files that exist, weakest first.
pub fn files(named: Option<&Path>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    files.extend(user_file().filter(|path| path.is_file()));
    match named {
        Some(path) => files.push(path.to_owned()),
        None => files.extend(Some(PathBuf::from(FILE_NAME)).filter(|path| path.is_file())),
    }
    files
}

/// The user's own file, which need not exist.
pub fn user_file() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = variable("XDG_CONFIG_HOME")
        .or_else(|| variable("APPDATA"))
        .or_else(|| variable("HOME").map(|home| home.join(".config")))?;
    Some(base.join("ortscope").join(FILE_NAME))
}

/// The text of a file, which may be a pipe but has an end.
fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    fs_err::File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(std::io::Error::other(format!("'{}' has more than {MAX_BYTES} bytes", path.display())));
    }
    Ok(text)
}

/// Reads and checks all layers.
pub fn load(named: Option<&Path>) -> Result<Config, Failure> {
    let mut layers = Vec::new();
    for path in files(named) {
        let text = read(&path)
            .map_err(|error| Failure::usage(format!("the configuration cannot be read: {error}")))?;
        layers.push((path.display().to_string(), text));
    }
    Config::from_layers(&layers).map_err(|error| {
        Failure::usage(error.to_string())
            .with_hint("'ortscope config init -o -' prints a file with every key and its meaning")
    })
}
