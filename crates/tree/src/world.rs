//! One scheduler in virtual time: a copy of the object with memory of its own.
//!
//! Worked example: `world.run(0, 5_000_000, Call::Start, &[task])` lets whatever CPU 0 executes
//! start a task at 5 ms. When it returns, CPU 0 computes in user mode or waits in its idle loop,
//! and [`World::events`] has what was set off for later: an interrupt for CPU 1, a timer of CPU 0
//! at 105 ms, the tick of CPU 1 that is stopped.

pub use crate::calls::Call;

pub(crate) use crate::calls::{
    Chance, Event, Left, Lock, Machine, NewTask, PerfState, Place, Told,
};

use crate::callbacks::{Host, Inner};
use crate::calls::Hear;
use crate::guard::{Guard, Symbols};
use crate::stacks::Stacks;
use std::alloc::dealloc;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_longlong, c_ulong, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Why there is no world, or no more.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The object cannot be loaded.
    #[error("{0} cannot be loaded: {1}")]
    Load(PathBuf, String),
    /// The scheduler fell into a trap of its own.
    #[error("the tree's scheduler stopped: {0}")]
    Trapped(String),
    /// The scheduler needed something that is not emulated.
    #[error(
        "the tree's scheduler stopped: {printed}`{caller}` calls `{name}`, which is not part of the scheduler \
         and not emulated. It may be called by way of functions that are inlined"
    )]
    NotEmulated {
        /// Function that is missing.
        name: String,
        /// Function that calls it.
        caller: String,
        /// Lines printed before, each with a bar behind it.
        printed: String,
    },
    /// The machine.
    #[error("a tree runs on 1 to 64 CPUs, not {0}; `--cpus 64` takes a part of the machine")]
    Cpus(usize),
}

/// A structure that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    /// `task_struct` of a task.
    Task(c_int),
    /// Its `sched_entity`.
    TaskEntity(c_int),
    /// `sched_entity` of a group on a CPU.
    GroupEntity(c_int, usize),
    /// `cfs_rq` of a group on a CPU.
    CfsRq(c_int, usize),
    /// `rq` of a CPU.
    Rq(usize),
    /// `task_group`.
    Group(c_int),
    /// `sched_cache_group` of a task.
    Process(c_int),
    /// `sched_cache_time` of a task's process on a CPU.
    CacheTime(c_int, usize),
    /// `sched_domain_shared` of a CPU's last level cache.
    Llc(usize),
    /// Tasks of a CPU that prefer a last level cache.
    LlcCount(usize, usize),
    /// `sched_domain` of a CPU, the lowest first.
    Domain(usize, usize),
    /// `sched_group_capacity` of a CPU's group in one of its domains.
    Capacity(usize, usize),
    /// `nohz` of `fair.c` and the root domain.
    Balance,
    /// Class that a CPU is about to choose.
    Class(usize),
}

impl Object {
    const KINDS: usize = 14;

    /// Number of the kind and what identifies one of it.
    fn key(self) -> (usize, c_int, c_int) {
        match self {
            Object::Task(task) => (0, task, 0),
            Object::TaskEntity(task) => (1, task, 0),
            Object::GroupEntity(group, cpu) => (2, group, cpu as c_int),
            Object::CfsRq(group, cpu) => (3, group, cpu as c_int),
            Object::Rq(cpu) => (4, cpu as c_int, 0),
            Object::Group(group) => (5, group, 0),
            Object::Domain(cpu, level) => (6, cpu as c_int, level as c_int),
            Object::Process(task) => (7, task, 0),
            Object::CacheTime(task, cpu) => (8, task, cpu as c_int),
            Object::Llc(cpu) => (9, cpu as c_int, 0),
            Object::LlcCount(cpu, llc) => (10, cpu as c_int, llc as c_int),
            Object::Capacity(cpu, level) => (11, cpu as c_int, level as c_int),
            Object::Balance => (12, 0, 0),
            Object::Class(cpu) => (13, cpu as c_int, 0),
        }
    }
}

/// A member of a structure in this tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    offset: usize,
    size: u8,
    signed: bool,
    /// Of a member of one bit; 0 = the whole member.
    bit: u8,
}

#[repr(C)]
struct RawField {
    name: *const c_char,
    offset: u16,
    size: u8,
    signed: u8,
    bit: u8,
}

#[repr(C)]
struct RawMachine {
    cpus: c_int,
    nodes: c_int,
    reclaim_distance: c_int,
    places: *const Place,
    capacities: *const c_ulong,
    distances: *const c_int,
    priorities: *const c_int,
    perf_domains: *const c_int,
    nr_perf_states: c_int,
    perf_states: *const PerfState,
    isolated: c_ulong,
}

