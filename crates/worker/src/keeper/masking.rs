//! Takes the values of secrets out of a stream of bytes. Pure.
//!
//! Guarantees: no byte of a whole value comes out, however the stream is cut into pieces and however values overlap; what cannot
//! be part of a value comes out at once; no more is held back than the longest value is long.

use muster_seal::SecretValue;

/// What stands where a value was.
const MASK: &[u8] = b"***";
/// A shorter value is not masked: it would hide words that have nothing to do with it.
const SHORTEST: usize = 6;

/// One value, found byte by byte (Knuth, Morris and Pratt): time does not depend on what is in the stream.
#[derive(Debug)]
struct Pattern {
    value: SecretValue,
    /// For each length of a beginning of the value: the longest shorter beginning that it ends with.
    shorter: Vec<u32>,
    /// How much of the value the stream ends with.
    matched: usize,
}

impl Pattern {
    fn new(value: SecretValue) -> Self {
        let bytes = value.bytes();
        let mut shorter = vec![0_u32; bytes.len() + 1];
        let mut length = 0;
        for end in 1..bytes.len() {
            while length > 0 && bytes[end] != bytes[length] {
                length = shorter[length] as usize;
            }
            length += usize::from(bytes[end] == bytes[length]);
            shorter[end + 1] = length as u32;
        }
        Self { value, shorter, matched: 0 }
    }

    /// Takes the next byte and says whether a value ends with it.
    fn step(&mut self, byte: u8) -> bool {
        let bytes = self.value.bytes();
        while self.matched > 0 && (self.matched == bytes.len() || bytes[self.matched] != byte) {
            self.matched = self.shorter[self.matched] as usize;
        }
        self.matched += usize::from(bytes[self.matched] == byte);
        self.matched == bytes.len()
    }

    /// The bytes at the end of the stream that may turn out to be a value.
    fn open(&self) -> usize {
        if self.matched == self.value.bytes().len() {
            self.shorter[self.matched] as usize
        } else {
            self.matched
        }
    }
}

/// The mask over one stream.
#[derive(Debug)]
pub(super) struct Masker {
    patterns: Vec<Pattern>,
    /// What has not come out yet.
    held: Vec<u8>,
    /// How many bytes came before `held`.
    before: u64,
    /// Values that were found and have not come out, by their places in the stream.
    found: Vec<(u64, u64)>,
    /// Up to where a mask that has come out reaches.
    masked_until: u64,
}

