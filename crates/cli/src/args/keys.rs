//! `ortscope key`, and the flag of every command that makes a recording.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Default, Clone, Copy, Args)]
pub struct EncryptArgs {
    /// Encrypt the recording with the key of --key-file, ORTSCOPE_KEY or the system's key store ('ortscope key new' makes one)
    #[arg(long, help_heading = "Recording")]
    pub encrypt: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope key new -o ~/.config/ortscope/key       a file that only you can read
  ortscope run model.onnx --encrypt --key-file ~/.config/ortscope/key
  ortscope key new --system -o backup.key          into the system's key store: no flag is needed then
  ortscope key keep backup.key                     the same key into the key store again, after a restart
  ortscope key id                                  which key is used, and where it was found
  ortscope key forget                              out of the system's key store

What was encrypted with a key cannot be read without it, by nobody: keep a copy. To destroy all
recordings of a key for good, destroy the key.")]
pub struct KeyArgs {
    #[command(subcommand)]
    pub action: KeyAction,
}

#[derive(Debug, Subcommand)]
pub enum KeyAction {
    /// Make a key; without -o or --system it is printed, for ORTSCOPE_KEY
    New {
        /// The file to write, for your eyes only; it must not exist
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Keep it in the system's key store: the kernel's keyring until the next start (Linux), the credentials of the user
        /// (Windows). Without -o it is shown too, so that there can be a copy
        #[arg(long)]
        system: bool,
        /// Replace the key that is there: what was encrypted with it cannot be read any more
        #[arg(long, requires = "system")]
        force: bool,
    },
    /// Put a key into the system's key store
    Keep {
        /// A file that 'ortscope key new -o' wrote
        file: PathBuf,
        /// Replace another key that is there: what was encrypted with that one cannot be read any more
        #[arg(long)]
        force: bool,
    },
    /// Say which key recordings are encrypted with: its id, never the key
    Id,
    /// Remove the key from the system's key store: what was encrypted with it cannot be read any more
    Forget,
}
