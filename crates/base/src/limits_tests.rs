//! Every bound from both sides. The same values are put to the running kernel in
//! `tests/live_cgroup.rs`.

use super::*;

fn limits(quota_us: Option<u64>, period_us: u64, burst_us: u64) -> CpuLimits {
    CpuLimits {
        quota_us,
        period_us,
        burst_us,
    }
}

#[test]
fn every_bound_is_the_kernels() {
    assert_eq!(QUOTA_MAX_US, 17_592_186_044_415);
    for row in crate::rows::lines(include_str!("limits.txt")) {
        let [numbers, expected] = crate::rows::cells(row);
        let numbers: Vec<Option<u64>> = numbers.split(' ').map(|n| n.parse().ok()).collect();
        let limits = limits(numbers[0], numbers[1].unwrap(), numbers[2].unwrap());
        let said = validate(&limits).map_or_else(|error| error.to_string(), |()| "taken".into());
        assert_eq!(said, expected, "{limits}");
    }
}

#[test]
fn ratio_is_20_bit_fixed_point_rounded_down() {
    assert_eq!(bandwidth_ratio(50_000, 100_000), 524_288);
    assert_eq!(bandwidth_ratio(100_001, 200_000), 524_293);
    assert_eq!(bandwidth_ratio(1_000, 1_000_000), 1_048);
    assert_eq!(bandwidth_ratio(QUOTA_MAX_US, 1_000), 18_446_744_073_708_503);
}

#[test]
fn a_child_must_fit_below_its_nearest_limited_ancestor() {
    let around = HierarchyBounds {
        ceiling: Some(bandwidth_ratio(50_000, 100_000)),
        floor: None,
    };
    let fits = |quota_us| validate_hierarchy(&limits(quota_us, 200_000, 0), around);
    let (ratio, ceiling) = (524_293, 524_288);
    let above = LimitError::AboveParent { ratio, ceiling };
    assert_eq!(fits(Some(100_000)), Ok(()));
    assert_eq!(fits(Some(100_001)), Err(above));
    assert_eq!(fits(None), Ok(()));
}

#[test]
fn a_parent_must_not_be_limited_below_a_child() {
    let around = HierarchyBounds {
        ceiling: None,
        floor: Some(bandwidth_ratio(50_000, 100_000)),
    };
    let fits = |quota_us| validate_hierarchy(&limits(Some(quota_us), 100_000, 0), around);
    let (ratio, floor) = (524_277, 524_288);
    assert_eq!(fits(50_000), Ok(()));
    assert_eq!(fits(49_999), Err(LimitError::BelowChild { ratio, floor }));
}

#[test]
fn burst_shrinks_before_and_grows_after_the_quota() {
    let plan = |from, to| {
        let [from, to] = [from, to].map(|us| limits(Some(us), 100_000, us));
        plan_writes(&from, &to, HierarchyBounds::default())
    };
    let (low, high) = (20_000, 50_000);
    let shrinks = [LimitWrite::Burst(low), LimitWrite::Quota(Some(low))];
    assert_eq!(plan(high, low), shrinks);
    let grows = [LimitWrite::Quota(Some(high)), LimitWrite::Burst(high)];
    assert_eq!(plan(low, high), grows);
}

#[test]
fn the_order_of_quota_and_period_follows_the_groups_around() {
    let old = limits(Some(50_000), 100_000, 0);
    let new = limits(Some(150_000), 300_000, 0);
    let half = Some(bandwidth_ratio(50_000, 100_000));
    let order = |ceiling, floor| plan_writes(&old, &new, HierarchyBounds { ceiling, floor });
    let period = LimitWrite::Period(300_000);
    let quota = LimitWrite::Quota(Some(150_000));
    assert_eq!(order(half, None), [period, quota]);
    assert_eq!(order(None, half), [quota, period]);
    assert_eq!(order(half, half), [LimitWrite::Quota(None), period, quota]);
}

