//! Sample counts per stack, with function names.
//!
//! Frames and stacks are interned. Both sets are bounded; the excess is counted under a placeholder, so that the sum
//! equals the number of samples.

use std::collections::HashMap;
use std::sync::Arc;

use super::event::Task;

/// Maximum number of distinct frames. Further ones become the frame `(more functions)`.
const MAX_NAMES: usize = 200_000;
/// Maximum number of distinct stacks. Samples of further ones are counted under `(more stacks)`.
const MAX_STACKS: usize = 200_000;

/// The kind of code a frame belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameKind {
    /// The process, at the root.
    Process,
    Native,
    Kernel,
    Python,
    /// Code that the program generated at run time.
    Jit,
    /// Not a function, but a note about missing frames.
    Note,
}

/// A function with a readable name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    pub name: Arc<str>,
    /// File name of the module without directories; empty if there is none.
    pub module: Arc<str>,
    pub kind: FrameKind,
}

/// Index of a frame in its [`StackProfile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(u32);

/// Sample counts per stack.
#[derive(Debug, Clone, Default)]
pub struct StackProfile {
    frames: Vec<Frame>,
    numbers: HashMap<Frame, FrameId>,
    /// By frames, the outermost first.
    stacks: HashMap<Box<[FrameId]>, u64>,
    samples: u64,
}

/// A function's share of the samples.
#[derive(Debug, Clone, PartialEq)]
pub struct HotFunction {
    pub frame: Frame,
    /// Samples in the function itself.
    pub own: u64,
    /// Samples in the function or its callees.
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

    /// Counts a stack once; the outermost frame comes first.
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

    /// Every stack with its count, ordered by frame names, so that equal samples give equal lists.
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
            // A recursive function counts once per stack.
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

/// Maximum frames per half of a stack. Deeper stacks lose their outermost frames and are marked as cut.
pub const MAX_FRAMES: usize = 256;

/// One sample of a processor. Frames are addresses, innermost first: the first is the executing address, the others
/// are return addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuSample {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    /// At most [`MAX_FRAMES`]; empty outside the kernel, or if reading kernel stacks is not permitted.
    pub kernel: Vec<u64>,
    /// At most [`MAX_FRAMES`].
    pub user: Vec<u64>,
    pub walk: StackWalk,
}

/// How the user frames were found, which determines how far they can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StackWalk {
    /// No user stack: a kernel thread.
    #[default]
    None,
    /// By frame pointers; code compiled without them hides its callers.
    FramePointers,
    /// By the program's unwind tables, up to the outermost frame.
    Tables,
    /// By unwind tables until the stack copy ended or a table was missing: callers are missing.
    TablesCut,
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
