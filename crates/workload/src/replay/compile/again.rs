//! Retries: requests that clients ask again.
//!
//! A client that has waited for too long asks again, and the service does the same work again: that
//! which the recording shows from the arrival of the request to its reply. It is a chain of parts
//! of activations. The last part is the work up to the reply, from the wait for the arrival or from
//! the reply before. If there is neither, the part begins with its activation, and the part of the
//! activation that began that one comes before it, and so on up to one that came from outside.
//!
//! Only these parts are done again, with activations that they begin and that answer no request.
//! They wait for no other thread, and no thread waits for them.
//!
//! ```text
//!   proxy    …, await request 7, 20 µs, wake backend, await request 8, …
//!   backend  300 µs, wake proxy
//!   proxy    30 µs, reply to 7, 15 µs, reply to 6
//!
//!   again    proxy 20 µs, backend 300 µs, proxy 30 µs, reply to 7
//! ```

use super::super::Replay;
use super::super::model::{ActivationId, Step, Trigger};
use super::super::service::RequestId;
use super::super::threads::ThreadId;
use super::Compiler;
use schedcast_sim::{ProgramBuilder, When};
use std::collections::BTreeMap;
use std::ops::Range;

/// A part of an activation that is done again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub activation: ActivationId,
    /// Steps of the activation.
    steps: Range<usize>,
    request: RequestId,
    /// The part that it begins.
    next: Option<usize>,
}

/// All such parts.
#[derive(Debug, Default)]
pub(super) struct Agains {
    pub parts: Vec<Part>,
    /// Per request: the first part of its chain; none where the recording does not show what
    /// begins it.
    first: Vec<Option<usize>>,
    of_thread: BTreeMap<ThreadId, Vec<usize>>,
}

impl Agains {
    /// Nothing, unless clients ask again.
    pub(super) fn of(replay: &Replay) -> Self {
        let mut agains = Self::default();
        if replay.patience.is_none_or(|patience| patience.retries == 0) {
            return agains;
        }
        let mut replies = BTreeMap::new();
        let mut began: BTreeMap<ActivationId, (ActivationId, usize)> = BTreeMap::new();
        for (id, activation) in (0u32..).map(ActivationId).zip(&replay.activations) {
            for (position, step) in replay.steps_of(activation).iter().enumerate() {
                match step {
                    Step::Reply(request) => drop(replies.insert(*request, (id, position))),
                    Step::Wake(target) | Step::Later(target) => {
                        began.insert(*target, (id, position));
                    }
                    _ => {}
                }
            }
        }
        for request in (0..replay.requests.len() as u32).map(RequestId) {
            let reply = replies.get(&request);
            let chain = reply.and_then(|reply| chain(replay, &began, *reply));
            let mut next = None;
            for (activation, steps) in chain.into_iter().flatten() {
                let thread = replay.activations[activation.index()].thread;
                let part = agains.parts.len();
                agains.of_thread.entry(thread).or_default().push(part);
                agains.parts.push(Part {
                    activation,
                    steps,
                    request,
                    next: next.replace(part),
                });
            }
            agains.first.push(next);
        }
        agains
    }

    /// How many requests cannot be asked again.
    fn unknown(&self) -> usize {
        self.first.iter().filter(|first| first.is_none()).count()
    }

    /// The first part of what a request asks for.
    pub(super) fn first(&self, request: RequestId) -> Option<usize> {
        self.first.get(request.index()).copied().flatten()
    }

    /// The parts of a thread's activations, in the order of their numbers.
    pub(super) fn of_thread(&self, thread: ThreadId) -> &[usize] {
        self.of_thread.get(&thread).map_or(&[], Vec::as_slice)
    }
}

/// How many requests cannot be asked again although their clients do.
pub(in super::super) fn not_asked_again(replay: &Replay) -> usize {
    Agains::of(replay).unknown()
}

/// Whether work behind a step is for another request.
fn is_border(step: &Step) -> bool {
    matches!(step, Step::Await(_) | Step::Reply(_))
}

