//! Requests over a real socket.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;
use schedcast_lab::question::Subject;

const EXPERIMENT: &str = r#"
title = "served"
[machine]
preset = "generic-8"
[kernel]
version = "6.12"
[cgroup."/test"]
"cpu.max" = "30000 100000"
[[program]]
run = "schbench-classic -m 1 -t 3 -r 1 -c 20000 -s 20000"
cgroup = "/test"
[run]
duration = "1s"
"#;

fn question(path: PathBuf) -> Question {
    Question {
        seeds: Some(2),
        ..Question::of(Subject::File { path, only: None })
    }
}

/// Serves the experiment while `ask` asks.
fn serving(ask: impl FnOnce(SocketAddr)) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("exp.toml");
    std::fs::write(&path, EXPERIMENT).unwrap();
    let server = Server::new(question(path), Simulator::new(), 0, 2, Vec::new()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let served = scope.spawn(|| server.serve(&stop));
        // The server must be told to stop even when an assertion fails.
        let asked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ask(server.address())));
        stop.store(true, Ordering::Relaxed);
        served.join().unwrap().unwrap();
        if let Err(panic) = asked {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Sends a request as it stands and returns status and body.
fn send(address: SocketAddr, head: &str, body: &str) -> (u16, String) {
    try_send(address, head, body).unwrap()
}

/// The same; an error where the server closes the connection before it has the whole request, as a
/// busy one does.
fn try_send(address: SocketAddr, head: &str, body: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    let head = head.replace("HOST", &address.to_string());
    let length = body.len();
    write!(
        stream,
        "{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.ok_or(std::io::ErrorKind::UnexpectedEof)?;
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((status, body.to_string()))
}

const POST: &str = "POST /simulate HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n";

fn choice(quota_us: u64, burst_us: u64) -> String {
    format!(
        r#"{{"cgroup":"/test","quota_us":{quota_us},"period_us":100000,"burst_us":{burst_us},
            "weight":null,"kernel":"6.12","cpus":8,"seeds":2}}"#
    )
}

#[test]
fn what_is_set_is_simulated_beside_the_baseline() {
    serving(|address| {
        let p99 = |body: &str| -> [f64; 2] {
            let (status, text) = send(address, POST, body);
            assert_eq!(status, 200, "{text}");
            // The body may come in chunks; the object is what stands between the outer braces.
            let json = &text[text.find('{').unwrap()..=text.rfind('}').unwrap()];
            let lines: String = json.split("\r\n").filter(|line| line.len() > 4).collect();
            let report: serde_json::Value = serde_json::from_str(&lines).unwrap();
            assert_eq!(report["variants"][1]["name"], "what you set");
            let rows = report["table"].as_array().unwrap();
            let throttled = rows
                .iter()
                .find(|row| row["name"] == "nr_throttled")
                .unwrap();
            [0, 1].map(|variant| throttled["cells"][variant]["mean"].as_f64().unwrap())
        };
        let [baseline, wide] = p99(&choice(90_000, 0));
        let [again, narrow] = p99(&choice(10_000, 0));
        assert_eq!(baseline, again);
        assert!(
            wide < baseline && baseline <= narrow,
            "{wide} {baseline} {narrow}"
        );
    });
}

/// Earlier settings stay as columns; settings that are both current and pinned are one column.
#[test]
fn pinned_settings_are_columns() {
    let with_pins = |set: u64, pinned: &[String]| {
        let text = choice(set, 0).replace('}', ",\"pinned\":[");
        format!("{text}{}]}}", pinned.join(","))
    };
    let other_kernel = choice(10_000, 0).replace("\"6.12\"", "\"6.5\"");
    let pins = [choice(90_000, 20_000), other_kernel];
    serving(|address| {
        let names = |body: &str| {
            let (status, text) = send(address, POST, body);
            assert_eq!(status, 200, "{text}");
            let part = text.split("\"variants\":").nth(1).unwrap();
            let part = part.split("\"table\":").next().unwrap();
            let names = part.split("{\"name\":\"").skip(2);
            names
                .map(|rest| rest.split('"').next().unwrap().to_string())
                .collect::<Vec<_>>()
        };
        let pinned = [
            "90 ms in 100 ms, burst 20 ms",
            "10 ms in 100 ms, kernel 6.5",
        ];
        let all = [pinned[0], pinned[1], "what you set"];
        assert_eq!(names(&with_pins(50_000, &pins)), all);
        assert_eq!(names(&with_pins(10_000, &pins)), all, "another kernel");
        let only = [choice(50_000, 0)];
        assert_eq!(names(&with_pins(50_000, &only)), ["50 ms in 100 ms"]);
        let seven: Vec<String> = (1..=7).map(|row| choice(10_000 * row, 0)).collect();
        assert_eq!(send(address, POST, &with_pins(5_000, &seven)).0, 400);
    });
}

