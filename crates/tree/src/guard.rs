//! The end of a world whose C goes wrong where it has no trap of its own: by a bad pointer, or by a
//! loop without an end.
//!
//! ```text
//! C touches address 8 ──► SIGSEGV ──► handler: the C goes on in sc_trap ──► the call returns
//! C leaves its stack  ──► SIGSEGV ───┤                                     and says where
//! C loops for 20 s    ──► SIGVTALRM ─┘
//! ```
//!
//! Worked example: a patch of `pick_eevdf` reads `*(int *)8`. The handler notes the address and the
//! place and lets the thread go on in the object's `sc_trap`, on the stack that it was on; that
//! swaps back to the host, as where something is not emulated. The world is over, the program is
//! not: "pick_eevdf+0x1c (kernel/sched/fair.c:912) uses the bad address 0x8". The line is that of
//! the source, also where it is inlined into the function; binutils' `addr2line` finds it.

#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

use crate::stacks::end_of_stack;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

/// CPU time that a single call may take. One takes microseconds, booting some milliseconds.
const LONGEST_CALL_S: u32 = 20;

/// Faults of the processor that a mistake in C leads to.
const FAULTS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
/// Sent to a thread each second of its CPU time.
const TICK: c_int = libc::SIGVTALRM;

/// Message about a stack that is too small.
const LEAVES_STACK: &str = "needs more stack than the 64 KiB that a task has here (16 in a kernel): \
                            a large variable, or a recursion without an end";

/// Bytes of the red zone below a stack pointer, which a function may use.
const RED_ZONE: u64 = 128;
/// Host frames are at most so far below the stack pointer that it left.
const HOST_STACK: u64 = 1 << 20;

/// Functions of an object, by address.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    /// Address in the object, size and name.
    functions: Vec<(u64, u64, String)>,
    /// Where the stack pointer of the host is kept.
    host_sp: Option<u64>,
}

impl Symbols {
    /// Of the bytes of an ELF object; empty where it has no table of symbols.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::read(bytes).unwrap_or_default()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize, size: usize| -> Option<u64> {
            let mut whole = [0; 8];
            whole[..size].copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
            Some(u64::from_le_bytes(whole))
        };
        let sections = number(0x28, 8)? as usize;
        let (section_size, count) = (number(0x3a, 2)? as usize, number(0x3c, 2)? as usize);
        let section = |row: usize| sections + row * section_size;
        // SHT_SYMTAB
        let table = (0..count).map(section);
        let table = table.into_iter().find(|at| number(at + 4, 4) == Some(2))?;
        let (first, size) = (number(table + 0x18, 8)?, number(table + 0x20, 8)?);
        let names = number(section(number(table + 0x28, 4)? as usize) + 0x18, 8)?;
        let name = |at: u64| {
            let rest = bytes.get((names + at) as usize..)?;
            let end = rest.iter().position(|&byte| byte == 0)?;
            Some(String::from_utf8_lossy(&rest[..end]).into_owned())
        };
        let mut symbols = Self::default();
        for row in 0..size / 24 {
            let at = (first + row * 24) as usize;
            let (kind, value) = (number(at + 4, 1)? & 0xf, number(at + 8, 8)?);
            let name = name(number(at, 4)?)?;
            // STT_FUNC; `sc_trap` and others of assembly have no kind.
            match (kind, &name[..]) {
                (2, _) => symbols.functions.push((value, number(at + 16, 8)?, name)),
                (_, "sc_host_sp") => symbols.host_sp = Some(value),
                _ => {}
            }
        }
        symbols.functions.sort_unstable();
        Some(symbols)
    }

    fn address(&self, name: &str) -> Option<u64> {
        let found = self.functions.iter().find(|(_, _, other)| other == name);
        found.map(|(address, ..)| *address)
    }

    fn at(&self, address: u64) -> Option<&(u64, u64, String)> {
        let row = self.functions.partition_point(|(at, ..)| *at <= address);
        let function = &self.functions[row.checked_sub(1)?];
        (address < function.0 + function.1).then_some(function)
    }

    /// The function at an address, without what the compiler put behind its name.
    fn function(&self, address: u64) -> Option<&str> {
        let (.., name) = self.at(address)?;
        Some(name.split('.').next().unwrap_or(name))
    }

    /// The function at an address and the offset in it, as `scripts/faddr2line` takes them.
    fn offset(&self, address: u64) -> Option<String> {
        let (at, _, name) = self.at(address)?;
        Some(format!("{name}+{:#x}", address - at))
    }
}

