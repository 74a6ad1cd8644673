//! Requests that follow the replies of a closed loop.
//!
//! A client of a closed loop sends its next request so long after the last reply as it did in the
//! recording. Where work waits for such a request it is cut off, and the arrival begins it.

use super::super::activity::{Draft, DraftStep};
use super::super::model::{Activation, Trigger};
use super::placed::Reply;
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

    /// Place of `at_ns` in a request's history: the reply that its client had before, and the time
    /// since. A client that sent it before it had that reply did not wait for it.
    pub(super) fn follows(&self, position: usize, at_ns: u64) -> Option<Follows> {
        let one = &self.asked[position];
        let before = one.after?;
        if self.asked[before].replied_ns as i64 > one.sent_ns {
            return None;
        }
        let (request, replied_ns) = *self.known.get(&before)?;
        Some(Follows {
            request,
            after_ns: at_ns.saturating_sub(replied_ns),
        })
    }

    /// Cuts activations where they wait for requests that follow others: these come in any order.
    /// The part behind the cut is an activation of its own, which the arrival begins. `positions`
    /// are those of the requests in `asked`.
    pub(super) fn split(
        &self,
        drafts: &mut Vec<Draft>,
        requests: &[Served],
        positions: impl Iterator<Item = usize>,
    ) {
        let positions: BTreeMap<RequestId, usize> = positions
            .map(|position| (self.known[&position].0, position))
            .collect();
        for index in 0..drafts.len() {
            loop {
                let waits = drafts[index].deeds.iter().enumerate();
                let mut moving = waits.filter_map(|(place, (into_ns, step))| match step {
                    DraftStep::Awaits(request) => {
                        let arrives_ns = requests[request.index()].arrives_ns;
                        let follows = self.follows(*positions.get(request)?, arrives_ns)?;
                        Some((place, *into_ns, arrives_ns, follows))
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
    follows: Follows,
) -> Draft {
    let whole = &mut draft.activation;
    let trigger = Trigger::outside(arrives_ns, 0, ArrivalContext::SoftIrq);
    let mut part = Activation::new(whole.thread, trigger, arrives_ns.max(whole.woken_ns));
    part.follows = Some(follows);
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
