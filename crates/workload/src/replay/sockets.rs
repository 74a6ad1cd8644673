//! Messages, requests and replies as the kernel writes them of sockets.
//!
//! A recorder on Linux 6.3 and later keeps who sent on which socket, at which socket data came, and
//! who received from one. Between two programs of one machine the data comes while the sender is
//! still in its call, so that the sender's next `sock_send_length` names the other end. A message
//! of a client that a thread of the group gets begins a request. The last message back before the
//! client's next one is its reply, and the client has it when it has received for the last time.
//!
//! # Worked example
//!
//! At 1.000 ms data comes at socket B while the client is the current thread; at 1.004 it has sent
//! on socket A, so B is the other end of A. At 1.020 a thread of the group has received from B, at
//! 1.300 data comes at A while that thread is the current one, and at 1.303 it has sent on B. The
//! client receives from A at 1.350. The request was sent at 1.000 and answered at 1.350 ms,
//! whether or not any of it woke a thread.

use super::activity::{Source, Waking};
use super::gather::SocketUse;
use super::threads::ThreadId;
use schedcast_trace::{AtSocket, Socket};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A client that sends again within this time, ns, before the server has received anything, sends
/// the rest of the same request: a header and its body, for instance, a few µs apart.
const PIECE_NS: u64 = 100_000;

/// A request with its reply. Times are ns since the start of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exchanged {
    pub client: ThreadId,
    /// Number of its connection.
    pub connection: u32,
    pub sent_ns: u64,
    pub replied_ns: u64,
    /// When the connection had the reply before.
    pub free_ns: u64,
}

/// Data that a thread sent from one socket to another.
struct Message {
    at_ns: u64,
    by: ThreadId,
    from: Socket,
    to: Socket,
}

/// A request under way.
struct Open {
    client: ThreadId,
    sent_ns: u64,
    last_piece_ns: u64,
    /// The server has received it.
    is_taken: bool,
    answered_ns: Option<u64>,
    /// When the client last received something, once it is answered.
    read_ns: u64,
}

impl Open {
    fn is_read(&self) -> bool {
        self.answered_ns.is_some_and(|at_ns| at_ns <= self.read_ns)
    }
}

/// A connection by the client's socket.
struct Connection {
    number: u32,
    server: Socket,
    /// In order of sending.
    open: VecDeque<Open>,
    free_ns: u64,
}

impl Connection {
    fn new(number: u32, server: Socket) -> Self {
        Self {
            number,
            server,
            open: VecDeque::new(),
            free_ns: 0,
        }
    }

    /// Ends the first request under way if `ends`.
    fn end(&mut self, ends: impl Fn(&Open) -> bool) -> Option<Exchanged> {
        let open = self.open.pop_front_if(|open| ends(open))?;
        let replied_ns = open.answered_ns?.max(open.read_ns);
        let free_ns = std::mem::replace(&mut self.free_ns, replied_ns);
        Some(Exchanged {
            client: open.client,
            connection: self.number,
            sent_ns: open.sent_ns,
            replied_ns,
            free_ns,
        })
    }

    fn asks(&mut self, message: &Message, ended: &mut Vec<Exchanged>) {
        if std::mem::replace(&mut self.server, message.to) != message.to {
            // The addresses are those of other connections now.
            self.end_all(ended);
        }
        if let Some(last) = self.open.back_mut()
            && !last.is_taken
            && last.client == message.by
            && message.at_ns - last.last_piece_ns <= PIECE_NS
        {
            last.last_piece_ns = message.at_ns;
            return;
        }
        ended.extend(std::iter::from_fn(|| self.end(Open::is_read)));
        self.open.push_back(Open {
            client: message.by,
            sent_ns: message.at_ns,
            last_piece_ns: message.at_ns,
            is_taken: false,
            answered_ns: None,
            read_ns: 0,
        });
    }

    /// The server has received what there is.
    fn takes(&mut self) {
        self.open.iter_mut().for_each(|open| open.is_taken = true);
    }

    /// The server sends: the answer to all that it has taken, or the rest of the last answer.
    fn answers(&mut self, at_ns: u64) {
        let is_new = |open: &&mut Open| open.is_taken && open.answered_ns.is_none();
        let mut any = false;
        for open in self.open.iter_mut().filter(is_new) {
            open.answered_ns = Some(at_ns);
            any = true;
        }
        if !any {
            let mut answered = self.open.iter_mut().rev();
            let last = answered.find(|open| open.answered_ns.is_some());
            if let Some(last) = last {
                last.answered_ns = Some(at_ns);
            }
        }
    }

