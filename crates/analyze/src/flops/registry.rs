//! Which formula counts which operator.
//!
//! Operators are found by type: profiles do not name domains, and where two domains share a name (`Conv`, `Attention`)
//! the formula tells them apart by their inputs. A domain nobody knows is never counted by the name of its operators.

use super::count::{Gap, Work};
use super::facts::OpFacts;
use super::{
    attention, contraction, convolution, elementwise, fourier, movement, normalization, recurrent, resample,
    uncounted,
};

const DOMAINS: &[&str] = &[
    "",
    "ai.onnx",
    "ai.onnx.ml",
    "com.microsoft",
    "com.microsoft.experimental",
    "com.microsoft.nchwc",
    "com.ms.internal.nhwc",
];

pub(super) fn work(op: &OpFacts) -> Result<Work, Gap> {
    if !DOMAINS.contains(&op.domain.as_str()) {
        return Err(Gap::new(format!("operators of the domain {} are not known", op.domain)));
    }
    // Each family answers `None` for operators that are not its own.
    let families = [
        elementwise::work,
        movement::work,
        contraction::work,
        convolution::work,
        normalization::work,
        attention::work,
        recurrent::work,
        resample::work,
        fourier::work,
    ];
    if let Some(work) = families.iter().find_map(|family| family(op)) {
        return work;
    }
    Err(Gap::new(uncounted::reason(&op.op_type)))
}