/// Walks every transition between a set of states under every kind of neighbourhood and checks that
/// no state on the way is one the kernel refuses.
#[test]
fn no_plan_passes_through_a_refused_state() {
    let mut states = vec![];
    for quota_us in [None, Some(1_000), Some(20_000), Some(50_000), Some(150_000)] {
        for period_us in [1_000, 50_000, 100_000, 300_000] {
            for burst_us in [0, 1_000, 20_000, 50_000] {
                let state = limits(quota_us, period_us, burst_us);
                if validate(&state).is_ok() {
                    states.push(state);
                }
            }
        }
    }
    let half = Some(bandwidth_ratio(50_000, 100_000));
    let twice = Some(bandwidth_ratio(200_000, 100_000));
    let mut transitions = 0;
    for (ceiling, floor) in [(None, None), (half, None), (None, half), (twice, half)] {
        let around = HierarchyBounds { ceiling, floor };
        let fits = |s: &&CpuLimits| validate_hierarchy(s, around).is_ok();
        for from in states.iter().filter(fits) {
            for to in states.iter().filter(fits) {
                let mut state = *from;
                for write in plan_writes(from, to, around) {
                    match write {
                        LimitWrite::Quota(quota_us) => state.quota_us = quota_us,
                        LimitWrite::Period(period_us) => state.period_us = period_us,
                        LimitWrite::Burst(burst_us) => state.burst_us = burst_us,
                    }
                    assert_eq!(validate(&state), Ok(()), "{from:?} -> {to:?}");
                    let found = validate_hierarchy(&state, around);
                    assert_eq!(found, Ok(()), "{from:?} -> {to:?}");
                }
                assert_eq!(state, *to);
                transitions += 1;
            }
        }
    }
    assert!(transitions > 1_000, "{transitions}");
}

#[test]
fn numbers_are_read_as_the_kernel_reads_them() {
    let read = |text| parse_u64("cpu.shares", text);
    assert_eq!(read("10"), Ok(10));
    assert_eq!(read("10\n"), Ok(10));
    assert_eq!(read("+10"), Ok(10));
    assert_eq!(read("0x10"), Ok(16));
    assert_eq!(read("010"), Ok(8));
    assert_eq!(read("0"), Ok(0));
    for bad in ["", "+", "-1", "abc", "1 2", " 1", "0x", "08", "1\n\n"] {
        let error = read(bad).unwrap_err();
        assert!(matches!(error, LimitError::NotANumber { .. }), "{bad:?}");
        assert_eq!(error.errno(), "EINVAL");
    }
    let error = read("18446744073709551616").unwrap_err();
    assert!(matches!(error, LimitError::NumberTooLong { .. }));
    assert_eq!(error.errno(), "ERANGE");
}

#[test]
fn negative_v1_quota_means_no_limit() {
    assert_eq!(parse_cfs_quota_us("-1"), Ok(None));
    assert_eq!(parse_cfs_quota_us("-7"), Ok(None));
    assert_eq!(parse_cfs_quota_us("13000"), Ok(Some(13_000)));
    assert!(parse_cfs_quota_us("--1").is_err());
    for too_long in ["9223372036854775808", "-9223372036854775809"] {
        assert_eq!(parse_cfs_quota_us(too_long).unwrap_err().errno(), "ERANGE");
    }
}

#[test]
fn shares_are_clamped_and_weights_refused() {
    assert_eq!(parse_shares("0"), Ok(2));
    assert_eq!(parse_shares("1"), Ok(2));
    assert_eq!(parse_shares("3"), Ok(3));
    assert_eq!(parse_shares("262145"), Ok(262_144));
    assert_eq!(parse_weight("1"), Ok(1));
    assert_eq!(parse_weight("10000"), Ok(10_000));
    assert_eq!(parse_weight("0"), Err(LimitError::WeightOutOfRange(0)));
    let error = parse_weight("10001").unwrap_err();
    assert_eq!(error.errno(), "ERANGE");
}

#[test]
fn idle_is_a_switch() {
    assert_eq!(parse_idle("0"), Ok(false));
    assert_eq!(parse_idle("1\n"), Ok(true));
    assert_eq!(parse_idle("2"), Err(LimitError::IdleNotBoolean(2)));
    assert_eq!(parse_idle("-1"), Err(LimitError::IdleNotBoolean(-1)));
}

#[test]
fn weight_100_is_1024_shares() {
    assert_eq!(shares_from_weight(100), 1024);
    assert_eq!(shares_from_weight(1), 10);
    assert_eq!(shares_from_weight(39), 399);
    assert_eq!(shares_from_weight(10_000), 102_400);
}
