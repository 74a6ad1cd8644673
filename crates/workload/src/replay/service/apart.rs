//! Separation of requests that were served together while a limit held the service back.
//!
//! Behind a limit, threads that pass requests on to each other take many of them in one activation:
//! a proxy forwards all that waits, its backend answers all of it, and then the proxy sends all
//! answers. The trace does not show which work was for which request, nor which wakeups there would
//! have been if the requests had come one by one.
//!
//! But the same recording shows requests that did come one by one. An *episode* lasts from when
//! work or a request comes to a service at rest until the service is at rest again. An episode that
//! has more than one request and in which the service did not run for more than [`HELD_NS`] is
//! replaced: each of its requests does what some request that was alone in an episode did.
//!
//! * **Proxies.** A proxy that its backend has preempted is still awake when the backend has the
//!   answer. It is not woken then, and its work for the answer is in the activation that the
//!   request began; in a replay it would reply before the backend has worked. Threads are *proxies*
//!   if most of their replies to requests that were alone follow a wakeup by another thread of the
//!   service, and other threads do most of the work: nginx before PHP in 81 % of 793 requests,
//!   haproxy in 90 %, Go's threads in 1 %. An episode in which a proxy replies without such a
//!   wakeup is replaced as well, even one of a single request.
//! * **CPU time.** Of [`DRAWS`] draws of as many single requests the one whose CPU time in sum is
//!   nearest to that of the episode is taken. It is scaled to that time, by a factor of at most
//!   [`STRETCH`] either way.
//! * **Lifetimes.** A thread that is forked or exits in the recording does so in the replay, too.
//!   Its requests are drawn only for episodes within its lifetime: at other times it could not
//!   answer. Where fewer than [`SINGLES_MIN`] requests are left to draw from, the episode is kept
//!   as recorded.
//! * **Length bias.** A long request is seldom alone: of requests that take `d` and come at the
//!   rate r, a share of exp(−r·d) is. Draws are weighted by the inverse, up to its cubic term.
//! * Work that timers begin in an episode counts as its work: it is copied, or left out, like the
//!   rest.
//! * Work that stands [aside](super::aside) keeps its time.
//!
//! An episode in which a backend in another group answers is kept as recorded: what the backend
//! does cannot be copied, since its own limit may hold it back.
//!
//! An event loop in one thread is not replaced. It is cut at its replies (`placed`), which keeps
//! the order of its work; or, if it answers at the end of a round, `rounds` divides it.
//!
//! # Worked example
//!
//! A proxy works 20 µs for a request, its backend 300 µs, the proxy another 30 µs for the answer.
//! Twenty requests come 5 ms apart while the group is throttled. The proxy works 900 µs, the
//! backend once 7.1 ms, the proxy 1.1 ms: 9100 µs, where twenty single requests take 7000 µs. In
//! the replay each of the twenty is a message to the proxy at its own time and costs 20 + 300 +
//! 30 µs times 9100/7000. Without the limit each takes half a millisecond.

use super::super::activity::{Begun, Draft, DraftStep, Waking};
use super::super::model::{Activation, HandoverId, Thread, Trigger};
use super::super::threads::ThreadId;
use super::super::timeline::Run;
use super::{Follows, RequestId, Served};
use schedcast_sim::random::{self, Stream};
use schedcast_sim::workload::ArrivalContext;
use std::collections::{BTreeMap, BTreeSet};

/// A service that has not run for this long, ns, although it had something to do was held back.
const HELD_NS: u64 = 1_000_000;
/// Draws of single requests for an episode.
const DRAWS: u64 = 64;
/// An episode is kept as recorded if the nearest draw is further from its CPU time than this
/// factor.
const STRETCH: u64 = 2;
/// Fewer requests that were alone do not show what requests do.
const SINGLES_MIN: usize = 20;
/// A thread with at least this percentage of the CPU time and of the replies serves the requests by
/// itself.
pub(super) const LOOP_PERCENT: u64 = 90;

