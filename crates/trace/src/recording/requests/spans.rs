//! Logs in JSON: spans of OpenTelemetry, and access logs of nginx and Envoy, an object a request.
//!
//! Spans come as the collector's file exporter writes them, a `resourceSpans` a line. A service's
//! own spans are those of kind `SERVER`; where a span of kind `CLIENT` in the same file is the
//! parent of one, the request is the caller's: it includes the way, and what waited in sockets. A
//! file without `SERVER` spans is the callers', and all `CLIENT` spans are requests.
//!
//! Worked example: the span `a1` of kind 3 from 10.000 to 10.120 s is the parent of a span of kind
//! 2 from 10.060 to 10.119. The request took 120 ms, of which the service saw 59.
//!
//! An object of an access log has nginx's `msec`, `request_time` and `connection`, or Envoy's
//! `start_time`, `duration` (ms) and `connection_id`. Field names of spans are those of the
//! protocol's JSON form (opentelemetry-proto, `trace/v1`), times in ns since 1970.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::access::{since, until};
use super::{Logged, wall};
use crate::error::{ErrorKind, ReadError};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Span {
    #[serde(default)]
    span_id: String,
    #[serde(default)]
    parent_span_id: String,
    #[serde(default)]
    kind: Value,
    start_time_unix_nano: Value,
    end_time_unix_nano: Value,
}

/// Kind of a span: its number or its name in the protocol.
fn is_kind(span: &Span, number: u64, name: &str) -> bool {
    span.kind.as_u64() == Some(number) || span.kind.as_str() == Some(name)
}

fn is_server(span: &Span) -> bool {
    is_kind(span, 2, "SPAN_KIND_SERVER")
}

fn is_client(span: &Span) -> bool {
    is_kind(span, 3, "SPAN_KIND_CLIENT")
}

/// The requests of a log of JSON objects, behind each other or a line each.
pub(super) fn parse(path: &Path, text: &[u8]) -> Result<Vec<Logged>, ReadError> {
    let mut objects = serde_json::Deserializer::from_slice(text).into_iter::<Value>();
    let mut spans = Vec::new();
    let mut logged = Vec::new();
    loop {
        let begin = objects.byte_offset();
        let Some(object) = objects.next() else { break };
        let skipped = text[begin..]
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace());
        let before = &text[..begin + skipped.count()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count() as u64;
        let malformed =
            |message: String| ReadError::new(ErrorKind::Malformed, path, message).at_line(line);
        let mut object = object.map_err(|error| {
            ReadError::new(ErrorKind::Malformed, path, error.to_string()).at_line(line)
        })?;
        match object.get_mut("resourceSpans").map(Value::take) {
            Some(resources) => of_resources(resources, &mut spans).map_err(malformed)?,
            None => logged.push(of_access(&object).map_err(|e| malformed(e.to_owned()))?),
        }
    }
    logged.extend(
        requests(&spans).map_err(|message| ReadError::new(ErrorKind::Malformed, path, message))?,
    );
    Ok(logged)
}

/// Puts all spans below `resourceSpans` behind `spans`.
fn of_resources(resources: Value, spans: &mut Vec<Span>) -> Result<(), String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Resource {
        #[serde(default)]
        scope_spans: Vec<Scope>,
    }
    #[derive(Deserialize)]
    struct Scope {
        #[serde(default)]
        spans: Vec<Span>,
    }
    let resources: Vec<Resource> =
        serde_json::from_value(resources).map_err(|error| format!("`resourceSpans`: {error}"))?;
    let scopes = resources.into_iter().flat_map(|one| one.scope_spans);
    spans.extend(scopes.flat_map(|scope| scope.spans));
    Ok(())
}

fn requests(spans: &[Span]) -> Result<Vec<Logged>, String> {
    let callers: BTreeMap<&str, &Span> = spans
        .iter()
        .filter(|span| is_client(span) && !span.span_id.is_empty())
        .map(|span| (span.span_id.as_str(), span))
        .collect();
    let servers = spans.iter().filter(|span| is_server(span));
    let mut chosen: Vec<&Span> = servers
        .map(|span| {
            callers
                .get(span.parent_span_id.as_str())
                .copied()
                .unwrap_or(span)
        })
        .collect();
    if chosen.is_empty() {
        chosen = spans.iter().filter(|span| is_client(span)).collect();
    }
    if chosen.is_empty() && !spans.is_empty() {
        return Err(format!(
            "expected spans of kind SERVER or CLIENT, found {} others",
            spans.len()
        ));
    }
    let request = |span: &Span| {
        let ns = |value: &Value| match value {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64(),
        };
        let (begin_ns, end_ns) = (
            ns(&span.start_time_unix_nano)?,
            ns(&span.end_time_unix_nano)?,
        );
        (begin_ns <= end_ns).then_some(Logged {
            begin_ns,
            end_ns,
            connection: None,
        })
    };
    let wrong = |span: &Span| {
        format!(
            "expected times in ns since 1970, the end behind the begin, found {} and {}",
            span.start_time_unix_nano, span.end_time_unix_nano
        )
    };
    chosen
        .into_iter()
        .map(|span| request(span).ok_or_else(|| wrong(span)))
        .collect()
}

