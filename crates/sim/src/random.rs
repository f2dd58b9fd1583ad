//! Numbers that look like chance and follow from a seed.

use muster_domain::Span;

/// A generator (splitmix64, a well-known public one). The same seed gives the same numbers everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Below `limit`; 0 when there is nothing below it.
    pub const fn below(&mut self, limit: usize) -> usize {
        if limit == 0 { 0 } else { (self.number() % limit as u64) as usize }
    }

    /// From `low` up to and with `high`.
    pub const fn within(&mut self, low: u32, high: u32) -> u32 {
        low + self.below((high.saturating_sub(low) + 1) as usize) as u32
    }

    /// True so many times out of a thousand.
    pub const fn chance(&mut self, permille: u32) -> bool {
        self.below(1000) < permille as usize
    }

    /// A span between two numbers of milliseconds.
    pub const fn millis(&mut self, low: u32, high: u32) -> Span {
        Span::from_millis(self.within(low, high))
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        let index = self.below(list.len());
        list.get(index)
    }

    pub fn bytes(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.number().to_be_bytes());
        bytes[8..].copy_from_slice(&self.number().to_be_bytes());
        bytes
    }
}
