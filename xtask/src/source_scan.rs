//! Looks into Rust sources for words that are allowed in few places, without being misled by comments, strings or tests.

use std::ops::{Range, RangeInclusive};

/// A source text in which comments, literals and test items are blanked, with every line where it was.
#[derive(Debug)]
pub(crate) struct Code {
    text: String,
    /// The lines of the test items.
    tests: Vec<RangeInclusive<usize>>,
    /// String literals as they are written, with the line of each.
    literals: Vec<(usize, String)>,
}

impl Code {
    pub(crate) fn new(source: &str) -> Self {
        let (text, literals) = blank_comments_and_literals(source);
        let mut code = Self { text, tests: Vec::new(), literals };
        while let Some(range) = test_item(&code.text) {
            code.tests.push(code.line(range.start)..=code.line(range.end));
            code.text = blank(&code.text, range);
        }
        code
    }

    /// Whether a line, counted from 1, is one of a test item.
    pub(crate) fn is_in_tests(&self, line: usize) -> bool {
        self.tests.iter().any(|lines| lines.contains(&line))
    }

    /// The lines on which a word stands as a word of its own.
    pub(crate) fn lines_with_word(&self, word: &str) -> Vec<usize> {
        words(&self.text).filter(|at| &self.text[at.clone()] == word).map(|at| self.line(at.start)).collect()
    }

    /// How often `unsafe` begins a block, and how often it marks anything else: a function, an implementation, a type.
    pub(crate) fn unsafe_uses(&self) -> (usize, usize) {
        let uses = || words(&self.text).filter(|at| &self.text[at.clone()] == "unsafe");
        let blocks = uses().filter(|at| self.text[at.end..].trim_start().starts_with('{')).count();
        (blocks, uses().count() - blocks)
    }

    /// The lines of conditional compilation (`cfg`, `cfg!`, `cfg_attr`, `cfg_select!`) that mention one of `predicates`.
    pub(crate) fn lines_with_cfg(&self, predicates: &[&str]) -> Vec<usize> {
        let is_cfg = |at: &Range<usize>| matches!(&self.text[at.clone()], "cfg" | "cfg_attr" | "cfg_select");
        words(&self.text)
            .filter(is_cfg)
            .filter(|at| {
                let inside = delimited_after(&self.text, at.end);
                inside.is_some_and(|range| {
                    words(&self.text[range.clone()]).any(|word| {
                        predicates.contains(&&self.text[range.start + word.start..range.start + word.end])
                    })
                })
            })
            .map(|at| self.line(at.start))
            .collect()
    }

    /// The string literals outside of tests, with their quotes and escapes, and the line of each.
    pub(crate) fn literals(&self) -> impl Iterator<Item = (usize, &str)> {
        let literals = self.literals.iter().map(|(line, text)| (*line, text.as_str()));
        literals.filter(|(line, _)| !self.is_in_tests(*line))
    }

    /// The paths of all `use` declarations, groups taken apart; the last word is the name that is brought into scope.
    pub(crate) fn use_paths(&self) -> Vec<Vec<String>> {
        let uses = words(&self.text).filter(|at| &self.text[at.clone()] == "use");
        uses.flat_map(|at| path_tree(&self.text, at.end).0).collect()
    }

    /// The first words, counted from the root of the crate, of all paths through `crate` or `super` in a module.
    pub(crate) fn crate_paths(&self, module: &[String]) -> Vec<String> {
        let mut found = Vec::new();
        for at in words(&self.text) {
            let begins = matches!(&self.text[at.clone()], "crate" | "super");
            if !begins || self.text[..at.start].trim_end().ends_with("::") {
                continue;
            }
            for path in path_tree(&self.text, at.start).0 {
                let mut place = module.to_vec();
                for word in path {
                    match word.as_str() {
                        "crate" => place.clear(),
                        "super" => drop(place.pop()),
                        "self" => {}
                        _ => place.push(word),
                    }
                }
                found.extend(place.into_iter().next());
            }
        }
        found
    }

    fn line(&self, position: usize) -> usize {
        1 + self.text[..position].bytes().filter(|byte| *byte == b'\n').count()
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// The ranges of identifiers and numbers.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() && !is_word_byte(bytes[at]) {
            at += 1;
        }
        let start = at;
        while at < bytes.len() && is_word_byte(bytes[at]) {
            at += 1;
        }
        (start < at).then_some(start..at)
    })
}

