//! The virtual machine: qemu with a kernel, an archive and three serial lines.
//!
//! The kernel's own messages go to the first line, what the program prints to the second, what it
//! complains to the third.
//!
//! An emulated guest has a clock of its own: each instruction takes 1 ns, and when all wait, time
//! jumps to the next timer (`-icount shift=0,sleep=off`). So it neither knows how slowly it is
//! emulated nor what else the host does. Worked example: a program that computes for 4 s executes
//! 4·10⁹ instructions and takes ten to fifteen seconds outside. Such a clock is for one CPU only:
//! with two, each instruction of one would take time from the other.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::kernel::KernelImage;
use super::{Accelerator, Done, ENDED, GUEST, Order, READY, libraries};
use crate::error::{HostError, Result, io_error};
use crate::scratch::Scratch;
use crate::sys;

const QEMU: &str = "qemu-system-x86_64";
/// A guest is up in three seconds, on a busy host in thirty.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The archive is unpacked into memory, and its packed form is there at the same time.
const MEMORY_MB: usize = 1024;

/// Text that the guest wrote to its port `name`; empty if it wrote nothing.
fn said(scratch: &Scratch, name: &str) -> String {
    let bytes = fs::read(scratch.path().join(name)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\r', "")
}

/// A running qemu, ended on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots with what executes it best.
pub(super) fn boot(image: &KernelImage, order: &Order, archive: &[u8]) -> Result<Done> {
    let qemu = libraries::find(QEMU).ok_or_else(|| HostError::unavailable("a virtual machine", format!(
            "{QEMU} is not installed; on Debian: apt install --no-install-recommends qemu-system-x86"
        )))?;
    let scratch = Scratch::new("schedcast-vm-")?;
    let packed = scratch.path().join("archive");
    fs::write(&packed, archive).map_err(|error| io_error("writing", &packed, error))?;
    let accelerator = Accelerator::here();
    let mut command = command(&qemu, image, order, &scratch, accelerator);
    sys::end_with_parent(&mut command);
    let started = command.spawn().map_err(|source| {
        let command = QEMU.to_owned();
        HostError::Start { command, source }
    })?;
    attend(&mut Running(started), order.limit, &scratch)?;
    done(&scratch, accelerator).ok_or_else(|| dead("it broke down", &scratch))
}

/// KVM runs a kernel that knows nothing of it where the CPU has instructions for that; without them
/// `/dev/kvm` may be there all the same, for kernels made for it.
pub(crate) fn can_use_kvm() -> bool {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut flags = cpuinfo.lines().filter(|line| line.starts_with("flags"));
    let has = |line: &str| {
        let mut words = line.split_whitespace();
        words.any(|flag| flag == "vmx" || flag == "svm")
    };
    let device = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm");
    device.is_ok() && flags.any(has)
}

/// Waits until the machine is off.
fn attend(running: &mut Running, limit: Duration, scratch: &Scratch) -> Result<()> {
    let begin = Instant::now();
    let mut up = false;
    loop {
        let over = matches!(running.0.try_wait(), Ok(Some(_)) | Err(_));
        up = up || said(scratch, "stdout").contains(READY);
        match (over, up) {
            (true, true) => return Ok(()),
            (true, false) => return Err(dead("it ended before it was up", scratch)),
            (false, false) if begin.elapsed() > PATIENCE => {
                return Err(dead("it does not come up", scratch));
            }
            (false, true) if begin.elapsed() > PATIENCE + limit => {
                return Err(dead("it does not end", scratch));
            }
            _ => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// Result that the guest reported; `None` if it never came to the end.
fn done(scratch: &Scratch, accelerator: Accelerator) -> Option<Done> {
    let text = said(scratch, "stdout");
    let (_, printed) = text.split_once(&format!("{READY}\n"))?;
    let (stdout, code) = printed.rsplit_once(&format!("{ENDED} "))?;
    Some(Done {
        stdout: stdout.to_owned(),
        stderr: said(scratch, "stderr"),
        code: code.trim().parse().ok()?,
        accelerator,
    })
}

fn dead(how: &str, scratch: &Scratch) -> HostError {
    let mut words = String::new();
    for file in ["qemu", "console"] {
        let text = said(scratch, file);
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        for line in &lines[lines.len().saturating_sub(6)..] {
            words += &format!("\n  {file}: {line}");
        }
    }
    HostError::unavailable("the virtual machine", format!("{how}{words}"))
}

fn command(
    qemu: &Path,
    image: &KernelImage,
    order: &Order,
    scratch: &Scratch,
    accelerator: Accelerator,
) -> Command {
    let cpus = accelerator.cpus(order.cpus.max(1));
    let mut command = Command::new(qemu);
    command
        .args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args(["-display", "none", "-machine", "pc"])
        .args(["-smp", &cpus.to_string()])
        .args(["-m", &MEMORY_MB.to_string()])
        .arg("-kernel")
        .arg(&image.path)
        .arg("-initrd")
        .arg(scratch.path().join("archive"));
    let speed = match accelerator {
        Accelerator::Kvm => ["-accel", "kvm", "-cpu", "host"],
        Accelerator::Emulation => ["-accel", "tcg", "-cpu", "max"],
        Accelerator::Threads => ["-accel", "tcg,thread=multi", "-cpu", "max"],
    };
    command.args(speed);
    if accelerator == Accelerator::Emulation {
        command.args(["-icount", "shift=0,sleep=off"]);
    }
    // A panic ends the machine; with the first process gone that is what happens. Words that the
    // kernel does not know are the first process's environment.
    let words = "console=ttyS0 quiet panic=-1 random.trust_cpu=1 rdinit=/init";
    let words = format!("{words} {GUEST}={}", accelerator.name());
    let words = match accelerator {
        // On a busy host a translated guest sees no timer interrupt within the ten ticks that a
        // kernel waits for one.
        Accelerator::Threads => format!("{words} no_timer_check"),
        Accelerator::Kvm | Accelerator::Emulation => words,
    };
    command.args(["-append", &words]);
    for line in ["console", "stdout", "stderr"] {
        let path = scratch.path().join(line);
        command
            .arg("-serial")
            .arg(format!("file:{}", path.display()));
    }
    let log = fs::File::create(scratch.path().join("qemu"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.map_or_else(|_| Stdio::null(), Stdio::from));
    command
}
