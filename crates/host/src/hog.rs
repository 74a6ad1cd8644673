//! The test program: it burns CPU in simple, exactly known ways and says when it got to run.
//!
//! * `spin [--cpu-ms X]` runs until killed, or until it has had X ms of CPU time.
//! * `job --cpu-ms X --every-ms P --count N [--slack-ns S] [--ask-ns A]` has a due time every P ms;
//!   at each it burns X ms of CPU time and then remembers a line, printed at the end:
//!
//! ```text
//! due_ns start_ns end_ns gap_end_ns:gap_ns …
//! ```
//!
//! all on `CLOCK_MONOTONIC`. The response is end − due. A gap is a time of more than 100 µs in
//! which the job wanted to run and did not: under a quota its ends are the moments of being let go
//! again. A 30 ms job that gets 13 ms in every 100 ms and is due 20 ms into a period shows two
//! gaps, ends at 204 ms of that clock and so has a response of 184 ms.
//!
//! By default the job never enters the kernel while it burns: its CPU time is the wall time without
//! the gaps. So the kernel charges it at ticks only, as it does any computation. With `--ask-ns A`
//! it asks for its CPU time every A ns by a system call, and each such call makes the kernel charge
//! it up to that moment.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::sys;

/// Shorter interruptions (ticks, interrupts) are not gaps.
const GAP_MIN_NS: u64 = 100_000;
/// A bounded spin asks for its CPU time every so often.
const CHUNK_NS: u64 = 20_000;

/// One activation of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activation {
    /// When it should have started.
    pub due_ns: u64,
    /// When it did.
    pub start_ns: u64,
    /// When its work was done.
    pub end_ns: u64,
    /// (end, length) of each time it was kept from running.
    pub gaps: Vec<(u64, u64)>,
}

impl Activation {
    /// Due to done.
    pub fn response_ns(&self) -> u64 {
        self.end_ns - self.due_ns
    }

    /// Reads one printed line.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let mut number = || words.next()?.parse().ok();
        let (due_ns, start_ns, end_ns) = (number()?, number()?, number()?);
        let gaps = words
            .map(|word| {
                let (end, length) = word.split_once(':')?;
                Some((end.parse().ok()?, length.parse().ok()?))
            })
            .collect::<Option<_>>()?;
        Some(Self {
            due_ns,
            start_ns,
            end_ns,
            gaps,
        })
    }

    fn print(&self) -> String {
        let mut line = format!("{} {} {}", self.due_ns, self.start_ns, self.end_ns);
        for (end_ns, length_ns) in &self.gaps {
            let _ = write!(line, " {end_ns}:{length_ns}");
        }
        line
    }
}

/// Runs the program with its arguments; the error is a usage message.
pub fn main(arguments: &[impl AsRef<str>]) -> Result<(), String> {
    let (verb, rest) = arguments
        .split_first()
        .ok_or("expected a command: spin or job")?;
    match verb.as_ref() {
        "spin" => {
            let [cpu_ms] = flags(rest, ["--cpu-ms"])?;
            spin(cpu_ms.map_or(u64::MAX, |ms| ms.saturating_mul(1_000_000)));
            Ok(())
        }
        "job" => {
            let [cpu_ms, cpu_us, every_ms, count, slack_ns, ask_ns] = flags(rest, JOB_FLAGS)?;
            let cpu_ns = match (cpu_ms, cpu_us) {
                (Some(ms), None) => ms * 1_000_000,
                (None, Some(us)) => us * 1_000,
                _ => return Err("job needs one of --cpu-ms and --cpu-us".into()),
            };
            let every_ns = every_ms.ok_or("job needs --every-ms")? * 1_000_000;
            let count = count.ok_or("job needs --count")?;
            if let Some(slack_ns) = slack_ns {
                sys::set_timer_slack_ns(slack_ns).map_err(|error| error.to_string())?;
            }
            job(cpu_ns, every_ns, count, ask_ns)
        }
        other => Err(format!("unknown command {other:?}: expected spin or job")),
    }
}

const JOB_FLAGS: [&str; 6] = [
    "--cpu-ms",
    "--cpu-us",
    "--every-ms",
    "--count",
    "--slack-ns",
    "--ask-ns",
];

