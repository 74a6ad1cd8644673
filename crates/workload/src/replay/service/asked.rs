//! Which requests there were: from the client's log, or from the trace.
//!
//! # From the log
//!
//! The log says it all, if it is of these clients: four in five answers come while a client is
//! awake. Where clients are on other machines, four in five come at most 1 ms after a thread of the
//! service ran that requests wake.
//!
//! # From the trace
//!
//! A client that keeps a schedule is woken by timers. If at least four in five of those wakeups
//! that find the service asleep send it something, each such wakeup is a request, visible or not,
//! due when the timer woke the client. A message that the client sends at another time, while
//! nothing is under way, is one too.
//!
//! A timer may be up to 1 ms late itself: `coarse`. Such a client sends all that fell due in a
//! millisecond at once, and only the first message wakes the service. If four in five of the
//! periods with one request have one reply, every reply has its own request. A reply without one
//! shows that two requests were sent together.
//!
//! Some clients have timers that send nothing: every program in Go has a thread that looks after
//! the others each 20 µs to 10 ms, and wakes a millisecond early for every other timer. A timer's
//! *work* is the CPU time from its wakeup to sleep, with that of the client's threads that it wakes
//! in turn, one of which may be the one that sends. Where fewer than four in five timers send, the
//! least work is looked for that tells best which do. It must tell four in five of them, and four
//! in five that it tells must send. In a recording of a client in Go, 670 of 6284 timers that found
//! the service asleep sent something; 79 µs of work tells them with 13 errors.
//!
//! Which reply is whose is not in a trace. While the service is busy, from its first wakeup to when
//! all threads that clients wake or that reply are asleep, requests are answered in the order of
//! their arrival, and all of them. (A client whose connections are all busy keeps requests back,
//! and sends them when it has answers: if such a message follows, the service was not done.)
//! Replies that follow each other closely wake the client once: so every visible reply gets one
//! request of such a period, and the others are given to replies in proportion to the work the
//! client did for each. Where there are fewer requests than replies, work alone decides. No reply
//! is given to a request that had not arrived.
//!
//! A client has a reply when it has read it, not when it begins to run: what it does from there
//! until it sleeps, or sends again, is reading. Requests that share a reply share that work in
//! order.
//!
//! # Worked example
//!
//! In one period a client was woken by timers at 1, 2 and 3 ms, and by replies at 90 and 91 ms,
//! which it worked 40 and 22 µs for. Of three requests the first reply is given 1 + 1 · 40 / 62 =
//! 1.6, rounded to two, and the second the last. The client begins to run 2 µs after each reply, so
//! it has the three replies at 90.022, 90.042 and 91.024 ms.

use super::super::activity::{Begun, Draft, DraftStep};
use super::super::model::Trigger;
use super::super::threads::ThreadId;
use super::clock::Clock;
use super::coarse::{self, Coarse};
use super::{Asked, Border, MESSAGES_MIN};
use schedcast_trace::Request;
use std::collections::{BTreeMap, BTreeSet};

/// A message that a client had kept back follows an answer within this time, and an answer reaches
/// another machine so soon.
const AT_ONCE_NS: u64 = 1_000_000;

/// At least four in five.
pub(super) fn most(count: usize, all: usize) -> bool {
    count * 5 >= all * 4
}

