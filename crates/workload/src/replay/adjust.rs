//! Replays of something other than what was recorded: a part of the time, requests faster or
//! slower, another number of threads, one cgroup with the rest as background.
//!
//! # Worked example
//!
//! `recordings/postgres-quota`, a service of eight backends that are asked 40 times a second. With
//! a rate of 2 the arrivals that make pgbench send come at half their times, 80 a second for
//! 14.75 s; the machine's own threads keep theirs. With four threads the same requests go to four
//! backends, so that the fifth of five simultaneous requests waits.

use super::error::ReplayError;
use super::exchange::Exchange;
use super::groups::GroupIndex;
use super::model::{Activation, Step, Trigger};
use super::service::{ClientLoop, Follows};
use super::threads::ThreadId;
use super::{Replay, compile, groups};
use schedcast_sim::workload::ArrivalContext;
use schedcast_trace::{Pid, Recording};
use std::collections::BTreeSet;

/// Clients can ask again if at most one in this many requests lacks a known beginning. Requests
/// that were under way when the recording began have none.
const UNKNOWN_OF: usize = 20;

/// How a replay differs from its recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adjust {
    /// Only what happened between these times, ns since the start of the recording.
    pub window_ns: Option<(u64, u64)>,
    /// Requests come this many thousandths as fast.
    pub rate_permille: u64,
    /// Everything that user threads do takes this many thousandths of the CPU time.
    pub work_permille: u64,
    /// Threads that take the requests of each pool.
    pub threads: Option<u32>,
    /// The cgroup in question: all other threads but its clients keep the times they were recorded
    /// at.
    pub foreground: Option<String>,
    /// How clients of services decide when to ask.
    pub client_loop: ClientLoop,
    /// How long clients of services wait for an answer, if not for ever.
    pub patience: Option<Patience>,
    /// Work besides what was recorded.
    pub piece: Option<Piece>,
}

/// How long a client waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// It closes the connection then, ns.
    pub timeout_ns: u64,
    /// How often it asks again before it gives up.
    pub retries: u32,
}

/// CPU time that a thread of a group uses besides what was recorded, in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Path of the group.
    pub group: String,
    /// When it begins, ns since the start of the recording.
    pub at_ns: u64,
    /// CPU time, ns.
    pub work_ns: u64,
}

impl Default for Adjust {
    fn default() -> Self {
        Self {
            window_ns: None,
            rate_permille: 1000,
            work_permille: 1000,
            threads: None,
            foreground: None,
            client_loop: ClientLoop::AsRecorded,
            patience: None,
            piece: None,
        }
    }
}

impl Adjust {
    /// The part of a recording that is asked for.
    ///
    /// # Errors
    /// A window that lies outside the recording.
    pub fn cut(&self, recording: &Recording) -> Result<Recording, ReplayError> {
        let mut cut = recording.clone();
        let Some((from_ns, to_ns)) = self.window_ns else {
            return Ok(cut);
        };
        let (start_ns, end_ns) = recording.span_ns();
        let length_ns = end_ns.saturating_sub(start_ns);
        if from_ns >= to_ns || to_ns > length_ns {
            return Err(ReplayError::Window {
                from_ns,
                to_ns,
                length_ns,
            });
        }
        let inside = start_ns + from_ns..=start_ns + to_ns;
        cut.events.retain(|event| inside.contains(&event.time_ns));
        cut.meta.start_ns = Some(*inside.start());
        cut.meta.end_ns = Some(*inside.end());
        // Counters of the whole recording say nothing about a part of it. The membership of groups
        // holds for the part too: a thread that was forked before the window is listed at the end
        // only.
        let trees = [&mut cut.cgroups_before, &mut cut.cgroups_after];
        for tree in trees.into_iter().flatten() {
            tree.forget("cpu.stat");
        }
        Ok(cut)
    }

