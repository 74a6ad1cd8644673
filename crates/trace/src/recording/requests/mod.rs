//! The log of a service's requests beside a trace: who logs, in which format, on which clock.
//!
//! Load generators log what they see on the trace's clock, in `requests.csv` (`csv`). Servers,
//! proxies and tracing libraries log by the wall clock: access logs of nginx, HAProxy and Envoy
//! (`access`), OpenTelemetry's spans (`spans`). `recording.json` says how far the wall clock is
//! ahead of the trace's (`realtime_offset_ns`).
//!
//! Worked example: nginx wrote `1764097260.250 0.120 17` at the end of a request that took 0.12 s
//! on its connection 17. The wall clock is 1 764 091 889.2 s ahead of the trace's, so the request
//! came at 5370.930 s and was answered by 5371.051: a time in whole milliseconds stands for all of
//! them.

mod access;
mod csv;
mod spans;
mod wall;

use std::collections::BTreeMap;
use std::path::Path;

use super::meta::Meta;
use crate::error::{ErrorKind, ReadError};

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The connection that carried it.
    pub client: u32,
    /// When the load generator was to send it, in µs.
    pub scheduled_us: u64,
    /// When it was sent, in µs.
    pub sent_us: u64,
    /// When the answer came, in µs.
    pub replied_us: u64,
}

impl Request {
    /// Reads a load generator's log, `requests.csv`, outside a recording.
    ///
    /// # Errors
    /// A file that cannot be read, and lines that are not of this form.
    pub fn read_csv(path: &Path) -> Result<Vec<Request>, ReadError> {
        let text =
            schedcast_base::whole::read(path).map_err(|error| ReadError::io(path, &error))?;
        csv::parse(path, &text)
    }

    /// Whether a log has whole milliseconds only, as access logs do: such times say nothing of the
    /// order of what follows each other closely. On the trace's clock they share a fraction.
    pub fn are_whole_milliseconds(log: &[Request]) -> bool {
        let fraction = |request: &Request| [request.sent_us % 1000, request.replied_us % 1000];
        let first = log.first().map(fraction);
        log.len() > 1 && log.iter().all(|request| Some(fraction(request)) == first)
    }
}

/// Names of a log that counts without being named in `recording.json`, the first that is there.
pub(super) const NAMES: [&str; 4] = [
    "requests.csv",
    "requests.log",
    "requests.json",
    "requests.jsonl",
];

/// One request by the wall clock, in ns since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Logged {
    begin_ns: u64,
    end_ns: u64,
    /// Name of its connection, where the log has one.
    connection: Option<String>,
}

/// Reads a log in any format, for the recording of which `meta` tells.
pub(super) fn read(path: &Path, meta: &Meta) -> Result<Vec<Request>, ReadError> {
    let text = schedcast_base::whole::read(path).map_err(|error| ReadError::io(path, &error))?;
    let first = text.trim_ascii_start();
    let logged = match access::Format::of(first) {
        _ if first.starts_with(b"{") => spans::parse(path, &text)?,
        Some(format) => format.parse(path, &text, meta.utc_offset_s.unwrap_or(0))?,
        None => return csv::parse(path, &text),
    };
    on_trace_clock(path, logged, meta)
}

/// The part of a log by the wall clock that falls into the recording, on the trace's clock.
fn on_trace_clock(
    path: &Path,
    mut logged: Vec<Logged>,
    meta: &Meta,
) -> Result<Vec<Request>, ReadError> {
    let Some(offset_ns) = meta.realtime_offset_ns else {
        let message = "its times are those of the wall clock, and recording.json has no \
                       `realtime_offset_ns`, by how much that is ahead of the trace's clock: \
                       `schedcast record` writes it";
        return Err(ReadError::new(ErrorKind::Unsupported, path, message));
    };
    logged.sort_by_key(|one| (one.begin_ns, one.end_ns));
    let since = |wall_ns: u64| u64::try_from(i128::from(wall_ns) - i128::from(offset_ns)).ok();
    let (from_ns, to_ns) = (meta.start_ns.unwrap_or(0), meta.end_ns.unwrap_or(u64::MAX));
    let mut connections = Connections::default();
    let requests: Vec<Request> = logged
        .iter()
        .filter_map(|one| Some((one, since(one.begin_ns)?, since(one.end_ns)?)))
        .filter(|(_, begin_ns, end_ns)| *begin_ns <= to_ns && *end_ns >= from_ns)
        .map(|(one, begin_ns, end_ns)| Request {
            client: connections.number(one, begin_ns, end_ns),
            scheduled_us: begin_ns / 1000,
            sent_us: begin_ns / 1000,
            replied_us: end_ns / 1000,
        })
        .collect();
    let (Some(first), true) = (logged.first(), requests.is_empty()) else {
        return Ok(requests);
    };
    let seconds = |ns: i128| ns / 1_000_000_000;
    let message = format!(
        "expected requests in the time of the recording, {} to {} s of the trace's clock; the log \
         begins at {} s",
        seconds(from_ns.into()),
        seconds(to_ns.into()),
        seconds(i128::from(first.begin_ns) - i128::from(offset_ns))
    );
    Err(ReadError::new(ErrorKind::Malformed, path, message))
}

