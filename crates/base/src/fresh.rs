//! Files that are written whole or not at all.
//!
//! An answer takes minutes; a user who kills the command, or fills the disk, must not be left with
//! half a file that looks like one. So the bytes go into a new file in the same folder, which takes
//! the name once all of them are on disk:
//!
//! ```text
//! out.json (old) ─────────────────────────────► out.json (new)
//! .schedcast-4711-0.new  ── write ── sync ── rename ┘   an error, or a panic: removed, the old one stays
//! ```
//!
//! A process that is killed removes nothing. It held a lock on its new file, though, and the kernel
//! took that back; so the next process that writes into the folder recognises what was left behind,
//! and removes it.
//!
//! A path that is no regular file (a pipe, a terminal, `/dev/null`, `/dev/stdout`) cannot be
//! replaced and is written directly. So is a file in a folder that takes no new ones: there is
//! nothing better. Worked example: `--json /dev/stdout` behind `> both.txt` writes on where
//! standard output stands, so that the table comes after the JSON and not over it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::Error;

/// Links that lead to one another; the kernel follows as many.
const MOST_LINKS: u32 = 40;

/// Files that this process has begun: each has a name of its own.
static BEGUN: AtomicU32 = AtomicU32::new(0);

/// How the names of files in the making begin and end; between them stand the process and its
/// number of the file.
const NEW: (&str, &str) = (".schedcast-", ".new");

/// Folders that this process has looked through for what killed processes left.
static SWEPT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file in the making. Dropped without [`Fresh::keep`], it leaves what was there before.
#[derive(Debug)]
pub struct Fresh {
    file: File,
    /// Where it is written and which name it takes; `None` if it is written in place.
    beside: Option<(PathBuf, PathBuf)>,
}

impl Fresh {
    /// Begins the file `path`.
    ///
    /// # Errors
    /// A path that cannot be written: no such folder, a folder itself, missing rights.
    pub fn create(path: &Path) -> io::Result<Fresh> {
        match target(path)? {
            Target::InPlace(file) => Ok(Fresh { file, beside: None }),
            Target::Regular(name) => Ok(match begin_if_taken(&name)? {
                Some((file, beside)) => Fresh {
                    file,
                    beside: Some((beside, name)),
                },
                None => Fresh {
                    file: File::create(&name)?,
                    beside: None,
                },
            }),
        }
    }

    /// All is written: the file takes its name.
    ///
    /// # Errors
    /// Errors that the disk reports late: it is full, or broken.
    pub fn keep(mut self) -> io::Result<()> {
        let Some((beside, name)) = &self.beside else {
            return self.file.flush();
        };
        self.file.sync_all()?;
        match fs::rename(beside, name) {
            // A file that is mounted by itself keeps its place, as into a container.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                fs::copy(beside, name).map(|_| ())
            }
            Err(error) => Err(error),
            Ok(()) => {
                self.beside = None;
                Ok(())
            }
        }
    }
}

impl Write for Fresh {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Some((beside, _)) = &self.beside {
            let _ = fs::remove_file(beside);
        }
    }
}

/// Writes a file as a whole.
///
/// # Errors
/// Those of [`Fresh::create`] and of the disk.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = Fresh::create(path)?;
    file.write_all(bytes.as_ref())?;
    file.keep()
}

/// The same; a failure names the file.
///
/// # Errors
/// As for [`fn@write`].
pub fn save(path: &Path, bytes: impl AsRef<[u8]>) -> crate::error::Result<()> {
    write(path, bytes).map_err(|error| Error::file("write", path.display(), &error))
}

/// Whether [`fn@write`] will be able to begin, without leaving anything. A path that is no regular
/// file is not tried: opening a pipe waits for its reader.
///
/// # Errors
/// Those of [`Fresh::create`].
pub fn check(path: &Path) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return Ok(());
    }
    if let Target::Regular(name) = target(path)?
        && let Some((_, beside)) = begin_if_taken(&name)?
    {
        fs::remove_file(beside)?;
    }
    Ok(())
}

/// How a path is written.
enum Target {
    /// Not a regular file, or one that another process has open for us.
    InPlace(File),
    /// The name to take, links followed.
    Regular(PathBuf),
}

fn target(path: &Path) -> io::Result<Target> {
    let mut name = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        let folder = match name.parent() {
            Some(folder) if folder != Path::new("") => folder.canonicalize()?,
            _ => PathBuf::from(".").canonicalize()?,
        };
        // Descriptors of a process: what they name is open already, and its name may be gone.
        if folder.starts_with("/proc") {
            return Ok(Target::InPlace(descriptor(&folder, &name)?));
        }
        match fs::read_link(&name) {
            Ok(next) => name = folder.join(next),
            Err(_) => {
                return match fs::metadata(&name) {
                    Ok(there) if there.is_file() => {
                        // A user who may not write the file may not replace it either.
                        OpenOptions::new().write(true).open(&name)?;
                        Ok(Target::Regular(name))
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        Ok(Target::Regular(name))
                    }
                    Err(error) => Err(error),
                    Ok(_) => Ok(Target::InPlace(OpenOptions::new().write(true).open(&name)?)),
                };
            }
        }
    }
    Err(io::Error::other("its links lead in a circle"))
}

/// Standard output and error are written on where they stand; other descriptors as their files.
fn descriptor(folder: &Path, name: &Path) -> io::Result<File> {
    let own = PathBuf::from(format!("/proc/{}/fd", std::process::id()));
    let number = name.file_name().and_then(|number| number.to_str());
    match number {
        Some("1") if *folder == own => {
            io::stdout().flush()?;
            Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
        }
        Some("2") if *folder == own => Ok(File::from(io::stderr().as_fd().try_clone_to_owned()?)),
        _ => OpenOptions::new().write(true).open(name),
    }
}

