//! Engine times of an adapter from the graphics kernel's statistics (D3DKMT): the last resort if neither the adapter nor
//! performance counters report them. The interface is not documented for applications, but stable.

use std::mem::transmute;

use windows_sys::Wdk::Graphics::Direct3D::{
    D3DKMT_QUERYSTATISTICS, D3DKMT_QUERYSTATISTICS_0, D3DKMT_QUERYSTATISTICS_ADAPTER,
    D3DKMT_QUERYSTATISTICS_NODE, D3DKMT_QUERYSTATISTICS_QUERY_NODE,
};
use windows_sys::Win32::Foundation::LUID;

use super::native::{Function, system_library};
use crate::devices::adapters::{AdapterState, StateApi};

/// Running times are in units of 100 ns. Microsoft's documentation of the structure gives no unit, and a comment in the
/// header says microseconds; but System Informer and LibreHardwareMonitor, which show the same figure as the Task
/// Manager, both use units of 100 ns: the first converts performance counter ticks to 10 MHz, the second uses .NET
/// ticks. On most machines the performance counter runs at 10 MHz, so that both are the same. With a wrong unit engines
/// would be busy for longer than the elapsed time, which is rejected.
const NANOS_PER_UNIT: u64 = 100;
/// Limit for engines per adapter.
const MAX_NODES: u32 = 64;

type Query = unsafe extern "system" fn(*mut D3DKMT_QUERYSTATISTICS) -> i32;

/// Its library also loads the windowing libraries, so it is loaded on demand.
#[derive(Default)]
pub(super) struct KernelStatistics {
    query: Option<Option<Query>>,
}

/// `None` if the function does not exist.
fn load() -> Option<Query> {
    let query = system_library("gdi32.dll", c"D3DKMTQueryStatistics")?;
    // SAFETY: this is the function's signature in the driver kit's header.
    Some(unsafe { transmute::<Function, Query>(query) })
}

impl KernelStatistics {
    /// `None` if the kernel refuses.
    fn query_statistics(&mut self, kind: i32, id: u64, node: u32) -> Option<D3DKMT_QUERYSTATISTICS> {
        let query = (*self.query.get_or_insert_with(load))?;
        let mut question = D3DKMT_QUERYSTATISTICS {
            Type: kind,
            AdapterLuid: LUID { LowPart: id as u32, HighPart: (id >> 32) as i32 },
            Anonymous: D3DKMT_QUERYSTATISTICS_0 {
                QueryNode: D3DKMT_QUERYSTATISTICS_QUERY_NODE { NodeId: node },
            },
            ..D3DKMT_QUERYSTATISTICS::default()
        };
        // SAFETY: the structure is live, has the header's layout, and holds the answer too.
        let status = unsafe { query(&mut question) };
        (status >= 0).then_some(question)
    }
}

impl StateApi for KernelStatistics {
    fn source(&self) -> &'static str {
        "d3dkmt"
    }

    fn is_last_resort(&self) -> bool {
        true
    }

    fn state(&mut self, id: u64) -> Option<AdapterState> {
        let adapter = self.query_statistics(D3DKMT_QUERYSTATISTICS_ADAPTER, id, 0)?;
        // SAFETY: the kernel fills this member for this query; any bits are valid numbers.
        let nodes = unsafe { adapter.QueryResult.AdapterInformation.NodeCount }.min(MAX_NODES);
        let times = (0..nodes).map_while(|node| {
            let answer = self.query_statistics(D3DKMT_QUERYSTATISTICS_NODE, id, node)?;
            // SAFETY: as above.
            let time = unsafe { answer.QueryResult.NodeInformation.GlobalInformation.RunningTime };
            u64::try_from(time).ok()?.checked_mul(NANOS_PER_UNIT)
        });
        Some(AdapterState { engines_ns: times.collect(), ..AdapterState::default() })
    }
}
