//! Messages, requests and replies from events of sockets.
//!
//! On Linux 6.3 and later a recording shows which thread sent on which socket, at which socket data
//! came, and which thread received from one. Between two programs of one machine the data comes
//! while the sender is still in its call, so that the sender's next `sock_send_length` names the
//! other end of the connection. A message of a client that a thread of the group receives begins a
//! request. The last message back before the client's next one is its reply, and the client has the
//! reply when it has received for the last time. The kernel reuses the address of a closed socket
//! for a new connection; the event of connecting shows that.
//!
//! All clients send their datagrams to the same socket of a server, which receives one at a time,
//! in the order in which they came. Where no event names the receiver of a reply, as the softirq of
//! another sender delivered it (`udp_prod_queue` of 6.18), it is for the datagram that its thread
//! received last. A client has a reply at the latest when the next one comes: a receipt that the
//! trace lacks would make all later replies late.
//!
//! # Worked example
//!
//! At 1.000 ms data comes at socket B while the client is the current thread; at 1.004 it has sent
//! on socket A, so B is the other end of A. At 1.020 a thread of the group has received from B, at
//! 1.300 data comes at A while that thread is the current one, and at 1.303 it has sent on B. The
//! client receives from A at 1.350. The request was sent at 1.000 and answered at 1.350 ms,
//! whether or not any of it woke a thread.

mod contacts;

use super::activity::{Source, Waking};
use super::gather::SocketUse;
use super::threads::ThreadId;
use contacts::Contacts;
use schedcast_trace::{AtSocket, Socket};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A client that sends again within this time, ns, and before the server has received anything,
/// sends another part of the same request: a header and its body, for instance, are a few µs apart.
const PIECE_NS: u64 = 100_000;
/// So many datagrams of a client may wait for a reply; the oldest of more want none, as those of a
/// log or of statistics. The default receive buffer (212,992 bytes, `net.core.rmem_default`) holds
/// 277 of the smallest.
const DATAGRAMS_MAX: usize = 1024;

/// Part of the recording in which a socket is that of one connection. Times are ns since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lifetime {
    /// When a thread began to connect it.
    pub opened_ns: u64,
    pub by: ThreadId,
    /// When a thread closed it, and which.
    pub closed: Option<(u64, ThreadId)>,
}

impl Lifetime {
    pub(super) fn closed_ns(&self) -> Option<u64> {
        self.closed.map(|(at_ns, _)| at_ns)
    }
}

/// A request with its reply. Times are ns since the start of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exchanged {
    pub client: ThreadId,
    /// Number of its connection.
    pub connection: u32,
    /// That of its connection, if the recording shows that the client made it.
    pub lifetime: Option<Lifetime>,
    /// When its client began it: when it sent the first message, or connected for it.
    pub begun_ns: u64,
    pub sent_ns: u64,
    pub replied_ns: u64,
    /// When the client had the reply before on this connection.
    pub free_ns: u64,
    /// When its client may ask again: when it had the reply, or had closed the connection.
    pub freed_ns: u64,
    /// When a thread of the server received it, and which.
    pub taken: (u64, ThreadId),
    /// Its reply, as the server sent it.
    pub answer: Answer,
    /// The client has received it.
    pub is_read: bool,
}

/// A server's last message of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub at_ns: u64,
    pub by: ThreadId,
}

/// A message on a socket from which its sender had received since its last message there. Times are
/// ns since the start of the recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    pub sent_ns: u64,
    /// When it received first.
    pub received_ns: u64,
    /// The thread that received next at the other end.
    pub to: Option<ThreadId>,
}

/// Data that a thread sent from one socket to another.
struct Message {
    at_ns: u64,
    by: ThreadId,
    from: Socket,
    to: Socket,
    /// The thread that received next at the other end.
    got_by: Option<ThreadId>,
    is_datagram: bool,
    /// No event names the other end, which is taken for that of the message before.
    is_guess: bool,
}

