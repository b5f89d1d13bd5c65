//! Providers that need nothing but a key of the generic function, or one options struct.

use super::{DeviceClass, ExecutionProvider, ProviderOptions, Target};
use crate::OrtError;

/// How a provider without peculiarities is appended.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// The key, and the minor version that first knows it.
    Key(&'static str, u32),
    Dnnl,
    Cann,
}

#[derive(Debug)]
pub(super) struct Generic {
    aliases: &'static [&'static str],
    ort_name: &'static str,
    class: DeviceClass,
    way: Way,
}

pub(super) const KNOWN: &[Generic] = &[
    Generic {
        aliases: &["xnnpack"],
        ort_name: "XnnpackExecutionProvider",
        class: DeviceClass::Cpu,
        way: Way::Key("XNNPACK", 15),
    },
    Generic {
        aliases: &["snpe"],
        ort_name: "SNPEExecutionProvider",
        class: DeviceClass::Npu,
        way: Way::Key("SNPE", 15),
    },
    Generic {
        aliases: &["azure"],
        ort_name: "AzureExecutionProvider",
        class: DeviceClass::Cpu,
        way: Way::Key("AZURE", 15),
    },
    Generic {
        aliases: &["webnn"],
        ort_name: "WebNNExecutionProvider",
        class: DeviceClass::Gpu,
        way: Way::Key("WEBNN", 16),
    },
    Generic {
        aliases: &["nvtensorrtrtx", "trt-rtx"],
        ort_name: "NvTensorRTRTXExecutionProvider",
        class: DeviceClass::Gpu,
        way: Way::Key("NvTensorRtRtx", 22),
    },
    Generic {
        aliases: &["dnnl", "onednn"],
        ort_name: "DnnlExecutionProvider",
        class: DeviceClass::Cpu,
        way: Way::Dnnl,
    },
    Generic {
        aliases: &["cann"],
        ort_name: "CANNExecutionProvider",
        class: DeviceClass::Npu,
        way: Way::Cann,
    },
];

impl ExecutionProvider for Generic {
    fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    fn ort_name(&self) -> &'static str {
        self.ort_name
    }

    fn device_class(&self, _options: &ProviderOptions) -> DeviceClass {
        self.class
    }

    fn append(&self, target: &Target<'_>, options: &ProviderOptions) -> Result<(), OrtError> {
        match self.way {
            Way::Key(key, since) => target.generic_since(self.ort_name, since, key, options),
            Way::Dnnl => target.dnnl(options),
            Way::Cann => target.cann(options),
        }
    }
}
