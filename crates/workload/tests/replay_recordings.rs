//! Inferences from the real recordings, against independent knowledge of them: the requests that
//! pgbench logged, and the kernel's own counters.

use schedcast_base::{assert_contains, assert_in};
use schedcast_trace::Recording;
use schedcast_workload::replay::{
    Activation, ActivationId, Adjust, CompileOptions, GroupIndex, InferOptions, Replay, Step,
    ThreadId, Trigger, infer,
};
use std::path::Path;

fn recording(name: &str) -> Recording {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings");
    Recording::open(&root.join(name)).unwrap()
}

fn replay(recording: &Recording) -> Replay {
    infer(recording, &InferOptions::default()).unwrap()
}

/// Activations of the backends that pgbench began: its requests.
fn requests(replay: &Replay) -> Vec<&Activation> {
    let pgbench = replay.threads_named("pgbench").unwrap()[0];
    replay
        .activations
        .iter()
        .filter(|activation| match activation.trigger {
            Trigger::Thread(by) | Trigger::ThreadUnseen(by) => {
                by == pgbench && replay.threads[activation.thread.index()].name == "postgres"
            }
            _ => false,
        })
        .collect()
}

#[test]
fn each_request_is_one_activation_of_a_backend() {
    for (name, unseen) in [("postgres-quota", (21, 32)), ("postgres-nolimit", (0, 43))] {
        let recording = recording(name);
        let replay = replay(&recording);
        let (start_us, end_us) = (
            replay.start_ns / 1000,
            (replay.start_ns + replay.duration_ns) / 1000,
        );
        let logged = recording.requests.as_ref().unwrap();
        let sent = logged
            .iter()
            .filter(|request| (start_us..end_us).contains(&request.sent_us))
            .count();
        assert_eq!(requests(&replay).len(), sent, "{name}");
        let found = replay.report.unseen;
        assert_eq!((found.requests, found.replies), unseen, "{name}");
    }
}

#[test]
fn the_latency_of_replies_is_what_the_client_saw() {
    for name in ["postgres-quota", "postgres-nolimit"] {
        let recording = recording(name);
        let replay = replay(&recording);
        let mut inferred: Vec<u64> = requests(&replay)
            .iter()
            .filter_map(|activation| activation.reply_latency_ns())
            .collect();
        let start_us = replay.start_ns / 1000;
        let end_us = start_us + replay.duration_ns / 1000;
        let mut logged: Vec<u64> = recording
            .requests
            .as_ref()
            .unwrap()
            .iter()
            .filter(|request| request.sent_us >= start_us && request.replied_us < end_us)
            .map(|request| (request.replied_us - request.sent_us) * 1000)
            .collect();
        inferred.sort_unstable();
        logged.sort_unstable();
        for percent in [10, 50, 75, 90, 95, 99] {
            let [inferred, logged] =
                [&inferred, &logged].map(|list| list[list.len() * percent / 100] as f64 / 1e6);
            let ratio = inferred / logged;
            // The log has the client's own part on top, a few tenths of a millisecond.
            assert!(
                (0.93..1.02).contains(&ratio),
                "{name} p{percent}: inferred {inferred:.3} ms, logged {logged:.3} ms"
            );
        }
    }
}

#[test]
fn the_backends_are_a_pool_with_a_timetable() {
    for (name, late) in [("postgres-quota", 80), ("postgres-nolimit", 120)] {
        let recording = recording(name);
        let replay = replay(&recording);
        let [pool] = &replay.exchanges[..] else {
            panic!("{name}: one pool");
        };
        assert_eq!(pool.servers.len(), 8, "{name}");
        assert_eq!(pool.requests.len(), requests(&replay).len(), "{name}");
        // Requests that the log tells were sent late have a schedule of their own.
        let scheduled = pool.requests.iter().filter_map(|r| r.not_before_ns);
        let scheduled = scheduled.count();
        assert_in!(scheduled, late..late + 50, "{name}");
        let start_us = replay.start_ns / 1000;
        let logged = recording.requests.as_ref().unwrap();
        for exchanged in &pool.requests {
            let Some(not_before_ns) = exchanged.not_before_ns else {
                continue;
            };
            let scheduled_us = start_us + not_before_ns / 1000;
            let known = logged
                .iter()
                .any(|r| r.scheduled_us.abs_diff(scheduled_us) <= 1);
            assert!(known || not_before_ns == 0, "{name}: {scheduled_us}");
        }
    }
}

#[test]
fn backends_answer_once_per_request() {
    let replay = replay(&recording("postgres-quota"));
    let pgbench = replay.threads_named("pgbench").unwrap()[0];
    let replies = |activation: &Activation| {
        let steps = replay.steps_of(activation).iter();
        steps
            .filter(|step| match step {
                Step::Wake(target) => replay.activations[target.index()].thread == pgbench,
                _ => false,
            })
            .count()
    };
    let counts: Vec<usize> = requests(&replay).into_iter().map(replies).collect();
    assert_eq!(counts, [1; 1170]);
}

