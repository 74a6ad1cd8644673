//! I/O devices: requests wait for a channel, are served, and end in an interrupt.
//!
//! Worked example: a device with one channel and interrupts on the submitting CPU. CPU 2 submits
//! 80 µs of work at 100 µs, CPU 5 another 80 µs at 130 µs. CPU 2 is interrupted at 180 µs, CPU 5 at
//! 260 µs; each interrupt puts the value of its request into the queue that the request names and
//! wakes whoever waits there, in interrupt context: for `select_idle_sibling` the waker is not the
//! task that the interrupt stopped.

use super::engine::{Flow, Run};
use super::interpret::{ENTERED, Next};
use super::outside::{Source, class};
use super::tasks::Message;
use super::{Core, World};
use crate::program::{Amount, Ref, Reg};
use crate::wheel::{Key, Slot};
use crate::workload::{DeviceId, DeviceSpec, Interrupts, QueueId};
use schedcast_kernel::{Context as WakeContext, Cpu, Ns, TaskId};

/// A request that a device has.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// CPU that is interrupted, unless the receiver's is.
    cpu: Cpu,
    by_receiver: bool,
    queue: usize,
    value: u64,
}

/// State of all devices.
#[derive(Clone, Debug, Default)]
pub(super) struct Devices {
    /// When each channel of each device is free; empty for devices that serve any number.
    channels: Vec<Vec<Ns>>,
    /// Requests by row; a row is used again once its interrupt is over.
    requests: Vec<Request>,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Devices {
    pub(super) fn new(specs: &[DeviceSpec]) -> Self {
        let channels = specs.iter().map(|spec| vec![0; spec.channels as usize]);
        Self {
            channels: channels.collect(),
            ..Self::default()
        }
    }

    /// When a request submitted `now` is done.
    fn serve(&mut self, device: DeviceId, now: Ns, service_ns: Ns) -> Ns {
        let channels = &mut self.channels[usize::from(device.0)];
        let Some(first) = channels.iter_mut().min() else {
            return now.saturating_add(service_ns);
        };
        *first = now.max(*first).saturating_add(service_ns);
        *first
    }
}

impl<const EXPLAIN: bool, K: Core> World<EXPLAIN, K> {
    pub(super) fn submit(
        &mut self,
        cpu: Cpu,
        task: TaskId,
        device: DeviceId,
        queue: Ref<QueueId>,
        value: Reg,
        service: Amount,
    ) -> Run<Next> {
        let queue = self.resolve(task, queue)?;
        let service_ns = self.amount(task, service);
        self.syscall(cpu);
        let out = &mut self.out;
        let interrupts = out.shared.workload.devices[usize::from(device.0)].interrupts;
        let request = Request {
            cpu: match interrupts {
                Interrupts::Fixed(fixed) => fixed,
                Interrupts::Submitter | Interrupts::Receiver => cpu,
            },
            by_receiver: interrupts == Interrupts::Receiver,
            queue,
            value: out.tasks.register(task, value.0),
        };
        let done = out.devices.serve(device, out.clock(cpu), service_ns);
        let slot = match out.devices.free.pop() {
            Some(row) => {
                out.devices.requests[row as usize] = request;
                out.devices.slots[row as usize]
            }
            None => {
                let row = out.devices.requests.len() as u32;
                let slot = out.add_source(Source::Completion(row));
                out.devices.requests.push(request);
                out.devices.slots.push(slot);
                slot
            }
        };
        self.out.wheel.arm(slot, Key::new(done, class::ARRIVAL));
        self.skip(task);
        Ok(ENTERED)
    }

    /// The interrupt of a device that is done with a request.
    pub(super) fn request_done(&mut self, slot: Slot, row: usize) -> Run<()> {
        let mut request = self.out.devices.requests[row];
        if request.by_receiver {
            request.cpu = self.receiver_cpu(request.queue).unwrap_or(request.cpu);
        }
        if !self.enter(request.cpu, slot, class::ARRIVAL) {
            return Ok(());
        }
        self.out.devices.free.push(row as u32);
        self.device_interrupt(request.cpu);
        let overhead = self.workload().queues[request.queue].overhead_bytes;
        let message = Message {
            value: request.value,
            room: overhead,
            cpu: request.cpu,
        };
        self.deliver(
            request.cpu,
            request.queue,
            message,
            false,
            WakeContext::HardIrq,
        );
        self.run(request.cpu, Flow::Entered)
    }
}
