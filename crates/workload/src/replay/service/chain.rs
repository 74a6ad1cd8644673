//! Requests that follow the replies of a closed loop.
//!
//! A client of a closed loop sends its next request as long after the last reply as in the
//! recording. Work that waits for such a request is cut off from its activation, and the arrival
//! begins it.

use super::super::activity::{Draft, DraftStep};
use super::super::model::{Activation, Trigger};
use super::super::threads::ThreadId;
use super::replies::Reply;
use super::users::FOLLOWS_WITHIN_NS;
use super::{Asked, Follows, RequestId, Served};
use schedcast_sim::workload::ArrivalContext;
use std::collections::BTreeMap;

/// Which replies the requests of a closed loop follow.
pub(super) struct Chain<'a> {
    asked: &'a [Asked],
    /// By position in `asked`: the number of the request, and when its reply was sent.
    pub known: BTreeMap<usize, (RequestId, u64)>,
}

impl<'a> Chain<'a> {
    pub(super) fn new(asked: &'a [Asked], replies: &[Reply], first: u32) -> Self {
        let numbered = replies.iter().zip(first..);
        let known = numbered.map(|(reply, number)| (reply.asked, (RequestId(number), reply.at_ns)));
        Self {
            asked,
            known: known.collect(),
        }
    }

    /// Whether it is a later message, which waits for the reply to an earlier one of its request.
    pub(super) fn is_in_middle(&self, position: usize) -> bool {
        let one = &self.asked[position];
        let is_other = |first: usize| one.after != self.asked[first].after;
        one.first.is_some_and(is_other)
    }

    /// Whether it has a time by its client's schedule, too.
    pub(super) fn has_time(&self, position: usize) -> bool {
        self.asked[position].keeps_schedule && !self.is_in_middle(position)
    }

    /// `at_ns` as a time since the reply that the client of a request had before. `None` if the
    /// client sent the request before it had that reply.
    pub(super) fn follows(&self, position: usize, at_ns: u64) -> Option<Follows> {
        let one = &self.asked[position];
        let before = one.after?;
        if self.asked[before].replied_ns as i64 > one.sent_ns {
            return None;
        }
        let (request, replied_ns) = *self.known.get(&before)?;
        let after_ns = at_ns.saturating_sub(replied_ns);
        Some(self.behind(position, request, after_ns, at_ns))
    }

    fn behind(&self, position: usize, request: RequestId, after_ns: u64, at_ns: u64) -> Follows {
        match self.has_time(position) {
            true => Follows {
                request,
                after_ns: after_ns.min(FOLLOWS_WITHIN_NS as u64),
                not_before_ns: at_ns,
            },
            false => Follows {
                request,
                after_ns,
                not_before_ns: 0,
            },
        }
    }

    /// The same for a new connection that is accepted at `at_ns`. A connection comes before its
    /// request, and possibly before the reply that the request follows: then it follows an earlier
    /// reply.
    fn accepted(&self, position: usize, at_ns: u64) -> Option<Follows> {
        self.follows(position, at_ns)?;
        let mut before = self.asked[position].after;
        while let Some(earlier) = before {
            let (request, replied_ns) = *self.known.get(&earlier)?;
            if let Some(after_ns) = at_ns.checked_sub(replied_ns) {
                return Some(self.behind(position, request, after_ns, at_ns));
            }
            before = self.asked[earlier].after;
        }
        None
    }

    /// Cuts activations where they wait for requests that follow others: these come in any order.
    /// So do all others with `all`. The part behind the cut is an activation of its own, which the
    /// arrival begins. `positions` are those of the requests in `asked`; `accepting` is the thread
    /// that accepts connections for its children.
    pub(super) fn split(
        &self,
        drafts: &mut Vec<Draft>,
        requests: &[Served],
        positions: impl Iterator<Item = usize>,
        accepting: Option<ThreadId>,
        all: bool,
    ) {
        let positions: BTreeMap<RequestId, usize> = positions
            .map(|position| (self.known[&position].0, position))
            .collect();
        for index in 0..drafts.len() {
            loop {
                let accepts = accepting == Some(drafts[index].activation.thread);
                let waits = drafts[index].deeds.iter().enumerate();
                let mut moving = waits.filter_map(|(place, (into_ns, step))| match step {
                    DraftStep::Awaits(request) => {
                        let arrives_ns = requests[request.index()].arrives_ns;
                        let position = *positions.get(request)?;
                        let follows = match accepts {
                            true => self.accepted(position, arrives_ns),
                            false => self.follows(position, arrives_ns),
                        };
                        let is_any = follows.is_some() && !self.has_time(position);
                        (all || is_any).then_some((place, *into_ns, arrives_ns, follows))
                    }
                    _ => None,
                });
                // The last one first, so that what is cut off is whole.
                let Some((place, into_ns, arrives_ns, follows)) = moving.next_back() else {
                    break;
                };
                let part = cut_off(&mut drafts[index], place, into_ns, arrives_ns, follows);
                drafts.push(part);
            }
        }
    }
}

/// Cuts a draft at a wait for an arrival.
fn cut_off(
    draft: &mut Draft,
    place: usize,
    into_ns: u64,
    arrives_ns: u64,
    follows: Option<Follows>,
) -> Draft {
    let whole = &mut draft.activation;
    let trigger = Trigger::outside(arrives_ns, 0, ArrivalContext::SoftIrq);
    let mut part = Activation::new(whole.thread, trigger, arrives_ns.max(whole.woken_ns));
    part.follows = follows;
    part.executed_ns = whole.executed_ns.saturating_sub(into_ns);
    part.end_ns = whole.end_ns;
    whole.executed_ns = into_ns.min(whole.executed_ns);
    let deeds = draft.deeds.split_off(place);
    Draft {
        activation: part,
        // The wait itself is over when the part begins.
        deeds: deeds
            .into_iter()
            .skip(1)
            .map(|(at_ns, step)| (at_ns.saturating_sub(into_ns), step))
            .collect(),
        sleeps: 0,
        approach_ns: 0,
        preempts: false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::asked::arrival;
    use super::*;

    /// Three requests on one connection, sent 1 ms apart and answered after 0.9 ms. What the third
    /// begins came after its predecessor's reply, or before it with the new connection.
    #[test]
    fn nothing_follows_a_reply_that_comes_later() {
        let asked = [(1, None), (2, Some(0)), (3, Some(1))].map(|(sent_ms, after)| Asked {
            after,
            ..arrival(sent_ms * 1_000_000, sent_ms * 1_000_000)
        });
        let known = [0, 1, 2].map(|position: usize| {
            let replied_ns = 1_900_000 + position as u64 * 1_000_000;
            (position, (RequestId(10 + position as u32), replied_ns))
        });
        let chain = Chain {
            asked: &asked,
            known: known.into(),
        };
        let follows = |at_ns| {
            let follows = chain.accepted(2, at_ns)?;
            Some((follows.request, follows.after_ns))
        };
        assert_eq!(follows(3_000_000), Some((RequestId(11), 100_000)));
        assert_eq!(follows(2_800_000), Some((RequestId(10), 900_000)));
        assert_eq!(follows(1_800_000), None);
    }
}
