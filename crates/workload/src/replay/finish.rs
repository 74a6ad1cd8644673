//! From drafts to numbered activations with steps.

use super::activity::{Begun, Draft, DraftStep, Waking};
use super::charged::Charges;
use super::costs::{self, Charged, Costs};
use super::exchange::Exchanged;
use super::gather::Gathered;
use super::model::{ActivationId, Step, Trigger};
use super::threads::ThreadId;
use super::timeline::median;
use super::{Folded, Replay, exchange, groups, report, steal};
use schedcast_sim::workload::ArrivalContext;
use schedcast_trace::Recording;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers the activations, takes the simulator's own costs off and makes steps.
pub(super) fn finish(
    gathered: Gathered,
    mut folded: Folded,
    costs: &Costs,
    recording: &Recording,
) -> Replay {
    cut_loose(&mut folded.drafts, &mut folded.begun, &gathered.wakings);
    assume_work(&mut folded.drafts);
    let mut order: Vec<usize> = (0..folded.drafts.len()).collect();
    order.sort_by_key(|&index| {
        let activation = &folded.drafts[index].activation;
        (activation.thread, activation.woken_ns, index)
    });
    let mut number = vec![ActivationId(0); order.len()];
    for (id, &index) in (0u32..).map(ActivationId).zip(&order) {
        number[index] = id;
    }
    let mut replay = Replay {
        start_ns: gathered.start_ns,
        duration_ns: gathered.end_ns - gathered.start_ns,
        cpus: gathered.cpus,
        threads: gathered.threads,
        groups: gathered.groups,
        activations: Vec::with_capacity(order.len()),
        steps: Vec::new(),
        handovers: folded.handovers,
        exchanges: Vec::new(),
        services: folded.found.services,
        requests: folded.found.requests,
        patience: None,
        jobs: folded.jobs,
        uncut: folded.found.uncut,
        report: gathered.report,
    };
    let charges = Charges::of(&replay.groups, &replay.threads, &folded.drafts);
    let preempts: Vec<bool> = folded.drafts.iter().map(|draft| draft.preempts).collect();
    let preempting = |waking: usize| match folded.begun[waking] {
        Begun::Draft(draft) => preempts[draft],
        _ => false,
    };
    for &index in &order {
        let draft = &mut folded.drafts[index];
        let thread = &replay.threads[draft.activation.thread.index()];
        let depth = groups::lineage(&replay.groups, thread.group).count() as u32;
        let mut lengths_ns = lengths_ns(draft);
        let mut uncharged_ns = 0;
        for length_ns in &mut lengths_ns {
            let less_ns = charges.uncharged_of(*length_ns, &replay.groups, thread.group);
            *length_ns -= less_ns;
            uncharged_ns += less_ns;
        }
        let mut charged = charged(draft, &gathered.wakings, preempting, depth);
        let before_ns = charges.part_of(draft.approach_ns, &replay.groups, thread.group);
        draft.activation.charged_before_ns = before_ns;
        lengths_ns[0] += before_ns;
        charged.own_wakes = u32::from(before_ns > 0 || draft.preempts);
        let cost_ns = costs.of(charged, draft.activation.executed_ns);
        draft.activation.removed_ns = uncharged_ns + costs::take_off(&mut lengths_ns, cost_ns);
        if let Some(&woken_ns) = folded.found.woken_ns.get(&draft.activation.thread) {
            take_out_wakeup(draft, woken_ns, (costs, depth), &mut lengths_ns);
        }
        if draft.activation.assumed_ns > 0 {
            lengths_ns[0] += draft.activation.assumed_ns;
        }
        let from = replay.steps.len() as u32;
        steps(
            draft,
            &folded.begun,
            &number,
            &lengths_ns,
            &mut replay.steps,
        );
        draft.activation.steps = from..replay.steps.len() as u32;
        replay.activations.push(draft.activation.clone());
    }
    number_activations(&mut replay);
    replay.exchanges = exchange::find(&mut replay, recording.requests.as_deref());
    // Messages between threads of a service are part of its requests.
    let mut serving = BTreeSet::new();
    for service in &replay.services {
        serving.extend(replay.members(service.group));
    }
    replay
        .exchanges
        .retain(|exchange| !exchange.servers.iter().any(|one| serving.contains(one)));
    let scheduled = |exchanged: &Exchanged| exchanged.not_before_ns.is_some();
    let mut exchanged = replay.exchanges.iter().flat_map(|one| &one.requests);
    if !folded.found.uses_log && !exchanged.any(scheduled) {
        replay.report.unused_log = recording
            .requests
            .as_ref()
            .map_or(0, |log| log.len() as u64);
    }
    replay.report.shown_requests = replay.whole_requests().count() as u64;
    replay.report.given_up = folded.found.given_up;
    replay.report.stolen_ns = steal::take_out(&mut replay, recording.meta.steal_ratio);
    replay.report.incomplete = folded.incomplete;
    replay.report.unseen = folded.unseen;
    report::count(&mut replay);
    replay
}

