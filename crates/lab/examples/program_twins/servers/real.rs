//! The real client in one group and the real server in another.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use schedcast_host::{
    CommandSpec, CpuCgroup, Ending, Output, RunReport, run_in, tracefs::TraceInstance,
};

use super::cases::{Case, Server};
use super::{Values, push};
use crate::Outcome;
use crate::real::{STEAL_MAX, numbers_after};

const REPEATS: usize = 5;
const COUNTED: usize = 2;
const TIME_LIMIT: Duration = Duration::from_secs(20);
const START_LIMIT: Duration = Duration::from_secs(10);
const POSTGRES: &str = "/usr/lib/postgresql/15/bin";
const PORT: u16 = 18_080;
/// Clock ticks of `/proc/PID/stat`.
const TICK_S: f64 = 0.01;

/// The folder with the servers' files; it goes when the value does.
pub struct Host {
    folder: PathBuf,
}

impl Drop for Host {
    fn drop(&mut self) {
        // Nothing more can be done about it, and the name says what it was.
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// A server that was started; it ends when the value goes.
struct Running {
    child: Child,
    signal: &'static str,
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        drop(Command::new("kill").args([self.signal, &pid]).status());
        drop(self.child.wait());
    }
}

impl Running {
    /// CPU seconds of it, its children and those that have ended.
    fn cpu_s(&self) -> f64 {
        let pid = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let living = children.split_whitespace().map(str::to_owned);
        let ticks = |pid: String| -> f64 {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let fields = stat.rsplit(')').next().unwrap_or_default();
            let times = fields.split_whitespace().skip(11).take(4);
            times.filter_map(|ticks| ticks.parse::<f64>().ok()).sum()
        };
        living.chain([pid.to_string()]).map(ticks).sum::<f64>() * TICK_S
    }
}

fn must(command: &mut Command) -> Outcome<()> {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(format!("{command:?} ended with {}: {said}", output.status).into())
        }
    }
}

/// As the user that may run the server.
fn as_postgres(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    command.arg(program);
    command
}

