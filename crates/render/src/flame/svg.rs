//! A stand-alone SVG with its script for zoom and search, and the same inside a page.
//!
//! Places are percentages of the width, so that it fills any window. Labels are cut for a usual width; the script cuts them
//! anew for the real one.

use std::fmt::Write as _;

use ortscope_core::kernel::FrameKind;

use ortscope_result::flame::{FlameBox, FlameTree};

use super::Heading;

const SCRIPT: &str = include_str!("flame.js");
const STYLE: &str = include_str!("flame.css");

const ROW: usize = 18;
const TOP: usize = 88;
const BOTTOM: usize = 40;
/// Width that labels are cut for before the script knows better.
const USUAL_WIDTH: f64 = 1200.0;
const LETTER: f64 = 6.6;

/// A stand-alone document.
pub fn document(tree: &FlameTree<'_>, heading: &Heading) -> String {
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}", picture(tree, heading))
}

/// A page that contains the picture.
pub fn page(tree: &FlameTree<'_>, heading: &Heading) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\"><style>body{{margin:8px}}</style></head>\n<body>\n{}</body></html>\n",
        escape(&heading.title),
        picture(tree, heading)
    )
}

fn picture(tree: &FlameTree<'_>, heading: &Heading) -> String {
    let height = TOP + tree.depth.max(1) * ROW + BOTTOM;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100%\" height=\"{height}\" data-samples=\"{}\" \
         font-family=\"Verdana, 'DejaVu Sans', sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"{}\">\n\
         <style>{STYLE}</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"heading\" x=\"10\" y=\"24\">{}</text>\n<text class=\"quiet\" x=\"10\" y=\"44\">{}</text>\n\
         <foreignObject x=\"10\" y=\"52\" width=\"100%\" height=\"30\"><div xmlns=\"http://www.w3.org/1999/xhtml\" \
         class=\"tools\"><input id=\"search\" type=\"search\" placeholder=\"Search functions (/)\" \
         aria-label=\"Search functions\"/><button id=\"reset\" type=\"button\">Reset zoom</button>\
         <span id=\"found\"></span></div></foreignObject>\n<g id=\"flames\">\n",
        tree.samples,
        escape(&heading.title),
        escape(&heading.title),
        escape(&heading.subtitle),
    );
    for flame_box in &tree.boxes {
        draw(flame_box, tree, &mut out);
    }
    out.push_str("</g>\n");
    let foot = height - BOTTOM + 26;
    let kinds = [
        (FrameKind::Native, "native code"),
        (FrameKind::Python, "Python"),
        (FrameKind::Jit, "made at run time"),
        (FrameKind::Kernel, "kernel"),
        (FrameKind::Process, "process"),
        (FrameKind::Note, "missing"),
    ];
    let mut x = 10;
    for (kind, label) in kinds {
        if tree.boxes.iter().any(|flame_box| flame_box.frame.kind == kind) {
            let (class, y) = (class(kind), foot - 10);
            // Writing to a string cannot fail.
            write!(out, "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\"/>").ok();
            write!(out, "<text class=\"quiet\" x=\"{}\" y=\"{foot}\">{label}</text>", x + 18).ok();
            x += 40 + label.len() * 7;
        }
    }
    if tree.left_out > 0 {
        write!(
            out,
            "<text class=\"quiet\" x=\"{x}\" y=\"{foot}\">{} boxes are too narrow to be drawn</text>",
            tree.left_out
        )
        .ok();
    }
    // The script has neither markup nor the end of such a section in it.
    write!(out, "\n<script><![CDATA[\n{SCRIPT}\n]]></script>\n</svg>\n").ok();
    out
}

fn draw(flame_box: &FlameBox<'_>, tree: &FlameTree<'_>, out: &mut String) {
    let FlameBox { frame, depth, start, count } = flame_box;
    let share = |part: u64| part as f64 * 100.0 / tree.samples.max(1) as f64;
    let (x, width) = (share(*start), share(*count));
    // The root at the top: stacks of Python are a hundred frames deep, and what is wide must be seen without scrolling.
    let y = TOP + depth * ROW;
    let label = escape(&shorten(&frame.name, width / 100.0 * USUAL_WIDTH));
    let place = if frame.module.is_empty() { String::new() } else { format!(" ({})", frame.module) };
    let samples = if *count == 1 { "sample" } else { "samples" };
    let title = escape(&format!("{}{place}: {count} {samples}, {width:.2} %", frame.name));
    writeln!(
        out,
        "<g class=\"box\" data-s=\"{start}\" data-n=\"{count}\" data-d=\"{depth}\" data-name=\"{}\" tabindex=\"-1\">\
         <title>{title}</title><rect class=\"{}\" style=\"--v:{}\" x=\"{x:.4}%\" y=\"{y}\" width=\"{width:.4}%\" \
         height=\"{}\"/><text x=\"{x:.4}%\" dx=\"4\" y=\"{}\">{label}</text></g>",
        escape(&frame.name),
        class(frame.kind),
        shade(&frame.name),
        ROW - 1,
        y + 13,
    )
    .ok();
}

fn class(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Process => "process",
        FrameKind::Native => "native",
        FrameKind::Kernel => "kernel",
        FrameKind::Python => "python",
        FrameKind::Jit => "jit",
        FrameKind::Note => "note",
    }
}

/// 0 to 15, the same for the same name: neighbours are told apart, and a function is found again in the next picture.
fn shade(name: &str) -> u32 {
    name.bytes().fold(2_166_136_261u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619)) >> 28
}

/// As much of a name as fits.
fn shorten(name: &str, pixels: f64) -> String {
    let most = ((pixels - 8.0) / LETTER) as usize;
    match most {
        0..3 => String::new(),
        most if name.chars().count() <= most => name.to_owned(),
        most => name.chars().take(most - 2).chain("..".chars()).collect(),
    }
}

/// For content and attributes of XML and HTML. Characters that XML does not know are replaced.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            control if control.is_control() || matches!(control, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_stands_alone_and_names_are_only_text() {
        let profile = super::super::tests::profile();
        let heading =
            Heading { title: "<script>alert(1)</script>".to_owned(), subtitle: "6 samples".to_owned() };
        let text = document(&FlameTree::build(&profile), &heading);
        assert!(text.contains("Add&lt;T&amp;&gt;::run"), "{text}");
        assert!(!text.contains("<script>alert"));
        assert_eq!(text.matches("class=\"box\"").count(), 4);
        // Nothing is loaded from anywhere.
        assert!(!text.replace("http://www.w3.org/", "").contains("http"));
        assert!(!SCRIPT.contains("]]>") && !STYLE.contains('<'));
        assert!(page(&FlameTree::build(&profile), &heading).contains("Content-Security-Policy"));
    }

    #[test]
    fn nothing_sampled_is_a_picture_too() {
        let profile = ortscope_core::kernel::StackProfile::default();
        let heading = Heading { title: "nothing".to_owned(), subtitle: String::new() };
        assert!(document(&FlameTree::build(&profile), &heading).contains("</svg>"));
    }

    #[test]
    fn labels_are_cut_to_their_boxes() {
        assert_eq!(shorten("a long function name", 60.0), "a lon..");
        assert_eq!(shorten("main", 60.0), "main");
        assert_eq!(shorten("main", 20.0), "");
    }
}
