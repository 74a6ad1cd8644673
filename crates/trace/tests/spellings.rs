//! One real recording printed in thirteen ways.
//!
//! The fixtures are cut from a recording of threads with awkward names on Linux 6.18: tracefs
//! printed it under several trace options, and trace-cmd 3.1.6 extracted the same buffer and
//! reported it under several of its own. All must give the same events. Facts that a spelling
//! leaves out are compared as left out: flags, nanoseconds, the `+` of `R+`.

mod common;

use common::{Read, fixture, read_file};
use schedcast_base::assert_in;
use schedcast_trace::Context;

const DECODED: usize = 142;

fn read(name: &str) -> Read {
    read_file(&fixture(name)).unwrap_or_else(|error| panic!("{error}"))
}

fn contexts(read: &Read) -> Vec<Context> {
    read.events().iter().map(|event| event.context).collect()
}

fn times(read: &Read) -> Vec<u64> {
    read.events().iter().map(|event| event.time_ns).collect()
}

#[test]
fn the_reference_has_every_kind_of_event_and_every_awkward_name() {
    let reference = read("tracefs.txt");
    let dump = reference.dump();
    assert_eq!(dump.len(), DECODED);
    assert_eq!(reference.counts.events, DECODED as u64);
    for text in [
        r#"sched_switch " ==> next_pid=3":6409:120 S -> "python3":6410:120"#,
        r#"sched_switch "c pid=7 prio=1":6410:120 S -> "#,
        r#"sched_switch "python3":6412:120 R -> "a b":6407:120"#,
        r#"-> "line\nfeed":6417:120"#,
        r#"sched_waking "bad\xff\xfe":6416:120 on "#,
        r#"sched_process_exit "tab\there":6415:120"#,
        r#"sched_process_exit "":6411:120"#,
        r#"sched_process_exit "\xc3\xa9:sched: 9":6413:120"#,
        r#"sched_process_exit "(  12)":6418:120"#,
        r#"sched_process_exit "x-1 [002] ":6408:120"#,
        r#""<...>":6412:120"#,
        r#"sched_process_fork "python3":6366 makes "python3":"#,
        r#"sched_stat_runtime "python3":6409 ran 285596"#,
        r#"sched_process_exec"#,
        r#"sched_wakeup_new"#,
        r#"sched_migrate_task"#,
        r#" R+ -> "#,
        r#" D -> "#,
        r#" Z -> "#,
        r#" I -> "#,
    ] {
        assert!(
            dump.iter().any(|line| line.contains(text)),
            "no event with {text}"
        );
    }
    assert!(
        dump.iter()
            .any(|line| line.contains("6407 was 6407 runs \"/bin/true\""))
    );
    assert!(
        reference.counts.continuation_lines > 20,
        "names with a newline span lines"
    );
}

#[test]
fn all_spellings_tell_the_same_events() {
    let reference = read("tracefs.txt").dump();
    let texts = "tracefs-tgid.txt tracefs-no-flags.txt tracefs-no-flags-tgid.txt tracefs-fields.txt \
        tracefs-latency.txt trace-cmd-N.txt trace-cmd-R.txt";
    for name in texts.split(' ') {
        let read = read(name);
        assert_eq!(read.dump(), reference, "{name}");
        assert_eq!(read.counts.events, DECODED as u64, "{name}");
    }
}

#[test]
fn spellings_of_the_plugin_tell_the_same_but_for_preemption() {
    let reference: Vec<String> = read("tracefs.txt")
        .dump()
        .iter()
        .map(|line| line.replace(" R+ ", " R "))
        .collect();
    let texts = "trace-cmd.txt trace-cmd-t.txt trace-cmd-l.txt trace-cmd-l-t.txt trace-cmd-w.txt";
    for name in texts.split(' ') {
        assert_eq!(read(name).dump(), reference, "{name}");
    }
}

#[test]
fn spellings_with_flags_tell_the_same_context() {
    let reference = contexts(&read("tracefs.txt"));
    assert!(reference.iter().all(|context| context.is_known()));
    let texts = "tracefs-tgid.txt tracefs-fields.txt tracefs-latency.txt trace-cmd-l.txt \
        trace-cmd-l-t.txt";
    for name in texts.split(' ') {
        assert_eq!(contexts(&read(name)), reference, "{name}");
    }
}

#[test]
fn spellings_without_flags_say_so() {
    let texts = "tracefs-no-flags.txt tracefs-no-flags-tgid.txt trace-cmd.txt trace-cmd-R.txt";
    for name in texts.split(' ') {
        let read = read(name);
        assert!(
            contexts(&read).iter().all(|context| !context.is_known()),
            "{name}"
        );
        assert_eq!(read.counts.without_context, read.counts.events, "{name}");
        assert!(
            read.counts
                .notes()
                .iter()
                .any(|note| note.contains("no flags")),
            "{name}"
        );
    }
}

#[test]
fn times_agree_to_the_last_printed_digit() {
    let reference = times(&read("tracefs.txt"));
    let texts =
        "tracefs-tgid.txt tracefs-no-flags.txt trace-cmd.txt trace-cmd-R.txt trace-cmd-l.txt";
    for name in texts.split(' ') {
        assert_eq!(times(&read(name)), reference, "{name}");
    }
    for name in ["trace-cmd-t.txt", "trace-cmd-l-t.txt"] {
        let exact = times(&read(name));
        assert!(
            exact.iter().any(|time_ns| time_ns % 1000 != 0),
            "{name} has nanoseconds"
        );
        for (exact, rounded) in exact.iter().zip(&reference) {
            assert_in!(exact.abs_diff(*rounded), 0..=500, "{name}");
        }
    }
}

#[test]
fn the_latency_format_counts_from_the_start_of_the_buffer() {
    let (relative, reference) = (read("tracefs-latency.txt"), read("tracefs.txt"));
    assert!(relative.counts.time_is_relative && !reference.counts.time_is_relative);
    let (relative, reference) = (times(&relative), times(&reference));
    let offset = reference[0] - relative[0];
    for (relative, absolute) in relative.iter().zip(&reference) {
        assert_in!(relative + offset, absolute - 1000..=absolute + 1000);
    }
}

#[test]
fn headers_declare_the_cpus() {
    for name in ["tracefs.txt", "tracefs-latency.txt", "trace-cmd.txt"] {
        assert_eq!(read(name).counts.cpus_declared, Some(2), "{name}");
    }
}
