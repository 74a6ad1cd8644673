//! Cases of the comparison: quota, period, burst, and the load under them.

use std::path::Path;

/// A task of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// Computes without end on one of these CPUs.
    Hog(&'static [u32]),
    /// A thread of rt-app: `run_us` of work every `period_us` on a CPU.
    Beat {
        run_us: u64,
        period_us: u64,
        cpu: u32,
    },
}

/// A group with its limit and its tasks.
pub(crate) struct Case {
    pub name: &'static str,
    pub quota_us: u64,
    pub period_us: u64,
    pub burst_us: u64,
    pub tasks: &'static [Task],
}

const BOTH: &[u32] = &[0, 1];
const ZERO: Task = Task::Hog(&[0]);
const ONE: Task = Task::Hog(&[1]);
const ANY: Task = Task::Hog(BOTH);

const fn case(name: &'static str, limit_us: [u64; 3], tasks: &'static [Task]) -> Case {
    Case {
        name,
        quota_us: limit_us[0],
        period_us: limit_us[1],
        burst_us: limit_us[2],
        tasks,
    }
}

const fn beat(run_us: u64, period_us: u64, cpu: u32) -> Task {
    Task::Beat {
        run_us,
        period_us,
        cpu,
    }
}

/// All cases.
pub(crate) static CASES: [Case; 14] = [
    case("hog-half", [50_000, 100_000, 0], &[ONE]),
    case("hog-fifth", [20_000, 100_000, 0], &[ONE]),
    case("hog-short-period", [5_000, 10_000, 0], &[ONE]),
    case("hog-long-period", [150_000, 500_000, 0], &[ONE]),
    case("hogs-half", [50_000, 100_000, 0], &[ZERO, ONE]),
    case("hogs-three-quarters", [150_000, 100_000, 0], &[ZERO, ONE]),
    case("hogs-burst", [30_000, 50_000, 30_000], &[ZERO, ONE]),
    case("crowd", [40_000, 50_000, 0], &[ANY, ANY, ANY, ANY]),
    case(
        "beat-tight",
        [20_000, 100_000, 0],
        &[beat(15_000, 60_000, 1)],
    ),
    case(
        "beat-no-burst",
        [15_000, 100_000, 0],
        &[beat(30_000, 400_000, 1)],
    ),
    case(
        "beat-burst",
        [15_000, 100_000, 15_000],
        &[beat(30_000, 400_000, 1)],
    ),
    case(
        "beat-burst-short",
        [10_000, 20_000, 10_000],
        &[beat(16_000, 80_000, 1)],
    ),
    case(
        "beats-burst",
        [30_000, 100_000, 20_000],
        &[beat(20_000, 200_000, 0), beat(20_000, 250_000, 1)],
    ),
    case(
        "beat-beside-hog",
        [60_000, 100_000, 0],
        &[beat(10_000, 50_000, 0), ONE],
    ),
];

impl Case {
    /// Names of its tasks, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let kind = |task: &Task| match task {
            Task::Hog(_) => "hog",
            Task::Beat { .. } => "beat",
        };
        let tasks = self.tasks.iter().enumerate();
        tasks
            .map(|(n, task)| format!("{}{n}", kind(task)))
            .collect()
    }

    /// Whether its tasks are alike and free to move, so that which is which does not matter.
    pub(crate) fn alike(&self) -> bool {
        self.tasks.len() > 1 && self.tasks.iter().all(|task| *task == ANY)
    }
}

/// How long a thread of rt-app runs: a little longer than the counters are watched.
pub(crate) const BEAT_S: u64 = 5;

/// An rt-app file with one thread that does `run_us` of work every `period_us` on a CPU, if a round
/// of rt-app's loop lasts `loop_ns`. It logs into `folder`.
pub(crate) fn rt_app_file(
    name: &str,
    times_us: [u64; 2],
    cpu: u32,
    loop_ns: u64,
    folder: &Path,
) -> String {
    let ([run_us, period_us], folder) = (times_us, folder.display());
    format!(
        "{{\"tasks\": {{\"{name}\": {{\"loop\": -1, \"cpus\": [{cpu}], \"run\": {run_us}, \
         \"timer\": {{\"ref\": \"tick\", \"period\": {period_us}}}}}}}, \
         \"global\": {{\"duration\": {BEAT_S}, \"calibration\": {loop_ns}, \"default_policy\": \"SCHED_OTHER\", \
         \"logdir\": \"{folder}\"}}}}\n"
    )
}
