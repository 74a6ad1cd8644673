// SPDX-License-Identifier: GPL-2.0-only
//! GET /w?n=N with an acceptor and readers that hand requests to a pool of four workers over a
//! channel: a worker hashes and sorts N words and writes the reply.
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

fn work(n: u64) -> String {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for i in 0..n {
        *counts.entry(format!("word-{}", i.wrapping_mul(7919) % 1009)).or_default() += i;
    }
    let mut sorted: Vec<_> = counts.into_iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sorted.iter().take(30).map(|(word, sum)| format!("{word} {sum}\n")).collect()
}

fn main() {
    let port: u16 = std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("usage: pool PORT");
    let (queue, jobs) = mpsc::channel::<(u64, TcpStream)>();
    let jobs = Arc::new(Mutex::new(jobs));
    for number in 0..4 {
        let jobs = Arc::clone(&jobs);
        let worker = move || loop {
            let job = jobs.lock().expect("no worker panics").recv();
            let Ok((n, mut to)) = job else { return };
            let body = work(n);
            // A client that has gone needs no reply.
            let _ = write!(to, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        };
        thread::Builder::new().name(format!("worker-{number}")).spawn(worker).expect("a thread");
    }
    for stream in TcpListener::bind(("127.0.0.1", port)).expect("a free port").incoming().flatten() {
        let queue = queue.clone();
        let reader = move || {
            stream.set_nodelay(true).expect("a TCP socket");
            let mut n = 0;
            for line in BufReader::new(stream.try_clone().expect("a descriptor")).lines() {
                let Ok(line) = line else { return };
                if let Some(rest) = line.strip_prefix("GET /w?n=") {
                    n = rest.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0);
                } else if line.is_empty() {
                    let _ = queue.send((n, stream.try_clone().expect("a descriptor")));
                }
            }
        };
        thread::Builder::new().name("reader".into()).spawn(reader).expect("a thread");
    }
}
