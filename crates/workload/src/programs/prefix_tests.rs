use schedcast_base::assert_contains;
use schedcast_base::rows;
use schedcast_kernel::Cpu;
use schedcast_kernel::task::Policy;
use schedcast_kernel::uclamp::Clamps;
use schedcast_sim::Workload;

use super::*;
use crate::programs::{compile, split, tool};

const MACHINE: Machine<'static> = Machine {
    cpus: 4,
    nodes: &[0, 0, 1, 1],
    has_clamps: true,
};

fn prefixes(line: &str) -> Prefixes {
    read(&split(line), &MACHINE).unwrap()
}

fn refusal(line: &str) -> String {
    read(&split(line), &MACHINE).unwrap_err().to_string()
}

#[test]
fn prefixes_in_a_row_set_what_each_of_them_names() {
    let read = prefixes("taskset -c 2,3 chrt -f 10 nice -n 5 nice timeout 2m hackbench -g 2");
    let cpus: Vec<Cpu> = read.affinity.unwrap().iter().collect();
    assert_eq!(cpus, [Cpu(2), Cpu(3)]);
    assert_eq!(read.policy, Some((Policy::Fifo, 10)));
    assert_eq!(read.nice, 15);
    assert_eq!(read.timeout_ns, Some(120_000_000_000));
    assert_eq!(read.words, 12);
}

#[test]
fn of_several_policies_chrt_takes_the_last_one() {
    let policy = |line: &str| prefixes(line).policy;
    assert_eq!(
        policy("chrt -f -r 7 hackbench"),
        Some((Policy::RoundRobin, 7))
    );
    assert_eq!(policy("chrt -r -f 7 hackbench"), Some((Policy::Fifo, 7)));
    assert_eq!(policy("chrt -f -b 0 hackbench"), Some((Policy::Batch, 0)));
}

#[test]
fn a_mask_and_a_list_name_the_same_cpus() {
    let mask = prefixes("taskset 0xa hackbench").affinity;
    assert_eq!(mask, prefixes("taskset --cpu-list 1,3 hackbench").affinity);
    assert_eq!(mask, prefixes("numactl -C 1,3 hackbench").affinity);
}

#[test]
fn the_main_task_of_a_program_gets_the_attributes() {
    let mut workload = Workload::default();
    let words = split("taskset 2 chrt -b 0 nice -n -3 hackbench -g 1 -l 10");
    compile(&words, &Start::new("hackbench", 4), &mut workload).unwrap();
    let task = &workload.tasks[0];
    assert_eq!(task.affinity.unwrap().iter().collect::<Vec<_>>(), [Cpu(1)]);
    assert_eq!(
        (task.policy, task.rt_priority, task.nice),
        (Policy::Batch, 0, -3)
    );
}

#[test]
fn a_database_server_is_not_a_child_of_its_client() {
    let mut workload = Workload::default();
    let words = split("taskset -c 1 pgbench -c 2 -T 1 bench");
    compile(&words, &Start::new("pgbench", 4), &mut workload).unwrap();
    let server = workload
        .tasks
        .iter()
        .find(|task| task.name.ends_with("-server"));
    assert_eq!(server.unwrap().affinity, None);
}

#[test]
fn words_are_numbered_as_typed() {
    assert_eq!(
        tool(&split("taskset -c 0 chrt 5 schbench -m 1"))
            .unwrap()
            .name,
        "schbench"
    );
    let words = split("taskset -c 0 hackbench --lops 5");
    let error = compile(&words, &Start::new("h", 4), &mut Workload::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "hackbench, word 5: unknown flag `--lops`; nearest valid name: `--loops`"
    );
}

#[test]
fn mistakes_are_refused_with_their_place() {
    let sections = rows::sections(include_str!("refusals.txt"));
    for case in &sections["prefixes"] {
        let [line, expected] = rows::cells(case);
        assert_eq!(refusal(line), expected, "{line}");
    }
    for case in &sections["prefixes, a part of the refusal"] {
        let [line, expected] = rows::cells(case);
        let found = refusal(line);
        assert!(found.contains(expected), "{line}: {found}");
    }
}

