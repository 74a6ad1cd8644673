//! Figures that the simulation itself gave lead back to the constants it had.

use std::path::Path;

use schedcast_base::assert_contains;
use schedcast_lab::error::Error;
use schedcast_lab::simulator::Simulator;
use schedcast_sim::Machine;

use super::{from_file, read};

const HEAD: &str = "[machine]\npreset = \"generic-8\"\n[kernel]\nversion = \"6.12\"\n";
const PIPE: &str = "run = \"perf bench sched pipe -T -l 500\"\nset = [\"machine.cpus=1\"]\nmetric = \"perf-bench-pipe/time\"\n";

fn file(folder: &Path, figures: &str) -> std::path::PathBuf {
    let path = folder.join("figures.toml");
    std::fs::write(&path, format!("{HEAD}{figures}")).unwrap();
    path
}

/// Seconds of 500 round trips with a switch of so many ns.
fn pipe_s(switch_ns: u64) -> f64 {
    use schedcast_lab::question::{Columns, Question, Setting, Subject};
    use schedcast_lab::simulate::{Simulate, run_all};
    let words = ["perf", "bench", "sched", "pipe", "-T", "-l", "500"];
    let set = |text: String| Setting::Set(text);
    let question = Question {
        columns: Columns {
            leading: vec![
                set("machine.cpus=1".into()),
                set("kernel.version=6.12".into()),
                set(format!("machine.cost.context_switch_thread_ns={switch_ns}")),
            ],
            variants: Vec::new(),
        },
        seeds: Some(3),
        ..Question::of(Subject::Command(words.map(String::from).to_vec()))
    };
    let simulator = Simulator::new();
    assert!(simulator.simulator().is_some());
    let experiment = question.experiment().unwrap();
    let rows = run_all(&simulator, &experiment.scenarios, 3, &|| ()).unwrap();
    let values = rows[0]
        .iter()
        .map(|run| run.metrics["perf-bench-pipe/time"]);
    values.sum::<f64>() / 3.0
}

#[test]
fn a_known_switch_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let (less, middle, more) = (pipe_s(2300), pipe_s(2500), pipe_s(2800));
    let figure = format!(
        "[[figure]]\n{PIPE}measured = [{more}, {less}, {middle}]\nconstant = \"cost.context_switch_thread_ns\"\n"
    );
    let path = file(folder.path(), &figure);
    let (fitted, text) = from_file(&path, &Simulator::new()).unwrap();
    let [one] = fitted.as_slice() else {
        panic!("{fitted:?}")
    };
    assert!(one.value.abs_diff(2500) <= 2, "{one:?}");
    assert!(one.spread.0.abs_diff(2300) <= 2, "{one:?}");
    assert!(one.spread.1.abs_diff(2800) <= 2, "{one:?}");
    let machine = Machine::parse("fitted", &text).unwrap();
    assert_eq!(
        machine.price_ns(schedcast_kernel::platform::Op::ContextSwitchThread),
        one.value
    );
    assert_contains(&text, ": perf-bench-pipe/time of `perf bench");
}

fn refusal(figures: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), figures);
    let refused: Error = from_file(&path, &Simulator::new()).unwrap_err();
    refused.render()
}

#[test]
fn what_cannot_be_fitted_is_said() {
    let figure = |rest: &str| format!("[[figure]]\n{PIPE}{rest}");
    let text = refusal(&figure(
        "measured = 1e-6\nconstant = \"cost.context_switch_thread_ns\"\n",
    ));
    assert_contains(
        &text,
        "no cost.context_switch_thread_ns makes perf-bench-pipe/time",
    );
    let text = refusal(&figure(
        "measured = 0.1\nconstant = \"cost.contxt_switch_ns\"\n",
    ));
    assert!(text.contains("`context_switch_ns`"), "{text}");
    let text = refusal(&figure("measured = 0.1\nconstant = \"switch\"\n"));
    assert!(text.contains("not SECTION.KEY"), "{text}");
    let text = refusal(&figure("constant = \"cost.syscall_ns\"\n"));
    assert!(text.contains("without `measured`"), "{text}");
    let text = refusal(
        &figure("measured = 0.1\nconstant = \"cost.syscall_ns\"\n").replace("/time", "/tim"),
    );
    assert!(text.contains("`perf-bench-pipe/time`"), "{text}");
    let text = refusal("");
    assert!(text.contains("no [[figure]]"), "{text}");
}

#[test]
fn figures_need_a_machine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figures.toml");
    std::fs::write(&path, "[[figure]]\n").unwrap();
    assert!(read(&path).unwrap_err().render().contains("which machine"));
    let more = "[machine]\npreset = \"generic-8\"\ncpus = 2\n[[figure]]\n";
    std::fs::write(&path, more).unwrap();
    let text = read(&path).unwrap_err().render();
    assert!(text.contains("unknown key `cpus`"), "{text}");
}
