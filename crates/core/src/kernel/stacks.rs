//! Samples added up: how often each stack was seen, under names.
//!
//! Frames and stacks are numbered once and counted afterwards. Both are bounded; what goes beyond is counted as a stack of
//! its own, so that the sum stays the number of samples.

use std::collections::HashMap;
use std::sync::Arc;

/// Different frames that are kept: 200,000. Further ones are the frame `(more functions)`.
const MAX_NAMES: usize = 200_000;
/// Different stacks that are kept: 200,000. Samples of further ones are counted for `(more stacks)`.
const MAX_STACKS: usize = 200_000;

/// What a frame is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameKind {
    /// The process, at the root.
    Process,
    Native,
    Kernel,
    Python,
    /// Code that the program made while it ran.
    Jit,
    /// Not a function: what is missing, in words.
    Note,
}

/// A function, as people know it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    pub name: Arc<str>,
    /// The file it stands in, without directories; empty where there is none.
    pub module: Arc<str>,
    pub kind: FrameKind,
}

/// A frame's number in its [`StackProfile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(u32);

/// How often each stack was seen.
#[derive(Debug, Clone, Default)]
pub struct StackProfile {
    frames: Vec<Frame>,
    numbers: HashMap<Frame, FrameId>,
    /// By frames, the outermost first.
    stacks: HashMap<Box<[FrameId]>, u64>,
    samples: u64,
}

/// How much of the samples a function has.
#[derive(Debug, Clone, PartialEq)]
pub struct HotFunction {
    pub frame: Frame,
    /// Samples in the function itself.
    pub own: u64,
    /// Samples in it or in what it called.
    pub total: u64,
}

impl StackProfile {
    pub fn frame(&mut self, frame: Frame) -> FrameId {
        if let Some(known) = self.numbers.get(&frame) {
            return *known;
        }
        if self.frames.len() >= MAX_NAMES {
            let more = Frame { name: "(more functions)".into(), module: "".into(), kind: FrameKind::Note };
            return self.numbers.get(&more).copied().unwrap_or_else(|| self.number(more));
        }
        self.number(frame)
    }

    fn number(&mut self, frame: Frame) -> FrameId {
        let id = FrameId(u32::try_from(self.frames.len()).unwrap_or(u32::MAX));
        self.frames.push(frame.clone());
        self.numbers.insert(frame, id);
        id
    }

    /// Counts a stack once, its outermost frame first.
    pub fn add(&mut self, stack: &[FrameId]) {
        self.samples += 1;
        if let Some(count) = self.stacks.get_mut(stack) {
            *count += 1;
            return;
        }
        if self.stacks.len() < MAX_STACKS {
            self.stacks.insert(stack.into(), 1);
            return;
        }
        let more = Frame { name: "(more stacks)".into(), module: "".into(), kind: FrameKind::Note };
        let more = self.frame(more);
        *self.stacks.entry([more].into()).or_default() += 1;
    }

    pub fn samples(&self) -> u64 {
        self.samples
    }

    pub fn get(&self, id: FrameId) -> Option<&Frame> {
        self.frames.get(id.0 as usize)
    }

    /// Every stack with its count, in the order of the frames' names: the same samples make the same list.
    pub fn stacks(&self) -> Vec<(Vec<&Frame>, u64)> {
        let mut list: Vec<(Vec<&Frame>, u64)> = self
            .stacks
            .iter()
            .map(|(stack, count)| (stack.iter().filter_map(|id| self.get(*id)).collect(), *count))
            .collect();
        list.sort();
        list
    }

    /// The functions with the most samples of their own.
    pub fn hottest(&self, most: usize) -> Vec<HotFunction> {
        let mut counts = vec![(0u64, 0u64); self.frames.len()];
        let mut seen = vec![false; self.frames.len()];
        #[expect(clippy::iter_over_hash_type, reason = "sums do not depend on the order")]
        for (stack, count) in &self.stacks {
            // A function that calls itself is in the stack once.
            for id in stack {
                if !std::mem::replace(&mut seen[id.0 as usize], true) {
                    counts[id.0 as usize].1 += count;
                }
            }
            for id in stack {
                seen[id.0 as usize] = false;
            }
            if let Some(last) = stack.last() {
                counts[last.0 as usize].0 += count;
            }
        }
        let mut list: Vec<HotFunction> = self
            .frames
            .iter()
            .zip(counts)
            .filter(|(frame, (own, _))| *own > 0 && frame.kind != FrameKind::Process)
            .map(|(frame, (own, total))| HotFunction { frame: frame.clone(), own, total })
            .collect();
        list.sort_by(|one, other| other.own.cmp(&one.own).then_with(|| one.frame.cmp(&other.frame)));
        list.truncate(most);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(profile: &mut StackProfile, name: &str) -> FrameId {
        profile.frame(Frame { name: name.into(), module: "m".into(), kind: FrameKind::Native })
    }

    #[test]
    fn equal_stacks_are_counted_together_and_recursion_once() {
        let mut profile = StackProfile::default();
        let (main, work) = (frame(&mut profile, "main"), frame(&mut profile, "work"));
        assert_eq!(frame(&mut profile, "main"), main);
        profile.add(&[main, work, work]);
        profile.add(&[main, work, work]);
        profile.add(&[main]);
        let stacks = profile.stacks();
        assert_eq!(
            stacks.iter().map(|(stack, count)| (stack.len(), *count)).collect::<Vec<_>>(),
            [(1, 1), (3, 2)]
        );
        let hot = profile.hottest(10);
        assert_eq!((&*hot[0].frame.name, hot[0].own, hot[0].total), ("work", 2, 2));
        assert_eq!((&*hot[1].frame.name, hot[1].own, hot[1].total), ("main", 1, 3));
        assert_eq!(profile.samples(), 3);
    }

    #[test]
    fn stacks_beyond_the_limit_are_counted() {
        let mut profile = StackProfile::default();
        let ids: Vec<FrameId> = (0..600).map(|number| frame(&mut profile, &number.to_string())).collect();
        for one in &ids {
            for other in &ids {
                profile.add(&[*one, *other]);
            }
        }
        let stacks = profile.stacks();
        assert_eq!(stacks.iter().map(|(_, count)| count).sum::<u64>(), 360_000);
        assert!(stacks.iter().any(|(stack, count)| &*stack[0].name == "(more stacks)" && *count == 160_000));
    }
}