/// Where the code of a loaded object is, and the way out of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    base: u64,
    /// From here to there.
    code: (u64, u64),
    trap: u64,
    host_sp: u64,
    /// Stacks of the C, and the forbidden memory below each.
    stacks: (u64, u64),
}

impl Guard {
    /// Of an object whose `sc_run` was loaded at an address; `None` where its symbols are too few.
    pub(crate) fn new(
        symbols: &Symbols,
        sc_run: *const c_void,
        stacks: (u64, u64),
    ) -> Option<Self> {
        // Nothing else is built for another architecture.
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        static HANDLERS: Once = Once::new();
        HANDLERS.call_once(install);
        let base = (sc_run as u64).checked_sub(symbols.address("sc_run")?)?;
        let (first, ..) = symbols.functions.first()?;
        let (last, size, _) = symbols.functions.last()?;
        Some(Self {
            base,
            code: (base + first, base + last + size),
            trap: base + symbols.address("sc_trap")?,
            host_sp: base + symbols.host_sp?,
            stacks,
        })
    }

    /// Lets a thread execute the object's code in `call`, guarded.
    pub(crate) fn within<T>(guard: Option<Self>, call: impl FnOnce() -> T) -> T {
        THREAD.with(|thread| {
            thread.start_clock();
            thread.calls.set(thread.calls.get().wrapping_add(1));
            let before = thread.guard.replace(guard);
            let result = call();
            thread.guard.set(before);
            result
        })
    }

    /// The function at an address of the loaded object.
    pub(crate) fn function<'a>(&self, symbols: &'a Symbols, address: u64) -> Option<&'a str> {
        symbols.function(address.checked_sub(self.base)?)
    }

    /// A line with names in place of addresses of functions, which the C of `%pS` prints: it has no
    /// table of symbols.
    pub(crate) fn with_names(&self, symbols: &Symbols, line: &str) -> String {
        const DIGITS: usize = 16;
        let mut parts = line.split("0x");
        let mut named = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let digits = part.get(..DIGITS);
            let address = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            let offset = address.and_then(|address| address.checked_sub(self.base));
            match offset.and_then(|offset| symbols.offset(offset)) {
                Some(name) => named = named + &name + &part[DIGITS..],
                None => named = named + "0x" + part,
            }
        }
        named
    }

    /// The fault that stopped the last call of this thread, if it was stopped by a guard.
    pub(crate) fn why(&self, symbols: &Symbols, object: &Path) -> Option<String> {
        let fault = THREAD.with(|thread| thread.fault.take())?;
        let place = |address: u64| self.function(symbols, address);
        let named = |address: u64| {
            let address = address.checked_sub(self.base)?;
            let offset = symbols.offset(address)?;
            Some(match line_of(object, address) {
                Some(line) => format!("{offset} ({line})"),
                None => offset,
            })
        };
        let function = named(fault.at).or_else(|| named(fault.caller));
        let function = function.unwrap_or_else(|| "a function of no name".to_owned());
        Some(match fault.signal {
            TICK => format!("{function} does not end: {LONGEST_CALL_S} s of CPU time in one call"),
            _ if end_of_stack(self.stacks, fault.address).is_some() => {
                format!("{function} {LEAVES_STACK}")
            }
            libc::SIGSEGV | libc::SIGBUS if place(fault.at).is_none() => {
                format!("{function} calls the bad address {:#x}", fault.at)
            }
            libc::SIGSEGV | libc::SIGBUS => {
                format!("{function} uses the bad address {:#x}", fault.address)
            }
            libc::SIGFPE => format!("{function} divides by 0"),
            _ => format!("{function} executes an invalid opcode (ud2)"),
        })
    }
}

/// File and line of the source at an address in an object, if `addr2line` is there to ask.
fn line_of(object: &Path, address: u64) -> Option<String> {
    let mut command = Command::new("addr2line");
    command.env("LC_ALL", "C").arg("-e").arg(object);
    let output = command.arg(format!("{address:#x}")).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    line_in(text.lines().next()?, object.parent()?)
}

