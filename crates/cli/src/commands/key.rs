//! `ortscope key`: the keys of encrypted recordings.

use ortscope_sources::key_store;
use ortscope_store::{KEY_VARIABLE, Key, KeySources};
use serde_json::json;

use super::runs::print;
use crate::args::{GlobalArgs, KeyAction, KeyArgs};
use crate::exit::{Exit, Failure, FailureKind};
use crate::recording::{KEY_NAME, key_sources};
use crate::settings;
use crate::terminal::{self, Terminal};

pub fn run(args: &KeyArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    match &args.action {
        KeyAction::New { output, system, force } => {
            let key = Key::random()?;
            // The copy first: a key store may forget, and what nobody has any more reads nothing.
            let copy = output.as_ref().map(|path| key.write_file(path).map(|()| path.display().to_string()));
            let mut places: Vec<String> = copy.transpose()?.into_iter().collect();
            if *system {
                keep_in_system(&key, *force)?;
                places.push(key_store::NAME.to_owned());
            }
            let is_shown = output.is_none();
            if is_shown {
                places.push("shown only now".to_owned());
            }
            tell_new(&key, &places.join(", "), is_shown, terminal)
        }
        KeyAction::Keep { file, force } => {
            let key = Key::from_file(file)?;
            let is_there =
                key_store::read(KEY_NAME).is_ok_and(|kept| kept.as_deref() == Some(&key.to_text()));
            if !is_there {
                keep_in_system(&key, *force)?;
            }
            let (id, place) = (key.id().to_string(), key_store::NAME);
            print(terminal, &json!({"schema": "ortscope.key/1", "id": id, "place": place}), || {
                vec![format!("{id}  {place}")]
            })
        }
        KeyAction::Id => {
            let config = settings::load(global.config.as_deref())?;
            let sources = key_sources(global, &config);
            let key = sources.first()?;
            let place = place_of(&sources);
            let id = key.id().to_string();
            print(terminal, &json!({"schema": "ortscope.key/1", "id": id, "place": place}), || {
                vec![format!("{id}  {place}")]
            })
        }
        KeyAction::Forget => {
            if !key_store::remove(KEY_NAME).map_err(|problem| refused(&problem))? {
                return Err(Failure::usage(format!("there is no key of ours in {}", key_store::NAME)));
            }
            terminal::print_error(&format!("the key is gone from {}", key_store::NAME));
            Ok(Exit::Ok)
        }
    }
}

fn tell_new(key: &Key, place: &str, is_shown: bool, terminal: &Terminal) -> Result<Exit, Failure> {
    let id = key.id().to_string();
    let mut document = json!({"schema": "ortscope.key/1", "id": id, "place": place});
    if is_shown {
        document["key"] = key.to_text().into();
    }
    let exit =
        print(terminal, &document, || vec![if is_shown { key.to_text() } else { format!("{id}  {place}") }])?;
    if !terminal.quiet {
        terminal::print_error("keep a copy: without it nobody can read what it encrypts");
    }
    Ok(exit)
}

fn keep_in_system(key: &Key, force: bool) -> Result<(), Failure> {
    if !force && key_store::read(KEY_NAME).map_err(|problem| refused(&problem))?.is_some() {
        return Err(Failure::usage(format!("{} has a key of ours already", key_store::NAME))
            .with_hint("--force replaces it, and what was encrypted with it cannot be read any more"));
    }
    key_store::write(KEY_NAME, &key.to_text()).map_err(|problem| refused(&problem))
}

/// In the order in which they are asked.
fn place_of(sources: &KeySources) -> String {
    if let Some(path) = &sources.file {
        path.display().to_string()
    } else if std::env::var_os(KEY_VARIABLE).is_some_and(|value| !value.is_empty()) {
        KEY_VARIABLE.to_owned()
    } else {
        key_store::NAME.to_owned()
    }
}

fn refused(problem: &str) -> Failure {
    Failure::new(FailureKind::Permission, format!("{} cannot be used: {problem}", key_store::NAME))
        .with_hint("keep the key in a file: `ortscope key new -o FILE`, then --key-file FILE")
}
