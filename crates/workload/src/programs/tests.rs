use super::*;
use schedcast_base::rows;
use schedcast_base::{assert_contains, assert_in, assert_starts};
use schedcast_kernel::GroupId;
use schedcast_kernel::rules::{Rules, Version};
use schedcast_sim::workload::GroupSpec;
use schedcast_sim::{Machine, World};

const SECOND: u64 = 1_000_000_000;

pub(super) fn compiled(line: &str, cpus: usize) -> (Running, Workload) {
    let words = split(line);
    let name = tool(&words).expect("a tool").name;
    let mut workload = Workload::default();
    let running = compile(&words, &Start::new(name, cpus), &mut workload)
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    assert_eq!(workload.check(cpus), Ok(()), "{line}");
    (running, workload)
}

pub(super) fn refuse(line: &str) -> String {
    let mut workload = Workload::default();
    compile(&split(line), &Start::new("x", 4), &mut workload)
        .expect_err(line)
        .to_string()
}

/// A program and the world it runs in.
pub(super) struct Ran {
    pub running: Running,
    pub world: World,
}

impl std::ops::Deref for Ran {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Ran {
    /// Runs on, until nothing is left to do or `until_s`.
    pub(super) fn until(mut self, until_s: u64) -> Self {
        for step in 1..=until_s * 20 {
            self.world.run_until(step * SECOND / 20).unwrap();
            if self.live_tasks() == 0 {
                break;
            }
        }
        self
    }

    pub(super) fn metric(&self, name: &str) -> f64 {
        metric(&self.running, &self.world, name)
    }

    pub(super) fn report(&self) -> String {
        self.running.report(self.probes(), self.now())
    }