/// The paths that begin at a position, such as the two of `a::{b, c::d as e}`, and where they end.
fn path_tree(code: &str, from: usize) -> (Vec<Vec<String>>, usize) {
    let skip_blanks = |at: usize| at + (code[at..].len() - code[at..].trim_start().len());
    let word_at =
        |at: usize| words(&code[at..]).next().filter(|word| word.start == 0).map(|word| at..at + word.end);
    let mut prefix: Vec<String> = Vec::new();
    let mut at = skip_blanks(from);
    loop {
        if code[at..].starts_with('{') {
            let mut paths = Vec::new();
            at = skip_blanks(at + 1);
            while at < code.len() && !code[at..].starts_with('}') {
                let (inner, end) = path_tree(code, at);
                paths.extend(inner.into_iter().map(|path| [prefix.clone(), path].concat()));
                // A comma, or anything that is no path: go on behind it.
                at = skip_blanks(if end == at {
                    at + code[at..].chars().next().map_or(1, char::len_utf8)
                } else {
                    end
                });
            }
            return (paths, (at + 1).min(code.len()));
        }
        let Some(word) = word_at(at) else { break };
        prefix.push(code[word.clone()].to_owned());
        at = skip_blanks(word.end);
        match code[at..].strip_prefix("::") {
            Some(_) => at = skip_blanks(at + 2),
            None => break,
        }
    }
    // `as name` gives the path another last word.
    if let Some(word) = word_at(at).filter(|word| &code[word.clone()] == "as")
        && let Some(name) = word_at(skip_blanks(word.end))
    {
        prefix.push(code[name.clone()].to_owned());
        at = name.end;
    }
    (if prefix.is_empty() { Vec::new() } else { vec![prefix] }, at)
}

/// The range inside the bracket that follows, past blanks and `!`: of `cfg!(unix)` the `unix`.
fn delimited_after(code: &str, from: usize) -> Option<Range<usize>> {
    let open = from + code[from..].find(|c: char| !c.is_whitespace() && c != '!')?;
    matches!(code.as_bytes()[open], b'(' | b'{' | b'[').then(|| open + 1..matching_bracket(code, open))
}

