//! Private servers for clients that need one: PostgreSQL for `pgbench` and `sysbench oltp_…`, nginx
//! for `wrk`.
//!
//! ```text
//! pgbench -c 4 -T 10 --server-cgroup /pg
//!    ├─► server   postgres -D FOLDER/data -k FOLDER -c listen_addresses=        in /pg
//!    └─► client   /usr/lib/postgresql/15/bin/pgbench -c 4 -T 10 -n -h FOLDER -U postgres postgres
//! ```
//!
//! A server has its files in a folder of its own and is reached through a socket there, or a free
//! port of 127.0.0.1, so it meets no other server. [`Client::prepare`] makes the files and fills
//! the tables once (some two seconds), [`Client::start`] starts the server for a run. Server and
//! folder go when their values do, and when this process dies.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cgroup::CpuCgroup;
use crate::error::{HostError, Result};

mod folder;
mod nginx;
mod postgres;

use folder::Folder;
pub(crate) use nginx::Nginx;
pub use postgres::Postgres;

/// How long a server may take to answer; under a tight limit it takes its time.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Clock ticks of `/proc/PID/stat`.
const TICK: Duration = Duration::from_millis(10);

/// A client's command line, and the files of the server that it needs.
#[derive(Debug)]
pub struct Client {
    words: Vec<String>,
    cgroup: Option<String>,
    files: Files,
}

#[derive(Debug)]
enum Files {
    Postgres(Postgres),
    Nginx(Nginx),
}

/// Whether the command is a client that needs a server.
pub fn is_client(words: &[String]) -> bool {
    let mut words = words.iter().map(String::as_str);
    let name = words
        .next()
        .map(|path| path.rsplit('/').next().unwrap_or(path));
    match name {
        Some("pgbench" | "wrk") => true,
        Some("sysbench") => words.any(|word| word.starts_with("oltp_")),
        _ => false,
    }
}

impl Client {
    /// Makes the files of the server that `words` need; `None` for a command that needs none.
    ///
    /// Flags that only a simulation knows are taken out and obeyed: `--server-cgroup`, `--workers`,
    /// `--synchronous-commit`, and `--filesystem`, where `tmpfs` means `/dev/shm` and anything else
    /// the folder for temporary files.
    ///
    /// # Errors
    /// A server that is not installed or does not start; not being root.
    pub fn prepare(words: &[String]) -> Result<Option<Client>> {
        if !is_client(words) {
            return Ok(None);
        }
        let mut words = words.to_vec();
        let cgroup = take(&mut words, "--server-cgroup");
        let file_system = take(&mut words, "--filesystem");
        let synchronous = take(&mut words, "--synchronous-commit");
        let workers = take(&mut words, "--workers");
        let (words, files) = match words[0].ends_with("wrk") {
            true => {
                let nginx = Nginx::prepare(workers.as_deref())?;
                words.retain(|word| !word.starts_with("http://"));
                words.push(nginx.url());
                (words, Files::Nginx(nginx))
            }
            false => {
                let place = match file_system.as_deref() {
                    Some("tmpfs") => PathBuf::from("/dev/shm"),
                    _ => std::env::temp_dir(),
                };
                let settings = synchronous.map(|value| format!("synchronous_commit={value}"));
                let postgres = Postgres::prepare(&place, settings.as_slice())?;
                let words = postgres.fill_for(words)?;
                (words, Files::Postgres(postgres))
            }
        };
        Ok(Some(Client {
            words,
            cgroup,
            files,
        }))
    }

    /// The client as it is started: with what says where its server is.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The group that the server is to be in, as the command line names it; without a name the
    /// client's `own`.
    pub fn server_cgroup<'a>(&'a self, own: &'a str) -> &'a str {
        self.cgroup.as_deref().unwrap_or(own)
    }

    /// Name of the server's processes.
    pub fn server_name(&self) -> &'static str {
        match self.files {
            Files::Postgres(_) => "postgres",
            Files::Nginx(_) => "nginx",
        }
    }

    /// Starts the server in a group, on these CPUs, and waits until it answers.
    ///
    /// # Errors
    /// A server that does not start.
    pub fn start(&self, group: &CpuCgroup, cpus: Option<&[usize]>) -> Result<Server> {
        match &self.files {
            Files::Postgres(postgres) => postgres.start(group, cpus),
            Files::Nginx(nginx) => nginx.start(group, cpus),
        }
    }
}

/// Takes `--flag VALUE` or `--flag=VALUE` out of a command line; the last one counts.
fn take(words: &mut Vec<String>, flag: &str) -> Option<String> {
    let mut value = None;
    let mut at = 0;
    while at < words.len() {
        let (name, inline) = match words[at].split_once('=') {
            Some((name, inline)) => (name, Some(inline.to_owned())),
            None => (words[at].as_str(), None),
        };
        if name != flag {
            at += 1;
            continue;
        }
        words.remove(at);
        value = match inline {
            None if at < words.len() => Some(words.remove(at)),
            inline => inline,
        };
    }
    value
}

/// A running server; it ends when the value goes.
#[derive(Debug)]
pub struct Server {
    child: Child,
    signal: &'static str,
}