    /// How often the tasks whose statistics have this name were woken.
    pub(super) fn wakeups(&self, name: &str) -> f64 {
        self.probes().of(name).unwrap().wakeups as f64
    }
}

/// Adds a command to a workload, on as many CPUs as the rules are for.
pub(super) fn started(line: &str, start: &Start, mut workload: Workload, rules: Rules) -> Ran {
    let running = compile(&split(line), start, &mut workload)
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    let world = world(rules, workload);
    Ran { running, world }
}

/// Runs on `cpus` CPUs until nothing is left to do, or `until_s`.
pub(super) fn run(line: &str, cpus: usize, until_s: u64) -> Ran {
    run_under(rules(6, 18, cpus), line, cpus, until_s)
}

/// As `run`; nothing is left to do by then.
pub(super) fn ended(line: &str, cpus: usize, until_s: u64) -> Ran {
    let ran = run(line, cpus, until_s);
    assert_eq!(ran.live_tasks(), 0, "{line}");
    ran
}

pub(super) fn run_under(rules: Rules, line: &str, cpus: usize, until_s: u64) -> Ran {
    let (running, workload) = compiled(line, cpus);
    let world = world(rules, workload);
    Ran { running, world }.until(until_s)
}

/// A world of as many equal CPUs as the rules are for.
pub(super) fn world(rules: Rules, workload: Workload) -> World {
    let topology = schedcast_kernel::topology::Topology::flat(rules.cpus as usize);
    let machine = Machine::preset("generic-8")
        .unwrap()
        .with_topology(topology);
    World::new(machine, rules, workload, 1).unwrap()
}

/// A workload with a group that may use so much of every 100 ms.
pub(super) fn with_group(path: &str, quota_ns: Option<u64>) -> (Workload, GroupId) {
    let mut workload = Workload::default();
    let mut group = GroupSpec::new(path, GroupId::ROOT);
    group.limit.quota_ns = quota_ns;
    let group = workload.add_group(group);
    (workload, group)
}

pub(super) fn rules(major: u16, minor: u16, cpus: usize) -> Rules {
    Rules::of(Version::new(major, minor), cpus as u32, 250)
}

pub(super) fn close(value: f64, wanted: f64, tolerance: f64) -> bool {
    (value / wanted - 1.0).abs() <= tolerance
}

fn metric(running: &Running, world: &World, name: &str) -> f64 {
    let metrics = running.metrics(world.probes(), world.now());
    *metrics
        .get(name)
        .unwrap_or_else(|| panic!("no {name} in {metrics:?}"))
}

/// Flags that need another one beside them, are of another test, or say what holds anyway.
const NOT_ALONE: [&str; 12] = [
    // Without a limit every release chooses all CPUs.
    "go",
    // There is no serial collector with more than one processor.
    "collect-serial",
    "iozone g",
    "iozone n",
    "iozone q",
    "iozone y",
    "e",
    "sched-prio",
    "process",
    "server-cgroup",
    "cpu-max-prime",
    "db-driver",
];

#[test]
fn every_flag_has_the_effect_its_table_says() {
    for row in rows::lines(include_str!("samples.txt")) {
        let [name, line, samples] = rows::cells(row);
        let samples: Vec<(&str, &str)> = samples
            .split(", ")
            .filter_map(|sample| sample.split_once(' '))
            .collect();
        let tool = TOOLS.iter().find(|tool| tool.name == name).unwrap();
        let (plain, without) = compiled(line, 4);
        for flag in tool.flags() {
            let sample = samples.iter().find(|(key, _)| *key == flag.key());
            let typed = match flag.long {
                Some(long) => format!("--{long}"),
                None => format!("-{}", flag.short.unwrap()),
            };
            let line = match sample {
                Some((_, value)) => format!("{line} {typed} {value}"),
                None => format!("{line} {typed}"),
            };
            if let command::Effect::Refused(why) = flag.effect {
                let message = refuse(&format!("{line} 1"));
                assert!(message.contains(why), "{line}: {message}");
                continue;
            }
            let key = flag.key();
            if [key.clone(), format!("{name} {key}")]
                .iter()
                .any(|key| NOT_ALONE.contains(&key.as_str()))
            {
                continue;
            }
            let (running, with) = compiled(&line, 4);
            let same = with == without
                && running.idle_latency_limit_us == plain.idle_latency_limit_us
                && running.end_ns == plain.end_ns;
            let expected = flag.effect == command::Effect::Scheduling;
            assert_eq!(!same, expected, "{line}");
        }
    }
}

#[test]
fn a_line_of_a_shell_in_one_word_is_no_program() {
    for line in ["hackbench -g 1 > /dev/null", "hackbench && hackbench"] {
        let error = tool(&[line.to_owned()]).err().unwrap().to_string();
        let expected = format!(
            "command, word 1: `{line}` is one word here; give one program and its flags without \
             quotes and without a shell's `>`, `|` or `&&`"
        );
        assert_eq!(error, expected);
    }
}

#[test]
fn what_is_wrong_is_said_with_its_word_and_the_nearest_name() {
    let sections = rows::sections(include_str!("refusals.txt"));
    for case in &sections["commands"] {
        let [line, message] = rows::cells(case);
        assert_eq!(refuse(line), message);
    }
    for case in &sections["commands, a part of the refusal"] {
        let [line, part] = rows::cells(case);
        assert_contains(refuse(line), part);
    }
    let missing = refuse("rt-app no-such-file.json");
    assert_starts(&missing, "rt-app, word 2: ./no-such-file.json: ");
}

#[test]
fn commands_without_an_end_say_what_would_end_them() {
    for (endless, end) in [
        ("schbench -r 0", "-r 20"),
        ("cyclictest", "-l 1000 or -D 20s"),
        ("cyclictest -l 0 -D 0", "-l 1000 or -D 20s"),
        ("stress-ng --cpu 2", "-t 20s or --cpu-ops 1000"),
    ] {
        let found = compiled(endless, 4).0.endless_without;
        assert_eq!(found, Some(end), "{endless}");
    }
    let texts = "schbench -r 5|cyclictest -l 9|cyclictest -D 1s|stress-ng --cpu 2 -t 1s|\
        stress-ng --cpu 2 --cpu-ops 9|netperf";
    for ending in texts.split('|') {
        assert_eq!(compiled(ending, 4).0.endless_without, None, "{ending}");
    }
}

#[test]
fn no_words_at_all_are_refused() {
    let mut workload = Workload::default();
    assert!(compile(&[], &Start::new("x", 4), &mut workload).is_err());
}

#[test]
fn a_tool_may_be_given_by_its_path() {
    let (running, _) = compiled("/usr/bin/hackbench -g 1", 2);
    assert_eq!(running.tool.name, "hackbench");
}

#[test]
fn a_pipe_round_trip_is_two_switches_on_one_cpu() {
    let ran = ended("perf bench sched pipe -l 1000", 1, 5);
    let row = ran.probes().of("perf-bench-pipe").unwrap();
    // Start and end add a few.
    assert_in!(ran.probes().machine.context_switches, 1990..=2020);
    // Where the woken task preempts its waker, that one never sleeps: one wakeup a round, not two.
    // Linux 6.18 has 1.14, counted with `perf stat -e sched:sched_wakeup`.
    assert!((990..=2010).contains(&row.wakeups), "{}", row.wakeups);
    let report = ran.report();
    assert!(report.contains("# Executed 1000 pipe operations between two processes\n"));
    assert!(report.contains(" usecs/op\n"), "{report}");
}

#[test]
fn two_programs_share_a_workload() {
    let mut workload = Workload::default();
    let mut first = Start::new("first", 2);
    let a = compile(&split("schbench-classic -t 2 -r 1"), &first, &mut workload).unwrap();
    first.name = "second".into();
    let b = compile(&split("hackbench -g 1 -l 5"), &first, &mut workload).unwrap();
    assert_eq!(workload.check(2), Ok(()));
    assert_ne!(
        workload.tasks[0].address_space,
        workload.tasks[1].address_space
    );
    let mut world = world(rules(5, 14, 2), workload);
    world.run_until(5 * SECOND).unwrap();
    assert_eq!(world.live_tasks(), 0);
    assert!(metric(&a, &world, "first/wakeup_latency.count") > 0.0);
    assert!(metric(&b, &world, "second/time") > 0.0);
}
