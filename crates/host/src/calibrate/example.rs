//! A calibration of round numbers, for tests here and in `lab`.

use super::{CalibrationRun, Messages, Points, Spread};

/// A hundred samples around a median.
pub(super) fn spread(median: f64) -> Spread {
    Spread {
        count: 100,
        min: median * 0.8,
        p10: median * 0.9,
        median,
        p90: median * 1.2,
        max: median * 3.0,
    }
}

/// A machine whose every part was measured, caches and siblings aside.
pub(super) fn example() -> CalibrationRun {
    CalibrationRun {
        syscall: spread(150.0),
        yield_switch: spread(1470.0),
        clock_read: spread(30.0),
        call_halves: (spread(80.0), spread(120.0)),
        clock_points: Points {
            wake: spread(375.0),
            wakee: spread(1825.0),
            block: spread(275.0),
            waker: spread(1575.0),
        },
        pipe_trip: spread(5400.0),
        process_trip: spread(5800.0),
        ring_hops: (spread(2200.0), spread(2600.0)),
        pipe_alone: spread(600.0),
        messages: Messages {
            pipe: spread(440.0),
            pipe_one: spread(520.0),
            unix: spread(1300.0),
            far: None,
            shared: None,
        },
        fork_exit: spread(80_000.0),
        idle_wake: Some((spread(3000.0), spread(13_000.0))),
        busy_wake: Some((spread(2500.0), spread(6020.0))),
        stalls: Some((spread(11_000.0), spread(2_300.0))),
        idle_exits: [
            9_520.0, 10_000.0, 11_000.0, 12_000.0, 20_000.0, 40_000.0, 60_000.0,
        ]
        .map(spread)
        .to_vec(),
        arming: (spread(1500.0), spread(1300.0)),
        tick: Some(spread(2900.0)),
        lateness: None,
        refills: [None, Some(spread(12_000.0)), None, None],
        hot_pass: Some(spread(8_000.0)),
        smt: Vec::new(),
        clock_mhz: spread(3000.0),
        steal_ratio: 0.0,
    }
}
