//! Memory does not grow with simulated time, and events in steady state allocate nothing.
#![allow(unsafe_code)] // a counting allocator cannot be written without

mod common;

use common::*;
use schedcast_kernel::GroupId;
use schedcast_kernel::group::BandwidthLimit;
use schedcast_sim::workload::{GroupSpec, QueueSpec, TaskSpec};
use schedcast_sim::{Distribution, Reg, Workload, World, bench_workloads};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        LIVE_BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Throttled workers that talk, on two CPUs.
fn workload() -> Workload {
    let mut workload = Workload::default();
    let group = workload.add_group(GroupSpec {
        limit: BandwidthLimit::of_ms(30, 50, 10),
        ..GroupSpec::new("/g", GroupId::ROOT)
    });
    let draw = workload.add_distribution(Distribution::Exponential { mean: MS });
    let queue = workload.add_queue(QueueSpec {
        capacity_bytes: 1000,
        wake_sender_at_bytes: 500,
        ..QueueSpec::UNBOUNDED
    });
    let value = Reg(0);
    let sender = program(&mut workload, |b| {
        let top = b.here();
        b.sleep(draw);
        b.send(queue, 100, value, false);
        b.jump(top);
    });
    let receiver = program(&mut workload, |b| {
        let top = b.here();
        b.recv_timeout(queue, value, 5 * MS);
        b.work(draw);
        b.jump(top);
    });
    for program in [sender, receiver, sender, receiver] {
        workload.add_task(TaskSpec {
            group,
            ..TaskSpec::new("t", program)
        });
    }
    workload
}

#[test]
fn sixty_seconds_need_no_more_memory_than_ten() {
    let machine = bench_workloads::machine(2).unwrap();
    let mut world = World::new(machine, rules(2), workload(), 3).unwrap();
    world.run_until(10_000 * MS).unwrap();
    let bytes = LIVE_BYTES.load(Ordering::Relaxed);
    let allocations = ALLOCATIONS.load(Ordering::Relaxed);
    let wakeups = world.probes().machine.wakeups;
    world.run_until(60_000 * MS).unwrap();
    let bytes_more = LIVE_BYTES.load(Ordering::Relaxed) - bytes;
    let allocations_more = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
    let wakeups_more = world.probes().machine.wakeups - wakeups;
    // The tails of the drawn durations reach new buckets: some kilobytes.
    assert!(bytes_more < 64 << 10, "{bytes_more} more than {bytes}");
    // Histograms meet a new range of values now and then; nothing else may allocate.
    assert!(wakeups_more > 30_000, "{wakeups_more}: too quiet to tell");
    assert!(allocations_more < 100, "{allocations_more}");
}
