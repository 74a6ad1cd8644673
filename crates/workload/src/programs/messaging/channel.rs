//! Channels of messages: stream sockets of one host, or pipes.
//!
//! **Sockets** (`AF_UNIX` stream). The sender pays with the send memory of the socket it writes to,
//! until the receiver has read the message: not the bytes but the buffer that holds them
//! (`skb->truesize`). 100 bytes take a buffer of 512 with a head of 256, so 768; `sk_sndbuf` is
//! 212 992 and a write goes through while less than that is in use, so 278 messages fit. A blocked
//! sender is woken when at most a quarter is in use (`unix_writable`), all senders of the socket
//! at once, with the sync hint. The receiver is woken by every message it waits for
//! (`sock_def_readable`), with the sync hint too.
//!
//! **Pipes.** 16 pages. A small message is added to the last page while it fits, so 40 messages of
//! 100 bytes share a page and 640 fit. A blocked sender is woken when a page of the full pipe has
//! been read empty, one for each such page ([`SenderWakes::Page`]; counted on Linux 6.18: of three
//! writers blocked on a full pipe the first goes on after 40 reads, the second after 80, the third
//! after 120, and none is woken in vain). The receiver is woken by the message that ends the pipe's
//! emptiness (since 5.5). Both come with the sync hint.

use schedcast_kernel::rules::Version;
use schedcast_sim::workload::{PageWakes, QueueCosts, QueueSpec, SenderWakes};

use crate::programs::{Prices, Start};

/// Channel of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// A pair of `AF_UNIX` stream sockets.
    Socket,
    /// A pipe.
    Pipe,
}

/// `net.core.wmem_default`.
const SEND_BUFFER: u64 = 212_992;
/// `struct sk_buff`, and `struct skb_shared_info` behind the data, both rounded to cache lines.
const BUFFER_HEAD: u64 = 256;
const BUFFER_TAIL: u64 = 320;
const PAGE: u64 = 4096;
const PIPE_PAGES: u64 = 16;

impl Channel {
    /// The queue that carries messages of so many bytes.
    pub(crate) fn queue(self, start: &Start, bytes: u64) -> QueueSpec {
        let prices = &start.prices;
        match self {
            Channel::Socket => {
                let buffer = buffer_bytes(bytes);
                // One more is taken while less than the limit is in use, so the last may go over
                // it.
                let capacity_bytes = SEND_BUFFER.div_ceil(buffer) * buffer;
                QueueSpec {
                    capacity_bytes,
                    overhead_bytes: buffer - bytes,
                    wake_sender_at_bytes: SEND_BUFFER / 4,
                    wake_sender_sync: true,
                    sender_wakes: SenderWakes::All,
                    costs: self.costs(prices),
                }
            }
            Channel::Pipe => {
                let (room, fit) = pipe_room(bytes);
                QueueSpec {
                    capacity_bytes: fit * room,
                    overhead_bytes: room - bytes,
                    wake_sender_at_bytes: fit * room / PIPE_PAGES * (PIPE_PAGES - 1),
                    wake_sender_sync: true,
                    sender_wakes: SenderWakes::Page(page_wakes(start.kernel)),
                    costs: self.costs(prices),
                }
            }
        }
    }

    /// Extra costs of calls, by where the channel's lines are and how much is in it.
    pub fn costs(self, prices: &Prices) -> QueueCosts {
        match self {
            Channel::Socket => QueueCosts {
                send_transfer_ns: prices.unix_send_transfer_ns,
                send_contended_ns: prices.unix_send_contended_ns,
                send_far_ns: prices.unix_send_far_ns,
                receive_transfer_ns: prices.unix_receive_transfer_ns,
                receive_remote_ns: prices.unix_receive_remote_ns,
                receive_far_ns: prices.unix_receive_far_ns,
                cache_bytes: prices.message_cache_kib << 10,
                ..QueueCosts::NONE
            },
            Channel::Pipe => QueueCosts {
                send_transfer_ns: prices.pipe_write_transfer_ns,
                send_contended_ns: prices.pipe_write_contended_ns,
                send_empty_ns: prices.pipe_write_empty_ns,
                receive_transfer_ns: prices.pipe_read_transfer_ns,
                receive_remote_ns: prices.pipe_read_remote_ns,
                receive_last_ns: prices.pipe_read_last_ns,
                ..QueueCosts::NONE
            },
        }
    }

