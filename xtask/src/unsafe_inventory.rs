//! `docs/UNSAFE.md`: every file with `unsafe`, how much of it, and why. The page is made from the sources and the table of
//! `deps`; a page that no longer tells the truth is a violation there.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::source_scan::Code;

const PAGE: &str = "docs/UNSAFE.md";

const HEAD: &str = "# Where unsafe code stands

Written by `cargo xtask deps --write`; `cargo xtask deps`, which every test run includes, fails when it is not true any more.
`unsafe_code` is denied in the workspace, and a file that is not allowed in `xtask/src/deps.rs` cannot have it. Tests are left
out. *blocks*: `unsafe { … }`. *other*: unsafe functions, implementations and types of functions. *reasons*: comments `SAFETY:`
that say why it holds; a lint wants one for every block, and one may stand for a function and the block in it.

| file | blocks | other | reasons | why |
|---|---|---|---|---|
";

/// The page as it should be, from the sources of the tree and the places that may have `unsafe`.
pub(crate) fn page(sources: &[(String, String)], places: &[(&str, &str)]) -> String {
    let mut page = HEAD.to_owned();
    let (mut files, mut all_blocks, mut all_others, mut all_reasons) = (0, 0, 0, 0);
    for (name, source) in sources {
        let code = Code::new(source);
        let (blocks, others) = code.unsafe_uses();
        if blocks + others == 0 {
            continue;
        }
        let is_here =
            |place: &str| if place.ends_with('/') { name.starts_with(place) } else { name == place };
        let why = places.iter().find(|(place, _)| is_here(place)).map_or("not allowed", |(_, why)| *why);
        let is_reason = |(number, line): &(usize, &str)| {
            line.trim_start().starts_with("// SAFETY:") && !code.is_in_tests(*number)
        };
        let reasons = (1..).zip(source.lines()).filter(is_reason).count();
        writeln!(page, "| `{name}` | {blocks} | {others} | {reasons} | {why} |").ok();
        files += 1;
        all_blocks += blocks;
        all_others += others;
        all_reasons += reasons;
    }
    writeln!(page, "| {files} files | {all_blocks} | {all_others} | {all_reasons} | |").ok();
    page
}

/// What is wrong with the page in the tree, if anything.
pub(crate) fn problem(root: &Path, wanted: &str) -> Option<String> {
    let found = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    (found.replace("\r\n", "\n") != wanted)
        .then(|| format!("{PAGE} does not tell the truth: run `cargo xtask deps --write`"))
}

pub(crate) fn write(root: &Path, page: &str) -> Result<()> {
    fs::write(root.join(PAGE), page).with_context(|| format!("cannot write {PAGE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_reasons_are_counted_by_file() {
        let source = "unsafe fn f() {\n    // SAFETY: it holds.\n    unsafe { g() }\n}\n// unsafe\n";
        let sources = [("a/b.rs", source), ("a/c.rs", source), ("d.rs", "fn f() {}")];
        let sources = sources.map(|(name, source)| (name.to_owned(), source.to_owned()));
        let page = page(&sources, &[("a/b.rs", "because"), ("a/", "all of it")]);
        let rows = page.strip_prefix(HEAD).expect("the head stands first");
        assert_eq!(
            rows,
            "| `a/b.rs` | 1 | 1 | 1 | because |\n| `a/c.rs` | 1 | 1 | 1 | all of it |\n| 2 files | 2 | 2 | 2 | |\n"
        );
    }

    /// Blocks of tests were left out and their reasons were not: files seemed to have more reasons than needed.
    #[test]
    fn reasons_in_tests_do_not_count() {
        let plain = "// SAFETY: it holds.\nunsafe { g() }\n";
        let source =
            format!("{plain}#[cfg(test)]\nmod tests {{\n    // ä\n    fn f() {{\n{plain}}}\n}}\n{plain}");
        let page = page(&[("a.rs".to_owned(), source)], &[("a.rs", "because")]);
        assert!(page.contains("| `a.rs` | 2 | 0 | 2 | because |"), "{page}");
    }

    #[test]
    fn a_page_that_is_not_there_is_a_problem() {
        assert!(problem(Path::new("nowhere"), HEAD).is_some());
    }
}
