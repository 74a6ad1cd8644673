//! Which errors a system call may answer with, by `x86_64` numbers and the manual pages of
//! section 2.

use libc::{
    EACCES, EAGAIN, EBUSY, EINTR, EIO, EMFILE, ENOENT, ENOLCK, ENOMEM, ENOSPC, EPERM, EROFS, ESRCH,
};

/// A system call and how it may fail.
pub(crate) struct Known {
    pub number: i64,
    pub name: &'static str,
    /// Its arguments that are a path or a descriptor, as `strace` would show them.
    pub object: Object,
    pub errors: &'static [i32],
}

/// Where the object of a call is told.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Object {
    /// Argument that points to a path.
    Path(usize),
    /// Argument that is a descriptor.
    Descriptor(usize),
    None,
}

/// Rows of number, name, object and errors.
macro_rules! calls {
    ($($number:ident $name:literal $object:expr => $($error:ident)*;)*) => {
        &[$(Known {
            number: libc::$number,
            name: $name,
            object: $object,
            errors: &[$($error),*],
        }),*]
    };
}

use Object::{Descriptor, None as NoObject, Path};

/// Calls that fail in practice. Those that are missing (`futex`, `rt_sigaction`, `munmap`, clocks)
/// fail only when the program is wrong. `mmap` and `brk` are left out as well: Rust's answer to
/// memory that cannot be had is an abort.
const CALLS: &[Known] = calls! {
    SYS_openat "openat" Path(1) => EACCES EIO EMFILE ENOENT ENOMEM ENOSPC EROFS EINTR;
    SYS_open "open" Path(0) => EACCES EIO EMFILE ENOENT ENOSPC EROFS EINTR;
    SYS_read "read" Descriptor(0) => EIO EINTR ENOMEM;
    SYS_write "write" Descriptor(0) => ENOSPC EIO EINTR EACCES EBUSY;
    SYS_close "close" Descriptor(0) => EIO EINTR;
    SYS_statx "statx" Path(1) => EACCES EIO ENOENT ENOMEM;
    SYS_newfstatat "newfstatat" Path(1) => EACCES EIO ENOENT;
    SYS_getdents64 "getdents64" Descriptor(0) => EIO ENOENT;
    SYS_readlink "readlink" Path(0) => EACCES EIO ENOENT;
    SYS_fsync "fsync" Descriptor(0) => EIO ENOSPC;
    SYS_fdatasync "fdatasync" Descriptor(0) => EIO ENOSPC;
    SYS_ftruncate "ftruncate" Descriptor(0) => EIO EINTR EROFS;
    SYS_lseek "lseek" Descriptor(0) => EIO;
    SYS_rename "rename" Path(0) => ENOSPC EIO EACCES EROFS;
    SYS_mkdir "mkdir" Path(0) => ENOSPC EACCES EROFS EIO ENOMEM;
    SYS_rmdir "rmdir" Path(0) => EBUSY EIO EACCES;
    SYS_unlink "unlink" Path(0) => EIO EACCES EROFS;
    SYS_fchmod "fchmod" Descriptor(0) => EPERM EIO EROFS;
    SYS_fchown "fchown" Descriptor(0) => EPERM EIO EROFS;
    SYS_flock "flock" Descriptor(0) => EINTR ENOLCK;
    SYS_splice "splice" Descriptor(0) => EIO ENOSPC EINTR ENOMEM;
    SYS_copy_file_range "copy_file_range" Descriptor(2) => EIO ENOSPC;
    SYS_fsopen "fsopen" NoObject => EPERM ENOMEM EMFILE;
    SYS_fsconfig "fsconfig" NoObject => EPERM ENOMEM;
    SYS_fsmount "fsmount" NoObject => EPERM ENOMEM EMFILE;
    SYS_capget "capget" NoObject => EPERM;
    SYS_capset "capset" NoObject => EPERM;
    SYS_pipe2 "pipe2" NoObject => EMFILE ENOMEM;
    SYS_clone "clone" NoObject => EAGAIN ENOMEM;
    SYS_clone3 "clone3" NoObject => EAGAIN ENOMEM;
    SYS_fork "fork" NoObject => EAGAIN ENOMEM;
    SYS_vfork "vfork" NoObject => EAGAIN ENOMEM;
    SYS_execve "execve" Path(0) => ENOENT EACCES ENOMEM;
    SYS_dup2 "dup2" Descriptor(0) => EMFILE EINTR;
    SYS_prctl "prctl" NoObject => EPERM;
    SYS_setpgid "setpgid" NoObject => EPERM ESRCH;
    SYS_kill "kill" NoObject => EPERM ESRCH;
    SYS_wait4 "wait4" NoObject => EINTR;
    SYS_waitid "waitid" NoObject => EINTR;
    SYS_clock_nanosleep "clock_nanosleep" NoObject => EINTR;
    SYS_poll "poll" NoObject => EINTR ENOMEM;
    SYS_ppoll "ppoll" NoObject => EINTR ENOMEM;
};

/// The system call with this number, if it may fail.
pub(crate) fn known(number: i64) -> Option<&'static Known> {
    CALLS.iter().find(|call| call.number == number)
}

/// Whether a call may change what another process sees. `openat` does where its third argument says
/// so.
pub(crate) fn changes(number: i64, third: u64) -> bool {
    const LOOKS: &[i64] = &[
        libc::SYS_read,
        libc::SYS_pread64,
        libc::SYS_statx,
        libc::SYS_newfstatat,
        libc::SYS_fstat,
        libc::SYS_getdents64,
        libc::SYS_readlink,
        libc::SYS_lseek,
        libc::SYS_fcntl,
        libc::SYS_ioctl,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        libc::SYS_brk,
        libc::SYS_getpid,
        libc::SYS_gettid,
        libc::SYS_getrandom,
        libc::SYS_sigaltstack,
        libc::SYS_sched_getaffinity,
    ];
    let writes = (libc::O_CREAT | libc::O_TRUNC) as u64;
    match number {
        libc::SYS_openat => third & writes != 0,
        _ => !LOOKS.contains(&number),
    }
}

/// Whether a system call may answer so.
pub(crate) fn are_plausible(number: i64, errno: i32) -> bool {
    known(number).is_some_and(|call| call.errors.contains(&errno))
}

/// The name of an error, as in the manual.
pub(crate) fn name(errno: i32) -> String {
    macro_rules! names {
        ($($error:ident)*) => { [$(($error, stringify!($error))),*] };
    }
    let names = names! {
        EACCES EAGAIN EBUSY EINTR EIO EMFILE ENOENT ENOLCK ENOMEM ENOSPC EPERM EROFS ESRCH
    };
    let known = names.iter().find(|(number, _)| *number == errno);
    known.map_or(errno.to_string(), |(_, name)| (*name).to_owned())
}
