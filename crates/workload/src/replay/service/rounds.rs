//! Event loops that answer at the end of a round.
//!
//! Some event loops, such as Redis, take every request that is there, execute them all, and only
//! then write all the replies; then they take what has come meanwhile. A request is answered at the
//! end of its *round*, however early in it it was executed, and if the limit interrupts a round,
//! all of it waits for the next period. Other loops answer each request when it is executed.
//!
//! # Recognition
//!
//! A *pile* is a number of requests that had all arrived when the loop began the first of them. If
//! a loop answers one by one, the first of *k* requests costs as much as the others on average, so
//! that at most one in *k* piles has [`FIRST_PERCENT`] percent of its work before the first reply.
//! If a loop answers in rounds, every pile has. Piles with at least [`TELLS_NS`] of work are
//! counted. The loop answers in rounds if the number of piles with that much work before the first
//! reply is nearer to the number of all piles than to the sum of 1/*k*, and at least [`DEVIATIONS`]
//! standard deviations above that sum. Of piles of two requests that takes 16.
//!
//! # Replay
//!
//! A round ends with the last reply before one whose request had not arrived when the round began,
//! or before more than [`WRITE_NS`] of work. Every request becomes an activation of its own, which
//! its arrival begins. A request that was alone in its round costs what the round did. The trace
//! does not show how the work of a larger round divides among its requests: of [`DRAWS`] draws of
//! as many single requests the one whose sum is nearest is taken and scaled to the work of the
//! round. Whether a request is alone in its round does not depend on its own cost, so that single
//! requests represent all.
//!
//! In the replay the loop takes what has arrived when a round begins, but no more than there are
//! connections, as each has one request under way: those of the client's log, else as many as the
//! largest recorded round.
//!
//! # Worked example
//!
//! While the loop executes a script for 9 ms, a read and a listing arrive, which take 15 and 70 µs.
//! Its activation is 9 ms, reply, 85 µs, two replies. The script was alone; the others are a round
//! of two. Drawn are 15 and 68 µs, and stretched to 85 they are 15.4 and 69.6. Had all three come
//! at once, each would be answered after 9.085 ms.

use super::super::activity::{Draft, DraftStep};
use super::super::model::{Activation, Trigger};
use super::super::threads::ThreadId;
use super::apart::{LOOP_PERCENT, moved};
use super::replies::Reply;
use super::{RequestId, Served};
use schedcast_sim::random;
use schedcast_sim::workload::ArrivalContext;
use std::collections::BTreeMap;

/// Piles of less work than this, ns, are not counted: the work before the first reply includes the
/// way from the wakeup to the first request, some 10 to 40 µs.
const TELLS_NS: u64 = 250_000;
/// Writing a reply takes less than this, ns.
const WRITE_NS: u64 = 1_000_000;
/// Standard deviations from what chance gives.
const DEVIATIONS: f64 = 4.0;
/// Share of a pile's work that comes before the first reply, if replies are written together.
const FIRST_PERCENT: u64 = 75;
/// Draws of single requests for a round.
const DRAWS: usize = 64;

/// How an event loop answers in rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// The thread.
    pub thread: ThreadId,
    /// Requests it takes at most in a round.
    pub at_most: u32,
}

/// Replies of one thread in the order of their place in its drafts, and where its rounds end.
pub(super) struct Found {
    pub thread: ThreadId,
    /// By draft: its replies.
    of_draft: BTreeMap<usize, Vec<Answer>>,
}

/// A reply in a draft.
#[derive(Clone, Copy)]
struct Answer {
    request: RequestId,
    into_ns: u64,
    /// Whether it is the first of its round.
    begins: bool,
}

