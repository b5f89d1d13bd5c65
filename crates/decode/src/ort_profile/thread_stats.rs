//! How the threads of a session shared the work of one node (`thread_scheduling_stats`).

use std::collections::BTreeMap;

use serde::Deserialize;

/// Maximum length: no machine has so many threads.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// How the intra-op threads shared the work of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadStats {
    pub pool_name: String,
    /// Processor of the calling thread when it last distributed work; `None` if it never did.
    pub core: Option<u64>,
    /// Block sizes of each distribution of work.
    pub blocks: Vec<i64>,
    /// Activity of the calling thread, in microseconds.
    pub distribution_us: u64,
    pub distribution_enqueue_us: u64,
    pub run_us: u64,
    pub wait_us: u64,
    pub wait_revoke_us: u64,
    /// Other threads of the pool.
    pub helpers: usize,
    /// Blocks that the other threads have run since the pool was created.
    pub helper_runs: u64,
}

#[derive(Deserialize)]
struct Raw {
    main_thread: RawMain,
    #[serde(default)]
    sub_threads: BTreeMap<String, RawSub>,
}

#[derive(Deserialize)]
struct RawMain {
    #[serde(default)]
    thread_pool_name: String,
    #[serde(default)]
    block_size: Vec<i64>,
    #[serde(default)]
    core: i64,
    #[serde(default, rename = "Distribution")]
    distribution: u64,
    #[serde(default, rename = "DistributionEnqueue")]
    distribution_enqueue: u64,
    #[serde(default, rename = "Run")]
    run: u64,
    #[serde(default, rename = "Wait")]
    wait: u64,
    #[serde(default, rename = "WaitRevoke")]
    wait_revoke: u64,
}

#[derive(Deserialize)]
struct RawSub {
    #[serde(default)]
    num_run: u64,
}

impl ThreadStats {
    /// `None` for an empty text (a session with one thread) and for unreadable ones.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > MAX_TEXT_BYTES {
            return None;
        }
        let Raw { main_thread: main, sub_threads } = serde_json::from_str(text).ok()?;
        Some(Self {
            pool_name: main.thread_pool_name,
            core: u64::try_from(main.core).ok(),
            blocks: main.block_size,
            distribution_us: main.distribution,
            distribution_enqueue_us: main.distribution_enqueue,
            run_us: main.run,
            wait_us: main.wait,
            wait_revoke_us: main.wait_revoke,
            helpers: sub_threads.len(),
            helper_runs: sub_threads.values().fold(0, |sum, sub| sum.saturating_add(sub.num_run)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_of_1_24_is_parsed() {
        let text = r#"{"main_thread": {"thread_pool_name": "session-1-intra-op", "thread_id": "140351491013504",
            "block_size": [16, 8], "core": 1, "Distribution": 2, "DistributionEnqueue": 3, "Run": 40, "Wait": 5,
            "WaitRevoke": 0}, "sub_threads": {"thread::id of a non-executing thread": {"num_run": 0, "core": -1},
            "140351327172288": {"num_run": 9, "core": 0}}}"#;
        let stats = ThreadStats::parse(text).unwrap();
        assert_eq!((stats.core, stats.run_us, stats.wait_us), (Some(1), 40, 5));
        assert_eq!((stats.blocks, stats.helpers, stats.helper_runs), (vec![16, 8], 2, 9));
        let idle = r#"{"main_thread": {"core": -1}, "sub_threads": {}}"#;
        assert_eq!(ThreadStats::parse(idle).unwrap().core, None);
    }

    #[test]
    fn empty_and_invalid_texts_are_rejected() {
        for text in ["", "{}", "[]", r#"{"main_thread": 1}"#, r#"{"main_thread": {"Run": -1}}"#] {
            assert_eq!(ThreadStats::parse(text), None, "{text}");
        }
    }
}