/// Functions of the object.
struct Functions {
    boot: extern "C" fn(*const RawMachine, *const Host, c_longlong) -> c_int,
    run: extern "C" fn(c_int, c_longlong, c_int, *const c_long) -> c_long,
    task_new: extern "C" fn(*const NewTask) -> c_int,
    current_task: extern "C" fn(c_int) -> c_int,
    fields: extern "C" fn(c_int, *mut c_int) -> *const RawField,
    bits: extern "C" fn(c_int, *mut c_int) -> *const RawField,
    object: extern "C" fn(c_int, c_int, c_int) -> *const u8,
    set_feature: extern "C" fn(*const c_char, c_int),
    tick_runs: extern "C" fn(c_int) -> c_int,
    has_to_leave: extern "C" fn(c_int) -> c_int,
    forget_past: extern "C" fn(c_longlong),
    set_now: extern "C" fn(c_longlong),
    steal: extern "C" fn(c_int, c_longlong),
    missing_caller: extern "C" fn() -> *const c_void,
}

/// A scheduler that runs.
pub struct World {
    functions: Functions,
    inner: Box<Inner>,
    _host: Box<Host>,
    fields: Vec<HashMap<String, Field>>,
    /// File of the object.
    object: PathBuf,
    library: *mut c_void,
    /// Open as long as the copy is loaded: the loader knows copies by the number of their file.
    _file: OwnedFd,
}

/// `SC_STAYS`.
const STAYS: c_int = 0x100;
/// Result of `sc_run` when the world is over.
const TRAPPED: c_long = -1_000_000;

impl World {
    /// Loads a copy of the object and boots its scheduler at time 0.
    ///
    /// # Errors
    /// When it cannot be loaded or boots into a trap.
    pub(crate) fn boot(object: &Path, machine: &Machine) -> Result<Self, WorldError> {
        let cpus = machine.places.len();
        if !(1..=64).contains(&cpus) {
            return Err(WorldError::Cpus(cpus));
        }
        let load = |text: String| WorldError::Load(object.to_path_buf(), text);
        let bytes = std::fs::read(object).map_err(|error| load(error.to_string()))?;
        let (library, file, functions) = open(&bytes).map_err(load)?;
        let symbols = Symbols::of(&bytes);
        let stacks = Stacks::new();
        let guard = Guard::new(&symbols, functions.run as *const c_void, stacks.range());
        let names = (symbols, guard);
        let inner = Inner::new(cpus, functions.set_now, machine.seed, stacks, names);
        let mut inner = Box::new(inner);
        let host = Box::new(Host::of(&raw mut *inner));
        let if_any = |of: &[c_int]| match of {
            [] => std::ptr::null(),
            _ => of.as_ptr(),
        };
        let raw = RawMachine {
            cpus: cpus as c_int,
            nodes: machine.distances.len().isqrt() as c_int,
            reclaim_distance: machine.reclaim_distance,
            places: machine.places.as_ptr(),
            capacities: machine.capacities.as_ptr(),
            distances: machine.distances.as_ptr(),
            priorities: if_any(&machine.priorities),
            perf_domains: if_any(&machine.perf_domains),
            nr_perf_states: machine.perf_states.len() as c_int,
            perf_states: machine.perf_states.as_ptr(),
            isolated: machine.isolated,
        };
        let result = Guard::within(guard, || {
            (functions.boot)(&raw const raw, &raw const *host, 0)
        });
        let mut world = Self {
            functions,
            object: object.to_path_buf(),
            inner,
            _host: host,
            fields: Vec::new(),
            library,
            _file: file,
        };
        if c_long::from(result) == TRAPPED {
            return Err(world.trapped());
        }
        // Draws while booting do not count: their number differs between trees.
        world.inner.draws = [0; 3];
        world.fields = (0..Object::KINDS)
            .map(|kind| world.fields_of(kind))
            .collect();
        Ok(world)
    }

    /// Why the scheduler stopped, behind the last lines that it printed.
    fn trapped(&self) -> WorldError {
        let Some((name, printed)) = self.inner.log.split_last() else {
            return WorldError::Trapped("without a word".into());
        };
        let printed = &printed[printed.len().saturating_sub(5)..];
        let printed: String = printed.iter().map(|line| format!("{line} | ")).collect();
        let (symbols, guard) = &self.inner.names;
        if let Some(why) = guard.and_then(|guard| guard.why(symbols, &self.object)) {
            return WorldError::Trapped(printed + &why);
        }
        let caller = (self.functions.missing_caller)();
        if caller.is_null() {
            return WorldError::Trapped(printed + name);
        }
        let caller = guard.and_then(|guard| guard.function(symbols, caller as u64));
        WorldError::NotEmulated {
            name: name.clone(),
            caller: caller.unwrap_or("a function of no name").to_owned(),
            printed,
        }
    }

