//! Workloads compiled from a replay.

use super::*;
use schedcast_kernel::GroupId;
use schedcast_sim::workload::{ArrivalAction, ArrivalSource};
use schedcast_sim::{Arithmetic, Instruction, Reg};

#[test]
fn a_thread_becomes_a_loop_over_its_inbox() {
    let mut mini = Mini::new(&[(1, "pgbench"), (2, "postgres")]);
    mini.group("/pg", &[("cpu.max", "50000 100000")], &[2]);
    mini.hands_over([100, 100], 0, 0, HARD, 1);
    mini.hands_over([170, 200], 0, 1, TASK, 2);
    mini.switch(1_200, 0, 2, "S", 0);
    let replay = inferred(mini, 2_000);
    let (workload, compiled) = compiled(&replay);
    assert_eq!(workload.check(1), Ok(()));
    assert_eq!(compiled.duration_ns, 2_000_000);
    assert_eq!(compiled.groups, [GroupId(0), GroupId(1)]);
    assert_eq!(workload.groups[0].path, "/pg");
    assert_eq!(workload.groups[0].limit.quota_ns, Some(50_000_000));
    assert_eq!(workload.tasks[0].group, GroupId(0));
    assert_eq!(workload.tasks[1].group, GroupId(1));

    let [client, server] = [0, 1].map(|i| compiled.inboxes[i].unwrap());
    use Instruction as I;
    let arithmetic = |op, reg, operand: u64| I::Arithmetic {
        op,
        reg: Reg(reg),
        operand: operand.into(),
    };
    let program = workload.programs[0].instructions();
    assert!(matches!(program[0], I::Recv { queue, value: Reg(0), .. } if queue == client.into()));
    assert!(matches!(program[1], I::Set { reg: Reg(3), .. }));
    assert_eq!(program[2], arithmetic(Arithmetic::Divide, 3, 1));
    assert_eq!(program[3], arithmetic(Arithmetic::Remainder, 0, 1));
    assert!(matches!(program[4], I::JumpIndexed { reg: Reg(0), .. }));
    assert_eq!(program[5], I::Jump(0));
    assert_eq!(program[6], I::Work(70_000.into()));
    let number = 0.into();
    let set = |reg, value| I::Set {
        reg: Reg(reg),
        value,
    };
    assert_eq!(program[7], set(1, number));
    assert_eq!(program[8], I::Now(Reg(5)));
    assert_eq!(program[9], arithmetic(Arithmetic::Multiply, 5, 1));
    assert!(matches!(
        program[10],
        I::Arithmetic {
            op: Arithmetic::Add,
            reg: Reg(1),
            ..
        }
    ));
    assert!(
        matches!(program[11], I::Send { queue, value: Reg(1), sync: true, .. } if queue == server.into())
    );
    assert_eq!(program[12..], [I::Work(30_000.into()), I::Jump(0)]);

    let ArrivalSource::List(arrivals) = &workload.arrivals[0].source else {
        panic!("one list of arrivals");
    };
    assert_eq!(arrivals.len(), 1);
    assert_eq!(arrivals[0].at_ns, 100_000);
    assert!(
        matches!(arrivals[0].action, ArrivalAction::Send { queue, value: 100_000, .. } if queue == client)
    );
}

#[test]
fn what_was_under_way_comes_before_the_loop() {
    let mut mini = Mini::new(&[(2, "hog"), (9, "child")]);
    mini.fork(300, 0, 2, 9);
    mini.switch(500, 0, 2, "S", 9);
    mini.switch(700, 0, 9, "Z", 0);
    let replay = inferred(mini, 1_000);
    let (workload, _) = compiled(&replay);
    assert_eq!(workload.check(1), Ok(()));
    use Instruction as I;
    let hog = workload.programs[0].instructions();
    assert_eq!(hog[0], I::Work(300_000.into()));
    assert!(matches!(hog[1], I::Fork { .. }));
    assert_eq!(hog[2], I::Work(200_000.into()));
    assert!(matches!(hog[3], I::Recv { .. }));
    let child = workload.programs[1].instructions();
    assert_eq!(child[0], I::Work(200_000.into()));
    assert_eq!(child[1], I::Exit);
    assert_eq!(workload.tasks.len(), 1, "the child is forked by a step");
    assert_eq!(workload.forks[0].name, "child");
}

#[test]
fn a_smaller_machine_takes_over_what_a_missing_cpu_did() {
    let mut mini = Mini::new(&[(5, "kworker/1:0"), (7, "sshd")]);
    for pid in [5, 7] {
        let at = pid as u64 * 100;
        mini.hands_over([at, at], 1, 0, HARD, pid);
        mini.switch(at + 10, 1, pid, if pid == 7 { "S" } else { "I" }, 0);
    }
    let replay = inferred(mini, 1_000);
    let compiled = |cpus| {
        let mut workload = Workload::default();
        let options = CompileOptions {
            cpus,
            ..CompileOptions::default()
        };
        replay.compile(&mut workload, options).unwrap();
        workload
    };
    let (one, two) = (compiled(1), compiled(2));
    assert!(two.check(1).is_err(), "the recording needs its second CPU");
    assert_eq!(one.check(1), Ok(()));
    assert_eq!(
        two,
        compiled(u32::MAX),
        "a machine of its size changes nothing"
    );
}

#[test]
fn kernel_threads_are_marked_and_bound() {
    let mut mini = Mini::new(&[(5, "kworker/1:0"), (6, "rcu_preempt"), (7, "sshd")]);
    for pid in [5, 6, 7] {
        let at = pid as u64 * 100;
        mini.hands_over([at, at], 1, 0, SOFT, pid);
        mini.switch(at + 10, 1, pid, if pid == 7 { "S" } else { "I" }, 0);
    }
    let replay = inferred(mini, 1_000);
    let mut workload = Workload::default();
    let options = CompileOptions {
        sync_wakeups: false,
        ..CompileOptions::default()
    };
    replay.compile(&mut workload, options).unwrap();
    let shown: Vec<_> = workload
        .tasks
        .iter()
        .map(|task| {
            (
                task.name.as_str(),
                task.address_space.is_some(),
                task.affinity.is_some(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("kworker/1:0", false, true),
            ("rcu_preempt", false, false),
            ("sshd", true, false)
        ]
    );
}