/// Numbers of connections: by their names, or, in a log without names, as few as requests that
/// overlap need.
#[derive(Default)]
struct Connections {
    named: BTreeMap<String, u32>,
    /// When the last request of each ends.
    busy_until_ns: Vec<u64>,
}

impl Connections {
    fn number(&mut self, one: &Logged, begin_ns: u64, end_ns: u64) -> u32 {
        if let Some(name) = &one.connection {
            let next = self.named.len() as u32;
            return *self.named.entry(name.clone()).or_insert(next);
        }
        let free = self
            .busy_until_ns
            .iter()
            .position(|until_ns| *until_ns <= begin_ns);
        let place = free.unwrap_or_else(|| {
            self.busy_until_ns.push(0);
            self.busy_until_ns.len() - 1
        });
        self.busy_until_ns[place] = end_ns;
        place as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> Meta {
        Meta {
            realtime_offset_ns: Some(1_764_091_889_200_000_000),
            start_ns: Some(5_370_000_000_000),
            end_ns: Some(5_400_000_000_000),
            ..Meta::default()
        }
    }

    fn read_text(text: &str, meta: &Meta) -> Result<Vec<Request>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let name = format!("{}", file.path().display());
        read(file.path(), meta).map_err(|error| error.to_string().replace(&name, "log"))
    }

    fn request(client: u32, sent_us: u64, replied_us: u64) -> Request {
        Request {
            client,
            scheduled_us: sent_us,
            sent_us,
            replied_us,
        }
    }

    #[test]
    fn times_of_the_wall_clock_are_put_on_the_clock_of_the_trace() {
        let text = "1764097260.250 0.120 17\n1764097260.300 0.010 18 GET /\n";
        let worked = [
            request(0, 5_370_930_000, 5_371_051_000),
            request(1, 5_371_090_000, 5_371_101_000),
        ];
        let read = read_text(text, &meta()).unwrap();
        assert_eq!(read, worked);
        assert!(Request::are_whole_milliseconds(&read));
        assert!(!Request::are_whole_milliseconds(&read[..1]));
        assert!(!Request::are_whole_milliseconds(&[
            read[0],
            request(0, 1, 2)
        ]));
    }

    #[test]
    fn every_format_says_the_same_of_a_request() {
        let json = r#"{"msec": "1764097260.250", "request_time": "0.120", "connection": "17"}"#;
        let envoy = r#"[2025-11-25T19:01:00.130Z] "GET / HTTP/1.1" 200 - 0 12 120 119 "-" "curl""#;
        let envoy_json = r#"{"start_time": "2025-11-25T19:01:00.130Z", "duration": 120}"#;
        let haproxy = "Nov 25 20:01:00 lb haproxy[7]: 10.0.0.1:4711 [25/Nov/2025:20:01:00.130] in \
                       back/one 0/0/1/119/120 200 12 - - ---- 1/1/0/0/0 0/0 \"GET / HTTP/1.1\"";
        let span = r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{"kind": 2,
            "startTimeUnixNano": "1764097260130000000",
            "endTimeUnixNano": "1764097260251000000"}]}]}]}"#;
        let meta = Meta {
            utc_offset_s: Some(3600),
            ..meta()
        };
        let nginx = "1764097260.250 0.120";
        for text in [nginx, json, envoy, envoy_json, haproxy, span] {
            let found = read_text(&format!("{text}\n"), &meta);
            let expected = [request(0, 5_370_930_000, 5_371_051_000)];
            assert_eq!(found.as_deref(), Ok(&expected[..]), "{text}");
        }
    }

    #[test]
    fn requests_that_overlap_are_given_connections_of_their_own() {
        // 130 to 251 ms, 200 to 211 and 260 to 271: two connections.
        let text = "1764097260.250 0.120\n1764097260.210 0.010\n1764097260.270 0.010\n";
        let clients: Vec<u32> = read_text(text, &meta())
            .unwrap()
            .iter()
            .map(|request| request.client)
            .collect();
        assert_eq!(clients, [0, 1, 0]);
    }

    #[test]
    fn a_log_of_another_time_or_without_a_clock_is_refused() {
        let text = "1764097360.250 0.120\n";
        let message = "log: expected requests in the time of the recording, 5370 to 5400 s of the \
                       trace's clock; the log begins at 5470 s";
        assert_eq!(read_text(text, &meta()).unwrap_err(), message);
        let unknown = Meta {
            realtime_offset_ns: None,
            ..meta()
        };
        let error = read_text(text, &unknown).unwrap_err();
        assert!(error.contains("no `realtime_offset_ns`"), "{error}");
    }
}