    /// Whole members and those of one bit.
    fn fields_of(&self, kind: usize) -> HashMap<String, Field> {
        let mut fields = self.table(kind, self.functions.bits);
        fields.extend(self.table(kind, self.functions.fields));
        fields
    }

    #[expect(
        unsafe_code,
        reason = "the table is the object's own and stays until it is copied"
    )]
    fn table(
        &self,
        kind: usize,
        table: extern "C" fn(c_int, *mut c_int) -> *const RawField,
    ) -> HashMap<String, Field> {
        let mut count = 0;
        let table = table(kind as c_int, &raw mut count);
        (0..count as usize)
            .map(|row| {
                // SAFETY: the object says how many rows it has; names are constants in it.
                let (raw, name) = unsafe {
                    let raw = &*table.add(row);
                    (raw, CStr::from_ptr(raw.name))
                };
                let field = Field {
                    offset: usize::from(raw.offset),
                    size: raw.size,
                    signed: raw.signed != 0,
                    bit: raw.bit,
                };
                (name.to_string_lossy().into_owned(), field)
            })
            .collect()
    }

    /// Lets a CPU execute a call at `now`; returns its result.
    ///
    /// # Errors
    /// When the scheduler fell into a trap: the world is over.
    pub fn run(
        &mut self,
        cpu: usize,
        now: u64,
        call: Call,
        arguments: &[i64],
    ) -> Result<i64, WorldError> {
        self.run_call(cpu, now, (call, false), arguments)
    }

    /// The same of a call that, if it `stays`, leaves the CPU in the kernel until one that does not
    /// ends.
    ///
    /// # Errors
    /// As for [`World::run`].
    pub(crate) fn run_call(
        &mut self,
        cpu: usize,
        now: u64,
        (call, stays): (Call, bool),
        arguments: &[i64],
    ) -> Result<i64, WorldError> {
        let mut all = [0; 8];
        all[..arguments.len()].copy_from_slice(arguments);
        let kind = call as c_int | if stays { STAYS } else { 0 };
        let result = Guard::within(self.inner.names.1, || {
            (self.functions.run)(cpu as c_int, now as c_longlong, kind, all.as_ptr())
        });
        if result == TRAPPED {
            return Err(self.trapped());
        }
        Ok(result)
    }

    /// The same with a listener that is told every event at once, and answers where a number is
    /// asked for. A call that `stays` leaves the CPU in the kernel until [`Call::Nothing`] lets it
    /// out.
    ///
    /// # Errors
    /// As for [`World::run`].
    #[expect(
        unsafe_code,
        reason = "the lifetime of a listener that is forgotten at the end"
    )]
    pub(crate) fn run_heard(
        &mut self,
        cpu: usize,
        now: u64,
        (call, stays): (Call, bool),
        arguments: &[i64],
        hear: &mut Hear<'_>,
    ) -> Result<i64, WorldError> {
        // SAFETY: forgotten before `hear` ends; the object calls back within `run` only.
        self.inner.hear = Some(unsafe {
            std::mem::transmute::<*mut Hear<'_>, *mut Hear<'static>>(std::ptr::from_mut(hear))
        });
        let result = self.run_call(cpu, now, (call, stays), arguments);
        self.inner.hear = None;
        result
    }

    /// Lines that the kernel has printed.
    pub(crate) fn log(&self) -> &[String] {
        &self.inner.log
    }

    /// Makes a task; [`Call::Start`] starts it.
    pub(crate) fn task_new(&mut self, task: &NewTask) -> c_int {
        Guard::within(self.inner.names.1, || {
            (self.functions.task_new)(&raw const *task)
        })
    }

    /// Events scheduled since the last call of this.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.inner.events)
    }

    /// When the clock event device of a CPU fires; [`u64::MAX`] = never.
    pub(crate) fn timer(&self, cpu: usize) -> u64 {
        self.inner.timers[cpu]
    }

    /// The device has fired.
    pub(crate) fn timer_fired(&mut self, cpu: usize) {
        self.inner.timers[cpu] = u64::MAX;
    }

    /// Task that a CPU executes.
    pub(crate) fn current(&self, cpu: usize) -> c_int {
        (self.functions.current_task)(cpu as c_int)
    }

    /// Whether the tick of a CPU runs.
    pub(crate) fn tick_runs(&self, cpu: usize) -> bool {
        (self.functions.tick_runs)(cpu as c_int) != 0
    }

    /// Whether the current task of a CPU has something to do on its way back to user mode.
    pub(crate) fn has_to_leave(&self, cpu: usize) -> bool {
        (self.functions.has_to_leave)(cpu as c_int) != 0
    }

    /// Forgets what ran so far, on CPUs that are idle now: as if that had been long ago.
    pub(crate) fn forget_past(&mut self, now: u64) {
        let lines = self.inner.log.len();
        (self.functions.forget_past)(now as c_longlong);
        // Servers are stopped whether they run or not, of which some releases warn.
        self.inner.log.truncate(lines);
    }

    /// A hypervisor has taken a CPU for so long.
    pub(crate) fn steal(&mut self, cpu: usize, ns: u64) {
        (self.functions.steal)(cpu as c_int, ns as c_longlong);
    }

    /// Sets one of `sched/features`.
    pub(crate) fn set_feature(&mut self, name: &str, on: bool) {
        if let Ok(name) = CString::new(name) {
            (self.functions.set_feature)(name.as_ptr(), c_int::from(on));
        }
    }

    /// A member of a kind of structures, to be [read](World::get) many times.
    pub(crate) fn field(&self, object: Object, member: &str) -> Option<Field> {
        self.fields[object.key().0].get(member).copied()
    }

    /// Reads a member by name; `None` where this tree has no such member or no such structure.
    pub(crate) fn read(&self, object: Object, member: &str) -> Option<i128> {
        self.get(object, self.field(object, member))
    }

    /// Reads a member, where the tree has it.
    #[expect(unsafe_code, reason = "memory of the object")]
    pub(crate) fn get(&self, object: Object, field: impl Into<Option<Field>>) -> Option<i128> {
        let field = field.into()?;
        let (kind, a, b) = object.key();
        let at = (self.functions.object)(kind as c_int, a, b);
        if at.is_null() {
            return None;
        }
        let mut bytes = [0u8; 8];
        let size = usize::from(field.size);
        // SAFETY: the object says where its member lies and how large it is.
        unsafe { std::ptr::copy_nonoverlapping(at.add(field.offset), bytes.as_mut_ptr(), size) };
        let value = u64::from_le_bytes(bytes);
        if field.bit != 0 {
            return Some(i128::from(value & u64::from(field.bit) != 0));
        }
        let unused = 64 - 8 * size as u32;
        Some(if field.signed {
            i128::from((value << unused) as i64 >> unused)
        } else {
            i128::from(value)
        })
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl Drop for World {
    #[expect(unsafe_code, reason = "what the object was given")]
    fn drop(&mut self) {
        for (at, layout) in self.inner.memory.drain() {
            // SAFETY: allocated with this layout in `alloc`; nothing of the object runs any more.
            unsafe { dealloc(at as *mut u8, layout) };
        }
        // SAFETY: opened in `open`, closed once.
        unsafe { libc::dlclose(self.library) };
    }
}

/// Loads a copy: the same file opened twice would be one object with one memory.
#[expect(unsafe_code, reason = "loading code")]
#[expect(
    clippy::missing_transmute_annotations,
    reason = "the types are those of the members"
)]
fn open(bytes: &[u8]) -> Result<(*mut c_void, OwnedFd, Functions), String> {
    // SAFETY: a fresh file descriptor of our own.
    let file = unsafe {
        let file = libc::memfd_create(c"schedcast-tree".as_ptr(), libc::MFD_CLOEXEC);
        if file < 0 {
            return Err(std::io::Error::last_os_error().to_string());
        }
        OwnedFd::from_raw_fd(file)
    };
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::write(&path, bytes).map_err(|error| error.to_string())?;
    let name = CString::new(path).map_err(|error| error.to_string())?;
    // SAFETY: the object has no constructors; its functions have the types of `host.h`.
    unsafe {
        let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if library.is_null() {
            return Err(CStr::from_ptr(libc::dlerror())
                .to_string_lossy()
                .into_owned());
        }
        let find = |name: &CStr| {
            let at = libc::dlsym(library, name.as_ptr());
            if at.is_null() {
                return Err(format!("it has no {}", name.to_string_lossy()));
            }
            Ok(at)
        };
        let functions = Functions {
            boot: std::mem::transmute(find(c"sc_boot")?),
            run: std::mem::transmute(find(c"sc_run")?),
            task_new: std::mem::transmute(find(c"sc_task_new")?),
            current_task: std::mem::transmute(find(c"sc_current_task")?),
            fields: std::mem::transmute(find(c"sc_fields")?),
            bits: std::mem::transmute(find(c"sc_bits")?),
            object: std::mem::transmute(find(c"sc_object")?),
            set_feature: std::mem::transmute(find(c"sc_set_feature")?),
            tick_runs: std::mem::transmute(find(c"sc_tick_runs")?),
            has_to_leave: std::mem::transmute(find(c"sc_has_to_leave")?),
            forget_past: std::mem::transmute(find(c"sc_forget_past")?),
            set_now: std::mem::transmute(find(c"sc_set_now")?),
            steal: std::mem::transmute(find(c"sc_steal")?),
            missing_caller: std::mem::transmute(find(c"sc_missing_caller")?),
        };
        Ok((library, file, functions))
    }
}