/// One object of an access log.
fn of_access(object: &Value) -> Result<Logged, &'static str> {
    let text = |name: &str| match object.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    if let (Some(end), Some(duration)) = (text("msec"), text("request_time")) {
        let (end_ns, duration_ns) = (wall::seconds_ns(&end), wall::seconds_ns(&duration));
        let (Some(end_ns), Some(duration_ns)) = (end_ns, duration_ns) else {
            return Err("expected seconds in `msec` and `request_time`");
        };
        return Ok(until(end_ns, duration_ns, text("connection")));
    }
    if let (Some(begin), Some(duration)) = (text("start_time"), text("duration")) {
        let (begin_ns, duration_ns) = (wall::iso_ns(&begin), wall::milliseconds_ns(&duration));
        let (Some(begin_ns), Some(duration_ns)) = (begin_ns, duration_ns) else {
            return Err(
                "expected a time such as 2025-11-25T19:01:00.130Z in `start_time` and \
                        milliseconds in `duration`",
            );
        };
        return Ok(since(begin_ns, duration_ns, text("connection_id")));
    }
    Err(
        "expected `resourceSpans` of OpenTelemetry, or `msec` and `request_time` of nginx, or \
         `start_time` and `duration` of Envoy",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_starts;

    fn span(kind: u64, id: &str, parent: &str, begin_ms: u64, end_ms: u64) -> String {
        format!(
            r#"{{"spanId": "{id}", "parentSpanId": "{parent}", "kind": {kind},
                "startTimeUnixNano": "{begin_ms}000000", "endTimeUnixNano": {end_ms}000000}}"#
        )
    }

    fn read(spans: &[String]) -> Result<Vec<[u64; 2]>, String> {
        let spans = spans.join(",");
        let text = format!(r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{spans}]}}]}}]}}"#);
        let found =
            parse(Path::new("s.json"), text.as_bytes()).map_err(|error| error.to_string())?;
        let ms = |one: &Logged| [one.begin_ns / 1_000_000, one.end_ns / 1_000_000];
        Ok(found.iter().map(ms).collect())
    }

    #[test]
    fn a_request_is_the_callers_where_its_span_is_there() {
        let caller = span(3, "a1", "", 10_000, 10_120);
        let server = span(2, "b1", "a1", 10_060, 10_119);
        let inner = span(1, "c1", "b1", 10_070, 10_080);
        let asked_by_server = span(3, "d1", "b1", 10_080, 10_090);
        let own = [server.clone(), inner.clone(), asked_by_server.clone()];
        assert_eq!(read(&own), Ok(vec![[10_060, 10_119]]));
        let all = [caller.clone(), server, inner.clone(), asked_by_server];
        assert_eq!(read(&all), Ok(vec![[10_000, 10_120]]));
        assert_eq!(read(&[caller]), Ok(vec![[10_000, 10_120]]));
        let error = read(&[inner]).unwrap_err();
        assert!(error.contains("found 1 others"), "{error}");
    }

    #[test]
    fn errors_name_the_line_of_the_object() {
        let error = |text: &str| {
            let read = parse(Path::new("s.json"), text.as_bytes());
            read.unwrap_err().to_string()
        };
        let good = r#"{"msec": 1764097260.25, "request_time": 0.12}"#;
        let none = error(&format!("{good}\n\n{{\"time\": 1}}\n"));
        assert_starts(&none, "s.json:3: expected `resourceSpans`");
        let wrong = error(r#"{"start_time": "yesterday", "duration": 3}"#);
        assert!(wrong.contains("`start_time`"), "{wrong}");
        assert!(error("{\"msec\": ").starts_with("s.json:1: EOF"));
        let turned = read(&[span(2, "b", "", 20, 10)]).unwrap_err();
        assert!(turned.contains("the end behind the begin"), "{turned}");
    }
}