/// A request under way.
struct Open {
    client: ThreadId,
    sent_ns: u64,
    last_piece_ns: u64,
    /// When the server received it first, and the thread that did.
    taken: Option<(u64, ThreadId)>,
    answer: Option<Answer>,
    /// When the client last received something, once it is answered.
    read_ns: u64,
}

impl Open {
    fn is_read(&self) -> bool {
        self.answer
            .is_some_and(|answer| answer.at_ns <= self.read_ns)
    }
}

/// A connection by the client's socket.
struct Connection {
    number: u32,
    server: Socket,
    lifetime: Option<Lifetime>,
    /// Each message has a reply of its own, in any order, or none.
    is_datagram: bool,
    /// In order of sending.
    open: VecDeque<Open>,
    free_ns: u64,
    /// The server has answered something between these addresses.
    has_answered: bool,
    /// Of datagrams: when the server answered last.
    answered_ns: u64,
    /// When the one was sent that it answered.
    answered_sent_ns: u64,
}

impl Connection {
    fn new(number: u32, message: &Message, lifetime: Option<Lifetime>) -> Self {
        Self {
            number,
            server: message.to,
            lifetime,
            is_datagram: message.is_datagram,
            open: VecDeque::new(),
            free_ns: 0,
            has_answered: false,
            answered_ns: 0,
            answered_sent_ns: 0,
        }
    }

    /// Whether its client has closed it: later events are of the next connection of its addresses.
    fn is_closed(&self, at_ns: u64) -> bool {
        let closed_ns = self.lifetime.and_then(|one| one.closed_ns());
        closed_ns.is_some_and(|closed_ns| closed_ns < at_ns)
    }

    /// Ends the first request under way if `ends`; of datagrams the first for which it holds.
    fn end(&mut self, ends: impl Fn(&Open) -> bool) -> Option<Exchanged> {
        let looked_at = if self.is_datagram { usize::MAX } else { 1 };
        let row = self.open.iter().take(looked_at).position(ends)?;
        let open = self.open.remove(row)?;
        let (answer, taken) = (open.answer?, open.taken?);
        let replied_ns = answer.at_ns.max(open.read_ns);
        let free_ns = std::mem::replace(&mut self.free_ns, replied_ns);
        Some(Exchanged {
            client: open.client,
            connection: self.number,
            lifetime: self.lifetime,
            begun_ns: open.sent_ns,
            sent_ns: open.sent_ns,
            replied_ns,
            free_ns,
            freed_ns: replied_ns,
            taken,
            answer,
            is_read: open.is_read(),
        })
    }

    /// The client sends, on a connection of this lifetime. Returns how many requests will have no
    /// answer any more.
    fn asks(
        &mut self,
        message: &Message,
        lifetime: Option<Lifetime>,
        ended: &mut Vec<Exchanged>,
    ) -> u64 {
        let mut forgotten = 0;
        if (self.server, self.lifetime) != (message.to, lifetime) {
            // The addresses are those of other connections now.
            forgotten = self.end_all(ended);
            (self.server, self.lifetime) = (message.to, lifetime);
            // A message that closes a session, such as that of TLS, has no answer either.
            if std::mem::take(&mut self.has_answered) {
                forgotten = 0;
            }
        }
        if let Some(last) = self.open.back_mut()
            && !self.is_datagram
            && last.taken.is_none()
            && last.client == message.by
            && message.at_ns - last.last_piece_ns <= PIECE_NS
        {
            last.last_piece_ns = message.at_ns;
            return forgotten;
        }
        ended.extend(std::iter::from_fn(|| self.end(Open::is_read)));
        if self.is_datagram && self.open.len() == DATAGRAMS_MAX {
            self.open.pop_front();
        }
        self.open.push_back(Open {
            client: message.by,
            sent_ns: message.at_ns,
            last_piece_ns: message.at_ns,
            taken: None,
            answer: None,
            read_ns: 0,
        });
        forgotten
    }

    /// How many messages one call receives: all that have come, or one datagram.
    fn at_once(&self) -> usize {
        if self.is_datagram { 1 } else { usize::MAX }
    }