#[test]
fn no_time_is_lost_and_idle_time_is_idle() {
    for name in ["postgres-quota", "postgres-nolimit"] {
        let replay = replay(&recording(name));
        let mut executed_ns = 0;
        for (id, thread) in (0u32..).map(ThreadId).zip(&replay.threads) {
            let activations = replay.activations_of(id);
            let sum_ns: u64 = activations.iter().map(|a| a.executed_ns).sum();
            if !thread.left_out {
                assert_eq!(sum_ns, thread.executed_ns, "{name} {}", thread.name);
            }
            executed_ns += sum_ns;
        }
        assert_eq!(
            executed_ns + replay.report.left_out_ns,
            replay.report.executed_ns
        );
        let busy = executed_ns as f64 / (2.0 * replay.duration_ns as f64);
        assert!((0.18..0.22).contains(&busy), "{name}: {busy}");
    }
}

#[test]
fn the_period_timer_shows_in_the_quota_recording_only() {
    let quota = replay(&recording("postgres-quota"));
    let group = quota.group("/pg").unwrap();
    let phase = quota.groups[group.index()].phase.unwrap();
    assert!(
        phase.agreeing >= 70 && phase.agreeing * 20 > phase.seen * 19,
        "{phase:?}"
    );
    // Resumptions lie at 5372.6219 s and so on: 39.1 ms after the start at 5371.782 781 s.
    assert!((39_000_000..39_200_000).contains(&phase.offset_ns));
    assert_eq!(quota.members(group).len(), 13);

    let free = replay(&recording("postgres-nolimit"));
    let group = free.group("/pg").unwrap();
    assert_eq!(free.groups[group.index()].phase, None);
}

#[test]
fn counters_of_the_kernel_are_kept() {
    let measured = replay(&recording("postgres-quota")).measured();
    let [group] = &measured.groups[..] else {
        panic!("/pg alone has statistics that count");
    };
    assert_eq!(group.path, "/pg");
    assert_eq!(group.nr_periods, Some(295));
    assert_eq!(group.nr_throttled, Some(102));
    assert_eq!(group.throttled_ns, Some(5_711_974_043));
    let postgres = measured.threads.iter().find(|t| t.name == "postgres");
    assert_eq!(postgres.unwrap().threads, 13);
}

#[test]
fn programs_of_both_recordings_are_valid() {
    for name in ["postgres-quota", "postgres-nolimit"] {
        let replay = replay(&recording(name));
        let mut workload = schedcast_sim::Workload::default();
        let compiled = replay
            .compile(&mut workload, CompileOptions::default())
            .unwrap();
        assert_eq!(workload.check(2), Ok(()));
        assert_eq!(compiled.duration_ns, replay.duration_ns);
        let mut sent = vec![0; replay.activations.len()];
        for step in &replay.steps {
            if let Step::Wake(ActivationId(target)) = step {
                sent[*target as usize] += 1;
            }
        }
        assert!(sent.iter().all(|count| *count <= 1));
    }
}

#[test]
fn stolen_time_is_found_where_requests_take_longer() {
    // 0.1 % of 59 s, nearly all of it found; 2.7 % of 59 s, of which requests show the larger part.
    for (name, stolen_ms, total_ms) in [
        ("postgres-quota", 50..60, 60),
        ("postgres-nolimit", 850..1100, 1611),
    ] {
        let replay = replay(&recording(name));
        let found_ms = replay.report.stolen_ns / 1_000_000;
        assert!(stolen_ms.contains(&found_ms), "{name}: {found_ms} ms");
        assert!(found_ms < total_ms);
        let of_steps = |pick: fn(&Step) -> u64| replay.steps.iter().map(pick).sum::<u64>();
        let stolen_ns = of_steps(|step| match step {
            Step::Stolen { stolen_ns } => *stolen_ns,
            _ => 0,
        });
        let apart = stolen_ns.abs_diff(replay.report.stolen_ns);
        assert!(apart < 1_000_000, "{name}: {stolen_ns}");
        let work_ns = of_steps(|step| match step {
            Step::Run { work_ns } => *work_ns,
            _ => 0,
        });
        let executed_ns: u64 = replay.activations.iter().map(|one| one.executed_ns).sum();
        let assumed_ns = replay.report.assumed_ns;
        assert_eq!(
            work_ns + stolen_ns,
            executed_ns + assumed_ns,
            "{name}: nothing is lost"
        );
    }
}

fn adjusted(adjust: &Adjust) -> Replay {
    let recording = recording("postgres-quota");
    let mut replay = replay(&adjust.cut(&recording).unwrap());
    adjust.apply(&mut replay).unwrap();
    let mut workload = schedcast_sim::Workload::default();
    replay
        .compile(&mut workload, CompileOptions::default())
        .unwrap();
    assert_eq!(workload.check(2), Ok(()));
    replay
}

