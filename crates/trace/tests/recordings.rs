//! The two real recordings in the repository, read whole.

mod common;

use common::{dump, recording};
use schedcast_base::limits::CpuLimits;
use schedcast_base::rows;
use schedcast_trace::recording::{Preempt, TraceClock, TraceFormat};
use schedcast_trace::{Event, PrevState, Recording, Request, Weight};

fn quota() -> Recording {
    Recording::open(&recording("postgres-quota")).unwrap()
}

/// Comment lines above the first event, which the recorder counted as events.
const HEADER_LINES: u64 = 12;

#[test]
fn event_counts_match_the_recorder() {
    for (name, events, per_name) in [
        (
            "postgres-quota",
            17_976,
            [7907, 4431, 4427, 1, 1208, 1, 0, 1],
        ),
        (
            "postgres-nolimit",
            17_517,
            [7440, 4421, 4420, 1, 1233, 1, 0, 1],
        ),
    ] {
        let recording = Recording::open(&recording(name)).unwrap();
        assert_eq!(recording.events.len() as u64, events);
        assert_eq!(recording.counts.events, events);
        assert_eq!(recording.counts.lines, events + HEADER_LINES);
        assert_eq!(recording.meta.events, Some(events + HEADER_LINES));
        let names = [
            "sched_switch",
            "sched_waking",
            "sched_wakeup",
            "sched_wakeup_new",
            "sched_migrate_task",
            "sched_process_fork",
            "sched_process_exec",
            "sched_process_exit",
        ];
        let count = |name| {
            recording
                .events
                .iter()
                .filter(|event| event.kind.name() == Some(name))
                .count()
        };
        assert_eq!(names.map(count), per_name);
        assert_eq!(recording.counts.events_per_cpu.iter().sum::<u64>(), events);
        assert_eq!(recording.counts.events_per_cpu.len(), 2);
        // The virtual machine that they come from hides it; nothing else is odd in them.
        let notes = recording.notes();
        assert!(
            matches!(notes.as_slice(), [one] if one.starts_with("the trace has no switches out of idle on CPU 1: ")),
            "{notes:?}"
        );
        assert!(recording.events.is_sorted_by_key(|event| event.time_ns));
        assert!(
            recording
                .events
                .iter()
                .all(|event| event.context.is_known())
        );
    }
}

#[test]
fn states_are_counted_as_the_text_has_them() {
    let recording = quota();
    let count = |wanted| {
        let is_wanted = |event: &&Event| match event.kind {
            schedcast_trace::EventKind::Switch(switch) => switch.prev_state == wanted,
            _ => false,
        };
        recording.events.iter().filter(is_wanted).count()
    };
    assert_eq!(count(PrevState::Running), 3197);
    assert_eq!(count(PrevState::Preempted), 342);
    assert_eq!(count(PrevState::Interruptible), 4094);
    assert_eq!(count(PrevState::Uninterruptible), 1);
    assert_eq!(count(PrevState::Idle), 272);
    assert_eq!(count(PrevState::Zombie), 1);
}

/// Time in us, level, and what happens.
const KNOWN: &str = r#"
5371782886 | Task | cpu 1 task 8636 sched_switch "python3":8636:120 S -> "swapper/1":0:120
5371784076 | SoftIrq | cpu 1 task 0 sched_waking "rcu_preempt":15:120 on 1
5371828068 | HardIrq | cpu 0 task 8687 sched_wakeup "pgbench":8679:120 on 0
5371828115 | Task | cpu 0 task 8679 sched_migrate_task "postgres":8685:120 from 0 to 1
5382183641 | Task | cpu 0 task 32665 sched_process_fork "postgres":32665 makes "postgres":8689
5382183649 | Task | cpu 0 task 32665 sched_wakeup_new "postgres":8689:120 on 0
5382188241 | Task | cpu 0 task 8689 sched_process_exit "postgres":8689:120
5401282998 | HardIrq | cpu 1 task 0 sched_wakeup "python3":8636:120 on 1
"#;

