//! Stacks as a tree: equal beginnings are one box.

use std::collections::BTreeMap;

use ortscope_core::kernel::{Frame, StackProfile};

/// Boxes that are drawn; browsers get slow with more. The narrowest ones are left out, and counted.
const MAX_BOXES: usize = 20_000;

/// A box of the graph: samples `start..start + count` at a depth.
#[derive(Debug, Clone)]
pub struct FlameBox<'a> {
    pub frame: &'a Frame,
    pub depth: usize,
    pub start: u64,
    pub count: u64,
}

#[derive(Debug)]
pub struct Tree<'a> {
    /// Callers before what they call.
    pub boxes: Vec<FlameBox<'a>>,
    pub samples: u64,
    pub depth: usize,
    /// Boxes that were too narrow to be drawn.
    pub left_out: usize,
}

#[derive(Debug, Default)]
struct Node<'a> {
    count: u64,
    /// By name, so that the same samples make the same picture.
    children: BTreeMap<&'a Frame, Node<'a>>,
}

impl<'a> Tree<'a> {
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
            // A caller is never narrower than what it calls: no box stays without the one below it.
            let least = counts[MAX_BOXES] + 1;
            let before = boxes.len();
            boxes.retain(|flame_box| flame_box.count >= least);
            left_out = before - boxes.len();
        }
        let depth = boxes.iter().map(|flame_box| flame_box.depth + 1).max().unwrap_or(0);
        Self { boxes, samples: root.count, depth, left_out }
    }
}

/// At most as deep as a stack is: two halves of at most 256 frames.
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
    use super::*;

    #[test]
    fn equal_beginnings_are_one_box() {
        let profile = super::super::tests::profile();
        let tree = Tree::build(&profile);
        let found: Vec<(&str, usize, u64, u64)> =
            tree.boxes.iter().map(|b| (&*b.frame.name, b.depth, b.start, b.count)).collect();
        assert_eq!(
            found,
            [("python", 0, 0, 6), ("main", 1, 0, 5), ("Add<T&>::run", 2, 0, 5), ("ksys_read", 3, 0, 2)]
        );
        assert_eq!((tree.samples, tree.depth, tree.left_out), (6, 4, 0));
    }
}
