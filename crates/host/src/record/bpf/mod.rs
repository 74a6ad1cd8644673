//! Recording with BPF: programs of our own at the scheduler's tracepoints, which need no tracefs
//! and leave out what has nothing to do with a group.
//!
//! ```text
//! BTF of the running kernel ──► offsets ──► programs ──► bpf(2): verifier, JIT ──► tracepoints
//!                                                                                   │ a ring of 8 MB a CPU
//!                                        trace/, like that of tracefs  ◄── every 50 ms
//! ```
//!
//! Nothing is compiled on the way and no library is needed: [`asm`] writes the instructions,
//! [`btf`] finds out where this kernel keeps `comm`, `pid` and the others, [`programs`] puts both
//! together. Everything in the kernel belongs to file descriptors of this process and goes away
//! with it, even after `kill -9`.
//!
//! Worked example: `pid` of `struct task_struct` is at byte 1264 on one build of Linux 6.18 and
//! elsewhere on the next, so the instruction that reads it, `r1 = *(u32 *)(r7 + 1264)`, is written
//! when the recording begins.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use schedcast_trace::Tracepoint;

use super::pages;
use super::{BUFFER_KB, LONG_RUN_NS, TRACE};
use crate::error::{HostError, Result, io_error};
use crate::topology::parse_cpu_list;

mod asm;
mod btf;
mod calls;
mod formats;
mod offsets;
mod programs;
mod rights;
mod ring;
mod writer;

use btf::Btf;
use calls::{MapKind, Refusal};
use formats::Layout;
use offsets::Offsets;
use programs::{Maps, Program, Setting};
pub(crate) use rights::{Rights, VMLINUX, lockdown};
use ring::Ring;
use writer::PageWriter;

/// Threads that can be known as partners of a group; those not seen for longest are forgotten.
const PARTNERS: u32 = 1 << 16;
/// How many of the verifier's last lines an error shows.
const LOG_LINES: usize = 4;

/// The ring of a CPU and the file that it goes to.
struct CpuRing {
    cpu: usize,
    ring: Ring,
    to: PageWriter,
    lost: u64,
}

/// Summary of a written trace.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub events: u64,
    pub bytes: u64,
    /// Events for which there was no room, by CPU.
    pub lost: Vec<u64>,
    /// Events at which the kernel did not run the program, because it was running on that CPU
    /// already.
    pub missed: u64,
}

/// A trace while it is made.
pub(super) struct BpfTrace {
    folder: PathBuf,
    programs: Vec<OwnedFd>,
    /// Links between programs and tracepoints: the programs run while these are open.
    ties: Vec<OwnedFd>,
    rings: Vec<CpuRing>,
    lost: OwnedFd,
    /// Held for the programs, which know them by number.
    _maps: [OwnedFd; 2],
}

/// An error of this way of recording.
fn unavailable(why: impl Into<String>) -> HostError {
    HostError::unavailable("recording with BPF", why.into())
}

impl BpfTrace {
    /// Loads the programs. With the folder of a group (of the cpu controller) only what has to do
    /// with that group is recorded.
    ///
    /// # Errors
    /// A facility that the kernel, or a right that this process lacks; nothing is left in the
    /// kernel then.
    pub(super) fn open(folder: &Path, group: Option<&Path>) -> Result<BpfTrace> {
        let rights = Rights::read(Path::new("/"));
        if let Some(why) = rights.refusal() {
            return Err(unavailable(why));
        }
        let btf = Btf::read(Path::new(VMLINUX)).map_err(unavailable)?;
        let offsets = Offsets::of(&btf).map_err(unavailable)?;
        let group = group.map(number_of).transpose()?;
        let made = |error: io::Error| unavailable(rights.explain("making a map", &error));
        let cpus = cpus("possible")?;
        let places = cpus.iter().max().map_or(1, |last| *last as u32 + 1);
        let lost = calls::make_map(MapKind::Array, 4, 8, places, None).map_err(made)?;
        let partners =
            calls::make_map(MapKind::LeastRecentlyUsed, 4, 4, PARTNERS, None).map_err(made)?;
        let ring_bytes = BUFFER_KB as usize * 1024;
        let online = self::cpus("online")?;
        let rings = online
            .into_iter()
            .map(|cpu| Ok((cpu, Ring::make(ring_bytes)?)));
        let rings: Vec<(usize, Ring)> = rings.collect::<io::Result<_>>().map_err(made)?;
        let Some((_, first)) = rings.first() else {
            return Err(unavailable("no CPU is online"));
        };
        let inner = Some(first.file.as_fd());
        let by_cpu = calls::make_map(MapKind::ArrayOfMaps, 4, 4, places, inner).map_err(made)?;
        for (cpu, ring) in &rings {
            calls::put_map(&by_cpu, *cpu as u32, &ring.file).map_err(made)?;
        }
        let setting = Setting {
            btf: &btf,
            offsets: &offsets,
            maps: Maps {
                rings: by_cpu.as_raw_fd(),
                lost: lost.as_raw_fd(),
                partners: partners.as_raw_fd(),
            },
            group,
            long_run_ns: LONG_RUN_NS,
        };
        let mut programs = Vec::new();
        for event in Tracepoint::ALL {
            let program = setting.program(event).map_err(unavailable)?;
            programs.push(load(&program, event.name(), &rights)?);
        }
        let folder = folder.join(TRACE);
        let rings = describe(&folder, rings)?;
        Ok(BpfTrace {
            folder,
            programs,
            ties: Vec::new(),
            rings,
            lost,
            _maps: [by_cpu, partners],
        })
    }

