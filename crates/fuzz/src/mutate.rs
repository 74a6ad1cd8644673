//! Variations of text that keep its form: what a byte at a time rarely reaches.
//!
//! A byte that is changed makes most files unreadable at its first line. Here a line goes, comes
//! twice or changes places, or a number becomes one at the edge of what a type holds, and the rest
//! stays readable.
//!
//! Worked example: of `quota = 50000` under the seed that draws the number and the value 2⁶³,
//! `quota = 9223372036854775808` is left: the reader meets a number that no signed type holds.

use schedcast_sim::random::SplitMix;

/// Numbers at the edges: of types, of what the kernel allows, and of what is divided by.
const EDGES: [&str; 16] = [
    "0",
    "1",
    "-1",
    "2",
    "999",
    "1000",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "0.0000001",
    "nan",
];

struct Draws(SplitMix);

impl Draws {
    /// From 0 to `below` − 1; 0 where there is nothing to choose from.
    fn below(&mut self, below: usize) -> usize {
        (self.0.next() % below.max(1) as u64) as usize
    }
}

/// One variation of `input`, decided by `seed`.
pub fn mutate(input: &[u8], seed: u64) -> Vec<u8> {
    let mut draws = Draws(SplitMix(seed));
    match draws.below(4) {
        0 => lines(input, &mut draws),
        1 | 2 => number(input, &mut draws),
        _ => word(input, &mut draws),
    }
}

/// A line goes, comes twice, or changes places with another.
fn lines(input: &[u8], draws: &mut Draws) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = input.split_inclusive(|byte| *byte == b'\n').collect();
    if lines.is_empty() {
        return Vec::new();
    }
    let (one, other) = (draws.below(lines.len()), draws.below(lines.len()));
    match draws.below(3) {
        0 => drop(lines.remove(one)),
        1 => lines.insert(other, lines[one]),
        _ => lines.swap(one, other),
    }
    lines.concat()
}

/// A number becomes one at an edge.
fn number(input: &[u8], draws: &mut Draws) -> Vec<u8> {
    replaced(input, draws, u8::is_ascii_digit, |_, draws| {
        EDGES[draws.below(EDGES.len())].as_bytes().to_vec()
    })
}

/// A word becomes another one of the same text, or far longer.
fn word(input: &[u8], draws: &mut Draws) -> Vec<u8> {
    let runs = runs(input, is_word);
    replaced(input, draws, is_word, |word, draws| match draws.below(4) {
        0 => word.repeat(300),
        _ => runs
            .get(draws.below(runs.len()))
            .map_or(Vec::new(), |run| input[run.clone()].to_vec()),
    })
}

fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphabetic() || *byte == b'_'
}

/// Where bytes of a kind stand in a row.
fn runs(input: &[u8], kind: fn(&u8) -> bool) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, byte) in input.iter().enumerate() {
        if !kind(byte) {
            continue;
        }
        match runs.last_mut().filter(|run| run.end == at) {
            Some(run) => run.end += 1,
            None => runs.push(at..at + 1),
        }
    }
    runs
}

fn replaced(
    input: &[u8],
    draws: &mut Draws,
    kind: fn(&u8) -> bool,
    with: impl FnOnce(&[u8], &mut Draws) -> Vec<u8>,
) -> Vec<u8> {
    let runs = runs(input, kind);
    let Some(run) = runs.get(draws.below(runs.len())) else {
        return input.to_vec();
    };
    let new = with(&input[run.clone()], draws);
    [&input[..run.start], &new, &input[run.end..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_and_seeds_differ() {
        let text = b"quota = 50000\nperiod = 100000\n";
        assert_eq!(mutate(text, 7), mutate(text, 7));
        let mut all: Vec<Vec<u8>> = (0..200).map(|seed| mutate(text, seed)).collect();
        all.sort();
        all.dedup();
        assert!(all.len() > 30, "{}", all.len());
        let edge = b"quota = 9223372036854775808\nperiod = 100000\n".to_vec();
        assert!((0..400).any(|seed| mutate(text, seed) == edge));
    }

    #[test]
    fn nothing_stays_nothing() {
        assert!((0..50).all(|seed| mutate(b"", seed).is_empty()));
    }
}
