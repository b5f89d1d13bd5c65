//! The closed buckets of one track at one width, oldest first.

use std::collections::VecDeque;

use super::block::{BLOCK, Block};
use super::bucket::Bucket;

#[derive(Debug, Default)]
pub(super) struct Tier {
    blocks: VecDeque<Block>,
    /// Sum of the blocks' own bytes.
    payload_bytes: usize,
    /// Newer than all blocks; fewer than a block.
    pending: Vec<Bucket>,
    /// Buckets below this index were forgotten; `None` if none was.
    pub forgotten_to: Option<u64>,
}

/// Buckets taken out under the lock, to be unpacked without it.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    blocks: Vec<Block>,
    pending: Vec<Bucket>,
}

impl Tier {
    /// Adds a bucket. One that is not newer than all others is refused.
    pub fn push(&mut self, bucket: Bucket) -> bool {
        if self.last().is_some_and(|last| bucket.index <= last) {
            return false;
        }
        self.pending.push(bucket);
        if let Some(block) = Block::pack(&self.pending) {
            self.payload_bytes += block.heap_bytes();
            if self.blocks.len() == self.blocks.capacity() {
                // Doubling would waste up to half of the largest list.
                self.blocks.reserve_exact(32);
            }
            self.blocks.push_back(block);
            self.pending.clear();
        }
        true
    }

    pub fn last(&self) -> Option<u64> {
        self.pending.last().map(|bucket| bucket.index).or_else(|| self.blocks.back().map(|block| block.last))
    }

    /// Index of the oldest packed bucket: what [`Tier::forget_oldest`] would forget.
    pub fn oldest_packed(&self) -> Option<u64> {
        self.blocks.front().map(|block| block.first)
    }

    /// Forgets the oldest block; returns how many buckets that was.
    pub fn forget_oldest(&mut self) -> u64 {
        let Some(block) = self.blocks.pop_front() else {
            return 0;
        };
        self.payload_bytes -= block.heap_bytes();
        self.forgotten_to = Some(block.last.saturating_add(1));
        if self.blocks.capacity() - self.blocks.len() >= 64 {
            self.blocks.shrink_to(self.blocks.len() + 32);
        }
        BLOCK as u64
    }

    /// Forgets blocks that lie wholly before this index: age, not a loss.
    pub fn expire(&mut self, before: u64) {
        while self.blocks.front().is_some_and(|block| block.last < before) {
            self.forget_oldest();
        }
    }

    /// Drops buckets at or after this index; returns their number.
    pub fn discard_from(&mut self, index: u64) -> u64 {
        let before = self.pending.len();
        self.pending.retain(|bucket| bucket.index < index);
        let mut discarded = (before - self.pending.len()) as u64;
        while let Some(block) = self.blocks.pop_back_if(|block| block.last >= index) {
            self.payload_bytes -= block.heap_bytes();
            // Pending buckets are newer than the block, so all of them are gone by now.
            self.pending.extend(block.unpack().into_iter().filter(|bucket| bucket.index < index));
            discarded += (BLOCK - self.pending.len()) as u64;
        }
        discarded
    }

    /// Buckets with an index in this range.
    pub fn count(&self, from: u64, to: u64) -> usize {
        let inside = |index: u64| from <= index && index < to;
        let packed = self.blocks_in(from, to).map(|block| match inside(block.first) && inside(block.last) {
            true => BLOCK,
            false => block.unpack().iter().filter(|bucket| inside(bucket.index)).count(),
        });
        packed.sum::<usize>() + self.pending.iter().filter(|bucket| inside(bucket.index)).count()
    }

    pub fn gather(&self, from: u64, to: u64) -> Gathered {
        let inside = |bucket: &&Bucket| from <= bucket.index && bucket.index < to;
        Gathered {
            blocks: self.blocks_in(from, to).cloned().collect(),
            pending: self.pending.iter().filter(inside).copied().collect(),
        }
    }

    /// Index of the first bucket at or after this one.
    pub fn first_from(&self, from: u64) -> Option<u64> {
        let packed = self.blocks_in(from, u64::MAX).next().map(Block::unpack).unwrap_or_default();
        packed.iter().chain(&self.pending).map(|bucket| bucket.index).find(|index| *index >= from)
    }

    fn blocks_in(&self, from: u64, to: u64) -> impl Iterator<Item = &Block> {
        let start = self.blocks.partition_point(|block| block.last < from);
        self.blocks.iter().skip(start).take_while(move |block| block.first < to)
    }

    pub fn heap_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
            + self.payload_bytes
            + self.pending.capacity() * size_of::<Bucket>()
    }
}

impl Gathered {
    /// The buckets of the range, oldest first.
    pub fn unpack(self, from: u64, to: u64) -> Vec<Bucket> {
        let packed = self.blocks.iter().flat_map(Block::unpack);
        packed.chain(self.pending).filter(|bucket| from <= bucket.index && bucket.index < to).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(index: u64) -> Bucket {
        let value = index as f32;
        Bucket { index, count: 1, min: value, max: value, mean: value, p50: value, p95: value, p99: value }
    }

    fn tier(end: u64) -> Tier {
        let mut tier = Tier::default();
        for index in 0..end {
            assert!(tier.push(bucket(index)));
        }
        tier
    }

    fn indices(tier: &Tier, from: u64, to: u64) -> Vec<u64> {
        tier.gather(from, to).unpack(from, to).iter().map(|bucket| bucket.index).collect()
    }

    #[test]
    fn ranges_cut_blocks_and_pending_alike() {
        let tier = tier(300);
        for (from, to) in [(0, 300), (63, 65), (64, 64), (100, 50), (250, 400), (299, 300), (400, 500)] {
            let wanted: Vec<u64> = (from..to.min(300)).collect();
            assert_eq!(indices(&tier, from, to), wanted);
            assert_eq!(tier.count(from, to), wanted.len());
        }
    }

    #[test]
    fn older_and_equal_buckets_are_rejected() {
        let mut tier = tier(64);
        assert!(!tier.push(bucket(63)) && !tier.push(bucket(5)));
        assert!(tier.push(bucket(64)));
    }

    #[test]
    fn forgetting_and_expiring_say_up_to_where() {
        let mut tier = tier(200);
        assert_eq!(tier.oldest_packed(), Some(0));
        assert_eq!(tier.forget_oldest(), 64);
        assert_eq!((tier.forgotten_to, tier.oldest_packed()), (Some(64), Some(64)));
        tier.expire(128);
        assert_eq!(tier.forgotten_to, Some(128));
        tier.expire(191);
        assert_eq!(indices(&tier, 0, 1000), (128..200).collect::<Vec<_>>());
        tier.forget_oldest();
        assert_eq!((tier.forget_oldest(), tier.payload_bytes), (0, 0));
        assert_eq!(indices(&tier, 0, 1000), (192..200).collect::<Vec<_>>());
    }

    #[test]
    fn discarding_keeps_exactly_the_earlier_buckets() {
        for cut in [0, 1, 63, 64, 65, 150, 199, 200, 500] {
            let mut tier = tier(200);
            let kept = cut.min(200);
            assert_eq!(tier.discard_from(cut), 200 - kept);
            assert_eq!(indices(&tier, 0, 1000), (0..kept).collect::<Vec<_>>());
            assert!(tier.push(bucket(kept)));
        }
    }
}
