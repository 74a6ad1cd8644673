//! Names that functions of the kernel had in earlier releases.
//!
//! The table of rules has their names of 6.18. A reader of an explanation of 5.14 with the source
//! of 5.14 beside it looks for `find_busiest_group`, which is `sched_balance_find_src_group` from
//! 6.10 on.

use crate::rules::Version;

/// The last release that has a name, and that name.
type Earlier = (Version, &'static str);

const V4_14: Version = Version::new(4, 14);
const V5_3: Version = Version::new(5, 3);
const V6_5: Version = Version::new(6, 5);
const V6_6: Version = Version::new(6, 6);
const V6_9: Version = Version::new(6, 9);

/// Names of 6.18 with the earlier ones, oldest first. Those of 6.10 are one series
/// ("sched/balancing: Rename …").
const RENAMED: [(&str, &[Earlier]); 11] = [
    // The queue of one entity was no case of its own before EEVDF.
    ("pick_eevdf", &[(V6_5, "pick_next_entity")]),
    (
        "check_preempt_wakeup_fair",
        &[(V6_6, "check_preempt_wakeup")],
    ),
    ("wakeup_preempt_rt", &[(V6_6, "check_preempt_curr_rt")]),
    ("sched_balance_rq", &[(V6_9, "load_balance")]),
    ("sched_balance_domains", &[(V6_9, "rebalance_domains")]),
    (
        "sched_balance_newidle",
        &[(V5_3, "idle_balance"), (V6_9, "newidle_balance")],
    ),
    (
        "sched_balance_find_src_group",
        &[(V6_9, "find_busiest_group")],
    ),
    (
        "sched_balance_find_dst_group",
        &[(V6_9, "find_idlest_group")],
    ),
    (
        "sched_balance_find_dst_group_cpu",
        &[(V4_14, "find_idlest_cpu"), (V6_9, "find_idlest_group_cpu")],
    ),
    (
        "sched_balance_update_blocked_averages",
        &[(V6_9, "update_blocked_averages")],
    ),
    ("sched_tick", &[(V6_9, "scheduler_tick")]),
];

/// Names of 6.18 with later ones: the first release that has it. Debian's image of 6.19.14 has the
/// first name, that of 7.0.13 the other.
const RENAMED_LATER: [(&str, Version, &str); 1] = [(
    "check_preempt_wakeup_fair",
    Version::new(7, 0),
    "wakeup_preempt_fair",
)];

/// Name in `version` of the function that 6.18 calls `function`.
pub(super) fn name_in(function: &'static str, version: Version) -> &'static str {
    // A stable release has the names of the release it began with.
    let release = Version::new(version.major, version.minor);
    let mut later = RENAMED_LATER.iter();
    if let Some((_, _, name)) =
        later.find(|(today, first, _)| *today == function && release >= *first)
    {
        return name;
    }
    let renamed = RENAMED.iter().find(|(today, _)| *today == function);
    let earlier = renamed.map_or(&[][..], |(_, earlier)| earlier);
    let name = earlier.iter().find(|(last, _)| release <= *last);
    name.map_or(function, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Mark;

    #[test]
    fn functions_have_the_names_of_their_release() {
        let name = |function, major, minor| name_in(function, Version::new(major, minor));
        let group = "sched_balance_find_src_group";
        assert_eq!(name(group, 5, 14), "find_busiest_group");
        assert_eq!(name(group, 6, 10), group);
        let stable = Version::stable(6, 9, 12);
        assert_eq!(name_in(group, stable), "find_busiest_group");
        let cpu = "sched_balance_find_dst_group_cpu";
        assert_eq!(name(cpu, 4, 14), "find_idlest_cpu");
        assert_eq!(name(cpu, 4, 15), "find_idlest_group_cpu");
        assert_eq!(name("pick_eevdf", 6, 5), "pick_next_entity");
        assert_eq!(name("update_curr", 4, 5), "update_curr");
        let wakeup = "check_preempt_wakeup_fair";
        assert_eq!(name(wakeup, 6, 6), "check_preempt_wakeup");
        assert_eq!(name(wakeup, 6, 19), wakeup);
        assert_eq!(name(wakeup, 7, 0), "wakeup_preempt_fair");
    }

    #[test]
    fn every_renamed_function_is_one_of_the_table() {
        for (today, _) in RENAMED {
            let known = Mark::ALL.iter().any(|mark| mark.about().function == today);
            assert!(known, "{today}");
        }
    }
}
