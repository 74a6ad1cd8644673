//! The programs of client and server.

use schedcast_sim::ProgramBuilder;
use schedcast_sim::program::Compare;
use schedcast_sim::workload::{ForkId, ProgramId, QueueSpec, SenderWakes, WordId};

use super::{Options, Test};
use crate::programs::command::CommandError;
use crate::programs::model::Length;
use crate::programs::start::Compiler;
use crate::registers::registers;

registers! { 0;
    /// Register of main and of its children: the pair's queue to the server, and the one back.
    TO_SERVER TO_CLIENT
    /// The pair's word of the room that was taken in the receiver's buffer.
    TAKEN LEFT CHILD VALUE BEGIN END NOW
    /// The pair's word of the room that was given back.
    GIVEN USED
}

/// Values of messages.
const DATA: u64 = 0;
const GOOD_BYE: u64 = 1;

/// Size to which a TCP connection over loopback grows its buffers (`tcp_wmem`, `tcp_rmem`): about
/// 2.5 MB go through before the sender waits.
const TCP_WINDOW: u64 = 2_621_440;
/// `net.core.rmem_default`, which a UDP socket may hold, overhead included.
const UDP_BUFFER: u64 = 212_992;
/// A datagram takes whole pages and its head.
const PAGE: u64 = 4096;
const DATAGRAM_HEAD: u64 = 768;

impl Options {
    pub(in crate::programs) fn compile(&self, compiler: &mut Compiler) -> Result<(), CommandError> {
        let queue = self.queue();
        let first = compiler.workload.queues.len() as u64;
        for _ in 0..2 * self.pairs {
            compiler.workload.add_queue(queue.clone());
        }
        let words = compiler.words(2 * self.pairs);
        let identifications = match self.test.is_tcp() {
            true => None,
            false => Some(compiler.workload.add_word(0)),
        };
        let (server, client) = match self.test {
            Test::TcpMaerts => (
                self.sending_server(compiler)?,
                self.receiving_client(compiler)?,
            ),
            Test::TcpStream | Test::UdpStream => (
                self.stream_server(compiler)?,
                self.stream_client(compiler, identifications)?,
            ),
            Test::TcpRr | Test::UdpRr => (
                self.rr_server(compiler, identifications)?,
                self.rr_client(compiler, identifications)?,
            ),
        };
        let server = compiler.fork("-server", server, true);
        let client = compiler.fork("", client, true);
        let main = self.main(compiler, server, client)?;
        let registers = [(TO_SERVER, first), (TO_CLIENT, first + 1)];
        let words = [(TAKEN, words), (GIVEN, words + 1)];
        let registers = registers.into_iter().chain(words).collect();
        compiler.main(main, registers);
        Ok(())
    }

    fn queue(&self) -> QueueSpec {
        match self.test {
            Test::TcpStream | Test::TcpMaerts => QueueSpec {
                capacity_bytes: TCP_WINDOW,
                overhead_bytes: 0,
                // `sk_stream_write_space`: when a third is free, from the acknowledgement's
                // softirq.
                wake_sender_at_bytes: TCP_WINDOW / 3 * 2,
                wake_sender_sync: false,
                sender_wakes: SenderWakes::One,
                ..QueueSpec::UNBOUNDED
            },
            _ => QueueSpec::UNBOUNDED,
        }
    }

    /// netserver forks a process for each test, the shell starts the netperfs.
    fn main(
        &self,
        compiler: &mut Compiler,
        server: ForkId,
        client: ForkId,
    ) -> Result<ProgramId, CommandError> {
        let mut b = ProgramBuilder::new("netperf-main");
        b.repeat(LEFT, self.pairs, |b| {
            b.fork(server, CHILD);
            b.fork(client, CHILD);
            b.add(TO_SERVER, 2);
            b.add(TO_CLIENT, 2);
            b.add(TAKEN, 2);
            b.add(GIVEN, 2);
        });
        b.join_all();
        compiler.program(b)
    }

    fn send_ns(&self, compiler: &Compiler, bytes: u64) -> u64 {
        let prices = &compiler.start.prices;
        match self.test.is_tcp() {
            true => prices.tcp_send(bytes),
            false => prices.udp_send(bytes),
        }
    }

    fn receive_ns(&self, compiler: &Compiler, bytes: u64) -> u64 {
        let prices = &compiler.start.prices;
        match self.test {
            Test::TcpRr => prices.tcp_receive(bytes),
            Test::TcpStream | Test::TcpMaerts => {
                prices.tcp_receive(bytes) + prices.tcp_acknowledge_ns
            }
            _ => prices.udp_receive(bytes),
        }
    }

    /// The client's loop around `body`.
    fn client(
        &self,
        compiler: &mut Compiler,
        body: impl FnOnce(&mut ProgramBuilder, &mut Compiler),
    ) -> Result<ProgramId, CommandError> {
        let run = compiler.metric("run");
        let mut b = ProgramBuilder::new("netperf-client");
        compiler.bind(&mut b, self.local_cpu);
        b.now(BEGIN);
        match self.length {
            Length::Time(time_ns) => {
                b.sum(END, BEGIN, time_ns);
            }
            Length::Transactions(count) => b.set(LEFT, count),
        }
        let top = b.here();
        b.work(compiler.start.prices.netperf_round_ns);
        body(&mut b, compiler);
        match self.length {
            Length::Time(_) => {
                // An alarm says when; no look at the clock.
                b.now(NOW);
                b.jump_if(NOW, Compare::Less, END, top);
            }
            Length::Transactions(_) => b.loop_back(LEFT, top),
        }
        b.record_since(run, BEGIN);
        if self.test == Test::TcpMaerts {
            // The connection is shut down; what the server had sent until it noticed is thrown
            // away.
            b.word_fetch_add(GIVEN, 1, NOW);
            let top = b.here();
            b.recv(TO_CLIENT, VALUE);
            b.jump_if(VALUE, Compare::Equal, DATA, top);
        } else {
            // The value that the control connection sends to the server.
            b.set(VALUE, GOOD_BYE);
            b.send(TO_SERVER, 0, VALUE, true);
        }
        b.exit();
        compiler.program(b)
    }