    /// Whether the server has a datagram that it received after its last answer, or that was sent
    /// after the one that it answered.
    fn has_taken(&self) -> bool {
        let mut waiting = self.open.iter().filter(|open| open.answer.is_none());
        waiting.any(|open| {
            let is_later =
                |at_ns: u64| at_ns > self.answered_ns || open.sent_ns > self.answered_sent_ns;
            open.taken.is_some_and(|(taken_ns, _)| is_later(taken_ns))
        })
    }

    /// The server has received all that was sent, or one datagram.
    fn takes(&mut self, at_ns: u64, by: ThreadId) {
        let at_once = self.at_once();
        let new = self.open.iter_mut().filter(|open| open.taken.is_none());
        for open in new.take(at_once) {
            open.taken = Some((at_ns, by));
        }
    }

    /// The server sends a datagram. It answers the first that the same thread has taken since the
    /// last answer, else the first behind the one that was answered last: some have no reply, and
    /// must not take those of others.
    fn answers_one(&mut self, answer: Answer) {
        let first = |is_it: &dyn Fn(&Open, (u64, ThreadId)) -> bool| {
            let is_new = |open: &Open| open.answer.is_none();
            let is_it = |open: &Open| open.taken.is_some_and(|taken| is_it(open, taken));
            self.open
                .iter()
                .position(|open| is_new(open) && is_it(open))
        };
        let row = first(&|_, (taken_ns, by)| by == answer.by && taken_ns > self.answered_ns)
            .or_else(|| first(&|open, _| open.sent_ns > self.answered_sent_ns))
            .or_else(|| first(&|_, _| true));
        if let Some(row) = row {
            self.open[row].answer = Some(answer);
            self.answered_ns = answer.at_ns;
            self.answered_sent_ns = self.open[row].sent_ns;
        }
    }

    /// The server sends: the answer to all that it has taken, or the rest of the last answer.
    fn answers(&mut self, answer: Answer) {
        self.has_answered = true;
        if self.is_datagram {
            return self.answers_one(answer);
        }
        let is_new = |open: &&mut Open| open.taken.is_some() && open.answer.is_none();
        let mut any = false;
        for open in self.open.iter_mut().filter(is_new) {
            open.answer = Some(answer);
            any = true;
        }
        if !any {
            let mut answered = self.open.iter_mut().rev();
            let last = answered.find(|open| open.answer.is_some());
            if let Some(last) = last {
                last.answer = Some(answer);
            }
        }
    }

    /// The client receives: all that was answered, or one datagram.
    fn reads(&mut self, at_ns: u64) {
        self.reads_some(at_ns, self.at_once());
    }

    fn reads_some(&mut self, at_ns: u64, at_once: usize) {
        let unread = self.open.iter_mut().filter(|open| !open.is_read());
        for open in unread.filter(|open| open.answer.is_some()).take(at_once) {
            open.read_ns = at_ns;
        }
    }

    /// Ends every request that is answered, and forgets the others. Returns how many.
    fn end_all(&mut self, ended: &mut Vec<Exchanged>) -> u64 {
        ended.extend(std::iter::from_fn(|| {
            self.end(|open| open.answer.is_some())
        }));
        let unanswered = self.open.drain(..).count() as u64;
        // A datagram may be lost, or want no reply.
        if self.is_datagram { 0 } else { unanswered }
    }
}

/// A softirq wakes the receiver of data at most this long after the data came, ns: 1 to 6 µs on the
/// virtual machine, with room for slower ones.
pub(super) const WAKES_NS: u64 = 20_000;

/// The threads that ask a group, and those in it.
pub(super) struct Sides<'a> {
    pub clients: &'a BTreeSet<ThreadId>,
    /// Per thread.
    pub inside: &'a [bool],
}

/// A thread has received from a socket.
#[derive(Clone, Copy)]
struct Receipt {
    at_ns: u64,
    by: ThreadId,
    socket: Socket,
}

/// Everything that threads sent and received. Times are ns since the start of the recording.
pub(super) struct Messages {
    /// In order of time.
    sent: Vec<Message>,
    contacts: Contacts,
    received: Vec<Receipt>,
    /// How often each thread sent to a socket from which no thread reads, as a listener: it
    /// connects.
    connects: BTreeMap<ThreadId, usize>,
    /// In order of time.
    lifetimes: BTreeMap<Socket, Vec<Lifetime>>,
}

