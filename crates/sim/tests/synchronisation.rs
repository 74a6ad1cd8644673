//! Instructions that wait for other tasks: semaphores, queues, words, locks, conditions and
//! barriers.

mod common;

use common::*;
use schedcast_kernel::task::Policy;
use schedcast_sim::program::TIMED_OUT;
use schedcast_sim::workload::{PageWakes, QueueCosts, QueueSpec, SenderWakes, TaskSpec};
use schedcast_sim::{Reg, Workload};

const A: Reg = Reg(0);
const B: Reg = Reg(1);

#[test]
fn semaphores_remember() {
    let mut workload = Workload::default();
    let semaphore = workload.add_semaphore(1);
    task(&mut workload, "waiter", 0, |b| {
        b.sem_wait(semaphore); // the initial one
        b.mark(1);
        b.sem_wait(semaphore);
        b.mark(2);
        b.sleep(10 * MS);
        b.sem_wait(semaphore); // posted while asleep
        b.mark(3);
    });
    task(&mut workload, "poster", 1, |b| {
        b.work(4 * MS);
        b.sem_post(semaphore);
        b.work(4 * MS);
        b.sem_post(semaphore);
    });
    let world = free_world(2, workload).ran_until(50 * MS);
    assert_eq!(marks(&world), [(0, 1), (4 * MS, 2), (14 * MS, 3)]);
}

#[test]
fn futexes_wake_by_real_time_priority_and_queues_in_order_of_arrival() {
    // Fair, FIFO 5, fair, FIFO 9 and FIFO 5 begin to wait in this order.
    let waiters = [0, 5, 0, 9, 5];
    let woken = |on_queue: bool| -> Vec<u16> {
        let mut workload = Workload::default();
        let semaphore = workload.add_semaphore(0);
        let queue = workload.add_queue(QueueSpec::UNBOUNDED);
        for (row, rt_priority) in waiters.into_iter().enumerate() {
            let waiter = program(&mut workload, |b| {
                b.sleep((1 + row as u64) * MS);
                if on_queue {
                    b.recv(queue, A);
                } else {
                    b.sem_wait(semaphore);
                }
                b.mark(row as u16);
            });
            let policy = if rt_priority > 0 {
                Policy::Fifo
            } else {
                Policy::Normal
            };
            workload.add_task(TaskSpec {
                policy,
                rt_priority,
                ..pinned("waiter", waiter, row as u32)
            });
        }
        task(&mut workload, "poster", waiters.len() as u32, |b| {
            for _ in waiters {
                b.work(10 * MS);
                b.set(A, 1);
                if on_queue {
                    b.send(queue, 1, A, false);
                } else {
                    b.sem_post(semaphore);
                }
            }
        });
        let world = free_world(waiters.len() + 1, workload).ran_until(100 * MS);
        marks(&world).into_iter().map(|(_, mark)| mark).collect()
    };
    assert_eq!(woken(false), [3, 1, 4, 0, 2]);
    assert_eq!(woken(true), [0, 1, 2, 3, 4]);
}

#[test]
fn queues_block_both_sides() {
    let mut workload = Workload::default();
    let queue = workload.add_queue(QueueSpec {
        capacity_bytes: 100,
        overhead_bytes: 10,
        wake_sender_at_bytes: 50,
        wake_sender_sync: true,
        sender_wakes: SenderWakes::One,
        ..QueueSpec::UNBOUNDED
    });
    task(&mut workload, "sender", 0, |b| {
        for value in 1..=3 {
            b.set(A, value);
            b.send(queue, 30, A, false); // 40 with overhead: two fit
            b.mark(value as u16);
        }
    });
    task(&mut workload, "receiver", 1, |b| {
        b.sleep(5 * MS);
        b.recv(queue, A); // 40 left, at most 50: the sender may go on
        b.log(10, A, 1);
        b.work(MS);
        b.recv(queue, A);
        b.log(10, A, 1);
        b.recv(queue, A);
        b.log(10, A, 1);
        b.recv(queue, A); // nothing comes
        b.mark(11);
    });
    let world = free_world(2, workload).ran_until(50 * MS);
    assert_eq!(
        marks_in(MS, &world),
        [(0, 1), (0, 2), (5, 10), (5, 3), (6, 10), (6, 10)]
    );
    assert_eq!(values(&world, 10), [[1], [2], [3]]);
}

