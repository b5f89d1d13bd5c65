//! `ortscope token`: who may use the server.

use ortscope_server::security::audit::{Audit, Event};
use ortscope_server::security::tokens::{Token, TokenFile};
use ortscope_server::security::{Role, unix_millis};
use serde_json::json;

use super::serve::state_directory;
use crate::args::{GlobalArgs, RoleArg, TokenAction, TokenArgs};
use crate::exit::{Exit, Failure};
use crate::terminal::{self, DIM, Terminal};
use crate::values;

fn role(argument: RoleArg) -> Role {
    match argument {
        RoleArg::Viewer => Role::Viewer,
        RoleArg::Operator => Role::Operator,
        RoleArg::Admin => Role::Admin,
    }
}

fn token_json(token: &Token) -> serde_json::Value {
    json!({
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "created_unix_ms": token.created_unix_ms,
        "expires_unix_ms": token.expires_unix_ms,
        "expired": token.is_expired(unix_millis()),
    })
}

/// Milliseconds of `12h`, `90d` or what durations look like elsewhere.
fn lifetime(text: &str) -> Result<u64, Failure> {
    let days =
        text.strip_suffix('d').and_then(|days| days.trim().parse::<f64>().ok()).map(|days| days * 86_400.0);
    let seconds = match days {
        Some(seconds) => seconds,
        None => values::duration_seconds(text).map_err(Failure::usage)?,
    };
    if seconds.is_finite() && seconds > 0.0 && seconds < 1e10 {
        Ok((seconds * 1000.0) as u64)
    } else {
        Err(Failure::usage(format!("'{text}' is no time that a token can last")))
    }
}

pub fn run(args: &TokenArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let state = state_directory(&args.state, global)?;
    let file = TokenFile::new(&state);
    let noted = |what: &str, detail: String| -> Result<(), Failure> {
        let event = Event { who: "command line".into(), what: what.into(), detail, ..Event::default() };
        Audit::start(&state)?.note_now(event);
        Ok(())
    };
    match &args.action {
        TokenAction::Create { name, role: wanted, expires } => {
            let expires = expires
                .as_deref()
                .map(lifetime)
                .transpose()?
                .map(|lasts| unix_millis().saturating_add(lasts));
            let (token, secret) = file.create(name, role(*wanted), expires)?;
            noted("token create", format!("{} {} {}", token.id, token.role.name(), token.name))?;
            if terminal.json {
                let mut document = token_json(&token);
                document["schema"] = "ortscope.token.create/1".into();
                document["token"] = secret.into();
                terminal::print_data(&(document.to_string() + "\n"));
            } else {
                terminal::print_data(&(secret + "\n"));
                if !terminal.quiet {
                    let note = format!(
                        "{} '{}' ({}); it is not shown again",
                        token.id,
                        token.name,
                        token.role.name()
                    );
                    terminal::print_error(&terminal.paint(DIM, &note));
                }
            }
        }
        TokenAction::List => {
            let tokens = file.list()?;
            if terminal.json {
                let list: Vec<_> = tokens.iter().map(token_json).collect();
                terminal::print_data(
                    &(json!({ "schema": "ortscope.token.list/1", "tokens": list }).to_string() + "\n"),
                );
            } else {
                for token in &tokens {
                    let state = if token.is_expired(unix_millis()) { "expired" } else { "" };
                    let line =
                        format!("{}  {:<9} {:<8} {}\n", token.id, token.role.name(), state, token.name);
                    terminal::print_data(&line);
                }
                if tokens.is_empty() && !terminal.quiet {
                    terminal::print_error("there are no tokens; 'ortscope token create NAME' makes one");
                }
            }
        }
        TokenAction::Revoke { token } => {
            let revoked = file.revoke(token)?.ok_or_else(|| {
                Failure::usage(format!("there is no token '{token}'"))
                    .with_hint("'ortscope token list' shows them")
            })?;
            noted("token revoke", format!("{} {}", revoked.id, revoked.name))?;
            if terminal.json {
                let mut document = token_json(&revoked);
                document["schema"] = "ortscope.token.revoke/1".into();
                terminal::print_data(&(document.to_string() + "\n"));
            } else {
                terminal::print_data(&format!("{}  {} is worthless now\n", revoked.id, revoked.name));
            }
        }
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_times() {
        assert_eq!(lifetime("90d").ok(), Some(90 * 86_400_000));
        assert_eq!(lifetime("12h").ok(), Some(12 * 3_600_000));
        for bad in ["", "0d", "-1d", "soon", "1e99d"] {
            assert!(lifetime(bad).is_err(), "{bad}");
        }
    }
}
