//! Command lines. The default redaction cannot retain a secret.

use std::path::Path;

use super::options::CommandLines;

/// Longer command lines are truncated and marked.
const MAX_BYTES: usize = 4096;
/// Replacement for a value.
const HIDDEN: &str = "…";

/// The text to keep; `None` if empty.
pub(super) fn text(arguments: &[Vec<u8>], kept: CommandLines) -> Option<String> {
    let parts: Vec<String> = match kept {
        CommandLines::Off => return None,
        CommandLines::Full => {
            arguments.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect()
        }
        CommandLines::Redacted => redacted(arguments, |_| false),
    };
    if parts.is_empty() {
        return None;
    }
    let mut text = parts.join(" ");
    if text.len() > MAX_BYTES {
        text.truncate(text.floor_char_boundary(MAX_BYTES));
        text.push_str(" [cut]");
    }
    Some(text)
}

/// A command that is about to be started, in the form that is shown and stored. Unlike in other command lines, file
/// names are kept without their directory: `python serve.py` is more useful than `python …`, and no secret is an
/// existing file.
pub fn command_shown(arguments: &[String], kept: CommandLines) -> String {
    match kept {
        CommandLines::Off => String::new(),
        CommandLines::Full => arguments.join(" "),
        CommandLines::Redacted => {
            let arguments: Vec<Vec<u8>> = arguments.iter().map(|word| word.clone().into_bytes()).collect();
            redacted(&arguments, |word| Path::new(word).is_file()).join(" ")
        }
    }
}

/// Our own command line as stored: hides only what can be a secret. Our flags never are, but URLs can contain passwords,
/// and options of other programs have their own names.
pub fn own_command_shown(arguments: &[String]) -> String {
    let mut shown: Vec<String> = Vec::new();
    let mut hides_next = false;
    for argument in arguments {
        let hidden = std::mem::take(&mut hides_next) && !argument.starts_with('-');
        let word = match argument.split_once('=') {
            _ if hidden => HIDDEN.to_owned(),
            // In a URL the name follows the credentials, which must be removed too.
            Some((name, _)) if names_a_secret(name) && !name.contains("://") => format!("{name}={HIDDEN}"),
            _ => without_credentials(argument),
        };
        hides_next = argument.starts_with('-') && !argument.contains('=') && names_a_secret(argument);
        shown.push(word);
    }
    shown.join(" ")
}

fn names_a_secret(name: &str) -> bool {
    const SECRETS: [&str; 9] = [
        "token",
        "secret",
        "pass",
        "api_key",
        "apikey",
        "api-key",
        "credential",
        "authorization",
        "signature",
    ];
    let name = name.to_lowercase();
    SECRETS.iter().any(|secret| name.contains(secret))
}

/// A URL without credentials and query: either may be a secret.
fn without_credentials(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let user = if authority.contains('@') { format!("{HIDDEN}@") } else { String::new() };
    let (path, query) = path.split_at(path.find(['?', '#']).unwrap_or(path.len()));
    let query = query.chars().next().map_or_else(String::new, |mark| format!("{mark}{HIDDEN}"));
    format!("{scheme}://{user}{host}{path}{query}")
}

/// The program without its directory and the names of options. Every other word may be a secret, a person or a place,
/// unless `is_known` returns true. Consecutive words become one mark.
fn redacted(arguments: &[Vec<u8>], is_known: impl Fn(&str) -> bool) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for (index, argument) in arguments.iter().enumerate() {
        let argument = String::from_utf8_lossy(argument);
        if index == 0 {
            let program = argument.rsplit(['/', '\\']).next().unwrap_or_default();
            // Some programs write their state here: only the first word is the program.
            parts.push(program.split_whitespace().next().unwrap_or_default().to_owned());
        } else if let Some(option) = option_name(&argument) {
            parts.push(option);
        } else if is_known(&argument) {
            parts.push(argument.rsplit(['/', '\\']).next().unwrap_or_default().to_owned());
        } else if parts.last().is_none_or(|last| last != HIDDEN) {
            parts.push(HIDDEN.to_owned());
        }
    }
    parts
}