impl Messages {
    pub(super) fn of(uses: &[SocketUse], start_ns: u64) -> Self {
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        let sockets = |what| {
            let of_kind = uses.iter().filter(move |one| one.what == what);
            of_kind.map(|one| one.socket).collect::<BTreeSet<Socket>>()
        };
        let datagrams = sockets(AtSocket::ReceivedDatagram);
        let read = &sockets(AtSocket::Received) | &datagrams;
        let mut connects: BTreeMap<ThreadId, usize> = BTreeMap::new();
        let mut lifetimes: BTreeMap<Socket, Vec<Lifetime>> = BTreeMap::new();
        let mut arrived: BTreeMap<ThreadId, (Socket, u64)> = BTreeMap::new();
        let mut peers: BTreeMap<Socket, Socket> = BTreeMap::new();
        for one in uses {
            let at_ns = one.time_ns.saturating_sub(start_ns);
            let (by, socket) = (one.thread, one.socket);
            match one.what {
                AtSocket::Connects => {
                    lifetimes.entry(socket).or_default().push(Lifetime {
                        opened_ns: at_ns,
                        by,
                        closed: None,
                    });
                    // The address belonged to another connection.
                    peers.remove(&socket);
                }
                AtSocket::Closes => {
                    // The address of one that is closed may be that of a server's socket.
                    if let Some(last) = last_of(&mut lifetimes, socket) {
                        last.closed.get_or_insert((at_ns, by));
                    }
                }
                AtSocket::Arrived => {
                    *connects.entry(by).or_default() += usize::from(!read.contains(&socket));
                    // Long data comes in parts. The first data of a connection that is accepted
                    // with it (`TCP_DEFER_ACCEPT`) comes at the listener, too, from which no thread
                    // reads.
                    let came = arrived.entry(by).or_insert((socket, at_ns));
                    let is_listener = read.contains(&came.0) && !read.contains(&socket);
                    if came.0 != socket && !is_listener {
                        *came = (socket, at_ns);
                    }
                }
                AtSocket::Received | AtSocket::ReceivedDatagram => {
                    // It came at the end of another call: `shutdown` releases a corked reply.
                    arrived.remove(&by);
                    // It closed its own end only, and waits for the answer.
                    if let Some(last) = last_of(&mut lifetimes, socket)
                        && last.closed.is_some_and(|(_, closed_by)| closed_by == by)
                    {
                        last.closed = Some((at_ns, by));
                    }
                    received.push(Receipt { at_ns, by, socket });
                }
                AtSocket::Sent => {
                    let came = arrived.remove(&by).filter(|(to, _)| *to != socket);
                    let is_guess = came.is_none();
                    let known = || Some((*peers.get(&socket)?, at_ns));
                    let Some((to, at_ns)) = came.or_else(known) else {
                        continue;
                    };
                    peers.insert(socket, to);
                    peers.insert(to, socket);
                    sent.push(Message {
                        at_ns,
                        by,
                        from: socket,
                        to,
                        got_by: None,
                        is_datagram: datagrams.contains(&socket) || datagrams.contains(&to),
                        is_guess,
                    });
                }
            }
        }
        sent.sort_by_key(|message| message.at_ns);
        let mut reader: BTreeMap<Socket, ThreadId> = BTreeMap::new();
        let mut later = received.iter().rev().peekable();
        for message in sent.iter_mut().rev() {
            while let Some(one) = later.next_if(|one: &&Receipt| one.at_ns > message.at_ns) {
                reader.insert(one.socket, one.by);
            }
            message.got_by = reader.get(&message.to).copied();
        }
        let contacts = Contacts::of(&sent, |socket, at_ns| lifetime(&lifetimes, socket, at_ns));
        Self {
            sent,
            contacts,
            received,
            connects,
            lifetimes,
        }
    }

    /// How often these threads connect to something.
    pub(super) fn connects(&self, threads: &BTreeSet<ThreadId>) -> usize {
        let known = threads.iter().filter_map(|one| self.connects.get(one));
        known.sum()
    }