/// A pipe of four pages with two messages each is full; two senders wait for room, a receiver takes
/// one message a millisecond from 10 ms on. Returns the order and times of sends, and how often
/// both senders were woken, the end of their sleep included.
fn senders_of_a_full_pipe(wakes: PageWakes) -> (Vec<(u64, u16)>, u64) {
    let mut workload = Workload::default();
    let queue = workload.add_queue(QueueSpec {
        capacity_bytes: 80,
        wake_sender_at_bytes: 60,
        sender_wakes: SenderWakes::Page(wakes),
        ..QueueSpec::UNBOUNDED
    });
    task(&mut workload, "filler", 0, |b| {
        for _ in 0..8 {
            b.send(queue, 10, A, false);
        }
    });
    for number in [1, 2] {
        task(&mut workload, "sender", number, |b| {
            b.sleep(u64::from(number) * MS);
            b.send(queue, 10, A, false);
            b.mark(number as u16);
        });
    }
    task(&mut workload, "receiver", 3, |b| {
        b.sleep(10 * MS);
        for _ in 0..4 {
            b.recv(queue, A);
            b.work(MS);
        }
    });
    let world = free_world(4, workload).ran_until(50 * MS);
    let wakeups = world.probes().of("sender").unwrap().wakeups;
    (marks(&world), wakeups)
}

#[test]
fn a_sender_that_waited_for_a_pipe_needs_a_page_of_its_own() {
    // The second read frees a page, which the first sender's message takes; the third frees the
    // next, because the pipe is full while more than six messages are in it.
    let in_turn = vec![(11 * MS, 1), (12 * MS, 2)];
    assert_eq!(senders_of_a_full_pipe(PageWakes::One), (in_turn.clone(), 4));
    // Both are woken by the second read, and the second finds the page taken.
    assert_eq!(senders_of_a_full_pipe(PageWakes::All), (in_turn, 5));
    // The first read wakes the first sender in vain, who goes to the end of the line.
    let overtaken = vec![(11 * MS, 2), (12 * MS, 1)];
    assert_eq!(senders_of_a_full_pipe(PageWakes::OneInVain), (overtaken, 5));
}

#[test]
fn one_receiver_per_message_in_order() {
    let mut workload = Workload::default();
    let queue = workload.add_queue(QueueSpec::UNBOUNDED);
    for (name, cpu) in [("first", 0), ("second", 1)] {
        task(&mut workload, name, cpu, |b| {
            b.sleep(u64::from(cpu) * MS);
            b.recv(queue, A);
            b.log(1, A, 1);
        });
    }
    task(&mut workload, "sender", 2, |b| {
        for value in [7, 8] {
            b.work(3 * MS);
            b.set(A, value);
            b.send(queue, 1, A, true);
        }
    });
    let world = free_world(3, workload).ran_until(50 * MS);
    let rows: Vec<_> = rows(&world)
        .into_iter()
        .map(|row| (row.0, row.1, row.3))
        .collect();
    assert_eq!(
        rows,
        [
            (3 * MS, "first".to_owned(), vec![7]),
            (6 * MS, "second".to_owned(), vec![8])
        ]
    );
}

#[test]
fn receiving_with_a_time_limit() {
    let mut workload = Workload::default();
    let queue = workload.add_queue(QueueSpec::UNBOUNDED);
    task(&mut workload, "receiver", 0, |b| {
        b.recv_timeout(queue, A, 0);
        b.log(1, A, 1);
        b.recv_timeout(queue, A, 2 * MS);
        b.log(2, A, 1);
        b.recv_timeout(queue, A, 5 * MS);
        b.log(3, A, 1);
        b.sleep(10 * MS); // an old time limit must not end this sleep
        b.mark(4);
        let empty = b.label();
        b.try_recv(queue, A, empty);
        b.log(5, A, 1);
        b.try_recv(queue, A, empty);
        b.mark(6);
        b.bind(empty);
        b.mark(7);
    });
    task(&mut workload, "sender", 1, |b| {
        b.set(A, 9);
        b.work(3 * MS);
        b.send(queue, 1, A, false);
        b.work(3 * MS);
        b.send(queue, 1, A, false);
    });
    let world = free_world(2, workload).ran_until(50 * MS);
    assert_eq!(
        marks_in(MS, &world),
        [(0, 1), (2, 2), (3, 3), (13, 4), (13, 5), (13, 7)]
    );
    assert_eq!(values(&world, 1), [[TIMED_OUT]]);
    assert_eq!(values(&world, 2), [[TIMED_OUT]]);
    assert_eq!(values(&world, 3), [[9]]);
    assert_eq!(values(&world, 5), [[9]]);
}