impl Host {
    /// Makes the folder, and the tables in it.
    pub fn new() -> Outcome<Self> {
        let folder = std::env::temp_dir().join(format!("server-twins-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let host = Self { folder };
        must(Command::new("chown").arg("postgres").arg(&host.folder))?;
        must(
            as_postgres(&format!("{POSTGRES}/initdb"))
                .args(["-A", "trust", "-D"])
                .arg(host.data()),
        )?;
        let group = CpuCgroup::create("/", "server-twins-setup")?;
        {
            let _server = host.postgres(&group, &[0, 1])?;
            let at = format!("--pgsql-host={}", host.folder.display());
            must(
                Command::new("pgbench")
                    .args(["-i", "-q", "-U", "postgres", "-h"])
                    .arg(&host.folder)
                    .arg("postgres"),
            )?;
            must(Command::new("sysbench").args([
                "oltp_read_write",
                "--db-driver=pgsql",
                &at,
                "--pgsql-user=postgres",
                "--pgsql-db=postgres",
                "prepare",
            ]))?;
        }
        group.close()?;
        Ok(host)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Starts a command in a group and on CPUs.
    fn start(
        &self,
        group: &CpuCgroup,
        cpus: &[usize],
        command: &str,
        signal: &'static str,
    ) -> Outcome<Running> {
        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
        let line = format!(
            "echo $$ > '{}/cgroup.procs' && exec taskset -c {} {command}",
            group.dir().display(),
            cpus.join(",")
        );
        let child = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Running { child, signal })
    }

    fn postgres(&self, group: &CpuCgroup, cpus: &[usize]) -> Outcome<Running> {
        let folder = self.folder.display();
        let command = format!(
            "setpriv --reuid=postgres --regid=postgres --clear-groups {POSTGRES}/postgres -D '{folder}/data' \
             -k '{folder}' -c listen_addresses="
        );
        let server = self.start(group, cpus, &command, "-INT")?;
        self.ready(|| {
            let mut ask = Command::new(format!("{POSTGRES}/pg_isready"));
            ask.arg("-q").arg("-h").arg(&self.folder);
            ask.status().is_ok_and(|status| status.success())
        })?;
        Ok(server)
    }

    fn nginx(&self, group: &CpuCgroup, cpus: &[usize]) -> Outcome<Running> {
        let folder = self.folder.display();
        let file = self.folder.join("nginx.conf");
        std::fs::write(self.folder.join("index.html"), "x".repeat(612))?;
        std::fs::write(
            &file,
            format!(
                "daemon off;\nworker_processes {};\npid {folder}/nginx.pid;\nerror_log /dev/null;\n\
                 events {{ worker_connections 4096; }}\n\
                 http {{ access_log off; keepalive_requests 100000000; server {{ listen 127.0.0.1:{PORT} reuseport; \
                 root {folder}; }} }}\n",
                cpus.len()
            ),
        )?;
        must(Command::new("chmod").arg("755").arg(&self.folder))?;
        let command = format!("nginx -c '{}'", file.display());
        let server = self.start(group, cpus, &command, "-QUIT")?;
        self.ready(|| std::net::TcpStream::connect(("127.0.0.1", PORT)).is_ok())?;
        Ok(server)
    }

    fn ready(&self, is_ready: impl Fn() -> bool) -> Outcome<()> {
        let deadline = Instant::now() + START_LIMIT;
        while !is_ready() {
            if Instant::now() > deadline {
                return Err("the server did not start".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// The command with what says where the server is.
    fn words(&self, case: &Case) -> Vec<String> {
        let mut words: Vec<String> = case.command.split(' ').map(str::to_owned).collect();
        let folder = self.folder.display();
        let more = match (case.server(), words[0].as_str()) {
            (Some(Server::Postgres), "pgbench") => format!("-n -h {folder} -U postgres postgres"),
            (Some(Server::Postgres), _) => format!(
                "--db-driver=pgsql --pgsql-host={folder} --pgsql-user=postgres --pgsql-db=postgres"
            ),
            (Some(Server::Nginx), _) => format!("http://127.0.0.1:{PORT}/"),
            (None, _) => String::new(),
        };
        words.extend(more.split_whitespace().map(str::to_owned));
        words
    }

    /// Runs a case, first for its times, then with its wakeups and switches counted.
    pub fn run(&self, case: &Case) -> Outcome<Values> {
        let client = CpuCgroup::create("/", "server-twins-client")?;
        let group = CpuCgroup::create("/", "server-twins")?;
        let server = match case.server() {
            Some(Server::Postgres) => Some(self.postgres(&group, case.cpus)?),
            Some(Server::Nginx) => Some(self.nginx(&group, case.cpus)?),
            None => None,
        };
        if let Some(limit) = case.limit {
            let limited = if case.is_served() { &group } else { &client };
            limited.apply("cpu.max", limit)?;
        }
        let mut values = Values::new();
        for _ in 0..REPEATS {
            self.timed(case, &client, server.as_ref(), &mut values)?;
        }
        for _ in 0..COUNTED {
            self.counted(case, &client, &mut values)?;
        }
        drop(server);
        client.close()?;
        group.close()?;
        Ok(values)
    }

    fn once(&self, case: &Case, client: &CpuCgroup) -> Outcome<RunReport> {
        let words = self.words(case);
        let spec = CommandSpec::new(&words[0])
            .args(&words[1..])
            .cpus(case.cpus)
            .output(Output::Capture);
        let report = run_in(client, &[spec], TIME_LIMIT)?;
        match report.commands[0].ending {
            Ending::Exited(0) => Ok(report),
            ending => Err(format!("{} ended with {ending:?}", case.command).into()),
        }
    }

    fn timed(
        &self,
        case: &Case,
        client: &CpuCgroup,
        server: Option<&Running>,
        values: &mut Values,
    ) -> Outcome<()> {
        let before_s = server.map(Running::cpu_s);
        let report = self.once(case, client)?;
        // Server processes of a connection end a little after it.
        std::thread::sleep(Duration::from_millis(100));
        let after_s = server.map(Running::cpu_s);
        if report.steal_ratio > STEAL_MAX {
            eprintln!(
                "  dropped a run with {:.1} % steal",
                report.steal_ratio * 100.0
            );
            return Ok(());
        }
        let command = &report.commands[0];
        let text = String::from_utf8_lossy(&command.stdout);
        let count = number(&text, case.words[1])?;
        push(values, 0, number(&text, case.words[0])?);
        push(values, 1, latency_ms(&text, case.latency)?);
        push(values, 2, command.cpu_ns() as f64 / 1e3 / count);
        if let (Some(before_s), Some(after_s)) = (before_s, after_s) {
            push(values, 3, (after_s - before_s) * 1e6 / count);
        }
        let usage = command.usage;
        let switches = usage.voluntary_switches + usage.involuntary_switches;
        push(values, 4, switches as f64 / count);
        Ok(())
    }

    fn counted(&self, case: &Case, client: &CpuCgroup, values: &mut Values) -> Outcome<()> {
        let tool = case.command.split(' ').next().unwrap_or_default();
        let server = match case.server() {
            Some(Server::Postgres) => "postgres*",
            Some(Server::Nginx) => "nginx*",
            None => "no such task",
        };
        let wakeups = TraceInstance::create("server-twins-w", 16, &["sched/sched_waking"])?;
        let filter = format!("comm ~ \"{tool}*\" || comm ~ \"{server}\"");
        wakeups.set("events/sched/sched_waking/filter", &filter)?;
        let switches = TraceInstance::create("server-twins-s", 16, &["sched/sched_switch"])?;
        let filter = format!("prev_comm ~ \"{server}\"");
        switches.set("events/sched/sched_switch/filter", &filter)?;
        wakeups.start()?;
        switches.start()?;
        let report = self.once(case, client)?;
        wakeups.stop()?;
        switches.stop()?;
        let text = String::from_utf8_lossy(&report.commands[0].stdout);
        let count = number(&text, case.words[1])?;
        push(values, 6, seen(&wakeups)? / count);
        if case.is_served() {
            push(values, 5, seen(&switches)? / count);
        }
        Ok(())
    }
}

/// Events of an instance: the buffer keeps a few, the others count as lost.
fn seen(trace: &TraceInstance) -> Outcome<f64> {
    let text = trace.text()?;
    let kept = text.lines().filter(|line| line.contains(": sched_"));
    Ok(trace.lost_events()? as f64 + kept.count() as f64)
}

/// The first number behind a word, or before one that is marked with `<`.
fn number(text: &str, word: &str) -> Outcome<f64> {
    let number = match word.strip_prefix('<') {
        Some(word) => text
            .split_once(word)
            .and_then(|(before, _)| before.split_whitespace().last()?.parse().ok()),
        None => numbers_after(text, word).first().copied(),
    };
    Ok(number.ok_or_else(|| format!("no number at {word:?} in {text}"))?)
}

/// A latency, which may have its unit right behind it.
fn latency_ms(text: &str, word: &str) -> Outcome<f64> {
    let rest = text.split_once(word).map_or("", |(_, rest)| rest);
    let token = rest.split_whitespace().next().unwrap_or("");
    let units = [("us", 1e-3), ("ms", 1.0), ("s", 1e3)];
    let of = |(unit, ms): &(&str, f64)| Some(token.strip_suffix(unit)?.parse::<f64>().ok()? * ms);
    match token.parse().ok().or_else(|| units.iter().find_map(of)) {
        Some(latency_ms) => Ok(latency_ms),
        None => Err(format!("no latency behind {word:?} in {text}").into()),
    }
}
