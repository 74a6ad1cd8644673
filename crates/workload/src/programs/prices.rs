//! Prices of the parts of a benchmark besides those of the scheduler and of a bare system call.
//!
//! Every price belongs to one system call or one user-space step, never to a benchmark, and was
//! measured alone, in a loop of one process that no other process talks to. The bare system call
//! (`getppid`, 157 ns there) is taken off, because the machine charges it already. Worked example:
//! writing 100 bytes into a pipe took 265 to 290 ns; less 157 that is 120, of which 7 are the
//! bytes.
//!
//! The defaults are medians of 101 batches on one CPU of a virtual AMD EPYC (2 CPUs, Linux 6.18,
//! November 2026), repeatable within 15 %. [`Prices::with`] puts another machine's in their place.

use std::collections::BTreeMap;

use schedcast_base::names::suggestion;

macro_rules! prices {
    ($($(#[$doc:meta])* $name:ident = $default:literal),* $(,)?) => {
        /// Prices by name; the unit ends the name (`_ns`, `_ps` for picoseconds).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Prices {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Default for Prices {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl Prices {
            /// Names of all prices.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            fn by_name(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

prices! {
    /// `write` of a short message into a pipe with room.
    pipe_write_ns = 115,
    /// `read` of a short message from a pipe that has one.
    pipe_read_ns = 110,
    /// Each byte copied into or out of a pipe.
    pipe_byte_ps = 67,
    /// `write` of a short message to a stream socket of the same host (allocates a buffer).
    unix_send_ns = 660,
    /// `read` of it (frees the buffer).
    unix_receive_ns = 655,
    /// Each byte copied into or out of a socket.
    unix_byte_ps = 90,
    /// Extra time of that `write` when the pipe was touched last by a reader on another CPU. This
    /// price and those that follow, down to `shared_files_ns`, are figures of the machine, 0 where
    /// they were not measured.
    pipe_write_transfer_ns = 0,
    /// Extra time of the `read` when the pipe was touched last on another CPU.
    pipe_read_transfer_ns = 0,
    /// Extra time of a `write` when the last one into the pipe was on another CPU.
    pipe_write_contended_ns = 0,
    /// Extra time of a `read` when only the message was written on another CPU.
    pipe_read_remote_ns = 0,
    /// Extra time of a `write` into an empty pipe: a page of its own, and a look for readers.
    pipe_write_empty_ns = 0,
    /// Extra time of the `read` that empties the pipe.
    pipe_read_last_ns = 0,
    /// The same for a `write` to a stream socket that was touched last by a reader on another CPU.
    unix_send_transfer_ns = 0,
    /// For the `read` of it,
    unix_receive_transfer_ns = 0,
    /// for a `write` after one on another CPU,
    unix_send_contended_ns = 0,
    /// and for the `read` of a message that was written there.
    unix_receive_remote_ns = 0,
    /// Extra time of a `write` to a stream socket when its buffer is in none of this CPU's own
    /// caches. That holds for those waiting messages for which `message_cache_kib` has no room.
    unix_send_far_ns = 0,
    /// Extra time of the `read` in the same case.
    unix_receive_far_ns = 0,
    /// The cache of a CPU that keeps waiting messages. 0: all are kept.
    message_cache_kib = 0,
    /// Extra time of a `read` or `write` of a pipe or a socket in a process of several threads,
    /// which share their descriptors.
    shared_files_ns = 0,
    /// CPU time of perf before its benchmark begins: `perf bench sched pipe -T -l 1` takes 7.1 ms
    /// (6.5 to 8.3).
    perf_start_ns = 7_000_000,
    /// Extra time of a fork of `perf bench sched messaging` over that of a small process: 40 more
    /// processes take main 9.3 ms until "go", those of hackbench 2.8 (one message each, 1 to 8
    /// groups, medians of 12).
    perf_fork_ns = 164_000,
    /// Extra time of its children to end, for the destructors of perf's 27 libraries and the pages
    /// that they touch: 40 more of them take 26 ms of CPU time from "go" on, 40 more of hackbench's
    /// 6.
    perf_exit_ns = 500_000,
    /// `sendto` of a short datagram over loopback, the receive softirq in it.
    udp_send_ns = 2020,
    /// `recvfrom` of it.
    udp_receive_ns = 350,
    /// `send` of a short message over a loopback TCP connection, with the softirq that receives it.
    tcp_send_ns = 2830,
    /// `recv` of it, when the acknowledgement can go with the answer.
    tcp_receive_ns = 450,
    /// Acknowledgement that goes alone, with its softirq.
    tcp_acknowledge_ns = 2200,
    /// Each byte copied into or out of a network buffer, in cache.
    net_byte_ps = 15,
    /// Netperf's own work between two calls.
    netperf_round_ns = 100,
    /// `poll` of one descriptor, without waiting.
    poll_ns = 165,
    /// A look at the clock (`gettimeofday`, in user space).
    clock_read_ns = 25,
    /// Each byte of a `memset`.
    memset_byte_ps = 10,
    /// One multiply-and-add of schbench's matrix product (k³ of them; 670 to 900 were seen).
    matrix_step_ps = 800,
    /// Bookkeeping of one cyclictest round after the clock was read.
    cyclictest_round_ns = 300,
    /// One line written to a terminal.
    print_line_ns = 5000,
    /// One operation of dbench's load, `fsync` aside: 993 MB/s on tmpfs are 451 µs for the 82.5
    /// operations between two flushes, 5.47 µs each.
    dbench_operation_ns = 5470,
    /// `fsync` until its data is submitted.
    fsync_ns = 12_000,
    /// Small write of the storage device until its interrupt: a fast flash disk with a write cache.
    storage_write_ns = 20_000,
    /// Requests the storage device serves at a time; 0 = any number.
    storage_channels = 0,
    /// Commit of ext4's journal thread.
    jbd2_commit_ns = 20_000,
    /// XFS worker for a completed write to a file that has grown.
    xfs_data_done_ns = 4000,
    /// XFS worker that pushes a checkpoint into a log buffer.
    xfs_push_ns = 8000,
    /// Submitting a log buffer.
    xfs_log_submit_ns = 4000,
    /// XFS worker for a log buffer that is on disk.
    xfs_log_done_ns = 3000,
    /// CPU time of a new PostgreSQL backend until it greets its client.
    postgres_connect_ns = 1_500_000,
    /// Extra time of a backend's first statement, until its caches know the tables: first
    /// transactions of `pgbench -S` on one CPU took 452 to 493 µs, the sixth 31 to 43.
    postgres_first_statement_ns = 420_000,
    /// Writing a commit's log records to the file, before the disk is asked to keep them.
    postgres_wal_write_ns = 15_000,
    /// Cost of a wait for a row lock to the server besides sleeping and waking. On one CPU an
    /// update of a row that all clients share took 31 µs longer than one of a row each with two
    /// clients, which wait 1.0 times a transaction, and 72 with four, which wait 2.6 times: 28 a
    /// wait. Sleeping and waking are 9 of them, and PostgreSQL's work took 1.8 times the table's.
    postgres_lock_wait_ns = 11_000,
    /// CPU time of pgbench itself for one statement.
    pgbench_statement_ns = 3200,
    /// CPU time of a backend for one transaction of `pgbench -S`.
    pgbench_select_ns = 11_500,
    /// … of `pgbench -N`: on one CPU the server took 115 to 126 µs for one, 157 to 165 for one of
    /// `pgbench`.
    pgbench_simple_update_ns = 83_000,
    /// … of `pgbench`.
    pgbench_tpcb_ns = 115_000,
    /// Part of it that is left with `-M extended`, in thousandths.
    pgbench_extended_permille = 1140,
    /// … with `-M prepared`.
    pgbench_prepared_permille = 420,
    /// One trial division of `sysbench cpu`.
    sysbench_division_ps = 1720,
    /// CPU time of a thread of `sysbench oltp_*` itself for one statement.
    sysbench_statement_ns = 3200,
    /// CPU time of a backend for a BEGIN of sysbench, or a COMMIT.
    sysbench_begin_ns = 300,
    /// … for a select of one row.
    sysbench_point_select_ns = 3300,
    /// … for a select of a range of 100 rows.
    sysbench_simple_range_ns = 18_300,
    /// … for the sum over a range of 100 rows.
    sysbench_sum_range_ns = 14_400,
    /// … for a sorted select of a range of 100 rows.
    sysbench_order_range_ns = 39_000,
    /// … for a sorted select without doubles of a range of 100 rows.
    sysbench_distinct_range_ns = 44_000,
    /// … for an update of an indexed column.
    sysbench_update_index_ns = 24_000,
    /// … for an update of another column.
    sysbench_update_non_index_ns = 15_000,
    /// … for a delete.
    sysbench_delete_ns = 7000,
    /// … for an insert.
    sysbench_insert_ns = 10_000,
    /// CPU time of wrk itself for one request: its HTTP parser and four calls that only ask.
    wrk_request_ns = 6100,
    /// CPU time of nginx for a small file besides receiving the request and sending the reply.
    nginx_request_ns = 6500,
    /// A `write` to a file whose pages are in memory: 1 KB records take 0.96 µs on ext4, less the
    /// bytes.
    file_write_call_ns = 680,
    /// Each byte of it: 64 KB records at 12.1 GB/s.
    file_write_byte_ps = 79,
    /// Each byte of a `write` that makes a file longer, with its new pages: 64 KB records at
    /// 4.7 GB/s.
    file_extend_byte_ps = 200,
    /// A `read` from a file whose pages are in memory: 1 KB records take 0.65 µs.
    file_read_call_ns = 440,
    /// Each byte of it: 64 KB records at 18.7 GB/s.
    file_read_byte_ps = 50,
    /// Time for a page of which a call writes or reads only a part, as if it were the whole.
    file_page_ns = 0,
    /// How much of the bytes' time is waiting for memory at the nominal clock, %: it stays when the
    /// clock changes.
    file_memory_percent = 0,
    /// Each byte that goes to the storage device (2 GB/s), where much of it is written at once.
    storage_byte_ps = 500,
    /// CPU time for each byte that `fsync` writes back: 205.5 MB took 9.6 ms (6.6 to 11.4).
    write_back_byte_ps = 47,
    /// Each byte of a file that is freed, its pages taken out of the page cache: 205.5 MB took
    /// 13.6 ms.
    file_free_byte_ps = 66,
    /// Mean of what the disk takes longer for the commit that frees a large file's blocks; 0: no
    /// longer.
    file_free_commit_ns = 0,
    /// PostgreSQL's statements against the tables', in thousandths: 2000 is a machine of half the
    /// speed.
    postgres_permille = 1000,
    /// Duration of a loop of rt-app while it runs, in thousandths of the duration that its
    /// calibration found before: calibration keeps the fastest of its tries and whole nanoseconds.
    /// For files that ask for a calibration.
    rt_app_loop_permille = 1000,
    /// stress-ng's methods against the table's, in thousandths: 2000 is a machine of half the
    /// speed.
    stress_ng_permille = 1000,
}

impl Prices {
    /// The defaults with those of a machine description in their place.
    ///
    /// # Errors
    /// A name that is no price, with the nearest one.
    pub fn with(overrides: &BTreeMap<String, u64>) -> Result<Self, String> {
        let mut prices = Self::default();
        for (name, value) in overrides {
            match prices.by_name(name) {
                Some(price) => *price = *value,
                None => {
                    let hint = suggestion(name, Self::NAMES);
                    return Err(format!("unknown price `{name}`; {hint}"));
                }
            }
        }
        Ok(prices)
    }

    /// These prices on a machine that has some of its own. A price changed here, for one command,
    /// takes precedence over the machine's; a price at its default gives way to it.
    ///
    /// # Errors
    /// A name that is no price, with the nearest one.
    pub fn on_machine(mut self, machine: &BTreeMap<String, u64>) -> Result<Self, String> {
        let mut defaults = Self::default();
        let mut machines = Self::with(machine)?;
        for name in machine.keys() {
            if let (Some(own), Some(default), Some(machines)) = (
                self.by_name(name),
                defaults.by_name(name),
                machines.by_name(name),
            ) && own == default
            {
                *own = *machines;
            }
        }
        Ok(self)
    }

    /// Writing so many bytes into a pipe.
    pub(crate) fn pipe_write(&self, bytes: u64) -> u64 {
        self.pipe_write_ns + bytes.saturating_mul(self.pipe_byte_ps) / 1000
    }

    /// Reading so many bytes from a pipe.
    pub(crate) fn pipe_read(&self, bytes: u64) -> u64 {
        self.pipe_read_ns + bytes.saturating_mul(self.pipe_byte_ps) / 1000
    }

    /// Writing so many bytes to a socket.
    pub(crate) fn unix_send(&self, bytes: u64) -> u64 {
        self.unix_send_ns + bytes.saturating_mul(self.unix_byte_ps) / 1000
    }

    /// Extra time of each call for a pipe or a socket, by whether the caller is one of several
    /// threads, ns.
    pub fn descriptor(&self, threads: bool) -> u64 {
        if threads { self.shared_files_ns } else { 0 }
    }

    /// Sending a datagram of so many bytes over loopback.
    pub(crate) fn udp_send(&self, bytes: u64) -> u64 {
        self.udp_send_ns + self.net_bytes(bytes)
    }

    /// Receiving it.
    pub(crate) fn udp_receive(&self, bytes: u64) -> u64 {
        self.udp_receive_ns + self.net_bytes(bytes)
    }

    /// Sending so many bytes over a loopback TCP connection.
    pub(crate) fn tcp_send(&self, bytes: u64) -> u64 {
        self.tcp_send_ns + self.net_bytes(bytes)
    }

    /// Receiving them.
    pub(crate) fn tcp_receive(&self, bytes: u64) -> u64 {
        self.tcp_receive_ns + self.net_bytes(bytes)
    }

    fn net_bytes(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.net_byte_ps) / 1000
    }

    /// Reading so many bytes from a socket.
    pub(crate) fn unix_receive(&self, bytes: u64) -> u64 {
        self.unix_receive_ns + bytes.saturating_mul(self.unix_byte_ps) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_cost_on_top_of_the_call() {
        let prices = Prices::default();
        assert_eq!(prices.pipe_write(100), 115 + 6);
        assert_eq!(prices.unix_receive(4000), 655 + 360);
    }

    #[test]
    fn a_machine_overrides_by_name() {
        let table = |name: &str| BTreeMap::from([(name.to_owned(), 7)]);
        let prices = Prices::with(&table("poll_ns")).unwrap();
        assert_eq!((prices.poll_ns, prices.pipe_read_ns), (7, 110));
        assert_eq!(
            Prices::with(&table("pol_ns")).unwrap_err(),
            "unknown price `pol_ns`; nearest valid name: `poll_ns`"
        );
        assert_eq!(Prices::NAMES.len(), 83);
    }

    #[test]
    fn a_command_wins_over_the_machine() {
        let table = |name: &str, value| BTreeMap::from([(name.to_owned(), value)]);
        let machine = table("poll_ns", 300);
        let plain = Prices::default().on_machine(&machine).unwrap();
        assert_eq!(plain.poll_ns, 300);
        let own = Prices::with(&table("poll_ns", 9)).unwrap();
        assert_eq!(own.on_machine(&machine).unwrap().poll_ns, 9);
        assert!(own.on_machine(&table("pol_ns", 1)).is_err());
    }
}
