//! Many worlds, and what became of them.

use std::collections::BTreeMap;
use std::ops::Range;

use rayon::prelude::*;
use schedcast_sim::random::Fnv;
use serde::{Deserialize, Serialize};

use super::draw::{Drawn, draw};
use super::run::{Verdict, judge};
use super::shrink::{kind, shrink};

/// Failures of one kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kind {
    /// The first seed, and what it says.
    pub seed: u64,
    /// In its own words.
    pub words: String,
    /// Worlds that break so.
    pub worlds: u64,
}

/// Results of the worlds of some seeds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Whether the program checks its own assertions and overflows.
    pub debug: bool,
    /// First seed.
    pub first: u64,
    /// Worlds.
    pub worlds: u64,
    /// Worlds in which everything held.
    pub held: u64,
    /// Worlds that are no experiment.
    pub refused: u64,
    /// Hash over the event hashes of all that held, in the order of seeds.
    pub hash: String,
    /// Worlds that use each feature.
    pub features: BTreeMap<String, u64>,
    /// Kinds of failures.
    pub broken: Vec<Kind>,
}

impl Tally {
    /// Judges the worlds of `seeds`.
    pub fn of(seeds: Range<u64>) -> Tally {
        let first = seeds.start;
        let worlds = seeds.end.saturating_sub(first);
        let judged = seeds.into_par_iter().map(|seed| {
            let (drawn, features) = draw(seed);
            (seed, features, judge(&drawn))
        });
        let judged: Vec<_> = judged.collect();
        let mut tally = Tally {
            debug: cfg!(debug_assertions),
            first,
            worlds,
            ..Tally::default()
        };
        let mut hash = Fnv::default();
        let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
        for (seed, features, verdict) in judged {
            for feature in features {
                let name = feature.name().to_owned();
                *tally.features.entry(name).or_default() += 1;
            }
            match verdict {
                Verdict::Held(events) => {
                    tally.held += 1;
                    hash.add(&events.to_le_bytes());
                }
                Verdict::Refused(_) => tally.refused += 1,
                Verdict::Broken(all) => {
                    for words in all {
                        let known = kinds.entry(kind(&words)).or_insert(Kind {
                            seed,
                            words,
                            worlds: 0,
                        });
                        known.worlds += 1;
                    }
                }
            }
        }
        tally.hash = format!("{:016x}", hash.0);
        tally.broken = kinds.into_values().collect();
        tally
    }

    /// Takes in the worlds of the seeds behind these.
    pub fn add(&mut self, next: Tally) {
        self.worlds += next.worlds;
        self.held += next.held;
        self.refused += next.refused;
        let mut hash = Fnv::default();
        hash.add(self.hash.as_bytes());
        hash.add(next.hash.as_bytes());
        self.hash = format!("{:016x}", hash.0);
        for (name, count) in next.features {
            *self.features.entry(name).or_default() += count;
        }
        for new in next.broken {
            let same = |old: &&mut Kind| kind(&old.words) == kind(&new.words);
            match self.broken.iter_mut().find(same) {
                Some(old) => old.worlds += new.worlds,
                None => self.broken.push(new),
            }
        }
    }
}

impl Kind {
    /// The shortest experiment that breaks so, and the seed that its run has.
    pub fn shrunk(&self) -> Drawn {
        shrink(&draw(self.seed).0, &self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fixed sample of the worlds that `make swarm` draws, with assertions and checks of
    /// overflow.
    #[test]
    fn nothing_breaks_in_a_hundred_worlds() {
        let tally = Tally::of(0..100);
        let broken = tally.broken.iter().map(|kind| {
            let text = kind.shrunk().text();
            format!("seed {}: {}\n{text}", kind.seed, kind.words)
        });
        let broken: Vec<String> = broken.collect();
        assert!(broken.is_empty(), "{}", broken.join("\n"));
        assert_eq!(tally.held + tally.refused, 100);
        assert!(tally.held >= 90, "{} worlds are refused", tally.refused);
    }

    #[test]
    fn two_runs_of_the_same_seeds_have_one_hash() {
        assert_eq!(Tally::of(100..110).hash, Tally::of(100..110).hash);
        assert_ne!(Tally::of(100..110).hash, Tally::of(101..111).hash);
    }
}
