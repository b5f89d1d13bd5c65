//! Minimal XML for manifests: elements and their attributes, in order. Text, comments and the rest are skipped.

use std::borrow::Cow;

/// One start tag (`is_end` false), one end tag, or a tag that is both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    /// Without a namespace prefix.
    pub name: &'a str,
    attributes: &'a str,
    pub is_end: bool,
    pub is_empty: bool,
}

impl<'a> Tag<'a> {
    /// The value of an attribute, with decoded entities.
    pub fn attribute(&self, wanted: &str) -> Option<Cow<'a, str>> {
        let mut rest = self.attributes;
        loop {
            let equals = rest.find('=')?;
            let name = rest[..equals].trim();
            let value = rest[equals + 1..].trim_start();
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            let value = &value[1..];
            let end = value.find(quote)?;
            if name == wanted {
                return Some(decode_entities(&value[..end]));
            }
            rest = &value[end + 1..];
        }
    }
}

/// All tags of the text. Invalid markup is skipped up to the next `<`.
pub(super) fn tags(text: &str) -> impl Iterator<Item = Tag<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            rest = &rest[rest.find('<')? + 1..];
            if let Some(comment) = rest.strip_prefix("!--") {
                rest = &comment[comment.find("-->")? + 3..];
                continue;
            }
            let end = end_of_tag(rest)?;
            let inside = &rest[..end];
            rest = &rest[end + 1..];
            if inside.starts_with(['?', '!']) {
                continue;
            }
            let (inside, is_end) = inside.strip_prefix('/').map_or((inside, false), |name| (name, true));
            let (inside, is_empty) = inside.strip_suffix('/').map_or((inside, false), |start| (start, true));
            let name_end = inside.find(char::is_whitespace).unwrap_or(inside.len());
            let (name, attributes) = inside.split_at(name_end);
            let name = name.rsplit_once(':').map_or(name, |(_, local)| local);
            return Some(Tag { name, attributes, is_end, is_empty });
        }
    })
}

/// Position of the `>` that is not inside quotes.
fn end_of_tag(text: &str) -> Option<usize> {
    let mut quote = None;
    text.bytes().position(|byte| match (quote, byte) {
        (Some(open), byte) if open == byte => {
            quote = None;
            false
        }
        (None, b'"' | b'\'') => {
            quote = Some(byte);
            false
        }
        (None, b'>') => true,
        _ => false,
    })
}

fn decode_entities(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        decoded.push_str(&rest[..start]);
        rest = &rest[start..];
        let entity = rest.find(';').map(|end| (&rest[1..end], end + 1));
        match entity.and_then(|(name, length)| character(name).map(|c| (c, length))) {
            Some((c, length)) => {
                decoded.push(c);
                rest = &rest[length..];
            }
            None => {
                decoded.push('&');
                rest = &rest[1..];
            }
        }
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

fn character(entity: &str) -> Option<char> {
    match entity {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = entity.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_keep_their_text() {
        let text =
            "<?xml v=\"1\"?><!-- <a/> --><ns:data name='a > &lt;b&gt; &#x41;&#66; &bogus; &' x=\"2\"/></p>";
        let tags: Vec<_> = tags(text).collect();
        assert_eq!(
            tags.iter().map(|t| (t.name, t.is_end, t.is_empty)).collect::<Vec<_>>(),
            [("data", false, true), ("p", true, false)]
        );
        assert_eq!(tags[0].attribute("name").as_deref(), Some("a > <b> AB &bogus; &"));
        assert_eq!(tags[0].attribute("x").as_deref(), Some("2"));
        assert_eq!(tags[0].attribute("y"), None);
    }

    #[test]
    fn damage_ends_the_walk() {
        assert_eq!(tags("<a b=\"").count(), 0);
        assert_eq!(tags("<!-- ").count(), 0);
        assert_eq!(tags("<a>").next().and_then(|tag| tag.attribute("q")), None);
    }
}