#[test]
fn numactl_binds_to_the_cpus_of_nodes() {
    let cpus = |line: &str| -> Option<Vec<Cpu>> { Some(prefixes(line).affinity?.iter().collect()) };
    assert_eq!(cpus("numactl -N 1 hackbench"), Some(vec![Cpu(2), Cpu(3)]));
    assert_eq!(
        cpus("numactl --cpunodebind=0 hackbench"),
        Some(vec![Cpu(0), Cpu(1)])
    );
    assert_eq!(cpus("numactl -N all -m 0 hackbench"), None);
    assert_eq!(
        cpus("taskset -c 0-3:2 hackbench"),
        Some(vec![Cpu(0), Cpu(2)])
    );
}

#[test]
fn a_timeout_may_have_a_fraction() {
    assert_eq!(
        prefixes("timeout 2.5 hackbench").timeout_ns,
        Some(2_500_000_000)
    );
    assert_eq!(
        prefixes("timeout 0.5m hackbench").timeout_ns,
        Some(30_000_000_000)
    );
}

#[test]
fn systemd_run_names_a_group_and_what_is_in_its_files() {
    let line = "nice -n 5 systemd-run --scope -p CPUQuota=12.5% -p CPUQuotaPeriodSec=20ms \
                --property=CPUWeight=50 -p CPUSchedulingPolicy=fifo --slice=a-b hackbench -g 1";
    let read = prefixes(line);
    let unit = read.unit.unwrap();
    assert_eq!(unit.path("h"), "/a.slice/a-b.slice/run-h.scope");
    let files = [
        ("cpu.weight", "50".to_owned()),
        ("cpu.max", "2500 20000".to_owned()),
    ];
    assert_eq!(unit.files, files);
    assert_eq!((read.policy, read.nice), (Some((Policy::Fifo, 1)), 5));
    let service = prefixes("systemd-run -u web.service -p Nice=-5 -p CPUAffinity=1 hackbench");
    assert_eq!(service.unit.unwrap().path("h"), "/system.slice/web.service");
    assert_eq!(service.nice, -5);
}

#[test]
fn on_a_host_other_prefixes_stand_for_those_of_systemd_run() {
    let line = "systemd-run -p CPUQuota=50% -p Nice=3 -p CPUSchedulingPolicy=batch hackbench -g 1";
    let words = within_unit(&split(line), 4);
    assert_eq!(words.join(" "), "chrt -b 0 nice -n 3 hackbench -g 1");
}

#[test]
fn uclampset_clamps_what_it_starts() {
    let clamps = |line: &str| {
        let Clamps { min, max } = prefixes(line).clamps;
        (min, max)
    };
    assert_eq!(clamps("uclampset -m 300 hackbench"), (Some(300), None));
    assert_eq!(
        clamps("uclampset -m 300 uclampset --uclamp-max 800 hackbench"),
        (Some(300), Some(800))
    );
    let mut workload = Workload::default();
    let start = Start {
        kernel_has_clamps: true,
        ..Start::new("h", 4)
    };
    let line = split("uclampset -M 512 hackbench -g 1");
    compile(&line, &start, &mut workload).unwrap();
    assert_eq!(workload.tasks[0].clamps.max, Some(512));
    let error = compile(&line, &Start::new("h", 4), &mut workload).unwrap_err();
    assert_contains(&error, "`uclamp = true` in [kernel]");
    // As a real-time process without a word it has a least of 1024.
}

#[test]
fn nice_has_its_short_spelling_and_variables_and_counters_set_nothing() {
    let read = prefixes("nice -5 hackbench -g 2");
    assert_eq!((read.nice, read.words), (5, 2));
    assert_eq!(prefixes("nice --5 hackbench -g 2").nice, -5);
    let read = prefixes("env A=B LANG=C nice -n 3 perf stat -d -e cycles -- hackbench -g 2");
    assert_eq!((read.nice, read.words), (3, 12));
    assert_eq!(prefixes("perf bench sched pipe").words, 0);
    assert_eq!(prefixes("perf stat -r 5 hackbench").words, 0);
}