/// Facts about a service whose requests stand in the drafts.
pub(super) struct Apart<'a> {
    pub threads: &'a [Thread],
    pub inside: &'a [bool],
    /// Threads of other groups that the service asks.
    pub backends: &'a BTreeSet<ThreadId>,
    pub wakings: &'a [Waking],
    pub runs: &'a [Vec<Run>],
    /// Start and end of the recording.
    pub span_ns: (u64, u64),
    /// Number of the first of its requests.
    pub first: u32,
    /// Per draft: whether it [stands aside](super::aside); those behind them do not.
    pub aside: Vec<bool>,
}

/// A span in which the service had something to do.
struct Episode {
    from_ns: u64,
    to_ns: u64,
    /// Activations of the service, and those of its clients for the replies.
    drafts: Vec<usize>,
    /// Positions of its requests.
    requests: Vec<usize>,
    /// CPU time of the service.
    work_ns: u64,
    /// When the youngest of its threads was forked, and when the first of them exits.
    lives_ns: (u64, u64),
    /// It is kept as recorded: part of it cannot be copied, or was under way at either end.
    is_fixed: bool,
}

impl Apart<'_> {
    /// Replaces what piled up. `served` are the requests of this service.
    pub(super) fn take(
        &self,
        drafts: &mut Vec<Draft>,
        begun: &mut [Begun],
        handovers: &mut u32,
        served: &mut [Served],
    ) {
        if served.is_empty() || self.is_loop(drafts) {
            return;
        }
        let episodes = self.episodes(drafts, begun, served);
        let single = |episode: &&Episode| episode.requests.len() == 1 && !episode.is_fixed;
        let mut singles: Vec<&Episode> = episodes.iter().filter(single).collect();
        let proxies = self.proxies(drafts, &singles);
        singles.retain(|single| !self.lacks_cause(drafts, single, &proxies));
        if singles.len() < SINGLES_MIN {
            return;
        }
        let weights = self.weights(&singles, served.len());
        let weighted: Vec<(&Episode, f64)> = singles.into_iter().zip(weights).collect();
        let runs = self.running();
        let mut copies: Vec<Draft> = Vec::new();
        let mut gone = vec![false; drafts.len()];
        for (number, piled) in (0u64..).zip(&episodes) {
            let is_held = piled.requests.len() > 1 && self.is_held(piled, &runs);
            let is_whole = !is_held && !self.lacks_cause(drafts, piled, &proxies);
            if piled.is_fixed || is_whole {
                continue;
            }
            let Some(drawn) = draw(&weighted, piled, number) else {
                continue;
            };
            for draft in &piled.drafts {
                gone[*draft] = true;
            }
            let sum_ns: u64 = drawn.iter().map(|single| single.work_ns).sum();
            for (request, single) in piled.requests.iter().zip(drawn) {
                let copying = Copying {
                    apart: self,
                    single,
                    shift_ns: served[*request].arrives_ns as i64
                        - served[single.requests[0]].arrives_ns as i64,
                    stretch: (piled.work_ns, sum_ns),
                    request: RequestId(self.first + *request as u32),
                    // Copies come behind all there is.
                    offset: drafts.len() + copies.len(),
                };
                let mut new = copying.copies(drafts, begun, handovers);
                let one = served[*request];
                for draft in &mut new {
                    draft.activation.follows = moved(&draft.activation, &one);
                }
                copies.append(&mut new);
                served[*request].read_ns = served[single.requests[0]].read_ns;
            }
        }
        drafts.append(&mut copies);
        gone.resize(drafts.len(), false);
        put_in_order(drafts, begun, &gone);
    }

    /// Whether one thread does nearly all the work, and replies.
    fn is_loop(&self, drafts: &[Draft]) -> bool {
        let mut of_thread = vec![(0, 0); self.inside.len()];
        let (mut all_ns, mut replies) = (0, 0);
        for draft in drafts.iter().filter(|draft| self.is_own(draft)) {
            let activation = &draft.activation;
            let ends = |(_, step): &&(u64, DraftStep)| matches!(step, DraftStep::Replies(_));
            let ended = draft.deeds.iter().filter(ends).count() as u64;
            let one = &mut of_thread[activation.thread.index()];
            one.0 += activation.executed_ns;
            one.1 += ended;
            all_ns += activation.executed_ns;
            replies += ended;
        }
        let does = |one: &(u64, u64)| {
            one.0 * 100 >= all_ns * LOOP_PERCENT && one.1 * 100 >= replies * LOOP_PERCENT
        };
        of_thread.iter().any(does)
    }

    /// Subjects whose threads are proxies, by requests that were alone: most of their replies
    /// follow a wakeup by another thread of the service, and other threads do most of the work.
    fn proxies(&self, drafts: &[Draft], singles: &[&Episode]) -> BTreeSet<&str> {
        let mut counts: BTreeMap<&str, Replying> = BTreeMap::new();
        for single in singles {
            let own = single.drafts.iter().map(|draft| &drafts[*draft]);
            for draft in own.filter(|draft| self.is_own(draft) && replies(draft) > 0) {
                let one = counts.entry(self.subject(draft)).or_default();
                one.led += usize::from(self.is_led(draft));
                one.all += 1;
                one.own_ns += draft.activation.executed_ns;
                one.work_ns += single.work_ns;
            }
        }
        let proxies = counts.into_iter().filter(|(_, one)| one.is_proxy());
        proxies.map(|(subject, _)| subject).collect()
    }

    /// Whether a proxy replied in an episode without a visible message of another thread of the
    /// service: the proxy was awake when the message came.
    fn lacks_cause(&self, drafts: &[Draft], episode: &Episode, proxies: &BTreeSet<&str>) -> bool {
        let own = episode.drafts.iter().map(|draft| &drafts[*draft]);
        own.filter(|draft| self.is_own(draft) && proxies.contains(self.subject(draft)))
            .any(|draft| replies(draft) > usize::from(self.is_led(draft)))
    }

    fn subject(&self, draft: &Draft) -> &str {
        &self.threads[draft.activation.thread.index()].subject
    }

    /// Whether a thread of the service began a draft.
    fn is_led(&self, draft: &Draft) -> bool {
        matches!(draft.activation.trigger, Trigger::Thread(by) if self.inside[by.index()])
    }

    /// Whether a draft is the service's.
    fn is_own(&self, draft: &Draft) -> bool {
        self.inside[draft.activation.thread.index()]
    }

    fn stands_aside(&self, draft: usize) -> bool {
        self.aside.get(draft) == Some(&true)
    }

    fn episodes(&self, drafts: &[Draft], begun: &[Begun], served: &[Served]) -> Vec<Episode> {
        let length_ns = self.span_ns.1 - self.span_ns.0;
        let mut spans: Vec<(u64, u64)> = Vec::new();
        let takes_part =
            |(index, draft): &(usize, &Draft)| !self.stands_aside(*index) && self.is_own(draft);
        for (_, draft) in drafts.iter().enumerate().filter(takes_part) {
            let activation = &draft.activation;
            // An activation whose end is not visible ended at the earliest when its work was done.
            let done_ns = activation.woken_ns + activation.executed_ns;
            let to_ns = activation.end_ns.unwrap_or(done_ns);
            spans.push((activation.since_ns(), to_ns.min(length_ns)));
        }
        for one in served {
            spans.push((one.arrives_ns, replied_ns(one).max(one.arrives_ns)));
        }
        spans.sort_unstable();
        let mut episodes: Vec<Episode> = Vec::new();
        for (from_ns, to_ns) in spans {
            match episodes.last_mut() {
                Some(last) if from_ns <= last.to_ns => last.to_ns = last.to_ns.max(to_ns),
                _ => episodes.push(Episode {
                    from_ns,
                    to_ns,
                    drafts: Vec::new(),
                    requests: Vec::new(),
                    work_ns: 0,
                    lives_ns: (0, u64::MAX),
                    is_fixed: to_ns >= length_ns,
                }),
            }
        }
        let at = |episodes: &[Episode], at_ns: u64| {
            let next = episodes.partition_point(|episode| episode.from_ns <= at_ns);
            next.checked_sub(1)
                .filter(|last| at_ns <= episodes[*last].to_ns)
        };
        for (position, one) in served.iter().enumerate() {
            if let Some(index) = at(&episodes, one.arrives_ns) {
                episodes[index].requests.push(position);
            }
        }
        for (index, draft) in drafts.iter().enumerate() {
            let own = self.is_own(draft) && !self.stands_aside(index);
            let answered = match draft.activation.trigger {
                Trigger::Thread(by) => self.inside[by.index()] && !self.stands_aside(index),
                _ => false,
            };
            let Some(place) = at(&episodes, draft.activation.woken_ns).filter(|_| own || answered)
            else {
                continue;
            };
            let episode = &mut episodes[place];
            episode.drafts.push(index);
            if own {
                episode.work_ns += draft.activation.executed_ns;
            }
            let trigger = draft.activation.trigger;
            let forks = |(_, step): &(u64, DraftStep)| {
                matches!(step, DraftStep::Forks(_) | DraftStep::Exit)
            };
            episode.is_fixed |= draft.deeds.iter().any(forks)
                || match trigger {
                    Trigger::Start | Trigger::Fork => true,
                    Trigger::Thread(by) => self.backends.contains(&by),
                    _ => false,
                };
        }
        self.fix(&mut episodes, drafts, begun);
        let lives_ns = lives(drafts);
        for episode in &mut episodes {
            for draft in &episode.drafts {
                let thread = drafts[*draft].activation.thread;
                if let Some((forked_ns, exits_ns)) = lives_ns.get(&thread) {
                    let (from_ns, to_ns) = &mut episode.lives_ns;
                    *from_ns = (*from_ns).max(*forked_ns);
                    *to_ns = (*to_ns).min(*exits_ns);
                }
            }
        }
        episodes
    }

    /// Episodes that are tied to each other stay as they are.
    fn fix(&self, episodes: &mut [Episode], drafts: &[Draft], begun: &[Begun]) {
        let mut of_draft = vec![None; drafts.len()];
        let mut of_request = BTreeMap::new();
        for (number, episode) in episodes.iter().enumerate() {
            for draft in &episode.drafts {
                of_draft[*draft] = Some(number);
            }
            let ids = episode.requests.iter();
            of_request.extend(ids.map(|at| (RequestId(self.first + *at as u32), number)));
        }
        for (index, draft) in drafts.iter().enumerate() {
            for (_, step) in &draft.deeds {
                let tied = match step {
                    // The end of a request of another episode.
                    DraftStep::Replies(request) => of_request
                        .get(request)
                        .copied()
                        .filter(|number| of_draft[index] != Some(*number)),
                    // An activation of one episode that is begun by one of another.
                    DraftStep::Wakes(waking) => match begun[*waking] {
                        Begun::Draft(other) if of_draft[index].is_some() => {
                            of_draft[other].filter(|number| of_draft[index] != Some(*number))
                        }
                        _ => None,
                    },
                    // Who sends what no wakeup shows stays with what that begins.
                    DraftStep::Sends(other) if of_draft[index] != of_draft[*other] => {
                        if let Some(number) = of_draft[index] {
                            episodes[number].is_fixed = true;
                        }
                        of_draft[*other]
                    }
                    _ => None,
                };
                if let Some(number) = tied {
                    episodes[number].is_fixed = true;
                }
            }
        }
    }

    /// When threads of the service ran: begin, end, and how long before.
    fn running(&self) -> Vec<(u64, u64, u64)> {
        let mut runs: Vec<(u64, u64)> = self
            .runs
            .iter()
            .zip(self.inside)
            .filter(|(_, inside)| **inside)
            .flat_map(|(runs, _)| runs)
            .map(|run| [run.start_ns, run.end_ns].map(|at| at.saturating_sub(self.span_ns.0)))
            .map(|[from, to]| (from, to))
            .collect();
        runs.sort_unstable();
        let mut merged: Vec<(u64, u64, u64)> = Vec::new();
        for (from_ns, to_ns) in runs {
            match merged.last_mut() {
                Some(last) if from_ns <= last.1 => last.1 = last.1.max(to_ns),
                last => {
                    let before_ns = last.map_or(0, |last| last.2 + last.1 - last.0);
                    merged.push((from_ns, to_ns, before_ns));
                }
            }
        }
        merged
    }

    /// Whether the service did not run for a while although it had something to do.
    fn is_held(&self, episode: &Episode, runs: &[(u64, u64, u64)]) -> bool {
        let ran_ns = |at_ns: u64| {
            let next = runs.partition_point(|(from_ns, _, _)| *from_ns <= at_ns);
            let last = next.checked_sub(1).map(|last| runs[last]);
            last.map_or(0, |(from_ns, to_ns, before_ns)| {
                before_ns + at_ns.min(to_ns) - from_ns
            })
        };
        let length_ns = episode.to_ns - episode.from_ns;
        length_ns > ran_ns(episode.to_ns) - ran_ns(episode.from_ns) + HELD_NS
    }

    /// How many requests each of the singles stands for, as long ones are seldom alone.
    fn weights(&self, singles: &[&Episode], requests: usize) -> Vec<f64> {
        let length_ns = (self.span_ns.1 - self.span_ns.0).max(1) as f64;
        let due = |single: &&Episode| {
            let due = (single.to_ns - single.from_ns) as f64 * requests as f64 / length_ns;
            1.0 + due + due * due / 2.0 + due * due * due / 6.0
        };
        singles.iter().map(due).collect()
    }
}

