//! HTTP/1.1, one request a connection, with a bound on everything that a client decides.
//!
//! A client may announce more bytes than there is memory, send one byte a minute, or connect and
//! say nothing. None of that may end the server or keep others waiting, so the size of a request is
//! checked before memory is taken for it, each connection has a thread and a deadline of its own,
//! and the number of connections is bounded:
//!
//! ```text
//! head > 16 KiB → 431    Content-Length > 16 KiB → 413    not complete after 10 s → 408    33rd connection → 503
//! ```
//!
//! Worked example: `Content-Length: 100000` with one byte of body is answered `413` before the
//! second byte is read; `Content-Length: 100` with one byte of body is answered `408` ten seconds
//! after the connection was made. Meanwhile 31 other connections are served.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Largest request line with its headers, bytes; browsers send about one thousand.
const LARGEST_HEAD: usize = 16 * 1024;
/// Largest body, bytes.
const LARGEST_BODY: usize = 16 * 1024;
/// Most headers of a request.
const MOST_HEADERS: usize = 64;
/// Most connections at a time.
const MOST_CONNECTIONS: usize = 32;
/// Time for a whole request to arrive, and for a whole reply to be taken.
const TIME: Duration = Duration::from_secs(10);
/// Time to wait for a client to close its side after it was answered.
const LINGER: Duration = Duration::from_secs(1);
/// How often a waiting thread looks whether the server is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Headers that decide who asks and what is sent. A request with two of them means different things
/// to different readers, so it is refused.
const ONLY_ONCE: [&str; 5] = [
    "Host",
    "Origin",
    "Content-Type",
    "Content-Length",
    "Transfer-Encoding",
];

/// A request that arrived as a whole.
pub(super) struct Request {
    /// `GET`, `POST`, …
    pub method: String,
    /// Target of the request, as sent.
    pub target: String,
    headers: Vec<(String, String)>,
    /// Body of the request, at most [`LARGEST_BODY`] bytes.
    pub body: Vec<u8>,
}

impl Request {
    /// The value of a header, whose name may be written in any case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(field, _)| field.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Answer to a request.
pub(super) struct Reply {
    /// Three digits.
    pub status: u16,
    /// `Content-Type`.
    pub kind: &'static str,
    /// The body.
    pub text: String,
}

/// A reply in words.
pub(super) fn plain(status: u16, text: impl Into<String>) -> Reply {
    Reply {
        status,
        kind: "text/plain; charset=utf-8",
        text: text.into(),
    }
}

/// Answers requests until `stop` is set.
///
/// # Errors
/// A socket whose address cannot be read, or no thread can be started.
pub(super) fn serve(
    listener: &TcpListener,
    stop: &AtomicBool,
    answer: &(dyn Fn(&Request) -> Reply + Sync),
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let open = &AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let accepting = move || {
            while let Some(stream) = accept(listener, stop).map(Arc::new) {
                let refuse = |why| {
                    open.fetch_sub(1, Ordering::Relaxed);
                    let _ = send(&stream, &plain(503, why), Duration::ZERO);
                };
                if open.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
                    refuse("too many connections\n");
                    continue;
                }
                let own = Arc::clone(&stream);
                let attended = move || {
                    // A client that went away is no concern of the server.
                    let _ = attend(&own, stop, answer);
                    open.fetch_sub(1, Ordering::Relaxed);
                };
                if Builder::new().spawn_scoped(scope, attended).is_err() {
                    refuse("no thread can be started\n");
                }
            }
        };
        let accepting = Builder::new().spawn_scoped(scope, accepting)?;
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY);
        }
        // The thread that accepts waits for a connection; this is the last one.
        while !accepting.is_finished() {
            let _ = TcpStream::connect(address);
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    })
}

