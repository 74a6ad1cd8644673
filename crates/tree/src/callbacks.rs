//! Callbacks of the object of a tree: memory, its log, timers, events, chance, locks.
//!
//! Worked example: the C arms the timer of CPU 0 for 105 ms, which calls `timer` with that CPU and
//! 105,000,000: `World::timer` says so from then on, and a listener is told at once.

use crate::calls::{Call, Chance, Event, Hear, Left, Lock, Told};
use crate::guard::{Guard, Symbols};
use crate::stacks::Stacks;
use schedcast_kernel::platform::Op;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_longlong, c_uint, c_ulong, c_void};

/// Functions that the object calls back (`struct sc_host`).
#[repr(C)]
pub(super) struct Host {
    world: *mut Inner,
    alloc: extern "C" fn(*mut Inner, c_ulong) -> *mut c_void,
    free: extern "C" fn(*mut Inner, *mut c_void),
    stack: extern "C" fn(*mut Inner, c_ulong) -> *mut c_void,
    log: extern "C" fn(*mut Inner, *const c_char),
    timer: extern "C" fn(*mut Inner, c_int, c_longlong, c_int),
    interrupt: extern "C" fn(*mut Inner, c_int, c_int),
    tick: extern "C" fn(*mut Inner, c_int, c_int),
    switched: extern "C" fn(*mut Inner, c_int, c_int, c_int, c_int),
    woken: extern "C" fn(*mut Inner, c_int, c_int),
    migrated: extern "C" fn(*mut Inner, c_int, c_int, c_int),
    placed: extern "C" fn(*mut Inner, c_int, c_int, c_int),
    throttled: extern "C" fn(*mut Inner, c_int, c_int, c_int),
    random: extern "C" fn(*mut Inner, c_int) -> c_uint,
    spend: extern "C" fn(*mut Inner, c_int, c_int),
    lock: extern "C" fn(*mut Inner, c_int, c_int, c_int) -> c_int,
}

impl Host {
    pub(super) fn of(world: *mut Inner) -> Self {
        Self {
            world,
            alloc,
            free,
            stack,
            log,
            timer,
            interrupt,
            tick,
            switched,
            woken,
            migrated,
            placed,
            throttled,
            random,
            spend,
            lock,
        }
    }
}

/// State that the object's callbacks see and change.
pub(super) struct Inner {
    pub(super) memory: HashMap<usize, Layout>,
    stacks: Stacks,
    pub(super) log: Vec<String>,
    pub(super) timers: Vec<u64>,
    pub(super) events: Vec<Event>,
    /// Listener that is told every event at once, during a call that has one.
    pub(super) hear: Option<*mut Hear<'static>>,
    set_now: extern "C" fn(c_longlong),
    seed: u64,
    pub(super) draws: [u64; 3],
    /// Functions of the object, and where it is loaded.
    pub(super) names: (Symbols, Option<Guard>),
}

impl Inner {
    pub(super) fn new(
        cpus: usize,
        set_now: extern "C" fn(c_longlong),
        seed: u64,
        stacks: Stacks,
        names: (Symbols, Option<Guard>),
    ) -> Self {
        Self {
            memory: HashMap::new(),
            stacks,
            log: Vec::new(),
            timers: vec![u64::MAX; cpus],
            events: Vec::new(),
            hear: None,
            set_now,
            seed,
            draws: [0; 3],
            names,
        }
    }

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

/// A stack for a task; one without forbidden memory below it where the system has no other.
extern "C" fn stack(world: *mut Inner, size: c_ulong) -> *mut c_void {
    let next = inner(world).stacks.next(size as usize);
    next.unwrap_or_else(|| alloc(world, size))
}

#[expect(unsafe_code, reason = "a string of the object")]
extern "C" fn log(world: *mut Inner, text: *const c_char) {
    // SAFETY: the object passes strings with an end.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text.to_string_lossy();
    let inner = inner(world);
    let (symbols, guard) = &inner.names;
    let text = match guard {
        Some(guard) => guard.with_names(symbols, text.trim_end()),
        None => text.trim_end().to_owned(),
    };
    inner.log.push(text);
}

extern "C" fn timer(world: *mut Inner, cpu: c_int, at: c_longlong, hrtick: c_int) {
    // KTIME_MAX stands for never.
    let at = if at == c_longlong::MAX {
        u64::MAX
    } else {
        at.max(0) as u64
    };
    let inner = inner(world);
    inner.timers[cpu as usize] = at;
    inner.pass(Told::Timer(cpu as usize, at, hrtick != 0));
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

extern "C" fn placed(world: *mut Inner, task: c_int, from: c_int, to: c_int) {
    let event = Event::Placed(task, from as usize, to as usize);
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
