//! A run under a trace: who was on which CPU when, and when bandwidth timers fired.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use schedcast_host::tracefs::TraceInstance;
use schedcast_trace::{Event, EventKind, EventSource, FtraceTextReader, Item, PrevState};

/// One stay of a task on a CPU.
pub(crate) struct Stay {
    pub cpu: u32,
    pub from_ns: u64,
    pub to_ns: u64,
    pub state: PrevState,
    /// The task that followed.
    pub next: i32,
}

/// A firing of a bandwidth period timer.
pub(crate) struct PeriodTimer {
    pub cpu: u32,
    /// The time the handler took for now.
    pub time_ns: u64,
}

pub(crate) struct Trace {
    pub events: Vec<Event>,
    pub period_timers: Vec<PeriodTimer>,
}

/// Records switches, wakings and hrtimer expiries while `run` runs. Fails if events were lost.
pub(crate) fn record<T>(
    run: impl FnOnce() -> Result<T, Box<dyn Error>>,
) -> Result<(T, Trace), Box<dyn Error>> {
    let name = format!("schedcast-known-{}", std::process::id());
    let events = [
        "sched/sched_switch",
        "sched/sched_waking",
        "timer/hrtimer_expire_entry",
    ];
    let instance = TraceInstance::create(&name, 16_384, &events)?;
    instance.start()?;
    let result = run()?;
    instance.stop()?;
    if instance.lost_events()? > 0 {
        return Err("the trace lost events".into());
    }
    let text = instance.text()?;
    Ok((result, parse(&text)?))
}

fn parse(text: &str) -> Result<Trace, Box<dyn Error>> {
    let mut reader = FtraceTextReader::new(Path::new("trace"), text.as_bytes());
    let mut events = Vec::new();
    while let Some(item) = reader.next_item()? {
        if let Item::Event(event) = item {
            events.push(event);
        }
    }
    let period_timers = text.lines().filter_map(period_timer).collect();
    Ok(Trace {
        events,
        period_timers,
    })
}

/// `comm-pid [001] d.h1. 12.345678: hrtimer_expire_entry: hrtimer=… function=sched_cfs_period_timer
/// now=…`
fn period_timer(line: &str) -> Option<PeriodTimer> {
    if !line.contains("hrtimer_expire_entry:") || !line.contains("function=sched_cfs_period_timer")
    {
        return None;
    }
    let (_, after) = line.split_once('[')?;
    let (cpu, _) = after.split_once(']')?;
    let (_, now) = line.split_once(" now=")?;
    Some(PeriodTimer {
        cpu: cpu.parse().ok()?,
        time_ns: now.trim().parse().ok()?,
    })
}

impl Trace {
    /// Stays of one task in order of time.
    pub(crate) fn stays(&self, pid: i32) -> Vec<Stay> {
        let mut since: BTreeMap<u32, u64> = BTreeMap::new();
        let mut stays = Vec::new();
        for event in &self.events {
            let EventKind::Switch {
                prev_pid,
                prev_state,
                next_pid,
                ..
            } = event.kind
            else {
                continue;
            };
            if next_pid == pid {
                since.insert(event.cpu, event.time_ns);
            }
            if prev_pid == pid
                && let Some(from_ns) = since.remove(&event.cpu)
            {
                stays.push(Stay {
                    cpu: event.cpu,
                    from_ns,
                    to_ns: event.time_ns,
                    state: prev_state,
                    next: next_pid,
                });
            }
        }
        stays
    }

    /// Where in the period the timers fire, and on which CPU: the earliest of all handlers' times,
    /// since a handler may be late but never early.
    pub(crate) fn period_phase(&self, period_ns: u64) -> Option<(u64, u32)> {
        let first = self.period_timers.first()?;
        let half_ns = period_ns / 2;
        let offset = |timer: &PeriodTimer| {
            (timer.time_ns + period_ns + half_ns - first.time_ns % period_ns) % period_ns
        };
        let earliest = self
            .period_timers
            .iter()
            .min_by_key(|timer| offset(timer))?;
        Some((earliest.time_ns % period_ns, earliest.cpu))
    }

    /// Times at which a task was woken.
    pub(crate) fn wakings(&self, pid: i32) -> Vec<u64> {
        let woken = |event: &&Event| matches!(event.kind, EventKind::Waking(w) if w.pid == pid);
        self.events
            .iter()
            .filter(woken)
            .map(|event| event.time_ns)
            .collect()
    }
}