/// A choice with other seeds than that of [`choice`].
fn with_seeds(quota_us: u64, seeds: u32) -> String {
    let text = choice(quota_us, 0);
    text.replace("\"seeds\":2", &format!("\"seeds\":{seeds}"))
}

#[test]
fn a_refined_and_a_repeated_answer_have_the_bytes_of_one_that_was_made_at_once() {
    let ask = |address, quota_us, seeds| {
        let (status, text) = send(address, POST, &with_seeds(quota_us, seeds));
        assert_eq!(status, 200, "{text}");
        // Each server reads a file of its own.
        let (start, rest) = text.split_once("\"source\":\"").unwrap();
        let json = &start[start.find('{').unwrap()..];
        format!("{json}{}", rest.split_once('"').unwrap().1)
    };
    let mut at_once = String::new();
    serving(|address| at_once = ask(address, 20_000, 3));
    serving(|address| {
        assert_ne!(ask(address, 20_000, 1), at_once);
        ask(address, 70_000, 1);
        assert_eq!(ask(address, 20_000, 3), at_once);
        ask(address, 70_000, 3);
        assert_eq!(ask(address, 20_000, 3), at_once);
    });
}

#[test]
fn other_hosts_and_sites_are_refused() {
    serving(|address| {
        let get = |head: &str| send(address, head, "").0;
        assert_eq!(get("GET / HTTP/1.1\r\nHost: HOST\r\n"), 200);
        let port = address.port();
        let local = format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\n");
        assert_eq!(get(&local), 200);
        assert_eq!(get("GET / HTTP/1.1\r\nHost: evil.example\r\n"), 403);
        assert_eq!(
            get(&format!("GET / HTTP/1.1\r\nHost: evil.example:{port}\r\n")),
            403
        );
        assert_eq!(get("GET / HTTP/1.1\r\n"), 403, "no host at all");
        assert_eq!(get("GET / HTTP/1.1\r\nHost: HOST\r\nHost: HOST\r\n"), 400);
        let twice =
            "GET / HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST\r\nOrigin: http://a.example\r\n";
        assert_eq!(get(twice), 400);
        for origin in "http://evil.example null https://HOST http://HOST.evil.example".split(' ') {
            let (status, _) = send(
                address,
                &format!("{POST}Origin: {origin}\r\n"),
                &choice(50_000, 0),
            );
            assert_eq!(status, 403, "{origin}");
        }
        let (status, _) = send(
            address,
            &format!("{POST}Origin: http://HOST\r\n"),
            &choice(50_000, 0),
        );
        assert_eq!(status, 200);
    });
}

#[test]
fn nothing_but_the_page_is_served() {
    serving(|address| {
        for path in "/../../etc/passwd /exp.toml /simulate/ // /%2e%2e/x".split(' ') {
            let head = format!("GET {path} HTTP/1.1\r\nHost: HOST\r\n");
            assert_eq!(send(address, &head, "").0, 404, "{path}");
        }
        assert_eq!(send(address, "PUT / HTTP/1.1\r\nHost: HOST\r\n", "").0, 405);
        let form = "POST /simulate HTTP/1.1\r\nHost: HOST\r\nContent-Type: text/plain\r\n";
        assert_eq!(send(address, form, &choice(50_000, 0)).0, 415);
    });
}

