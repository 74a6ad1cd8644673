//! Runs that are still to come find the machine as fast or as slow as it was at some time of the
//! recording.
//!
//! A recording shows how the CPU time of a request drifted from window to window
//! ([`Replay::drift_permille`]); each seed takes another value of that range. Worked example: a
//! drift of 100 ‰ and six seeds make requests take 856, 913, 971, 1029, 1087 and 1144 ‰ of what
//! they took: values as far apart as possible that deviate by 100 ‰ or so, evenly, and 1000 ‰ in
//! the mean.
//!
//! Besides, threads that run seldom may run for long then: [`Replay::rare`].
//!
//! [`Replay::rare`]: schedcast_workload::replay::Replay::rare
//! [`Replay::drift_permille`]: schedcast_workload::replay::Replay::drift_permille

use crate::comparison::Comparison;
use crate::error::Result;
use crate::experiment::Scenario;
use crate::outcome::Outcome;
use crate::recording::Recorded;
use crate::simulate::{Simulate, run_all, run_seeds};
use crate::simulator::Simulator;
use schedcast_workload::replay::Piece;

/// Half the width of an even spread of deviation 1, in thousandths: √3.
const HALF_WIDTH_PERMILLE: i64 = 1732;
/// Whatever drifted, work does not become less than this.
const LEAST_PERMILLE: i64 = 100;

/// Runs of one limit under the same seeds.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// Requests take the CPU time that they took in the recording: the means are those of these
    /// runs.
    pub plain: Vec<Outcome>,
    /// They take more or less, as the machine drifted: the intervals cover these, too. Empty where
    /// nothing drifted.
    pub drifted: Vec<Outcome>,
}

impl Runs {
    /// The runs with drift, or those without where nothing drifted.
    pub fn hardest(&self) -> &[Outcome] {
        match self.drifted.is_empty() {
            true => &self.plain,
            false => &self.drifted,
        }
    }

    /// Every run.
    pub fn all(&self) -> impl Iterator<Item = &Outcome> + Clone {
        self.plain.iter().chain(&self.drifted)
    }
}

/// The comparison of scenarios by their runs: means of those without drift, intervals of one run
/// that cover drift.
pub fn compared(title: &str, scenarios: &[Scenario], runs: &[Runs]) -> Result<Comparison> {
    let rows = runs
        .iter()
        .map(|one| (one.plain.clone(), one.drifted.clone()));
    let (plain, drifted): (Vec<_>, Vec<_>) = rows.unzip();
    let mut comparison = Comparison::new(title, scenarios, &plain)?;
    comparison.add_intervals_of_one_run(&[drifted]);
    Ok(comparison)
}

/// A simulator in whose replays requests take more or less CPU time, seed by seed.
pub struct Drifting<'a, S> {
    /// Behind it.
    pub simulator: &'a S,
    /// Deviation of a request's work.
    pub drift_permille: u64,
    /// Work that the recording does not show: a group's path and how much may come in one piece,
    /// ns. Each seed has it at another time of the recording.
    pub rare: Option<(String, u64)>,
    /// Length of the recording, ns.
    pub length_ns: u64,
    /// Number of seeds.
    pub seeds: u32,
}

impl<'a, S> Drifting<'a, S> {
    /// Runs still to come of `target` in `recorded`.
    pub fn of(recorded: &Recorded, target: &str, simulator: &'a S, seeds: u32) -> Self {
        Drifting {
            simulator,
            drift_permille: recorded.seen.drift_of(target),
            rare: recorded.seen.piece_of(target),
            length_ns: recorded.length_ns,
            seeds,
        }
    }
}

impl<S: Simulate> Drifting<'_, S> {
    /// Runs in which work drifts, a row for each scenario; nothing where nothing drifted or one
    /// seed shows no spread.
    pub fn run(
        &self,
        scenarios: &[Scenario],
        finished: &(impl Fn() + Sync),
    ) -> Result<Vec<Vec<Outcome>>> {
        match self.drifts() {
            true => run_all(self, scenarios, self.seeds, finished),
            false => Ok(Vec::new()),
        }
    }

    /// Runs of every kind that may be to come: those of [`Self::run`], and, where rare work may
    /// come in these, such without it.
    pub(crate) fn run_kinds(
        &self,
        scenarios: &[Scenario],
        finished: &(impl Fn() + Sync),
    ) -> Result<Vec<Vec<Vec<Outcome>>>> {
        let mut kinds = vec![self.run(scenarios, finished)?];
        if self.rare.is_some() {
            kinds.push(self.without_rare().run(scenarios, finished)?);
        }
        Ok(kinds)
    }

    /// Runs with drift, from the seed in which requests take the most down: those that are `known`
    /// and as many more as run at once. Nothing where nothing drifted.
    ///
    /// # Errors
    /// Refusals by the simulation.
    pub fn run_hardest(
        &self,
        scenario: &Scenario,
        mut known: Vec<Outcome>,
        finished: &(impl Fn() + Sync),
    ) -> Result<Vec<Outcome>> {
        if self.drifts() {
            let end = self.seeds - known.len() as u32;
            let at_once = (rayon::current_num_threads() as u32).max(2);
            let seeds = end.saturating_sub(at_once)..end;
            let rows = run_seeds(self, std::slice::from_ref(scenario), seeds, finished)?;
            known.splice(0..0, rows.into_iter().flatten());
        }
        Ok(known)
    }

    /// All runs of a scenario, of which [`Self::run_hardest`] did the `hardest`.
    ///
    /// # Errors
    /// Refusals by the simulation.
    pub fn run_rest(
        &self,
        scenario: &Scenario,
        hardest: Vec<Outcome>,
        finished: &(impl Fn() + Sync),
    ) -> Result<Runs> {
        let scenario = std::slice::from_ref(scenario);
        let mut plain = run_all(self.simulator, scenario, self.seeds, finished)?;
        let mut drifted = Vec::new();
        if self.drifts() {
            let seeds = 0..self.seeds - hardest.len() as u32;
            let rows = run_seeds(self, scenario, seeds, finished)?;
            drifted = rows.into_iter().flatten().chain(hardest).collect();
        }
        let plain = plain.pop().unwrap_or_default();
        Ok(Runs { plain, drifted })
    }

    /// Runs without drift and with it, a row for each scenario.
    pub fn run_both(
        &self,
        scenarios: &[Scenario],
        finished: &(impl Fn() + Sync),
    ) -> Result<Vec<Runs>> {
        let plain = run_all(self.simulator, scenarios, self.seeds, finished)?;
        let mut drifted = self.run(scenarios, finished)?.into_iter();
        let rows = plain.into_iter().map(|plain| Runs {
            plain,
            drifted: drifted.next().unwrap_or_default(),
        });
        Ok(rows.collect())
    }
}