    /// When these threads began to connect or closed a connection, in order of time.
    pub(super) fn changed_ns(&self, by: &BTreeSet<ThreadId>) -> Vec<i64> {
        let all = self.lifetimes.values().flatten();
        let changes = all.flat_map(|one| [Some((one.opened_ns, one.by)), one.closed]);
        let own = changes.flatten().filter(|(_, thread)| by.contains(thread));
        let mut changed_ns: Vec<i64> = own.map(|(at_ns, _)| at_ns as i64).collect();
        changed_ns.sort_unstable();
        changed_ns
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Where a softirq delivers a thread's message, makes that thread the source of the waking.
    pub(super) fn claim(&self, wakings: &mut [Waking], start_ns: u64) {
        // By thread, in order of time: of several at one time the last.
        let mut under: BTreeMap<ThreadId, Vec<(u64, usize)>> = BTreeMap::new();
        for (index, waking) in wakings.iter().enumerate() {
            let Some(thread) = waking.under.filter(|_| waking.source == Source::SOFTIRQ) else {
                continue;
            };
            let at_ns = waking.time_ns.saturating_sub(start_ns);
            let own = under.entry(thread).or_default();
            own.pop_if(|(before_ns, _)| *before_ns == at_ns);
            own.push((at_ns, index));
        }
        for Message { at_ns, by, .. } in &self.sent {
            let own = under.get(by).map_or(&[][..], Vec::as_slice);
            let from_ns = at_ns.saturating_sub(WAKES_NS);
            let from = own.partition_point(|(waking_ns, _)| *waking_ns < from_ns);
            let near = own[from..].iter();
            for (_, index) in near.take_while(|(waking_ns, _)| *waking_ns <= at_ns + WAKES_NS) {
                wakings[*index].source = Source::Thread(*by);
            }
        }
    }

    /// By thread, in order of sending: its messages on sockets from which it had received since its
    /// last message there.
    pub(super) fn replies(&self) -> BTreeMap<ThreadId, Vec<Reply>> {
        let mut replies: BTreeMap<ThreadId, Vec<Reply>> = BTreeMap::new();
        let mut received: BTreeMap<(ThreadId, Socket), u64> = BTreeMap::new();
        let mut before = self.received.iter().peekable();
        for message in &self.sent {
            while let Some(one) = before.next_if(|one| one.at_ns <= message.at_ns) {
                received.entry((one.by, one.socket)).or_insert(one.at_ns);
            }
            if let Some(received_ns) = received.remove(&(message.by, message.from)) {
                replies.entry(message.by).or_default().push(Reply {
                    sent_ns: message.at_ns,
                    received_ns,
                    to: message.got_by,
                });
            }
        }
        replies
    }

    /// The sender of each message that was received, and the thread that received next at that
    /// socket.
    pub(super) fn between(&self) -> impl Iterator<Item = (ThreadId, ThreadId)> {
        let all = self.sent.iter();
        all.filter_map(|message| Some((message.by, message.got_by?)))
    }

    /// Pairs of threads that exchange messages, and the connections between them.
    pub(super) fn contacts(&self) -> &Contacts {
        &self.contacts
    }

    /// The requests of a group's clients in order of sending, each with its reply; and how many
    /// clients gave up before an answer came, and closed their connection. The server reads such a
    /// request all the same, and answers it.
    pub(super) fn exchanged(&self, sides: &Sides<'_>) -> (Vec<Exchanged>, u64) {
        let mut connections = Connections::default();
        let mut received = self.received.iter().peekable();
        let mut all: Vec<Exchanged> = Vec::new();
        for message in &self.sent {
            while let Some(receipt) = received.next_if(|one| one.at_ns <= message.at_ns) {
                connections.receives(receipt, sides);
            }
            connections.sends(
                message,
                lifetime(&self.lifetimes, message.from, message.at_ns),
                sides,
                &mut all,
            );
        }
        for receipt in received {
            connections.receives(receipt, sides);
        }
        for connection in connections.by_client.values_mut() {
            connection.end_all(&mut all);
        }
        all.sort_by_key(|one| one.sent_ns);
        (all, connections.forgotten)
    }
}

/// That of the connection that a client's socket has at a time.
fn lifetime(
    lifetimes: &BTreeMap<Socket, Vec<Lifetime>>,
    socket: Socket,
    at_ns: u64,
) -> Option<Lifetime> {
    let all = lifetimes.get(&socket)?;
    let before = all.partition_point(|one| one.opened_ns <= at_ns);
    Some(all[before.checked_sub(1)?])
}

fn last_of(
    lifetimes: &mut BTreeMap<Socket, Vec<Lifetime>>,
    socket: Socket,
) -> Option<&mut Lifetime> {
    lifetimes.get_mut(&socket)?.last_mut()
}

/// How many answers no client received: it had closed its connection.
pub(super) fn unread(exchanged: &[Exchanged]) -> u64 {
    // The last reply may be under way to its client when the recording ends.
    let read = exchanged.iter().filter(|one| one.is_read);
    let last_ns = read.map(|one| one.replied_ns).max().unwrap_or(0);
    let is_unread = |one: &&Exchanged| !one.is_read && one.replied_ns < last_ns;
    exchanged.iter().filter(is_unread).count() as u64
}

/// The connections between a group and its clients.
#[derive(Default)]
struct Connections {
    by_client: BTreeMap<Socket, Connection>,
    /// By server's socket: the client's; of one for datagrams the clients' of those that the server
    /// has not received yet.
    clients_of: BTreeMap<Socket, VecDeque<Socket>>,
    /// The client's socket of the datagram that a thread of the server received last.
    served: BTreeMap<ThreadId, Socket>,
    /// Requests without an answer on connections that were closed.
    forgotten: u64,
}

impl Connections {
    fn receives(&mut self, receipt: &Receipt, sides: &Sides<'_>) {
        let Receipt { at_ns, by, socket } = receipt;
        if sides.clients.contains(by) {
            if let Some(connection) = self.by_client.get_mut(socket)
                && !connection.is_closed(*at_ns)
            {
                connection.reads(*at_ns);
            }
        } else if sides.inside[by.index()]
            && let Some(clients) = self.clients_of.get_mut(socket)
            && let Some(&client) = clients.front()
            && let Some(connection) = self.by_client.get_mut(&client)
        {
            if connection.is_datagram {
                clients.pop_front();
                self.served.insert(*by, client);
            }
            connection.takes(*at_ns, *by);
        }
    }