    /// Ties the programs to their tracepoints.
    pub(super) fn start(&mut self) -> Result<()> {
        for program in &self.programs {
            let tie = calls::attach(program).map_err(|error| {
                unavailable(format!(
                    "a program cannot be tied to its tracepoint: {error}"
                ))
            })?;
            self.ties.push(tie);
        }
        Ok(())
    }

    /// Writes down what the rings hold.
    pub(super) fn drain(&mut self) -> Result<()> {
        for one in &mut self.rings {
            let to = &mut one.to;
            let moved = one.ring.drain(|time_ns, record| to.put(time_ns, record));
            let lost = moved.and_then(|()| calls::number_at(&self.lost, one.cpu as u32));
            let noted = lost.and_then(|lost| {
                let more = lost - one.lost;
                one.lost = lost;
                match more {
                    0 => Ok(()),
                    more => one.to.lose(more),
                }
            });
            noted.map_err(|error| io_error("writing", &one.to.path, error))?;
        }
        Ok(())
    }

    /// Unties the programs.
    pub(super) fn stop(&mut self) {
        self.ties.clear();
    }

    /// Writes what is left.
    pub(super) fn finish(mut self) -> Result<Written> {
        self.drain()?;
        let mut all = Written::default();
        for one in &mut self.rings {
            one.to
                .close()
                .map_err(|error| io_error("writing", &one.to.path, error))?;
            let (read, lost) = (one.to.events, one.lost);
            all.events += read;
            all.bytes += one.to.bytes;
            all.lost.resize(one.cpu + 1, 0);
            all.lost[one.cpu] = lost;
            let text = format!("overrun: 0\ndropped events: {lost}\nread events: {read}\n");
            write(
                &self.folder,
                &format!("per_cpu/cpu{}/stats", one.cpu),
                &text,
            )?;
        }
        let missed = self.programs.iter().map(calls::misses);
        all.missed = missed.filter_map(|missed| missed.ok()).sum();
        Ok(all)
    }
}

/// Writes what readers need beside the pages, and opens a file for each ring.
fn describe(folder: &Path, rings: Vec<(usize, Ring)>) -> Result<Vec<CpuRing>> {
    write(folder, "events/header_page", writer::HEADER_PAGE)?;
    for event in Tracepoint::ALL {
        let name = format!("events/sched/{}/format", event.name());
        write(folder, &name, &event.format())?;
    }
    let opened = rings.into_iter().map(|(cpu, ring)| {
        let name = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
        let file = pages::create(folder, &name)?;
        Ok(CpuRing {
            cpu,
            ring,
            to: PageWriter::new(file, folder.join(name)),
            lost: 0,
        })
    });
    let opened = opened.collect::<Result<_>>()?;
    write(folder, "trace_clock", "[mono]\n")?;
    Ok(opened)
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    let written = pages::create(folder, name)?.write_all(text.as_bytes());
    written.map_err(|error| io_error("writing", &folder.join(name), error))
}

/// The number that the kernel knows a group by, which is its folder's inode.
fn number_of(group: &Path) -> Result<u64> {
    let folder = fs::metadata(group).map_err(|error| io_error("looking at", group, error))?;
    Ok(folder.ino())
}

/// The CPUs that are `online`, or `possible`.
fn cpus(which: &str) -> Result<Vec<usize>> {
    let path = Path::new("/sys/devices/system/cpu").join(which);
    let text = fs::read_to_string(&path).map_err(|error| io_error("reading", &path, error))?;
    Ok(parse_cpu_list(text.trim()).unwrap_or_default())
}

fn load(program: &Program, event: &str, rights: &Rights) -> Result<OwnedFd> {
    calls::load(&program.code, program.tracepoint).map_err(|Refusal { error, log }| {
        let log = last_lines(&log);
        unavailable(match log.is_empty() {
            true => rights.explain("loading a program", &error),
            false => format!(
                "the kernel's verifier refuses the program for {event} ({error}); it ends with: {log}"
            ),
        })
    })
}

/// The end of what the verifier said, without its own statistics.
fn last_lines(log: &str) -> String {
    let told = |line: &&str| !line.is_empty() && !line.starts_with("processed ");
    let lines: Vec<&str> = log.lines().map(str::trim).filter(told).collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_contains;

    #[test]
    fn the_end_of_the_verifiers_log_is_what_an_error_shows() {
        let log =
            "0: (bf) r6 = r1\n1: a\n2: b\n3: c\n\nR0 !read_ok\nprocessed 4 insns (limit 1000000)\n";
        assert_eq!(last_lines(log), "1: a | 2: b | 3: c | R0 !read_ok");
        assert_eq!(last_lines("processed 0 insns\n"), "");
    }

    #[test]
    fn a_program_that_the_verifier_refuses_is_named_with_its_reason() {
        let rights = Rights::read(Path::new("/"));
        if let Some(why) = rights.refusal() {
            eprintln!("skipped: {why}");
            return;
        }
        let btf = Btf::read(Path::new(VMLINUX)).unwrap();
        let (tracepoint, _) = btf.tracepoint("sched_switch").unwrap();
        // Ends without a result in R0.
        let mut code = asm::Assembler::default();
        code.exit();
        let program = Program {
            tracepoint,
            code: code.finish(),
        };
        let error = load(&program, "sched_switch", &rights)
            .unwrap_err()
            .to_string();
        let said = "the kernel's verifier refuses the program for sched_switch";
        assert_contains(&error, said);
        assert_contains(&error, "R0 !read_ok");
    }
}