/// `kernel/sched/fair.c:912` of what `addr2line` says about an object built in `folder`.
fn line_in(said: &str, folder: &Path) -> Option<String> {
    let line = said.split(" (discriminator").next().unwrap_or(said);
    let below = ["farm", "out"].map(|one| format!("{}/", folder.join(one).display()));
    let line = below
        .iter()
        .find_map(|below| line.strip_prefix(below.as_str()))
        .unwrap_or(line);
    let (_, number) = line.rsplit_once(':')?;
    number
        .parse::<u32>()
        .is_ok_and(|number| number > 0)
        .then(|| line.to_owned())
}

/// A fault as a handler found it.
#[derive(Clone, Copy)]
struct Fault {
    signal: c_int,
    /// Instruction.
    at: u64,
    /// Where a call from there would return to.
    caller: u64,
    /// Memory that it uses.
    address: u64,
}

/// The guard of a thread, seen from its signal handlers: no part of it has a destructor.
struct Thread {
    guard: Cell<Option<Guard>>,
    fault: Cell<Option<Fault>>,
    calls: Cell<u64>,
    /// Calls that had begun at the last tick, and ticks since the last of them.
    seen: Cell<(u64, u32)>,
    has_clock: Cell<bool>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            guard: Cell::new(None),
            fault: Cell::new(None),
            calls: Cell::new(0),
            seen: Cell::new((0, 0)),
            has_clock: Cell::new(false),
        }
    };
}

impl Thread {
    /// Starts the ticks of this thread. Without them a loop has no end, which is no reason to
    /// refuse a tree.
    #[expect(unsafe_code, reason = "a timer of the system")]
    fn start_clock(&self) {
        if self.has_clock.replace(true) {
            return;
        }
        let second = libc::timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        let every = libc::itimerspec {
            it_interval: second,
            it_value: second,
        };
        // SAFETY: both calls get structures of their own that they only read, or write once.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = TICK;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = std::mem::zeroed();
            let clock = libc::CLOCK_THREAD_CPUTIME_ID;
            if libc::timer_create(clock, &raw mut event, &raw mut timer) == 0 {
                libc::timer_settime(timer, 0, &raw const every, std::ptr::null_mut());
            }
        }
    }

    /// Whether a tick finds the same call as those of the last [`LONGEST_CALL_S`].
    fn is_stuck(&self) -> bool {
        let calls = self.calls.get();
        let (seen, ticks) = self.seen.get();
        let ticks = if seen == calls { ticks + 1 } else { 0 };
        self.seen.set((calls, ticks));
        ticks >= LONGEST_CALL_S
    }
}

/// Handlers of the faults before these; one for each of [`FAULTS`].
static BEFORE: [AtomicPtr<libc::sigaction>; 4] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; 4];

#[cfg(not(target_arch = "x86_64"))]
fn install() {}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "handlers of signals")]
fn install() {
    // SAFETY: the structures are complete, and `handle` calls nothing that a handler may not.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        for (row, signal) in FAULTS.into_iter().enumerate() {
            let before = Box::into_raw(Box::new(std::mem::zeroed::<libc::sigaction>()));
            libc::sigaction(signal, &raw const action, before);
            BEFORE[row].store(before, Ordering::Release);
        }
        libc::sigaction(TICK, &raw const action, std::ptr::null_mut());
    }
}

/// Ends the program from within a callback that the C's stack has no room for: what it was changing
/// is half done.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "no more than a handler may call")]
fn end_in_callback() -> ! {
    // SAFETY: both calls may be made in a handler.
    unsafe {
        for text in ["error: the tree's scheduler ", LEAVES_STACK, "\n"] {
            libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
        }
        libc::_exit(2)
    }
}

