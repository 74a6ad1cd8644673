//! Servers whose next request comes while they are still awake.

use super::*;

/// `requests` plain requests of a client to a server, 1000 µs of work and a tail of 10 µs each;
/// then one in which the server is throttled right after the reply and finds the next request when
/// it goes on. Returns the time after it.
fn service(mini: &mut Mini, requests: u64) -> u64 {
    let mut at = 0;
    for _ in 0..requests {
        mini.hands_over([at, at], 0, 0, HARD, 1);
        mini.hands_over([at + 60, at + 80], 0, 1, TASK, 2);
        mini.hands_over([at + 1_080, at + 1_090], 0, 2, TASK, 1);
        mini.switch(at + 1_120, 0, 1, "S", 0);
        at += 5_000;
    }
    mini.hands_over([at, at], 0, 0, HARD, 1);
    mini.hands_over([at + 60, at + 80], 0, 1, TASK, 2);
    mini.waking(at + 1_080, 0, 2, TASK, 1); // the reply
    mini.switch(at + 1_085, 0, 2, "R+", 1); // throttled before it sleeps
    mini.switch(at + 1_185, 0, 1, "S", 0); // the client has sent the next request meanwhile
    mini.switch(at + 40_000, 0, 0, "R", 2);
    mini.waking(at + 41_000, 0, 2, TASK, 1); // the second reply
    mini.switch(at + 41_010, 0, 2, "S", 1);
    mini.switch(at + 41_050, 0, 1, "S", 0);
    at + 50_000
}

#[test]
fn merged_requests_are_told_apart() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    let end = service(&mut mini, 30);
    let replay = inferred(mini, end);
    assert_eq!(replay.report.unseen.requests, 1);
    let server = replay.threads_named("server").unwrap()[0];
    let client = replay.threads_named("client").unwrap()[0];
    let activations = replay.activations_of(server);
    assert_eq!(activations.len(), 32);
    let [first, second] = &activations[30..] else {
        panic!("the last two");
    };
    assert_eq!(
        (first.executed_ns, second.executed_ns),
        (1_010_000, 1_005_000)
    );
    assert_eq!(second.trigger, Trigger::ThreadUnseen(client));
    let message = ActivationId(replay.threads[server.index()].activations.start + 31);
    let senders: Vec<&Activation> = replay
        .activations_of(client)
        .iter()
        .filter(|activation| replay.steps_of(activation).contains(&Step::Wake(message)))
        .collect();
    let [sender] = senders[..] else {
        panic!("one client activation sends it");
    };
    assert_eq!(sender.trigger, Trigger::Thread(server));
    // 20 µs before its end, as in the visible ones.
    assert_eq!(
        replay.steps_of(sender),
        [run(80), Step::Wake(message), run(20)]
    );
    let found = first.latency_ns(0);
    assert_eq!(found, Some(1_030_000), "60 → 1080 and a tail of 10");
    assert_conserved(&replay);
}

#[test]
fn a_few_requests_prove_nothing() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    let end = service(&mut mini, 10);
    let replay = inferred(mini, end);
    assert_eq!(replay.report.unseen, Unseen::default());
    assert_conserved(&replay);
}

#[test]
fn replies_in_pieces_are_one_request() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    let mut at = 0;
    for _ in 0..40 {
        mini.hands_over([at, at], 0, 0, HARD, 1);
        mini.hands_over([at + 60, at + 80], 0, 1, TASK, 2);
        for piece in [500, 1_000, 1_500] {
            mini.waking(at + piece, 0, 2, TASK, 1);
            mini.switch(at + piece + 5, 0, 2, "R", 1);
            mini.switch(at + piece + 15, 0, 1, "S", 2);
        }
        mini.switch(at + 1_600, 0, 2, "S", 0);
        at += 5_000;
    }
    let replay = inferred(mini, at);
    assert_eq!(replay.report.unseen, Unseen::default());
    let server = replay.threads_named("server").unwrap()[0];
    assert_eq!(replay.activations_of(server).len(), 40);
}
