//! Variants that differ only in what changes while they run share the run up to the first
//! difference.
//!
//! Worked example: of three runs of 60 s one gives a group more quota at 50 s, one at 55 s, one
//! never. The first 50 s are simulated once. There the world is copied: the first run takes its
//! last 10 s from the copy, the others go on together to 55 s, where they part: 50 + 10 + 5 + 5 +
//! 5 = 75 s instead of 180. A copy goes on exactly as a run of its own, so the results are the same
//! to the byte.

use super::chance::Chance;
use super::{Course, Simulator, build};
use crate::error::Result;
use crate::experiment::{Scenario, TimedChange};
use crate::outcome::Outcome;
use crate::simulate::Simulate;

/// Runs scenarios that differ in their changes only; outcomes are in their order.
pub(super) fn run(simulator: &Simulator, family: &[&Scenario], seed: u64) -> Vec<Result<Outcome>> {
    let alone = |scenario: &&Scenario| simulator.run(scenario, seed);
    let course = match family {
        [first, _, ..] if first.kernel.tree.is_none() => {
            Course::start(simulator, first, seed, simulator.chance(seed))
        }
        _ => return family.iter().map(alone).collect(),
    };
    // A run until the end of its programs decides at times of its own whether they have ended, so
    // it cannot be shared; an error belongs to the scenario it comes from.
    let Some(course) = course.ok().filter(|course| course.duration_ns.is_some()) else {
        return family.iter().map(alone).collect();
    };
    let mut outcomes: Vec<Option<Result<Outcome>>> = family.iter().map(|_| None).collect();
    let mut groups = vec![(course, (0..family.len()).collect::<Vec<usize>>())];
    while let Some((course, members)) = groups.pop() {
        match part(simulator, course, family, &members) {
            Ok(Parting::Futures(futures)) => groups.extend(futures),
            Ok(Parting::Never(mut course)) => {
                let scenario = family[members[0]];
                let halfway = course.go_halfway(scenario);
                let run = &mut |world: &mut schedcast_sim::World, until| world.run_until(until);
                let outcome = halfway.and_then(|()| course.finish(scenario, run));
                let outcome = outcome.map(|mut end| end.outcome());
                match outcome {
                    Ok(outcome) => members
                        .iter()
                        .for_each(|&member| outcomes[member] = Some(Ok(outcome.clone()))),
                    Err(_) => fail(&mut outcomes, &members, family, &alone),
                }
            }
            Err(_) => fail(&mut outcomes, &members, family, &alone),
        }
    }
    outcomes.into_iter().flatten().collect()
}

/// After an error each member runs alone, so that it gets its own.
fn fail(
    outcomes: &mut [Option<Result<Outcome>>],
    members: &[usize],
    family: &[&Scenario],
    alone: &impl Fn(&&Scenario) -> Result<Outcome>,
) {
    for &member in members {
        outcomes[member] = Some(alone(&family[member]));
    }
}

/// Course of scenarios that were the same so far: the same to the end, or parted.
enum Parting {
    /// They stay the same.
    Never(Box<Course>),
    /// They part; each group of them goes on from a world of its own.
    Futures(Vec<(Course, Vec<usize>)>),
}

/// Runs to just before the members' first difference.
fn part(
    simulator: &Simulator,
    mut course: Course,
    family: &[&Scenario],
    members: &[usize],
) -> Result<Parting> {
    let change = |member: usize, row: usize| family[member].changes.get(row);
    let first = members[0];
    let same = |row: usize| {
        members
            .iter()
            .all(|&other| change(other, row) == change(first, row))
    };
    let longest = members.iter().map(|&member| family[member].changes.len());
    let Some(row) = (0..longest.max().unwrap_or(0)).find(|&row| !same(row)) else {
        return Ok(Parting::Never(Box::new(course)));
    };
    let times = members.iter().filter_map(|&member| change(member, row));
    let parts_ns = times.map(|change| change.time_ns).min().unwrap_or(0);
    if let Some(until_ns) = parts_ns
        .checked_sub(1)
        .filter(|&ns| ns > course.world.now())
    {
        course.advance(family[first], until_ns)?;
    }
    let mut groups: Vec<(Option<&TimedChange>, Vec<usize>)> = Vec::new();
    for &member in members {
        let own = change(member, row);
        match groups.iter_mut().find(|(other, _)| *other == own) {
            Some((_, group)) => group.push(member),
            None => groups.push((own, vec![member])),
        }
    }
    let future = |(_, group): (_, Vec<usize>)| -> Result<(Course, Vec<usize>)> {
        let mut course = course.clone();
        let workload = build::build(simulator, family[group[0]], Chance::NONE)?.workload;
        let replaced = course.world.replace_changes(workload.changes.clone());
        replaced.map_err(super::bad_input)?;
        Ok((course, group))
    };
    Ok(Parting::Futures(
        groups.into_iter().map(future).collect::<Result<_>>()?,
    ))
}