    /// The client receives.
    fn reads(&mut self, at_ns: u64) {
        let unread = self.open.iter_mut().filter(|open| !open.is_read());
        for open in unread.filter(|open| open.answered_ns.is_some()) {
            open.read_ns = at_ns;
        }
    }

    /// Ends every request that is answered, and forgets the others.
    fn end_all(&mut self, ended: &mut Vec<Exchanged>) {
        ended.extend(std::iter::from_fn(|| {
            self.end(|open| open.answered_ns.is_some())
        }));
        self.open.clear();
    }
}

/// All messages in order of time, and when threads received from a socket.
fn messages(uses: &[SocketUse], start_ns: u64) -> (Vec<Message>, Vec<(u64, ThreadId, Socket)>) {
    let (mut messages, mut reads) = (Vec::new(), Vec::new());
    let mut arrived: BTreeMap<ThreadId, (Socket, u64)> = BTreeMap::new();
    let mut peers: BTreeMap<Socket, Socket> = BTreeMap::new();
    for one in uses {
        let at_ns = one.time_ns.saturating_sub(start_ns);
        match one.what {
            AtSocket::Arrived => {
                // What is long comes in parts.
                let came = arrived.entry(one.thread).or_insert((one.socket, at_ns));
                if came.0 != one.socket {
                    *came = (one.socket, at_ns);
                }
            }
            AtSocket::Received => reads.push((at_ns, one.thread, one.socket)),
            AtSocket::Sent => {
                let came = arrived.remove(&one.thread);
                let came = came.filter(|(socket, _)| *socket != one.socket);
                let known = || Some((*peers.get(&one.socket)?, at_ns));
                let Some((to, at_ns)) = came.or_else(known) else {
                    continue;
                };
                peers.insert(one.socket, to);
                peers.insert(to, one.socket);
                messages.push(Message {
                    at_ns,
                    by: one.thread,
                    from: one.socket,
                    to,
                });
            }
        }
    }
    messages.sort_by_key(|message| message.at_ns);
    (messages, reads)
}

/// A softirq wakes whom data is for within so long of its arrival, ns: 1 to 6 µs on the virtual
/// machine, with room for slower ones.
const WAKES_NS: u64 = 20_000;

/// Makes the threads whose messages softirqs deliver the source of the wakings by these.
pub(super) fn claim(wakings: &mut [Waking], uses: &[SocketUse]) {
    let mut under: BTreeMap<(ThreadId, u64), usize> = BTreeMap::new();
    for (index, waking) in wakings.iter().enumerate() {
        let softirq = waking.under.filter(|_| waking.source == Source::SOFTIRQ);
        under.extend(softirq.map(|thread| ((thread, waking.time_ns), index)));
    }
    for Message { at_ns, by, .. } in messages(uses, 0).0 {
        let near = (by, at_ns.saturating_sub(WAKES_NS))..=(by, at_ns + WAKES_NS);
        for (_, index) in under.range(near) {
            wakings[*index].source = Source::Thread(by);
        }
    }
}

/// The threads that ask a group, and those in it.
pub(super) struct Sides<'a> {
    pub clients: &'a BTreeSet<ThreadId>,
    /// Per thread.
    pub inside: &'a [bool],
}

