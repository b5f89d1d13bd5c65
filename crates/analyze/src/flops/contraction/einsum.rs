//! `Einsum`: every letter is a loop.

use std::collections::BTreeMap;

use crate::flops::count::{Count, Gap, Work};
use crate::flops::facts::OpFacts;

/// Sizes of an equation's letters. Dimensions under an ellipsis get numbers for names.
type Sizes = BTreeMap<Label, u64>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Letter(char),
    /// Counted from the right, as broadcasting does.
    Ellipsis(usize),
}

pub(super) fn work(op: &OpFacts) -> Result<Work, Gap> {
    let equation = op.text("equation").ok_or_else(|| Gap::new("the attribute equation is missing"))?;
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != op.inputs.len() {
        return Err(Gap::new(format!(
            "the equation has {} operands, the node {}",
            terms.len(),
            op.inputs.len()
        )));
    }
    let mut sizes = Sizes::new();
    for (index, term) in terms.iter().enumerate() {
        bind(term, op.input_shape(index)?, &mut sizes)?;
    }
    let output = match right {
        Some(right) => right.chars().filter(|c| *c != '.').map(Label::Letter).collect(),
        None => implicit_output(&terms),
    };
    let is_summed = sizes.keys().any(|label| matches!(label, Label::Letter(_)) && !output.contains(label));
    let loops: Count = sizes.values().map(|size| Count::from(*size)).product();
    Ok(match (terms.len(), is_summed) {
        (1, false) => Work::movement(),
        (1, true) => Work::elementwise(op.read(0)?),
        (2, false) => Work::elementwise(loops),
        (2, true) => Work::macs(loops),
        (operands, _) => Work::macs(loops * (operands as u64 - 1))
            .estimated("all operands in one loop; runtimes contract them in pairs, which is less"),
    })
}

/// Without an arrow the output has the letters that occur once.
fn implicit_output(terms: &[&str]) -> Vec<Label> {
    let letters: Vec<char> = terms.concat().chars().filter(|c| *c != '.').collect();
    let once = |c: &&char| letters.iter().filter(|other| other == c).count() == 1;
    letters.iter().filter(once).copied().map(Label::Letter).collect()
}

fn bind(term: &str, shape: &[u64], sizes: &mut Sizes) -> Result<(), Gap> {
    let mismatch = || Gap::new(format!("the term {term} does not fit an input of rank {}", shape.len()));
    let (before, after, dots) = match term.split_once("...") {
        Some((before, after)) => (before, after, true),
        None => (term, "", false),
    };
    let named = before.chars().count() + after.chars().count();
    let hidden = shape.len().checked_sub(named).ok_or_else(mismatch)?;
    if hidden > 0 && !dots {
        return Err(mismatch());
    }
    let labels = before
        .chars()
        .map(Label::Letter)
        .chain((0..hidden).rev().map(Label::Ellipsis))
        .chain(after.chars().map(Label::Letter));
    for (label, size) in labels.zip(shape) {
        let known = sizes.entry(label).or_insert(*size);
        // Size 1 stretches.
        if *known == 1 {
            *known = *size;
        } else if *size != 1 && *size != *known {
            return Err(Gap::new(format!("two sizes for one letter of {term}: {known} and {size}")));
        }
    }
    Ok(())
}
