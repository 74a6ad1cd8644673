//! Messages across the border of a group, and who its clients are.
//!
//! Threads outside a group that exchange at least 20 messages with it in either direction are its
//! clients or its backends. A client acts on its own, or connects to the group; a backend acts when
//! the group has asked it, or the group connected to it.
//!
//! Where both sides do nothing but answer each other, as a server and a closed loop of clients do,
//! each may be the client. The group that was recorded is the server then, and its clients in
//! another group, such as another pod, are not taken for a service that it asks.

use super::super::activity::{Begun, Draft, Source};
use super::super::groups;
use super::super::model::Activation;
use super::super::threads::ThreadId;
use super::talks::Talks;
use super::{Asked, Dialogue, Evidence, MESSAGES_MIN, Told, levels, placed};
use std::collections::{BTreeMap, BTreeSet};

/// Threads that answer once in at least this percentage of their activations serve one client each.
const DEDICATED_PERCENT: usize = 80;
/// The same percentage where messages come over sockets: an event loop with little to do also
/// answers once in most of its activations.
const DEDICATED_SOCKET_PERCENT: usize = 95;

/// Messages across the border of a group.
pub(super) struct Border<'a> {
    pub evidence: &'a Evidence<'a>,
    pub inside: Vec<bool>,
    pub clients: BTreeSet<ThreadId>,
    /// Threads outside that the group asks: they send to it, but never on their own.
    pub backends: BTreeSet<ThreadId>,
    /// Per waking: the draft it began.
    pub begun: &'a [Begun],
    /// Per draft: the waking that began it.
    pub began: BTreeMap<usize, usize>,
    /// Drafts of the group that a client began: draft and waking.
    pub entries: Vec<(usize, usize)>,
    /// By draft that a client began: the first request that its thread receives in it.
    pub taken: BTreeMap<usize, usize>,
    /// Wakings of clients by threads of the group, in order of time.
    pub replies: Vec<usize>,
    /// The clients are on other machines: nothing of them is in the trace but what a network card
    /// wakes.
    pub is_remote: bool,
    /// No wakeup shows a reply: the clients are on other machines, or wait for a CPU when they are
    /// answered. Only a log tells the requests then, or events of sockets.
    pub hides_replies: bool,
}

/// Subjects that send at least [`MESSAGES_MIN`] messages into a group that the group did not cause.
/// A client acts on its own, by a timer or because of its own clients; a backend, such as the
/// database of a proxy, acts when it is asked.
fn acting<'a>(
    evidence: &'a Evidence<'_>,
    drafts: &[Draft],
    begun: &[Begun],
    inside: &[bool],
    talking: &BTreeSet<ThreadId>,
) -> BTreeSet<&'a str> {
    let began = began_by(begun);
    let tied = levels::tied(drafts);
    let mut made_by = vec![None; evidence.wakings.len()];
    for (index, draft) in drafts.iter().enumerate() {
        for (_, waking) in draft.wakes() {
            made_by[waking] = Some(index);
        }
    }
    // Causes come before their effects.
    let mut in_order: Vec<usize> = (0..drafts.len()).collect();
    in_order.sort_by_key(|draft| drafts[*draft].activation.woken_ns);
    let mut is_consequence = vec![false; drafts.len()];
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for index in in_order {
        let activation = &drafts[index].activation;
        let thread = activation.thread;
        let cause = match activation.slept_before_ns {
            Some(_) => tied.get(&index).copied(),
            None => began.get(&index).and_then(|waking| made_by[*waking]),
        };
        is_consequence[index] =
            inside[thread.index()] || cause.is_some_and(|cause| is_consequence[cause]);
        if is_consequence[index] || !talking.contains(&thread) {
            continue;
        }
        let enters = |(_, waking): &(u64, usize)| inside[evidence.wakings[*waking].wakee.index()];
        let subject = evidence.threads[thread.index()].subject.as_str();
        *counts.entry(subject).or_default() += drafts[index].wakes().filter(enters).count();
    }
    counts.retain(|_, count| *count >= MESSAGES_MIN);
    counts.into_keys().collect()
}

/// Per draft: the waking that began it.
fn began_by(begun: &[Begun]) -> BTreeMap<usize, usize> {
    let drafts = begun.iter().enumerate();
    let began = drafts.filter_map(|(waking, begun)| match begun {
        Begun::Draft(draft) => Some((*draft, waking)),
        _ => None,
    });
    began.collect()
}