/// A new file in the folder of `name`, with the rights and the owner of the file that it will
/// replace.
fn begin(name: &Path) -> io::Result<(File, PathBuf)> {
    sweep(name);
    let (file, beside) = begin_locked(name)?;
    if let Ok(old) = fs::metadata(name) {
        let keeps = file.set_permissions(old.permissions());
        // Only root may give a file away; any other user is its owner.
        let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
        if let Err(error) = keeps {
            let _ = fs::remove_file(&beside);
            return Err(error);
        }
    }
    Ok((file, beside))
}

/// A file that did not exist, locked for as long as it is open.
fn begin_locked(name: &Path) -> io::Result<(File, PathBuf)> {
    loop {
        let number = BEGUN.fetch_add(1, Ordering::Relaxed);
        let (begin, end) = NEW;
        let beside = name.with_file_name(format!("{begin}{}-{number}{end}", std::process::id()));
        let mut options = OpenOptions::new();
        // Neither a link that another user prepared nor a file that another process of this number
        // left is written to.
        let file = match options.write(true).create_new(true).open(&beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            opened => opened?,
        };
        // Where a file system has no locks nothing is swept either.
        let _ = file.lock();
        // Between the two calls another process may have taken the file for one that was left
        // behind.
        match file.metadata() {
            Ok(there) if there.nlink() > 0 => return Ok((file, beside)),
            Ok(_) => {}
            Err(error) => {
                let _ = fs::remove_file(&beside);
                return Err(error);
            }
        }
    }
}

/// Removes what killed processes left in the folder of `name`, once a folder.
fn sweep(name: &Path) {
    let folder = match name.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if swept.iter().any(|known| known == folder) {
        return;
    }
    swept.push(folder.to_owned());
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let is_new = |name: &str| name.starts_with(NEW.0) && name.ends_with(NEW.1);
    for entry in entries.flatten() {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && entry.file_name().to_str().is_some_and(is_new) {
            remove_left(&entry.path());
        }
    }
}

/// Removes a file in the making unless the process that makes it is alive.
fn remove_left(path: &Path) {
    if let Ok(file) = OpenOptions::new().write(true).open(path)
        && file.try_lock().is_ok()
    {
        let _ = fs::remove_file(path);
    }
}

/// [`begin`]; nothing where the folder takes no new files and `name` is there to be written in
/// place.
fn begin_if_taken(name: &Path) -> io::Result<Option<(File, PathBuf)>> {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match begin(name) {
        Err(error)
            if matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem) && name.exists() =>
        {
            Ok(None)
        }
        begun => begun.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_takes_its_name_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        fs::write(&path, "old").unwrap();
        let mut file = Fresh::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()).len(), 2);
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["out.json"]);
        write(&path, "new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["out.json"]);
    }

    #[test]
    fn what_killed_processes_left_is_removed_and_what_others_write_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(".schedcast-1-0.new");
        let written = folder.path().join(".schedcast-1-1.new");
        fs::write(&left, "half").unwrap();
        let other = File::create(&written).unwrap();
        other.lock().unwrap();
        write(&folder.path().join("out.json"), "new").unwrap();
        assert_eq!(names(folder.path()), [".schedcast-1-1.new", "out.json"]);
    }

    #[test]
    fn a_prepared_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "untouched").unwrap();
        // An attacker who guesses the next names prepares a thousand of them.
        let next = BEGUN.load(Ordering::Relaxed);
        for number in next..next + 1000 {
            let name = format!(".schedcast-{}-{number}.new", std::process::id());
            symlink("victim", folder.path().join(name)).unwrap();
        }
        write(&folder.path().join("out.json"), "new").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"untouched");
        assert_eq!(fs::read(folder.path().join("out.json")).unwrap(), b"new");
    }

    #[test]
    fn links_and_rights_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        symlink("file", &link).unwrap();
        write(&link, "new").unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("file"));
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let (nowhere, loops) = (folder.path().join("nowhere"), folder.path().join("loop"));
        symlink("made", &nowhere).unwrap();
        write(&nowhere, "made").unwrap();
        assert_eq!(fs::read(folder.path().join("made")).unwrap(), b"made");
        symlink("loop", &loops).unwrap();
        assert!(write(&loops, "").is_err());
    }

    #[test]
    fn what_is_no_regular_file_is_written_in_place() {
        write(Path::new("/dev/null"), "gone").unwrap();
        let error = write(Path::new("/dev/full"), "more").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let (mut reader, writer) = io::pipe().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&writer);
        write(Path::new(&format!("/dev/fd/{fd}")), "through").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        assert!(Path::new("/dev/null").exists());
    }

    #[test]
    fn what_cannot_be_written_is_said_before() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check(folder.path()).is_err(), "a folder");
        assert!(check(&folder.path().join("no/file")).is_err());
        assert!(check(Path::new("/proc/sys/kernel/osrelease/x")).is_err());
        assert!(check(&folder.path().join("file")).is_ok());
        assert!(names(folder.path()).is_empty());
        assert!(check(Path::new("/dev/full")).is_ok());
    }

    #[test]
    fn a_broken_disk_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        fs::write(&path, "old").unwrap();
        let mut file = Fresh::create(&path).unwrap();
        // A disk that fills up while the file is written.
        file.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert!(file.write_all(b"half").is_err());
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["out.json"]);
    }
}