impl<S> Drifting<'_, S> {
    /// Whether anything drifted, and there are seeds enough to show a spread.
    fn drifts(&self) -> bool {
        (self.drift_permille > 0 || self.rare.is_some()) && self.seeds > 1
    }

    fn without_rare(&self) -> Drifting<'_, S> {
        Drifting {
            rare: None,
            ..*self
        }
    }

    /// Runs of each scenario without drift and of [`Self::run_kinds`].
    pub(crate) fn runs_of_kinds(&self) -> u64 {
        let without = self.rare.is_some() && self.without_rare().drifts();
        self.runs_of_each() + u64::from(self.seeds) * u64::from(without)
    }

    /// Runs of each scenario without drift and with it.
    pub fn runs_of_each(&self) -> u64 {
        u64::from(self.seeds) * (1 + u64::from(self.drifts()))
    }

    /// Rare work under `seed`: the seeds' times divide the recording evenly.
    fn piece(&self, seed: u64) -> Option<Piece> {
        let (group, work_ns) = self.rare.clone()?;
        let seeds = u64::from(self.seeds.max(1));
        Some(Piece {
            group,
            at_ns: self.length_ns / (2 * seeds) * (2 * (seed % seeds) + 1),
            work_ns,
        })
    }

    /// Work of requests under `seed`, in thousandths of the recorded work.
    fn work_permille(&self, seed: u64) -> u64 {
        let seeds = i64::from(self.seeds.max(1));
        // From −(seeds − 1) to seeds − 1 in steps of two.
        let place = 2 * (seed as i64 % seeds) - (seeds - 1);
        let half_width = self.drift_permille as i64 * HALF_WIDTH_PERMILLE / 1000;
        (1000 + half_width * place / seeds).max(LEAST_PERMILLE) as u64
    }
}

impl<S: Simulate> Simulate for Drifting<'_, S> {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let mut scenario = scenario.clone();
        for adjust in scenario.adjusts_mut() {
            adjust.work_permille = self.work_permille(seed);
            adjust.piece = self.piece(seed);
        }
        self.simulator.run(&scenario, seed)
    }

    fn simulator(&self) -> Option<&Simulator> {
        self.simulator.simulator()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four seeds in 8 s: 1, 3, 5 and 7 s.
    #[test]
    fn rare_work_comes_at_another_time_in_each_seed() {
        let drifting = Drifting {
            simulator: &(),
            drift_permille: 0,
            rare: Some(("/a".to_string(), 70)),
            length_ns: 8_000,
            seeds: 4,
        };
        assert!(drifting.drifts() && drifting.runs_of_each() == 8);
        assert_eq!(drifting.runs_of_kinds(), 8, "without it nothing drifts");
        let also = Drifting {
            drift_permille: 1,
            ..drifting.without_rare()
        };
        assert_eq!(also.runs_of_kinds(), 8);
        let both = Drifting {
            rare: drifting.rare.clone(),
            ..also
        };
        assert_eq!(both.runs_of_kinds(), 12);
        let pieces: Vec<Piece> = (0..4).filter_map(|seed| drifting.piece(seed)).collect();
        let at: Vec<u64> = pieces.iter().map(|piece| piece.at_ns).collect();
        assert_eq!(at, [1_000, 3_000, 5_000, 7_000]);
        assert_eq!((pieces[0].group.as_str(), pieces[0].work_ns), ("/a", 70));
    }

    #[test]
    fn seeds_cover_what_drifted() {
        let drifting = |drift_permille, seeds| Drifting {
            simulator: &(),
            drift_permille,
            rare: None,
            length_ns: 0,
            seeds,
        };
        let all = |one: Drifting<'_, ()>| -> Vec<u64> {
            (0..u64::from(one.seeds))
                .map(|seed| one.work_permille(seed))
                .collect()
        };
        assert_eq!(all(drifting(100, 6)), [856, 914, 972, 1028, 1086, 1144]);
        assert_eq!(all(drifting(0, 3)), [1000; 3]);
        assert_eq!(all(drifting(900, 2)), [221, 1779]);
    }
}
