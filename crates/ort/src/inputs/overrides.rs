//! `--shape`: the size of a dimension, or the shape of an input.

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShapeOverride {
    /// For a symbolic dimension, or for an input with one dimension.
    Size(u64),
    /// Of an input.
    Shape(Vec<u64>),
}

/// `seq=128`, `input=1x3x224x224` or `input=[1,3,224,224]`. The name may itself contain `=`.
pub fn parse_shape_override(text: &str) -> Result<(String, ShapeOverride), String> {
    let usage = "write NAME=128, NAME=1x3x224x224 or NAME=[1,3,224,224]";
    let (name, value) = text.rsplit_once('=').ok_or_else(|| format!("'{text}' has no '='; {usage}"))?;
    if name.trim().is_empty() {
        return Err(format!("'{text}' names nothing; {usage}"));
    }
    let value = value.trim();
    let bracketed = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let number = |size: &str| {
        let size = size.trim();
        size.parse::<u64>().map_err(|_| format!("'{size}' in '{text}' is no size; {usage}"))
    };
    let sizes = match bracketed {
        Some(list) if list.trim().is_empty() => Vec::new(),
        Some(list) => list.split(',').map(number).collect::<Result<_, _>>()?,
        None => value.split(['x', 'X', ',']).map(number).collect::<Result<Vec<_>, _>>()?,
    };
    let shape = match (bracketed, sizes.as_slice()) {
        (None, [size]) => ShapeOverride::Size(*size),
        _ => ShapeOverride::Shape(sizes),
    };
    Ok((name.trim().to_owned(), shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings() {
        let shape = ShapeOverride::Shape(vec![1, 3, 224, 224]);
        for text in ["x=1x3x224x224", "x=[1,3,224,224]", "x = [1, 3, 224, 224]", "x=1,3,224,224"] {
            assert_eq!(parse_shape_override(text), Ok(("x".to_owned(), shape.clone())), "{text}");
        }
        assert_eq!(parse_shape_override("seq=128"), Ok(("seq".to_owned(), ShapeOverride::Size(128))));
        assert_eq!(parse_shape_override("x=[]"), Ok(("x".to_owned(), ShapeOverride::Shape(vec![]))));
        assert_eq!(parse_shape_override("x=[7]"), Ok(("x".to_owned(), ShapeOverride::Shape(vec![7]))));
        assert_eq!(parse_shape_override("a=b=2"), Ok(("a=b".to_owned(), ShapeOverride::Size(2))));
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, part) in [
            ("x", "has no '='"),
            ("=1", "names nothing"),
            ("x=1xa", "'a' in 'x=1xa' is no size"),
            ("x=-1", "no size"),
        ] {
            let error = parse_shape_override(text).unwrap_err();
            assert!(error.contains(part) && error.contains("write NAME=128"), "{error}");
        }
    }
}