/// Drafts of one subject in which requests end that were alone.
#[derive(Default)]
struct Replying {
    /// Those that another thread of the service began.
    led: usize,
    all: usize,
    /// CPU time of the drafts.
    own_ns: u64,
    /// CPU time of the requests.
    work_ns: u64,
}

impl Replying {
    fn is_proxy(&self) -> bool {
        self.led >= SINGLES_MIN && self.led * 2 > self.all && self.own_ns * 2 < self.work_ns
    }
}

/// Requests that end in a draft.
fn replies(draft: &Draft) -> usize {
    let ends = |(_, step): &&(u64, DraftStep)| matches!(step, DraftStep::Replies(_));
    draft.deeds.iter().filter(ends).count()
}

/// Time of what a copied request begins, if the request follows another one: as long after its due
/// time as in the recording.
pub(super) fn moved(activation: &Activation, one: &Served) -> Option<Follows> {
    let Trigger::Outside { at_ns, .. } = activation.trigger else {
        return None;
    };
    Some(one.follows?.moved(at_ns as i64 - one.due_ns))
}

/// When the reply of a request was sent, in the recording.
fn replied_ns(one: &Served) -> u64 {
    let had_ns = one.due_ns.saturating_add_unsigned(one.latency_ns);
    u64::try_from(had_ns.saturating_sub_unsigned(one.read_ns)).unwrap_or(0)
}