    /// Kernel work of sending so many bytes, besides the bare system call and the wakeup.
    pub(crate) fn send_ns(self, prices: &Prices, bytes: u64) -> u64 {
        match self {
            Channel::Socket => prices.unix_send(bytes),
            Channel::Pipe => prices.pipe_write(bytes),
        }
    }

    /// Kernel work of receiving them.
    pub(crate) fn receive_ns(self, prices: &Prices, bytes: u64) -> u64 {
        match self {
            Channel::Socket => prices.unix_receive(bytes),
            Channel::Pipe => prices.pipe_read(bytes),
        }
    }
}

/// Whom `pipe_read` wakes of the senders that wait.
fn page_wakes(kernel: Version) -> PageWakes {
    if kernel < Version::new(5, 6) {
        PageWakes::All
    } else if kernel < Version::new(6, 14) {
        PageWakes::OneInVain
    } else {
        PageWakes::One
    }
}

/// Send memory of a message, bytes: its buffer and the buffer's head.
fn buffer_bytes(bytes: u64) -> u64 {
    // Of a long message only what does not fill whole pages goes into the buffer itself.
    let linear_max = PAGE - BUFFER_TAIL;
    let paged = bytes
        .saturating_sub(linear_max)
        .next_multiple_of(PAGE)
        .min(bytes);
    let linear = (bytes - paged).next_multiple_of(64) + BUFFER_TAIL;
    // Buffers come in powers of two from 512 on.
    linear.next_power_of_two().max(512) + BUFFER_HEAD + paged.next_multiple_of(PAGE)
}

/// Space of a message in a pipe, bytes, and the number of messages that fit. Short ones share
/// pages; long ones take, on average, their share of the pages that a row of them fills.
fn pipe_room(bytes: u64) -> (u64, u64) {
    if bytes <= PAGE {
        let in_a_page = PAGE / bytes;
        return (PAGE / in_a_page, PIPE_PAGES * in_a_page);
    }
    const ROW: u64 = 64;
    let (mut pages, mut filled) = (0, PAGE);
    for _ in 0..ROW {
        // The odd bytes come first and may join the last page; whole pages follow.
        let odd = bytes % PAGE;
        let mut rest = bytes;
        if odd > 0 && filled + odd <= PAGE {
            filled += odd;
            rest -= odd;
        }
        while rest > 0 {
            filled = rest.min(PAGE);
            rest -= filled;
            pages += 1;
        }
    }
    let room = (pages * PAGE / ROW).max(bytes);
    (room, (PIPE_PAGES * PAGE / room).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(channel: Channel, bytes: u64) -> u64 {
        let queue = channel.queue(&Start::new("test", 1), bytes);
        queue.capacity_bytes / (bytes + queue.overhead_bytes)
    }

    /// Counted on Linux 6.18 with a non-blocking writer and no reader.
    #[test]
    fn as_many_messages_fit_as_into_the_real_ones() {
        let sockets = [100, 1000, 2000, 5000].map(|bytes| fits(Channel::Socket, bytes));
        assert_eq!(sockets, [278, 93, 49, 34]);
        // The 11th message of 5000 bytes went in only in part.
        let pipes = [100, 1000, 2000, 5000].map(|bytes| fits(Channel::Pipe, bytes));
        assert_eq!(pipes, [640, 64, 32, 10]);
    }

    #[test]
    fn senders_wake_at_a_quarter_or_at_a_free_page() {
        let start = Start::new("test", 1);
        let socket = Channel::Socket.queue(&start, 100);
        assert_eq!(
            (socket.overhead_bytes, socket.wake_sender_at_bytes),
            (668, 53_248)
        );
        assert!(socket.sender_wakes == SenderWakes::All && socket.wake_sender_sync);
        let pipe = Channel::Pipe.queue(&start, 100);
        // 640 messages of 102 bytes; a page of 40 fewer.
        assert_eq!(pipe.wake_sender_at_bytes, 600 * 102);
        assert!(pipe.sender_wakes == SenderWakes::Page(PageWakes::One) && pipe.wake_sender_sync);
    }
}