/// Takes `woken_ns`, the CPU time for being woken, off an activation that a wakeup began: it is
/// spent only where its message does not wait in a pile. A part that was cut off from an activation
/// spends it where a wakeup begins that part. The simulator's own charges for a sleep and a switch
/// are not in it.
fn take_out_wakeup(
    draft: &mut Draft,
    woken_ns: u64,
    (costs, depth): (&Costs, u32),
    lengths_ns: &mut [u64],
) {
    let replies = |(_, step): &(u64, DraftStep)| matches!(step, DraftStep::Replies(_));
    let one = Charged {
        switches: 1,
        sleeps: 1,
        depth,
        ..Charged::default()
    };
    let woken_ns = woken_ns.saturating_sub(costs.of(one, 0));
    let is_answered = draft.deeds.iter().any(replies);
    let activation = &mut draft.activation;
    if activation.was_woken {
        let taken_ns = costs::take_off(lengths_ns, woken_ns);
        activation.removed_ns += taken_ns;
        activation.woken_for_ns = taken_ns;
    } else if activation.is_whole() || is_answered {
        activation.woken_for_ns = woken_ns;
    }
}

fn number_activations(replay: &mut Replay) {
    for thread in &mut replay.threads {
        thread.activations = 0..0;
    }
    for (index, activation) in (0u32..).zip(&replay.activations) {
        let range = &mut replay.threads[activation.thread.index()].activations;
        if range.start == range.end {
            *range = index..index;
        }
        range.end = index + 1;
    }
}

/// Turns the deeds of a draft into steps. What every waking began and the number of each draft must
/// be known.
fn steps(
    draft: &Draft,
    begun: &[Begun],
    number: &[ActivationId],
    lengths_ns: &[u64],
    steps: &mut Vec<Step>,
) {
    let mut lengths = lengths_ns.iter();
    let mut run = |steps: &mut Vec<Step>| {
        if let Some(&work_ns) = lengths.next()
            && work_ns > 0
        {
            steps.push(Step::Run { work_ns });
        }
    };
    run(steps);
    for (_, step) in &draft.deeds {
        let step = match *step {
            DraftStep::Wakes(waking) => match begun[waking] {
                Begun::Nothing => None,
                Begun::Draft(draft) => Some(Step::Wake(number[draft])),
                Begun::Handover(handover) => Some(Step::Post(handover)),
            },
            DraftStep::Forks(child) => Some(Step::Fork(child)),
            DraftStep::Io { delay_ns } => Some(Step::Io { delay_ns }),
            DraftStep::Wait(handover) => Some(Step::Wait(handover)),
            DraftStep::Exit => Some(Step::Exit),
            DraftStep::Sends(draft) | DraftStep::Rewakes { draft, .. } => {
                Some(Step::Wake(number[draft]))
            }
            DraftStep::Posts(handover) => Some(Step::Post(handover)),
            DraftStep::Awaits(request) => Some(Step::Await(request)),
            DraftStep::Replies(request) => Some(Step::Reply(request)),
            DraftStep::Later(draft) => Some(Step::Later(number[draft])),
        };
        steps.extend(step);
        run(steps);
    }
}

/// Executed time between the deeds of a draft: one more than there are deeds.
fn lengths_ns(draft: &Draft) -> Vec<u64> {
    let mut from_ns = 0;
    let mut lengths = Vec::with_capacity(draft.deeds.len() + 1);
    for (at_ns, _) in &draft.deeds {
        lengths.push(at_ns - from_ns);
        from_ns = *at_ns;
    }
    lengths.push(draft.activation.executed_ns.saturating_sub(from_ns));
    lengths
}

