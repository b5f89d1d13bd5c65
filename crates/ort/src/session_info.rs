//! A session's description of its model and of the placement of its nodes.
#![expect(unsafe_code, reason = "reads descriptions from C objects")]

use std::collections::BTreeMap;
use std::ptr;

use ort_sys as sys;
use serde::{Deserialize, Serialize};

use crate::api::Api;
use crate::{OrtError, text};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelMetadata {
    pub producer: String,
    pub graph_name: String,
    pub domain: String,
    pub description: String,
    pub graph_description: String,
    pub version: i64,
    pub custom: BTreeMap<String, String>,
}

/// Nodes that one provider took together. On the CPU every node is a separate subgraph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignedSubgraph {
    pub provider: String,
    pub nodes: Vec<AssignedNode>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignedNode {
    pub name: String,
    pub domain: String,
    pub op_type: String,
}

/// # Safety
/// `session` is alive.
pub(crate) unsafe fn metadata(api: Api, session: *mut sys::OrtSession) -> Result<ModelMetadata, OrtError> {
    let allocator = text::default_allocator(api)?;
    // SAFETY: the session is alive by contract, the metadata until its handle drops; every string and the array of
    // keys come from `allocator` and go back to it.
    unsafe {
        let handle = create!(api, SessionGetModelMetadata(session), ReleaseModelMetadata)?;
        let raw = handle.as_ptr();
        macro_rules! string {
            ($function:ident) => {{
                let mut value = ptr::null_mut();
                call!(api, $function(raw, allocator, &raw mut value))?;
                text::take(api, allocator, value)?
            }};
        }
        let mut found = ModelMetadata {
            producer: string!(ModelMetadataGetProducerName),
            graph_name: string!(ModelMetadataGetGraphName),
            domain: string!(ModelMetadataGetDomain),
            description: string!(ModelMetadataGetDescription),
            graph_description: string!(ModelMetadataGetGraphDescription),
            ..ModelMetadata::default()
        };
        call!(api, ModelMetadataGetVersion(raw, &raw mut found.version))?;

        let (mut keys, mut count) = (ptr::null_mut(), 0i64);
        call!(api, ModelMetadataGetCustomMetadataMapKeys(raw, allocator, &raw mut keys, &raw mut count))?;
        for index in 0..usize::try_from(count).unwrap_or(0) {
            let key = *keys.add(index);
            let mut value = ptr::null_mut();
            let looked_up =
                call!(api, ModelMetadataLookupCustomMetadataMap(raw, allocator, key, &raw mut value));
            let key = text::take(api, allocator, key)?;
            looked_up?;
            found.custom.insert(key, text::take(api, allocator, value)?);
        }
        if !keys.is_null() {
            call!(api, AllocatorFree(allocator, keys.cast()))?;
        }
        Ok(found)
    }
}

/// # Safety
/// `session` is alive.
pub(crate) unsafe fn placement(
    api: Api,
    session: *const sys::OrtSession,
) -> Result<Vec<AssignedSubgraph>, OrtError> {
    let (mut subgraphs, mut count) = (ptr::null(), 0usize);
    // SAFETY: the session is alive by contract and owns everything these functions point to.
    unsafe {
        call!(api, Session_GetEpGraphAssignmentInfo(session, &raw mut subgraphs, &raw mut count))?;
        (0..count)
            .map(|index| {
                let subgraph = *subgraphs.add(index);
                let mut provider = ptr::null();
                call!(api, EpAssignedSubgraph_GetEpName(subgraph, &raw mut provider))?;
                let (mut nodes, mut node_count) = (ptr::null(), 0usize);
                call!(api, EpAssignedSubgraph_GetNodes(subgraph, &raw mut nodes, &raw mut node_count))?;
                let nodes = (0..node_count).map(|index| assigned_node(api, *nodes.add(index)));
                Ok(AssignedSubgraph {
                    provider: text::copy(provider),
                    nodes: nodes.collect::<Result<_, _>>()?,
                })
            })
            .collect()
    }
}

/// # Safety
/// `node` is alive.
unsafe fn assigned_node(api: Api, node: *const sys::OrtEpAssignedNode) -> Result<AssignedNode, OrtError> {
    let (mut name, mut domain, mut op_type) = (ptr::null(), ptr::null(), ptr::null());
    // SAFETY: alive by contract; the strings belong to the node.
    unsafe {
        call!(api, EpAssignedNode_GetName(node, &raw mut name))?;
        call!(api, EpAssignedNode_GetDomain(node, &raw mut domain))?;
        call!(api, EpAssignedNode_GetOperatorType(node, &raw mut op_type))?;
        Ok(AssignedNode { name: text::copy(name), domain: text::copy(domain), op_type: text::copy(op_type) })
    }
}

/// Statistics of the session's CPU arena; `None` if it has none.
///
/// # Safety
/// `session` is alive.
pub(crate) unsafe fn allocator_stats(
    api: Api,
    session: *const sys::OrtSession,
) -> Result<Option<BTreeMap<String, String>>, OrtError> {
    let (arena, kind) = (sys::OrtAllocatorType::OrtArenaAllocator, sys::OrtMemType::OrtMemTypeDefault);
    // SAFETY: the session is alive by contract and outlives its allocator here; handles release the created objects.
    unsafe {
        // Asked first: on older libraries nothing below is worth doing.
        slot!(api, AllocatorGetStats)?;
        let memory = create!(api, CreateCpuMemoryInfo(arena, kind), ReleaseMemoryInfo)?;
        let allocator = create!(api, CreateAllocator(session, memory.as_ptr()), ReleaseAllocator)?;
        let pairs = create!(api, AllocatorGetStats(allocator.as_ptr()), ReleaseKeyValuePairs)?;
        let stats = text::pairs(api, pairs.as_ptr())?;
        Ok((!stats.is_empty()).then_some(stats))
    }
}
