use super::*;

fn decode(known: Tracepoint, text: &str) -> Result<(Fields<'_>, bool), (usize, &'static str)> {
    parse(known, text.as_bytes(), 0).map_err(|malformed| (malformed.offset, malformed.expected))
}

fn assert_is(known: Tracepoint, text: &str, fields: Fields) {
    assert_eq!(decode(known, text), Ok((fields, false)), "{text}");
}

fn task(comm: &str, pid: Pid, prio: i32) -> Task<'_> {
    Task {
        comm: comm.as_bytes(),
        pid,
        prio,
    }
}

const ODD_NAMES: [&str; 12] = [
    "",
    " ",
    "a b",
    "next_pid=3",
    " ==> next_pid=3",
    " ==> next_comm=",
    " prev_pid=1",
    "c pid=7 prio=1",
    "pid=1 prio=1",
    "x:1 [2] CPU:3",
    "é:sched: 9",
    "a:1 [1] S ==> b",
];

#[test]
fn switch_in_every_spelling() {
    for text in [
        "prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=98",
        "prev_comm=a prev_pid=0x1 (1) prev_prio=0x78 (120) prev_state=0x1 (1) next_comm=b next_pid=0x2 (2) next_prio=0x62 (98)",
        "prev_comm=a prev_pid=1 prev_prio=120 prev_state=1 next_comm=b next_pid=2 next_prio=98",
        "a:1 [120] S ==> b:2 [98]",
        "a:1 [120] S ==> b:2 [98] Latency: 93.920 usecs",
        " prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=98 ",
    ] {
        let expected = Fields::Switch(Switch {
            prev: task("a", 1, 120),
            prev_state: PrevState::Interruptible,
            next: task("b", 2, 98),
        });
        assert_is(Tracepoint::Switch, text, expected);
    }
}

#[test]
fn odd_names_on_both_sides_of_a_switch() {
    for prev in ODD_NAMES {
        for next in ODD_NAMES {
            let text = format!(
                "prev_comm={prev} prev_pid=1 prev_prio=120 prev_state=R+ ==> next_comm={next} next_pid=2 next_prio=-1"
            );
            let expected = Fields::Switch(Switch {
                prev: task(prev, 1, 120),
                prev_state: PrevState::Preempted,
                next: task(next, 2, -1),
            });
            assert_is(Tracepoint::Switch, &text, expected);
        }
    }
}

#[test]
fn odd_names_in_the_other_events() {
    for comm in ODD_NAMES {
        let woken = Tracepoint::Wakeup.woken(task(comm, 5, 120), 1);
        for text in [
            format!("comm={comm} pid=5 prio=120 target_cpu=001"),
            format!("comm={comm} pid=5 prio=120 success=1 target_cpu=001"),
            format!("comm={comm} pid=0x5 (5) prio=0x78 (120) target_cpu=0x1 (1)"),
            format!("{comm}:5 [120] CPU:001"),
            format!("{comm}:5 [120] success=1 CPU:001"),
        ] {
            assert_is(Tracepoint::Wakeup, &text, woken);
        }
        let text = format!("comm={comm} pid=5 prio=120 orig_cpu=3 dest_cpu=11");
        let moved = Fields::Migrate(Migrate {
            task: task(comm, 5, 120),
            orig_cpu: 3,
            dest_cpu: 11,
        });
        assert_is(Tracepoint::Migrate, &text, moved);
        let text = format!("comm={comm} pid=5 child_comm={comm} child_pid=6");
        let forked = Fields::Fork(Fork {
            parent_comm: comm.as_bytes(),
            parent_pid: 5,
            child_comm: comm.as_bytes(),
            child_pid: 6,
        });
        assert_is(Tracepoint::Fork, &text, forked);
        let exited = Fields::Exit(task(comm, 5, 120));
        for extra in [
            "",
            " group_dead=true",
            " group_dead=1",
            " group_dead=(1)",
            " group_dead=0x1 (1)",
        ] {
            let text = format!("comm={comm} pid=5 prio=120{extra}");
            assert_is(Tracepoint::Exit, &text, exited);
        }
    }
}

