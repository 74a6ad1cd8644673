//! `wake_wide` and `record_wakee`.

use super::{PLAIN, busy, sleeper, wakeup};
use crate::select::wake_wide;
use crate::tests::world::*;

#[test]
fn wide_from_the_square_of_the_cache_on() {
    // LLC of 8: the smaller count must reach 8 and the larger 8 times the smaller.
    for (waker, wakee, wide) in [
        (63, 8, false),
        (64, 8, true),
        (8, 64, true),
        (1000, 7, false),
        (0, 0, false),
        (79, 10, false),
        (80, 10, true),
    ] {
        assert_eq!(wake_wide(waker, wakee, 8), wide, "{waker} {wakee}");
    }
    // An LLC of 1: any count of at least 1, since the larger never is smaller.
    assert!(wake_wide(1, 1, 1) && !wake_wide(1, 0, 1));
    // No overflow: 2^32 − 1 ≥ 2^31 · 2 fails, 2^31 · 1 holds.
    assert!(!wake_wide(u32::MAX, 1 << 31, 2));
}

#[test]
fn flips_count_changes_of_wakee_and_are_halved_after_a_second() {
    let mut world = World::new("6.12", 4);
    let (a, b) = (sleeper(&mut world, 1), sleeper(&mut world, 2));
    busy(&mut world, [0]);
    let waker = world.current(Cpu(0));
    let flips = |world: &World| world.kernel.tasks[waker].wakee_flips;
    // a, a, b, a, b: four changes, the first from no wakee.
    for wakee in [a, a, b, a, b] {
        wakeup(&mut world, 0, wakee, PLAIN);
    }
    assert_eq!(flips(&world), 4);
    // At one second nothing fades, past it the count is halved before the change counts: 4 / 2 + 1.
    world.advance_to(1000 * MS);
    wakeup(&mut world, 0, b, PLAIN);
    assert_eq!(flips(&world), 4);
    world.advance_to(1001 * MS);
    wakeup(&mut world, 0, a, PLAIN);
    assert_eq!(flips(&world), 3);
    // The next second starts here.
    world.advance_to(2001 * MS);
    wakeup(&mut world, 0, a, PLAIN);
    assert_eq!(flips(&world), 3);
    world.advance_to(2002 * MS);
    wakeup(&mut world, 0, a, PLAIN);
    assert_eq!(flips(&world), 1);
}

#[test]
fn a_child_begins_with_its_parents_flips() {
    let mut world = World::new("6.12", 4);
    let (a, b) = (sleeper(&mut world, 1), sleeper(&mut world, 2));
    busy(&mut world, [0, 3]);
    let (parent, child) = (world.current(Cpu(0)), world.current(Cpu(3)));
    for wakee in [a, b, a] {
        wakeup(&mut world, 0, wakee, PLAIN);
    }
    world.kernel.inherit_wakees(parent, child);
    let flips = |world: &World| world.kernel.tasks[child].wakee_flips;
    assert_eq!(flips(&world), 3);
    // The last wakee is inherited, too: waking it again is no change.
    wakeup(&mut world, 3, a, PLAIN);
    assert_eq!(flips(&world), 3);
    wakeup(&mut world, 3, b, PLAIN);
    assert_eq!(flips(&world), 4);
}

#[test]
fn wide_wakeups_stay_near_the_previous_cpu() {
    // LLC of 4, waker on idle-for-the-wakee CPU 0, wakee last on CPU 3: affine in sync, unless
    // wide.
    for (flips, expected) in [((16, 4), 3), ((15, 4), 0)] {
        let mut world = World::with("6.12", 4, |rules| rules.features.sis_util = false);
        let task = sleeper(&mut world, 3);
        busy(&mut world, [0, 1, 2, 3]);
        let waker = world.current(Cpu(0));
        world.kernel.tasks[waker].wakee_flips = flips.0;
        world.kernel.tasks[waker].last_wakee = Some(task);
        world.kernel.tasks[task].wakee_flips = flips.1;
        assert_eq!(wakeup(&mut world, 0, task, super::SYNC).0, expected);
    }
}
