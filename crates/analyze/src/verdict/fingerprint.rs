//! Whether two measurements were made on the same machine with the same software: only then they can be compared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Memory that the firmware leaves differs by a few pages from boot to boot.
const MEMORY_TOLERANCE: f64 = 0.02;
/// Prefix of facts that are versions of provider libraries. The providers may be what is compared, so one that only
/// one side uses is not a difference.
pub const PROVIDER_FACT: &str = "provider_";

/// A fact that differs; `null`: this recording does not have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    pub fact: String,
    pub a: Option<String>,
    pub b: Option<String>,
}

impl Difference {
    pub fn sentence(&self) -> String {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
        format!("{} ({} against {})", self.fact.replace('_', " "), shown(&self.a), shown(&self.b))
    }
}

/// Facts that differ between two fingerprints. A fact that one of them lacks counts as a difference, because equality
/// is unknown.
pub fn differences(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Vec<Difference> {
    let mut facts: Vec<&String> = a.keys().chain(b.keys()).collect();
    facts.sort();
    facts.dedup();
    facts
        .into_iter()
        .filter(|fact| !same(fact, a.get(*fact), b.get(*fact)))
        .map(|fact| Difference { fact: fact.clone(), a: a.get(fact).cloned(), b: b.get(fact).cloned() })
        .collect()
}

fn same(fact: &str, a: Option<&String>, b: Option<&String>) -> bool {
    if fact == "memory_bytes"
        && let (Some(Ok(a)), Some(Ok(b))) = (a.map(|a| a.parse::<f64>()), b.map(|b| b.parse::<f64>()))
    {
        return (a - b).abs() <= MEMORY_TOLERANCE * a.max(b);
    }
    a == b || fact.starts_with(PROVIDER_FACT) && (a.is_none() || b.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(fact, value)| ((*fact).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_relevant_facts_differ() {
        let a = facts(&[("cpu_model", "X"), ("logical_cpus", "2"), ("memory_bytes", "8000000000")]);
        let mut b = a.clone();
        b.insert("memory_bytes".into(), "8010000000".into());
        assert_eq!(differences(&a, &b), []);
        b.insert("memory_bytes".into(), "16000000000".into());
        b.insert("governor".into(), "powersave".into());
        let found: Vec<String> = differences(&a, &b).iter().map(Difference::sentence).collect();
        assert_eq!(
            found,
            ["governor (unknown against powersave)", "memory bytes (8000000000 against 16000000000)"]
        );
    }

    #[test]
    fn a_driver_on_one_side_differs_a_provider_does_not() {
        let plain = facts(&[("cpu_model", "X")]);
        let with_driver = facts(&[("cpu_model", "X"), ("driver_nvidia", "550.54.14")]);
        assert_eq!(differences(&plain, &with_driver).len(), 1);
        let qnn = |version: &str| facts(&[("cpu_model", "X"), ("provider_QNN", version)]);
        assert_eq!(differences(&plain, &qnn("2.31")), []);
        let found = differences(&qnn("2.31"), &qnn("2.32"));
        assert_eq!(found[0].sentence(), "provider QNN (2.31 against 2.32)");
    }
}