#[test]
fn raw_fork_names_its_fields_in_full() {
    let text = "parent_comm=bash parent_pid=6364 child_comm=bash child_pid=6366";
    let forked = Fields::Fork(Fork {
        parent_comm: b"bash",
        parent_pid: 6364,
        child_comm: b"bash",
        child_pid: 6366,
    });
    assert_is(Tracepoint::Fork, text, forked);
}

#[test]
fn exec_of_a_file_with_an_odd_name() {
    let text = "filename=/tmp/a pid=1 old_pid=2/x pid=7 old_pid=8";
    let expected = Fields::Exec(Exec {
        filename: b"/tmp/a pid=1 old_pid=2/x",
        pid: 7,
        old_pid: 8,
    });
    assert_is(Tracepoint::Exec, text, expected);
}

#[test]
fn plugin_states_are_old_letters_for_new_bits() {
    let state = |letter: &str| match decode(
        Tracepoint::Switch,
        &format!("a:1 [120] {letter} ==> b:2 [120]"),
    ) {
        Ok((Fields::Switch(Switch { prev_state, .. }), false)) => prev_state,
        other => panic!("{other:?}"),
    };
    assert_eq!(state("W"), PrevState::Idle);
    assert_eq!(state("X"), PrevState::Zombie);
    assert_eq!(state("Z"), PrevState::Dead);
    assert_eq!(state("x"), PrevState::Parked);
    assert_eq!(state("R"), PrevState::Running);
    assert_eq!(state("D"), PrevState::Uninterruptible);
}

#[test]
fn a_field_of_a_later_kernel_is_stepped_over_and_reported() {
    let text = "comm=a pid=5 prio=120 target_cpu=001 reason=tick";
    let woken = Tracepoint::Wakeup.woken(task("a", 5, 120), 1);
    assert_eq!(decode(Tracepoint::Wakeup, text), Ok((woken, true)));
}

#[test]
fn failures_point_at_the_place() {
    use Tracepoint::{Migrate, Switch, Wakeup};
    let missing = |known, text, offset, wanted| {
        assert_eq!(decode(known, text), Err((offset, wanted)), "{text}");
    };
    let text = "comm=a ptd=5 prio=120 target_cpu=001";
    missing(Wakeup, text, 5, MISSING_PID);
    let text = "comm=a pid=x prio=120 target_cpu=001";
    missing(Wakeup, text, 11, "a process id");
    for (known, text, offset) in [
        (Wakeup, "comm=a pid=5 prio=120 target_cpu=001 tick", 37),
        (Wakeup, "comm=a pid=5 prio=120 target_cpu=001x=1", 36),
        (Wakeup, "comm=a pid=5000000000 prio=120 target_cpu=1", 11),
        (Migrate, "comm=a pid=5 prio=120 orig_cpu=3", 32),
    ] {
        assert_eq!(decode(known, text).unwrap_err().0, offset, "{text}");
    }
    for state in ["Q ==>", "1026 ==>", "1026"] {
        let text = format!(
            "prev_comm=a prev_pid=1 prev_prio=120 prev_state={state} next_comm=b next_pid=2 next_prio=98"
        );
        assert_eq!(decode(Switch, &text).unwrap_err().0, 48, "{text}");
    }
}

#[test]
fn every_cut_of_a_line_fails_or_ends_in_a_number() {
    let text = "prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120";
    for cut in 0..text.len() {
        let whole = decode(Tracepoint::Switch, &text[..cut]);
        assert_eq!(whole.is_ok(), cut > text.len() - 3, "cut at {cut}");
    }
}

#[test]
fn names_printed_as_arrays() {
    let mut buffer = [0; 16];
    assert_eq!(
        plain_name(b"ARRAY[28, 20, 31, 00, 00]", &mut buffer),
        b"( 1"
    );
    assert_eq!(plain_name(b"ARRAY[61]", &mut buffer), b"a");
    assert_eq!(plain_name(b"ARRAY[zz]", &mut buffer), b"ARRAY[zz]");
    assert_eq!(plain_name(b"ARRAY", &mut buffer), b"ARRAY");
}
