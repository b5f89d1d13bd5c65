//! Who a row belongs to. Process ids are reused, so a process is its id and its start time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A process, distinguishable from a later one with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// When it started, in the system's own unit (clock ticks since boot on Linux, 100 ns since 1601 on Windows):
    /// only compared for equality.
    pub start: u64,
}

/// One ONNX Runtime session of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionId(pub Uuid);

impl SessionId {
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The session with this name. The same name always gives the same id.
    pub fn named(name: &[u8]) -> Self {
        /// Drawn once for ortscope; names of others give other sessions.
        const NAMESPACE: Uuid = Uuid::from_u128(0x6f16_5b0e_21c4_4d0c_9d5a_7d60_8f2c_3ab1);
        Self(Uuid::new_v5(&NAMESPACE, name))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for SessionId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}
