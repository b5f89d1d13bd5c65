//! Flame graph layout: stacks as a tree of boxes, in which equal prefixes share a box.

use std::collections::BTreeMap;

use ortscope_core::kernel::{Frame, StackProfile};

/// Maximum number of boxes; browsers get slow with more. The narrowest ones are left out and counted.
const MAX_BOXES: usize = 20_000;

/// A box of the graph: samples `start..start + count` at a depth.
#[derive(Debug, Clone)]
pub struct FlameBox<'a> {
    pub frame: &'a Frame,
    pub depth: usize,
    pub start: u64,
    pub count: u64,
}

/// The boxes of a flame graph.
#[derive(Debug)]
pub struct FlameTree<'a> {
    /// Callers before callees.
    pub boxes: Vec<FlameBox<'a>>,
    pub samples: u64,
    pub depth: usize,
    /// Number of boxes that are too narrow to be drawn.
    pub left_out: usize,
}

#[derive(Debug, Default)]
struct Node<'a> {
    count: u64,
    /// Sorted, so that the same samples give the same picture.
    children: BTreeMap<&'a Frame, Node<'a>>,
}

impl<'a> FlameTree<'a> {
    pub fn build(profile: &'a StackProfile) -> Self {
        let mut root = Node::default();
        for (stack, count) in profile.stacks() {
            root.count += count;
            let mut node = &mut root;
            for frame in stack {
                node = node.children.entry(frame).or_default();
                node.count += count;
            }
        }
        let mut boxes = Vec::new();
        flatten(&root, 0, 0, &mut boxes);
        let mut left_out = 0;
        if boxes.len() > MAX_BOXES {
            let mut counts: Vec<u64> = boxes.iter().map(|flame_box| flame_box.count).collect();
            counts.sort_unstable_by(|one, other| other.cmp(one));
            // A caller is never narrower than its callees, so every remaining box keeps its caller.
            let least = counts[MAX_BOXES] + 1;
            let before = boxes.len();
            boxes.retain(|flame_box| flame_box.count >= least);
            left_out = before - boxes.len();
        }
        let depth = boxes.iter().map(|flame_box| flame_box.depth + 1).max().unwrap_or(0);
        Self { boxes, samples: root.count, depth, left_out }
    }
}

/// The recursion is as deep as a stack: two halves of at most 256 frames.
fn flatten<'a>(node: &Node<'a>, depth: usize, from: u64, boxes: &mut Vec<FlameBox<'a>>) {
    let mut start = from;
    for (frame, child) in &node.children {
        boxes.push(FlameBox { frame, depth, start, count: child.count });
        flatten(child, depth + 1, start, boxes);
        start += child.count;
    }
}

#[cfg(test)]
mod tests {
    use ortscope_core::kernel::FrameKind;

    use super::*;

    #[test]
    fn equal_prefixes_share_a_box() {
        let mut profile = StackProfile::default();
        let mut frame = |name: &str, module: &str, kind| {
            profile.frame(Frame { name: name.into(), module: module.into(), kind })
        };
        let root = frame("python", "", FrameKind::Process);
        let main = frame("main", "a.py", FrameKind::Python);
        let add = frame("Add<T&>::run", "lib.so", FrameKind::Native);
        let read = frame("ksys_read", "kernel", FrameKind::Kernel);
        for stack in [&[root, main, add][..], &[root, main, add], &[root, main, add], &[root]] {
            profile.add(stack);
        }
        (0..2).for_each(|_| profile.add(&[root, main, add, read]));
        let tree = FlameTree::build(&profile);
        let found: Vec<(&str, usize, u64, u64)> =
            tree.boxes.iter().map(|b| (&*b.frame.name, b.depth, b.start, b.count)).collect();
        assert_eq!(
            found,
            [("python", 0, 0, 6), ("main", 1, 0, 5), ("Add<T&>::run", 2, 0, 5), ("ksys_read", 3, 0, 2)]
        );
        assert_eq!((tree.samples, tree.depth, tree.left_out), (6, 4, 0));
    }
}