/// Lets the C go on in its trap, or leaves a fault that is not the C's to what handled it before.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "registers of the interrupted thread")]
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes both; the stack of the C is mapped where it executes.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let register = |number: c_int| registers[number as usize] as u64;
        let (at, sp) = (register(libc::REG_RIP), register(libc::REG_RSP));
        let stopped = THREAD.with(|thread| {
            let stuck = signal == TICK && thread.is_stuck();
            let guard = thread.guard.get()?;
            let is_code = |at: u64| (guard.code.0..guard.code.1).contains(&at);
            let host_sp = *(guard.host_sp as *const u64);
            if host_sp.abs_diff(sp) < HOST_STACK || (signal == TICK && !(stuck && is_code(at))) {
                return None;
            }
            let address = (*info).si_addr() as u64;
            let left_stack = match signal {
                libc::SIGSEGV => end_of_stack(guard.stacks, address),
                _ => None,
            };
            if left_stack.is_some() && !is_code(at) {
                end_in_callback();
            }
            // A call of a bad address has put the place behind it on the stack.
            let caller = match is_code(at) {
                true => at,
                false => (*(sp as *const u64)).wrapping_sub(1),
            };
            if !is_code(caller) {
                return None;
            }
            thread.fault.set(Some(Fault {
                signal,
                at,
                caller,
                address,
            }));
            // Its world is over, so a stack that was left is used from its end again.
            Some((guard, left_stack.unwrap_or(sp)))
        });
        match stopped {
            Some((guard, sp)) => {
                // As if the place had called `sc_trap` with a name.
                let top = ((sp - RED_ZONE) & !15) - 8;
                registers[libc::REG_RSP as usize] = top as i64;
                registers[libc::REG_RDI as usize] = c"a fault".as_ptr() as i64;
                registers[libc::REG_RIP as usize] = guard.trap as i64;
            }
            None => {
                let row = FAULTS.iter().position(|&fault| fault == signal);
                if let Some(row) = row {
                    // The instruction is executed again, and found by the other handler.
                    let before = BEFORE[row].load(Ordering::Acquire);
                    libc::sigaction(signal, before, std::ptr::null_mut());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_at_an_address_has_its_name_in_the_source() {
        let symbols = Symbols {
            functions: vec![
                (0x100, 0x20, "first".into()),
                (0x140, 0x10, "pick_eevdf.constprop.0".into()),
            ],
            host_sp: None,
        };
        assert_eq!(symbols.function(0x11f), Some("first"));
        assert_eq!(symbols.function(0x120), None);
        assert_eq!(symbols.function(0x14f), Some("pick_eevdf"));
        let offset = symbols.offset(0x14f);
        assert_eq!(offset.as_deref(), Some("pick_eevdf.constprop.0+0xf"));
        assert_eq!(
            (symbols.function(0xff), symbols.function(0x150)),
            (None, None)
        );
    }

    #[test]
    fn printed_addresses_of_functions_become_names() {
        let symbols = Symbols {
            functions: vec![(0x100, 0x20, "update_curr".into())],
            host_sp: None,
        };
        let guard = Guard {
            base: 0x7f00_0000_0000,
            code: (0x7f00_0000_0100, 0x7f00_0000_0120),
            trap: 0,
            host_sp: 0,
            stacks: (0, 0),
        };
        let named = |line| guard.with_names(&symbols, line);
        assert_eq!(
            named("by 0x00007f0000000104, then 0x00007f0000000100"),
            "by update_curr+0x4, then update_curr+0x0"
        );
        for other in ["no 0x00007f0000000200", "0x12 and 0xé", "0x00000000000000"] {
            assert_eq!(named(other), other);
        }
    }

    #[test]
    fn a_line_is_one_of_the_tree() {
        let line = |said| line_in(said, Path::new("/cache/built/linux"));
        let place = Some("kernel/sched/fair.c:912".to_owned());
        assert_eq!(
            line("/cache/built/linux/out/kernel/sched/fair.c:912"),
            place
        );
        let said = "/cache/built/linux/farm/kernel/sched/fair.c:912 (discriminator 3)";
        assert_eq!(line(said), place);
        assert_eq!((line("??:0"), line("??:?"), line("")), (None, None, None));
    }

    #[test]
    fn symbols_are_those_of_the_elf_object() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let symbols = Symbols::of(&program);
        assert!(symbols.address("main").is_some());
        assert!(Symbols::of(b"\x7fELF and no more").functions.is_empty());
        assert!(
            Symbols::of(&program[..program.len() / 2])
                .functions
                .is_empty()
        );
    }
}
