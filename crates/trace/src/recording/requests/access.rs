//! Access logs of servers and proxies, a line a request.
//!
//! | who | format | begin | end |
//! |---|---|---|---|
//! | nginx | `log_format`: `$msec $request_time $connection` | `$msec` − `$request_time` | `$msec` |
//! | HAProxy | `option httplog` | `%tr`, in brackets | + `%Ta`, the last of five timers |
//! | Envoy | its default | in brackets | + `%DURATION%` |
//!
//! Further columns are passed over, and so is what HAProxy logs besides requests. All of them write
//! whole milliseconds, cut off: a request ends at the end of the one that is written.
//!
//! The formats are those of ngx_http_log_module (`$msec`: seconds at the time of the log write;
//! `$request_time`: since the first bytes were read from the client), of HAProxy's configuration
//! manual, 8.2.3 (`%tr`: when the first byte of the request was received; `%Ta`: from there to the
//! last byte of the response) and of Envoy's access logging (`DURATION`: from the start time to the
//! last byte out).

use std::path::Path;

use super::{Logged, wall};
use crate::error::{ErrorKind, ReadError, excerpt};

/// Times are logged in whole milliseconds.
const RESOLUTION_NS: u64 = 1_000_000;

/// Writer of an access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Nginx,
    HaProxy,
    Envoy,
    /// The default of nginx and others: whole seconds, no durations.
    Combined,
}

impl Format {
    /// The format of a log by its first lines; `None` if it is no access log.
    pub(super) fn of(text: &[u8]) -> Option<Format> {
        let first = text.split(|byte| *byte == b'\n').next()?;
        let first = String::from_utf8_lossy(first);
        let mut words = first.split_ascii_whitespace();
        let date = first
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'));
        if date.is_some_and(|(date, _)| wall::iso_ns(date).is_some()) {
            return Some(Format::Envoy);
        }
        let is_number = |word: Option<&str>| word.and_then(wall::seconds_ns).is_some();
        if is_number(words.next()) && is_number(words.next()) {
            return Some(Format::Nginx);
        }
        // HAProxy logs its start before any request.
        let mut lines = text.split(|byte| *byte == b'\n').take(100);
        lines.find_map(|line| {
            let line = String::from_utf8_lossy(line);
            let (_, date) = line.split_once(" [")?;
            let (date, _) = date.split_once(']')?;
            match date.split_once(' ') {
                Some((date, _)) => wall::log_date_ns(date, 0).map(|_| Format::Combined),
                None => wall::log_date_ns(date, 0).map(|_| Format::HaProxy),
            }
        })
    }

    /// The requests of a log, by a wall clock that HAProxy's is `utc_offset_s` ahead of.
    pub(super) fn parse(
        self,
        path: &Path,
        text: &[u8],
        utc_offset_s: i32,
    ) -> Result<Vec<Logged>, ReadError> {
        if self == Format::Combined {
            let message = "this format has whole seconds and no durations; nginx writes what is \
                           needed with: log_format requests '$msec $request_time $connection';";
            return Err(ReadError::new(ErrorKind::Unsupported, path, message).at_line(1));
        }
        let lines = text.split(|byte| *byte == b'\n').zip(1u64..);
        let mut logged = Vec::new();
        for (line, number) in lines.filter(|(line, _)| !line.trim_ascii().is_empty()) {
            let line = String::from_utf8_lossy(line);
            let found = match self {
                Format::Nginx | Format::Combined => nginx(&line).map(Some),
                Format::HaProxy => haproxy(&line, utc_offset_s.into()),
                Format::Envoy => envoy(&line).map(Some),
            };
            match found {
                Ok(one) => logged.extend(one),
                Err(expected) => {
                    let message =
                        format!("expected {expected}, found {}", excerpt(line.as_bytes()));
                    let error = ReadError::new(ErrorKind::Malformed, path, message);
                    return Err(error.at_line(number));
                }
            }
        }
        Ok(logged)
    }
}

/// A request from its begin and its duration.
pub(super) fn since(begin_ns: u64, duration_ns: u64, connection: Option<String>) -> Logged {
    Logged {
        begin_ns,
        end_ns: begin_ns
            .saturating_add(duration_ns)
            .saturating_add(RESOLUTION_NS),
        connection,
    }
}

/// A request from its end and its duration.
pub(super) fn until(end_ns: u64, duration_ns: u64, connection: Option<String>) -> Logged {
    Logged {
        begin_ns: end_ns.saturating_sub(duration_ns),
        end_ns: end_ns.saturating_add(RESOLUTION_NS),
        connection,
    }
}

