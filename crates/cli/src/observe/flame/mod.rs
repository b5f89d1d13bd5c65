//! Flame graphs: which functions the samples were in, and by which calls they came there. One file, by its ending: `.svg`
//! and `.html` to look at, `.folded` for other tools.

mod svg;

use std::path::{Path, PathBuf};

use ortscope_analyze::flame::FlameTree;
use ortscope_core::kernel::{FrameKind, StackProfile};

use crate::exit::Failure;

/// What a file will hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Svg,
    Html,
    /// One line per stack: frames separated by `;`, a blank, the count.
    Folded,
}

/// Where the flame graph goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlameFile {
    pub path: PathBuf,
    pub form: Form,
}

/// What stands above the graph.
#[derive(Debug, Clone)]
pub struct Heading {
    pub title: String,
    pub subtitle: String,
}

impl FlameFile {
    /// Everything that can be wrong with the name is said before anything is started.
    pub fn new(path: &Path) -> Result<Self, Failure> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let form = match ending.to_ascii_lowercase().as_str() {
            "svg" => Form::Svg,
            "html" | "htm" => Form::Html,
            "folded" | "txt" => Form::Folded,
            _ => {
                let sentence = format!("--flame {}: its ending does not say what to write", path.display());
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
        let text = match self.form {
            Form::Svg => svg::document(&FlameTree::build(profile), heading),
            Form::Html => svg::page(&FlameTree::build(profile), heading),
            Form::Folded => folded(profile),
        };
        fs_err::write(&self.path, text).map_err(|error| Failure::usage(error.to_string()))
    }
}

/// As Brendan Gregg's scripts and everything after them read it, with their marks of the kernel and of code made at run
/// time.
fn folded(profile: &StackProfile) -> String {
    let mut out = String::new();
    for (stack, count) in profile.stacks() {
        for (index, frame) in stack.iter().enumerate() {
            if index > 0 {
                out.push(';');
            }
            out.push_str(&frame.name);
            match frame.kind {
                FrameKind::Kernel => out.push_str("_[k]"),
                FrameKind::Jit => out.push_str("_[j]"),
                FrameKind::Python => {
                    out.push_str(" (");
                    out.push_str(&frame.module);
                    out.push(')');
                }
                FrameKind::Process | FrameKind::Native | FrameKind::Note => {}
            }
        }
        out.push(' ');
        out.push_str(&count.to_string());
        out.push('\n');
    }
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use ortscope_core::kernel::Frame;

    use super::*;

    pub fn profile() -> StackProfile {
        let mut profile = StackProfile::default();
        let mut frame = |name: &str, module: &str, kind| {
            profile.frame(Frame { name: name.into(), module: module.into(), kind })
        };
        let root = frame("python", "", FrameKind::Process);
        let main = frame("main", "a.py", FrameKind::Python);
        let add = frame("Add<T&>::run", "lib.so", FrameKind::Native);
        let read = frame("ksys_read", "kernel", FrameKind::Kernel);
        for (stack, times) in [(vec![root, main, add], 3), (vec![root, main, add, read], 2), (vec![root], 1)]
        {
            for _ in 0..times {
                profile.add(&stack);
            }
        }
        profile
    }

    #[test]
    fn folded_lines_are_as_others_read_them() {
        let text = folded(&profile());
        assert_eq!(
            text,
            "python 1\npython;main (a.py);Add<T&>::run 3\npython;main (a.py);Add<T&>::run;ksys_read_[k] 2\n"
        );
    }

    #[test]
    fn a_name_without_a_known_ending_is_refused() {
        assert!(FlameFile::new(Path::new("out.png")).is_err());
        assert!(FlameFile::new(Path::new("out")).is_err());
        assert!(FlameFile::new(Path::new("/no/such/directory/out.svg")).is_err());
        assert_eq!(FlameFile::new(Path::new("OUT.SVG")).map(|file| file.form).ok(), Some(Form::Svg));
    }
}
