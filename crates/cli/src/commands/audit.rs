//! `ortscope audit`: who did what with the server, and whether the log of it is whole.

use ortscope_server::security::audit::{entries, verify};
use serde_json::json;

use super::serve::state_directory;
use crate::args::{AuditAction, AuditArgs, GlobalArgs};
use crate::exit::{Exit, Failure};
use crate::terminal::{self, GOOD, Terminal, WARN};
use ortscope_core::units;

pub fn run(args: &AuditArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let state = state_directory(&args.state, global)?;
    match &args.action {
        AuditAction::Show { limit } => {
            let entries = entries(&state, *limit as usize)?;
            if terminal.json {
                let document = json!({ "schema": "ortscope.audit.show/1", "entries": entries });
                terminal::print_data(&(document.to_string() + "\n"));
                return Ok(Exit::Ok);
            }
            for entry in &entries {
                let event = &entry.event;
                let who = if event.who.is_empty() { "-" } else { &event.who };
                let line = format!(
                    "{}  {:<15} {:<12} {:>3}  {}  {}",
                    units::utc(entry.unix_ms.saturating_mul(1_000_000)),
                    event.ip,
                    units::clean(who, 12),
                    event.status,
                    units::clean(&event.what, 80),
                    units::clean(&event.detail, 80)
                );
                terminal::print_data(&(line.trim_end().to_owned() + "\n"));
            }
            Ok(Exit::Ok)
        }
        AuditAction::Verify => {
            let verified = verify(&state)?;
            let is_whole = verified.problems.is_empty();
            if terminal.json {
                let mut document = serde_json::to_value(&verified).map_err(Failure::internal)?;
                document["schema"] = "ortscope.audit.verify/1".into();
                terminal::print_data(&(document.to_string() + "\n"));
            } else {
                for note in &verified.notes {
                    terminal::print_error(&format!("note: {note}"));
                }
                for problem in &verified.problems {
                    terminal::print_data(&format!("{} {problem}\n", terminal.paint(WARN, "changed:")));
                }
                if is_whole {
                    let count = units::counted(verified.entries, "entry").replace("entrys", "entries");
                    let logs = units::counted(verified.chains, "log");
                    terminal::print_data(&format!(
                        "{} {count} in {logs} follow one another\n",
                        terminal.paint(GOOD, "whole:")
                    ));
                }
            }
            Ok(if is_whole { Exit::Ok } else { Exit::DataLost })
        }
    }
}
