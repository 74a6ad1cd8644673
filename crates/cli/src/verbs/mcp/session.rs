//! A session: lines in, lines out, and one call at a time beside them.
//!
//! ```text
//! reader ──► line ──► session ──► reply          what is answered at once: ping, tools/list, …
//!                       │   ▲
//!                       ▼   └── answer ── call   the first of those that wait, on its own thread
//! ```
//!
//! Worked example: behind a call of 20 s a client sends `ping`, which is answered at once, and a
//! second call, which waits. `notifications/cancelled` takes the second one away; of the first, it
//! takes the answer alone, for no simulation can be ended half way.

use std::collections::VecDeque;
use std::io::{BufRead, ErrorKind, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use schedcast_lab::error::{Error, Result};
use schedcast_lab::simulator::Simulator;
use serde_json::{Value, json};

use super::{BUSY, LONGEST_REQUEST, MOST_WAITING, NO_REQUEST, Reply, called, refused, reply};
use crate::written;

/// How often a session without further requests asks whether anybody still waits for its answers.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Something that a session has to react to.
enum Event {
    Line(Vec<u8>),
    /// A line of more than [`LONGEST_REQUEST`] bytes, which was skipped.
    TooLong,
    /// The requests have ended.
    End(std::io::Result<()>),
    /// The reply to the call that ran.
    Answer(Value),
}

/// Answers the requests of `input` until there are no more, or until nobody is there to read the
/// answers (`is_gone`).
pub(super) fn serve(
    input: impl BufRead + Send + 'static,
    simulator: Simulator,
    out: &mut impl Write,
    is_gone: impl Fn() -> bool,
) -> Result<()> {
    // One line is read ahead.
    let (events, received) = sync_channel(1);
    let lines = events.clone();
    std::thread::spawn(move || read(input, &lines));
    let calls = Calls {
        simulator: Arc::new(simulator),
        events,
        running: None,
        waiting: VecDeque::new(),
    };
    calls.answer(&received, out, is_gone)
}

/// Sends the lines of `input`.
fn read(mut input: impl BufRead, events: &SyncSender<Event>) {
    let ended = loop {
        let mut line = Vec::new();
        let event = match input
            .by_ref()
            .take(LONGEST_REQUEST)
            .read_until(b'\n', &mut line)
        {
            Err(error) => break Err(error),
            Ok(0) => break Ok(()),
            Ok(read) if read as u64 == LONGEST_REQUEST && line.last() != Some(&b'\n') => {
                match input.skip_until(b'\n') {
                    Ok(_) => Event::TooLong,
                    Err(error) => break Err(error),
                }
            }
            Ok(_) => Event::Line(line),
        };
        if events.send(event).is_err() {
            return;
        }
    };
    // The session may have ended before its input.
    let _ = events.send(Event::End(ended));
}

/// A call with the identity of its request.
struct Call {
    id: Value,
    parameters: Value,
}

/// The call that runs and those that wait for it.
struct Calls {
    simulator: Arc<Simulator>,
    events: SyncSender<Event>,
    /// Identity of the call that runs; its answer is wanted unless it was cancelled.
    running: Option<(Value, bool)>,
    waiting: VecDeque<Call>,
}

impl Calls {
    fn answer(
        mut self,
        received: &Receiver<Event>,
        out: &mut impl Write,
        is_gone: impl Fn() -> bool,
    ) -> Result<()> {
        let mut ended = false;
        while !ended || self.running.is_some() {
            let told = match received.recv_timeout(LOOK_EVERY) {
                Err(RecvTimeoutError::Timeout) if ended && is_gone() => return Ok(()),
                Err(_) => None,
                Ok(Event::Line(line)) => self.react(&line),
                Ok(Event::TooLong) => {
                    let message = format!("a request is longer than {LONGEST_REQUEST} bytes");
                    Some(refused(&Value::Null, (NO_REQUEST, message)))
                }
                Ok(Event::End(read)) => {
                    ended = true;
                    read.map_err(|error| Error::file("read", "requests", &error))?;
                    None
                }
                Ok(Event::Answer(answer)) => {
                    let ran = self.running.take();
                    ran.is_some_and(|(_, wanted)| wanted).then_some(answer)
                }
            };
            if let Some(told) = told {
                match writeln!(out, "{told}").and_then(|()| out.flush()) {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                    result => written(result)?,
                }
            }
            self.start();
        }
        Ok(())
    }

    /// The reply to a line that is answered at once.
    fn react(&mut self, line: &[u8]) -> Option<Value> {
        match reply(line)? {
            Reply::Now(value) => Some(value),
            Reply::Call { id, .. } if self.waiting.len() >= MOST_WAITING => {
                let message = format!("{MOST_WAITING} calls wait already: ask again later");
                Some(refused(&id, (BUSY, message)))
            }
            Reply::Call { id, parameters } => {
                self.waiting.push_back(Call { id, parameters });
                None
            }
            Reply::Cancel(id) => {
                self.waiting.retain(|call| call.id != id);
                if let Some((running, wanted)) = &mut self.running {
                    *wanted &= *running != id;
                }
                None
            }
        }
    }

    /// Starts the first call that waits, unless one runs.
    fn start(&mut self) {
        if self.running.is_some() {
            return;
        }
        let Some(Call { id, parameters }) = self.waiting.pop_front() else {
            return;
        };
        self.running = Some((id.clone(), true));
        let (simulator, events) = (Arc::clone(&self.simulator), self.events.clone());
        std::thread::spawn(move || {
            let call = AssertUnwindSafe(|| called(&id, &parameters, &*simulator));
            let answer = catch_unwind(call).unwrap_or_else(|_| {
                let error = json!({"code": super::FAILED, "message": "the call failed"});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            });
            // Nobody is left to tell where the session has ended.
            let _ = events.send(Event::Answer(answer));
        });
    }
}