/// The requests of the log, in order of sending, and the connection of each. A log of whole
/// milliseconds does not tell which request follows which reply: connections say nothing then.
pub(super) fn from_log(
    border: &Border<'_>,
    drafts: &[Draft],
    clock: &Clock<'_>,
) -> Option<(Vec<Asked>, Option<Vec<u32>>)> {
    let evidence = border.evidence;
    let log = evidence.log?;
    let since_ns = |us: u64| (us as i64).saturating_mul(1000) - evidence.start_ns as i64;
    let length_ns = (evidence.end_ns - evidence.start_ns) as i64;
    let mut rows: Vec<&Request> = log
        .iter()
        .filter(|request| (0..length_ns).contains(&since_ns(request.replied_us)))
        .collect();
    rows.sort_by_key(|request| (request.sent_us, request.scheduled_us));
    // By connection: when the last reply came.
    let mut replied_us: BTreeMap<u32, u64> = BTreeMap::new();
    let asked: Vec<Asked> = rows
        .iter()
        .map(|request| {
            let before_us = replied_us.insert(request.client, request.replied_us);
            let free_us = before_us.unwrap_or(0).min(request.sent_us);
            Asked {
                sent_ns: since_ns(request.sent_us),
                due_ns: since_ns(request.scheduled_us),
                replied_ns: since_ns(request.replied_us) as u64,
                late_ns: 0,
                busy_ns: free_us.saturating_sub(request.scheduled_us) * 1000,
                reply: None,
                after: None,
            }
        })
        .collect();
    let own = border.of_clients(drafts);
    let awake = |one: &&Asked| {
        let woken = |draft: &usize| drafts[*draft].activation.woken_ns <= one.replied_ns;
        let before = &own[..own.partition_point(woken)];
        // The clocks of log and trace are the same; the log is rounded to microseconds.
        let ends = |draft: &usize| {
            let end_ns = drafts[*draft].activation.end_ns;
            end_ns.is_none_or(|end_ns| end_ns + 1_000 >= one.replied_ns)
        };
        before.iter().rev().take(border.clients.len()).any(ends)
    };
    let repliers = border.repliers();
    let ran = |one: &&Asked| {
        let ended = clock.last_end_of_any_ns(repliers.keys().copied(), one.replied_ns);
        ended.is_some_and(|end_ns| end_ns + AT_ONCE_NS >= one.replied_ns)
    };
    let agreeing = match border.is_remote {
        true => asked.iter().filter(ran).count(),
        false => asked.iter().filter(awake).count(),
    };
    let tells = !Request::are_whole_milliseconds(log);
    let connections = tells.then(|| rows.iter().map(|request| request.client).collect());
    (asked.len() >= MESSAGES_MIN && most(agreeing, asked.len())).then_some((asked, connections))
}

/// The requests that the trace shows, in order of sending.
pub(super) fn from_trace(
    border: &Border<'_>,
    drafts: &[Draft],
) -> Option<(Vec<Asked>, Option<Coarse>)> {
    if border.is_remote {
        return None;
    }
    let periods = periods(border, drafts);
    let is_asleep = |at_ns: u64| {
        let before = periods.partition_point(|(from_ns, _)| *from_ns <= at_ns);
        before
            .checked_sub(1)
            .is_none_or(|last| periods[last].1 < at_ns)
    };
    let prompted = Prompted::of(border, drafts);
    let asleep = prompted.prompts.iter().filter(|one| is_asleep(one.due_ns));
    let least_work_ns = least_work_ns(asleep)?;
    let sending = prompted.prompts.iter().filter(|one| one.sent_ns.is_some());
    let coarse = Coarse::of(sending.filter_map(|one| one.slept_ns));
    let mut arrivals: Vec<(Asked, Option<u64>)> = Vec::new();
    let late_ns = |slept_ns: Option<u64>, due_ns: u64| {
        let known = coarse.zip(slept_ns);
        known.map_or(0, |(coarse, slept_ns)| coarse.late_ns(slept_ns, due_ns))
    };
    for one in &prompted.prompts {
        let sent_ns = match one.sent_ns {
            Some(sent_ns) => sent_ns,
            None if one.work_ns < least_work_ns => continue,
            None if is_asleep(one.due_ns) && is_asleep(one.end_ns) => continue,
            None => one.end_ns,
        };
        let asked = Asked {
            late_ns: late_ns(one.slept_ns, one.due_ns),
            ..arrival(sent_ns, one.due_ns)
        };
        arrivals.push((asked, one.slept_ns));
    }
    arrivals.sort_by_key(|(one, _)| one.sent_ns);
    let mut extra = prompted.extra;
    extra.sort_unstable();
    let mut busy = Vec::new();
    let mut under_way: Vec<(Asked, Option<u64>)> = Vec::new();
    let client_work_ns = client_work_ns(border, drafts);
    let mut replies = border.replies.iter().copied().peekable();
    let (mut arrivals, mut extra) = (
        arrivals.into_iter().peekable(),
        extra.into_iter().peekable(),
    );
    for (from_ns, to_ns) in periods {
        let mut own: Vec<(usize, u64)> = Vec::new();
        while let Some(reply) = replies.next_if(|reply| border.time_ns(*reply) <= to_ns) {
            own.push((
                reply,
                client_work_ns.get(&reply).copied().unwrap_or(1).max(1),
            ));
        }
        while let Some(one) = arrivals.next_if(|(one, _)| one.sent_ns <= to_ns as i64) {
            under_way.push(one);
        }
        while let Some((sent_ns, slept_ns)) = extra.next_if(|(sent_ns, _)| *sent_ns <= to_ns) {
            let arrived = under_way
                .iter()
                .filter(|(one, _)| one.sent_ns <= sent_ns as i64);
            let answered = own
                .iter()
                .filter(|(reply, _)| border.time_ns(*reply) <= sent_ns);
            if sent_ns >= from_ns.saturating_sub(AT_ONCE_NS) && arrived.count() <= answered.count()
            {
                // Its client would have been woken for it by a timer, but was woken before.
                let slept_ns = slept_ns.filter(|slept_ns| coarse::is_last(*slept_ns));
                let asked = Asked {
                    late_ns: late_ns(slept_ns, sent_ns),
                    ..arrival(sent_ns, sent_ns)
                };
                under_way.push((asked, slept_ns));
            }
        }
        under_way.sort_by_key(|(one, _)| one.sent_ns);
        if !own.is_empty() {
            busy.push((std::mem::take(&mut under_way), own));
        }
    }
    let alone = busy.iter().filter(|(requests, _)| requests.len() == 1);
    let (single, all) = alone.fold((0, 0), |(single, all), (_, replies)| {
        (single + usize::from(replies.len() == 1), all + 1)
    });
    let mut asked = Vec::new();
    for (mut requests, replies) in busy {
        if coarse.is_some() && most(single, all) {
            for twin in twins(border, &requests, &replies) {
                let (one, slept_ns) = requests[twin];
                let number = one.sent_ns as u64 + requests.len() as u64;
                let late_ns = late_ns(slept_ns, number);
                requests.insert(twin + 1, (Asked { late_ns, ..one }, slept_ns));
            }
        }
        let requests = requests.into_iter().map(|(one, _)| one).collect();
        asked.extend(answered(border, drafts, requests, &replies));
    }
    (asked.len() >= MESSAGES_MIN).then_some((asked, coarse))
}