#[test]
fn known_lines_decode_exactly() {
    let recording = quota();
    for row in rows::lines(KNOWN) {
        let [time_us, level, what] = rows::cells(row);
        let time_ns = time_us.parse::<u64>().unwrap() * 1000;
        let at = recording
            .events
            .partition_point(|event| event.time_ns < time_ns);
        let event = &recording.events[at];
        assert_eq!(event.time_ns, time_ns);
        assert_eq!(format!("{:?}", event.context.level().unwrap()), level);
        assert_eq!(dump(event, &recording.comms).unwrap(), what);
    }
}

#[test]
fn flags_of_a_known_line() {
    // postgres-8687 [000] dNh3. 5371.828068: interrupts off, reschedule pending, in a hard
    // interrupt
    let context = quota().events[17].context;
    assert!(context.irqs_off() && context.need_resched() && !context.need_resched_lazy());
    assert!(context.in_interrupt() && !context.in_softirq() && !context.bh_off());
}

#[test]
fn meta_says_what_the_file_says() {
    let meta = quota().meta;
    assert_eq!(meta.kernel.as_deref(), Some("6.18.44"));
    assert_eq!(
        (meta.hz, meta.cpus, meta.smt, meta.sockets),
        (Some(250), Some(2), Some(1), Some(1))
    );
    assert_eq!(meta.preempt, Some(Preempt::None));
    assert_eq!((meta.autogroup, meta.is_virtual), (Some(true), Some(true)));
    assert_eq!(meta.llc, Some(vec![vec![0, 1]]));
    assert_eq!(meta.cgroup_version, Some(1));
    assert_eq!(meta.trace_format, Some(TraceFormat::FtraceText));
    assert_eq!(meta.trace_clock, Some(TraceClock::Mono));
    assert_eq!(meta.lost_events, Some(0));
    assert_eq!(
        (meta.start_ns, meta.end_ns),
        (Some(5_371_782_781_000), Some(5_401_283_573_000))
    );
    assert_eq!(meta.steal_ratio, Some(0.001));
    assert_eq!(meta.unknown(), Vec::<&str>::new());
}

#[test]
fn cgroups_before_and_after() {
    let recording = quota();
    let (before, after) = (
        recording.cgroups_before.unwrap(),
        recording.cgroups_after.unwrap(),
    );
    assert_eq!(before.paths().collect::<Vec<_>>(), ["/", "/pg"]);
    let service = before.get("/pg").unwrap();
    let limit = CpuLimits::new(50_000, 100_000, 0);
    assert_eq!(service.bandwidth(), Ok(Some(limit)));
    assert_eq!(service.weight(), Ok(Some(Weight::Shares(1024))));
    assert_eq!(service.is_idle(), Ok(Some(false)));
    assert_eq!(
        before
            .get("/")
            .unwrap()
            .bandwidth()
            .unwrap()
            .unwrap()
            .quota_us,
        None
    );
    assert_eq!(service.tasks.len(), 14);
    assert_eq!(before.group_of(8687), Some("/pg"));
    assert_eq!(before.group_of(8679), Some("/"));
    assert_eq!(before.group_of(8689), None, "it lived only in between");

    // The trace is the last repeat of the setting `recorded`, so both files must tell the same.
    let stat =
        |tree: &schedcast_trace::CgroupTree| tree.get("/pg").unwrap().stat().unwrap().unwrap();
    let (first, last) = (stat(&before), stat(&after));
    let measured = recording.measured.unwrap();
    let recorded = &measured.settings[0];
    let figure = |name: &str| *recorded.figures[name].samples.last().unwrap();
    assert_eq!(
        (last.nr_periods.unwrap() - first.nr_periods.unwrap()) as f64,
        figure("nr_periods")
    );
    assert_eq!(
        (last.nr_throttled.unwrap() - first.nr_throttled.unwrap()) as f64,
        figure("nr_throttled")
    );
    let throttled_ms = (last.throttled_ns.unwrap() - first.throttled_ns.unwrap()) as f64 / 1e6;
    assert!((throttled_ms - figure("throttled_ms")).abs() < 1e-3);
}