impl Found {
    /// Looks for a loop that answers in rounds. `inside` says which threads are of the service,
    /// requests are numbered from `first` in the order of the replies, and `sent_ns` is when each
    /// was sent.
    pub(super) fn new(
        drafts: &[Draft],
        inside: &[bool],
        replies: &[Reply],
        sent_ns: impl Fn(&Reply) -> u64,
        first: u32,
    ) -> Option<Self> {
        let thread = the_loop(drafts, inside, replies)?;
        let mut of_draft: BTreeMap<usize, Vec<Answer>> = BTreeMap::new();
        let mut piles = Piles::default();
        let mut numbered: Vec<(&Reply, u32)> = replies.iter().zip(first..).collect();
        numbered.retain(|(reply, _)| drafts[reply.draft].activation.thread == thread);
        // By place in the draft: rounding may have disturbed the order of the times.
        numbered.sort_by_key(|(reply, number)| (reply.draft, reply.into_ns, *number));
        for own in numbered.chunk_by(|one, next| one.0.draft == next.0.draft) {
            let mut pile = Pile::default();
            let mut round_ns = drafts[own[0].0.draft].activation.woken_ns;
            let (mut before_ns, mut before_into_ns) = (round_ns, 0);
            let mut answers = Vec::with_capacity(own.len());
            for (reply, number) in own {
                let work_ns = reply.into_ns - before_into_ns;
                let arrived = sent_ns(reply) <= round_ns && !answers.is_empty();
                if !arrived {
                    piles.take(&mut pile);
                    round_ns = before_ns;
                }
                pile.add(work_ns);
                let begins = !arrived || work_ns > WRITE_NS;
                if begins {
                    round_ns = before_ns;
                }
                answers.push(Answer {
                    request: RequestId(*number),
                    into_ns: reply.into_ns,
                    begins,
                });
                (before_ns, before_into_ns) = (reply.at_ns, reply.into_ns);
            }
            piles.take(&mut pile);
            of_draft.insert(own[0].0.draft, answers);
        }
        piles.are_rounds().then_some(Self { thread, of_draft })
    }

    /// The largest round.
    pub(super) fn largest(&self) -> u32 {
        let rounds = self.of_draft.values().flat_map(|answers| rounds(answers));
        rounds.map(|round| round.len() as u32).max().unwrap_or(1)
    }

    /// Makes an activation of every request. `served` are those of the service, numbered from
    /// `first`.
    pub(super) fn split(self, drafts: &mut Vec<Draft>, served: &[Served], first: u32) {
        let singles = self.singles();
        let mut number = 0;
        for (index, answers) in &self.of_draft {
            let mut parts: Vec<Part> = Vec::with_capacity(answers.len());
            let mut from_ns = 0;
            for round in rounds(answers) {
                number += 1;
                let work_ns = round[0].into_ns - from_ns;
                let costs = divide(&singles, round.len(), work_ns, number);
                for (answer, cost_ns) in round.iter().zip(costs) {
                    parts.push(Part {
                        request: answer.request,
                        work_ns: cost_ns,
                    });
                }
                // A reply after the first costs its request what it takes to write it.
                let writes = round.windows(2).map(|two| two[1].into_ns - two[0].into_ns);
                let from = parts.len() - round.len() + 1;
                for (part, write_ns) in parts[from..].iter_mut().zip(writes) {
                    part.work_ns += write_ns;
                }
                from_ns = round[round.len() - 1].into_ns;
            }
            let new = cut(&mut drafts[*index], &parts, served, first);
            drafts.extend(new);
        }
    }

    /// Work of rounds of one request.
    fn singles(&self) -> Vec<u64> {
        let mut singles = Vec::new();
        for answers in self.of_draft.values() {
            let mut from_ns = 0;
            for round in rounds(answers) {
                if let [alone] = round {
                    singles.push(alone.into_ns - from_ns);
                }
                from_ns = round[round.len() - 1].into_ns;
            }
        }
        singles
    }
}