/// A timer that wakes a client.
struct Prompt {
    due_ns: u64,
    /// How long the thread had slept that it woke.
    slept_ns: Option<u64>,
    /// CPU time of the client's threads until all of them sleep again.
    work_ns: u64,
    end_ns: u64,
    /// When one of them first woke a thread of the service.
    sent_ns: Option<u64>,
}

/// Timers of clients, and the messages that they led to.
struct Prompted {
    prompts: Vec<Prompt>,
    /// Messages that no timer led to, and how long the thread had slept whose wakeup did.
    extra: Vec<(u64, Option<u64>)>,
    /// By draft of a client: the position of the timer that led to it.
    of_draft: BTreeMap<usize, usize>,
}

impl Prompted {
    /// Threads of a client wake each other: who sends is often not the one that the timer woke.
    fn of(border: &Border<'_>, drafts: &[Draft]) -> Self {
        let own = border.of_clients(drafts);
        let mut waker = BTreeMap::new();
        for draft in &own {
            for (_, step) in &drafts[*draft].deeds {
                if let DraftStep::Wakes(waking) = step {
                    waker.insert(*waking, *draft);
                }
            }
        }
        let mut prompted = Self {
            prompts: Vec::new(),
            extra: Vec::new(),
            of_draft: BTreeMap::new(),
        };
        let mut ended_ns: BTreeMap<ThreadId, u64> = BTreeMap::new();
        let mut of_first_ns = BTreeMap::new();
        for index in own {
            let draft = &drafts[index];
            let activation = &draft.activation;
            let slept_ns = ended_ns
                .get(&activation.thread)
                .and_then(|ended_ns| activation.woken_ns.checked_sub(*ended_ns));
            ended_ns.extend(activation.end_ns.map(|end_ns| (activation.thread, end_ns)));
            let before = border
                .waking_of(index)
                .and_then(|waking| waker.get(&waking));
            let first_ns = before.map_or(slept_ns, |before| of_first_ns[before]);
            of_first_ns.insert(index, first_ns);
            let led = before
                .and_then(|before| prompted.of_draft.get(before))
                .copied();
            let end_ns = activation.end_ns.unwrap_or(activation.woken_ns);
            let position = match led {
                _ if Border::is_prompt(draft) => {
                    prompted.prompts.push(Prompt {
                        due_ns: activation.woken_ns,
                        slept_ns,
                        work_ns: 0,
                        end_ns,
                        sent_ns: None,
                    });
                    prompted.prompts.len() - 1
                }
                Some(position) => position,
                None => {
                    let messages = sends(border, draft);
                    prompted
                        .extra
                        .extend(messages.map(|sent_ns| (sent_ns, first_ns)));
                    continue;
                }
            };
            prompted.of_draft.insert(index, position);
            let prompt = &mut prompted.prompts[position];
            prompt.work_ns += activation.executed_ns;
            prompt.end_ns = prompt.end_ns.max(end_ns);
            prompt.sent_ns = prompt.sent_ns.or(sends(border, draft).next());
        }
        prompted
    }
}

