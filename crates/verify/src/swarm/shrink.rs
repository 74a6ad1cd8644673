//! The shortest world that still breaks.
//!
//! Pieces are taken away one at a time, and time by halves, as long as what is left breaks with the
//! same words; numbers among the words do not count. A world without a piece that another one needs
//! is refused, which is not broken, so the piece stays.

use super::draw::Drawn;
use super::run::{Verdict, judge};

/// Tries after which a world is short enough to read.
const MOST_TRIES: u32 = 400;

/// Shrinks a world that breaks with these words.
pub(crate) fn shrink(drawn: &Drawn, words: &str) -> Drawn {
    let mut tries = 0;
    let kind = kind(words);
    let mut breaks = |one: &Drawn| {
        tries += 1;
        let same = |told: &str| self::kind(told) == kind;
        tries <= MOST_TRIES
            && matches!(judge(one), Verdict::Broken(told) if told.iter().any(|told| same(told)))
    };
    let mut least = drawn.clone();
    loop {
        let before = least.clone();
        drop_pieces(&mut least, &mut breaks, |one| &mut one.programs);
        drop_pieces(&mut least, &mut breaks, |one| &mut one.changes);
        drop_pieces(&mut least, &mut breaks, |one| &mut one.groups);
        drop_pieces(&mut least, &mut breaks, |one| &mut one.kernel);
        drop_names(&mut least, &mut breaks);
        drop_pieces(&mut least, &mut breaks, |one| &mut one.machine);
        for part in [2, 4, 8] {
            let shorter = Drawn {
                duration_ns: least.duration_ns - least.duration_ns / part,
                ..least.clone()
            };
            if shorter.duration_ns < least.duration_ns && breaks(&shorter) {
                least = shorter;
                break;
            }
        }
        let simpler = [
            Drawn {
                warmup_ns: 0,
                ..least.clone()
            },
            Drawn {
                chance: false,
                ..least.clone()
            },
        ];
        for one in simpler {
            if one != least && breaks(&one) {
                least = one;
            }
        }
        if least == before {
            return least;
        }
    }
}

fn drop_pieces<T: Clone>(
    least: &mut Drawn,
    breaks: &mut impl FnMut(&Drawn) -> bool,
    pieces: impl Fn(&mut Drawn) -> &mut Vec<T>,
) {
    let mut row = 0;
    while row < pieces(least).len() {
        let mut shorter = least.clone();
        pieces(&mut shorter).remove(row);
        if breaks(&shorter) {
            *least = shorter;
        } else {
            row += 1;
        }
    }
}

/// Takes names out of the arrays of `[kernel]`.
fn drop_names(least: &mut Drawn, breaks: &mut impl FnMut(&Drawn) -> bool) {
    for row in 0..least.kernel.len() {
        let mut place = 0;
        loop {
            let line = &least.kernel[row];
            let Some((key, names)) = line.split_once(" = [") else {
                break;
            };
            let mut names: Vec<&str> = names.trim_end_matches(']').split(", ").collect();
            if place >= names.len() {
                break;
            }
            names.remove(place);
            let shorter = format!("{key} = [{}]", names.join(", "));
            let mut one = least.clone();
            one.kernel[row] = shorter;
            if breaks(&one) {
                *least = one;
            } else {
                place += 1;
            }
        }
    }
}

/// A message without its numbers and names of metrics: two failures of one kind have the same.
pub(crate) fn kind(words: &str) -> String {
    let text: String = words.chars().filter(|c| !c.is_ascii_digit()).collect();
    let ends = [": events ", ": metric "];
    let end = ends.iter().filter_map(|end| text.find(end)).min();
    text[..end.unwrap_or(text.len())].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_failures_of_one_kind_have_the_same_words() {
        let first = "a run that is looked at ends in another way: events 17c4, not 8be0";
        let other = "a run that is looked at ends in another way: metric p0/wait 4, not 5";
        assert_eq!(kind(first), kind(other));
        assert_eq!(kind(first), "a run that is looked at ends in another way");
        let [early, late] = ["at 5 ns CPU 1 slept", "at 17 ns CPU 0 slept"].map(kind);
        assert_eq!(early, late);
        assert_ne!(early, kind("at 5 ns CPU 1 woke"));
    }
}
