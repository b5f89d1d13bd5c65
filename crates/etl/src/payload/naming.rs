//! Names of events and of their providers.

use std::borrow::Cow;

use super::SchemaStore;
use super::kernel::{class_of_hook, classic_name, hook_name};
use super::trace_logging::TraceLogging;
use crate::{EventRecord, Guid, Identity};

/// The provider name of all kernel events.
const KERNEL: &str = "Windows Kernel";

/// The name of an event. Where no name is known, the fields are made from its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventName<'a> {
    pub provider: Cow<'a, str>,
    /// The provider's GUID, or the class of kernel and classic events.
    pub guid: Option<Guid>,
    pub event: Cow<'a, str>,
    pub version: u16,
}

impl SchemaStore {
    /// The name of a record's event, as far as the kernel's tables, the record or the schemas know it.
    pub fn event_name<'a>(&'a self, record: &EventRecord<'a>) -> EventName<'a> {
        match record.identity {
            Identity::Kernel { hook, version } => EventName {
                provider: KERNEL.into(),
                guid: class_of_hook(hook),
                event: hook_name(hook).map_or_else(|| format!("{:#06x}", hook.0).into(), Cow::Borrowed),
                version,
            },
            Identity::Classic(classic) => {
                let schema = self.schema(record).map(|(_, schema)| schema);
                let known = classic_name(&classic).map(Cow::Borrowed);
                let of_schema = || schema.map(|schema| Cow::Owned(schema.event_name()));
                EventName {
                    provider: match schema.map(|schema| &*schema.provider).filter(|name| !name.is_empty()) {
                        Some(name) => Cow::Borrowed(name),
                        None if known.is_some() => KERNEL.into(),
                        None => classic.class.to_string().into(),
                    },
                    guid: Some(classic.class),
                    event: known
                        .or_else(of_schema)
                        .filter(|name| !name.is_empty())
                        .unwrap_or_else(|| format!("type {}", classic.kind).into()),
                    version: classic.version,
                }
            }
            Identity::Event { provider, descriptor } => {
                let version = u16::from(descriptor.version);
                if let Some(event) = TraceLogging::of(record) {
                    return EventName {
                        provider: event
                            .provider_name
                            .map_or_else(|| Cow::Owned(provider.to_string()), Cow::Borrowed),
                        guid: Some(provider),
                        event: event.event_name.into(),
                        version,
                    };
                }
                let schema = self.schema(record).map(|(_, schema)| schema);
                let provider_name = schema.map(|schema| &*schema.provider).filter(|name| !name.is_empty());
                EventName {
                    provider: provider_name.map_or_else(|| Cow::Owned(provider.to_string()), Cow::Borrowed),
                    guid: Some(provider),
                    event: schema
                        .map(|schema| Cow::<str>::Owned(schema.event_name()))
                        .filter(|name| !name.is_empty())
                        .unwrap_or_else(|| format!("id {}", descriptor.id).into()),
                    version,
                }
            }
            Identity::Message(message) => EventName {
                provider: "WPP".into(),
                guid: message.guid,
                event: format!("message {}", message.number).into(),
                version: 0,
            },
            Identity::Error => {
                EventName { provider: "logger".into(), guid: None, event: "error marker".into(), version: 0 }
            }
        }
    }
}