fn nginx(line: &str) -> Result<Logged, &'static str> {
    let mut words = line.split_ascii_whitespace();
    let mut seconds = || words.next().and_then(wall::seconds_ns);
    let (Some(end_ns), Some(duration_ns)) = (seconds(), seconds()) else {
        return Err("nginx's $msec and $request_time");
    };
    let connection = words.next().filter(|word| word.parse::<u64>().is_ok());
    Ok(until(end_ns, duration_ns, connection.map(str::to_owned)))
}

fn envoy(line: &str) -> Result<Logged, &'static str> {
    let expected = "Envoy's default format, [START_TIME] \"REQUEST\" and five numbers";
    let inner = || {
        let (time, rest) = line.strip_prefix('[')?.split_once("] \"")?;
        let begin_ns = wall::iso_ns(time)?;
        // Code, flags, bytes received and sent, duration. A quoted request ends before the code.
        let (_, rest) = rest.split_once("\" ")?;
        let duration_ns = wall::milliseconds_ns(rest.split_ascii_whitespace().nth(4)?)?;
        Some(since(begin_ns, duration_ns, None))
    };
    inner().ok_or(expected)
}

/// `None` for a line about something else than a request.
fn haproxy(line: &str, utc_offset_s: i64) -> Result<Option<Logged>, &'static str> {
    let Some((before, rest)) = line.split_once(" [") else {
        return Ok(None);
    };
    let Some((date, rest)) = rest.split_once("] ") else {
        return Ok(None);
    };
    let Some(begin_ns) = wall::log_date_ns(date, utc_offset_s) else {
        return Err("a date such as 25/Nov/2025:20:01:00.130 in brackets");
    };
    // Frontend, backend/server, timers.
    let timers: Option<Vec<&str>> = rest
        .split_ascii_whitespace()
        .nth(2)
        .map(|word| word.split('/').collect());
    let Some(&[_, _, _, _, total]) = timers.as_deref() else {
        return Err("the five timers TR/Tw/Tc/Tr/Ta of `option httplog`");
    };
    // With a plus sign the response was still going on when this was logged.
    let total = total.trim_start_matches('+');
    let Some(duration_ns) = wall::milliseconds_ns(total) else {
        return Err("the total time Ta as the last of five timers");
    };
    let client = before.rsplit(' ').next().unwrap_or("").to_owned();
    Ok(Some(since(begin_ns, duration_ns, Some(client))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_their_first_lines() {
        let of = |text: &str| Format::of(text.as_bytes());
        assert_eq!(of("1764097260.250 0.120 1\n"), Some(Format::Nginx));
        let combined = "10.0.0.1 - - [25/Nov/2025:20:01:00 +0100] \"GET / HTTP/1.1\" 200 12\n";
        assert_eq!(of(combined), Some(Format::Combined));
        let started = "Nov 25 20:00:00 lb haproxy[7]: Proxy in started.\n";
        let request = "10.0.0.1:4711 [25/Nov/2025:20:01:00.130] in b/s 0/0/1/9/10 200 12\n";
        assert_eq!(of(&format!("{started}{request}")), Some(Format::HaProxy));
        assert_eq!(of("client,scheduled_us,sent_us,replied_us\n"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn what_haproxy_logs_besides_requests_is_passed_over() {
        let text = "lb haproxy[7]: Proxy in started.\n\
                    lb haproxy[7]: 10.0.0.1:4711 [25/Nov/2025:20:01:00.130] in b/s 0/0/1/9/+10 200\n\n";
        let found = Format::HaProxy
            .parse(Path::new("h.log"), text.as_bytes(), 0)
            .unwrap();
        let [one] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(one.end_ns - one.begin_ns, 11_000_000);
        assert_eq!(one.connection.as_deref(), Some("10.0.0.1:4711"));
    }

    #[test]
    fn errors_name_the_line_and_what_was_expected() {
        let error = |format: Format, text: &str| {
            let read = format.parse(Path::new("a.log"), text.as_bytes(), 0);
            read.unwrap_err().to_string()
        };
        assert_eq!(
            error(Format::Nginx, "1764097260.250 0.120\n1764097260.250 -\n"),
            "a.log:2: expected nginx's $msec and $request_time, found `1764097260.250 -`"
        );
        let short = "1.2.3.4:5 [25/Nov/2025:20:01:00.130] in b/s 0/0/10 200\n";
        assert!(error(Format::HaProxy, short).contains("five timers TR/Tw/Tc/Tr/Ta"));
        let aborted = "1.2.3.4:5 [25/Nov/2025:20:01:00.130] in b/s -1/-1/-1/-1/-1 400\n";
        assert!(error(Format::HaProxy, aborted).contains("total time Ta"));
        assert!(error(Format::Envoy, "[2025-11-25T19:01:00.130Z] x\n").contains("Envoy's default"));
        assert!(error(Format::Combined, "").contains("log_format requests"));
    }
}