/// Where the bracket that opens at `open` is closed; the end of the text when it is not.
fn matching_bracket(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (offset, byte) in code.as_bytes()[open..].iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth -= 1;
                if depth == 0 {
                    return open + offset;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// The first item under `#[cfg(test)]` or `#[cfg(all(test, …))]`, with its attribute.
fn test_item(code: &str) -> Option<Range<usize>> {
    let starts = code.match_indices("#[cfg(").map(|(at, _)| at);
    starts.into_iter().find_map(|start| {
        let end = matching_bracket(code, start + 1);
        let predicate = &code[start..end];
        let says_test = words(predicate).any(|at| &predicate[at] == "test");
        if !says_test || predicate.contains("not(") {
            return None;
        }
        let mut at = end + 1;
        while let Some(offset) = code[at..].find(['(', '[', '{', ';']) {
            at += offset;
            match code.as_bytes()[at] {
                b';' => return Some(start..at + 1),
                b'{' => return Some(start..(matching_bracket(code, at) + 1).min(code.len())),
                _ => at = matching_bracket(code, at),
            }
        }
        Some(start..code.len())
    })
}

fn blank(text: &str, range: Range<usize>) -> String {
    let blanked: String = text[range.clone()].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
    format!("{}{blanked}{}", &text[..range.start], &text[range.end..])
}

/// The text without comments and literals, and the string literals with the line of each.
fn blank_comments_and_literals(source: &str) -> (String, Vec<(usize, String)>) {
    let mut code = String::with_capacity(source.len());
    let mut literals = Vec::new();
    let mut line = 1;
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let in_word = code.bytes().last().is_some_and(is_word_byte);
        let skipped = skipped_length(rest, in_word);
        let length = if skipped == 0 { first.len_utf8() } else { skipped };
        let text = &rest[..length];
        if skipped == 0 {
            code.push(first);
        } else {
            if !matches!(first, '/' | '\'') {
                literals.push((line, text.to_owned()));
            }
            code.extend(text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        line += text.bytes().filter(|byte| *byte == b'\n').count();
        rest = &rest[length..];
    }
    (code, literals)
}

/// How many bytes at the beginning are a comment or a literal; 0 when they are code.
fn skipped_length(text: &str, in_word: bool) -> usize {
    let end_or_all = |end: Option<usize>| end.unwrap_or(text.len());
    match text.as_bytes() {
        [b'/', b'/', ..] => end_or_all(text.find('\n')),
        [b'/', b'*', ..] => block_comment_length(text),
        [b'"', ..] => quoted_length(text, '"'),
        [b'\'', b'\\', ..] => quoted_length(text, '\''),
        // A lifetime has no closing quote right after its first character.
        [b'\'', ..] => {
            let literal = text[1..].chars().next().filter(|c| text[1 + c.len_utf8()..].starts_with('\''));
            literal.map_or(0, |c| c.len_utf8() + 2)
        }
        [b'b' | b'c' | b'r', ..] if !in_word => {
            let prefix = text.find(|c| !matches!(c, 'b' | 'c' | 'r')).unwrap_or(0);
            let raw = text[..prefix].ends_with('r');
            let hashes = text[prefix..].bytes().take_while(|byte| *byte == b'#').count();
            if raw && text[prefix + hashes..].starts_with('"') {
                let open = prefix + hashes + 1;
                let close = format!("\"{}", "#".repeat(hashes));
                end_or_all(text[open..].find(&close).map(|at| open + at + close.len()))
            } else {
                0
            }
        }
        _ => 0,
    }
}

fn quoted_length(text: &str, quote: char) -> usize {
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        if character == '\\' {
            characters.next();
        } else if character == quote {
            return at + 1;
        }
    }
    text.len()
}

fn block_comment_length(text: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < text.len() {
        match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OS: &[&str] = &["unix", "windows", "target_os", "target_family"];

    #[test]
    fn words_in_comments_and_literals_do_not_count() {
        let code = Code::new(
            "// unsafe\n/* unsafe /* unsafe */ unsafe */\nlet a = \"unsafe \\\" unsafe\";\nlet b = r#\"unsafe \" \"#;\n\
             let c = '\\'';\nfn f<'a>(x: &'a str) {}\nlet d = '\"';\nunsafe { g() }\n#![allow(unsafe_code)]\n",
        );
        assert_eq!(code.lines_with_word("unsafe"), [8]);
    }

    #[test]
    fn test_items_do_not_count() {
        let code = Code::new(
            "#[cfg(test)]\nmod tests {\n    fn f() { unsafe { g() } }\n}\n#[cfg(not(test))]\nfn h() { unsafe { g() } }\n\
             #[cfg(all(test, unix))]\nuse x;\n",
        );
        assert_eq!(code.lines_with_word("unsafe"), [6]);
        assert!(code.lines_with_cfg(OS).is_empty());
    }

    #[test]
    fn conditional_compilation_is_found_in_every_form() {
        let code = Code::new(
            "#[cfg(unix)]\nfn a() {}\nif cfg!(\n  windows\n) {}\n#[cfg_attr(target_os = \"linux\", path = \"x\")]\n\
             cfg_select! {\n  windows => {}\n}\n#[cfg(feature = \"windows\")]\nlet unix = 1;\n",
        );
        assert_eq!(code.lines_with_cfg(OS), [1, 3, 6, 7]);
    }

    #[test]
    fn paths_are_taken_apart() {
        let code = Code::new(
            "use crate::{a::{self, b}, c as d};\nfn f() { super::e::g(); crate::h::<u8>(); x::crate_y(); }\npub(crate) fn z() {}",
        );
        let module = ["m".to_owned(), "n".to_owned()];
        assert_eq!(code.crate_paths(&module), ["a", "a", "c", "m", "h"]);
        let uses: Vec<String> = code.use_paths().iter().map(|path| path.join("::")).collect();
        assert_eq!(uses, ["crate::a::self", "crate::a::b", "crate::c::d"]);
    }

    #[test]
    fn literals_are_found_outside_of_tests_and_comments() {
        let code = Code::new(
            "// \"no\"\nlet a = \"/proc\"; let c = '\"';\nlet b = br#\"/sys\"#;\n#[cfg(test)]\nmod tests {\n    const X: &str = \"/dev\";\n}\n",
        );
        assert_eq!(code.literals().collect::<Vec<_>>(), [(2, "\"/proc\""), (3, "br#\"/sys\"#")]);
    }

    #[test]
    fn a_raw_identifier_is_no_string() {
        assert_eq!(Code::new("let r#type = 1; unsafe {}").lines_with_word("unsafe"), [1]);
    }
}