/// The least work after a timer that sends a request, told from timers that find the service
/// asleep. None, if their work does not tell which of them send something.
fn least_work_ns<'a>(asleep: impl Iterator<Item = &'a Prompt>) -> Option<u64> {
    let mut tried: Vec<(u64, bool)> = asleep
        .map(|one| (one.work_ns, one.sent_ns.is_some()))
        .collect();
    let sending = tried.iter().filter(|(_, sends)| *sends).count();
    if tried.len() < MESSAGES_MIN {
        return None;
    }
    if most(sending, tried.len()) {
        return Some(0);
    }
    tried.sort_unstable();
    // From the first of those with the same work on, all are believed to send.
    let mut sending_before = 0;
    let mut best: Option<(usize, usize, usize, u64)> = None;
    for (place, (work_ns, sends)) in tried.iter().enumerate() {
        let (right, believed) = (sending - sending_before, tried.len() - place);
        let wrong = sending_before + believed - right;
        let begins = place == 0 || tried[place - 1].0 < *work_ns;
        if begins && best.is_none_or(|(least, ..)| wrong < least) {
            best = Some((wrong, right, believed, *work_ns));
        }
        sending_before += usize::from(*sends);
    }
    let (_, right, believed, work_ns) = best?;
    let tells = right >= MESSAGES_MIN && most(right, believed) && most(right, sending);
    tells.then_some(work_ns)
}

fn arrival(sent_ns: u64, due_ns: u64) -> Asked {
    Asked {
        sent_ns: sent_ns as i64,
        due_ns: due_ns as i64,
        replied_ns: 0,
        late_ns: 0,
        busy_ns: 0,
        reply: None,
        after: None,
    }
}

/// Times at which a draft of a client sends to the group.
fn sends<'a>(border: &'a Border<'_>, draft: &'a Draft) -> impl Iterator<Item = u64> + 'a {
    draft.deeds.iter().filter_map(|(_, step)| match step {
        DraftStep::Wakes(waking) => {
            let wakee = border.evidence.wakings[*waking].wakee;
            border.inside[wakee.index()].then(|| border.time_ns(*waking))
        }
        _ => None,
    })
}

/// CPU time of the client for each reply, ns.
fn client_work_ns(border: &Border<'_>, drafts: &[Draft]) -> BTreeMap<usize, u64> {
    let work_ns = |reply: &usize| match border.begun[*reply] {
        Begun::Draft(draft) => Some((*reply, drafts[draft].activation.executed_ns)),
        _ => None,
    };
    border.replies.iter().filter_map(work_ns).collect()
}

/// Messages that a client sent in a draft that no timer led to.
fn kept_back(border: &Border<'_>, drafts: &[Draft]) -> BTreeSet<usize> {
    let prompted = Prompted::of(border, drafts);
    let own = border.of_clients(drafts);
    let late = own
        .iter()
        .filter(|draft| !prompted.of_draft.contains_key(*draft));
    let deeds = late.flat_map(|draft| &drafts[*draft].deeds);
    deeds
        .filter_map(|(_, step)| match step {
            DraftStep::Wakes(waking) => Some(*waking),
            _ => None,
        })
        .collect()
}

