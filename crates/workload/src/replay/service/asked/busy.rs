//! Periods in which a service is busy, the threads that answer, and the client's work for a reply.

use super::super::super::activity::{Draft, Source};
use super::super::super::model::Trigger;
use super::super::super::threads::ThreadId;
use super::super::{Asked, Border, MESSAGES_MIN};
use super::{AT_ONCE_NS, Prompted};
use std::collections::{BTreeMap, BTreeSet};

/// Messages of a draft of a client to the group, as wakings.
pub(super) fn sends<'a>(
    border: &'a Border<'_>,
    draft: &'a Draft,
) -> impl Iterator<Item = usize> + 'a {
    let messages = draft.wakes().map(|(_, waking)| waking);
    messages.filter(|waking| border.is_entered_by(*waking))
}

/// CPU time of the client for each reply, ns.
pub(super) fn client_work_ns(border: &Border<'_>, drafts: &[Draft]) -> BTreeMap<usize, u64> {
    let work_ns = |reply: &usize| {
        let draft = border.begun_by(*reply)?;
        Some((*reply, drafts[draft].activation.executed_ns))
    };
    border.replies.iter().filter_map(work_ns).collect()
}

/// Messages that a client sent in a draft that no timer led to.
pub(super) fn kept_back(
    border: &Border<'_>,
    drafts: &[Draft],
    prompted: &Prompted,
) -> BTreeSet<usize> {
    let own = border.of_clients(drafts);
    let late = own
        .iter()
        .filter(|draft| !prompted.of_draft.contains_key(*draft));
    late.flat_map(|draft| drafts[*draft].wakes())
        .map(|(_, waking)| waking)
        .collect()
}

/// Two sets of threads: those that clients wake or that reply; and these with all that take
/// messages from them and answer, as the backends of a proxy do.
pub(super) fn serving(border: &Border<'_>) -> (BTreeSet<ThreadId>, BTreeSet<ThreadId>) {
    let evidence = border.evidence;
    let entries = border.entries.iter();
    let entered = entries.map(|(_, waking)| evidence.wakings[*waking].wakee);
    let serving: BTreeSet<ThreadId> = entered.chain(border.repliers().into_keys()).collect();
    let subject = |thread: ThreadId| evidence.threads[thread.index()].subject.as_str();
    let mut passed: BTreeMap<(ThreadId, ThreadId), usize> = BTreeMap::new();
    for waking in evidence.wakings {
        if let Source::Thread(by) = waking.source
            && border.inside[by.index()]
            && border.inside[waking.wakee.index()]
        {
            *passed.entry((by, waking.wakee)).or_default() += 1;
        }
    }
    let mut passing = serving.clone();
    loop {
        // By subject of threads that are not known yet: messages that they got and sent.
        let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
        let mut talking = BTreeSet::new();
        for (&(by, wakee), count) in &passed {
            let (other, way) = match (passing.contains(&by), passing.contains(&wakee)) {
                (true, false) => (wakee, 0),
                (false, true) => (by, 1),
                _ => continue,
            };
            counts.entry(subject(other)).or_default()[way] += count;
            talking.insert(other);
        }
        talking.retain(|other| counts[subject(*other)].iter().all(|it| *it >= MESSAGES_MIN));
        if talking.is_empty() {
            return (serving, passing);
        }
        passing.extend(talking);
    }
}

/// Spans in which one of these threads was busy.
pub(super) fn periods(
    border: &Border<'_>,
    drafts: &[Draft],
    serving: &BTreeSet<ThreadId>,
    kept_back: &BTreeSet<usize>,
) -> Vec<(u64, u64)> {
    let late = border
        .entries
        .iter()
        .filter(|(_, waking)| kept_back.contains(waking));
    let late: BTreeSet<usize> = late.map(|(draft, _)| *draft).collect();
    let spans: Vec<(u64, u64)> = drafts
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
    merged(spans)
}

/// Joins spans that overlap.
fn merged(mut spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    spans.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (from_ns, to_ns) in spans {
        match merged.last_mut() {
            Some(last) if from_ns <= last.1 => last.1 = last.1.max(to_ns),
            _ => merged.push((from_ns, to_ns)),
        }
    }
    merged
}

/// Gives the requests of a period, in order, to its replies, each with its weight.
pub(super) fn answered(
    border: &Border<'_>,
    drafts: &[Draft],
    requests: Vec<Asked>,
    replies: &[(usize, u64)],
) -> Vec<Asked> {
    let all: u64 = replies.iter().map(|(_, weight)| weight).sum();
    let count = requests.len() as u64;
    // Every reply answers one request, and the others are divided by weight. If there are fewer
    // requests than replies, weight alone decides.
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

/// The end of the last of the spans that begin by `at_ns`.
pub(super) fn last_end_ns(spans: &[(u64, u64)], at_ns: u64) -> Option<u64> {
    let begun = spans.partition_point(|(from_ns, _)| *from_ns <= at_ns);
    begun.checked_sub(1).map(|last| spans[last].1)
}

/// Spans in which one of the clients was awake.
pub(super) fn clients_awake(border: &Border<'_>, drafts: &[Draft]) -> Vec<(u64, u64)> {
    let own = border.of_clients(drafts).into_iter();
    let span = |draft: usize| {
        let activation = &drafts[draft].activation;
        (activation.woken_ns, activation.end_ns.unwrap_or(u64::MAX))
    };
    merged(own.map(span).collect())
}

/// The time at which the client of a reply begins to read it, and the CPU time that it reads.
pub(super) fn reading(border: &Border<'_>, drafts: &[Draft], reply: usize) -> Option<(u64, u64)> {
    let draft = &drafts[border.begun_by(reply)?];
    let sent = draft
        .wakes()
        .find(|(_, waking)| border.is_entered_by(*waking));
    let work_ns = sent.map_or(draft.activation.executed_ns, |(into_ns, _)| into_ns);
    Some((draft.activation.first_run_ns?, work_ns))
}
