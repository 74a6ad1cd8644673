//! Asks a Prometheus server for the counters of a fleet: what `query_range` answers, as a file
//! would have it.
//!
//! Two questions are enough: the counters and limits of all containers that have the wanted labels,
//! and the CPUs of all machines, which have none of these labels. A range of any length is asked
//! for in at most [`STEPS`] steps, and never in steps shorter than [`SHORTEST_STEP_S`], the usual
//! time between two scrapes. Worked example: an hour is 120 steps of 30 s, a day 120 steps of
//! 720 s. Between two points a counter may have begun anew once; what is lost then is less than a
//! step.

use std::io::ErrorKind;

use schedcast_base::whole;

use crate::counters::quoted;
use schedcast_lab::error::{Error, Result};
use schedcast_lab::simulator::bad_input;

/// Points of a series beyond the first.
const STEPS: u64 = 120;
/// Seconds.
const SHORTEST_STEP_S: u64 = 30;
/// Seconds until a server that says nothing is given up.
const PATIENCE_S: u64 = 60;
/// Bytes of an error's text that are worth showing.
const SHOWN: usize = 300;

const CONTAINERS: &str =
    "__name__=~\"container_cpu_(usage|cfs).*_total|container_spec_cpu_(quota|period)\"";
const MACHINES: &str = "machine_cpu_cores";

/// A server, and what to ask it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Where its HTTP API begins, such as `http://prometheus:9090`.
    pub url: String,
    /// Labels and values that the containers must have.
    pub labels: Vec<(String, String)>,
    /// Seconds of the range.
    pub last_s: u64,
    /// Header lines to send along: name and value.
    pub headers: Vec<(String, String)>,
}

impl Server {
    /// The answers for the range that ends at `now_s`, seconds of Unix time, one behind the other.
    ///
    /// # Errors
    /// A URL that is none, a server that cannot be reached, refuses or does not answer.
    pub fn ask(&self, now_s: u64) -> Result<String> {
        self.refuse_other_schemes()?;
        let mut selector = format!("{{{CONTAINERS}");
        for (label, value) in &self.labels {
            selector += &format!(",{label}={}", quoted(value));
        }
        selector.push('}');
        let containers = self.range(&selector, now_s)?;
        Ok(containers + "\n" + &self.range(MACHINES, now_s)?)
    }

    fn refuse_other_schemes(&self) -> Result<()> {
        match self.url.split_once("://") {
            Some(("http", host)) if !host.is_empty() => Ok(()),
            Some(("https", _)) => {
                let error = Error::usage(format!("{}: https is not built in", self.url));
                Err(error.hint(
                    "`kubectl port-forward` makes it http://localhost:9090, or let curl write RANGE.json",
                ))
            }
            _ => {
                let error = Error::usage(format!("`{}` is no URL of a server", self.url));
                Err(error.hint("for example http://prometheus:9090"))
            }
        }
    }

    fn range(&self, query: &str, now_s: u64) -> Result<String> {
        let url = format!("{}/api/v1/query_range", self.url.trim_end_matches('/'));
        let step_s = self.last_s.div_ceil(STEPS).max(SHORTEST_STEP_S);
        let mut request = minreq::get(url.as_str())
            .with_param("query", encoded(query))
            .with_param("start", now_s.saturating_sub(self.last_s).to_string())
            .with_param("end", now_s.to_string())
            .with_param("step", step_s.to_string())
            .with_timeout(PATIENCE_S)
            .with_max_redirects(5);
        for (name, value) in &self.headers {
            request = request.with_header(name, value);
        }
        let fails = |message: String| bad_input(format!("{url}: {message}"));
        let answer = request
            .send_lazy()
            .map_err(|error| fails(format!("no answer: {error}")))?;
        let status = answer.status_code;
        let bytes = whole::read_all(answer).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => fails(error.to_string())
                .hint("ask for a namespace with --select, or for less time with --last"),
            _ => fails(format!("the answer breaks off: {error}")),
        })?;
        let text = String::from_utf8(bytes)
            .map_err(|_| fails("the answer is not UTF-8 text".to_owned()))?;
        if !(200..300).contains(&status) {
            let said: String = text.chars().take(SHOWN).collect();
            return Err(fails(format!("the server refuses with {status}: {said}")));
        }
        Ok(text)
    }
}

/// A value of a URL: every byte that could end it or mean something else as `%` and two digits.
fn encoded(value: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    value.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use schedcast_base::{assert_contains, assert_starts};
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// Answers one request after the other with these status lines and bodies; the first lines of
    /// the requests.
    fn server(
        answers: Vec<(&'static str, String)>,
    ) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let serving = std::thread::spawn(move || {
            let mut asked = Vec::new();
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let mut head: Vec<String> = Vec::new();
                while let Some(line) = lines.next().map(std::result::Result::unwrap)
                    && !line.is_empty()
                {
                    head.push(line);
                }
                asked.push(head.join("\n"));
                let length = body.len();
                // In pieces, as Prometheus answers.
                let (one, two) = body.split_at(length / 2);
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{one}\r\n{:x}\r\n{two}\r\n0\r\n\r\n",
                    one.len(),
                    two.len(),
                );
            }
            asked
        });
        (url, serving)
    }

    fn question(url: &str) -> Server {
        Server {
            url: url.to_owned(),
            labels: vec![("namespace".to_owned(), "a\"b".to_owned())],
            last_s: 3600,
            headers: vec![("Authorization".to_owned(), "Bearer x".to_owned())],
        }
    }

    #[test]
    fn both_answers_come_and_the_question_names_range_labels_and_headers() {
        let bodies = ["{\"one\": 1}", "{\"two\": 2}"];
        let (url, serving) = server(bodies.map(|body| ("200 OK", body.to_owned())).to_vec());
        let text = question(&url).ask(1_800_000_000).unwrap();
        assert_eq!(text, bodies.join("\n"));
        let asked = serving.join().unwrap();
        let first = &asked[0];
        assert_starts(first, "GET /api/v1/query_range?query=%7B__name__");
        assert!(first.contains("namespace%3D%22a%5C%22b%22"), "{first}");
        assert_contains(first, "start=1799996400&end=1800000000&step=30");
        assert!(first.contains("Authorization: Bearer x"), "{first}");
        assert_contains(&asked[1], "query=machine_cpu_cores&");
    }

    #[test]
    fn a_day_has_longer_steps() {
        let bodies = vec![("200 OK", "{}".to_owned()); 2];
        let (url, serving) = server(bodies);
        let day = Server {
            last_s: 86_400,
            ..question(&url)
        };
        day.ask(1_800_000_000).unwrap();
        assert!(serving.join().unwrap()[0].contains("step=720"));
    }

    #[test]
    fn refusals_name_the_server_and_what_it_said() {
        let (url, serving) = server(vec![("422 Unprocessable", "too many samples".to_owned())]);
        let error = question(&url).ask(1_800_000_000).unwrap_err().to_string();
        serving.join().unwrap();
        assert!(
            error.contains(&url) && error.contains("422") && error.contains("too many"),
            "{error}"
        );
        let closed = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let error = question(&format!("http://{closed}")).ask(1).unwrap_err();
        assert!(error.to_string().contains("no answer"), "{error}");
        for (url, said) in [
            ("https://x", "not built in"),
            ("x:9090", "no URL"),
            ("http://", "no URL"),
        ] {
            let error = question(url).ask(1).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
