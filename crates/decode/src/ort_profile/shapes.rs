//! Types and shapes of tensors: `[{"float":[1,576]},{"int64":[]}]` in a profile, two lists in the schema.

/// Maximum length of lists: no operator has so many inputs.
const MAX_LIST_BYTES: usize = 64 << 10;

/// The tensors of an operator as two JSON lists of the same length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypesAndShapes {
    /// `["float","int64"]`
    pub types: String,
    /// `[[1,576],[]]`
    pub shapes: String,
}

impl TypesAndShapes {
    /// `None` if invalid or empty.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_LIST_BYTES {
            return None;
        }
        let mut parser = Parser { rest: text };
        let mut lists = Self { types: "[".to_owned(), shapes: "[".to_owned() };
        parser.expect('[')?;
        let mut is_first = true;
        while !parser.take(']') {
            if !is_first {
                parser.expect(',')?;
                lists.types.push(',');
                lists.shapes.push(',');
            }
            is_first = false;
            parser.tensor(&mut lists)?;
        }
        lists.types.push(']');
        lists.shapes.push(']');
        parser.rest.trim_ascii().is_empty().then_some(lists)
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn take(&mut self, wanted: char) -> bool {
        self.rest = self.rest.trim_ascii_start();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, wanted: char) -> Option<()> {
        self.take(wanted).then_some(())
    }

    /// `{"float":[1,576]}`
    fn tensor(&mut self, lists: &mut TypesAndShapes) -> Option<()> {
        self.expect('{')?;
        self.expect('"')?;
        let (name, rest) = self.rest.split_once('"')?;
        if name.chars().any(|character| character == '\\' || character.is_control()) {
            return None;
        }
        self.rest = rest;
        lists.types.extend(["\"", name, "\""]);
        self.expect(':')?;
        self.expect('[')?;
        lists.shapes.push('[');
        let mut is_first = true;
        while !self.take(']') {
            if !is_first {
                self.expect(',')?;
                lists.shapes.push(',');
            }
            is_first = false;
            self.rest = self.rest.trim_ascii_start();
            let end = self.rest.find(|character: char| !character.is_ascii_digit() && character != '-')?;
            let (size, rest) = self.rest.split_at(end);
            size.parse::<i64>().ok()?;
            lists.shapes.push_str(size);
            self.rest = rest;
        }
        lists.shapes.push(']');
        self.expect('}')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_separated() {
        let parse = |text| TypesAndShapes::parse(text).map(|lists| (lists.types, lists.shapes));
        let pair = |types: &str, shapes: &str| Some((types.to_owned(), shapes.to_owned()));
        assert_eq!(
            parse(r#"[{"float":[1,576]},{"int64":[]},{"float16":[-1]}]"#),
            pair(r#"["float","int64","float16"]"#, "[[1,576],[],[-1]]")
        );
        assert_eq!(
            parse("[\n  {\n \"float\" : [ 1 ,\n 2 ]\n },{\"bool\":[ ]} ]"),
            pair(r#"["float","bool"]"#, "[[1,2],[]]")
        );
        assert_eq!(parse("[]"), pair("[]", "[]"));
    }

    #[test]
    fn anything_else_is_rejected() {
        let bad = [
            "",
            "[",
            "]",
            "{}",
            "[{}]",
            "[1]",
            r#"[{"float":[1}]"#,
            r#"[{"float":[1,]}]"#,
            r#"[{"float":1}]"#,
            r#"[{"float":[1.5]}]"#,
            r#"[{"float":["a"]}]"#,
            r#"[{"a\"b":[1]}]"#,
            r#"[{"float":[1]}] x"#,
            r#"[{"float":[1]}{"float":[1]}]"#,
            r#"[{"float":[1]},]"#,
            r#"[{"float":[--1]}]"#,
            "[{\"é",
        ];
        for text in bad {
            assert_eq!(TypesAndShapes::parse(text), None, "{text}");
        }
        assert_eq!(TypesAndShapes::parse(&"[".repeat(MAX_LIST_BYTES + 1)), None);
    }
}