#[test]
fn impossible_settings_are_told() {
    serving(|address| {
        let (status, text) = send(address, POST, "{\"quota\":1}");
        assert_eq!(status, 400);
        assert!(text.contains("unknown field `quota`"), "{text}");
        let (status, text) = send(address, POST, &choice(10_000, 20_000));
        assert_eq!(status, 400, "{text}");
        assert!(text.contains("burst"), "{text}");
        let kernel = choice(10_000, 0).replace("6.12", "new");
        assert_eq!(send(address, POST, &kernel).0, 400);
        for seeds in ["0", "5000"] {
            let body = choice(10_000, 0).replace("\"seeds\":2", &format!("\"seeds\":{seeds}"));
            let (status, text) = send(address, POST, &body);
            assert_eq!(status, 400, "{seeds}: {text}");
            let expected = format!("expected 1 to 50 seeds, found {seeds}");
            assert!(text.contains(&expected), "{text}");
        }
        let long = format!("{}{}", " ".repeat(20_000), choice(10_000, 0));
        assert_eq!(send(address, POST, &long).0, 413);
    });
}

/// Answer of the server to a client that sends these bytes and then waits.
fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_length_beyond_all_memory_is_refused_before_memory_is_taken() {
    serving(|address| {
        let host = format!("Host: {address}\r\n");
        for length in ["99999999999999", "18446744073709551616", "100000", "16385"] {
            for kind in ["text/plain", "application/json"] {
                let text = format!(
                    "POST /simulate HTTP/1.1\r\n{host}Content-Type: {kind}\r\n\
                     Content-Length: {length}\r\n\r\n"
                );
                let reply = raw(address, text.as_bytes());
                assert!(reply.starts_with("HTTP/1.1 413 "), "{reply}");
                assert!(reply.contains(length), "{reply}");
            }
        }
        for (header, status) in [
            ("Content-Length: -1", 400),
            ("Content-Length: +5", 400),
            ("Content-Length: 5, 5", 400),
            ("Content-Length: 5\r\nContent-Length: 6", 400),
            ("Transfer-Encoding: chunked", 501),
        ] {
            let text = format!("POST /simulate HTTP/1.1\r\n{host}{header}\r\n\r\n");
            let reply = raw(address, text.as_bytes());
            assert!(
                reply.starts_with(&format!("HTTP/1.1 {status} ")),
                "{header}: {reply}"
            );
        }
        let endless = format!("GET / HTTP/1.1\r\n{host}X: {}", "x".repeat(17 * 1024));
        assert!(raw(address, endless.as_bytes()).starts_with("HTTP/1.1 431 "));
        let many = "A: b\r\n".repeat(65);
        let many = format!("GET / HTTP/1.1\r\n{host}{many}\r\n");
        assert!(raw(address, many.as_bytes()).starts_with("HTTP/1.1 431 "));
        assert!(raw(address, b"\x16\x03\x01\x02\0\x01").starts_with("HTTP/1.1 400 "));
        assert_eq!(send(address, "GET / HTTP/1.1\r\nHost: HOST\r\n", "").0, 200);
    });
}

#[test]
fn slow_and_silent_clients_keep_nobody_waiting() {
    serving(|address| {
        let mut slow = TcpStream::connect(address).unwrap();
        let head =
            format!("POST /simulate HTTP/1.1\r\nHost: {address}\r\nContent-Length: 100\r\n\r\n{{");
        slow.write_all(head.as_bytes()).unwrap();
        let silent: Vec<TcpStream> = (0..31)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        let busy = raw(address, b"");
        assert!(busy.starts_with("HTTP/1.1 503 "), "{busy}");
        drop(silent);
        let begin = Instant::now();
        // Those that went away free their places within moments.
        let page = || try_send(address, "GET / HTTP/1.1\r\nHost: HOST\r\n", "");
        while !matches!(page(), Ok((200, _))) {
            assert!(begin.elapsed() < Duration::from_secs(5));
        }
        assert!(begin.elapsed() < Duration::from_secs(5));
        let mut text = String::new();
        slow.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
    });
}