/// Events that the simulator will charge for within the recorded time of a draft.
fn charged(
    draft: &Draft,
    wakings: &[Waking],
    preempting: impl Fn(usize) -> bool,
    depth: u32,
) -> Charged {
    let mut charged = Charged {
        switches: draft.activation.switches,
        interrupts: draft.activation.interrupts,
        sleeps: draft.sleeps,
        depth,
        ..Charged::default()
    };
    for (_, step) in &draft.deeds {
        match step {
            DraftStep::Wakes(waking) => {
                charged.wakes += 1;
                charged.remote_wakes += u32::from(wakings[*waking].remote);
                charged.preempting_wakes += u32::from(preempting(*waking));
            }
            DraftStep::Rewakes { remote, .. } => {
                charged.wakes += 1;
                charged.remote_wakes += u32::from(*remote);
            }
            DraftStep::Posts(_) => charged.wakes += 1,
            // No thread was woken, so nothing was recorded for it.
            DraftStep::Sends(_) => {}
            DraftStep::Forks(_) => charged.forks += 1,
            DraftStep::Exit => charged.exits += 1,
            DraftStep::Io { .. }
            | DraftStep::Wait(_)
            | DraftStep::Awaits(_)
            | DraftStep::Replies(_)
            | DraftStep::Later(_) => {}
        }
    }
    charged
}

/// Makes sure that every activation and every wait that a thread is said to begin or end has a deed
/// in one of that thread's activations.
///
/// Where the waker has no activation to hold the deed, because the end of the recording cut it off,
/// the activation keeps its recorded time instead, and the wait is dropped.
fn cut_loose(drafts: &mut [Draft], begun: &mut [Begun], wakings: &[Waking]) {
    let mut done = vec![false; wakings.len()];
    let mut forked = BTreeSet::new();
    for (_, step) in drafts.iter().flat_map(|draft| &draft.deeds) {
        match step {
            DraftStep::Wakes(waking) => done[*waking] = true,
            DraftStep::Forks(child) => drop(forked.insert(*child)),
            _ => {}
        }
    }
    for Draft { activation, .. } in drafts.iter_mut() {
        if activation.trigger == Trigger::Fork && !forked.contains(&activation.thread) {
            activation.trigger = Trigger::outside(activation.woken_ns, 0, ArrivalContext::HardIrq);
        }
    }
    let mut later = BTreeSet::new();
    for (_, step) in drafts.iter().flat_map(|draft| &draft.deeds) {
        if let DraftStep::Later(draft) = step {
            later.insert(*draft);
        }
    }
    for (index, Draft { activation, .. }) in drafts.iter_mut().enumerate() {
        activation
            .slept_before_ns
            .take_if(|_| !later.contains(&index));
    }
    let mut orphans = Vec::new();
    for (waking, begun) in begun.iter_mut().enumerate().filter(|(w, _)| !done[*w]) {
        match std::mem::replace(begun, Begun::Nothing) {
            Begun::Nothing => {}
            Begun::Draft(index) => {
                let activation = &mut drafts[index].activation;
                let (at_ns, cpu) = (activation.woken_ns, wakings[waking].cpu);
                activation.trigger = Trigger::outside(at_ns, cpu, ArrivalContext::HardIrq);
            }
            Begun::Handover(handover) => orphans.push(handover),
        }
    }
    if !orphans.is_empty() {
        for draft in drafts {
            draft
                .deeds
                .retain(|(_, step)| !matches!(step, DraftStep::Wait(h) if orphans.contains(h)));
        }
    }
}

/// Gives each activation without a visible run the median work of the thread's other activations.
fn assume_work(drafts: &mut [Draft]) {
    let mut seen_ns: BTreeMap<ThreadId, Vec<u64>> = BTreeMap::new();
    for Draft { activation, .. } in drafts.iter() {
        if activation.switches > 0 && activation.slept {
            let list = seen_ns.entry(activation.thread).or_default();
            list.push(activation.executed_ns);
        }
    }
    let median_ns: BTreeMap<ThreadId, u64> = seen_ns
        .into_iter()
        .filter_map(|(thread, mut list)| Some((thread, median(&mut list)?)))
        .collect();
    for Draft { activation, .. } in drafts {
        if activation.switches == 0 && activation.slept && activation.executed_ns == 0 {
            activation.assumed_ns = median_ns.get(&activation.thread).copied().unwrap_or(0);
        }
    }
}
