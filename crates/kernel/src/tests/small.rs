use super::world::{MS, World};
use crate::cpuset::CpuSet;
use crate::ids::*;
use crate::task::*;

#[test]
fn smoke() {
    let mut world = World::new("6.1", 2);
    world.checked = false;
    let first = world.group(GroupId::ROOT);
    let g2 = world.group(GroupId::ROOT);
    world.group(first);
    let mut spawn = |world: &mut World, group: u32, cpu: u32, nice: i32| {
        let t = world.start(TaskAttributes {
            policy: Policy::Normal,
            nice,
            rt_priority: 0,
            affinity: CpuSet::first(2),
            group: GroupId(group),
            address_space: Some(1),
            custom_slice_ns: None,
            cpu: Cpu(cpu),
        });
        println!("spawn {t:?} on {:?}", world.kernel.tasks[t.index()].cpu);
        t
    };
    let mut ts = vec![];
    ts.push(spawn(&mut world, 2, 0, -10));
    ts.push(spawn(&mut world, 0, 0, 0));
    ts.push(spawn(&mut world, 0, 0, 0));
    ts.push(spawn(&mut world, 2, 1, 0));
    world.block(Cpu(0));
    println!("curr {:?}", world.current(Cpu(0)));
    world.call(Cpu(0), |k, b| k.group_set_idle(b, Cpu(1), g2, true));
    println!("exit {:?}", world.current(Cpu(0)));
    world.exit(Cpu(0));
    ts.push(spawn(&mut world, 2, 0, 0));
    ts.push(spawn(&mut world, 0, 0, 0));
    ts.push(spawn(&mut world, 0, 0, 0));
    ts.push(spawn(&mut world, 0, 0, -13));
    for t in &ts {
        if world.asleep(*t) {
            world.wake(Cpu(0), *t);
        }
    }
    for i in 0..10 {
        world.advance(10 * MS);
        println!("--- {}", i);
        for t in &ts {
            let e = world.entity(*t);
            println!(
                "{t:?} cpu {:?} cfs_rq {:?} v {} w {} on {} run {}",
                world.kernel.tasks[t.index()].cpu,
                e.cfs_rq,
                e.vruntime
                    .wrapping_sub(world.kernel.cfs_rqs[e.cfs_rq.index()].min_vruntime)
                    as i64,
                e.load.weight,
                e.on_rq,
                world.runtime(*t)
            );
        }
        for q in &world.kernel.cfs_rqs {
            if let Some(se) = q.se {
                let e = &world.kernel.entities[se.index()];
                if e.on_rq {
                    println!(
                        "  group {:?} cpu {:?} v {} w {} tg {} contrib {} load {}",
                        q.group,
                        q.cpu,
                        e.vruntime
                            .wrapping_sub(world.kernel.cfs_rqs[e.cfs_rq.index()].min_vruntime)
                            as i64,
                        e.load.weight,
                        world.kernel.groups[q.group.index()].load_avg,
                        q.tg_load_avg_contrib,
                        q.avg.load_avg
                    );
                }
            }
        }
    }
}
