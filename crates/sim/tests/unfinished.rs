//! Requests that are unfinished when a run ends are reported with their age.

mod common;

use common::*;
use schedcast_sim::workload::{ArrivalSource, QueueSpec, TaskSpec};
use schedcast_sim::{ANSWERED, MessageSpec, NOT_DUE, Reg, RequestSpec, Workload};

const KIND: Reg = Reg(0);
const SENT: Reg = Reg(1);
const REPLIED: Reg = Reg(2);

/// A server that takes 5 ms for each message, of which one comes at 1, 2, 3 and 4 ms.
fn server() -> Workload {
    let mut workload = Workload::default();
    let queue = workload.add_queue(QueueSpec::UNBOUNDED);
    let reply = workload.add_metric("server/reply_latency");
    let program = program(&mut workload, |b| {
        let top = b.here();
        b.recv(queue, SENT);
        b.work(5 * MS);
        b.record_since(reply, SENT);
        b.now(REPLIED);
        b.jump(top);
    });
    workload.add_task(TaskSpec::new("server", program));
    let arrivals = (1..=4).map(|ms| comes(ms * MS, queue, ms * MS)).collect();
    workload.add_arrivals("clients", ArrivalSource::List(arrivals));
    workload.messages.push(MessageSpec {
        program,
        statistics: "server".to_string(),
        queues: vec![queue],
        replies: vec![Some(reply)],
        kinds: 1,
        registers: [KIND, SENT, REPLIED],
    });
    workload
}

#[test]
fn messages_that_wait_and_the_one_that_is_handled_count_with_their_ages() {
    let mut world = free_world(1, server()).ran_until(8 * MS);
    let unfinished = world.unfinished();
    // The first is answered after 6 ms; the second is handled, the third and the fourth wait since
    // 3 and 4 ms.
    let ms = |ages: &[u64]| -> Vec<u64> { ages.iter().map(|age| age / MS).collect() };
    assert_eq!(ms(&unfinished.metrics[&0])[..2], [5, 4]);
    assert_eq!(unfinished.metrics[&0].len(), 3, "{unfinished:?}");
    assert_eq!(unfinished.activations["server"].len(), 3);
    assert_eq!(
        world
            .probes()
            .metric("server/reply_latency")
            .unwrap()
            .values
            .count(),
        1
    );
    world.run_until(40 * MS).unwrap();
    let unfinished = world.unfinished();
    assert_eq!(unfinished.metrics[&0], [], "all is done, and that is told");
    assert_eq!(unfinished.activations["server"], []);
}

#[test]
fn requests_count_from_when_they_are_due_to_their_answer() {
    let mut workload = server();
    let metric = workload.add_metric("server/request_latency");
    let mut add = |due_ns, state| {
        let state = workload.add_word(state);
        workload.requests.push(RequestSpec {
            metric,
            also: None,
            due_ns,
            state,
        });
    };
    add(Some(-2 * MS as i64), NOT_DUE);
    add(Some(7 * MS as i64), NOT_DUE);
    add(Some(9 * MS as i64), NOT_DUE);
    add(Some(1), ANSWERED);
    add(None, NOT_DUE);
    add(None, 5 * MS);
    let world = free_world(1, workload).ran_until(8 * MS);
    let ages = &world.unfinished().metrics[&1];
    assert_eq!(ages[..], [10 * MS, MS, 3 * MS]);
}
