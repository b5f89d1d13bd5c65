//! `docs/UNSAFE.md`: where `unsafe` stands, how much of it, and why. The page is made from the sources and the table of
//! `deps`; a page that no longer tells the truth is a violation there.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::source_scan::Code;

const PAGE: &str = "docs/UNSAFE.md";

const HEAD: &str = "# Where unsafe code stands

Written by `cargo xtask deps --write`; `cargo xtask deps`, which every test run includes, fails when it is not true any more.
`unsafe_code` is denied in the workspace; a module that is not listed here cannot have it. *uses*: how often the word stands
in the code, tests left out. *reasons*: comments `SAFETY:` that say why a use holds; a lint wants one for every block, and one
reason may stand for a function and the block in it.

| place | uses | reasons | why |
|---|---|---|---|
";

/// One place of the list.
#[derive(Debug, Default, Clone, Copy)]
struct Counted {
    uses: usize,
    reasons: usize,
}

/// The page as it should be, from the sources of the tree and the places that may have `unsafe`.
pub(crate) fn page(sources: &[(String, String)], places: &[(&str, &str)]) -> String {
    let mut page = HEAD.to_owned();
    let mut total = Counted::default();
    for (place, why) in places {
        let is_here =
            |name: &str| if place.ends_with('/') { name.starts_with(place) } else { name == *place };
        let mut here = Counted::default();
        for (_, source) in sources.iter().filter(|(name, _)| is_here(name)) {
            here.uses += Code::new(source).lines_with_word("unsafe").len();
            here.reasons += source.lines().filter(|line| line.trim_start().starts_with("// SAFETY:")).count();
        }
        total = Counted { uses: total.uses + here.uses, reasons: total.reasons + here.reasons };
        writeln!(page, "| `{place}` | {} | {} | {why} |", here.uses, here.reasons).ok();
    }
    writeln!(page, "| together | {} | {} | |", total.uses, total.reasons).ok();
    page
}

/// What is wrong with the page in the tree, if anything.
pub(crate) fn problem(root: &Path, wanted: &str) -> Option<String> {
    let found = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    (found != wanted).then(|| format!("{PAGE} does not tell the truth: run `cargo xtask deps --write`"))
}

pub(crate) fn write(root: &Path, page: &str) -> Result<()> {
    fs::write(root.join(PAGE), page).with_context(|| format!("cannot write {PAGE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_and_reasons_are_counted_by_place() {
        let source = "fn f() {\n    // SAFETY: it holds.\n    unsafe { g() }\n}\n// unsafe\n";
        let sources = [("a/b.rs".to_owned(), source.to_owned()), ("a/c.rs".to_owned(), source.to_owned())];
        let page = page(&sources, &[("a/b.rs", "because"), ("a/", "both"), ("d.rs", "gone")]);
        assert!(
            page.contains("| `a/b.rs` | 1 | 1 | because |\n| `a/` | 2 | 2 | both |\n| `d.rs` | 0 | 0 |"),
            "{page}"
        );
    }
}