/// When the threads that come or go in the recording are forked and exit.
fn lives(drafts: &[Draft]) -> BTreeMap<ThreadId, (u64, u64)> {
    let mut lives: BTreeMap<ThreadId, (u64, u64)> = BTreeMap::new();
    for Draft {
        activation, deeds, ..
    } in drafts
    {
        let exits = matches!(deeds.last(), Some((_, DraftStep::Exit)));
        if activation.trigger == Trigger::Fork {
            lives.entry(activation.thread).or_insert((0, u64::MAX)).0 = activation.woken_ns;
        }
        if exits {
            lives.entry(activation.thread).or_insert((0, u64::MAX)).1 = activation.woken_ns;
        }
    }
    lives
}

/// Single requests for those of an episode, with nearly its CPU time. Their threads must be there
/// at that time.
fn draw<'e>(
    weighted: &[(&'e Episode, f64)],
    piled: &Episode,
    number: u64,
) -> Option<Vec<&'e Episode>> {
    let lives = |(single, _): &&(&Episode, f64)| {
        single.lives_ns.0 <= piled.from_ns && piled.to_ns <= single.lives_ns.1
    };
    let mut all = 0.0;
    let singles: Vec<(&Episode, f64)> = weighted
        .iter()
        .filter(lives)
        .map(|(single, weight)| {
            all += weight;
            (*single, all)
        })
        .collect();
    if singles.len() < SINGLES_MIN {
        return None;
    }
    let mut stream = random::stream(0, random::name_hash("piled up"), number);
    let one = |stream: &mut Stream| {
        let at = random::uniform(stream) * all;
        let position = singles.partition_point(|(_, reached)| *reached <= at);
        singles[position.min(singles.len() - 1)].0
    };
    let draws = (0..DRAWS).map(|_| {
        let drawn: Vec<&Episode> = piled.requests.iter().map(|_| one(&mut stream)).collect();
        let sum_ns: u64 = drawn.iter().map(|single| single.work_ns).sum();
        let (low, high) = (sum_ns.min(piled.work_ns), sum_ns.max(piled.work_ns));
        (high as f64 / low.max(1) as f64, drawn)
    });
    let nearest = draws.min_by(|one, other| one.0.total_cmp(&other.0))?;
    (nearest.0 <= STRETCH as f64).then_some(nearest.1)
}

