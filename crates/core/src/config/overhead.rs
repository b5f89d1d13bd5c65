//! How much observing may cost, by use case: one table for the program and the Python package.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where ortscope runs, which decides how much it may disturb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UseCase {
    Development,
    Testing,
    Staging,
    Production,
    Critical,
}

/// Percent of one core that observing may take, per use case.
pub const OVERHEAD_LIMITS: [(UseCase, f64); 5] = [
    (UseCase::Development, 50.0),
    (UseCase::Testing, 20.0),
    (UseCase::Staging, 10.0),
    (UseCase::Production, 5.0),
    (UseCase::Critical, 2.0),
];

impl UseCase {
    pub fn name(self) -> &'static str {
        match self {
            Self::Development => "development",
            Self::Testing => "testing",
            Self::Staging => "staging",
            Self::Production => "production",
            Self::Critical => "critical",
        }
    }

    pub fn overhead_limit_percent(self) -> f64 {
        match self {
            Self::Development => 50.0,
            Self::Testing => 20.0,
            Self::Staging => 10.0,
            Self::Production => 5.0,
            Self::Critical => 2.0,
        }
    }
}

impl FromStr for UseCase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        OVERHEAD_LIMITS.iter().map(|(case, _)| *case).find(|case| case.name() == text).ok_or_else(|| {
            format!("'{text}' is not a use case: development, testing, staging, production or critical")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_the_names_agree() {
        for (case, limit) in OVERHEAD_LIMITS {
            assert_eq!(case.overhead_limit_percent(), limit);
            assert_eq!(case.name().parse(), Ok(case));
        }
        assert!("prod".parse::<UseCase>().is_err());
    }
}
