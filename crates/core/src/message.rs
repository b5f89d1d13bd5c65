//! ONNX Runtime's messages for people: what happened, without the source files and function signatures around it.

/// The last and so innermost part of a message, on one line.
///
/// ```
/// let message = "Exception: /src/a.cc:12 void ort::F(int) failed: src/node.cpp:106: the rank is dynamic";
/// assert_eq!(ortscope_core::message::essence(message), "the rank is dynamic");
/// ```
pub fn essence(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    let whole = words.join(" ");
    let after_location = words.iter().rposition(|word| is_location(word)).map_or(0, |at| at + 1);
    let rest = words.get(after_location..).unwrap_or_default().join(" ");
    let rest = if after_location > 0 { without_signature(&rest) } else { rest.as_str() };
    let rest = without_stray_parenthesis(without_code(rest.trim()));
    if rest.is_empty() { whole } else { rest.to_owned() }
}

/// `/path/to/file.cc:123` or `file.cpp:123:`.
fn is_location(word: &str) -> bool {
    let word = word.trim_start_matches('(').trim_end_matches(':');
    let Some((file, line)) = word.rsplit_once(':') else { return false };
    !line.is_empty()
        && line.bytes().all(|byte| byte.is_ascii_digit())
        && [".cc", ".cpp", ".h", ".hpp", ".cu", ".cxx"].iter().any(|ending| file.ends_with(ending))
}

/// A location is often followed by the function: `void onnxruntime::Foo(int, const Bar &) what happened`.
fn without_signature(text: &str) -> &str {
    match text.split_once(") ") {
        Some((signature, rest)) if signature.contains('(') && signature.contains("::") => rest,
        _ => text,
    }
}

/// `[ONNXRuntimeError] : 1 : FAIL : what happened`: the number and its name add nothing.
fn without_code(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("[ONNXRuntimeError] : ") else { return text };
    let mut parts = rest.splitn(3, " : ");
    match (parts.next(), parts.next(), parts.next()) {
        (Some(number), Some(_), Some(rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => text,
    }
}

/// A parenthesis that was opened before the cut.
fn without_stray_parenthesis(text: &str) -> &str {
    let opened = text.matches('(').count();
    match text.strip_suffix(')') {
        Some(rest) if text.matches(')').count() > opened => rest,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_the_relevant_part() {
        for (message, wanted) in [
            ("plain\n  text", "plain text"),
            ("/onnxruntime_src/a.cc:12 void onnxruntime::F(int) idx out of\n range", "idx out of range"),
            (
                "Failed to load provider (/ort/factory.cc:141 std::string ort::Parse(std::shared_ptr<C>, const O&) [ERROR] \
                 Device NPU is not available)",
                "[ERROR] Device NPU is not available",
            ),
            (
                "Exception from src/core.cpp:114: Exception from src/plugin.cpp:53: Check failed",
                "Check failed",
            ),
            (
                "a.cc:1 T& o::L::Get() [ONNXRuntimeError] : 1 : FAIL : Failed to load x.so",
                "Failed to load x.so",
            ),
            ("ends with a place: src/core.cpp:114:", "ends with a place: src/core.cpp:114:"),
            ("ratio 3:4 and std::vector", "ratio 3:4 and std::vector"),
            ("", ""),
        ] {
            assert_eq!(essence(message), wanted);
        }
    }
}
