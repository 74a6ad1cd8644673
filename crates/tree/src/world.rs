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

use crate::calls::Hear;
use crate::guard::{Guard, Symbols};
use schedcast_kernel::platform::Op;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Why there is no world, or no more.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The object cannot be loaded.
    #[error("{0} cannot be loaded: {1}")]
    Load(PathBuf, String),
    /// The scheduler needed something that is not emulated, or fell into a trap of its own.
    #[error("the tree's scheduler stopped: {0}")]
    Trapped(String),
    /// The machine.
    #[error("a tree runs on 1 to 64 CPUs, not {0}")]
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
}

impl Object {
    const KINDS: usize = 13;

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
    places: *const Place,
    capacities: *const c_ulong,
    distances: *const c_int,
    priorities: *const c_int,
    perf_domains: *const c_int,
    nr_perf_states: c_int,
    perf_states: *const PerfState,
}

#[repr(C)]
struct Host {
    world: *mut Inner,
    alloc: extern "C" fn(*mut Inner, c_ulong) -> *mut c_void,
    free: extern "C" fn(*mut Inner, *mut c_void),
    log: extern "C" fn(*mut Inner, *const c_char),
    timer: extern "C" fn(*mut Inner, c_int, c_longlong),
    interrupt: extern "C" fn(*mut Inner, c_int, c_int),
    tick: extern "C" fn(*mut Inner, c_int, c_int),
    switched: extern "C" fn(*mut Inner, c_int, c_int, c_int, c_int),
    woken: extern "C" fn(*mut Inner, c_int, c_int),
    migrated: extern "C" fn(*mut Inner, c_int, c_int, c_int),
    throttled: extern "C" fn(*mut Inner, c_int, c_int, c_int),
    random: extern "C" fn(*mut Inner, c_int) -> c_uint,
    spend: extern "C" fn(*mut Inner, c_int, c_int),
    lock: extern "C" fn(*mut Inner, c_int, c_int, c_int) -> c_int,
}

/// State that the object's callbacks see and change.
struct Inner {
    memory: HashMap<usize, Layout>,
    log: Vec<String>,
    timers: Vec<u64>,
    events: Vec<Event>,
    /// Listener that is told every event at once, during a call that has one.
    hear: Option<*mut Hear<'static>>,
    set_now: extern "C" fn(c_longlong),
    seed: u64,
    draws: [u64; 3],
}

impl Inner {
    /// Tells a listener; his answer, if there is one.
    #[expect(unsafe_code, reason = "a listener that lives as long as the call")]
    fn tell(&mut self, told: Told) -> Option<u64> {
        // SAFETY: `run_heard` put it there and has not returned.
        self.hear.map(|hear| unsafe { (*hear)(told) })
    }

    /// Tells a listener of something that may take time. `false` when there is none.
    fn pass(&mut self, told: Told) -> bool {
        let Some(now) = self.tell(told) else {
            return false;
        };
        if now > 0 {
            (self.set_now)(now as c_longlong);
        }
        true
    }

    /// Tells a listener, or keeps it for [`World::events`].
    fn set_off(&mut self, event: Event) {
        if !self.pass(Told::Event(event)) {
            self.events.push(event);
        }
    }
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
}