impl Server {
    /// Starts a command line in a group and on CPUs, and waits until `is_ready`. It gets `signal`
    /// at its end.
    fn start(
        (group, cpus): (&CpuCgroup, Option<&[usize]>),
        command: &str,
        signal: &'static str,
        is_ready: impl Fn() -> bool,
    ) -> Result<Server> {
        let on = cpus.map_or(String::new(), |cpus| {
            let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
            format!("taskset -c {} ", cpus.join(","))
        });
        let procs = group.dir().join("cgroup.procs");
        let line = format!("echo $$ > '{}' && exec {on}{command}", procs.display());
        let started = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = started.map_err(|source| HostError::start(command.to_owned(), source))?;
        let mut server = Server { child, signal };
        let deadline = Instant::now() + START_LIMIT;
        while !is_ready() {
            let ended = server.child.try_wait().ok().flatten();
            if let Some(status) = ended {
                return Err(failed(format!("`{command}` ended with {status}")));
            }
            if Instant::now() > deadline {
                return Err(failed(format!("`{command}` does not answer")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// CPU time of the server until now: of all its processes, and of those that have ended. Whole
    /// clock ticks.
    pub fn cpu_time(&self) -> Duration {
        let pid = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let living = children.split_whitespace().map(str::to_owned);
        let all = living.chain([pid.to_string()]);
        TICK * all.map(|pid| ticks(&pid)).sum::<u32>()
    }
}

/// Clock ticks of a process and of its children that have ended.
fn ticks(pid: &str) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let times = fields.split_whitespace().skip(11).take(4);
    times.filter_map(|ticks| ticks.parse::<u32>().ok()).sum()
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that is gone already needs no signal.
        let pid = self.child.id().to_string();
        drop(Command::new("kill").args([self.signal, &pid]).status());
        drop(self.child.wait());
    }
}

/// A server that has just started still has things to do; processes of ended connections end a
/// little later.
const SETTLE: Duration = Duration::from_millis(300);

/// Where a client's server is started: in a group, on CPUs.
pub type Place<'a> = (&'a Client, &'a CpuCgroup, Option<&'a [usize]>);

/// The running servers of several programs, those that need one.
#[derive(Debug)]
pub struct Servers {
    servers: Vec<Option<Server>>,
    before: Vec<Option<Duration>>,
}

impl Servers {
    /// Starts them all and lets them come to rest.
    ///
    /// # Errors
    /// A server that does not start.
    pub fn start<'a>(places: impl IntoIterator<Item = Option<Place<'a>>>) -> Result<Servers> {
        let start = |place: Option<Place<'a>>| {
            place
                .map(|(client, group, cpus)| client.start(group, cpus))
                .transpose()
        };
        let servers = places.into_iter().map(start).collect::<Result<_>>()?;
        let mut servers = Servers {
            servers,
            before: Vec::new(),
        };
        servers.settle();
        servers.before = servers.cpu_times();
        Ok(servers)
    }

    fn settle(&self) {
        if self.servers.iter().any(Option::is_some) {
            std::thread::sleep(SETTLE);
        }
    }

    fn cpu_times(&self) -> Vec<Option<Duration>> {
        let servers = self.servers.iter();
        servers
            .map(|one| one.as_ref().map(Server::cpu_time))
            .collect()
    }

    /// CPU time of each server since it came to rest; `None` where it could not be read.
    pub fn used(&self) -> Vec<Option<Duration>> {
        self.settle();
        let both = self.cpu_times().into_iter().zip(&self.before);
        both.map(|(after, before)| Some(after?.saturating_sub((*before)?)))
            .collect()
    }
}

fn failed(why: String) -> HostError {
    HostError::unavailable("a private server", why)
}

/// Runs a command to its end.
fn must(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|source| HostError::start(shown.clone(), source))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.trim().lines().last().unwrap_or_default();
            Err(failed(format!(
                "{shown} ended with {}: {last}",
                output.status
            )))
        }
    }
}

/// Text of a path.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn clients_are_known_by_their_command_lines() {
        for line in [
            "pgbench -S",
            "/usr/bin/wrk -t1",
            "sysbench --threads=4 oltp_read_only run",
        ] {
            assert!(is_client(&words(line)), "{line}");
        }
        for line in ["", "sysbench cpu run", "hackbench -g 1", "nginx"] {
            assert!(!is_client(&words(line)), "{line}");
        }
        assert!(Client::prepare(&words("hackbench -g 1")).unwrap().is_none());
    }

    #[test]
    fn flags_of_the_simulation_are_taken_out() {
        let mut line = words("wrk -t1 --workers 2 -c1 --workers=3 --server-cgroup /a -d1");
        assert_eq!(take(&mut line, "--workers").as_deref(), Some("3"));
        assert_eq!(take(&mut line, "--server-cgroup").as_deref(), Some("/a"));
        assert_eq!(take(&mut line, "--filesystem"), None);
        assert_eq!(line, words("wrk -t1 -c1 -d1"));
    }

    #[test]
    fn own_cpu_time_is_read() {
        let pid = std::process::id().to_string();
        let begin = Instant::now();
        let before = ticks(&pid);
        while ticks(&pid) < before + 3 {
            assert!(
                begin.elapsed() < Duration::from_secs(30),
                "no CPU time in 30 s"
            );
        }
    }
}
