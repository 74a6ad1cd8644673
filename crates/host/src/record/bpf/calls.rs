//! The system call `bpf(2)`: maps, programs, and what ties them to tracepoints; and ring buffers in
//! this process's memory.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::sys::check;

/// Kinds of maps, `enum bpf_map_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum MapKind {
    Array = 2,
    LeastRecentlyUsed = 9,
    ArrayOfMaps = 12,
    RingBuffer = 27,
}

// Commands, `enum bpf_cmd`.
const MAP_CREATE: u32 = 0;
const MAP_LOOKUP: u32 = 1;
const MAP_UPDATE: u32 = 2;
const PROGRAM_LOAD: u32 = 5;
const INFO_BY_FILE: u32 = 15;
const TRACEPOINT_OPEN: u32 = 17;

/// `BPF_PROG_TYPE_TRACING`: arguments have types, so that what they point to can be read without a
/// helper.
const PROGRAM_TRACING: u32 = 26;
/// `BPF_TRACE_RAW_TP`
const AT_TRACEPOINT: u32 = 23;
/// Room for what the kernel's verifier says: its last lines are what counts.
const LOG_BYTES: usize = 1 << 20;
/// The name that `bpftool` lists the recorder's maps and programs by.
const NAME: [u8; 16] = *b"schedcast\0\0\0\0\0\0\0";

/// `union bpf_attr` of `BPF_MAP_CREATE`, up to the map's name.
#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    numa_node: u32,
    name: [u8; 16],
}

/// Arguments of `BPF_MAP_*_ELEM`.
#[repr(C)]
struct MapElement {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Of `BPF_PROG_LOAD`, up to the tracepoint's type.
#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_kind: u32,
    own_types: [u32; 9],
    attach_type: u32,
    attach_program: u32,
    /// Count of relocations, which are none; without it the structure would end in bytes of any
    /// value.
    relocations: u32,
}

/// Of `BPF_RAW_TRACEPOINT_OPEN`; a program with typed arguments knows its tracepoint already.
#[repr(C)]
struct TracepointOpen {
    name: u64,
    program: u32,
    unused: u32,
}

/// Arguments of `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
struct InfoByFile {
    file: u32,
    bytes: u32,
    info: u64,
}

/// `struct bpf_prog_info` up to `recursion_misses` (Linux 5.12), which is the word at this place.
const MISSES_AT: usize = 26;

fn call<T>(command: u32, attributes: &mut T) -> io::Result<i64> {
    let pointer: *mut T = attributes;
    // SAFETY: the attributes are a whole structure of the size that is told; addresses in it are of
    // memory that its makers, all of them in this file, keep borrowed until the call is over.
    check(unsafe { libc::syscall(libc::SYS_bpf, command, pointer, size_of::<T>()) })
}

fn open<T>(command: u32, attributes: &mut T) -> io::Result<OwnedFd> {
    let file = call(command, attributes)?;
    // SAFETY: the kernel has just made this descriptor (close-on-exec) for the caller.
    Ok(unsafe { OwnedFd::from_raw_fd(file as i32) })
}

/// Makes a map. An array of maps is made for such maps as `inner`.
pub(super) fn make_map(
    kind: MapKind,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    inner: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let mut attributes = MapCreate {
        kind: kind as u32,
        key_bytes,
        value_bytes,
        entries,
        inner: inner.map_or(0, |inner| inner.as_raw_fd() as u32),
        name: NAME,
        ..MapCreate::default()
    };
    open(MAP_CREATE, &mut attributes)
}

fn element<V>(command: u32, map: &OwnedFd, key: u32, value: &mut V) -> io::Result<()> {
    let pointer: *mut V = value;
    let mut attributes = MapElement {
        map: map.as_raw_fd() as u32,
        unused: 0,
        key: (&raw const key) as u64,
        value: pointer as u64,
        flags: 0,
    };
    call(command, &mut attributes).map(drop)
}

/// Puts the map `inner` at place `key` of an array of maps.
pub(super) fn put_map(map: &OwnedFd, key: u32, inner: &OwnedFd) -> io::Result<()> {
    element(MAP_UPDATE, map, key, &mut inner.as_raw_fd())
}

/// The number at place `key` of an array of numbers of 64 bits.
pub(super) fn number_at(map: &OwnedFd, key: u32) -> io::Result<u64> {
    let mut value = 0u64;
    element(MAP_LOOKUP, map, key, &mut value)?;
    Ok(value)
}

/// Why a program was not loaded.
#[derive(Debug)]
pub(super) struct Refusal {
    pub error: io::Error,
    /// Log of the verifier, if it ran.
    pub log: String,
}

/// Loads a program for the tracepoint of this number in BTF.
pub(super) fn load(code: &[[u8; 8]], tracepoint: u32) -> Result<OwnedFd, Refusal> {
    let license: &CStr = c"GPL";
    let mut attributes = ProgramLoad {
        kind: PROGRAM_TRACING,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        name: NAME,
        attach_kind: AT_TRACEPOINT,
        attach_type: tracepoint,
        ..ProgramLoad::default()
    };
    let error = match open(PROGRAM_LOAD, &mut attributes) {
        Ok(program) => return Ok(program),
        Err(error) => error,
    };
    let mut log = vec![0u8; LOG_BYTES];
    attributes.log_level = 1;
    attributes.log_bytes = LOG_BYTES as u32;
    attributes.log = log.as_mut_ptr() as u64;
    let again = open(PROGRAM_LOAD, &mut attributes);
    let said = log.split(|byte| *byte == 0).next().unwrap_or_default();
    match again {
        Ok(program) => Ok(program),
        Err(_) => Err(Refusal {
            error,
            log: String::from_utf8_lossy(said).into_owned(),
        }),
    }
}