/// The next connection; none once the server is to stop.
fn accept(listener: &TcpListener, stop: &AtomicBool) -> Option<TcpStream> {
    loop {
        let accepted = listener.accept();
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        match accepted {
            Ok((stream, _)) => return Some(stream),
            // The client gave up, or all descriptors are in use: there may be one a moment later.
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// Reads one request, answers it and closes the connection.
fn attend(
    stream: &TcpStream,
    stop: &AtomicBool,
    answer: &(dyn Fn(&Request) -> Reply + Sync),
) -> io::Result<()> {
    let mut incoming = Incoming {
        stream,
        stop,
        deadline: Instant::now() + TIME,
        bytes: Vec::new(),
    };
    let reply = match incoming.request() {
        Ok(request) => answer(&request),
        Err(Refusal::Answered(reply)) => reply,
        Err(Refusal::Gone) => return Ok(()),
    };
    send(stream, &reply, TIME)?;
    // Closing with bytes unread would reset the connection, and the client might lose the reply.
    stream.shutdown(Shutdown::Write)?;
    incoming.deadline = Instant::now() + LINGER;
    while incoming.more().is_ok() {
        incoming.bytes.clear();
    }
    Ok(())
}

/// Why there is no request.
enum Refusal {
    Answered(Reply),
    /// The client has left.
    Gone,
}

fn refuse(status: u16, text: impl Into<String>) -> Refusal {
    Refusal::Answered(plain(status, text))
}

/// A request while it arrives.
struct Incoming<'a> {
    stream: &'a TcpStream,
    stop: &'a AtomicBool,
    deadline: Instant,
    bytes: Vec<u8>,
}

impl Incoming<'_> {
    fn request(&mut self) -> Result<Request, Refusal> {
        let (mut request, head_bytes) = loop {
            self.more()?;
            if let Some(parsed) = parse_head(&self.bytes)? {
                break parsed;
            }
            if self.bytes.len() > LARGEST_HEAD {
                let text = format!("a request has at most {LARGEST_HEAD} bytes of headers\n");
                return Err(refuse(431, text));
            }
        };
        let body_bytes = body_bytes(&request)?;
        let expects = request.header("Expect");
        if expects.is_some_and(|what| what.eq_ignore_ascii_case("100-continue")) {
            let mut stream = self.stream;
            let go_on = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
            go_on.map_err(|_| Refusal::Gone)?;
        }
        while self.bytes.len() < head_bytes + body_bytes {
            self.more()?;
        }
        request.body = self.bytes[head_bytes..head_bytes + body_bytes].to_vec();
        Ok(request)
    }

    /// Takes what has arrived, at least one byte.
    fn more(&mut self) -> Result<(), Refusal> {
        let mut piece = [0; 4096];
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() && !self.bytes.is_empty() {
                let seconds = TIME.as_secs();
                let text = format!("the request was not complete after {seconds} s\n");
                return Err(refuse(408, text));
            }
            if left.is_zero() || self.stop.load(Ordering::Relaxed) {
                return Err(Refusal::Gone);
            }
            let timeout = self.stream.set_read_timeout(Some(left.min(LOOK_EVERY)));
            timeout.map_err(|_| Refusal::Gone)?;
            let mut stream = self.stream;
            match stream.read(&mut piece) {
                Ok(0) => return Err(Refusal::Gone),
                Ok(bytes) => {
                    self.bytes.extend_from_slice(&piece[..bytes]);
                    return Ok(());
                }
                Err(error) if is_temporary(&error) => {}
                Err(_) => return Err(Refusal::Gone),
            }
        }
    }
}

/// The request without its body, and how many bytes its head has; nothing while the head is not
/// complete.
fn parse_head(bytes: &[u8]) -> Result<Option<(Request, usize)>, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut fields);
    let head_bytes = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            let text = format!("a request has at most {MOST_HEADERS} headers\n");
            return Err(refuse(431, text));
        }
        Err(error) => return Err(refuse(400, format!("no HTTP/1.1: {error}\n"))),
    };
    let mut headers = Vec::with_capacity(parsed.headers.len());
    for field in parsed.headers.iter() {
        let Ok(value) = std::str::from_utf8(field.value) else {
            return Err(refuse(400, format!("{} is not UTF-8\n", field.name)));
        };
        headers.push((field.name.to_owned(), value.trim().to_owned()));
    }
    for name in ONLY_ONCE {
        let given = headers
            .iter()
            .filter(|(field, _)| field.eq_ignore_ascii_case(name));
        if given.count() > 1 {
            return Err(refuse(400, format!("{name} is given twice\n")));
        }
    }
    let request = Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        target: parsed.path.unwrap_or_default().to_owned(),
        headers,
        body: Vec::new(),
    };
    Ok(Some((request, head_bytes)))
}

/// How many bytes follow the head.
fn body_bytes(request: &Request) -> Result<usize, Refusal> {
    if request.header("Transfer-Encoding").is_some() {
        return Err(refuse(
            501,
            "send a Content-Length instead of a Transfer-Encoding\n",
        ));
    }
    let Some(length) = request.header("Content-Length") else {
        return Ok(0);
    };
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(refuse(400, "Content-Length is not a number\n"));
    }
    match length.parse() {
        Ok(bytes) if bytes <= LARGEST_BODY => Ok(bytes),
        _ => {
            let text = format!("a request of {length} bytes; at most {LARGEST_BODY} are read\n");
            Err(refuse(413, text))
        }
    }
}

/// Sends a reply. A client that takes longer than `time` for it does not get the rest.
fn send(mut stream: &TcpStream, reply: &Reply, time: Duration) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\n\r\n",
        reply.status,
        reason(reply.status),
        reply.kind,
        reply.text.len(),
    );
    let deadline = Instant::now() + time;
    for part in [head.as_bytes(), reply.text.as_bytes()] {
        let mut rest = part;
        while !rest.is_empty() {
            // A timeout of zero would be none.
            let left = deadline.saturating_duration_since(Instant::now());
            stream.set_write_timeout(Some(left.max(Duration::from_millis(1))))?;
            match stream.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => rest = &rest[bytes..],
                Err(error) if is_temporary(&error) && !left.is_zero() => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn is_temporary(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "",
    }
}