/// The parts of activations that serve a request, the last one first.
fn chain(
    replay: &Replay,
    began: &BTreeMap<ActivationId, (ActivationId, usize)>,
    reply: (ActivationId, usize),
) -> Option<Vec<(ActivationId, Range<usize>)>> {
    let mut parts: Vec<(ActivationId, Range<usize>)> = Vec::new();
    let (mut id, mut position) = reply;
    loop {
        let activation = &replay.activations[id.index()];
        let steps = replay.steps_of(activation);
        // The work behind is for this request as well, unless it ends in the reply to another one.
        let behind = &steps[position + 1..];
        let to = match behind.iter().position(is_border) {
            Some(next) if matches!(behind[next], Step::Reply(_)) => position + 1,
            Some(next) => position + 1 + next,
            None => steps.len(),
        };
        let border = steps[..position].iter().rposition(is_border);
        parts.push((id, border.map_or(0, |border| border + 1)..to));
        if border.is_some() {
            return Some(parts);
        }
        let is_new = |(id, _): &&(ActivationId, usize)| parts.iter().all(|part| part.0 != *id);
        match (began.get(&id), activation.trigger) {
            (Some(before), _) if is_new(&before) => (id, position) = *before,
            (Some(_), _) => return None,
            (None, Trigger::Outside { .. }) => return Some(parts),
            (None, _) => return None,
        }
    }
}

impl Compiler<'_> {
    /// Emits the instructions of a part.
    pub(super) fn again(&self, b: &mut ProgramBuilder, part: usize) {
        let part = &self.agains.parts[part];
        let activation = &self.replay.activations[part.activation.index()];
        let next = part.next.map(|next| (next, &self.agains.parts[next]));
        for step in &self.replay.steps_of(activation)[part.steps.clone()] {
            let begins = |target| next.filter(|(_, next)| next.activation == target);
            match *step {
                Step::Run { .. } | Step::Io { .. } => self.step(b, activation, *step),
                Step::Reply(request) if request == part.request => {
                    self.executed(b, activation.thread, request);
                }
                Step::Wake(target) => match begins(target) {
                    Some((number, next)) => {
                        let to = self.replay.activations[next.activation.index()].thread;
                        b.set(
                            super::SENT,
                            self.units.number_again(&self.agains, to, number),
                        );
                        self.send(b, activation.thread, to);
                    }
                    None if self.is_only_work(target) => self.step(b, activation, *step),
                    None => {}
                },
                Step::Later(target) => {
                    if let Some((number, next)) = begins(target) {
                        let later = &self.replay.activations[next.activation.index()];
                        let number = self.units.number_again(&self.agains, later.thread, number);
                        let when = When {
                            after_ns: later.slept_before_ns.unwrap_or(0),
                            ..When::default()
                        };
                        self.send_later(b, later.thread, number, when);
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether an activation of the service or a backend contains nothing but work, so that it
    /// answers no other request.
    fn is_only_work(&self, id: ActivationId) -> bool {
        let activation = &self.replay.activations[id.index()];
        let only_works = |step: &Step| {
            matches!(
                step,
                Step::Run { .. } | Step::Stolen { .. } | Step::Io { .. }
            )
        };
        let mut services = self.replay.services.iter();
        let asks = services.any(|one| one.clients.contains(&activation.thread));
        self.replay.steps_of(activation).iter().all(only_works)
            && !asks
            && !self.exchanges.requested.contains_key(&id)
    }

    /// When what a request asks for comes to the service, in the recording.
    pub(super) fn comes_ns(&self, request: RequestId, part: usize) -> u64 {
        let part = &self.agains.parts[part];
        match self.replay.activations[part.activation.index()].trigger {
            Trigger::Outside { at_ns, .. } if part.steps.start == 0 => at_ns,
            _ => self.replay.requests[request.index()].arrives_ns,
        }
    }
}