impl<'a> Border<'a> {
    /// The border of a group with clients on the same machine. `servers`: threads that are known to
    /// serve the group. `hides_replies`: the trace shows none of the replies to its clients.
    pub(super) fn of(
        evidence: &'a Evidence<'a>,
        talks: &Talks,
        members: &[ThreadId],
        servers: &BTreeSet<ThreadId>,
        drafts: &[Draft],
        begun: &'a [Begun],
        hides_replies: bool,
    ) -> Option<Self> {
        if hides_replies && evidence.log.is_none() && evidence.messages.is_empty() {
            return None;
        }
        let inside = groups::inside(members, evidence.threads.len());
        let subject = |id: ThreadId| evidence.threads[id.index()].subject.as_str();
        let (counts, talking) = talks.across(&inside, evidence.threads);
        let is_client = |id: &ThreadId| {
            let enough = |count: &usize| *count >= MESSAGES_MIN;
            let needed = if hides_replies { 1 } else { 2 };
            let counts = &counts[subject(*id)][..needed];
            !evidence.threads[id.index()].kernel && counts.iter().all(enough)
        };
        let talking: BTreeSet<ThreadId> = talking.into_iter().filter(is_client).collect();
        if talking.is_empty() {
            return None;
        }
        let acting = acting(evidence, drafts, begun, &inside, &talking);
        let contacts = evidence.messages.contacts();
        let [connected_to, connecting] = contacts.by_connector(&inside, evidence.threads);
        let acts = |id: &ThreadId| {
            let subject = subject(*id);
            let on_its_own = acting.is_empty() || acting.contains(subject);
            !servers.contains(id)
                && !connected_to.contains(subject)
                && (on_its_own || connecting.contains(subject))
        };
        let (clients, backends): (BTreeSet<ThreadId>, BTreeSet<ThreadId>) =
            talking.into_iter().partition(acts);
        if clients.is_empty() {
            return None;
        }
        let (mut entries, mut replies) = (Vec::new(), Vec::new());
        for (index, waking) in evidence.wakings.iter().enumerate() {
            let Source::Thread(by) = waking.source else {
                continue;
            };
            if clients.contains(&by)
                && inside[waking.wakee.index()]
                && let Begun::Draft(draft) = begun[index]
            {
                entries.push((draft, index));
            }
            if inside[by.index()] && clients.contains(&waking.wakee) {
                replies.push(index);
            }
        }
        Some(Self {
            evidence,
            inside,
            clients,
            backends,
            begun,
            began: began_by(begun),
            entries,
            taken: BTreeMap::new(),
            replies,
            is_remote: false,
            hides_replies,
        })
    }

    /// The border of a group with clients on other machines. Their requests come by softirqs, and
    /// only a log tells how many there were and when they were answered.
    pub(super) fn of_network(
        evidence: &'a Evidence<'a>,
        members: &[ThreadId],
        begun: &'a [Begun],
        drafts: &[Draft],
    ) -> Option<Self> {
        evidence.log?;
        let inside = groups::inside(members, evidence.threads.len());
        let wakings = evidence.wakings.iter().enumerate();
        let by_softirq: BTreeMap<(ThreadId, u64), usize> = wakings
            .filter(|(_, waking)| waking.source == Source::SOFTIRQ)
            .map(|(index, waking)| {
                let since_ns = waking.time_ns.saturating_sub(evidence.start_ns);
                ((waking.wakee, since_ns), index)
            })
            .collect();
        let entry = |(index, draft): (usize, &Draft)| {
            let Activation {
                thread,
                trigger,
                woken_ns,
                ..
            } = &draft.activation;
            let by_network = trigger.is_softirq();
            let waking = by_softirq.get(&(*thread, *woken_ns))?;
            (by_network && inside[thread.index()]).then_some((index, *waking))
        };
        let entries: Vec<(usize, usize)> = drafts.iter().enumerate().filter_map(entry).collect();
        (entries.len() >= MESSAGES_MIN).then(|| Self {
            evidence,
            inside,
            clients: BTreeSet::new(),
            backends: BTreeSet::new(),
            begun,
            began: began_by(begun),
            entries,
            taken: BTreeMap::new(),
            replies: Vec::new(),
            is_remote: true,
            hides_replies: true,
        })
    }

    /// Takes messages in the middle of requests off the entries: those that no logged request,
    /// in the order of sending, is nearest to within [`placed::SAME_NS`], and whose thread receives
    /// none. They follow what their client did before, such as the second statement of a
    /// transaction the answer to the first, and keep no time of their own.
    pub(super) fn leave_inner(&mut self, asked: &[Asked], drafts: &[Draft]) {
        if self.is_remote {
            return;
        }
        let times_ns: Vec<i64> = self
            .entries
            .iter()
            .map(|(_, waking)| self.time_ns(*waking) as i64)
            .collect();
        let mut is_first = vec![false; times_ns.len()];
        for nearest in asked
            .iter()
            .filter_map(|one| placed::same(&times_ns, one.sent_ns))
        {
            is_first[nearest] = true;
        }
        self.taken = self.first_taken(asked, drafts);
        let mut is_first = is_first.into_iter();
        self.entries.retain(|(draft, _)| {
            let is_nearest = is_first.next() == Some(true);
            is_nearest || self.taken.contains_key(draft)
        });
    }

