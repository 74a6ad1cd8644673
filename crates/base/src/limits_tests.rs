//! Every bound from both sides. The same values are put to the running kernel in
//! `tests/live_cgroup.rs`.

use super::*;

fn taken(quota_us: impl Into<Option<u64>>, period_us: u64, burst_us: u64) {
    let limits = limits(quota_us.into(), period_us, burst_us);
    assert_eq!(validate(&limits), Ok(()), "{limits}");
}

fn refused(quota_us: impl Into<Option<u64>>, period_us: u64, burst_us: u64, error: LimitError) {
    let limits = limits(quota_us.into(), period_us, burst_us);
    assert_eq!(validate(&limits), Err(error), "{limits}");
}

fn limits(quota_us: Option<u64>, period_us: u64, burst_us: u64) -> CpuLimits {
    CpuLimits {
        quota_us,
        period_us,
        burst_us,
    }
}

#[test]
fn quota_is_refused_below_one_millisecond() {
    refused(999, 100_000, 0, LimitError::QuotaTooSmall(999));
    refused(0, 100_000, 0, LimitError::QuotaTooSmall(0));
    taken(1_000, 100_000, 0);
}

#[test]
fn quota_is_refused_above_44_bits() {
    assert_eq!(QUOTA_MAX_US, 17_592_186_044_415);
    taken(QUOTA_MAX_US, 100_000, 0);
    refused(
        QUOTA_MAX_US + 1,
        100_000,
        0,
        LimitError::QuotaTooLarge(QUOTA_MAX_US + 1),
    );
}

#[test]
fn period_is_refused_outside_one_millisecond_to_one_second() {
    refused(None, 999, 0, LimitError::PeriodTooSmall(999));
    taken(None, 1_000, 0);
    taken(None, 1_000_000, 0);
    refused(None, 1_000_001, 0, LimitError::PeriodTooLarge(1_000_001));
}

#[test]
fn burst_may_equal_but_not_exceed_a_finite_quota() {
    taken(50_000, 100_000, 50_000);
    refused(
        50_000,
        100_000,
        50_001,
        LimitError::BurstAboveQuota {
            burst_us: 50_001,
            quota_us: 50_000,
        },
    );
}

#[test]
fn quota_and_burst_share_44_bits() {
    let quota_us = QUOTA_MAX_US - 1;
    taken(quota_us, 100_000, 1);
    refused(
        quota_us,
        100_000,
        2,
        LimitError::BurstSumTooLarge {
            burst_us: 2,
            quota_us,
        },
    );
}

#[test]
fn burst_without_a_quota_only_has_to_fit_64_bits_of_nanoseconds() {
    taken(None, 100_000, 18_446_744_073_709_551);
    refused(
        None,
        100_000,
        18_446_744_073_709_552,
        LimitError::BurstTooLarge(18_446_744_073_709_552),
    );
}

#[test]
fn the_first_broken_rule_in_the_kernels_order_is_named() {
    refused(1, 1, 2, LimitError::QuotaTooSmall(1));
    refused(QUOTA_MAX_US + 1, 1, 0, LimitError::PeriodTooSmall(1));
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
    assert_eq!(
        validate_hierarchy(&limits(Some(100_000), 200_000, 0), around),
        Ok(())
    );
    assert_eq!(
        validate_hierarchy(&limits(Some(100_001), 200_000, 0), around),
        Err(LimitError::AboveParent {
            ratio: 524_293,
            ceiling: 524_288
        })
    );
    assert_eq!(
        validate_hierarchy(&limits(None, 200_000, 0), around),
        Ok(())
    );
}

#[test]
fn a_parent_must_not_be_limited_below_a_child() {
    let around = HierarchyBounds {
        ceiling: None,
        floor: Some(bandwidth_ratio(50_000, 100_000)),
    };
    assert_eq!(
        validate_hierarchy(&limits(Some(50_000), 100_000, 0), around),
        Ok(())
    );
    assert_eq!(
        validate_hierarchy(&limits(Some(49_999), 100_000, 0), around),
        Err(LimitError::BelowChild {
            ratio: 524_277,
            floor: 524_288
        })
    );
}

#[test]
fn burst_shrinks_before_and_grows_after_the_quota() {
    let free = HierarchyBounds::default();
    assert_eq!(
        plan_writes(
            &limits(Some(50_000), 100_000, 50_000),
            &limits(Some(20_000), 100_000, 20_000),
            free
        ),
        [LimitWrite::Burst(20_000), LimitWrite::Quota(Some(20_000))]
    );
    assert_eq!(
        plan_writes(
            &limits(Some(20_000), 100_000, 20_000),
            &limits(Some(50_000), 100_000, 50_000),
            free
        ),
        [LimitWrite::Quota(Some(50_000)), LimitWrite::Burst(50_000)]
    );
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
    for around in [(None, None), (half, None), (None, half), (twice, half)] {
        let around = HierarchyBounds {
            ceiling: around.0,
            floor: around.1,
        };
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
    assert_eq!(
        parse_cfs_quota_us("9223372036854775808")
            .unwrap_err()
            .errno(),
        "ERANGE"
    );
    assert_eq!(
        parse_cfs_quota_us("-9223372036854775809")
            .unwrap_err()
            .errno(),
        "ERANGE"
    );
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