/// The thread with nearly all the work and the replies.
fn the_loop(drafts: &[Draft], inside: &[bool], replies: &[Reply]) -> Option<ThreadId> {
    let mut of_thread: BTreeMap<ThreadId, (u64, usize)> = BTreeMap::new();
    let mut all_ns = 0;
    for draft in drafts {
        let thread = draft.activation.thread;
        if inside[thread.index()] {
            of_thread.entry(thread).or_default().0 += draft.activation.executed_ns;
            all_ns += draft.activation.executed_ns;
        }
    }
    for reply in replies {
        let thread = drafts[reply.draft].activation.thread;
        of_thread.entry(thread).or_default().1 += 1;
    }
    let most = of_thread.into_iter().find(|(_, (work_ns, answers))| {
        work_ns * 100 >= all_ns * LOOP_PERCENT
            && *answers as u64 * 100 >= replies.len() as u64 * LOOP_PERCENT
    });
    most.map(|(thread, _)| thread)
}

/// Requests that had arrived when the loop turned to the first of them.
#[derive(Default)]
struct Pile {
    requests: usize,
    first_ns: u64,
    work_ns: u64,
}

impl Pile {
    fn add(&mut self, work_ns: u64) {
        if self.requests == 0 {
            self.first_ns = work_ns;
        }
        self.requests += 1;
        self.work_ns += work_ns;
    }
}

/// Statistics of the piles of a loop.
#[derive(Default)]
struct Piles {
    all: usize,
    /// Those whose work came before the first reply.
    at_once: usize,
    /// As many as would if requests were answered one by one.
    by_chance: f64,
    /// Variance of that.
    variance: f64,
}

impl Piles {
    /// Counts a pile, and begins the next.
    fn take(&mut self, pile: &mut Pile) {
        let Pile {
            requests,
            first_ns,
            work_ns,
        } = std::mem::take(pile);
        if requests > 1 && work_ns >= TELLS_NS {
            self.all += 1;
            self.at_once += usize::from(first_ns * 100 >= work_ns * FIRST_PERCENT);
            let chance = 1.0 / requests as f64;
            self.by_chance += chance;
            self.variance += chance * (1.0 - chance);
        }
    }

    fn are_rounds(&self) -> bool {
        let (all, at_once) = (self.all as f64, self.at_once as f64);
        let beyond = at_once - self.by_chance;
        beyond > all - at_once && beyond >= DEVIATIONS * self.variance.sqrt()
    }
}

/// The rounds of a draft.
fn rounds(answers: &[Answer]) -> impl Iterator<Item = &[Answer]> {
    answers.chunk_by(|_, next| !next.begins)
}

/// Work of a round, divided among its requests as among single ones.
fn divide(singles: &[u64], requests: usize, work_ns: u64, number: u64) -> Vec<u64> {
    let mut stream = random::stream(0, random::name_hash("rounds"), number);
    let mut one = || {
        let at = (u128::from(random::draw(&mut stream)) * singles.len() as u128) >> 64;
        singles.get(at as usize).copied().unwrap_or(1).max(1)
    };
    let draws = (0..DRAWS).map(|_| (0..requests).map(|_| one()).collect::<Vec<u64>>());
    let off_ns = |drawn: &Vec<u64>| drawn.iter().sum::<u64>().abs_diff(work_ns);
    let mut parts = draws.min_by_key(off_ns).unwrap_or_default();
    let sum_ns: u64 = parts.iter().sum();
    let (mut drawn_ns, mut given_ns) = (0, 0);
    for part in &mut parts {
        drawn_ns += *part;
        let until_ns = u128::from(work_ns) * u128::from(drawn_ns) / u128::from(sum_ns.max(1));
        *part = until_ns as u64 - given_ns;
        given_ns += *part;
    }
    parts
}

/// Work for one request, up to its end.
struct Part {
    request: RequestId,
    work_ns: u64,
}

