use schedcast_kernel::Cpu;
use schedcast_kernel::task::Policy;
use schedcast_sim::Workload;

use super::*;
use crate::programs::{compile, split, tool};

fn prefixes(line: &str) -> Prefixes {
    read(&split(line), 4).unwrap()
}

fn refusal(line: &str) -> String {
    read(&split(line), 4).unwrap_err().to_string()
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
    for (line, expected) in [
        (
            "taskset -c 0-4 hackbench",
            "taskset, word 3: `CPUS` needs CPUs of 0 to 3 such as `0-3,8`, found `0-4`",
        ),
        (
            "taskset 10 hackbench",
            "taskset, word 2: `CPUS` needs a hexadecimal mask of the CPUs 0 to 3, found `10`",
        ),
        (
            "chrt -f 100 hackbench",
            "chrt, word 3: `PRIORITY` needs a whole number from 1 to 99, found `100`",
        ),
        (
            "nice taskset 1",
            "taskset, word 2: needs a program behind it, such as `hackbench -g 2`",
        ),
        (
            "timeout",
            "timeout, word 1: needs a value and a program behind it",
        ),
        (
            "taskset -p 1 hackbench",
            "taskset, word 2: flag `-p` cannot be forecast: it changes a process that exists already",
        ),
        (
            "systemd-run --scope -p CPUQuota=50% hackbench",
            "systemd-run, word 1: gives its command a group of its own; say so by --cgroup /unit \
             --set 'cpu.max=50000 100000' and leave `systemd-run` out",
        ),
    ] {
        assert_eq!(refusal(line), expected, "{line}");
    }
}