/// One request that does what another did.
struct Copying<'a, 'b> {
    apart: &'a Apart<'b>,
    single: &'a Episode,
    shift_ns: i64,
    /// CPU time of the service is multiplied by this fraction.
    stretch: (u64, u64),
    request: RequestId,
    offset: usize,
}

impl Copying<'_, '_> {
    fn copies(&self, drafts: &[Draft], begun: &[Begun], handovers: &mut u32) -> Vec<Draft> {
        let places: BTreeMap<usize, usize> = self
            .single
            .drafts
            .iter()
            .copied()
            .zip(self.offset..)
            .collect();
        let mut caused = BTreeSet::new();
        let mut waits: BTreeMap<HandoverId, HandoverId> = BTreeMap::new();
        for draft in &self.single.drafts {
            for (_, step) in &drafts[*draft].deeds {
                match step {
                    DraftStep::Wakes(waking) => match begun[*waking] {
                        Begun::Draft(other) => drop(caused.insert(other)),
                        Begun::Handover(handover) => {
                            waits.insert(handover, HandoverId(*handovers));
                            *handovers += 1;
                        }
                        Begun::Nothing => {}
                    },
                    DraftStep::Sends(other) => drop(caused.insert(*other)),
                    _ => {}
                }
            }
        }
        let own = self.single.drafts.iter();
        own.map(|index| {
            let draft = &drafts[*index];
            let inside = self.apart.inside[draft.activation.thread.index()];
            let stretched = |ns: u64| match inside {
                true => {
                    (u128::from(ns) * u128::from(self.stretch.0)
                        / u128::from(self.stretch.1.max(1))) as u64
                }
                false => ns,
            };
            let mut activation = draft.activation.clone();
            let shifted = |at_ns: u64| at_ns.saturating_add_signed(self.shift_ns);
            activation.woken_ns = shifted(activation.woken_ns);
            activation.first_run_ns = activation.first_run_ns.map(shifted);
            activation.end_ns = activation.end_ns.map(shifted);
            activation.replied_ns = activation.replied_ns.map(shifted);
            activation.executed_ns = stretched(activation.executed_ns);
            activation.trigger = match activation.trigger {
                Trigger::Outside {
                    at_ns,
                    cpu,
                    context,
                } => Trigger::outside(shifted(at_ns), cpu, context),
                trigger if caused.contains(index) => trigger,
                // It begins at its time, whatever caused it in the recording.
                _ => Trigger::outside(activation.woken_ns, 0, ArrivalContext::SoftIrq),
            };
            let deeds = draft.deeds.iter().filter_map(|(into_ns, step)| {
                let step = self.step(step, begun, &places, &waits)?;
                Some((stretched(*into_ns), step))
            });
            Draft {
                activation,
                deeds: deeds.collect(),
                sleeps: draft.sleeps,
                approach_ns: draft.approach_ns,
                preempts: draft.preempts,
            }
        })
        .collect()
    }