#[test]
fn measured_settings() {
    let measured = quota().measured.unwrap();
    assert_eq!(
        (measured.kernel.as_str(), measured.seconds),
        ("6.18.44", 29.5)
    );
    let names: Vec<_> = measured
        .settings
        .iter()
        .map(|setting| setting.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "recorded",
            "no limit",
            "quota 60 ms",
            "quota 80 ms",
            "burst 25 ms",
            "burst 50 ms",
            "period 50 ms"
        ]
    );
    let limits = |setting: usize| measured.settings[setting].limits;
    assert_eq!(limits(0), CpuLimits::new(50_000, 100_000, 0));
    assert_eq!(limits(1), CpuLimits::default());
    assert_eq!(limits(4), CpuLimits::new(50_000, 100_000, 25_000));
    assert!(
        measured
            .settings
            .iter()
            .all(|setting| setting.figures.len() == 14)
    );
    let throttled = &measured.settings[0].figures["nr_throttled"];
    assert_eq!(
        (throttled.median, throttled.min, throttled.max),
        (92.0, 78.0, 208.0)
    );
    assert_eq!(throttled.samples, [82.0, 78.0, 208.0, 102.0]);
    // The same repeats, as a recording without a limit names them.
    let unlimited = Recording::open(&recording("postgres-nolimit")).unwrap();
    let unlimited = unlimited.measured.unwrap();
    let first = &unlimited.settings[0];
    assert_eq!(
        (first.name.as_str(), first.limits.quota_us),
        ("recorded", None)
    );
    let limited = unlimited.settings.iter();
    let limited = limited.filter(|setting| setting.limits == limits(0));
    let throttled: Vec<f64> = limited
        .map(|setting| setting.figures["nr_throttled"].median)
        .collect();
    assert_eq!(throttled, [92.0]);
}

#[test]
fn requests_in_file_order() {
    let requests = quota().requests.unwrap();
    assert_eq!(requests.len(), 1258);
    let first = Request {
        client: 0,
        scheduled_us: 5_370_327_166,
        sent_us: 5_370_327_377,
        replied_us: 5_370_345_558,
    };
    assert_eq!(requests[0], first);
    assert_eq!(requests[1257].client, 6);
    assert_eq!(requests.iter().map(|request| request.client).max(), Some(7));
}

#[test]
fn the_three_ways_to_open_give_the_same_events() {
    let folder = quota();
    let json = Recording::open(&recording("postgres-quota/recording.json")).unwrap();
    let bare = Recording::open(&recording("postgres-quota/trace.txt.gz")).unwrap();
    assert_eq!(folder.events, json.events);
    assert_eq!(folder.meta, json.meta);
    assert_eq!(folder.events, bare.events);
    assert_eq!(folder.counts, bare.counts);
}

#[test]
fn a_bare_trace_marks_what_is_unknown() {
    let bare = Recording::open(&recording("postgres-quota/trace.txt.gz")).unwrap();
    assert_eq!(
        bare.meta.unknown().len(),
        19,
        "everything but the trace's name: {:?}",
        bare.meta.unknown()
    );
    assert_eq!(bare.meta.trace.as_deref(), Some("trace.txt.gz"));
    assert!(bare.cgroups_before.is_none() && bare.cgroups_after.is_none());
    assert!(bare.requests.is_none() && bare.measured.is_none());
    assert_eq!(bare.cpus(), 2, "the trace's own header says so");
    assert_eq!(bare.span_ns(), (5_371_782_886_000, 5_401_282_998_000));
    assert_eq!(quota().span_ns(), (5_371_782_781_000, 5_401_283_573_000));
}
