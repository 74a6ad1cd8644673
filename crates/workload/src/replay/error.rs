//! Why a recording cannot be replayed.

use std::path::PathBuf;

/// Why a recording cannot be replayed, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// Events are missing in the middle of the trace.
    #[error(
        "{}:{line}: {} lost here ({gaps} gaps in all): wakeups and switches are missing, so work \
         and causes cannot be told; record with a larger buffer, or allow lost events explicitly",
        trace.display(),
        match events { Some(1) => "1 event was".to_owned(), Some(n) => format!("{n} events were"),
            None => "an unknown number of events was".to_owned() }
    )]
    LostEvents {
        /// Trace file.
        trace: PathBuf,
        /// Line of the first gap (0 where the format has no lines).
        line: u64,
        /// Events missing there, if known.
        events: Option<u64>,
        /// Number of gaps.
        gaps: usize,
    },
    /// The trace ends early, or the file of a CPU is missing.
    #[error(
        "{}: the trace has {read} events, expected {told}, as many as the recorder counted \
         (`events` of recording.json): the trace was cut, or the file of a CPU is missing; copy the \
         recording again, or record anew",
        trace.display()
    )]
    TraceCut {
        /// Trace file.
        trace: PathBuf,
        /// Events that the recorder counted.
        told: u64,
        /// Events in the trace.
        read: u64,
    },
    /// The recorder says that events were lost, without saying where.
    #[error(
        "{}: the recorder lost {events} events (`lost_events` of recording.json); record with a \
         larger buffer, or allow lost events explicitly",
        trace.display()
    )]
    RecorderLostEvents {
        /// Trace file.
        trace: PathBuf,
        /// How many.
        events: u64,
    },
    /// The recording has no length.
    #[error("{}: the recording ends when it starts, at {start_ns} ns", trace.display())]
    NoTime {
        /// Trace file.
        trace: PathBuf,
        /// When.
        start_ns: u64,
    },
    /// A window outside the recording.
    #[error(
        "the window from {:.3} s to {:.3} s does not lie in a recording of {:.3} s",
        *from_ns as f64 / 1e9, *to_ns as f64 / 1e9, *length_ns as f64 / 1e9
    )]
    Window {
        /// Its begin, ns since the start of the recording.
        from_ns: u64,
        /// Its end.
        to_ns: u64,
        /// Length of the recording.
        length_ns: u64,
    },
    /// Another number of threads where none take requests of a client that waits.
    #[error(
        "no threads take requests of a client that waits for answers: their number cannot be changed"
    )]
    NoPool,
    /// Another number of threads where a service is, whose threads are not each busy with one
    /// request of a client.
    #[error(
        "the number of threads cannot be changed: `{group}` is a service whose threads share its \
         requests; `foreground` takes another cgroup alone"
    )]
    ThreadsOfService {
        /// The service's cgroup.
        group: String,
    },
    /// A timeout of clients where no requests are known that could take too long.
    #[error("no requests of clients of a service are known: a timeout has nothing to end")]
    NoClients,
    /// A timeout of clients whose requests are several messages each.
    #[error(
        "a request of these clients is several messages (the handshake of TLS, the statements of a \
         transaction): that they give up in the middle is not modelled; leave `client_timeout` out"
    )]
    Dialogues,
    /// Clients that ask again where it is not known what begins a request.
    #[error(
        "{unknown} of {requests} requests cannot be asked again: the recording does not show what \
         begins the thread that answers them, such as a child that is forked for each"
    )]
    NoRetries {
        /// Requests without a known begin.
        unknown: usize,
        /// All of them.
        requests: usize,
    },
    /// A file of a cgroup does not hold what the kernel writes there.
    #[error("cgroups.json: {message}")]
    Cgroup {
        /// Which and why.
        message: String,
    },
    /// No group of this path.
    #[error("unknown cgroup `{path}`; {suggestion}")]
    UnknownGroup {
        /// Path that was asked for.
        path: String,
        /// The nearest path, or all of them.
        suggestion: String,
    },
    /// No thread of this name.
    #[error("unknown thread name `{name}`; {suggestion}")]
    UnknownThread {
        /// Name that was asked for.
        name: String,
        /// The nearest name, or all of them.
        suggestion: String,
    },
}