impl Masker {
    /// A line feed at the end of a value is no part of what is looked for: programs leave it out.
    pub(super) fn new<'a>(values: impl Iterator<Item = &'a SecretValue>) -> Self {
        let trimmed = values.map(|value| SecretValue::new(value.bytes().trim_ascii_end().to_vec()));
        let long = trimmed.filter(|value| value.bytes().len() >= SHORTEST);
        let patterns = long.map(Pattern::new).collect();
        Self { patterns, held: Vec::new(), before: 0, found: Vec::new(), masked_until: 0 }
    }

    /// Takes a piece and adds to `out` what can come out.
    pub(super) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let start = self.before + self.held.len() as u64;
        for pattern in &mut self.patterns {
            let length = pattern.value.bytes().len() as u64;
            for (end, byte) in (start + 1..).zip(piece) {
                if pattern.step(*byte) {
                    self.found.push((end - length, end));
                }
            }
        }
        self.held.extend_from_slice(piece);
        let open = self.patterns.iter().map(Pattern::open).max().unwrap_or(0);
        self.release(self.held.len() - open, out);
    }

    /// The stream has ended: the rest comes out.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.release(self.held.len(), out);
    }

    fn release(&mut self, count: usize, out: &mut Vec<u8>) {
        let end = self.before + count as u64;
        self.found.sort_unstable();
        // A mask that has come out may reach further than what came out with it.
        let mut at = self.before.max(self.masked_until.min(end));
        for (from, to) in &self.found {
            if *from >= end {
                break;
            }
            if *to <= self.masked_until {
                continue;
            }
            let from = (*from).max(at);
            out.extend_from_slice(&self.held[(at - self.before) as usize..(from - self.before) as usize]);
            // Values that touch or overlap are one mask.
            if from > self.masked_until || self.masked_until == 0 {
                out.extend_from_slice(MASK);
            }
            self.masked_until = *to;
            at = (*to).min(end);
        }
        out.extend_from_slice(&self.held[(at - self.before) as usize..count]);
        self.found.retain(|(_, to)| *to > end);
        self.held.drain(..count);
        self.before = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(values: &[&str], pieces: &[&[u8]]) -> String {
        let values: Vec<SecretValue> =
            values.iter().map(|value| SecretValue::new(value.as_bytes().to_vec())).collect();
        let mut masker = Masker::new(values.iter());
        let mut out = Vec::new();
        for piece in pieces {
            masker.push(piece, &mut out);
        }
        masker.finish(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// The same text in pieces of each length.
    fn check(values: &[&str], text: &str, expected: &str) {
        for length in 1..=text.len() {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(length).collect();
            assert_eq!(masked(values, &pieces), expected, "in pieces of {length}");
        }
    }

    #[test]
    fn values_are_masked_however_the_stream_is_cut() {
        check(&["sesame"], "open sesame, sesame!", "open ***, ***!");
        check(&["sesame"], "sesam sesamsesame sesa", "sesam sesam*** sesa");
        check(&["aabaaa"], "aaabaaabaaab", "a***b");
        check(&["sesame\n"], "sesame\n", "***\n");
        check(&["hello"], "hello", "hello");
        check(&[], "hello", "hello");
    }

    #[test]
    fn values_that_overlap_or_contain_each_other_leave_nothing() {
        check(&["abcdefgh12345", "cdefgh"], "abcdefgh12345.", "***.");
        check(&["abcdefgh12345", "cdefgh"], "abcdefgh1234.", "ab***1234.");
        check(&["abcdef", "efghij"], "abcdefghij", "***");
        check(&["abcdef", "ghijkl"], "abcdefghijkl-abcdef", "***-***");
        check(&["ababab"], "abababab", "***");
    }

    #[test]
    fn only_what_may_become_a_value_is_held_back() {
        let value = SecretValue::new(b"sesame".to_vec());
        let mut masker = Masker::new([&value].into_iter());
        let mut out = Vec::new();
        masker.push(b"10% ses", &mut out);
        assert_eq!(out, b"10% ");
        masker.push(b"t", &mut out);
        assert_eq!(out, b"10% sest");
        for _ in 0..1000 {
            masker.push(b"sesames", &mut out);
            assert!(masker.held.len() < 6 && masker.found.len() < 2);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_value_survives(
            values in proptest::collection::vec("[ab]{6,9}", 1..4),
            pieces in proptest::collection::vec("[ab]{0,7}", 0..40),
        ) {
            let wanted: Vec<&str> = values.iter().map(String::as_str).collect();
            let cut: Vec<&[u8]> = pieces.iter().map(String::as_bytes).collect();
            let whole = pieces.concat();
            let out = masked(&wanted, &cut);
            proptest::prop_assert_eq!(&out, &masked(&wanted, &[whole.as_bytes()]), "cuts do not matter");
            // Straightforward: every byte that is in a value is taken out.
            let mut covered = vec![false; whole.len()];
            for value in &wanted {
                for (at, _) in whole.as_bytes().windows(value.len()).enumerate().filter(|(_, seen)| *seen == value.as_bytes()) {
                    covered[at..at + value.len()].fill(true);
                }
            }
            let left: String = whole.chars().zip(&covered).filter(|(_, covered)| !**covered).map(|(c, _)| c).collect();
            proptest::prop_assert_eq!(out.replace('*', ""), left);
        }
    }
}
