//! A private PostgreSQL.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Folder, Server, failed, must, shown};
use crate::cgroup::CpuCgroup;
use crate::error::Result;

/// A command line that runs as the user who may run the server, and ends with this process.
const AS_POSTGRES: [&str; 6] = [
    "setpriv",
    "--reuid=postgres",
    "--regid=postgres",
    "--clear-groups",
    "--pdeathsig",
    "INT",
];

/// The files of a server, and where its programs are.
#[derive(Debug)]
pub struct Postgres {
    binaries: PathBuf,
    folder: Folder,
    /// Settings that differ from the default ones, as `name=value`.
    settings: Vec<String>,
}

impl Postgres {
    /// Folder of the newest installed server's programs.
    pub fn binaries() -> Option<PathBuf> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        let folders = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
        folders.filter(|bin| bin.join("initdb").exists()).max()
    }

    /// Makes an empty data base below `place`.
    ///
    /// # Errors
    /// No server installed, not being root, no room.
    pub fn prepare(place: &Path, settings: &[String]) -> Result<Postgres> {
        let binaries = Self::binaries().ok_or_else(|| {
            failed("PostgreSQL is not installed; on Debian: apt install postgresql".to_owned())
        })?;
        let folder = Folder::create(place)?;
        must(Command::new("chown").arg("postgres").arg(folder.path()))?;
        let mut initdb = Command::new(AS_POSTGRES[0]);
        initdb.args(&AS_POSTGRES[1..]).arg(binaries.join("initdb"));
        must(
            initdb
                .args(["-A", "trust", "-N", "-D"])
                .arg(folder.path().join("data")),
        )?;
        Ok(Postgres {
            binaries,
            folder,
            settings: settings.to_vec(),
        })
    }

    /// The folder with its files and its socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the server in a group, on these CPUs, and waits until it answers.
    ///
    /// # Errors
    /// A server that does not start.
    pub fn start(&self, group: &CpuCgroup, cpus: Option<&[usize]>) -> Result<Server> {
        let folder = shown(self.folder());
        let mut command = format!(
            "{} '{}' -D '{folder}/data' -k '{folder}' -c listen_addresses=",
            AS_POSTGRES.join(" "),
            shown(&self.binaries.join("postgres"))
        );
        for setting in &self.settings {
            command += &format!(" -c '{setting}'");
        }
        Server::start((group, cpus), &command, "-INT", || {
            let mut ask = Command::new(self.binaries.join("pg_isready"));
            ask.arg("-q").arg("-h").arg(self.folder());
            ask.status().is_ok_and(|status| status.success())
        })
    }

    /// The server's own pgbench, without the wrapper that Debian has around it, and with what says
    /// where the server is. The data base, `postgres`, is the last word to be added.
    pub fn pgbench(&self) -> Command {
        let mut command = Command::new(self.binaries.join("pgbench"));
        command.args(["-U", "postgres", "-h"]).arg(self.folder());
        command
    }

    /// Fills pgbench's tables: `scale` times 100,000 accounts. The server has to run.
    ///
    /// # Errors
    /// Output of pgbench if it fails.
    pub fn fill(&self, scale: &str) -> Result<()> {
        must(self.pgbench().args(["-i", "-q", "-s", scale, "postgres"]))
    }

    /// Makes the tables that a client wants, and says how it is started.
    pub(super) fn fill_for(&self, mut words: Vec<String>) -> Result<Vec<String>> {
        let _server = self.start(&CpuCgroup::open("/")?, None)?;
        let folder = shown(self.folder());
        if words[0].ends_with("pgbench") {
            self.fill(&scale(&words))?;
            words[0] = shown(&self.binaries.join("pgbench"));
            let more = ["-n", "-h", &folder, "-U", "postgres", "postgres"];
            words.extend(more.map(str::to_owned));
            return Ok(words);
        }
        words.extend([
            "--db-driver=pgsql".to_owned(),
            format!("--pgsql-host={folder}"),
            "--pgsql-user=postgres".to_owned(),
            "--pgsql-db=postgres".to_owned(),
        ]);
        let prepare = |word: &String| match word.as_str() {
            "run" => "prepare".to_owned(),
            _ => word.clone(),
        };
        must(Command::new(&words[0]).args(words[1..].iter().map(prepare)))?;
        Ok(words)
    }
}

/// Value of `-s`, `-sN`, `--scale` or `--scale=N` in a command line.
fn scale(words: &[String]) -> String {
    let behind = |at: usize, word: &String| match word.as_str() {
        "-s" | "--scale" => words.get(at + 1).cloned(),
        _ => {
            let long = word.strip_prefix("--scale=");
            let value = long.or_else(|| word.strip_prefix("-s"));
            value.map(str::to_owned)
        }
    };
    let mut all = words.iter().enumerate();
    let scale = all.find_map(|(at, word)| behind(at, word));
    scale.unwrap_or_else(|| "1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::scale;

    #[test]
    fn the_scale_is_the_clients() {
        for (line, expected) in [
            ("pgbench -S -c 4", "1"),
            ("pgbench -s 10 -S", "10"),
            ("pgbench -s3", "3"),
            ("pgbench --scale=7 -N", "7"),
            ("pgbench --scale 8", "8"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(scale(&words), expected, "{line}");
        }
    }
}
