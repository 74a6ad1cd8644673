//! Clients that give a request up, or ask again, when no answer comes in time.

mod common;

use common::*;
use schedcast_kernel::Cpu;
use schedcast_sim::workload::{ArrivalContext, ArrivalSource, PatientId, QueueSpec, TaskSpec};
use schedcast_sim::{
    Arithmetic, NOT_DUE, PatientMessage, PatientSpec, Reg, RequestSpec, Then, When, Workload, World,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const MESSAGE: Reg = Reg(0);

/// A server that works `work_ns` for each request, first come first served. Before them it works
/// `before_ns` for somebody else. Requests are due at these times and come at once; those without a
/// time follow the one before after 1 ms.
struct Served<'a> {
    before_ns: u64,
    work_ns: u64,
    due_ns: &'a [Option<u64>],
    timeout_ns: u64,
    retries: u32,
}

impl Served<'_> {
    fn world(&self, end_ns: u64) -> World {
        let mut workload = Workload::default();
        let queue = workload.add_queue(QueueSpec::UNBOUNDED);
        let kinds = self.due_ns.len() as u64;
        let names = ["latency", "failed", "retried"];
        let [latency, failed, retried] = names.map(|name| workload.add_metric(name));
        let program = program(&mut workload, |b| {
            b.work(self.before_ns);
            let top = b.here();
            b.recv(queue, MESSAGE);
            b.arithmetic(Arithmetic::Remainder, MESSAGE, kinds);
            let handlers: Vec<_> = (0..kinds).map(|_| b.label()).collect();
            b.jump_indexed(MESSAGE, &handlers);
            for (patient, handler) in (0..).map(PatientId).zip(&handlers) {
                b.bind(*handler);
                b.work(self.work_ns);
                b.serve(patient);
                b.answer(patient);
                b.jump(top);
            }
        });
        workload.add_task(TaskSpec::new("server", program));
        let mut arrivals = Vec::new();
        for (kind, due_ns) in (0u32..).zip(self.due_ns) {
            let state = workload.add_word(NOT_DUE);
            workload.requests.push(RequestSpec {
                metric: latency,
                also: None,
                due_ns: due_ns.map(|ns| ns as i64),
                state,
            });
            let message = |kind: u32| PatientMessage {
                queue,
                kinds,
                kind: kind.into(),
                cpu: Cpu(0),
                context: ArrivalContext::SoftIrq,
            };
            let next = kind + 1;
            let follows = self.due_ns.get(next as usize) == Some(&None);
            let then = [Then::Due(PatientId(next)), Then::Sends(message(next))];
            workload.patients.push(PatientSpec {
                request: kind,
                timeout_ns: self.timeout_ns,
                retries: self.retries,
                read_ns: 0,
                failed,
                retried,
                again: Some((message(kind), 0)),
                then: then
                    .into_iter()
                    .filter(|_| follows)
                    .map(|one| {
                        let when = When {
                            after_ns: MS,
                            not_before_ns: 0,
                        };
                        (one, when)
                    })
                    .collect(),
            });
            let value = |at_ns: u64| at_ns * kinds + u64::from(kind);
            arrivals.extend(due_ns.map(|at_ns| comes(at_ns, queue, value(at_ns))));
        }
        workload.add_arrivals("clients", ArrivalSource::List(arrivals));
        free_world(1, workload).ran_until(end_ns)
    }
}

#[derive(Debug, PartialEq)]
struct Seen {
    finished: u64,
    sum_ns: u64,
    failed: u64,
    retried: u64,
    busy_ns: u64,
}

fn seen(world: &World) -> Seen {
    let probes = world.probes();
    let count = |name| probes.metric(name).unwrap().count;
    let latency = &probes.metric("latency").unwrap().values;
    let finished = latency.count();
    let server = probes
        .names
        .iter()
        .find(|one| one.name == "server")
        .unwrap();
    Seen {
        finished,
        sum_ns: (latency.mean().unwrap_or(0.0) * finished as f64).round() as u64,
        failed: count("failed"),
        retried: count("retried"),
        busy_ns: server.run_ns,
    }
}

#[test]
fn an_answer_to_an_earlier_attempt_reaches_nobody() {
    let served = |before_ms: u64| Served {
        before_ns: before_ms * MS,
        work_ns: MS,
        due_ns: &[Some(10 * MS)],
        timeout_ns: 20 * MS,
        retries: 1,
    };
    let request = |latency_ms, failed, retried, busy_ms| Seen {
        finished: 1,
        sum_ns: latency_ms * MS,
        failed,
        retried,
        busy_ns: busy_ms * MS,
    };
    // The first answer is sent at 41 ms, after the second attempt at 30.
    let answered = request(32, 0, 1, 42);
    assert_eq!(seen(&served(40).world(100 * MS)), answered);
    let failed = request(40, 1, 1, 62);
    assert_eq!(seen(&served(60).world(100 * MS)), failed);
    let in_time = request(16, 0, 0, 26);
    assert_eq!(seen(&served(25).world(100 * MS)), in_time);
}

