//! `netperf` over the loopback device: one client and one server process per pair.
//!
//! ```text
//! RR      client  loop: send request · receive response          until the time is up
//!         server  loop: receive request · send response
//! STREAM  client  loop: send                                     until the time is up
//!         server  loop: receive what there is
//! ```
//!
//! Data sent through the loopback device is received in the context of the sender: its `sendto`
//! runs the transmit path and then, before it returns, the receive softirq, which puts the data
//! into the peer's socket and wakes it with the sync hint. So one `send` here is one price and one
//! wakeup. Worked example: with 2 µs for a send, 0.6 µs for a receive and 3 µs for wakeup and
//! switch, one round trip (two of each) takes 11.2 µs: 89,000 transactions a second.
//!
//! UDP sockets are not connected, as in the tool's omni tests, so each datagram takes its IP
//! identification from the generator that all of them share (`__ip_select_ident`): one counter,
//! whose cache line travels where the machine has contended lines. At 81 ns each, 12.4 million
//! datagrams a second are all that a machine sends, by however many CPUs.
//!
//! The tool runs one pair. Test robots start many of them at once; `--pairs N`, which the tool does
//! not have, stands for N netperfs started together, each with a netserver process of its own.

mod compile;
mod report;
#[cfg(test)]
mod tests;

use schedcast_kernel::cpuset::CpuSet;

use super::command::{CommandError, Tool, Words, compiled, whole};
use super::model::Length;

const PAIRS_MAX: u64 = 4096;
const SECOND_NS: u64 = 1_000_000_000;

/// `netperf`.
pub(crate) static TOOL: Tool = Tool {
    words: &["netperf"],
    name: "netperf",
    about: "pairs of processes that talk over the loopback device",
    operands: "[-- -m BYTES -r REQUEST,RESPONSE]",
    compile: compiled!(Options, cpus),
};

schedcast_base::named! {
    /// Test that a pair runs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Test {
        /// Data in one direction, with flow control.
        TcpStream = "TCP_STREAM",
        /// The same from the server to the client.
        TcpMaerts = "TCP_MAERTS",
        /// Data in one direction; what the receiver has no room for is lost.
        UdpStream = "UDP_STREAM",
        /// Request and response over TCP.
        TcpRr = "TCP_RR",
        /// Request and response over UDP.
        UdpRr = "UDP_RR",
    }
}

impl Test {
    fn is_tcp(self) -> bool {
        matches!(self, Test::TcpStream | Test::TcpMaerts | Test::TcpRr)
    }

    fn is_stream(self) -> bool {
        matches!(self, Test::TcpStream | Test::TcpMaerts | Test::UdpStream)
    }
}

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Test that each pair runs.
    pub test: Test,
    /// Client and server processes.
    pub pairs: u64,
    /// When a client stops.
    pub length: Length,
    /// Bytes of a request, or of a send of a stream.
    pub request_bytes: u64,
    /// Bytes of a response.
    pub response_bytes: u64,
    local_cpu: Option<CpuSet>,
    remote_cpu: Option<CpuSet>,
    headers: bool,
}

impl Options {
    /// Reads a command line.
    ///
    /// # Errors
    /// Unknown tests, bad numbers, flags behind `--` that cannot be forecast.
    pub(crate) fn read(words: &Words, cpus: usize) -> Result<Self, CommandError> {
        let test = read_test(words)?;
        let (local_cpu, remote_cpu) = read_binding(words, cpus)?;
        let mut options = Self {
            test,
            pairs: words.whole("pairs", 1..=PAIRS_MAX, 1)?,
            length: read_length(words, test)?,
            request_bytes: match test {
                Test::TcpRr | Test::UdpRr => 1,
                // The send buffer of a new connection; the largest datagram.
                Test::TcpStream | Test::TcpMaerts => 16_384,
                Test::UdpStream => 65_507,
            },
            response_bytes: 1,
            local_cpu,
            remote_cpu,
            headers: words.last("P").is_none_or(|given| given.text() != "0"),
        };
        options.read_test_flags(words)?;
        Ok(options)
    }

    /// The flags behind `--`.
    fn read_test_flags(&mut self, words: &Words) -> Result<(), CommandError> {
        const KNOWN: &str = "behind `--`, only `-m BYTES` (streams) and `-r REQUEST,RESPONSE` \
                             (transactions) can be forecast";
        let error = |word: usize, message: &str| CommandError::new(TOOL.name, word, message);
        let range = 1..=match self.test.is_tcp() {
            true => 1 << 24,
            false => 65_507,
        };
        let mut rest = words.operands.iter();
        while let Some((flag, word)) = rest.next() {
            let Some((value, at)) = rest.next() else {
                return Err(error(*word, &format!("`{flag}` needs a value; {KNOWN}")));
            };
            let read = |text: &str| {
                whole(text, &range).map_err(|what| {
                    error(*at, &format!("flag `{flag}` needs {what}, found `{text}`"))
                })
            };
            match (flag.as_str(), self.test.is_stream()) {
                ("-m", true) => self.request_bytes = read(value)?,
                ("-r", false) => {
                    let (request, response) = value.split_once(',').unwrap_or((value, value));
                    self.request_bytes = read(request)?;
                    self.response_bytes = read(response)?;
                }
                _ => return Err(error(*word, &format!("`{flag}` is refused: {KNOWN}"))),
            }
        }
        Ok(())
    }
}

fn read_test(words: &Words) -> Result<Test, CommandError> {
    let Some(given) = words.last("t") else {
        return Ok(Test::TcpStream);
    };
    let is_meant = |test: &Test| test.name().eq_ignore_ascii_case(given.text());
    let meant = Test::ALL.into_iter().find(is_meant);
    meant.ok_or_else(|| given.unknown("test", &Test::ALL.map(Test::name)))
}

fn read_length(words: &Words, test: Test) -> Result<Length, CommandError> {
    let Some(given) = words.last("l") else {
        return Ok(Length::Time(10 * SECOND_NS));
    };
    let Some(count) = given.text().strip_prefix('-') else {
        return match given.duration_ns(SECOND_NS)? {
            0 => Err(given.error("a test of length 0 has no end; give a length, such as `-l 20`")),
            time_ns => Ok(Length::Time(time_ns)),
        };
    };
    if test.is_stream() {
        return Err(given.error("a stream has a time, a number of transactions it has not"));
    }
    whole(count, &(1..=1 << 40))
        .map(Length::Transactions)
        .map_err(|what| given.error(format!("flag `-l` needs {what} behind the minus")))
}

/// `-T local,remote`; either may be missing.
fn read_binding(
    words: &Words,
    cpus: usize,
) -> Result<(Option<CpuSet>, Option<CpuSet>), CommandError> {
    let Some(given) = words.last("T") else {
        return Ok((None, None));
    };
    let range = 0..=cpus.saturating_sub(1) as u64;
    let read = |text: &str| match text {
        "" => Ok(None),
        text => whole(text, &range)
            .map(|cpu| Some(CpuSet::of(schedcast_kernel::Cpu(cpu as u32))))
            .map_err(|what| given.error(format!("flag `-T` needs {what}, found `{text}`"))),
    };
    match given.text().split_once(',') {
        Some((local, remote)) => Ok((read(local)?, read(remote)?)),
        // One number is for both.
        None => Ok((read(given.text())?, read(given.text())?)),
    }
}
