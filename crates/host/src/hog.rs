//! The test program: it burns CPU in simple, exactly known ways and says when it got to run.
//!
//! * `spin [--cpu-ms X]` runs until killed, or until it has had X ms of CPU time.
//! * `job --cpu-ms X --every-ms P --count N` has a due time every P ms; at each it burns X ms of
//!   CPU time. At the end it prints the response of each, from its due time to its end, in ns.
//!
//! A 30 ms job that gets 13 ms in every 100 ms and is due 20 ms into a period ends at 204 ms of
//! that clock and so has a response of 184 ms. A job never enters the kernel while it burns: its
//! CPU time is the wall time without what took longer than 100 µs. So the kernel charges it at
//! ticks only, as it does any computation.

use std::io::Write as _;

use crate::sys;

/// Shorter interruptions (ticks, interrupts) are taken for work.
const GAP_MIN_NS: u64 = 100_000;
/// A bounded spin asks for its CPU time every so often.
const CHUNK_NS: u64 = 20_000;

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
            let [cpu_ms, every_ms, count] = flags(rest, ["--cpu-ms", "--every-ms", "--count"])?;
            let cpu_ns = cpu_ms.ok_or("job needs --cpu-ms")? * 1_000_000;
            let every_ns = every_ms.ok_or("job needs --every-ms")? * 1_000_000;
            job(cpu_ns, every_ns, count.ok_or("job needs --count")?)
        }
        other => Err(format!("unknown command {other:?}: expected spin or job")),
    }
}

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

/// Burns CPU time.
fn burn(cpu_ns: u64) {
    let mut spun_ns = 0;
    let mut last_ns = sys::monotonic_ns();
    while spun_ns < cpu_ns {
        let now_ns = sys::monotonic_ns();
        if now_ns - last_ns <= GAP_MIN_NS {
            spun_ns += now_ns - last_ns;
        }
        last_ns = now_ns;
    }
}

/// Spins in user mode; a bounded spin looks at its CPU time every 20 µs.
fn spin(cpu_ns: u64) {
    let goal_ns = sys::thread_cpu_ns().saturating_add(cpu_ns);
    while cpu_ns == u64::MAX || sys::thread_cpu_ns() < goal_ns {
        let start_ns = sys::monotonic_ns();
        while sys::monotonic_ns() - start_ns < CHUNK_NS {}
    }
}

fn job(cpu_ns: u64, every_ns: u64, count: u64) -> Result<(), String> {
    let first_ns = sys::monotonic_ns() + every_ns;
    let mut responses_ns = Vec::with_capacity(count as usize);
    for index in 0..count {
        let due_ns = first_ns + index * every_ns;
        sys::sleep_until_ns(due_ns);
        burn(cpu_ns);
        responses_ns.push(sys::monotonic_ns() - due_ns);
    }
    // Printed at the end, so that writing does not disturb the jobs.
    let mut out = std::io::stdout().lock();
    for response_ns in responses_ns {
        writeln!(out, "{response_ns}").map_err(|error| error.to_string())?;
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
    fn bad_usage_is_named() {
        assert_eq!(
            run("dance").unwrap_err(),
            "unknown command \"dance\": expected spin or job"
        );
        assert!(run("spin --cpu 5").unwrap_err().contains("unknown flag"));
        assert_eq!(run("spin --cpu-ms").unwrap_err(), "--cpu-ms needs a number");
        assert_eq!(
            run("job --every-ms 5 --count 1").unwrap_err(),
            "job needs --cpu-ms"
        );
    }

    #[test]
    fn burning_uses_the_cpu_time_asked_for() {
        let before_ns = sys::thread_cpu_ns();
        burn(2_000_000);
        // Running that seems without gaps may hide up to 100 µs a time of not running.
        assert!(sys::thread_cpu_ns() - before_ns >= 1_000_000);
    }
}
