//! Requests in the work of threads: their [replies](super::replies), and the parts of activations
//! that wait for arrivals.
//!
//! The work of the service from one reply to the next, in whichever threads, is for the request of
//! the later reply; if that request arrived in between, only the work after its arrival is. So
//! activations are cut at the replies of the whole service, and a part does not begin before its
//! request has arrived. Only work that was held back is cut: a part at whose end its thread
//! replies, or that was executed more than 1 ms later than its causes allow. A cause is the arrival
//! that the part before waits for, or, at the beginning of an activation, what the thread that
//! began it had waited for by then.
//!
//! In a closed loop requests come in another order than recorded, so that the part behind a wait is
//! an activation of its own, which the arrival begins. A part that the arrival leads to already,
//! through what a proxy asks its backend and the backend's answer, is not cut off, since it would
//! no longer wait for the backend. nginx before a Go server, simulated again, has a p50 of 1.02 ms,
//! where its log says 1.12; cut off, it would have 0.64.

use super::super::activity::{Draft, DraftStep};
use super::super::model::Trigger;
use super::super::threads::ThreadId;
use super::chain::Chain;
use super::clock::Clock;
use super::forked::{Child, Forked};
use super::levels::{self, Gates, Level, Levels};
use super::reordered::{self, Stretches};
use super::replies::Reply;
use super::rounds::Found as Rounds;
use super::{Asked, Border, RequestId, Served, aside, own, woken};
use schedcast_sim::workload::ArrivalContext;
use std::collections::BTreeMap;

/// A client that wakes a thread of the service has sent its message within this time before, ns.
pub(super) const SAME_NS: i64 = 1_000_000;

/// The position of the time nearest to `at_ns`, if both may be of one message.
pub(super) fn same(times_ns: &[i64], at_ns: i64) -> Option<usize> {
    let next = times_ns.partition_point(|time_ns| *time_ns < at_ns);
    let around = next.saturating_sub(1)..(next + 1).min(times_ns.len());
    let apart_ns = |position: &usize| times_ns[*position].abs_diff(at_ns);
    let nearest = around.min_by_key(apart_ns)?;
    (apart_ns(&nearest) <= SAME_NS as u64).then_some(nearest)
}

/// Work that was executed more than this after its causes, ns, was held back.
const HELD_BACK_NS: u64 = 1_000_000;
/// Puts the requests of one service into the drafts.
pub(super) struct Placing<'a> {
    pub border: &'a Border<'a>,
    pub clock: &'a Clock<'a>,
    /// Children that serve one request each.
    pub forked: Option<&'a Forked>,
    pub service: u32,
    /// Requests of a closed loop come at any time among those of [other clients](super::kinds).
    pub in_any_order: bool,
}

/// Requests that were put into the drafts.
pub(super) struct Put {
    /// Wakings that no longer begin an activation, because it keeps its time.
    pub loosened: Vec<usize>,
    /// The event loop that answers in rounds, if there is one, with the size of the largest.
    pub answering: Option<(ThreadId, u32)>,
    /// Per draft that was there before: whether it stands aside.
    pub aside: Vec<bool>,
    /// CPU time of threads for being woken, ns.
    pub woken_ns: BTreeMap<ThreadId, u64>,
}