#[test]
fn words_wait_only_for_the_expected_value() {
    let mut workload = Workload::default();
    let word = workload.add_word(5);
    task(&mut workload, "waiter", 0, |b| {
        b.word_wait(word, 4); // is 5: returns
        b.mark(1);
        b.word_wait(word, 5);
        b.mark(2);
        b.word_load(word, A);
        b.log(3, A, 1);
    });
    task(&mut workload, "waker", 1, |b| {
        b.work(2 * MS);
        b.word_store(word, 8);
        b.word_fetch_add(word, 3, A);
        b.log(4, A, 1);
        b.work(MS);
        b.word_wake(word, 1);
    });
    let world = free_world(2, workload).ran_until(50 * MS);
    assert_eq!(marks_in(MS, &world), [(0, 1), (2, 4), (3, 2), (3, 3)]);
    assert_eq!(values(&world, 4), [[8]]);
    assert_eq!(values(&world, 3), [[11]]);
}

#[test]
fn wake_counts_are_respected() {
    let mut workload = Workload::default();
    let word = workload.add_word(0);
    for cpu in 0..3 {
        task(&mut workload, "waiter", cpu, |b| {
            b.word_wait(word, 0);
            b.mark(1);
        });
    }
    task(&mut workload, "waker", 3, |b| {
        b.work(MS);
        b.word_wake(word, 2);
        b.work(MS);
        b.word_wake(word, 2);
    });
    let world = free_world(4, workload).ran_until(50 * MS);
    assert_eq!(marks(&world), [(MS, 1), (MS, 1), (2 * MS, 1)]);
}

#[test]
fn mutexes_exclude_and_serve_waiters_in_order() {
    let mut workload = Workload::default();
    let mutex = workload.add_mutex();
    for cpu in 0..3 {
        task(&mut workload, "t", cpu, |b| {
            b.work(u64::from(cpu) * 10 * US);
            b.lock(mutex);
            b.work(MS);
            b.unlock(mutex);
            b.get_cpu(A);
            b.log(1, A, 1);
        });
    }
    let world = free_world(3, workload).ran_until(50 * MS);
    assert_eq!(marks(&world), [(MS, 1), (2 * MS, 1), (3 * MS, 1)]);
    assert_eq!(values(&world, 1), [[0], [1], [2]]);
}

#[test]
fn conditions_release_the_mutex_while_waiting_and_have_no_memory() {
    let mut workload = Workload::default();
    let (mutex, condition) = (workload.add_mutex(), workload.add_condition());
    for cpu in 0..2 {
        task(&mut workload, "waiter", cpu, |b| {
            b.sleep(MS);
            b.lock(mutex);
            b.condition_wait(condition, mutex);
            b.mark(1);
            b.work(MS); // with the mutex
            b.unlock(mutex);
        });
    }
    task(&mut workload, "signaller", 2, |b| {
        b.signal(condition); // nobody waits: lost
        b.work(5 * MS);
        b.lock(mutex); // free: both wait
        b.broadcast(condition);
        b.work(2 * MS);
        b.unlock(mutex);
    });
    let world = free_world(3, workload).ran_until(50 * MS);
    // Both are woken at 5 ms, one gets the mutex at 7, the other when that one has worked.
    assert_eq!(marks(&world), [(7 * MS, 1), (8 * MS, 1)]);
}

#[test]
fn barriers_open_when_all_have_come_and_close_again() {
    let mut workload = Workload::default();
    let barrier = workload.add_barrier(3);
    for cpu in 0..3 {
        task(&mut workload, "t", cpu, |b| {
            for _ in 0..2 {
                b.work(u64::from(cpu + 1) * MS);
                b.barrier(barrier);
                b.mark(1);
            }
        });
    }
    let world = free_world(3, workload).ran_until(50 * MS);
    let times: Vec<u64> = marks(&world).into_iter().map(|mark| mark.0).collect();
    assert_eq!(times, [3 * MS, 3 * MS, 3 * MS, 6 * MS, 6 * MS, 6 * MS]);
}