/// A scheduler that runs.
pub struct World {
    functions: Functions,
    inner: Box<Inner>,
    _host: Box<Host>,
    fields: Vec<HashMap<String, Field>>,
    guard: Option<Guard>,
    symbols: Symbols,
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
        let mut inner = Box::new(Inner {
            memory: HashMap::new(),
            log: Vec::new(),
            timers: vec![u64::MAX; cpus],
            events: Vec::new(),
            hear: None,
            set_now: functions.set_now,
            seed: machine.seed,
            draws: [0; 3],
        });
        let host = Box::new(Host {
            world: &raw mut *inner,
            alloc,
            free,
            log,
            timer,
            interrupt,
            tick,
            switched,
            woken,
            migrated,
            throttled,
            random,
            spend,
            lock,
        });
        let raw = RawMachine {
            cpus: cpus as c_int,
            nodes: machine.distances.len().isqrt() as c_int,
            places: machine.places.as_ptr(),
            capacities: machine.capacities.as_ptr(),
            distances: machine.distances.as_ptr(),
            priorities: match machine.priorities.is_empty() {
                true => std::ptr::null(),
                false => machine.priorities.as_ptr(),
            },
            perf_domains: match machine.perf_domains.is_empty() {
                true => std::ptr::null(),
                false => machine.perf_domains.as_ptr(),
            },
            nr_perf_states: machine.perf_states.len() as c_int,
            perf_states: machine.perf_states.as_ptr(),
        };
        let guard = Guard::new(&symbols, functions.run as *const c_void);
        let result = Guard::within(guard.as_ref(), || {
            (functions.boot)(&raw const raw, &raw const *host, 0)
        });
        let mut world = Self {
            functions,
            guard,
            symbols,
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

    fn trapped(&self) -> WorldError {
        let guard = self.guard.as_ref();
        if let Some(why) = guard.and_then(|guard| guard.why(&self.symbols)) {
            return WorldError::Trapped(why);
        }
        let last = self.inner.log.len().saturating_sub(6);
        WorldError::Trapped(self.inner.log[last..].join(" | "))
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
        let result = Guard::within(self.guard.as_ref(), || {
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
        let mut all = [0; 8];
        all[..arguments.len()].copy_from_slice(arguments);
        // SAFETY: forgotten before `hear` ends; the object calls back within `run` only.
        self.inner.hear = Some(unsafe {
            std::mem::transmute::<*mut Hear<'_>, *mut Hear<'static>>(std::ptr::from_mut(hear))
        });
        let kind = call as c_int | if stays { STAYS } else { 0 };
        let result = Guard::within(self.guard.as_ref(), || {
            (self.functions.run)(cpu as c_int, now as c_longlong, kind, all.as_ptr())
        });
        self.inner.hear = None;
        if result == TRAPPED {
            return Err(self.trapped());
        }
        Ok(result)
    }

    /// Lines that the kernel has printed.
    pub(crate) fn log(&self) -> &[String] {
        &self.inner.log
    }

    /// Makes a task; [`Call::Start`] starts it.
    pub(crate) fn task_new(&mut self, task: &NewTask) -> c_int {
        Guard::within(self.guard.as_ref(), || {
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
        self.get(object, self.field(object, member)?)
    }

    /// Reads a member.
    #[expect(unsafe_code, reason = "memory of the object")]
    pub(crate) fn get(&self, object: Object, field: Field) -> Option<i128> {
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
        };
        Ok((library, file, functions))
    }
}

#[expect(unsafe_code, reason = "the pointer that the object was given at boot")]
fn inner<'a>(world: *mut Inner) -> &'a mut Inner {
    // SAFETY: the world outlives its object, and calls back come from within its own calls only.
    unsafe { &mut *world }
}

#[expect(unsafe_code, reason = "memory for the object")]
extern "C" fn alloc(world: *mut Inner, size: c_ulong) -> *mut c_void {
    let layout = Layout::from_size_align((size as usize).max(64), 64);
    let Ok(layout) = layout else {
        return std::ptr::null_mut();
    };
    // SAFETY: the size is not 0.
    let at = unsafe { alloc_zeroed(layout) };
    if at.is_null() {
        std::alloc::handle_alloc_error(layout);
    }
    inner(world).memory.insert(at as usize, layout);
    at.cast()
}

#[expect(unsafe_code, reason = "memory for the object")]
extern "C" fn free(world: *mut Inner, memory: *mut c_void) {
    if let Some(layout) = inner(world).memory.remove(&(memory as usize)) {
        // SAFETY: allocated with this layout in `alloc`.
        unsafe { dealloc(memory.cast(), layout) };
    }
}

#[expect(unsafe_code, reason = "a string of the object")]
extern "C" fn log(world: *mut Inner, text: *const c_char) {
    // SAFETY: the object passes strings with an end.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text.to_string_lossy().trim_end().to_string();
    inner(world).log.push(text);
}

extern "C" fn timer(world: *mut Inner, cpu: c_int, at: c_longlong) {
    // KTIME_MAX stands for never.
    let at = if at == c_longlong::MAX {
        u64::MAX
    } else {
        at.max(0) as u64
    };
    let inner = inner(world);
    inner.timers[cpu as usize] = at;
    inner.pass(Told::Timer(cpu as usize, at));
}

extern "C" fn interrupt(world: *mut Inner, cpu: c_int, kind: c_int) {
    let call = match kind {
        kind if kind == Call::Function as c_int => Call::Function,
        kind if kind == Call::IrqWork as c_int => Call::IrqWork,
        _ => Call::Resched,
    };
    inner(world).set_off(Event::Interrupt(cpu as usize, call));
}

extern "C" fn tick(world: *mut Inner, cpu: c_int, runs: c_int) {
    inner(world).set_off(Event::Tick(cpu as usize, runs != 0));
}

extern "C" fn switched(world: *mut Inner, cpu: c_int, from: c_int, to: c_int, left: c_int) {
    let left = match left {
        0 => Left::Runnable,
        1 => Left::Asleep,
        2 => Left::Dead,
        _ => Left::Throttled,
    };
    inner(world).set_off(Event::Switch(cpu as usize, from, to, left));
}

extern "C" fn woken(world: *mut Inner, task: c_int, cpu: c_int) {
    inner(world).pass(Told::Event(Event::Woken(task, cpu as usize)));
}

extern "C" fn migrated(world: *mut Inner, task: c_int, from: c_int, to: c_int) {
    let event = Event::Migrated(task, from as usize, to as usize);
    inner(world).pass(Told::Event(event));
}

extern "C" fn throttled(world: *mut Inner, group: c_int, cpu: c_int, on: c_int) {
    let event = Event::Throttled(group, cpu as usize, on != 0);
    inner(world).pass(Told::Event(event));
}

/// `enum sc_operation`.
const OPERATIONS: [Op; 11] = [
    Op::EnqueueLevel,
    Op::DequeueLevel,
    Op::UpdateCfsGroup,
    Op::TickLevel,
    Op::SelectScanCpu,
    Op::BalanceCpu,
    Op::BalanceMoveTask,
    Op::BandwidthPeriodTimer,
    Op::Unthrottle,
    Op::Wakeup,
    Op::WakeupEnd,
];

extern "C" fn spend(world: *mut Inner, operation: c_int, count: c_int) {
    let operation = OPERATIONS[operation as usize];
    inner(world).pass(Told::Spend(operation, count as u32));
}

/// `enum sc_lock`.
const LOCKS: [Lock; 5] = [
    Lock::Take,
    Lock::GiveUp,
    Lock::Retake,
    Lock::IsLeaving,
    Lock::Await,
];

extern "C" fn lock(world: *mut Inner, what: c_int, cpu: c_int, task: c_int) -> c_int {
    let what = LOCKS[what as usize];
    let told = Told::Lock(what, cpu as usize, task);
    let inner = inner(world);
    if what == Lock::IsLeaving {
        return inner.tell(told).unwrap_or(0) as c_int;
    }
    inner.pass(told);
    0
}

extern "C" fn random(world: *mut Inner, kind: c_int) -> c_uint {
    let inner = inner(world);
    let chance = match kind {
        0 => Chance::Period,
        1 => Chance::Dice,
        _ => Chance::Other,
    };
    if let Some(number) = inner.tell(Told::Random(chance)) {
        return number as c_uint;
    }
    let draws = &mut inner.draws[kind.clamp(0, 2) as usize];
    *draws += 1;
    draw(inner.seed, kind.clamp(0, 2) as u64, *draws)
}

/// The `count`-th draw of a kind: the same for every caller with the same seed.
pub(crate) fn draw(seed: u64, kind: u64, count: u64) -> u32 {
    let mut mixed = seed ^ (kind << 62) ^ count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 33) as u32
}