impl Placing<'_> {
    /// Puts arrivals, waits and replies of requests, which are in the order of sending, into the
    /// drafts.
    pub(super) fn put(
        &self,
        asked: &[Asked],
        drafts: &mut Vec<Draft>,
        requests: &mut Vec<Served>,
    ) -> Put {
        let mut arrives_ns = arrivals(asked);
        for child in self.children() {
            if let Some(position) = child.asked {
                arrives_ns[position] = arrives_ns[position].min(child.come_ns);
            }
        }
        let began = self.enter(asked, &arrives_ns, drafts);
        let mut replies = self.replies(asked, drafts);
        replies
            .sort_unstable_by_key(|reply| (reply.at_ns, reply.draft, reply.into_ns, reply.asked));
        // A request of several messages tells nothing of wakeups.
        let woken_ns = match asked.iter().any(|one| one.goes_on) {
            true => BTreeMap::new(),
            false => {
                let replying = replies.iter().map(|reply| reply.draft);
                woken::of_wakeups(self.border.evidence.threads, drafts, replying)
            }
        };
        let first = requests.len() as u32;
        requests.extend(replies.iter().map(|reply| {
            let one @ Asked {
                due_ns,
                replied_ns,
                late_ns,
                ..
            } = asked[reply.asked];
            let due_ns = due_ns.saturating_sub_unsigned(late_ns);
            let since_ns = one.first.map_or(due_ns, |first| asked[first].due_ns);
            Served {
                service: self.service,
                kind: one.kind,
                due_ns,
                arrives_ns: arrives_ns[reply.asked],
                read_ns: reply.read_ns(replied_ns),
                latency_ns: (replied_ns as i64 - since_ns).max(0) as u64,
                follows: None,
                is_handed: false,
                first: None,
                goes_on: one.goes_on,
                behind_ns: 0,
            }
        }));
        let chain = Chain::new(asked, &replies, first);
        // The first message of each request that is answered.
        let mut firsts: BTreeMap<usize, (usize, RequestId)> = BTreeMap::new();
        let whole = |position: usize| asked[position].first.unwrap_or(position);
        for (reply, number) in replies.iter().zip(first..) {
            let one = (reply.asked, RequestId(number));
            let earliest = firsts.entry(whole(reply.asked)).or_insert(one);
            *earliest = one.min(*earliest);
        }
        for (reply, served) in replies.iter().zip(&mut requests[first as usize..]) {
            let (position, id) = firsts[&whole(reply.asked)];
            served.first = (position != reply.asked).then_some(id);
        }
        let follow = |requests: &mut [Served], which: &dyn Fn(usize) -> bool| {
            for (reply, number) in replies.iter().zip(first..) {
                if !which(reply.asked) {
                    continue;
                }
                // The draw may fall before the reply that the client had by then.
                let dues_ns = [requests[number as usize].due_ns, asked[reply.asked].due_ns];
                let follows = |due_ns: i64| chain.follows(reply.asked, due_ns.max(0) as u64);
                let [drawn, last] = dues_ns.map(follows);
                requests[number as usize].follows = drawn.filter(|one| one.after_ns > 0).or(last);
            }
        };
        follow(requests, &|position| !chain.has_time(position));
        let mut levels = Levels {
            of_entry: began.iter().copied().collect(),
            tied: levels::tied(drafts),
            ..Levels::default()
        };
        for (draft, position) in began.into_iter().chain(self.senders(asked, drafts)) {
            let activation = &mut drafts[draft].activation;
            if let Trigger::Outside { at_ns, .. } = activation.trigger {
                activation.follows = chain.follows(position, at_ns);
            }
        }
        let inside = |draft: &usize| {
            let thread = drafts[*draft].activation.thread;
            self.border.inside[thread.index()] || self.border.backends.contains(&thread)
        };
        let sent_ns = |reply: &Reply| asked[reply.asked].sent_ns.max(0) as u64;
        let rounds = Rounds::new(drafts, &self.border.inside, &replies, sent_ns, first);
        let answering = rounds.as_ref().map(|found| (found.thread, found.largest()));
        let looping = answering.map(|(thread, _)| thread);
        let Border {
            evidence, begun, ..
        } = self.border;
        let woken = self.border.entries.iter();
        let woken = woken.map(|(draft, _)| drafts[*draft].activation.thread);
        let aside = aside::aside(
            evidence.threads,
            &self.border.inside,
            &replies
                .iter()
                .map(|reply| reply.thread)
                .chain(woken)
                .collect(),
            drafts,
            begun,
            asked.len(),
        );
        let own = own::drafts_of_workers(evidence.threads, &self.border.inside, drafts, &replies);
        let mut in_order: Vec<usize> = (0..drafts.len())
            .filter(|draft| inside(draft) && !aside[*draft])
            .filter(|draft| Some(drafts[*draft].activation.thread) != looping)
            .collect();
        in_order.sort_by_key(|draft| drafts[*draft].activation.woken_ns);
        let is_parent = |draft: &Draft| {
            let mut forks = self.forks(draft);
            forks.next().is_some()
        };
        let mut stretches = Stretches::default();
        for index in in_order {
            let draft = &drafts[index];
            if self.border.backends.contains(&draft.activation.thread) {
                let level = self.level(index, draft, &levels);
                levels.pass_on(index, draft, &[(0, level)]);
                continue;
            }
            let steps = match is_parent(draft) {
                true => self.cut_forks(index, draft, &chain, requests, &mut levels),
                false => self.cut(
                    index,
                    draft,
                    asked,
                    &replies,
                    requests,
                    first,
                    &mut levels,
                    own.contains(&index),
                ),
            };
            for (into_ns, step) in steps {
                drafts[index].insert(into_ns, step);
            }
            let draft = &drafts[index];
            let thread = draft.activation.thread;
            let by = draft.activation.trigger.thread();
            let by = by.filter(|by| self.border.inside[by.index()]);
            let is_helped = by.zip(stretches.last(thread)).is_some_and(|(by, before)| {
                reordered::waits_for(&drafts[before], by, evidence.wakings)
            });
            // What another thread of the service wakes a worker for comes in that order.
            let is_loop = !is_parent(draft)
                && (by.is_none() || !own.contains(&index))
                && self.child(thread).is_none()
                && !reordered::asks(draft, &self.border.backends, evidence.wakings)
                && reordered::has_parts(draft, |id| {
                    let one = &asked[replies[id.index() - first as usize].asked];
                    one.handed_ns.is_none() && requests[id.index()].follows.is_none()
                });
            match is_loop {
                true => {
                    let earliest_ns = self.level(index, draft, &levels).at_ns;
                    stretches.add(index, thread, is_helped, earliest_ns);
                }
                false => stretches.end(thread),
            }
        }
        stretches.sort(drafts, requests);
        self.wait_behind(drafts, &levels, &arrives_ns, requests);
        for id in &levels.handed {
            requests[id.index()].is_handed = true;
        }
        let positions = replies.iter().map(|reply| reply.asked);
        let accepting = self.forked.map(|forked| forked.parent);
        chain.split(drafts, requests, positions, accepting, self.in_any_order);
        // What waits for the first message of a request in the middle of an activation waits until
        // its time, as that of an open loop; only what begins one comes later if its client has no
        // reply yet.
        follow(requests, &|position| asked[position].keeps_schedule);
        for (reply, served) in replies.iter().zip(&mut requests[first as usize..]) {
            served.is_handed |= asked[reply.asked].keeps_schedule;
        }
        for (reply, served) in replies.iter().zip(&mut requests[first as usize..]) {
            // No reply is known that it follows: it is due when its request is, and comes then.
            if let Some(whole) = asked[reply.asked].first
                && served.follows.is_none()
            {
                served.due_ns = asked[whole].due_ns;
            }
        }
        if let Some(rounds) = rounds {
            rounds.split(drafts, &requests[first as usize..], first);
        }
        let entries = self.border.entries.iter();
        Put {
            loosened: entries.map(|(_, waking)| *waking).collect(),
            answering,
            aside,
            woken_ns,
        }
    }

    /// Replies of a draft, and the waits between the parts of it that are for different requests.
    ///
    /// `levels` has what was found of the drafts that were woken earlier.
    #[allow(clippy::too_many_arguments)] // what is known of all drafts
    fn cut(
        &self,
        index: usize,
        draft: &Draft,
        asked: &[Asked],
        replies: &[Reply],
        requests: &[Served],
        first: u32,
        levels: &mut Levels,
        is_of_worker: bool,
    ) -> Vec<(u64, DraftStep)> {
        let activation = &draft.activation;
        let mut gates = Gates::of(self.level(index, draft, levels));
        let is_child = self.child(activation.thread).is_some();
        // What follows the answer of a backend is for the request that it was asked for.
        let by = activation.trigger.thread();
        let is_led = by.is_some_and(|by| self.border.backends.contains(&by));
        let slept_ns = self
            .clock
            .last_end_of_any_ns(std::iter::once(activation.thread), activation.woken_ns);
        // One whose end the trace lacks was over when its thread was woken again.
        let again_ns = || self.clock.woken_again_ns(activation.thread, index);
        let end_ns = activation.end_ns.or_else(again_ns).unwrap_or(u64::MAX);
        let from = replies.partition_point(|reply| reply.at_ns < activation.woken_ns);
        let own = replies[from..].iter().zip(from as u32..);
        let mut before_ns = 0;
        let mut replied_ns = None;
        for (reply, number) in own.take_while(|(reply, _)| reply.at_ns <= end_ns) {
            let id = RequestId(first + number);
            let is_here = reply.draft == index;
            if (is_child || is_led || is_of_worker) && !is_here {
                continue;
            }
            let thread = activation.thread;
            let into_ns = match is_here {
                true => reply.into_ns,
                false => self.clock.executed_of_ns(thread, index, reply.at_ns),
            };
            let into_ns = into_ns.clamp(before_ns, activation.executed_ns.max(before_ns));
            let request = &requests[id.index()];
            let taken_ns = asked[reply.asked].taken_alone_ns.filter(|_| is_here);
            let sent_ns = u64::try_from(asked[reply.asked].sent_ns).unwrap_or(0);
            let from_ns = taken_ns.unwrap_or(sent_ns);
            let gate_ns = self.clock.executed_of_ns(thread, index, from_ns);
            let gate_ns = gate_ns.clamp(before_ns, into_ns);
            let piled = is_here || reply.at_ns.saturating_sub(gates.level.at_ns) > HELD_BACK_NS;
            let since_ns = asked[reply.asked].handed_ns;
            let has_slept = since_ns
                .zip(slept_ns)
                .is_some_and(|(since, slept)| since < slept);
            let is_handed = request.follows.is_some() && has_slept;
            let is_taken = taken_ns.is_some_and(|taken_ns| taken_ns < activation.woken_ns);
            let has_come = is_taken || gates.level.asked == Some(reply.asked);
            let is_free = request.follows.is_some() || self.in_any_order;
            let comes = is_here && is_free && !has_come;
            let later = !is_handed && (request.arrives_ns > gates.level.at_ns || comes);
            // The request of a child has come when it is forked.
            if later && piled && !is_child && (is_here || gate_ns < into_ns) {
                gates.wait(gate_ns, id, request, reply.asked);
            }
            if is_here {
                if is_handed {
                    levels.handed.push(id);
                }
                gates.steps.push((into_ns, DraftStep::Replies(id)));
                replied_ns = Some(into_ns);
            }
            before_ns = into_ns;
        }
        if let Some(from_ns) = replied_ns
            && let Some(number) = self.behind(draft, replies, from_ns)
        {
            let id = RequestId(first + number);
            let request = &requests[id.index()];
            if gates.is_later(request) {
                gates.wait(from_ns, id, request, replies[number as usize].asked);
                gates.changes.sort_unstable();
            }
        }
        if let Some((taken_ns, number)) = self.taken_in(draft, asked, replies) {
            let id = RequestId(first + number);
            let (request, position) = (&requests[id.index()], replies[number as usize].asked);
            if request.follows.is_some() && gates.level.asked != Some(position) {
                let gate_ns = self
                    .clock
                    .executed_of_ns(activation.thread, index, taken_ns);
                gates.wait(gate_ns.max(before_ns), id, request, position);
            }
        }
        levels.pass_on(index, draft, &gates.changes);
        gates.steps
    }

    /// Notes how long requests wait for later ones at least.
    fn wait_behind(
        &self,
        drafts: &[Draft],
        levels: &Levels,
        arrives_ns: &[u64],
        requests: &mut [Served],
    ) {
        for (index, draft) in drafts.iter().enumerate() {
            if !self.border.inside[draft.activation.thread.index()] {
                continue;
            }
            // A request's own sleeps are no wait for another one.
            let led_by = self.level(index, draft, levels).asked;
            let mut level_ns = led_by.map_or(0, |asked| arrives_ns[asked]);
            for (_, step) in &draft.deeds {
                if let DraftStep::Awaits(id) = step {
                    level_ns = level_ns.max(requests[id.index()].arrives_ns);
                }
                if let DraftStep::Replies(id) = step {
                    let one = &mut requests[id.index()];
                    one.behind_ns = level_ns.saturating_sub(one.arrives_ns);
                }
            }
        }
    }

    /// The request for which a thread asks a backend behind its last reply in a draft, at
    /// `from_ns`: the next one that it replies to.
    fn behind(&self, draft: &Draft, replies: &[Reply], from_ns: u64) -> Option<u32> {
        let asks = |(into_ns, waking): (u64, usize)| {
            let wakee = self.border.evidence.wakings[waking].wakee;
            into_ns >= from_ns && self.border.backends.contains(&wakee)
        };
        draft
            .wakes()
            .any(asks)
            .then(|| next_reply(draft, replies))?
    }

    /// The request that a thread receives in a draft and answers in a later one, without another
    /// one in between: when, and the number of its reply.
    fn taken_in(&self, draft: &Draft, asked: &[Asked], replies: &[Reply]) -> Option<(u64, u32)> {
        let number = next_reply(draft, replies)?;
        let taken_ns = asked[replies[number as usize].asked].taken_alone_ns?;
        let activation = &draft.activation;
        let is_inside = activation.woken_ns <= taken_ns && Some(taken_ns) <= activation.end_ns;
        is_inside.then_some((taken_ns, number))
    }

    /// The earliest time at which a draft can begin under any limit.
    fn level(&self, index: usize, draft: &Draft, levels: &Levels) -> Level {
        let activation = &draft.activation;
        let tied = levels.tied.get(&index);
        let before = tied.and_then(|before| levels.of_end.get(before));
        match (activation.trigger, activation.slept_before_ns, before) {
            (_, Some(slept_ns), Some(before)) => Level {
                at_ns: before.at_ns + slept_ns,
                ..*before
            },
            (Trigger::Outside { at_ns, .. }, ..) => Level {
                at_ns,
                asked: levels.of_entry.get(&index).copied(),
            },
            (Trigger::Fork, ..) if levels.of_fork.contains_key(&activation.thread) => {
                levels.of_fork[&activation.thread]
            }
            _ => self
                .border
                .waking_of(index)
                .and_then(|waking| levels.of_waking.get(&waking).copied())
                .unwrap_or(Level::at(activation.woken_ns)),
        }
    }

    fn child(&self, thread: ThreadId) -> Option<&Child> {
        self.forked.and_then(|forked| forked.child(thread))
    }

    pub(super) fn children(&self) -> &[Child] {
        self.forked.map_or(&[], Forked::children)
    }

    /// Children that a draft forks for requests, each with how much was executed by then.
    fn forks<'d>(&'d self, draft: &'d Draft) -> impl Iterator<Item = (u64, &'d Child)> {
        draft.deeds.iter().filter_map(|(into_ns, step)| match step {
            DraftStep::Forks(thread) => Some((*into_ns, self.child(*thread)?)),
            _ => None,
        })
    }

    /// The waits of a draft that forks children for requests: the work up to each fork is for the
    /// request of that child.
    fn cut_forks(
        &self,
        index: usize,
        draft: &Draft,
        chain: &Chain<'_>,
        requests: &[Served],
        levels: &mut Levels,
    ) -> Vec<(u64, DraftStep)> {
        let mut gates = Gates::of(self.level(index, draft, levels));
        let mut gate_ns = 0;
        for (into_ns, child) in self.forks(draft) {
            let known = |position| Some((position, chain.known.get(&position)?.0));
            let request = child.asked.and_then(known);
            if let Some((position, id)) = request.filter(|_| !child.is_woken_for()) {
                let request = &requests[id.index()];
                if gates.is_later(request) {
                    gates.wait(gate_ns, id, request, position);
                }
            }
            levels.of_fork.insert(child.thread, gates.level);
            gate_ns = into_ns;
        }
        levels.pass_on(index, draft, &gates.changes);
        gates.steps
    }

    /// Gives drafts that clients began the times of arrivals. Returns which request each is of.
    fn enter(
        &self,
        asked: &[Asked],
        arrives_ns: &[u64],
        drafts: &mut [Draft],
    ) -> Vec<(usize, usize)> {
        let mut began = Vec::new();
        for &(draft, waking) in &self.border.entries {
            let woken_ns = self.border.time_ns(waking);
            let last = || {
                let next = asked.partition_point(|asked| asked.sent_ns <= woken_ns as i64);
                next.checked_sub(1)
                    .filter(|position| woken_ns as i64 - asked[*position].sent_ns <= SAME_NS)
            };
            let position = self.border.taken.get(&draft).copied().or_else(last);
            let mut at_ns = woken_ns;
            if let Some(position) = position {
                began.push((draft, position));
                let way_ns = woken_ns.saturating_sub(asked[position].sent_ns.max(0) as u64);
                at_ns = at_ns.min(arrives_ns[position] + way_ns);
            }
            let cpu = self.border.evidence.wakings[waking].cpu;
            let trigger = Trigger::outside(at_ns, cpu, ArrivalContext::SoftIrq);
            drafts[draft].activation.trigger = trigger;
        }
        began
    }

    /// Drafts that a timer of a client began and in which it sends a request of a closed loop:
    /// draft and the first such request.
    fn senders(&self, asked: &[Asked], drafts: &[Draft]) -> Vec<(usize, usize)> {
        let of_clients = self.border.of_clients(drafts);
        let prompt = |draft: &&usize| Border::is_prompt(&drafts[**draft]);
        let prompts: Vec<usize> = of_clients.iter().filter(prompt).copied().collect();
        let mut senders = BTreeMap::new();
        for (position, one) in asked.iter().enumerate() {
            let woken = |draft: &usize| drafts[*draft].activation.woken_ns as i64 <= one.sent_ns;
            let Some(last) = prompts.partition_point(woken).checked_sub(1) else {
                continue;
            };
            let end_ns = drafts[prompts[last]].activation.end_ns;
            let is_first = one.after.is_some() && one.first.is_none();
            if is_first && end_ns.is_none_or(|end_ns| end_ns as i64 >= one.sent_ns) {
                senders.entry(prompts[last]).or_insert(position);
            }
        }
        senders.into_iter().collect()
    }
}

/// The number of the first reply that the thread of a draft sends behind its end.
fn next_reply(draft: &Draft, replies: &[Reply]) -> Option<u32> {
    let end_ns = draft.activation.end_ns?;
    let to = replies.partition_point(|reply| reply.at_ns <= end_ns);
    let same = |reply: &Reply| reply.thread == draft.activation.thread;
    let next = replies[to..].iter().position(same)?;
    u32::try_from(to + next).ok()
}

/// When each request arrives: when it was sent, less the time that its connection was busy. A
/// client that sent late because it waited for a CPU waits in the replay, too: its neighbours run
/// there.
fn arrivals(asked: &[Asked]) -> Vec<u64> {
    asked
        .iter()
        .map(|one| one.sent_ns.saturating_sub_unsigned(one.busy_ns).max(0) as u64)
        .collect()
}
