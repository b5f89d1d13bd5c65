//! The file of a flame graph; its extension chooses the form.

use std::path::{Path, PathBuf};

use ortscope_core::kernel::StackProfile;
use ortscope_render::flame::{Form, Heading, flame_graph};

use crate::exit::Failure;

/// The path of the flame graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlameFile {
    pub path: PathBuf,
    pub form: Form,
}

impl FlameFile {
    /// Reports every problem with the name before anything is started.
    pub fn new(path: &Path) -> Result<Self, Failure> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let form = match ending.to_ascii_lowercase().as_str() {
            "svg" => Form::Svg,
            "html" | "htm" => Form::Html,
            "folded" | "txt" => Form::Folded,
            _ => {
                let sentence = format!("--flame {}: the extension does not name a format", path.display());
                return Err(Failure::usage(sentence).with_hint("OUT.svg, OUT.html or OUT.folded"));
            }
        };
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        if let Some(directory) = directory
            && !directory.is_dir()
        {
            return Err(Failure::usage(format!("--flame: there is no directory {}", directory.display())));
        }
        Ok(Self { path: path.to_owned(), form })
    }

    pub fn write(&self, profile: &StackProfile, heading: &Heading) -> Result<(), Failure> {
        fs_err::write(&self.path, flame_graph(self.form, profile, heading))
            .map_err(|error| Failure::usage(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_known_ending_is_refused() {
        assert!(FlameFile::new(Path::new("out.png")).is_err());
        assert!(FlameFile::new(Path::new("out")).is_err());
        assert!(FlameFile::new(Path::new("/no/such/directory/out.svg")).is_err());
        assert_eq!(FlameFile::new(Path::new("OUT.SVG")).map(|file| file.form).ok(), Some(Form::Svg));
    }
}
