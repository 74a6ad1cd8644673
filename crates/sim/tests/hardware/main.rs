//! Hardware under running tasks. Times are computed by hand.

#[path = "../common/mod.rs"]
mod common;
mod lines;
mod power;
mod speed;

use common::{MS, Mark, Ran, US, marks, task, world};
use power::{IDLE, POWER, frequency};
use schedcast_base::assert_starts;
use schedcast_sim::{Machine, Reg, Workload, World};
use speed::SMT2;

fn preset_text() -> String {
    let mut presets = schedcast_sim::machine::PRESETS.iter();
    let preset = presets.find(|(name, _)| *name == "generic-8").unwrap();
    preset.1.to_owned()
}

/// `generic-8` with other topology, no prices, and further parts.
fn machine(topology: [usize; 4], parts: &str) -> Machine {
    let [sockets, llcs, cores, threads] = topology;
    let mut text = String::new();
    for line in preset_text().lines() {
        let (key, rest) = line.split_once('=').unwrap_or((line, ""));
        let line = match key.trim() {
            "sockets" => format!("sockets = {sockets}"),
            "llcs_per_socket" => format!("llcs_per_socket = {llcs}"),
            "cores_per_llc" => format!("cores_per_llc = {cores}"),
            "threads_per_core" => format!("threads_per_core = {threads}"),
            key if key.ends_with("_ns") && !rest.is_empty() => format!("{key} = 0"),
            _ => line.to_owned(),
        };
        text += &line;
        text.push('\n');
    }
    Machine::parse("test", &(text + parts)).unwrap()
}

fn us(world: &World) -> Vec<(u64, u16)> {
    marks(world)
        .into_iter()
        .map(|(time, channel)| (time / US, channel))
        .collect()
}

#[test]
fn runs_with_all_parts_are_deterministic_and_copies_go_the_same_way() {
    let mut workload = Workload::default();
    for cpu in 0..4 {
        task(&mut workload, "t", cpu, |b| {
            let top = b.here();
            b.work(MS + u64::from(cpu) * 100 * US);
            b.sleep(2 * MS);
            b.jump(top);
        });
    }
    let part =
        frequency("domain = \"core\"\ndriver = \"acpi-cpufreq\"\ngovernor = \"schedutil\"\n");
    let parts = format!("{SMT2}{part}{IDLE}{POWER}");
    let build = || world((6, 18), machine([1, 1, 2, 2], &parts), workload.clone());
    let (mut first, mut second) = (build(), build());
    first.run_until(200 * MS).unwrap();
    let mut copy = first.clone();
    first.run_until(400 * MS).unwrap();
    copy.run_until(400 * MS).unwrap();
    second.run_until(400 * MS).unwrap();
    assert_eq!(first.event_hash(), copy.event_hash());
    assert_eq!(first.event_hash(), second.event_hash());
    assert_eq!(first.hardware_report(), copy.hardware_report());
}

/// 100 wakeups of a task that preempts its waker, on one CPU.
fn preempting_wakeups(machine: Machine) -> [u64; 2] {
    let mut workload = Workload::default();
    let semaphore = workload.add_semaphore(0);
    let idle = workload.add_attributes(schedcast_sim::workload::AttributesSpec {
        policy: Some((schedcast_kernel::task::Policy::Idle, 0)),
        ..Default::default()
    });
    task(&mut workload, "waker", 0, |b| {
        b.set_attributes(idle);
        b.sleep(MS);
        b.set(Reg(0), 100);
        let top = b.here();
        b.work(1000);
        b.sem_post(semaphore);
        b.loop_back(Reg(0), top);
    });
    task(&mut workload, "wakee", 0, |b| {
        b.set(Reg(0), 100);
        let top = b.here();
        b.sem_wait(semaphore);
        b.loop_back(Reg(0), top);
    });
    let world = world((6, 18), machine, workload).ran_until(20 * MS);
    ["waker", "wakee"].map(|name| world.probes().of(name).unwrap().charged_ns)
}

#[test]
fn what_comes_after_the_clock_is_charged_to_the_wakee() {
    use schedcast_kernel::platform::Op;
    let mut machine = machine([1, 1, 1, 1], "");
    let mut price = |op: Op, ns| machine.cost_ns[op as usize] = ns;
    price(Op::Syscall, 100);
    price(Op::Wakeup, 10);
    price(Op::WakeupEnd, 200);
    price(Op::Block, 5);
    // All of a call is paid before the clock is read. The waker: a call, one that sleeps, the end
    // of its wakeup, and 100 times its work, a call and a wakeup until the clock. The wakee: 100
    // sleeps and the ends of 100 wakeups.
    let [waker, wakee] = preempting_wakeups(machine.clone());
    assert_eq!(waker, 100 + 105 + 200 + 100 * (1000 + 100 + 10));
    assert_eq!(wakee, 100 * (105 + 200));
    // With a way out of a call of its own the sums stay: each side pays its own calls, from their
    // begin to their end.
    machine.syscall_exit_ns = 60;
    assert_eq!(preempting_wakeups(machine), [waker, wakee]);
}

#[test]
fn isolated_cpus_take_nothing_that_is_not_sent_there() {
    let isolated = "isolated = \"2-3\"\n";
    let text = preset_text().replace("[topology]\n", &format!("[topology]\n{isolated}"));
    let machine = Machine::parse("m", &text).unwrap().free_of_charge();
    let mut workload = Workload::default();
    let hog = common::program(&mut workload, |b| {
        b.work(100 * MS);
        b.mark(1);
    });
    for number in 0..8 {
        let name = format!("t{number}");
        workload.add_task(schedcast_sim::workload::TaskSpec::new(name, hog));
    }
    task(&mut workload, "sent", 2, |b| {
        b.work(50 * MS);
        b.mark(0);
    });
    let world = world((6, 18), machine, workload).ran_until(200 * MS);
    // The one that was sent to CPU 2 has it alone. Eight others share six CPUs: 800 ms of work take
    // 133 ms at least, where seven CPUs would do it in 121.
    let ends = us(&world);
    assert_eq!(ends[0], (50_000, 0));
    assert!(ends.len() == 9 && ends[8].0 >= 133_333, "{ends:?}");
}

#[test]
fn a_list_of_isolated_cpus_leaves_one() {
    let error = |list: &str| {
        let text = preset_text().replace(
            "[topology]\n",
            &format!("[topology]\nisolated = \"{list}\"\n"),
        );
        Machine::parse("m", &text).unwrap_err().message
    };
    assert_eq!(
        error("0-7"),
        "topology.isolated is \"0-7\": which leaves no CPU for everything else"
    );
    assert_starts(error("8"), "topology.isolated is \"8\": ");
}