#[test]
fn lines_of_a_queue_travel_between_cpus() {
    // A send that finds the queue's lines on the other CPU takes 50 µs longer, a receive 200; who
    // touched it last himself pays nothing.
    let mut workload = Workload::default();
    let queue = workload.add_queue(QueueSpec {
        costs: QueueCosts {
            send_transfer_ns: 50 * US,
            receive_transfer_ns: 200 * US,
            ..QueueCosts::NONE
        },
        ..QueueSpec::UNBOUNDED
    });
    task(&mut workload, "sender", 0, |b| {
        b.send(queue, 1, A, false);
        b.send(queue, 1, A, false);
        b.mark(1); // the first two: nobody else was there
        b.set(B, 2 * MS);
        b.sleep_until(B);
        b.send(queue, 1, A, false);
        b.mark(2);
    });
    task(&mut workload, "receiver", 1, |b| {
        b.sleep(MS);
        b.recv(queue, A);
        b.mark(3);
        b.recv(queue, A);
        b.mark(4);
    });
    let world = free_world(2, workload).ran_until(5 * MS);
    assert_eq!(
        marks_in(US, &world),
        [(0, 1), (1200, 3), (1200, 4), (2050, 2)]
    );
}

#[test]
fn tasks_are_charged_with_what_they_ran() {
    let mut workload = Workload::default();
    task(&mut workload, "worker", 0, |b| b.work(3 * MS));
    let mut world = free_world(1, workload).ran_until(2 * MS);
    let charged = |world: &schedcast_sim::World| world.probes().of("worker").unwrap().charged_ns;
    let all = |world: &schedcast_sim::World| world.probes().of("worker").unwrap().all_charged_ns();
    assert_eq!(charged(&world), 0);
    // Up to the last tick, which was at 0.
    let early = all(&world);
    assert!(early <= 2 * MS, "{early}");
    world.run_until(10 * MS).unwrap();
    assert_eq!((charged(&world), all(&world)), (3 * MS, 3 * MS));
}

#[test]
fn a_send_after_one_of_another_cpu_is_contended_and_its_message_is_remote() {
    let mut workload = Workload::default();
    let queue = workload.add_queue(QueueSpec {
        costs: QueueCosts {
            send_contended_ns: 50 * US,
            receive_remote_ns: 200 * US,
            ..QueueCosts::NONE
        },
        ..QueueSpec::UNBOUNDED
    });
    task(&mut workload, "first", 0, |b| {
        b.send(queue, 1, A, false);
        b.send(queue, 1, A, false);
        b.mark(1); // nobody sent before
    });
    task(&mut workload, "second", 1, |b| {
        b.sleep(MS);
        b.send(queue, 1, A, false);
        b.send(queue, 1, A, false);
        b.mark(2); // the first of them is contended
        b.set(B, 2 * MS);
        b.sleep_until(B);
        for _ in 0..2 {
            b.recv(queue, A);
            b.mark(3); // messages of CPU 0
        }
        for _ in 0..2 {
            b.recv(queue, A);
            b.mark(4); // own ones
        }
    });
    let world = free_world(2, workload).ran_until(5 * MS);
    assert_eq!(
        marks_in(US, &world),
        [
            (0, 1),
            (1050, 2),
            (2200, 3),
            (2400, 3),
            (2400, 4),
            (2400, 4)
        ]
    );
}

#[test]
fn an_empty_queue_and_messages_that_left_the_cache_take_longer() {
    let mut workload = Workload::default();
    let costs = QueueCosts {
        send_empty_ns: 10 * US,
        receive_last_ns: 20 * US,
        send_far_ns: 100 * US,
        receive_far_ns: 400 * US,
        cache_bytes: 1000,
        ..QueueCosts::NONE
    };
    let queues = [0, 1].map(|_| {
        workload.add_queue(QueueSpec {
            costs,
            ..QueueSpec::UNBOUNDED
        })
    });
    task(&mut workload, "alone", 0, |b| {
        b.send(queues[0], 1000, A, false);
        b.mark(1); // empty
        b.send(queues[1], 1000, A, false);
        b.mark(2); // empty; 1000 bytes wait, which the cache keeps
        b.send(queues[0], 1000, A, false);
        b.mark(3); // half of 2000 are further away
        b.recv(queues[0], A);
        b.mark(4); // two thirds of 3000
        b.recv(queues[0], A);
        b.mark(5); // the last, half of 2000
    });
    let world = free_world(1, workload).ran_until(5 * MS);
    let times: Vec<u64> = marks(&world).into_iter().map(|mark| mark.0).collect();
    let steps = [10_000, 10_000, 50_000, 266_666, 220_000];
    let mut at = 0;
    let expected = steps.map(|step| {
        at += step;
        at
    });
    assert_eq!(times, expected);
}
