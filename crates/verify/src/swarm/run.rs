//! One world, run in several ways that have to come to the same end.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};

use schedcast_lab::determinism::{Nobody, Way};
use schedcast_lab::error::Result;
use schedcast_lab::experiment::{self, Scenario};
use schedcast_lab::outcome::Outcome;
use schedcast_lab::simulator::Simulator;
use schedcast_sim::World;

use super::draw::Drawn;

/// Events between two checks of all tables, of a world whose checks do not cost much.
const CHECK_EVERY: u64 = 64;
/// A check of so many rows, squared, costs as much as [`CHECK_EVERY`] events.
const CHECKED_ROWS_SQUARED: usize = 1024;
/// At most so many metrics are told when two runs differ.
const SHOWN_METRICS: usize = 2;

/// Result of a world.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// Everything held; the hash of its events.
    Held(u64),
    /// It is no experiment, or a program or a change is refused, in every run alike.
    Refused(String),
    /// Conditions that did not hold, a sentence for each way to run the world.
    Broken(Vec<String>),
}

/// Runs a drawn world in all ways.
pub(crate) fn judge(drawn: &Drawn) -> Verdict {
    let scenario = match read(&drawn.text()) {
        Ok(scenario) => scenario,
        Err(error) => return Verdict::Refused(error.to_string()),
    };
    let ways = Ways {
        simulator: match drawn.chance {
            true => Simulator::new().drawing(),
            false => Simulator::new(),
        },
        scenario,
        seed: drawn.seed,
    };
    let first = match ways.run(Way::Whole) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(refused)) => return Verdict::Refused(refused),
        Err(panicked) => return Verdict::Broken(vec![panicked]),
    };
    let all: [(&str, Attempt, bool); 4] = [
        (Way::Again.name(), ways.run(Way::Again), true),
        ("a run that is checked", ways.checked(), true),
        (Way::LookedAt.name(), ways.run(Way::LookedAt), true),
        // What is under way at half the time is counted at the end of a step.
        ("a run that is watched", ways.watched(), false),
    ];
    let mut broken = Vec::new();
    for (name, attempt, whole) in all {
        broken.extend(match attempt {
            Ok(Ok(other)) => difference(&first, &other, whole)
                .map(|difference| format!("{name} ends in another way: {difference}")),
            Ok(Err(refused)) => Some(format!("{name} is refused: {refused}")),
            Err(panicked) => Some(format!("{name}: {panicked}")),
        });
    }
    match broken.is_empty() {
        true => Verdict::Held(first.event_hash),
        false => Verdict::Broken(broken),
    }
}

/// The scenario of an experiment's file.
fn read(text: &str) -> Result<Scenario> {
    let mut experiment = experiment::read_text("world.toml", text)?;
    Ok(experiment.scenarios.swap_remove(0))
}

/// The outcome of a run, or the program's or kernel's refusal; what it panicked with, if it did.
type Attempt = std::result::Result<std::result::Result<Outcome, String>, String>;

struct Ways {
    simulator: Simulator,
    scenario: Scenario,
    seed: u64,
}

impl Ways {
    fn run(&self, way: Way) -> Attempt {
        attempt(|| way.outcome(&self.simulator, &self.scenario, self.seed))
    }

    /// With everything counted anew in between.
    fn checked(&self) -> Attempt {
        attempt(|| {
            let run = &mut |world: &mut World, until| {
                let rows = world.kernel().cfs_rqs.len() + world.kernel().tasks.len();
                let cost = (rows * rows / CHECKED_ROWS_SQUARED) as u64;
                world.run_checked(until, CHECK_EVERY * (1 + cost))
            };
            let finished = self.simulator.finish_by(&self.scenario, self.seed, run);
            Ok(finished?.outcome())
        })
    }

    /// As `convert` and `serve` do it.
    fn watched(&self) -> Attempt {
        attempt(|| {
            let step_ns = 1 + self.seed % 3_000_000;
            let simulator = &self.simulator;
            let finished = simulator.watch(&self.scenario, self.seed, step_ns, &mut Nobody);
            Ok(finished?.outcome())
        })
    }
}

/// Differences of two outcomes that should be equal; only of their events unless they are compared
/// `whole`.
fn difference(first: &Outcome, other: &Outcome, whole: bool) -> Option<String> {
    if first.event_hash != other.event_hash {
        let hashes = [first.event_hash, other.event_hash].map(|hash| format!("{hash:016x}"));
        return Some(format!("events {}, not {}", hashes[1], hashes[0]));
    }
    if !whole || first == other {
        return None;
    }
    let names = first.metrics.keys().chain(other.metrics.keys());
    let differ = names.filter(|name| first.metrics.get(*name) != other.metrics.get(*name));
    let told = differ.take(SHOWN_METRICS).map(|name| {
        let [first, other] = [first, other].map(|outcome| outcome.metrics.get(name));
        format!("metric {name} {other:?}, not {first:?}")
    });
    let told: Vec<String> = told.collect();
    Some(match told.is_empty() {
        true => "other lower bounds".to_string(),
        false => told.join("; "),
    })
}

thread_local! {
    /// Where and why the run of this thread panicked.
    static PANICKED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on panics of this process are told by [`judge`] and not printed.
pub fn keep_panics() {
    panic::set_hook(Box::new(|info| {
        let text = format!("{info}").replace('\n', " ");
        PANICKED.with_borrow_mut(|told| *told = Some(text));
    }));
}

fn attempt(run: impl FnOnce() -> Result<Outcome>) -> Attempt {
    match panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => Ok(outcome.map_err(|error| error.to_string())),
        Err(_) => {
            let told = PANICKED.with_borrow_mut(Option::take);
            Err(told.unwrap_or_else(|| "panicked".to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str) -> Attempt {
        let ways = Ways {
            simulator: Simulator::new(),
            scenario: read(text).unwrap(),
            seed: 0,
        };
        ways.checked()
    }

    /// Shrunk from the world of seed 0: at 647,757 ns CPU 1 had counted 1313 ns too many.
    #[test]
    fn a_wait_for_a_line_is_not_counted_as_work_too() {
        let held = verdict(
            r#"
            [machine]
            preset = "spr-2x56x2"
            smt = { thread_speed_1000ths = [1000] }
            [machine.topology]
            sockets = 1
            llcs_per_socket = 1
            cores_per_llc = 2
            threads_per_core = 1
            node_distances = [[10]]
            [[program]]
            run = "chrt -r 34 cyclictest -t 7 -i 983 -d 221 -D 1 -q --latency 0"
            cgroup = "/a"
            start = "63418ns"
            [cgroup."/a"]
            [run]
            duration = "677809ns"
            "#,
        );
        assert!(matches!(held, Ok(Ok(_))), "{held:?}");
    }

    /// Shrunk from the world of seed 137, and the kernel of which it is a part.
    #[test]
    fn flat_picks_without_the_throttling_of_single_tasks_are_refused() {
        let with = |patches: &str| {
            let text = format!(
                "[kernel]\nversion = \"6.12.40\"\npatches = [{patches}]\n\
                 [[program]]\nrun = \"cyclictest -t 2 -D 1\"\n[run]\nduration = \"9ms\"\n"
            );
            read(&text).map_err(|error| error.to_string())
        };
        let refused = with("\"flat-pick\"").unwrap_err();
        assert!(refused.contains("needs `task-throttle`"), "{refused}");
        with("\"flat-pick\", \"task-throttle\"").unwrap();
    }
}