    fn sends(
        &mut self,
        message: &Message,
        lifetime: Option<Lifetime>,
        sides: &Sides<'_>,
        ended: &mut Vec<Exchanged>,
    ) {
        if sides.clients.contains(&message.by) {
            let clients = self.clients_of.entry(message.to).or_default();
            if !message.is_datagram {
                clients.clear();
            }
            clients.push_back(message.from);
            let number = self.by_client.len() as u32;
            let connection = self.by_client.entry(message.from);
            let connection =
                connection.or_insert_with(|| Connection::new(number, message, lifetime));
            self.forgotten += connection.asks(message, lifetime, ended);
        } else if sides.inside[message.by.index()]
            && let served = self.served.get(&message.by).filter(|_| message.is_guess)
            && let Some(connection) = self.by_client.get_mut(served.unwrap_or(&message.to))
            && connection.server == message.from
            && !connection.is_closed(message.at_ns)
        {
            if connection.is_datagram && !connection.has_taken() {
                // An earlier one was lost, so that another one was taken for what the thread
                // received.
                let clients = self.clients_of.entry(message.from).or_default();
                let own = clients.iter().position(|client| *client == message.to);
                clients.drain(..own.map_or(0, |row| row + 1));
                connection.takes(message.at_ns, message.by);
            }
            if connection.is_datagram {
                connection.reads_some(message.at_ns, usize::MAX);
            }
            connection.answers(Answer {
                at_ns: message.at_ns,
                by: message.by,
            });
        }
    }
}

#[cfg(test)]
mod tests;
