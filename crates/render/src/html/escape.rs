//! Text that must not become markup, and numbers for SVG.

/// For content and for attributes in double quotes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            // The rest of what HTML forbids; texts of the model have none.
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' if character != '\n' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// As [`escape`], for running text: a number stays on one line with its thousands and its unit.
pub(super) fn running(text: &str) -> String {
    const UNITS: [&str; 12] = ["%", "ms", "µs", "ns", "s", "B", "kB", "MB", "GB", "Hz", "MHz", "GHz"];
    let mut words = text.split(' ').peekable();
    let mut out = String::with_capacity(text.len());
    while let Some(word) = words.next() {
        out += word;
        let Some(next) = words.peek() else { break };
        let number = word.ends_with(|last: char| last.is_ascii_digit());
        let bare = next.trim_end_matches([',', ';', '.', ')', ':']);
        let thousands = bare.len() == 3 && bare.bytes().all(|digit| digit.is_ascii_digit());
        let unit = UNITS.contains(&bare);
        out.push(match number {
            true if thousands => '\u{202f}',
            true if unit => '\u{a0}',
            _ => ' ',
        });
    }
    escape(&out)
}

/// JSON for a script element that holds data: nothing in it can end the element.
pub(super) fn data(json: &serde_json::Value) -> String {
    json.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// A coordinate with as many digits as a screen shows.
pub(super) fn coordinate(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" || text.is_empty() { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(escape("<b a='1' c=\"2\">&"), "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;");
        assert_eq!(
            running("Ryzen 7 7840U: n = 3 980, 25 % in 2.30 ms; <a 1 b>"),
            "Ryzen 7 7840U: n = 3\u{202f}980, 25\u{a0}% in 2.30\u{a0}ms; &lt;a 1 b&gt;"
        );
        assert_eq!(data(&serde_json::json!(["</script><!--"])), "[\"\\u003c/script\\u003e\\u003c!--\"]");
        assert_eq!(
            (coordinate(1.5), coordinate(-0.001), coordinate(3.0), coordinate(f64::NAN)),
            ("1.5".into(), "0".into(), "3".into(), "0".into())
        );
    }
}