    /// Changes a replay.
    ///
    /// # Errors
    /// A cgroup that is not there; a number of threads without a pool or beside a service; a
    /// timeout where no requests of clients are known or where they have several messages.
    pub fn apply(&self, replay: &mut Replay) -> Result<(), ReplayError> {
        if let Some(path) = &self.foreground {
            let group = replay.group(path)?;
            keep_in_front(replay, group);
        }
        if self.rate_permille != 1000 {
            scale_arrivals(replay, self.rate_permille.max(1));
        }
        if self.work_permille != 1000 {
            scale_work(replay, self.work_permille);
        }
        if self.patience.is_some() {
            if replay.requests.is_empty() {
                return Err(ReplayError::NoClients);
            }
            if replay.requests.iter().any(|one| one.goes_on) {
                return Err(ReplayError::Dialogues);
            }
            replay.patience = self.patience;
            let unknown = compile::not_asked_again(replay);
            if unknown * UNKNOWN_OF > replay.requests.len() {
                let requests = replay.requests.len();
                return Err(ReplayError::NoRetries { unknown, requests });
            }
        }
        if let Some(piece) = &self.piece {
            let group = replay.group(&piece.group)?;
            replay.add_piece(group, piece);
        }
        if let Some(threads) = self.threads {
            if replay.exchanges.is_empty() {
                return Err(ReplayError::NoPool);
            }
            if let Some(service) = replay.services.first() {
                return Err(ReplayError::ThreadsOfService {
                    group: replay.groups[service.group.index()].path.clone(),
                });
            }
            for index in 0..replay.exchanges.len() {
                resize(replay, index, threads.max(1));
            }
        }
        Ok(())
    }
}

/// Divides the times of everything that makes clients ask by the rate. Without clients that is all
/// that comes from outside. The think time of a closed loop shrinks by the same factor, and so do
/// the intervals of a schedule.
fn scale_arrivals(replay: &mut Replay, permille: u64) {
    let scaled = |ns: u64| (u128::from(ns) * 1000 / u128::from(permille)) as u64;
    let mut clients: BTreeSet<ThreadId> = replay.exchanges.iter().map(|e| e.client).collect();
    let mut serving = BTreeSet::new();
    for service in &replay.services {
        clients.extend(&service.clients);
        serving.extend(replay.members(service.group));
    }
    // The time between two messages of one request is not think time.
    let goes_on: Vec<bool> = replay.requests.iter().map(|one| one.goes_on).collect();
    let scale_follows = |follows: &mut Option<Follows>| {
        let thinks = |one: &&mut Follows| !goes_on[one.request.index()];
        if let Some(follows) = follows.as_mut().filter(thinks) {
            follows.after_ns = scaled(follows.after_ns);
            follows.not_before_ns = scaled(follows.not_before_ns);
        }
    };
    for activation in &mut replay.activations {
        let asks = clients.is_empty() || clients.contains(&activation.thread);
        if let Trigger::Outside { at_ns, context, .. } = &mut activation.trigger
            && (asks
                || (*context == ArrivalContext::SoftIrq && serving.contains(&activation.thread)))
        {
            *at_ns = scaled(*at_ns);
        }
        if clients.is_empty() {
            activation.slept_before_ns = activation.slept_before_ns.map(scaled);
        }
        scale_follows(&mut activation.follows);
    }
    for served in &mut replay.requests {
        let size = scaled(served.due_ns.unsigned_abs()) as i64;
        served.due_ns = if served.due_ns < 0 { -size } else { size };
        served.arrives_ns = scaled(served.arrives_ns);
        scale_follows(&mut served.follows);
    }
    for exchanged in replay.exchanges.iter_mut().flat_map(|e| &mut e.requests) {
        exchanged.not_before_ns = exchanged.not_before_ns.map(scaled);
        exchanged.due_ns = exchanged.due_ns.map(|due_ns| {
            let size = scaled(due_ns.unsigned_abs()) as i64;
            if due_ns < 0 { -size } else { size }
        });
    }
    // At a higher rate the requests are over sooner, at a lower one the other threads are.
    replay.duration_ns = replay.duration_ns.min(scaled(replay.duration_ns));
}

/// The machine is slower or faster: work of user threads takes more or less CPU time.
fn scale_work(replay: &mut Replay, permille: u64) {
    let scaled = |ns: u64| (u128::from(ns) * u128::from(permille) / 1000) as u64;
    for activation in &replay.activations {
        if replay.threads[activation.thread.index()].kernel {
            continue;
        }
        let range = activation.steps.start as usize..activation.steps.end as usize;
        for step in &mut replay.steps[range] {
            if let Step::Run { work_ns } = step {
                *work_ns = scaled(*work_ns);
            }
        }
    }
}

