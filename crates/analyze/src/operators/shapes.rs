//! Shapes as the schema writes them: `[[1,3,224,224],[16]]`.

/// Reads a list of shapes. `None` if the text is anything else.
pub fn parse_shapes(text: &str) -> Option<Vec<Vec<u64>>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?.trim();
    let mut shapes = Vec::new();
    let mut rest = inner;
    while !rest.is_empty() {
        let (shape, after) = rest.strip_prefix('[')?.split_once(']')?;
        shapes.push(parse_dims(shape)?);
        rest = after.trim_start();
        if let Some(next) = rest.strip_prefix(',') {
            rest = next.trim_start();
            if rest.is_empty() {
                return None;
            }
        } else if !rest.is_empty() {
            return None;
        }
    }
    Some(shapes)
}

fn parse_dims(text: &str) -> Option<Vec<u64>> {
    let text = text.trim();
    if text.is_empty() {
        Some(Vec::new())
    } else {
        text.split(',').map(|dim| dim.trim().parse().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read() {
        assert_eq!(parse_shapes("[[1,3,224,224],[16]]"), Some(vec![vec![1, 3, 224, 224], vec![16]]));
        assert_eq!(parse_shapes(" [ [ 1 , 2 ] , [] ] "), Some(vec![vec![1, 2], vec![]]));
        assert_eq!(parse_shapes("[]"), Some(vec![]));
        for bad in
            ["", "[", "[[1,2]", "[1,2]", "[[-1]]", "[[1]x[2]]", "[[1],]", "[[a]]", "[[99999999999999999999]]"]
        {
            assert_eq!(parse_shapes(bad), None, "{bad}");
        }
    }
}
