//! The report page with controls: what is set is simulated anew.
//!
//! ```text
//! GET  /          the page, with the answer to the question as it was asked
//! POST /simulate  {"cgroup": "/pg", "quota_us": 60000, "period_us": 100000, "burst_us": 0, …}
//!                 → the page's data: the baseline beside what was set
//! ```
//!
//! The server listens on 127.0.0.1 only. A page of another site can make a browser send requests here, so a request
//! whose `Host` is not this server (a name that was pointed at 127.0.0.1), or whose `Origin` is another site, is
//! refused. What may be asked are numbers and names of the experiment that was given; no request opens a file.

mod choice;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tiny_http::{Header, Method, Request, Response};

pub use choice::{Choice, Controls};

use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::question::Question;
use crate::report;
use crate::simulator::Simulator;

/// Largest request that is read, bytes.
const LARGEST_REQUEST: u64 = 16 * 1024;
/// How often the server looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A page that is served.
pub struct Server {
    http: tiny_http::Server,
    address: SocketAddr,
    question: Question,
    experiment: Experiment,
    simulator: Simulator,
    seeds: u32,
    page: String,
}

/// An answer before it is sent.
struct Reply {
    status: u16,
    kind: &'static str,
    text: String,
}

fn plain(status: u16, text: impl Into<String>) -> Reply {
    Reply {
        status,
        kind: "text/plain; charset=utf-8",
        text: text.into(),
    }
}

impl Server {
    /// Answers the question once and listens on `port` (0: any that is free). What is set with the controls is run
    /// with `seeds` seeds.
    ///
    /// # Errors
    /// A question that cannot be answered, a port that is taken.
    pub fn new(
        question: Question,
        simulator: Simulator,
        port: u16,
        seeds: u32,
        reproduce: Vec<String>,
    ) -> Result<Server> {
        let experiment = question.experiment()?;
        let mut gathered = report::gather(&question, &experiment, &simulator, &|| {})?;
        gathered.answer.context.reproduce = reproduce;
        let data = report::data::report(gathered, &experiment.scenarios);
        let controls = Controls::new(&question, &experiment, seeds)?;
        let page = report::page(&data, Some(&controls.to_json()));
        let http = tiny_http::Server::http((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
            Error::usage(format!("cannot listen on 127.0.0.1:{port}: {error}"))
                .hint("choose another port with --port; 0 takes any that is free")
        })?;
        let Some(address) = http.server_addr().to_ip() else {
            return Err(Error::usage("the server has no address"));
        };
        Ok(Server {
            http,
            address,
            question,
            experiment,
            simulator,
            seeds,
            page,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    /// A socket that fails.
    pub fn serve(&self, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let request = self
                .http
                .recv_timeout(LOOK_EVERY)
                .map_err(|error| Error::file("serve", self.address, &error))?;
            if let Some(request) = request {
                self.handle(request);
            }
        }
        Ok(())
    }

    fn handle(&self, mut request: Request) {
        let reply = self.reply(&mut request);
        let headers = [
            ("Content-Type", reply.kind),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ];
        let mut response = Response::from_string(reply.text).with_status_code(reply.status);
        for (name, value) in headers {
            if let Ok(header) = Header::from_bytes(name, value) {
                response.add_header(header);
            }
        }
        // A reader that went away is no concern of the server.
        let _ = request.respond(response);
    }

    fn reply(&self, request: &mut Request) -> Reply {
        if let Some(refused) = self.refuse(request) {
            return refused;
        }
        let path = request.url().split('?').next().unwrap_or_default();
        match (request.method(), path) {
            (Method::Get, "/") => Reply {
                status: 200,
                kind: "text/html; charset=utf-8",
                text: self.page.clone(),
            },
            (Method::Post, "/simulate") => self.simulate(request),
            (_, "/" | "/simulate") => plain(405, "GET / or POST /simulate\n"),
            _ => plain(404, "there is only / here\n"),
        }
    }

    /// Requests that do not come from the served page itself or from a program on this machine.
    fn refuse(&self, request: &Request) -> Option<Reply> {
        let port = self.address.port();
        let own = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        let is_own = |host: &str| own.iter().any(|name| name.eq_ignore_ascii_case(host));
        if !header(request, "Host").is_some_and(is_own) {
            return Some(plain(403, "this server answers as 127.0.0.1 only\n"));
        }
        let origin = header(request, "Origin")?;
        let same = origin.strip_prefix("http://").is_some_and(is_own);
        (!same).then(|| plain(403, "requests of other sites are refused\n"))
    }

    fn simulate(&self, request: &mut Request) -> Reply {
        // A type that forms cannot send: other sites would have to ask first, and are not answered.
        let json = header(request, "Content-Type")
            .is_some_and(|kind| kind.split(';').next() == Some("application/json"));
        if !json {
            return plain(415, "send application/json\n");
        }
        let mut text = String::new();
        let reader = std::io::Read::take(request.as_reader(), LARGEST_REQUEST);
        if let Err(error) = std::io::Read::read_to_string(&mut { reader }, &mut text) {
            return plain(400, format!("{error}\n"));
        }
        match self.answer(&text) {
            Ok(text) => Reply {
                status: 200,
                kind: "application/json",
                text,
            },
            Err(error) => plain(400, error.to_string()),
        }
    }

    /// The page's data for what was set: the first variant beside it.
    fn answer(&self, text: &str) -> Result<String> {
        let choice = Choice::parse(text)?;
        let question = choice.question(&self.question, self.seeds)?;
        let mut experiment = question.experiment()?;
        let last = experiment.scenarios.len().saturating_sub(1);
        let mut row = 0;
        experiment.scenarios.retain(|_| {
            row += 1;
            row == 1 || row == last + 1
        });
        experiment.title.clone_from(&self.experiment.title);
        let gathered = report::gather(&question, &experiment, &self.simulator, &|| {})?;
        let data = report::data::report(gathered, &experiment.scenarios);
        serde_json::to_string(&data).map_err(|error| Error::usage(error.to_string()))
    }
}

fn header<'a>(request: &'a Request, name: &'static str) -> Option<&'a str> {
    let mut found = request
        .headers()
        .iter()
        .filter(|header| header.field.equiv(name));
    let value = found.next()?.value.as_str();
    // Twice the same header is a trick.
    found.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests;
