//! What dependencies may be, checked over `cargo metadata`: licences that go with ours, and no source but crates.io. The
//! list of licences is that of `deny.toml`, so that `cargo deny`, where it is installed, and this agree.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Every package that may not be used, with the reason.
pub(crate) fn check(root: &Path, metadata: &Value) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join("deny.toml")).context("cannot read deny.toml")?;
    let allowed = allowed_licences(&text)?;
    let packages = metadata["packages"].as_array().context("cargo metadata has another layout")?;
    Ok(packages.iter().filter_map(|package| problem(package, &allowed)).collect())
}

/// The list `allow` of the section `[licenses]`: one name in quotes on each line.
fn allowed_licences(text: &str) -> Result<Vec<&str>> {
    let section = text.split_once("[licenses]").and_then(|(_, rest)| rest.split_once("allow = ["));
    let list = section.and_then(|(_, rest)| rest.split_once(']')).map(|(list, _)| list);
    let names: Vec<&str> = list.unwrap_or_default().split('"').skip(1).step_by(2).collect();
    if names.is_empty() {
        bail!("deny.toml has no list of licences");
    }
    Ok(names)
}

fn problem(package: &Value, allowed: &[&str]) -> Option<String> {
    let name = format!("{} {}", package["name"].as_str()?, package["version"].as_str()?);
    match package["source"].as_str() {
        // Ours, or a path inside of the tree.
        None => return None,
        Some(CRATES_IO) => {}
        Some(other) => return Some(format!("{name} comes from {other}, not from crates.io")),
    }
    let Some(licence) = package["license"].as_str() else {
        return Some(format!("{name} does not name its licence"));
    };
    match is_allowed(licence, allowed) {
        Some(true) => None,
        Some(false) => Some(format!("{name} has the licence {licence}, which deny.toml does not allow")),
        None => Some(format!("{name} has a licence that cannot be read: {licence}")),
    }
}

/// An expression of SPDX names with AND, OR, WITH and brackets; `/` is an old way to write OR. `None` if it is none.
fn is_allowed(licence: &str, allowed: &[&str]) -> Option<bool> {
    let spaced = licence.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let answer = either(&mut rest, allowed)?;
    rest.is_empty().then_some(answer)
}

fn either(rest: &mut &[&str], allowed: &[&str]) -> Option<bool> {
    let mut answer = both(rest, allowed)?;
    while let Some(("OR", behind)) = next(rest) {
        *rest = behind;
        answer |= both(rest, allowed)?;
    }
    Some(answer)
}

fn both(rest: &mut &[&str], allowed: &[&str]) -> Option<bool> {
    let mut answer = one(rest, allowed)?;
    while let Some(("AND", behind)) = next(rest) {
        *rest = behind;
        answer &= one(rest, allowed)?;
    }
    Some(answer)
}

fn one(rest: &mut &[&str], allowed: &[&str]) -> Option<bool> {
    let (first, behind) = next(rest)?;
    *rest = behind;
    if first == "(" {
        let answer = either(rest, allowed)?;
        let (")", behind) = next(rest)? else { return None };
        *rest = behind;
        return Some(answer);
    }
    if matches!(first, "AND" | "OR" | "WITH" | ")") {
        return None;
    }
    if let Some(("WITH", behind)) = next(rest) {
        let (exception, behind) = next(behind)?;
        *rest = behind;
        return Some(allowed.contains(&format!("{first} WITH {exception}").as_str()));
    }
    Some(allowed.contains(&first))
}

fn next<'a, 'b>(rest: &'b [&'a str]) -> Option<(&'a str, &'b [&'a str])> {
    rest.split_first().map(|(first, behind)| (*first, behind))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expressions_are_understood() {
        let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"];
        for (licence, wanted) in [
            ("MIT", Some(true)),
            ("GPL-3.0-only", Some(false)),
            ("GPL-3.0-only OR MIT", Some(true)),
            ("Unlicense/MIT", Some(true)),
            ("MIT AND BSD-3-Clause", Some(false)),
            ("(MIT OR GPL-2.0-only) AND Apache-2.0", Some(true)),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", Some(false)),
            ("GPL-2.0-only OR MIT AND Unicode-3.0", Some(false)),
            ("Apache-2.0 WITH LLVM-exception", Some(true)),
            ("GPL-2.0-only WITH Classpath-exception-2.0", Some(false)),
            ("", None),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT MIT", None),
        ] {
            assert_eq!(is_allowed(licence, &allowed), wanted, "{licence}");
        }
    }

    #[test]
    fn what_may_not_be_used_is_named() {
        let package = |licence: Value, source: Value| json!({"name": "x", "version": "1.0.0", "license": licence, "source": source});
        let told = |package: Value| problem(&package, &["MIT"]);
        assert_eq!(told(package(json!("MIT"), json!(CRATES_IO))), None);
        assert_eq!(told(package(Value::Null, Value::Null)), None, "ours");
        let wrong = told(package(json!("GPL-3.0-only"), json!(CRATES_IO)));
        assert_eq!(
            wrong.as_deref(),
            Some("x 1.0.0 has the licence GPL-3.0-only, which deny.toml does not allow")
        );
        assert!(
            told(package(Value::Null, json!(CRATES_IO))).is_some_and(|told| told.contains("does not name"))
        );
        let elsewhere = told(package(json!("MIT"), json!("git+https://example.org/x")));
        assert!(elsewhere.is_some_and(|told| told.contains("not from crates.io")));
    }

    #[test]
    fn the_list_of_deny_toml_is_read() {
        let text = "[licenses]\n# why\nallow = [\n    \"MIT\",\n    \"ISC\",\n]\nother = [\"x\"]\n";
        assert_eq!(allowed_licences(text).expect("a list"), ["MIT", "ISC"]);
        assert!(allowed_licences("[bans]").is_err());
    }
}