/// Values of numeric flags in the order of `names`.
fn flags<const N: usize>(
    arguments: &[impl AsRef<str>],
    names: [&str; N],
) -> Result<[Option<u64>; N], String> {
    let mut values = [None; N];
    for pair in arguments.chunks(2) {
        let slot = names
            .iter()
            .position(|name| *name == pair[0].as_ref())
            .ok_or_else(|| {
                format!(
                    "unknown flag {:?}: expected one of {names:?}",
                    pair[0].as_ref()
                )
            })?;
        let value = pair
            .get(1)
            .and_then(|text| text.as_ref().parse().ok())
            .ok_or_else(|| format!("{} needs a number", pair[0].as_ref()))?;
        values[slot] = Some(value);
    }
    Ok(values)
}

/// Spins until `end_ns` or until `cpu_ns` of it were not gaps; adds the gaps seen. Returns the time
/// spun.
fn spin_until(end_ns: u64, cpu_ns: u64, gaps: &mut Vec<(u64, u64)>) -> u64 {
    let mut spun_ns = 0;
    let mut last_ns = sys::monotonic_ns();
    while last_ns < end_ns && spun_ns < cpu_ns {
        let now_ns = sys::monotonic_ns();
        if now_ns - last_ns > GAP_MIN_NS {
            gaps.push((now_ns, now_ns - last_ns));
        } else {
            spun_ns += now_ns - last_ns;
        }
        last_ns = now_ns;
    }
    spun_ns
}

/// Burns CPU time and returns the gaps seen.
fn burn(cpu_ns: u64, ask_ns: Option<u64>) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let Some(ask_ns) = ask_ns else {
        spin_until(u64::MAX, cpu_ns, &mut gaps);
        return gaps;
    };
    let goal_ns = sys::thread_cpu_ns().saturating_add(cpu_ns);
    while sys::thread_cpu_ns() < goal_ns {
        spin_until(sys::monotonic_ns() + ask_ns, u64::MAX, &mut gaps);
    }
    gaps
}

/// Spins in user mode; a bounded spin looks at its CPU time every 20 µs.
fn spin(cpu_ns: u64) {
    let goal_ns = sys::thread_cpu_ns().saturating_add(cpu_ns);
    while cpu_ns == u64::MAX || sys::thread_cpu_ns() < goal_ns {
        let start_ns = sys::monotonic_ns();
        while sys::monotonic_ns() - start_ns < CHUNK_NS {}
    }
}

fn job(cpu_ns: u64, every_ns: u64, count: u64, ask_ns: Option<u64>) -> Result<(), String> {
    let first_ns = sys::monotonic_ns() + every_ns;
    let mut done = Vec::with_capacity(count as usize);
    for index in 0..count {
        let due_ns = first_ns + index * every_ns;
        sys::sleep_until_ns(due_ns);
        let start_ns = sys::monotonic_ns();
        let gaps = burn(cpu_ns, ask_ns);
        done.push(Activation {
            due_ns,
            start_ns,
            end_ns: sys::monotonic_ns(),
            gaps,
        });
    }
    // Printed at the end, so that writing does not disturb the jobs.
    let mut out = std::io::stdout().lock();
    for activation in &done {
        writeln!(out, "{}", activation.print()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &str) -> Result<(), String> {
        let arguments: Vec<String> = words.split(' ').map(str::to_owned).collect();
        main(&arguments)
    }

    #[test]
    fn lines_are_read_as_they_are_printed() {
        let activation = Activation {
            due_ns: 1_000,
            start_ns: 1_100,
            end_ns: 9_000,
            gaps: vec![(4_000, 2_000), (8_000, 3_000)],
        };
        assert_eq!(activation.print(), "1000 1100 9000 4000:2000 8000:3000");
        assert_eq!(Activation::parse(&activation.print()), Some(activation));
        assert_eq!(Activation::parse("1 2"), None);
        assert_eq!(Activation::parse("1 2 3 x"), None);
    }

    #[test]
    fn bad_usage_is_named() {
        assert_eq!(
            run("dance").unwrap_err(),
            "unknown command \"dance\": expected spin or job"
        );
        assert!(run("spin --cpu 5").unwrap_err().contains("unknown flag"));
        assert_eq!(run("spin --cpu-ms").unwrap_err(), "--cpu-ms needs a number");
        assert_eq!(
            run("job --every-ms 5 --count 1").unwrap_err(),
            "job needs one of --cpu-ms and --cpu-us"
        );
    }

    #[test]
    fn burning_uses_the_cpu_time_asked_for() {
        for ask_ns in [None, Some(20_000)] {
            let before_ns = sys::thread_cpu_ns();
            let gaps = burn(2_000_000, ask_ns);
            // Running that seems without gaps may hide up to 100 µs a time of not running.
            assert!(sys::thread_cpu_ns() - before_ns >= 1_000_000, "{gaps:?}");
        }
    }
}
