//! Flame graphs: the functions of the samples and the calls that led there, as SVG or HTML for people and as folded stacks
//! for other tools.

mod svg;

use ortscope_core::kernel::{FrameKind, StackProfile};
use ortscope_result::flame::FlameTree;

/// The form of a flame graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Svg,
    Html,
    /// One line per stack: frames separated by `;`, a blank, the count.
    Folded,
}

/// The text above the graph.
#[derive(Debug, Clone)]
pub struct Heading {
    pub title: String,
    pub subtitle: String,
}

/// The text of a flame graph in a form.
pub fn flame_graph(form: Form, profile: &StackProfile, heading: &Heading) -> String {
    match form {
        Form::Svg => svg::document(&FlameTree::build(profile), heading),
        Form::Html => svg::page(&FlameTree::build(profile), heading),
        Form::Folded => folded(profile),
    }
}

/// The format of Brendan Gregg's scripts, with their suffixes for kernel code and for code generated at run time.
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
}
