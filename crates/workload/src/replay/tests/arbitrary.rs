//! Any sequence of events is inferred and compiled without a panic, and no time is lost.

use super::*;
use proptest::prelude::*;
use schedcast_kernel::platform::Op;
use schedcast_sim::Workload;
use schedcast_trace::{CommId, Context, EventKind, Fork, Migrate, PrevState, Switch, Task, Wakeup};

#[derive(Clone, Debug)]
struct Drawn {
    step_us: u64,
    cpu: u32,
    kind: u8,
    task: i32,
    other: i32,
    state: usize,
    context: usize,
}

const STATES: [&str; 10] = ["R", "R+", "S", "D", "T", "t", "X", "Z", "P", "I"];

fn an_event() -> impl Strategy<Value = Drawn> {
    (
        0u64..300,
        0u32..3,
        0u8..9,
        -1i32..6,
        -1i32..6,
        0usize..10,
        0usize..4,
    )
        .prop_map(|(step_us, cpu, kind, task, other, state, context)| Drawn {
            step_us,
            cpu,
            kind,
            task,
            other,
            state,
            context,
        })
}

fn kind(any: &Drawn) -> EventKind {
    let task = |pid: i32, prio| Task {
        pid,
        comm: CommId(pid.unsigned_abs()),
        prio,
    };
    let wakeup = Wakeup {
        task: task(any.other, any.state as i32 * 20 - 20),
        target_cpu: (any.state % 4) as u32,
    };
    match any.kind {
        0..=2 => EventKind::Switch(Switch {
            prev: task(any.task, 120),
            prev_state: PrevState::from_text(STATES[any.state].as_bytes()).unwrap(),
            next: task(any.other, 120),
        }),
        3 | 4 => EventKind::Waking(wakeup),
        5 => EventKind::Wakeup(wakeup),
        6 => EventKind::WakeupNew(wakeup),
        7 => EventKind::Fork(Fork {
            parent_pid: any.task,
            parent_comm: CommId(0),
            child_pid: any.other,
            child_comm: CommId(1),
        }),
        _ => EventKind::Migrate(Migrate {
            task: Task {
                comm: CommId(2),
                ..task(any.other, 120)
            },
            orig_cpu: any.cpu,
            dest_cpu: (any.state % 4) as u32,
        }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn nothing_panics_and_nothing_is_lost(
        events in proptest::collection::vec(an_event(), 0..120),
        limited in any::<bool>(),
        costly in any::<bool>(),
    ) {
        let mut mini = Mini::new(&[]);
        if limited {
            mini.group("/limited", &[("cpu.max", "1000 5000")], &[1, 2, 3]);
        }
        mini.meta.autogroup = Some(limited);
        let mut now = 0;
        for event in &events {
            now += event.step_us;
            let context = [TASK, HARD, SOFT, Context::UNKNOWN][event.context];
            mini.push(now, event.cpu, event.task, context, kind(event));
        }
        let costs = if costly { Costs::new([700; Op::COUNT], 250) } else { Costs::FREE };
        let options = InferOptions { costs, ..InferOptions::default() };
        let replay = infer(&mini.recording(now + 10), &options).unwrap();
        assert_conserved(&replay);
        let cpus = u64::from(replay.cpus.max(3));
        prop_assert!(replay.report.executed_ns <= cpus * replay.duration_ns);
        let _ = replay.measured();
        let mut workload = Workload::default();
        replay.compile(&mut workload, CompileOptions::default()).unwrap();
        prop_assert_eq!(workload.check(4), Ok(()));
        assert_every_message_is_sent_once(&replay);
    }
}

/// Each activation that a thread begins is begun by exactly one step of that thread, and each wait
/// is ended by exactly one.
fn assert_every_message_is_sent_once(replay: &Replay) {
    let mut sent = vec![0; replay.activations.len()];
    let mut waits = vec![(0, 0); replay.handovers as usize];
    for activation in &replay.activations {
        for step in replay.steps_of(activation) {
            match step {
                Step::Wake(target) => {
                    sent[target.index()] += 1;
                    let by = match replay.activations[target.index()].trigger {
                        Trigger::Thread(by) | Trigger::ThreadUnseen(by) => by,
                        other => panic!("{other:?} needs no message"),
                    };
                    assert_eq!(by, activation.thread);
                }
                Step::Wait(handover) => waits[handover.0 as usize].0 += 1,
                Step::Post(handover) => waits[handover.0 as usize].1 += 1,
                _ => {}
            }
        }
    }
    for (activation, sent) in replay.activations.iter().zip(sent) {
        let by_thread = matches!(
            activation.trigger,
            Trigger::Thread(_) | Trigger::ThreadUnseen(_)
        );
        assert_eq!(sent, u32::from(by_thread), "{activation:?}");
    }
    assert!(
        waits
            .iter()
            .all(|(wait, post)| *wait == 0 || (*wait, *post) == (1, 1))
    );
}