/// From when to when the service was busy: the threads that clients wake, and those that reply.
fn periods(border: &Border<'_>, drafts: &[Draft]) -> Vec<(u64, u64)> {
    let repliers = border.repliers();
    let entered = border
        .entries
        .iter()
        .map(|(draft, _)| drafts[*draft].activation.thread);
    let serving: BTreeSet<ThreadId> = entered.chain(repliers.into_keys()).collect();
    let kept_back = kept_back(border, drafts);
    let late = border
        .entries
        .iter()
        .filter(|(_, waking)| kept_back.contains(waking));
    let late: BTreeSet<usize> = late.map(|(draft, _)| *draft).collect();
    let mut spans: Vec<(u64, u64)> = drafts
        .iter()
        .enumerate()
        .filter(|(_, draft)| serving.contains(&draft.activation.thread))
        .map(|(index, draft)| {
            let activation = &draft.activation;
            let from_ns = match activation.trigger {
                Trigger::Start => 0,
                _ if late.contains(&index) => activation.woken_ns.saturating_sub(AT_ONCE_NS),
                _ => activation.since_ns(),
            };
            (from_ns, activation.end_ns.unwrap_or(activation.woken_ns))
        })
        .collect();
    spans.sort_unstable();
    let mut periods: Vec<(u64, u64)> = Vec::new();
    for (from_ns, to_ns) in spans {
        match periods.last_mut() {
            Some(last) if from_ns <= last.1 => last.1 = last.1.max(to_ns),
            _ => periods.push((from_ns, to_ns)),
        }
    }
    periods
}

/// Requests of a period with which others were sent: a reply comes for which there is no request
/// yet. They are in the order of the requests, last ones first.
fn twins(
    border: &Border<'_>,
    requests: &[(Asked, Option<u64>)],
    replies: &[(usize, u64)],
) -> Vec<usize> {
    let mut twins = Vec::new();
    for (number, (reply, _)) in (1..).zip(replies) {
        let at_ns = border.time_ns(*reply) as i64;
        let sent = requests.partition_point(|(one, _)| one.sent_ns <= at_ns);
        if sent > 0 && sent + twins.len() < number {
            twins.push(sent - 1);
        }
    }
    twins.reverse();
    twins
}

/// Gives the requests of a period, in order, to its replies, each with its weight.
fn answered(
    border: &Border<'_>,
    drafts: &[Draft],
    requests: Vec<Asked>,
    replies: &[(usize, u64)],
) -> Vec<Asked> {
    let all: u64 = replies.iter().map(|(_, weight)| weight).sum();
    let count = requests.len() as u64;
    // Every reply answers one, and weights tell where the others are. Of fewer requests, weights
    // tell.
    let each = u64::from(replies.len() as u64 <= count);
    let others = count - each * replies.len() as u64;
    // Whether a request is among those, rounded, that the replies up to this one answer.
    let is_of = |at: usize, reached: u64, number: u64| {
        let answered = each * (at as u64 + 1) * all + others * reached;
        answered * 2 >= (number * 2 + 1) * all
    };
    let mut at = 0;
    // Weights of the replies up to and with the one at `at`.
    let mut reached = replies.first().map_or(0, |(_, weight)| *weight);
    let mut given: Vec<Asked> = Vec::with_capacity(requests.len());
    for (number, request) in (0u64..).zip(requests) {
        let too_early = |at: usize| (border.time_ns(replies[at].0) as i64) < request.sent_ns;
        while at + 1 < replies.len() && (!is_of(at, reached, number) || too_early(at)) {
            at += 1;
            reached += replies[at].1;
        }
        let Some((reply, _)) = replies.get(at).filter(|_| !too_early(at)) else {
            continue;
        };
        given.push(Asked {
            replied_ns: border.time_ns(*reply),
            reply: Some(*reply),
            ..request
        });
    }
    for shared in given.chunk_by_mut(|one, next| one.reply == next.reply) {
        let count = shared.len() as u64;
        let reading = shared[0].reply.and_then(|it| reading(border, drafts, it));
        if let Some((from_ns, work_ns)) = reading {
            for (number, one) in (1..).zip(shared) {
                one.replied_ns = from_ns + work_ns * number / count;
            }
        }
    }
    given
}

/// When the client of a reply begins to read, and for how much of its CPU time.
fn reading(border: &Border<'_>, drafts: &[Draft], reply: usize) -> Option<(u64, u64)> {
    let Begun::Draft(draft) = border.begun[reply] else {
        return None;
    };
    let draft = &drafts[draft];
    let sent = |(into_ns, step): &(u64, DraftStep)| match step {
        DraftStep::Wakes(waking) => {
            let wakee = border.evidence.wakings[*waking].wakee;
            border.inside[wakee.index()].then_some(*into_ns)
        }
        _ => None,
    };
    let until_ns = draft.deeds.iter().find_map(sent);
    let work_ns = until_ns.unwrap_or(draft.activation.executed_ns);
    Some((draft.activation.first_run_ns?, work_ns))
}
