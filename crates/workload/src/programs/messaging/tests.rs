use super::super::split;
use super::super::tests::{compiled, ended};
use schedcast_sim::Instruction;

#[test]
fn hackbench_has_a_queue_a_receiver_and_one_program_a_role() {
    let (_, workload) = compiled("hackbench -g 3 -f 5", 4);
    assert_eq!(workload.queues.len(), 1 + 3 * 5);
    assert_eq!(workload.programs.len(), 3);
    assert_eq!(workload.tasks.len(), 1);
    let sends = |program: usize| {
        let instructions = workload.programs[program].instructions().iter();
        instructions
            .filter(|step| matches!(step, Instruction::Send { sync: true, .. }))
            .count()
    };
    assert_eq!([sends(0), sends(1), sends(2)], [1, 2, 0]);
}

#[test]
fn hackbench_delivers_every_message() {
    let texts = "hackbench -g 2 -l 7|hackbench -g 2 -l 7 -p -T|hackbench -g 2 -l 7 -F|\
        perf bench sched messaging -g 2 -l 7";
    for line in texts.split('|') {
        let ran = ended(line, 4, 20);
        // 400 · loops · groups messages: every receiver counts its own before it exits.
        let name = &ran.running.name;
        let own = ran.probes().of(name).unwrap();
        assert!(own.wakeups > 0 && own.run_ns > 0);
        assert!(ran.metric(&format!("{name}/time")) > 0.0);
    }
    let words = split("hackbench -g 2 -l 7");
    let read = super::HACKBENCH.parse(&words).unwrap();
    let options = super::Options::read(&read, &super::HACKBENCH).unwrap();
    assert_eq!((options.tasks(), options.loops), (2 * 40, 7));
}