/// Gives a pool this many threads: adds copies of its first one, or asks fewer of its threads.
fn resize(replay: &mut Replay, index: usize, threads: u32) {
    let first = replay.exchanges[index].servers[0];
    let mut pids: BTreeSet<Pid> = replay.threads.iter().map(|thread| thread.pid).collect();
    while replay.exchanges[index].servers.len() < threads as usize {
        let mut copy = replay.threads[first.index()].clone();
        let end = copy.activations.end;
        copy.activations = end..end;
        copy.executed_ns = 0;
        let next = pids.last().map_or(1, |pid| pid.saturating_add(1));
        pids.insert(next);
        copy.pid = next;
        replay.exchanges[index]
            .servers
            .push(ThreadId(replay.threads.len() as u32));
        replay.threads.push(copy);
    }
    replay.exchanges[index].asked = threads as usize;
}

/// Threads outside a group, except the clients of its servers, keep the times at which they were
/// woken.
fn keep_in_front(replay: &mut Replay, group: GroupIndex) {
    let of_thread = replay.threads.iter().map(|thread| thread.group);
    let mut front: BTreeSet<ThreadId> = groups::members_of(&replay.groups, of_thread, group)
        .into_iter()
        .collect();
    let serves = |e: &Exchange| e.servers.iter().any(|server| front.contains(server));
    let clients: Vec<ThreadId> = replay
        .exchanges
        .iter()
        .filter(|exchange| serves(exchange))
        .map(|exchange| exchange.client)
        .collect();
    front.extend(clients);
    for service in &replay.services {
        let serves = replay
            .members(service.group)
            .iter()
            .any(|one| front.contains(one));
        front.extend(service.clients.iter().filter(|_| serves));
    }
    let in_front: Vec<bool> = replay
        .activations
        .iter()
        .map(|activation| front.contains(&activation.thread))
        .collect();
    replay
        .exchanges
        .retain(|exchange| exchange.servers.iter().all(|server| front.contains(server)));
    let mut posted = BTreeSet::new();
    for (activation, front) in replay.activations.iter().zip(&in_front) {
        let posts = replay
            .steps_of(activation)
            .iter()
            .filter_map(|step| match step {
                Step::Post(handover) => Some(*handover),
                _ => None,
            });
        if *front {
            posted.extend(posts);
        }
    }
    let kept = |front: bool, step: &Step| match step {
        Step::Wake(target) => front && in_front[target.index()],
        Step::Post(_) | Step::Later(_) => front,
        Step::Wait(handover) => front && posted.contains(handover),
        _ => true,
    };
    let mut steps = Vec::with_capacity(replay.steps.len());
    let mut lengths: Vec<u32> = Vec::with_capacity(replay.activations.len());
    for (activation, front) in replay.activations.iter().zip(&in_front) {
        let before = steps.len();
        let own = replay.steps_of(activation).iter();
        steps.extend(own.filter(|step| kept(*front, step)).copied());
        lengths.push((steps.len() - before) as u32);
    }
    let wakers_in_front = |activation: &Activation| match activation.trigger {
        Trigger::Thread(by) | Trigger::ThreadUnseen(by) => front.contains(&by),
        _ => true,
    };
    let mut from = 0;
    for ((activation, length), is_front) in replay.activations.iter_mut().zip(lengths).zip(in_front)
    {
        activation.steps = from..from + length;
        from += length;
        activation.slept_before_ns.take_if(|_| !is_front);
        let by_thread = matches!(
            activation.trigger,
            Trigger::Thread(_) | Trigger::ThreadUnseen(_)
        );
        if by_thread && (!is_front || !wakers_in_front(activation)) {
            let cpu = replay.threads[activation.thread.index()].first_cpu;
            let at_ns = activation.woken_ns;
            activation.trigger = Trigger::outside(at_ns, cpu, ArrivalContext::HardIrq);
        }
    }
    replay.steps = steps;
}
