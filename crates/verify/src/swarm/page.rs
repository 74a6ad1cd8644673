//! The page of what became of the worlds.

use super::Tally;

const HEAD: &str = "\
# Drawn worlds

*Does anything break in worlds that nobody thought of?*

Each seed draws a world: first which features it uses, then the release of the kernel with patches, switches and tunables, a
machine or a topology, contended cache lines, late timer interrupts, governors, groups with weights, limits and bursts and what
changes of them while it runs, CPUs and policies, and one to four of the [programs](../programs/schbench.md). A world lasts 1 to
64 ms. It is run in one go; again; checked after every event; in steps of random length, with everything that can be asked
in between; and watched as `convert` does it. Checked is that

* time goes forward, of the world and of each CPU, and what each CPU executed, spent on the kernel and idled adds up to it;
* queues hold what their counters, loads and lag sums say, and idle sets, lists and throttled queues agree with them;
* no task runs and waits at once; messages take the room that their queues say, and whoever sleeps is in a queue, has a timer or waits for a device;
* every run of the world has the same events, and the first three the same metrics to the last digit.

What breaks is shrunk to the shortest experiment that still does, and written to `target/swarm`. `make swarm SWARM_WORLDS=20000`
draws other numbers of worlds and writes this page; `schedcast run EXP.toml --check-determinism` runs one of your own so.

";

/// The page of some tallies.
pub fn page(tallies: &[Tally]) -> String {
    let mut text = HEAD.to_string();
    text += "| build | seeds | held | refused | broken | hash of all events |\n|---|---|---|---|---|---|\n";
    for tally in tallies {
        let build = match tally.debug {
            true => "with assertions and checks of overflow",
            false => "optimised",
        };
        let last = tally.first + tally.worlds.saturating_sub(1);
        let broken = tally.worlds - tally.held - tally.refused;
        text += &format!(
            "| {build} | {} to {last} | {} | {} | {broken} | `{}` |\n",
            tally.first, tally.held, tally.refused, tally.hash
        );
    }
    text += "\nRefused worlds are those of which a patch is there already, or builds on one that is not.\n";
    for tally in tallies {
        for kind in &tally.broken {
            text += &format!(
                "\nBroken in {} worlds, first in that of seed {}: {}\n",
                kind.worlds, kind.seed, kind.words
            );
        }
    }
    if let Some(tally) = tallies.iter().max_by_key(|tally| tally.worlds) {
        text += &format!(
            "\nOf {} worlds so many use\n\n| feature | worlds |\n|---|---|\n",
            tally.worlds
        );
        for (feature, count) in &tally.features {
            text += &format!("| {feature} | {count} |\n");
        }
    }
    text += FOUND;
    text
}

const FOUND: &str = "
## What was found

What the worlds of seeds 0 to 999 broke, a world in several ways, before the first mend. All but the CPU times of the first mend have a test of
their own.

| worlds | what broke | why |
|---|---|---|
| 272 | Time went back. | The next start, or the next interrupt of a card, was taken at its own time, while the one before it \
had brought the world to the end of its CPU's way out of idle. Each waits for its own CPU alone now. |
| 113 | A run that was watched had other events. | What was armed for a moment that had passed came at once in a run that had \
stopped there, and before the present in one that had not. It comes at once in both. |
| 59 | A run that was looked at had other events. | A look began the stay of every idle CPU anew; on machines whose idle states get \
deeper with the stay, it was quicker to leave. |
| 28 | CPU time was counted twice. | On machines with contended lines, what a task waited for a line, up to some microseconds, was \
counted as its work as well when the next task had to refill its caches. |
| 3 | A run that was looked at had other CPU times. | A task whose CPU waited for a line at the end of the run was counted up to \
the last look only. It is counted up to the end. |
| 1 | The program panicked. | The patch `flat-pick` without `task-throttle`, which no kernel has: refused now. |

What came to light in the first 66,000 after those mends, of which each has a test:

| worlds | what broke | why |
|---|---|---|
| 2 in 20,000 | A run that was looked at had other CPU times. | On machines with contended lines, a switch away from a CPU may \
be observed after the switch to the task on another one. What the task ran before was lost, unless somebody had looked in between. \
Runs are counted by CPU now. |
| 36 in 4000 | A task ran and waited at once, once that was checked. | The same of wakeups and switches that are observed in another \
order than they follow from each other: the wait went on while the task ran, or an activation ended before it began. |
| 5 | The program panicked, or counts were wrong. | Kernels that nobody has: `flat-pick` or `throttle-when-charged` without the \
patches that they build on are refused now; taking `eevdf` away takes `flat-pick` with it. |

Seeds 0 to 64999, and those with assertions, ran before `throttle-when-charged` alone was refused. A few of those worlds count as held, \
and that of seed 2717 as broken, which is refused now.

## What is not checked

* That no task waits beside an idle CPU for longer than the kernel lets it: balancing between domains may take more than the 64 ms \
that a world lasts, and depends on weights and on failed attempts.
* Requests that are made and answered: programs keep them in words of their own. The worlds have no replayed recordings, whose \
requests are counted, and no adjustments of such.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_world_is_counted_and_told() {
        let tally = Tally {
            first: 10,
            worlds: 5,
            held: 3,
            refused: 1,
            hash: "17c4".to_string(),
            features: [("late timers".to_string(), 2)].into(),
            broken: vec![super::super::Kind {
                seed: 12,
                words: "time went back".to_string(),
                worlds: 1,
            }],
            ..Tally::default()
        };
        let page = page(&[tally]);
        for line in [
            "| optimised | 10 to 14 | 3 | 1 | 1 | `17c4` |",
            "Broken in 1 worlds, first in that of seed 12: time went back",
            "| late timers | 2 |",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }
}