    fn step(
        &self,
        step: &DraftStep,
        begun: &[Begun],
        places: &BTreeMap<usize, usize>,
        waits: &BTreeMap<HandoverId, HandoverId>,
    ) -> Option<DraftStep> {
        match *step {
            DraftStep::Wakes(waking) => match begun[waking] {
                Begun::Draft(draft) => places.get(&draft).map(|place| DraftStep::Rewakes {
                    draft: *place,
                    remote: self.apart.wakings[waking].remote,
                }),
                Begun::Handover(handover) => waits.get(&handover).copied().map(DraftStep::Posts),
                Begun::Nothing => None,
            },
            DraftStep::Sends(draft) => places.get(&draft).copied().map(DraftStep::Sends),
            DraftStep::Later(draft) => places.get(&draft).copied().map(DraftStep::Later),
            DraftStep::Wait(handover) => waits.get(&handover).copied().map(DraftStep::Wait),
            DraftStep::Replies(_) => Some(DraftStep::Replies(self.request)),
            DraftStep::Awaits(_) => None,
            step => Some(step),
        }
    }
}

/// Leaves out drafts that are gone and puts the others in order of thread and time.
fn put_in_order(drafts: &mut Vec<Draft>, begun: &mut [Begun], gone: &[bool]) {
    let mut order: Vec<usize> = (0..drafts.len()).filter(|draft| !gone[*draft]).collect();
    order.sort_by_key(|draft| {
        let activation = &drafts[*draft].activation;
        (activation.thread, activation.woken_ns)
    });
    let mut places = vec![None; drafts.len()];
    for (place, draft) in order.iter().enumerate() {
        places[*draft] = Some(place);
    }
    let mut old: Vec<Option<Draft>> = drafts.drain(..).map(Some).collect();
    drafts.extend(order.iter().filter_map(|draft| old[*draft].take()));
    for draft in drafts.iter_mut() {
        draft
            .deeds
            .retain(|(_, step)| !matches!(step, DraftStep::Later(to) if places[*to].is_none()));
        for (_, step) in &mut draft.deeds {
            if let DraftStep::Sends(to)
            | DraftStep::Rewakes { draft: to, .. }
            | DraftStep::Later(to) = step
                && let Some(place) = places[*to]
            {
                *to = place;
            }
        }
    }
    let kept: BTreeSet<HandoverId> = drafts
        .iter()
        .flat_map(|draft| &draft.deeds)
        .filter_map(|(_, step)| match step {
            DraftStep::Wait(handover) => Some(*handover),
            _ => None,
        })
        .collect();
    for begun in begun.iter_mut() {
        *begun = match *begun {
            Begun::Draft(draft) => places[draft].map_or(Begun::Nothing, Begun::Draft),
            Begun::Handover(handover) if !kept.contains(&handover) => Begun::Nothing,
            other => other,
        };
    }
}
