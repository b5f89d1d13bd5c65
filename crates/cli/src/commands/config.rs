//! `ortscope config`.

use std::path::Path;

use crate::args::{ConfigAction, ConfigArgs, GlobalArgs};
use crate::exit::{Exit, Failure};
use crate::settings;
use crate::terminal::{self, Terminal};
use ortscope_core::units;

/// Templates per use case; the same files as in `examples/config/`.
const TEMPLATES: [(&str, &str); 7] = [
    ("default", include_str!("../../../../examples/config/default.toml")),
    ("development", include_str!("../../../../examples/config/development.toml")),
    ("testing", include_str!("../../../../examples/config/testing.toml")),
    ("staging", include_str!("../../../../examples/config/staging.toml")),
    ("production", include_str!("../../../../examples/config/production.toml")),
    ("critical", include_str!("../../../../examples/config/critical.toml")),
    ("ci", include_str!("../../../../examples/config/ci.toml")),
];

pub fn run(args: &ConfigArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    match &args.action {
        ConfigAction::Init { template, output, force } => init(template, output, *force, terminal)?,
        ConfigAction::Show => show(global, terminal)?,
        ConfigAction::Path => path(global, terminal)?,
    }
    Ok(Exit::Ok)
}

fn init(name: &str, output: &Path, force: bool, terminal: &Terminal) -> Result<(), Failure> {
    let Some((_, text)) = TEMPLATES.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = TEMPLATES.iter().map(|(known, _)| *known).collect();
        return Err(Failure::usage(format!("there is no template '{name}'"))
            .with_hint(format!("templates: {}", known.join(", "))));
    };
    if output == Path::new("-") {
        terminal::print_data(text);
        return Ok(());
    }
    if output.exists() && !force {
        return Err(Failure::usage(format!("'{}' is already there", output.display()))
            .with_hint("--force replaces it; -o names another file"));
    }
    fs_err::write(output, text)?;
    if !terminal.quiet {
        terminal::print_error(&format!("wrote {} ({})", output.display(), units::bytes(text.len() as f64)));
    }
    Ok(())
}

fn show(global: &GlobalArgs, terminal: &Terminal) -> Result<(), Failure> {
    let config = settings::load(global.config.as_deref())?;
    let text = if terminal.json {
        serde_json::to_string_pretty(&config).map_err(Failure::internal)? + "\n"
    } else {
        config.to_toml().map_err(Failure::internal)?
    };
    terminal::print_data(&text);
    Ok(())
}

fn path(global: &GlobalArgs, terminal: &Terminal) -> Result<(), Failure> {
    let mut files = settings::files(global.config.as_deref());
    files.reverse();
    if terminal.json {
        let text = serde_json::to_string(&files).map_err(Failure::internal)?;
        terminal::print_data(&(text + "\n"));
        return Ok(());
    }
    for file in &files {
        terminal::print_data(&format!("{}\n", file.display()));
    }
    if files.is_empty() && !terminal.quiet {
        let user = settings::user_file().map_or("none".into(), |path| path.display().to_string());
        terminal::print_error(&format!(
            "no configuration file: neither ./{} nor {user}",
            settings::FILE_NAME
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ortscope_core::config::Config;

    use super::*;

    /// The keys of a section, as the reader itself names them when it meets one that it does not know.
    fn keys(section: &str) -> Vec<String> {
        let text = if section.is_empty() { "zzz = 1".to_owned() } else { format!("[{section}]\nzzz = 1") };
        let error = Config::parse(&text, "x").expect_err("an unknown key");
        let (_, known) = error.problem.split_once("expected").expect("what is known");
        known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn the_default_template_explains_every_setting() {
        let (_, text) = TEMPLATES[0];
        let mut sections = keys("");
        let mut explained = 0;
        assert!(sections.len() > 5, "{sections:?}");
        while let Some(section) = sections.pop() {
            let (_, body) =
                text.split_once(&format!("[{section}]\n")).unwrap_or_else(|| panic!("no [{section}]"));
            let body = body.split("\n[").next().unwrap_or_default();
            for key in keys(&section) {
                let nested = format!("{section}.{key}");
                if text.contains(&format!("\n[{nested}]")) {
                    sections.push(nested);
                    continue;
                }
                let line = body
                    .lines()
                    .find(|line| line.trim_start_matches("# ").starts_with(&format!("{key} = ")))
                    .unwrap_or_else(|| panic!("{nested} is not in the template"));
                let (_, value) = line.split_once(" = ").expect("a value");
                let meaning = value.split_once(" # ").map(|(_, meaning)| meaning.trim());
                assert!(
                    meaning.is_some_and(|meaning| meaning.len() > 5),
                    "{nested} is not explained: {line}"
                );
                explained += 1;
            }
        }
        assert!(explained > 50, "{explained}");
    }

    #[test]
    fn every_template_is_valid() {
        for (name, text) in TEMPLATES {
            Config::parse(text, name).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn the_default_template_says_what_the_defaults_are() {
        let (_, text) = TEMPLATES[0];
        assert_eq!(Config::parse(text, "default").unwrap(), Config::default());
    }
}
