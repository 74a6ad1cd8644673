//! The way from one kernel to another, change by change.
//!
//! Worked example: between 6.6 and 6.7 lie two rows of the table, `tg-load-ratelimit` and
//! `reweight-vruntime`. The way has two steps: 6.6 with the first, then 6.6 with both, and the
//! rules of the last step are those of 6.7.

use super::{Change, all};
use crate::rules::{Rules, Version};

/// One change on the way.
#[derive(Clone, Debug)]
pub struct Step {
    /// The row of the table.
    pub change: &'static Change,
    /// Whether it is made; `false` where it is taken back.
    pub on: bool,
    /// The release that brought it, or that took it back; `None` for a change that was never
    /// merged.
    pub release: Option<Version>,
    /// The rules with this change and with all that come before it.
    pub rules: Rules,
}

/// The changes that lead from the rules of `older` to those of `newer`, in the order of their
/// releases. A change without an effect at its place on the way is left out: EEVDF takes all
/// features of CFS with it, so their own ends are no steps.
///
/// The last step may differ from `newer` in what no change of the table sets: the tick's
/// frequency, tunables and whatever else was chosen for one of the two kernels alone.
pub fn between(older: &Rules, newer: &Rules) -> Vec<Step> {
    let mut differences: Vec<(Option<Version>, bool, &'static Change)> = all()
        .filter(|change| change.is_in(older) != change.is_in(newer))
        .map(|change| {
            let on = change.is_in(newer);
            let dated = if on { change.since } else { change.until };
            (dated.map(|dated| dated.release), on, change)
        })
        .collect();
    // Changes that a release takes back come behind those that it brings, which may have done that
    // already.
    differences.sort_by_key(|&(release, on, _)| (release.is_none(), release, !on));
    let mut rules = older.clone();
    let mut steps = Vec::new();
    for (release, on, change) in differences {
        let before = rules.clone();
        if change.is_in(&rules) != on {
            change.apply(&mut rules, on);
        }
        if rules != before {
            let rules = rules.clone();
            steps.push(Step {
                change,
                on,
                release,
                rules,
            });
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(older: &str, newer: &str) -> (Vec<Step>, Rules) {
        let rules = |version: &str| Rules::of(version.parse().unwrap(), 4, 250);
        let (older, newer) = (rules(older), rules(newer));
        (between(&older, &newer), newer)
    }

    #[test]
    fn the_way_to_the_next_release_is_its_rows() {
        let (steps, _) = way("6.6", "6.7");
        let names: Vec<&str> = steps.iter().map(|step| step.change.name).collect();
        assert!(names.contains(&"tg-load-ratelimit") && names.contains(&"reweight-vruntime"));
        let release = Some(Version::new(6, 7));
        assert!(steps.iter().all(|step| step.release == release));
        let taken_back: Vec<&str> = steps
            .iter()
            .filter(|step| !step.on)
            .map(|step| step.change.name)
            .collect();
        assert_eq!(taken_back, ["two-balancers"], "6.6 alone has it");
    }

    #[test]
    fn every_way_between_two_releases_ends_with_the_rules_of_the_newer_one() {
        let releases: Vec<Version> = Version::releases().collect();
        for (index, &older) in releases.iter().enumerate() {
            for &newer in &releases[index + 1..] {
                let (from, to) = (Rules::of(older, 4, 250), Rules::of(newer, 4, 250));
                let steps = between(&from, &to);
                let mut last = steps.last().map_or(from, |step| step.rules.clone());
                last.version = newer;
                assert_eq!(last, to, "from {older} to {newer}");
            }
        }
    }
}