/// Ties a program to its tracepoint, until what is given back is closed.
pub(super) fn attach(program: &OwnedFd) -> io::Result<OwnedFd> {
    let mut attributes = TracepointOpen {
        name: 0,
        program: program.as_raw_fd() as u32,
        unused: 0,
    };
    open(TRACEPOINT_OPEN, &mut attributes)
}

/// How often a program was not run because it was running on that CPU already; 0 where the kernel
/// does not count it.
pub(super) fn misses(program: &OwnedFd) -> io::Result<u64> {
    let mut info = [0u64; MISSES_AT + 1];
    let mut attributes = InfoByFile {
        file: program.as_raw_fd() as u32,
        bytes: size_of_val(&info) as u32,
        info: info.as_mut_ptr() as u64,
    };
    call(INFO_BY_FILE, &mut attributes)?;
    Ok(info[MISSES_AT])
}

/// A ring buffer's memory as this process sees it: the place that is read up to, the place that is
/// written up to, and the data twice in a row, so that a record that goes over the end is whole.
#[derive(Debug)]
pub(super) struct SharedRing {
    /// A page with the consumer's position, which may be written.
    consumer: *mut libc::c_void,
    /// A page with the producer's position, and the data.
    producer: *mut libc::c_void,
    page_bytes: usize,
    data_bytes: usize,
}

// SAFETY: the memory belongs to this value alone; the kernel's side is synchronised by the atomic
// positions.
unsafe impl Send for SharedRing {}

impl SharedRing {
    /// Maps a ring buffer of `data_bytes`.
    pub(super) fn map(ring: &OwnedFd, data_bytes: usize) -> io::Result<SharedRing> {
        // SAFETY: takes a name, and gives a positive size on Linux.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let map = |bytes: usize, rights: i32, offset: usize| {
            // SAFETY: a new mapping at an address of the kernel's choice, over a descriptor that is
            // open.
            let at = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    bytes,
                    rights,
                    libc::MAP_SHARED,
                    ring.as_raw_fd(),
                    offset as libc::off_t,
                )
            };
            match at == libc::MAP_FAILED {
                true => Err(io::Error::last_os_error()),
                false => Ok(at),
            }
        };
        let consumer = map(page_bytes, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        match map(page_bytes + 2 * data_bytes, libc::PROT_READ, page_bytes) {
            Ok(producer) => Ok(SharedRing {
                consumer,
                producer,
                page_bytes,
                data_bytes,
            }),
            Err(error) => {
                // SAFETY: mapped above, with this size, and used by nobody.
                unsafe { libc::munmap(consumer, page_bytes) };
                Err(error)
            }
        }
    }

    fn position(&self, page: *mut libc::c_void) -> &AtomicUsize {
        // SAFETY: both pages begin with a position, a word that the kernel only reads and writes as
        // a whole.
        unsafe { AtomicUsize::from_ptr(page.cast()) }
    }

    /// Up to where the kernel has written.
    pub(super) fn written(&self) -> usize {
        self.position(self.producer).load(Ordering::Acquire)
    }

    /// Up to where this process has read.
    pub(super) fn read(&self) -> usize {
        self.position(self.consumer).load(Ordering::Relaxed)
    }

    /// Gives what stands before `position` back to the kernel.
    pub(super) fn give_back(&self, position: usize) {
        self.position(self.consumer)
            .store(position, Ordering::Release);
    }

    /// The head of the record at `position`, of which the kernel clears a bit when it is complete.
    pub(super) fn head(&self, position: usize) -> u32 {
        let at = position & (self.data_bytes - 1) & !7;
        // SAFETY: within the data, whose size is a power of two, and aligned to 8 bytes.
        let head = unsafe {
            let first = self.producer.byte_add(self.page_bytes + at);
            AtomicU32::from_ptr(first.cast())
        };
        head.load(Ordering::Acquire)
    }

    /// `bytes` of data from `position` on; fewer than the ring holds.
    pub(super) fn data(&self, position: usize, bytes: usize) -> &[u8] {
        let at = position & (self.data_bytes - 1);
        let bytes = bytes.min(self.data_bytes);
        // SAFETY: begins in the first copy and ends at the latest at the end of the second. The
        // kernel does not write there before the position is given back, which needs this borrow to
        // be over: the reader holds both.
        unsafe {
            let first = self.producer.byte_add(self.page_bytes + at);
            std::slice::from_raw_parts(first.cast(), bytes)
        }
    }
}

impl Drop for SharedRing {
    fn drop(&mut self) {
        // SAFETY: both were mapped with these sizes, and no borrow outlives this value.
        unsafe {
            libc::munmap(self.consumer, self.page_bytes);
            libc::munmap(self.producer, self.page_bytes + 2 * self.data_bytes);
        }
    }
}