/// `--name` or `-n`, with its value replaced. Short options are cut to their first letter: `-psecret` is one word.
fn option_name(argument: &str) -> Option<String> {
    let plain = |name: &str| {
        !name.is_empty()
            && name.len() <= 40
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if let Some(long) = argument.strip_prefix("--") {
        return match long.split_once('=') {
            Some((name, _)) if plain(name) => Some(format!("--{name}={HIDDEN}")),
            None if plain(long) => Some(argument.to_owned()),
            _ => None,
        };
    }
    let short = argument.strip_prefix('-').filter(|short| plain(short))?;
    let first = short.chars().next()?;
    Some(if short.len() == 1 { argument.to_owned() } else { format!("-{first}{HIDDEN}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(arguments: &[&str], kept: CommandLines) -> Option<String> {
        let arguments: Vec<Vec<u8>> = arguments.iter().map(|part| part.as_bytes().to_vec()).collect();
        text(&arguments, kept)
    }

    #[test]
    fn values_are_hidden_by_default() {
        let arguments = [
            "/home/ann/bin/server",
            "--token=s3cret",
            "-psecret",
            "-v",
            "--port",
            "80",
            "http://u:p@h",
            "--",
            "x",
        ];
        let kept = line(&arguments, CommandLines::Redacted).unwrap();
        assert_eq!(kept, "server --token=… -p… -v --port …");
        for secret in ["s3cret", "secret", "ann", "u:p", "80"] {
            assert!(!kept.contains(secret), "{kept}");
        }
    }

    #[test]
    fn files_are_shown_without_their_directory() {
        let here = tempfile::tempdir().unwrap();
        let script = here.path().join("serve.py");
        std::fs::write(&script, "").unwrap();
        let command = ["/usr/bin/python3", "-u", script.to_str().unwrap(), "--port", "80", "s3cret", "x"];
        let command = command.map(str::to_owned);
        let shown = command_shown(&command, CommandLines::Redacted);
        assert_eq!(shown, "python3 -u serve.py --port …");
        assert_eq!(command_shown(&command, CommandLines::Full), command.join(" "));
        assert_eq!(command_shown(&[], CommandLines::Redacted), "");
    }

    #[test]
    fn our_own_command_line_hides_secrets() {
        let words = [
            "ortscope",
            "export",
            "last",
            "--url",
            "https://me:s3cret@h.example:1/api?token=s3cret#s3cret",
            "--threads",
            "2",
            "--provider-option",
            "qnn.api_key=s3cret",
            "--token",
            "s3cret",
            "--password=s3cret",
            "-v",
        ];
        let shown = own_command_shown(&words.map(str::to_owned));
        assert_eq!(
            shown,
            "ortscope export last --url https://…@h.example:1/api?… --threads 2 --provider-option \
             qnn.api_key=… --token … --password=… -v"
        );
    }

    #[test]
    fn unusual_command_lines_are_handled() {
        assert_eq!(line(&[], CommandLines::Redacted), None);
        assert_eq!(line(&["x", "y"], CommandLines::Off), None);
        assert_eq!(line(&["/bin/x", "y z"], CommandLines::Full).unwrap(), "/bin/x y z");
        assert_eq!(line(&["nginx: worker ann@host"], CommandLines::Redacted).unwrap(), "nginx:");
        assert_eq!(text(&[b"\xff\xfe".to_vec()], CommandLines::Redacted).unwrap(), "\u{fffd}\u{fffd}");
        let long = line(&["x", &"ü".repeat(9000)], CommandLines::Full).unwrap();
        assert!(long.len() < MAX_BYTES + 10 && long.ends_with("[cut]"));
    }
}
