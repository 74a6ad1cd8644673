//! A private nginx that serves one small file.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;

use super::{Folder, Server, shown};
use crate::cgroup::CpuCgroup;
use crate::error::{Result, io_error};

/// Size of the file: that of nginx's own welcome page.
const FILE_BYTES: usize = 612;

/// The files of a server and its port.
#[derive(Debug)]
pub(crate) struct Nginx {
    folder: Folder,
    port: u16,
    workers: Option<String>,
}

impl Nginx {
    /// Makes the folder with the file that is served. `workers` is the number of worker processes,
    /// by default one for each CPU that the server may use.
    ///
    /// # Errors
    /// No room, no free port.
    pub(crate) fn prepare(workers: Option<&str>) -> Result<Nginx> {
        let folder = Folder::create(&std::env::temp_dir())?;
        let path = folder.path();
        // Its workers give up root's rights.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
            .and_then(|()| std::fs::write(path.join("index.html"), "x".repeat(FILE_BYTES)))
            .map_err(|source| io_error("writing", path, source))?;
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|port| port.local_addr());
        let port = free.map_err(|source| io_error("asking a port for", path, source))?;
        Ok(Nginx {
            port: port.port(),
            workers: workers.map(str::to_owned),
            folder,
        })
    }

    /// Where the file is.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Starts the server in a group, on these CPUs, and waits until it answers.
    ///
    /// # Errors
    /// A server that is not installed or does not start.
    pub(crate) fn start(&self, group: &CpuCgroup, cpus: Option<&[usize]>) -> Result<Server> {
        let path = self.folder.path();
        let folder = shown(path);
        let file = path.join("nginx.conf");
        let workers = self.workers.clone().unwrap_or_else(|| match cpus {
            Some(cpus) => cpus.len().to_string(),
            None => "auto".to_owned(),
        });
        let port = self.port;
        let text = format!(
            "daemon off;\nworker_processes {workers};\npid {folder}/nginx.pid;\nerror_log /dev/null;\n\
             events {{ worker_connections 4096; }}\n\
             http {{ access_log off; keepalive_requests 100000000; server {{ listen 127.0.0.1:{port} reuseport; \
             root {folder}; }} }}\n"
        );
        std::fs::write(&file, text).map_err(|source| io_error("writing", &file, source))?;
        let command = format!("setpriv --pdeathsig QUIT nginx -c '{}'", shown(&file));
        Server::start((group, cpus), &command, "-QUIT", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        })
    }
}
