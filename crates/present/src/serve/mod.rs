//! The report page with controls: what is set is simulated anew.
//!
//! ```text
//! GET  /          the page, with the answer to the question as it was asked
//! POST /simulate  {"cgroup": "/pg", "quota_us": 60000, "period_us": 100000, "burst_us": 0, …}
//!                 → the page's data: the baseline beside what was pinned and set
//! ```
//!
//! The server listens on 127.0.0.1 only. A page of another site can make a browser send requests
//! here, so a request whose `Host` is not this server (a name that was pointed at 127.0.0.1), or
//! whose `Origin` is another site, is refused. Requests may contain numbers and names of the given
//! experiment; no request opens a file. One request simulates at a time; the page itself is sent
//! meanwhile.

mod choice;
mod http;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

pub use choice::Choice;

pub(crate) use choice::Controls;
use http::{Reply, Request, plain};

use crate::report::{self, Memory};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Experiment;
use schedcast_lab::question::Question;
use schedcast_lab::simulator::Simulator;

/// A page that is served.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    question: Question,
    experiment: Experiment,
    simulator: Simulator,
    memory: Memory,
    controls: Controls,
    page: String,
    /// Held by the request that simulates: each uses all CPUs.
    simulating: Mutex<()>,
}

impl Server {
    /// Answers the question once and listens on `port` (0: any that is free). Settings of the
    /// controls are run with `seeds` seeds.
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
        let memory = Memory::default();
        let known = Some(&memory);
        let mut gathered = report::gather(&question, &experiment, &simulator, known, &|| {})?;
        gathered.answer.context.reproduce = reproduce;
        gathered.add_frontier(&question, &experiment, &simulator, &|| {})?;
        let data = report::data::report(gathered, &experiment.scenarios);
        let controls = Controls::new(&question, &experiment, seeds)?;
        let page = report::page(&data, Some(&controls.to_json()));
        let cannot_listen = |error: std::io::Error| {
            Error::usage(format!("cannot listen on 127.0.0.1:{port}: {error}"))
                .hint("choose another port with --port; 0 takes any that is free")
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        Ok(Server {
            listener,
            address,
            question,
            experiment,
            simulator,
            memory,
            controls,
            page,
            simulating: Mutex::new(()),
        })
    }

    /// Address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    /// A socket that fails.
    pub fn serve(&self, stop: &AtomicBool) -> Result<()> {
        http::serve(&self.listener, stop, &|request| self.reply(request))
            .map_err(|error| Error::file("serve", self.address, &error))
    }

    fn reply(&self, request: &Request) -> Reply {
        if let Some(refused) = self.refuse(request) {
            return refused;
        }
        let path = request.target.split('?').next().unwrap_or_default();
        match (request.method.as_str(), path) {
            ("GET", "/") => Reply {
                status: 200,
                kind: "text/html; charset=utf-8",
                text: self.page.clone(),
            },
            ("POST", "/simulate") => self.simulate(request),
            (_, "/" | "/simulate") => plain(405, "GET / or POST /simulate\n"),
            _ => plain(404, "there is only / here\n"),
        }
    }

    /// Requests that do not come from the served page itself or from a program on this machine.
    fn refuse(&self, request: &Request) -> Option<Reply> {
        let port = self.address.port();
        let own = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        let is_own = |host: &str| own.iter().any(|name| name.eq_ignore_ascii_case(host));
        if !request.header("Host").is_some_and(is_own) {
            return Some(plain(403, "this server answers as 127.0.0.1 only\n"));
        }
        let origin = request.header("Origin")?;
        let same = origin.strip_prefix("http://").is_some_and(is_own);
        (!same).then(|| plain(403, "requests of other sites are refused\n"))
    }

    fn simulate(&self, request: &Request) -> Reply {
        // A type that forms cannot send: other sites would have to ask first, and are not answered.
        let kind = request.header("Content-Type");
        let json = kind.is_some_and(|kind| kind.split(';').next() == Some("application/json"));
        if !json {
            return plain(415, "send application/json\n");
        }
        let Ok(text) = std::str::from_utf8(&request.body) else {
            return plain(400, "the request is not UTF-8\n");
        };
        let one_at_a_time = self.simulating.lock();
        let _one_at_a_time = one_at_a_time.unwrap_or_else(PoisonError::into_inner);
        match self.answer(text) {
            Ok(text) => Reply {
                status: 200,
                kind: "application/json",
                text,
            },
            Err(error) => plain(400, error.to_string()),
        }
    }

    /// The page's data for what was set: the first variant and what was pinned beside it.
    fn answer(&self, text: &str) -> Result<String> {
        let choice = Choice::parse(text)?;
        let question = choice.question(&self.question, self.controls.start())?;
        let mut experiment = question.experiment()?;
        let asked = experiment.scenarios.len().saturating_sub(choice.columns());
        let mut row = 0;
        experiment.scenarios.retain(|_| {
            row += 1;
            row == 1 || row > asked
        });
        experiment.title.clone_from(&self.experiment.title);
        let known = Some(&self.memory);
        let gathered = report::gather(&question, &experiment, &self.simulator, known, &|| {})?;
        let data = report::data::report(gathered, &experiment.scenarios);
        serde_json::to_string(&data).map_err(|error| Error::usage(error.to_string()))
    }
}

#[cfg(test)]
mod tests;