    /// By draft that a client began: the first request that its thread receives in it, where events
    /// of sockets show that. A new connection wakes the thread before its request is sent.
    fn first_taken(&self, asked: &[Asked], drafts: &[Draft]) -> BTreeMap<usize, usize> {
        let entries = self.entries.iter().map(|(draft, _)| {
            let activation = &drafts[*draft].activation;
            ((activation.thread, activation.woken_ns), *draft)
        });
        let entries: BTreeMap<(ThreadId, u64), usize> = entries.collect();
        let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
        let at_ns = |position: usize| asked[position].taken;
        for (position, one) in asked.iter().enumerate() {
            let Some((taken_ns, by)) = one.taken else {
                continue;
            };
            let Some((_, draft)) = entries.range((by, 0)..=(by, taken_ns)).next_back() else {
                continue;
            };
            let end_ns = drafts[*draft].activation.end_ns;
            if end_ns.is_some_and(|end_ns| taken_ns <= end_ns) {
                let first = taken.entry(*draft).or_insert(position);
                if at_ns(position) < at_ns(*first) {
                    *first = position;
                }
            }
        }
        taken
    }

    /// Whether a waking is a message to the group.
    pub(super) fn is_entered_by(&self, waking: usize) -> bool {
        self.inside[self.evidence.wakings[waking].wakee.index()]
    }

    /// The draft that a waking began.
    pub(super) fn begun_by(&self, waking: usize) -> Option<usize> {
        match self.begun[waking] {
            Begun::Draft(draft) => Some(draft),
            _ => None,
        }
    }

    /// Time of a waking since the start of the recording.
    pub(super) fn time_ns(&self, waking: usize) -> u64 {
        let waking = &self.evidence.wakings[waking];
        waking.time_ns.saturating_sub(self.evidence.start_ns)
    }

    /// Whether each thread serves one request of one client at a time, as processes of PostgreSQL
    /// do. `told`: its requests, where a log or events of sockets tell.
    pub(super) fn is_dedicated(&self, drafts: &[Draft], told: Option<&[Told]>) -> bool {
        let renews = |told: &Told| told.dialogue == Dialogue::Connection;
        if self.hides_replies || told.is_some_and(|told| told.iter().any(renews)) {
            return false;
        }
        let (mut all, mut single, mut sockets) = (0, 0, 0);
        let mut serving = BTreeSet::new();
        for &(draft, waking) in &self.entries {
            let waking = &self.evidence.wakings[waking];
            let Source::Thread(client) = waking.source else {
                continue;
            };
            let answers = drafts[draft]
                .wakes()
                .filter(|(_, reply)| self.evidence.wakings[*reply].wakee == client);
            all += 1;
            single += usize::from(answers.count() == 1);
            sockets += usize::from(waking.under.is_some());
            serving.insert(waking.wakee);
        }
        let told = told.into_iter().flatten().zip(0..);
        let connections: BTreeSet<(u32, u32)> = match self.evidence.log {
            Some(log) => log.iter().map(|request| (0, request.client)).collect(),
            None => told
                .flat_map(|(one, kind)| {
                    one.connections
                        .iter()
                        .flatten()
                        .map(move |name| (kind, *name))
                })
                .collect(),
        };
        if sockets * 2 > all && connections.len() > serving.len() {
            return false;
        }
        let needed = match sockets * 2 > all {
            true => DEDICATED_SOCKET_PERCENT,
            false => DEDICATED_PERCENT,
        };
        all > 0 && single * 100 >= all * needed
    }

    /// How many replies each thread of the group sent. Where replies wake no thread, the threads
    /// that requests wake answer them.
    pub(super) fn repliers(&self) -> BTreeMap<ThreadId, usize> {
        let mut counts = BTreeMap::new();
        if self.hides_replies {
            for (_, waking) in &self.entries {
                let wakee = self.evidence.wakings[*waking].wakee;
                *counts.entry(wakee).or_default() += 1;
            }
        }
        for reply in &self.replies {
            if let Source::Thread(by) = self.evidence.wakings[*reply].source {
                *counts.entry(by).or_default() += 1;
            }
        }
        counts
    }

    /// The subject that replies most.
    pub(super) fn subject(&self) -> Option<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (thread, count) in self.repliers() {
            let subject = self.evidence.threads[thread.index()].subject.as_str();
            *counts.entry(subject).or_default() += count;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count)?;
        Some(most.0.to_owned())
    }

    /// The waking that began a draft.
    pub(super) fn waking_of(&self, draft: usize) -> Option<usize> {
        self.began.get(&draft).copied()
    }

    /// Drafts of the clients in order of their wakeups.
    pub(super) fn of_clients(&self, drafts: &[Draft]) -> Vec<usize> {
        let mut own: Vec<usize> = (0..drafts.len())
            .filter(|draft| self.clients.contains(&drafts[*draft].activation.thread))
            .collect();
        own.sort_by_key(|draft| drafts[*draft].activation.woken_ns);
        own
    }

    /// Whether an interrupt, such as that of a timer, began a draft.
    pub(super) fn is_prompt(draft: &Draft) -> bool {
        draft.activation.trigger.is_hard_interrupt()
    }
}