#[test]
fn a_window_is_a_recording_of_its_own() {
    let replay = adjusted(&Adjust {
        window_ns: Some((5_000_000_000, 20_000_000_000)),
        ..Adjust::default()
    });
    assert_eq!(replay.duration_ns, 15_000_000_000);
    let start_us = replay.start_ns / 1000;
    let recording = recording("postgres-quota");
    let logged = recording.requests.as_ref().unwrap().iter();
    let inside = start_us..start_us + 15_000_000;
    let sent = logged.filter(|one| inside.contains(&one.sent_us)).count();
    let found = requests(&replay).len();
    // One that is under way at the begin or the end may be seen or not.
    assert!(found.abs_diff(sent) <= 3, "{found} of {sent}");
    assert!(
        replay.measured().groups.is_empty(),
        "counters are of the whole recording"
    );
    let outside = Adjust {
        window_ns: Some((5_000_000_000, 60_000_000_000)),
        ..Adjust::default()
    };
    let error = outside.cut(&recording).unwrap_err().to_string();
    assert!(
        error.contains("to 60.000 s does not lie in a recording of 29.501 s"),
        "{error}"
    );
}

#[test]
fn a_rate_moves_what_makes_clients_ask() {
    let plain = adjusted(&Adjust::default());
    let twice = adjusted(&Adjust {
        rate_permille: 2000,
        ..Adjust::default()
    });
    assert_eq!(twice.duration_ns, plain.duration_ns / 2);
    let pgbench = plain.threads_named("pgbench").unwrap()[0];
    for (before, after) in plain.activations.iter().zip(&twice.activations) {
        let at_ns = |activation: &Activation| match activation.trigger {
            Trigger::Outside { at_ns, .. } => Some(at_ns),
            _ => None,
        };
        let expected = match before.thread == pgbench {
            true => at_ns(before).map(|ns| ns / 2),
            false => at_ns(before),
        };
        assert_eq!(at_ns(after), expected);
    }
    let slower = adjusted(&Adjust {
        rate_permille: 500,
        ..Adjust::default()
    });
    assert_eq!(slower.duration_ns, plain.duration_ns);
}

#[test]
fn a_slower_machine_works_longer_for_the_same_requests() {
    let plain = adjusted(&Adjust::default());
    let slower = adjusted(&Adjust {
        work_permille: 1250,
        ..Adjust::default()
    });
    let work_ns = |replay: &Replay| -> u64 {
        let backends = replay.threads_named("postgres").unwrap();
        let activations = backends.iter().flat_map(|id| replay.activations_of(*id));
        let steps = activations
            .flat_map(|one| &replay.steps[one.steps.start as usize..one.steps.end as usize]);
        let work = steps.filter_map(|step| match step {
            Step::Run { work_ns } => Some(work_ns),
            _ => None,
        });
        work.sum()
    };
    let ratio = work_ns(&slower) as f64 / work_ns(&plain) as f64;
    assert!((ratio - 1.25).abs() < 1e-4, "{ratio}");
    let group = plain
        .groups
        .iter()
        .position(|group| group.path == "/pg")
        .unwrap();
    let drift = plain.drift_permille(GroupIndex(group as u32), "postgres");
    // Of 800 and more requests in windows of 100, nearly 4 s each.
    assert!((10..=200).contains(&drift), "{drift}");
}

#[test]
fn a_pool_gets_other_threads() {
    let threads = |threads: u32| {
        let replay = adjusted(&Adjust {
            threads: Some(threads),
            ..Adjust::default()
        });
        let pool = &replay.exchanges[0];
        (
            pool.servers.len(),
            pool.asked,
            replay.threads_named("postgres").unwrap().len(),
        )
    };
    assert_eq!(threads(8), (8, 8, 13));
    assert_eq!(threads(12), (12, 12, 17));
    assert_eq!(threads(2), (8, 2, 13));
}

#[test]
fn the_background_keeps_its_times() {
    let replay = adjusted(&Adjust {
        foreground: Some("/pg".to_owned()),
        ..Adjust::default()
    });
    let group = replay.group("/pg").unwrap();
    let mut front = replay.members(group);
    front.extend(replay.threads_named("pgbench").unwrap());
    let mut background = 0;
    for activation in &replay.activations {
        if front.contains(&activation.thread) {
            continue;
        }
        background += 1;
        let by_thread = matches!(
            activation.trigger,
            Trigger::Thread(_) | Trigger::ThreadUnseen(_)
        );
        assert!(!by_thread);
        let wakes = replay
            .steps_of(activation)
            .iter()
            .any(|step| matches!(step, Step::Wake(_)));
        assert!(!wakes);
    }
    assert!(background > 500, "{background}");
    assert_eq!(requests(&replay).len(), 1170);
    let nowhere = Adjust {
        foreground: Some("/pq".to_owned()),
        ..Adjust::default()
    };
    let mut replay = replay;
    assert_contains(nowhere.apply(&mut replay).unwrap_err(), "/pg");
}