/// The same clients at a queue of ten lines, first come first served.
fn by_hand(served: &Served<'_>, end_ns: u64) -> Seen {
    let mut all = Seen {
        finished: 0,
        sum_ns: 0,
        failed: 0,
        retried: 0,
        busy_ns: 0,
    };
    // Per request: attempts made and served, and whether it is over.
    let mut state = vec![(1u32, 0u32, false); served.due_ns.len()];
    let (mut coming, mut waiting) = (BinaryHeap::new(), VecDeque::new());
    for (number, due_ns) in served.due_ns.iter().enumerate() {
        let due_ns = due_ns.unwrap();
        coming.push(Reverse((due_ns, 0, number)));
        coming.push(Reverse((due_ns + served.timeout_ns, 1, number)));
    }
    let mut serving = None;
    while let Some(Reverse((now, what, number))) = coming.pop().filter(|next| next.0.0 < end_ns) {
        let (asked, done, over) = &mut state[number];
        let due_ns = served.due_ns[number].unwrap();
        let ends = match what {
            0 => {
                waiting.push_back(number);
                false
            }
            1 if *over => false,
            1 if *asked > served.retries => {
                all.failed += 1;
                true
            }
            1 => {
                *asked += 1;
                all.retried += 1;
                coming.push(Reverse((now, 0, number)));
                coming.push(Reverse((now + served.timeout_ns, 1, number)));
                false
            }
            _ => {
                serving = None;
                all.busy_ns += served.work_ns;
                *done += 1;
                !*over && done >= asked
            }
        };
        if ends {
            all.finished += 1;
            all.sum_ns += now - due_ns;
            *over = true;
        }
        if serving.is_none() {
            serving = waiting.pop_front();
            coming.extend(serving.map(|next| Reverse((now + served.work_ns, 2, next))));
        }
    }
    all
}

/// Work of 3 ms comes each 5 ms, but for 100 ms of each 400 all of it at once.
fn bursts() -> Vec<Option<u64>> {
    let at_ms = |number: u64| match number % 80 {
        burst @ 0..20 => number / 80 * 400 + burst / 10,
        paced => number / 80 * 400 + 5 * paced,
    };
    (0..400)
        .map(|number| Some(at_ms(number) * MS + number * 1_001))
        .collect()
}

#[test]
fn storms_of_retries_are_those_of_a_queue_by_hand() {
    let due_ns = bursts();
    let mut failed = Vec::new();
    for retries in 0..4 {
        let served = Served {
            before_ns: 0,
            work_ns: 3 * MS,
            due_ns: &due_ns,
            timeout_ns: 17 * MS,
            retries,
        };
        let mut found = seen(&served.world(2_500 * MS));
        let told = by_hand(&served, 2_500 * MS);
        // Work that is under way at the end is in one of them only.
        assert!(found.busy_ns - told.busy_ns <= 3 * MS);
        found.busy_ns = told.busy_ns;
        assert_eq!(found, told, "{retries} retries");
        assert_eq!(found.retried > 0, retries > 0);
        failed.push((found.failed, told.busy_ns / (3 * MS)));
    }
    // A queue of 60 ms makes most of a burst fail after 17 ms, and each retry adds its work.
    let done: Vec<u64> = failed.iter().map(|(_, done)| *done).collect();
    assert!(done.is_sorted() && done[3] > done[0] * 3 / 2, "{failed:?}");
}

#[test]
fn a_closed_loop_goes_on_when_a_request_is_given_up() {
    let due_ns: Vec<Option<u64>> = (0..5).map(|number| (number == 0).then_some(MS)).collect();
    let served = |retries| Served {
        before_ns: 0,
        work_ns: 30 * MS,
        due_ns: &due_ns,
        timeout_ns: 20 * MS,
        retries,
    };
    // Due at 1, 22, 43, 64 and 85 ms, as each is given up after 20; served until 151.
    let found = seen(&served(0).world(90 * MS));
    assert_eq!(
        (found.finished, found.failed, found.sum_ns),
        (4, 4, 80 * MS)
    );
    let found = seen(&served(0).world(200 * MS));
    assert_eq!(
        (found.finished, found.failed, found.busy_ns),
        (5, 5, 150 * MS)
    );
    // Both attempts of all five: 300 ms of work in 205.
    let found = seen(&served(1).world(400 * MS));
    assert_eq!(
        (found.finished, found.failed, found.busy_ns),
        (5, 5, 300 * MS)
    );
    assert_eq!(found.sum_ns, 5 * 40 * MS);
    assert!(world_is_quiet(&served(1).world(400 * MS)));
}

/// Nothing is unfinished.
fn world_is_quiet(world: &World) -> bool {
    let unfinished = world.unfinished();
    unfinished.metrics.values().all(Vec::is_empty)
}

#[test]
fn patience_that_is_never_lost_changes_nothing() {
    let due_ns = bursts();
    let served = |timeout_ns, retries| Served {
        before_ns: 0,
        work_ns: 3 * MS,
        due_ns: &due_ns,
        timeout_ns,
        retries,
    };
    let patient = served(10_000 * MS, 3).world(2_500 * MS);
    assert_eq!(seen(&patient), by_hand(&served(10_000 * MS, 0), 2_500 * MS));
    assert_eq!(seen(&patient).failed, 0);
}
