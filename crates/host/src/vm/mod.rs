//! A program run under another kernel: booted in a virtual machine, with this host's own programs
//! inside.
//!
//! ```text
//! order ──► archive: the program, the tools it starts, their libraries, the files it reads
//!       ──► qemu: kernel + archive ──► first process: mounts, cgroup v2 ──► the program
//!       ◄── serial lines: what it printed, what it complained, its exit code
//! ```
//!
//! Nothing is installed in the guest and nothing is left of it. Worked example: an order of
//! `stress-ng` for one second under Linux 6.1 has an archive of 30 MB and takes about ten seconds,
//! most of them to boot.
//!
//! With KVM the guest runs on this host's CPUs. Under [`Accelerator::Emulation`] it has one CPU and
//! a clock that counts instructions, so that nothing outside disturbs it; under
//! [`Accelerator::Threads`] it has several slow ones and the host's clock.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{HostError, Result, io_error};

mod archive;
mod kernel;
mod libraries;
mod machine;

use archive::Archive;
pub use kernel::{KERNELS, KernelImage};
pub(crate) use libraries::find as find_program;

/// Programs that the first process needs.
const OWN_TOOLS: [&str; 2] = ["sh", "mount"];
/// Says that the guest is up.
const READY: &str = "schedcast-guest-ready";
/// Stands before the exit code.
const ENDED: &str = "schedcast-guest-ended";

/// Environment variable that chooses the accelerator: KVM, TCG or MTTCG.
pub(crate) const ACCELERATOR: &str = "SCHEDCAST_ACCELERATOR";
/// The one that names it to programs in the guest.
const GUEST: &str = "SCHEDCAST_GUEST";

schedcast_base::named! {
    /// Accelerator: executes the guest's instructions.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Accelerator {
        /// The host's CPUs, through `/dev/kvm`.
        Kvm = "KVM",
        /// Qemu's translator (TCG), with a clock that counts instructions.
        Emulation = "TCG",
        /// The translator with a thread for each CPU (multi-threaded TCG), and the host's clock: a
        /// slow machine.
        Threads = "MTTCG",
    }
}

impl Accelerator {
    /// The one that `$SCHEDCAST_ACCELERATOR` names, else KVM where the CPU has instructions for it.
    pub fn here() -> Accelerator {
        match (Self::in_variable(ACCELERATOR), machine::can_use_kvm()) {
            (Some(named), _) => named,
            (None, true) => Accelerator::Kvm,
            (None, false) => Accelerator::Emulation,
        }
    }

    /// Accelerator of the guest that this process runs in; `None` outside of guests that [`run`]
    /// booted.
    pub fn around() -> Option<Accelerator> {
        Self::in_variable(GUEST)
    }

    fn in_variable(variable: &str) -> Option<Accelerator> {
        Self::named(&std::env::var(variable).ok()?)
    }

    /// CPUs of a guest that should have `wanted`: one whose clock counts instructions has one.
    pub fn cpus(self, wanted: usize) -> usize {
        match self {
            Accelerator::Kvm | Accelerator::Threads => wanted,
            Accelerator::Emulation => 1,
        }
    }
}

/// Order: the program to run in a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The program, a path on this host, and its arguments. It starts in this process's folder.
    pub words: Vec<OsString>,
    /// Programs that it starts, by name or path.
    pub tools: Vec<String>,
    /// Files that it reads, besides.
    pub files: Vec<PathBuf>,
    /// CPUs of the guest.
    pub cpus: usize,
    /// The guest is ended after this.
    pub limit: Duration,
}

/// Result of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Standard output of the program.
    pub stdout: String,
    /// Standard error of the program.
    pub stderr: String,
    /// Its exit code.
    pub code: i32,
    /// Accelerator of the guest.
    pub accelerator: Accelerator,
}

/// Boots `image` and runs `order` in it.
///
/// # Errors
/// No qemu, a missing tool or library, a guest that does not come up or does not end in time.
pub fn run(image: &KernelImage, order: &Order) -> Result<Done> {
    let folder =
        std::env::current_dir().map_err(|error| io_error("finding", Path::new("."), error))?;
    let archive = pack(image, order, &folder)?;
    machine::boot(image, order, &archive)
}

/// The guest's first file system.
fn pack(image: &KernelImage, order: &Order, folder: &Path) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for mount in ["/proc", "/sys", "/dev", "/tmp", "/root", "/etc"] {
        archive.folder(Path::new(mount));
    }
    // The first process writes here before it has mounted anything.
    archive.device(Path::new("/dev/console"), (5, 1));
    archive.device(Path::new("/dev/null"), (1, 3));
    archive.folder(folder);
    let program = order.words.first().map(PathBuf::from).unwrap_or_default();
    add_program(&mut archive, &program)?;
    let tools = order.tools.iter().map(String::as_str);
    for tool in OWN_TOOLS.into_iter().chain(tools) {
        let found = libraries::find(tool).ok_or_else(|| {
            HostError::unavailable(
                "a program for the virtual machine",
                format!("`{tool}` is not installed on this host"),
            )
        })?;
        add_program(&mut archive, &found)?;
    }
    // `#!/bin/sh` and what looks for it there.
    if let Some(shell) = libraries::find("sh") {
        archive.copy(&shell, Path::new("/bin/sh"))?;
    }
    for file in &order.files {
        archive.copy(file, &folder.join(file))?;
    }
    let config = image.config();
    if config.is_file() {
        archive.copy(
            &config,
            &Path::new("/boot").join(config.file_name().unwrap_or_default()),
        )?;
    }
    archive.file(Path::new("/init"), init(order, folder).as_bytes(), 0o755);
    Ok(archive.finish())
}

fn add_program(archive: &mut Archive, program: &Path) -> Result<()> {
    archive.copy(program, program)?;
    for library in libraries::of(program)? {
        archive.copy(&library, &library)?;
    }
    Ok(())
}

/// The script of the first process.
fn init(order: &Order, folder: &Path) -> String {
    let words: Vec<String> = order
        .words
        .iter()
        .map(|word| quoted(&String::from_utf8_lossy(word.as_bytes())))
        .collect();
    include_str!("init.sh")
        .replace("@READY@", READY)
        .replace("@ENDED@", ENDED)
        .replace("@FOLDER@", &quoted(&folder.display().to_string()))
        .replace("@WORDS@", &words.join(" "))
}

/// A word as a shell takes it literally.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_contains;

    #[test]
    fn the_first_process_runs_the_order_literally() {
        let order = Order {
            words: ["/bin/echo", "it's", "$HOME"].map(OsString::from).to_vec(),
            ..Order::default()
        };
        let script = init(&order, Path::new("/a b"));
        assert_contains(&script, r"'/bin/echo' 'it'\''s' '$HOME' > /dev/ttyS1");
        assert!(script.contains("cd '/a b' || exit"));
        assert!(!script.contains('@'), "{script}");
    }

    #[test]
    fn a_missing_tool_is_named() {
        let image = KernelImage {
            path: "/nowhere/vmlinuz".into(),
            release: "6.1".into(),
            version: "6.1".into(),
            hz: None,
            preempt: None,
        };
        let order = Order {
            words: vec!["/bin/sh".into()],
            tools: vec!["schedcast-no-such-program".into()],
            ..Order::default()
        };
        let error = pack(&image, &order, Path::new("/tmp"))
            .unwrap_err()
            .to_string();
        assert_contains(&error, "`schedcast-no-such-program` is not installed");
    }
}