/// The requests of a group's clients in order of sending, each with its reply.
pub(super) fn exchanged(uses: &[SocketUse], start_ns: u64, sides: &Sides<'_>) -> Vec<Exchanged> {
    let (messages, reads) = messages(uses, start_ns);
    let mut reads = reads.into_iter().peekable();
    let mut connections: BTreeMap<Socket, Connection> = BTreeMap::new();
    // By server's socket: the client's.
    let mut client_of: BTreeMap<Socket, Socket> = BTreeMap::new();
    let mut all: Vec<Exchanged> = Vec::new();
    for message in messages {
        while let Some((at_ns, by, socket)) = reads.next_if(|read| read.0 <= message.at_ns) {
            let is_client = sides.clients.contains(&by);
            let client = match is_client {
                true => Some(&socket),
                false => client_of.get(&socket).filter(|_| sides.inside[by.index()]),
            };
            if let Some(connection) = client.and_then(|client| connections.get_mut(client)) {
                match is_client {
                    true => connection.reads(at_ns),
                    false => connection.takes(),
                }
            }
        }
        if sides.clients.contains(&message.by) {
            client_of.insert(message.to, message.from);
            let number = connections.len() as u32;
            let connection = connections
                .entry(message.from)
                .or_insert_with(|| Connection::new(number, message.to));
            connection.asks(&message, &mut all);
        } else if sides.inside[message.by.index()]
            && let Some(connection) = connections.get_mut(&message.to)
            && connection.server == message.from
        {
            connection.answers(message.at_ns);
        }
    }
    for (at_ns, by, socket) in reads {
        if sides.clients.contains(&by)
            && let Some(connection) = connections.get_mut(&socket)
        {
            connection.reads(at_ns);
        }
    }
    for connection in connections.values_mut() {
        connection.end_all(&mut all);
    }
    all.sort_by_key(|one| one.sent_ns);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ThreadId = ThreadId(0);
    const SERVER: ThreadId = ThreadId(1);
    /// The client's socket and the server's.
    const ENDS: [u64; 2] = [0xa, 0xb];

    type Use = (u64, ThreadId, AtSocket, u64);

    fn uses(all: &[Use]) -> Vec<SocketUse> {
        let one = |(time_us, thread, what, socket): &Use| SocketUse {
            time_ns: time_us * 1000,
            thread: *thread,
            socket: (*socket).into(),
            what: *what,
        };
        all.iter().map(one).collect()
    }

    fn found(all: &[Use]) -> Vec<(u64, u64, u64)> {
        let sides = Sides {
            clients: &[CLIENT].into(),
            inside: &[false, true],
        };
        let us = |one: &Exchanged| [one.sent_ns, one.replied_ns, one.free_ns].map(|ns| ns / 1000);
        let all = exchanged(&uses(all), 0, &sides);
        all.iter()
            .map(us)
            .map(|[sent, replied, free]| (sent, replied, free))
            .collect()
    }

    fn sent(at_us: u64, by: ThreadId, from: usize) -> [Use; 2] {
        [
            (at_us, by, AtSocket::Arrived, ENDS[1 - from]),
            (at_us + 4, by, AtSocket::Sent, ENDS[from]),
        ]
    }

    fn received(at_us: u64, by: ThreadId, end: usize) -> Use {
        (at_us, by, AtSocket::Received, ENDS[end])
    }

    fn asked(at_us: u64) -> Vec<Use> {
        let mut uses: Vec<Use> = sent(at_us, CLIENT, 0).into();
        uses.push(received(at_us + 10, SERVER, 1));
        uses
    }

    #[test]
    fn a_request_is_answered_by_the_last_message_before_the_next_one() {
        let mut uses = asked(1000);
        uses.extend(sent(1200, SERVER, 1));
        uses.push(received(1250, CLIENT, 0));
        uses.extend(sent(1300, SERVER, 1));
        uses.push(received(1350, CLIENT, 0));
        uses.extend(asked(2000));
        uses.extend(sent(2100, SERVER, 1));
        assert_eq!(found(&uses), [(1000, 1350, 0), (2000, 2100, 1350)]);
        uses.extend(asked(3000));
        assert_eq!(found(&uses).len(), 2, "it has no answer");
    }

    /// One softirq delivers the client's message, another one comes from a network card.
    #[test]
    fn a_softirq_that_delivers_a_message_wakes_for_its_sender() {
        let waking = |time_us: u64| Waking {
            time_ns: time_us * 1000,
            cpu: 0,
            wakee: SERVER,
            source: Source::SOFTIRQ,
            under: Some(CLIENT),
            remote: false,
        };
        let mut wakings = [waking(1001), waking(2000)];
        claim(&mut wakings, &uses(&sent(1000, CLIENT, 0)));
        let sources = wakings.map(|waking| waking.source);
        assert_eq!(sources, [Source::Thread(CLIENT), Source::SOFTIRQ]);
    }

    /// The server preempts the client before that has left its call.
    #[test]
    fn data_comes_before_its_sender_says_so() {
        let [arrived, left] = sent(1000, CLIENT, 0);
        let mut uses = vec![arrived, received(1050, SERVER, 1)];
        uses.extend(sent(1100, SERVER, 1));
        uses.push((1200, left.1, left.2, left.3));
        assert_eq!(found(&uses), [(1000, 1100, 0)]);
    }

    #[test]
    fn a_request_in_pieces_is_one_and_two_that_overlap_are_two() {
        let mut uses: Vec<Use> = sent(1000, CLIENT, 0).into();
        uses.extend(asked(1010));
        uses.extend(asked(1500));
        uses.extend(sent(1600, SERVER, 1));
        uses.push(received(1700, CLIENT, 0));
        assert_eq!(found(&uses), [(1000, 1700, 0), (1500, 1700, 1700)]);
    }
}