    /// Kernel work of a send. A datagram of a socket that is not connected takes its IP
    /// identification from the one generator that all pairs with the same two addresses share
    /// (`__ip_select_ident`).
    fn send_work(
        &self,
        b: &mut ProgramBuilder,
        compiler: &Compiler,
        bytes: u64,
        identifications: Option<WordId>,
    ) {
        if let Some(word) = identifications {
            b.word_count(word);
        }
        b.kernel_work(self.send_ns(compiler, bytes));
    }

    fn rr_client(
        &self,
        compiler: &mut Compiler,
        identifications: Option<WordId>,
    ) -> Result<ProgramId, CommandError> {
        let transactions = compiler.metric("transactions");
        self.client(compiler, |b, compiler| {
            b.set(VALUE, DATA);
            self.send_work(b, compiler, self.request_bytes, identifications);
            b.send(TO_SERVER, self.request_bytes, VALUE, true);
            b.recv(TO_CLIENT, VALUE);
            b.kernel_work(self.receive_ns(compiler, self.response_bytes));
            b.count(transactions, 1);
        })
    }

    fn rr_server(
        &self,
        compiler: &mut Compiler,
        identifications: Option<WordId>,
    ) -> Result<ProgramId, CommandError> {
        let mut b = ProgramBuilder::new("netperf-server");
        compiler.bind(&mut b, self.remote_cpu);
        b.forever(|b, end| {
            b.recv(TO_SERVER, VALUE);
            b.jump_if(VALUE, Compare::Equal, GOOD_BYE, end);
            b.kernel_work(self.receive_ns(compiler, self.request_bytes));
            b.work(compiler.start.prices.netperf_round_ns);
            self.send_work(b, compiler, self.response_bytes, identifications);
            b.send(TO_CLIENT, self.response_bytes, VALUE, true);
        });
        b.exit();
        compiler.program(b)
    }

    fn stream_client(
        &self,
        compiler: &mut Compiler,
        identifications: Option<WordId>,
    ) -> Result<ProgramId, CommandError> {
        let bytes = compiler.metric("bytes");
        let lost = compiler.metric("lost");
        let room = self.room();
        self.client(compiler, |b, compiler| {
            b.set(VALUE, DATA);
            self.send_work(b, compiler, self.request_bytes, identifications);
            if self.test == Test::TcpStream {
                b.send(TO_SERVER, self.request_bytes, VALUE, true);
                b.count(bytes, self.request_bytes);
                return;
            }
            // Nothing holds a UDP sender back: it is the receiver that has no room.
            let (full, sent) = (b.label(), b.label());
            b.word_load(TAKEN, USED);
            b.word_load(GIVEN, NOW);
            b.subtract(USED, NOW);
            b.jump_if(USED, Compare::Greater, UDP_BUFFER, full);
            b.word_fetch_add(TAKEN, room, USED);
            b.send(TO_SERVER, self.request_bytes, VALUE, true);
            b.jump(sent);
            b.bind(full);
            b.count(lost, 1);
            b.bind(sent);
            // The tool's rate of the sender counts what was sent, lost or not.
            b.count(bytes, self.request_bytes);
        })
    }

    fn stream_server(&self, compiler: &mut Compiler) -> Result<ProgramId, CommandError> {
        let mut b = ProgramBuilder::new("netperf-server");
        compiler.bind(&mut b, self.remote_cpu);
        b.forever(|b, end| {
            b.recv(TO_SERVER, VALUE);
            b.jump_if(VALUE, Compare::Equal, GOOD_BYE, end);
            b.kernel_work(self.receive_ns(compiler, self.request_bytes));
            if self.test == Test::UdpStream {
                b.word_fetch_add(GIVEN, self.room(), NOW);
            }
        });
        b.exit();
        compiler.program(b)
    }

    /// `TCP_MAERTS`: the client receives until its time is up.
    fn receiving_client(&self, compiler: &mut Compiler) -> Result<ProgramId, CommandError> {
        let bytes = compiler.metric("bytes");
        self.client(compiler, |b, compiler| {
            b.recv(TO_CLIENT, VALUE);
            b.kernel_work(self.receive_ns(compiler, self.request_bytes));
            b.count(bytes, self.request_bytes);
        })
    }

    /// Its server sends until the client has shut the connection down.
    fn sending_server(&self, compiler: &mut Compiler) -> Result<ProgramId, CommandError> {
        let mut b = ProgramBuilder::new("netperf-server");
        compiler.bind(&mut b, self.remote_cpu);
        b.set(VALUE, DATA);
        let top = b.here();
        b.work(compiler.start.prices.netperf_round_ns);
        self.send_work(&mut b, compiler, self.request_bytes, None);
        b.send(TO_CLIENT, self.request_bytes, VALUE, true);
        b.word_load(GIVEN, NOW);
        b.jump_if(NOW, Compare::Equal, 0, top);
        b.set(VALUE, GOOD_BYE);
        b.send(TO_CLIENT, 0, VALUE, true);
        b.exit();
        compiler.program(b)
    }

    /// Space of a datagram in the receiver's buffer, bytes.
    fn room(&self) -> u64 {
        match self.request_bytes < PAGE {
            true => self.request_bytes.next_power_of_two() + DATAGRAM_HEAD,
            false => self.request_bytes.next_multiple_of(PAGE) + DATAGRAM_HEAD,
        }
    }
}
