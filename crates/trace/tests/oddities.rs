//! Content of recordings besides events, and events that kernels and tools print differently.

mod common;

use common::{fixture, read_file, read_text};
use schedcast_base::assert_starts;
use schedcast_trace::{Context, Item, Level, PrevState};

/// A header for lines whose event is what the test is about.
fn line(rest: &str) -> String {
    format!("            bash-1234    [001] d..2.   452.312664: {rest}\n")
}

const WAKEUP: &str = "sched_wakeup: comm=a pid=5 prio=120 target_cpu=001";

fn one(text: &str) -> String {
    let read = read_text(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let dump = read.dump();
    assert_eq!(dump.len(), 1, "{text}");
    dump[0].clone()
}

#[test]
fn headers_of_every_kernel() {
    let expected = r#"cpu 1 task 1234 sched_wakeup "a":5:120 on 1"#;
    for header in [
        "            bash-1234  [001] d.h2 452.312664: ", // four flags, old padding
        "            bash-1234    [001] d.h2.   452.312664: ", // five flags
        "            bash-1234    [001] d..h2..   452.312664: ", // seven flags of PREEMPT_RT
        "            bash-1234    [001] d..h2...   452.312664: ", // eight
        "            bash-1234    (   1234) [001] d.h2.   452.312664: ", // thread group
        "            bash-1234  [001] ( 1234) d.h2   452.312664: ", // thread group, older place
        "            bash-1234    [001]   452.312664: ",  // no flags
        "            bash-1234    [001] d.h2.   452.312664123: ", // nanoseconds
        "    bash-1234    1d.h2.   452.312664: ",         // trace-cmd report -l
        "    bash-1234    1d.h2. 452312664us+: ",         // latency format
        "  name:       bash-1234    [001] d.h2.   452.312664: ", // instance of trace-cmd
        "<...>-1234 [001] d.h2. 452.312664: ",            // stripped by a mailer
    ] {
        assert_eq!(one(&format!("{header}{WAKEUP}\n")), expected, "{header}");
    }
}

#[test]
fn windows_line_ends() {
    let text = format!(
        "# tracer: nop\r\n\r\n{}",
        line(WAKEUP).replace('\n', "\r\n")
    );
    assert_eq!(one(&text), r#"cpu 1 task 1234 sched_wakeup "a":5:120 on 1"#);
}

#[test]
fn the_drawing_above_the_events_orders_the_flags() {
    let drawing = "#      _-----=> irqs-off\n#     / _----=> need-resched\n#    | / _----=> need-resched_lazy\n\
                   #    || / _---=> hardirq/softirq\n#    ||| / _--=> preempt-depth\n";
    let text = format!("{drawing}  a-1 [000] d..h1 1.000000: {WAKEUP}\n");
    assert_eq!(
        read_text(&text).unwrap().events()[0].context.level(),
        Some(Level::HardIrq)
    );
    let text = format!("  a-1 [000] d..h1 1.000000: {WAKEUP}\n");
    assert_eq!(
        read_text(&text).unwrap().events()[0].context,
        Context::TASK.with_irqs_off()
    );
}

#[test]
fn lost_events_are_items_with_their_place() {
    let text = format!(
        "{}CPU:1 [LOST 431 EVENTS]\n{}CPU:0 [EVENTS DROPPED]\n",
        line(WAKEUP),
        line(WAKEUP)
    );
    let read = read_text(&text).unwrap();
    assert_eq!(read.items.len(), 4);
    let Item::Lost(gap) = read.items[1] else {
        panic!("{:?}", read.items[1])
    };
    assert_eq!((gap.cpu, gap.events, gap.line), (1, Some(431), 2));
    assert_eq!(gap.after_ns, Some(452_312_664_000));
    let Item::Lost(gap) = read.items[3] else {
        panic!("{:?}", read.items[3])
    };
    assert_eq!((gap.cpu, gap.events), (0, None));
    assert_eq!(read.counts.lost.len(), 2);
    let found = read.counts.lost_events();
    assert_eq!(found, None, "one gap is of unknown size");
    assert_eq!(
        read.counts.notes()[0],
        "an unknown number of events were lost in 2 gaps, the first at line 2"
    );
}

#[test]
fn lost_events_of_a_real_pipe() {
    let read = read_file(&fixture("trace-pipe-lost.txt")).unwrap();
    assert_eq!(read.counts.lost_events(), Some(431 + 1989));
    assert_eq!(
        read.counts
            .lost
            .iter()
            .map(|gap| gap.cpu)
            .collect::<Vec<_>>(),
        [1, 0]
    );
    assert_eq!(read.counts.events, 23);
}

#[test]
fn overwritten_events_of_a_real_buffer() {
    let read = read_file(&fixture("tracefs-overwritten.txt")).unwrap();
    assert_eq!(read.counts.overwritten, 884 - 276);
    assert_eq!(read.counts.buffer_starts.len(), 1);
    let start = read.counts.buffer_starts[0];
    assert_eq!(
        (start.cpu, start.line, start.after_ns),
        (0, 22, Some(667_696_051_000))
    );
    assert_eq!(
        read.counts.notes()[..2],
        [
            "608 events were overwritten before the trace was read",
            "what CPU 0 did before line 22 was overwritten"
        ]
    );
    // The virtual machine that it comes from hides it.
    assert_eq!(read.counts.cpus_that_hide_idle().collect::<Vec<_>>(), [1]);
}

/// A switch on `cpu`, between threads of these numbers.
fn switch(cpu: u32, prev: i32, next: i32) -> String {
    let idle = |pid| if pid == 0 { "swapper" } else { "task" };
    format!(
        " {}-{prev} [00{cpu}] d..2. 1.000000: sched_switch: prev_comm={} prev_pid={prev} prev_prio=120 \
         prev_state=S ==> next_comm={} next_pid={next} next_prio=120\n",
        idle(prev),
        idle(prev),
        idle(next)
    )
}

#[test]
fn a_cpu_that_goes_idle_twice_and_is_never_seen_to_leave_idle_is_named() {
    // CPU 0 leaves idle, CPU 1 does so unseen, CPU 2 goes idle once, which may be the end.
    let seen = [
        switch(0, 7, 0),
        switch(0, 0, 7),
        switch(0, 7, 0),
        switch(2, 9, 0),
    ]
    .concat();
    let hidden = [switch(1, 8, 0), switch(1, 9, 0)].concat();
    let read = read_text(format!("{seen}{hidden}")).unwrap();
    assert_eq!(read.counts.cpus_that_hide_idle().collect::<Vec<_>>(), [1]);
    let idle = read.counts.idle_per_cpu[1];
    assert_eq!((idle.into, idle.out_of), (2, 0));
    let notes = read.counts.notes();
    assert!(
        notes[0].starts_with("the trace has no switches out of idle on CPU 1: "),
        "{notes:?}"
    );
    assert!(read_text(&seen).unwrap().counts.notes().is_empty());
}

#[test]
fn the_recorder_is_told_of_hidden_idle_as_the_reader_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.txt");
    let text = [switch(1, 8, 0), switch(3, 9, 0)].concat().repeat(2);
    std::fs::write(&file, &text).unwrap();
    let note = schedcast_trace::note_of_hidden_idle(&file).unwrap();
    assert_eq!(note.as_slice(), read_text(&text).unwrap().counts.notes());
    assert!(note.unwrap().contains("on CPUs 1, 3: when"));
}

#[test]
fn stack_traces_and_markers_of_a_real_trace() {
    let read = read_file(&fixture("tracefs-stack.txt")).unwrap();
    assert_eq!(read.counts.other["<stack trace>"].count, 4);
    assert_eq!(read.counts.other["tracing_mark_write"].count, 2);
    assert_eq!(read.dump().len(), 5);
    assert_eq!(read.counts.continuation_lines, 27);
}

#[test]
fn free_text_goes_on_behind_a_marker_but_not_behind_an_event() {
    let text = format!(
        "{}second line\nthird: line\n{}",
        line("tracing_mark_write: first"),
        line(WAKEUP)
    );
    let read = read_text(&text).unwrap();
    assert_eq!((read.counts.events, read.counts.continuation_lines), (2, 2));
    let text = format!("{}second line\n", line(WAKEUP));
    let error = read_text(&text).err().unwrap().to_string();
    assert_starts(&error, "t:2:1: expected an event line");
    let text = format!("{}bad \x01 byte\n", line("tracing_mark_write: first"));
    assert_eq!(read_text(&text).err().unwrap().line, Some(2));
}

#[test]
fn undecoded_events_are_counted_by_name() {
    let text = [
        line("cpu_idle: state=1 cpu_id=0"),
        line(WAKEUP),
        line("cpu_idle: state=4294967295 cpu_id=0"),
        line("schedule <-worker_thread"),
        line("sched_stat_wait: comm=a pid=5 delay=1 [ns]"),
    ]
    .concat();
    let read = read_text(&text).unwrap();
    let other: Vec<_> = read
        .counts
        .other
        .iter()
        .map(|(name, other)| (name.as_str(), other.count, other.first_line))
        .collect();
    assert_eq!(
        other,
        [
            ("(tracer)", 1, 4),
            ("cpu_idle", 2, 1),
            ("sched_stat_wait", 1, 5)
        ]
    );
    assert_eq!(read.counts.events, 5);
    let found = read.events().len();
    assert_eq!(found, 5, "they are handed out too, with their time and CPU");
    assert_eq!(
        read.counts.notes()[1],
        "2 events `cpu_idle` are not decoded, the first at line 1"
    );
}

#[test]
fn steps_back_of_the_clock_are_counted() {
    let at = |time: &str| format!("  a-1 [000] d..2. {time}: {WAKEUP}\n");
    let text = [
        at("5.000000"),
        at("4.000000"),
        at("4.500000"),
        at("4.499000"),
        at("4.499000"),
    ]
    .concat();
    let read = read_text(&text).unwrap();
    let backwards = read.counts.backwards;
    assert_eq!(
        (backwards.count, backwards.largest_ns, backwards.first_line),
        (2, 1_000_000_000, 2)
    );
    assert_eq!(read.counts.span_ns, Some((4_000_000_000, 5_000_000_000)));
    assert_eq!(
        read.counts.notes(),
        ["the clock steps back 2 times, the first at line 2, by at most 1000000000 ns"]
    );
}

#[test]
fn cpus_seen_skip_the_silent_ones() {
    let on = |cpu: u32| format!("  a-1 [{cpu:03}] d..2. 1.000000: {WAKEUP}\n");
    let read = read_text([on(5), on(0), on(5), on(130)].concat()).unwrap();
    assert_eq!(read.counts.cpus_seen().collect::<Vec<_>>(), [0, 5, 130]);
    assert_eq!(read.counts.events_per_cpu[5], 2);
}

#[test]
fn every_state_letter() {
    for (text, state) in [
        ("R", PrevState::Running),
        ("R+", PrevState::Preempted),
        ("S", PrevState::Interruptible),
        ("D", PrevState::Uninterruptible),
        ("D|K", PrevState::Uninterruptible),
        ("D|N", PrevState::Idle),
        ("T", PrevState::Stopped),
        ("t", PrevState::Traced),
        ("X", PrevState::Dead),
        ("x", PrevState::Dead),
        ("Z", PrevState::Zombie),
        ("P", PrevState::Parked),
        ("I", PrevState::Idle),
    ] {
        let switch = format!(
            "sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state={text} ==> next_comm=b next_pid=2 next_prio=120"
        );
        let expected = format!(r#"cpu 1 task 1234 sched_switch "a":1:120 {state} -> "b":2:120"#);
        assert_eq!(one(&line(&switch)), expected);
    }
}

#[test]
fn priorities_of_every_class() {
    for prio in [-1, 0, 49, 99, 100, 120, 139, 140] {
        let wakeup = format!("sched_wakeup: comm=a pid=5 prio={prio} target_cpu=001");
        assert_eq!(
            one(&line(&wakeup)),
            format!(r#"cpu 1 task 1234 sched_wakeup "a":5:{prio} on 1"#)
        );
    }
}

#[test]
fn names_over_several_lines() {
    let text = "        a\n\nb-7    [001] d..2. 1.000000: sched_wakeup: comm=x\n\ny pid=5 prio=120 target_cpu=001\n";
    assert_eq!(
        one(text),
        r#"cpu 1 task 7 sched_wakeup "x\n\ny":5:120 on 1"#
    );
    assert_eq!(read_text(text).unwrap().counts.lines, 5);
}

#[test]
fn a_cut_line_does_not_swallow_the_next_one() {
    let whole = line(WAKEUP);
    let cut = &whole[..whole.len() - 20];
    let error = read_text(format!("{whole}{cut}\n{whole}")).err().unwrap();
    assert_eq!(error.line, Some(2), "{error}");
    let error = read_text(format!("{whole}hello\n{whole}")).err().unwrap();
    assert_eq!((error.line, error.column), (Some(2), Some(1)), "{error}");
}

#[test]
fn fields_of_a_later_kernel_are_noted() {
    let text = line("sched_wakeup: comm=a pid=5 prio=120 target_cpu=001 reason=tick");
    let read = read_text(&text).unwrap();
    assert_eq!(read.counts.with_extra_fields, 1);
    assert_eq!(
        read.counts.notes(),
        ["1 events end in fields this version does not know"]
    );
}
