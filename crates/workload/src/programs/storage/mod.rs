//! File systems as the scheduler sees them: who wakes whom when a file is made durable.
//!
//! A file system brings kernel threads and a device; [`Storage::fsync`] is what one task executes
//! when it calls `fsync`. Tasks of one program share the file system, so their commits are grouped
//! as the kernel groups them: a task that comes while a commit is under way waits for the next one,
//! which takes all of them.
//!
//! | file system | chain of one `fsync` |
//! |---|---|
//! | [`xfs`] | data I/O → task, by a worker of the interrupted CPU if the file has grown; log push worker → task; log I/O → log worker of the interrupted CPU → task |
//! | [`ext4`] | data I/O → task; journal thread, which waits for two writes → all tasks of the commit |
//! | tmpfs | none: nothing is durable |
//!
//! Worked example, one task on XFS and CPU 3, Linux 4.15, a file that has grown: it submits its
//! data on CPU 3 and sleeps. The interrupt wakes `kworker/3`, which wakes the task. CPU 3 is not
//! idle (the worker is running), so `select_idle_sibling` goes on to CPU 4. There the same happens
//! with the log: CPU 5.

mod ext4;
mod workers;
mod xfs;

use schedcast_sim::workload::{DeviceId, DeviceSpec, Interrupts, QueueId, QueueSpec};
use schedcast_sim::{Distribution, ProgramBuilder, Reg};

use super::command::{CommandError, Given};
use super::start::Compiler;

/// A file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// ext4 with ordered data.
    Ext4,
    /// XFS.
    Xfs,
    /// Memory only.
    Tmpfs,
}

impl FileSystem {
    /// Reads a name.
    ///
    /// # Errors
    /// Another name, with the nearest one.
    pub(crate) fn read(given: Option<&Given>) -> Result<Self, CommandError> {
        let known = [
            ("ext4", Self::Ext4),
            ("tmpfs", Self::Tmpfs),
            ("xfs", Self::Xfs),
        ];
        given.map_or(Ok(Self::Ext4), |given| given.one_of("file system", &known))
    }
}

/// Registers of a task that `fsync` uses; programs keep theirs below.
pub(in crate::programs) mod reg {

    use crate::registers::registers;

    registers! { 32 => pub(crate),
        /// Queue of this task, on which its own requests are answered. Set once at the start.
        REPLY
        /// Commit that holds what the task wrote.
        COMMIT SEEN ADDRESS SLOT
    }
}

/// The kernel's part of one mounted file system.
pub(in crate::programs) struct Storage {
    kind: Kind,
    /// CPU time of the task per `fsync`: finding and submitting dirty pages.
    fsync_ns: u64,
    storage_byte_ps: u64,
    write_back_byte_ps: u64,
}

/// Largest request to a device (`max_sectors_kb` of 4.3 and later, if the device allows it).
const REQUEST_BYTES: u64 = 1280 * 1024;

enum Kind {
    Ext4(ext4::Ext4),
    Xfs(xfs::Xfs),
    Tmpfs,
}

impl Storage {
    /// Adds threads and device of a file system to the workload.
    pub(super) fn mount(
        compiler: &mut Compiler,
        file_system: FileSystem,
    ) -> Result<Self, CommandError> {
        let kind = match file_system {
            FileSystem::Ext4 => Kind::Ext4(ext4::Ext4::mount(compiler)?),
            FileSystem::Xfs => Kind::Xfs(xfs::Xfs::mount(compiler)?),
            FileSystem::Tmpfs => Kind::Tmpfs,
        };
        let prices = compiler.start.prices;
        Ok(Self {
            kind,
            fsync_ns: prices.fsync_ns,
            storage_byte_ps: prices.storage_byte_ps,
            write_back_byte_ps: prices.write_back_byte_ps,
        })
    }

    /// Where the data of large files goes: the same disk, one request at a time.
    pub(super) fn stream(compiler: &mut Compiler) -> DeviceId {
        compiler
            .workload
            .add_device(DeviceSpec::new("disk-stream", 1, Interrupts::Submitter))
    }

    /// Writes so many dirty bytes of a file back and waits for them, one request after the other
    /// (`filemap_write_and_wait_range`). Worked example: 205 MB are 157 requests; at 100 MB/s one
    /// ends every 13 ms, and the task looks through its 320 pages and sleeps again. `left` is a
    /// register it may use.
    pub(crate) fn write_back(
        &self,
        b: &mut ProgramBuilder,
        stream: DeviceId,
        bytes: u64,
        left: Reg,
    ) {
        let requests = bytes.div_ceil(REQUEST_BYTES);
        if requests == 0 || matches!(self.kind, Kind::Tmpfs) {
            return;
        }
        let request_bytes = bytes / requests;
        let part_ns = request_bytes.saturating_mul(self.write_back_byte_ps) / 2000;
        b.repeat(left, requests, |b| {
            b.kernel_work(part_ns);
            let service_ns = request_bytes.saturating_mul(self.storage_byte_ps) / 1000;
            b.submit(stream, service_ns, reg::REPLY, reg::REPLY);
        });
        b.repeat(left, requests, |b| {
            b.recv_io(reg::REPLY, reg::SEEN);
            b.kernel_work(part_ns);
        });
    }

    /// Gives the task that is being written a queue of its own: `first` + the number in `ordinal`.
    pub(super) fn begin(&self, b: &mut ProgramBuilder, first: QueueId, ordinal: Reg) {
        b.set(reg::REPLY, ordinal);
        b.add(reg::REPLY, u64::from(first.0));
    }

    /// `fsync` of a file with dirty pages; `grown` is not 0 when the file is longer than on disk.
    pub(super) fn fsync(&self, b: &mut ProgramBuilder, grown: Reg) {
        match &self.kind {
            Kind::Ext4(ext4) => {
                b.work(self.fsync_ns);
                ext4.fsync(b);
            }
            Kind::Xfs(xfs) => {
                b.work(self.fsync_ns);
                xfs.fsync(b, grown);
            }
            Kind::Tmpfs => {}
        }
    }
}

/// Queues in a row for tasks that wait for their own requests.
pub(in crate::programs) fn reply_queues(compiler: &mut Compiler, count: u64) -> QueueId {
    workers::queues(compiler, count)
}

/// The disk, with the time one write takes.
struct Disk {
    device: DeviceId,
    write: schedcast_sim::workload::DistributionId,
}

impl Disk {
    /// Service times vary by a fifth to both sides, as those of flash do at low load.
    fn add(compiler: &mut Compiler, name: &str) -> Self {
        let prices = &compiler.start.prices;
        let write_ns = prices.storage_write_ns;
        let channels = u32::try_from(prices.storage_channels).unwrap_or(u32::MAX);
        Self {
            device: compiler.workload.add_device(DeviceSpec::new(
                name,
                channels,
                Interrupts::Submitter,
            )),
            write: compiler
                .workload
                .add_distribution(Distribution::uniform(write_ns * 4 / 5, write_ns * 6 / 5)),
        }
    }

    /// A write whose completion is put into a queue.
    fn write(
        &self,
        b: &mut ProgramBuilder,
        queue: impl Into<schedcast_sim::program::Ref<QueueId>>,
        value: Reg,
    ) {
        b.submit(self.device, self.write, queue, value);
    }
}

/// An unbounded queue.
const INBOX: QueueSpec = QueueSpec::UNBOUNDED;