/// Cuts a draft into these parts, the first of which it keeps. Returns the others.
fn cut(draft: &mut Draft, parts: &[Part], served: &[Served], first: u32) -> Vec<Draft> {
    let mut deeds = std::mem::take(&mut draft.deeds).into_iter().peekable();
    let all_ns = draft.activation.executed_ns;
    let mut from_ns = 0;
    let mut new = Vec::with_capacity(parts.len().saturating_sub(1));
    for (position, part) in parts.iter().enumerate() {
        let is_last = position + 1 == parts.len();
        let to_ns = (from_ns + part.work_ns).min(all_ns);
        let mut own: Vec<(u64, DraftStep)> = Vec::new();
        while let Some((at_ns, step)) = deeds.next_if(|(at_ns, _)| is_last || *at_ns <= to_ns) {
            own.push((at_ns.saturating_sub(from_ns), step));
        }
        let reply = (to_ns - from_ns, DraftStep::Replies(part.request));
        let behind = own.partition_point(|(at_ns, _)| *at_ns <= reply.0);
        let exits = matches!(own.last(), Some((_, DraftStep::Exit)));
        own.insert(behind.min(own.len() - usize::from(exits)), reply);
        // What follows the last reply is the loop's way to sleep.
        let executed_ns = if is_last { all_ns } else { to_ns } - from_ns;
        let one = &served[(part.request.0 - first) as usize];
        if position == 0 {
            let activation = &mut draft.activation;
            activation.executed_ns = executed_ns;
            if let Trigger::Outside { at_ns, .. } = &mut activation.trigger {
                // A timer began it, and the request came meanwhile.
                *at_ns = (*at_ns).max(one.arrives_ns);
            }
            draft.deeds = own;
        } else {
            let trigger = Trigger::outside(one.arrives_ns, 0, ArrivalContext::SoftIrq);
            let woken_ns = one.arrives_ns.max(draft.activation.woken_ns);
            let mut activation = Activation::new(draft.activation.thread, trigger, woken_ns);
            activation.executed_ns = executed_ns;
            activation.end_ns = draft.activation.end_ns;
            activation.follows = moved(&activation, one);
            new.push(Draft {
                activation,
                deeds: own,
                sleeps: 0,
                approach_ns: 0,
                preempts: false,
            });
        }
        from_ns = to_ns;
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_a_round_is_divided_and_none_is_lost() {
        let singles = [15_000, 15_000, 15_000, 70_000, 9_000_000];
        let parts = divide(&singles, 2, 85_000, 1);
        assert_eq!(parts.iter().sum::<u64>(), 85_000);
        assert_eq!(parts.iter().min(), Some(&15_000));
        assert_eq!(divide(&singles, 1, 4_000_000, 2), [4_000_000]);
        assert_eq!(divide(&[], 2, 10, 3), [5, 5], "nothing was alone");
    }

    /// Piles of requests with these works, ns, in the order of execution.
    fn piles<const N: usize>(works: &[[u64; N]]) -> Piles {
        let mut piles = Piles::default();
        for works_ns in works {
            let mut pile = Pile::default();
            works_ns.iter().for_each(|work_ns| pile.add(*work_ns));
            piles.take(&mut pile);
        }
        piles
    }

    #[test]
    fn piles_that_are_answered_one_by_one_are_no_rounds() {
        // The dearer of two requests comes first in 30 of 60 piles.
        let one_by_one = [[9_000_000, 15_000], [15_000, 9_000_000]].repeat(30);
        assert!(!piles(&one_by_one).are_rounds());
        // Of two with the same cost, the first is a little dearer by the way from its wakeup.
        assert!(!piles(&[[5_003_000, 5_000_000]; 60]).are_rounds());
        let little = [[4_000, 400]; 60];
        assert_eq!(piles(&little).all, 0, "too little work");
    }

    #[test]
    fn piles_whose_replies_come_together_are_rounds() {
        let mut together = [[9_000_000, 15_000, 20_000]; 45].to_vec();
        assert!(piles(&together).are_rounds());
        // 8 of 8 are 5.3 more than the 2.7 of chance, whose deviation is 1.33.
        assert!(piles(&together[..8]).are_rounds());
        assert!(!piles(&together[..7]).are_rounds(), "too few");
        assert!(piles(&[[260_000, 30_000]; 20]).are_rounds(), "brief ones");
        // 45 are nearer to 67 than to 22.3, a third of them, but not nearer to 68 than to 22.7.
        together.extend([[15_000, 9_000_000, 20_000]; 23]);
        assert!(piles(&together[..67]).are_rounds());
        assert!(!piles(&together).are_rounds());
    }
}
