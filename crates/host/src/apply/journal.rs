//! The previous values of a group, safe on disk before anything is written.
//!
//! One file a group, named by its path with `/` as `+`: `/web/api` is `+web+api.json`. A `+` in the
//! path is `%2B` and a `%` is `%25`, so that `/web+api` has another. A journal is written beside
//! its place, synced, renamed, and the directory synced: after a crash it is there as a whole or
//! not at all. A checksum tells values that a disk has changed since.
//!
//! `apply` and `undo` hold a lock on the directory of the journals from the first look at a group
//! to the last, so that two processes do not write alternately.
//!
//! Between an apply and its undo somebody else may set the group. So a journal also has every value
//! that an apply was about to write: one that is neither among these nor from before is theirs.
//!
//! A group may end before it is undone, with a restart of its service or of the machine, and
//! another be made at its path. The values of the one are nothing to the other, so a journal says
//! which group it is of: the boot, and the inode of the directory, which no later group of that
//! boot has.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use schedcast_base::fresh;

use crate::cgroup::CpuCgroup;
use crate::error::{HostError, Result, io_error, is_there, read_text, unexpected};
use crate::files::CpuFile;
use crate::hierarchy::CgroupVersion;

use super::{Wish, Write};

/// Name and version of the form on disk.
const SCHEMA: &str = "schedcast.undo/2";
/// The form without a checksum.
const SCHEMA_UNCHECKED: &str = "schedcast.undo/1";
/// The key of the checksum of all other keys.
const CHECKSUM: &str = "crc32";
/// The file that is locked while a process applies or undoes.
const LOCK: &str = "lock";

/// The settings of a group as text, file by file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    /// Every cpu setting that the group has.
    pub files: Vec<(CpuFile, String)>,
}

impl Saved {
    /// Reads the present settings of `group`.
    pub(crate) fn read(group: &CpuCgroup) -> Result<Saved> {
        let files: &[CpuFile] = match group.version() {
            CgroupVersion::V1 => &[
                CpuFile::CfsPeriodUs,
                CpuFile::CfsQuotaUs,
                CpuFile::CfsBurstUs,
                CpuFile::Shares,
                CpuFile::Idle,
            ],
            CgroupVersion::V2 => &[
                CpuFile::Max,
                CpuFile::MaxBurst,
                CpuFile::Weight,
                CpuFile::Idle,
            ],
        };
        let mut saved = Saved { files: Vec::new() };
        for file in files {
            if is_there(&group.dir().join(file.name()))? {
                saved.files.push((*file, group.read(*file)?));
            }
        }
        Ok(saved)
    }

    /// Refuses writes to files whose value is not among these: an undo could not take them back.
    pub(super) fn refuse_without(&self, group: &CpuCgroup, writes: &[Write]) -> Result<()> {
        let is_saved = |write: &&Write| self.files.iter().any(|(file, _)| *file == write.file);
        match writes.iter().find(|write| !is_saved(write)) {
            Some(write) => Err(io_error(
                "saving",
                &group.dir().join(write.file.name()),
                io::Error::other("it was there a moment ago and is gone, so nothing was written"),
            )),
            None => Ok(()),
        }
    }

    /// These settings as a wish.
    pub(crate) fn wish(&self) -> Result<Wish> {
        let mut wish = Wish::default();
        let idle = self
            .files
            .iter()
            .any(|(file, text)| *file == CpuFile::Idle && text == "1");
        for (file, text) in &self.files {
            // cpu.idle 1 decides the weight, and the kernel refuses to be told.
            if !(idle && matches!(file, CpuFile::Shares | CpuFile::Weight)) {
                wish.set(file.name(), text)?;
            }
        }
        Ok(wish)
    }
}

/// A journal on disk.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
}

/// A journal that was found.
pub(super) struct Found {
    pub journal: Journal,
    pub saved: Saved,
    /// Values that an apply wrote, by file; `None` in journals that do not say.
    pub written: Option<BTreeMap<String, Vec<String>>>,
    /// Whether the group at its path is the one it was written for.
    pub of_this_group: bool,
}

impl Found {
    /// Refuses to go on where a file of `group` has neither its value from before the first apply
    /// nor one that an apply wrote.
    pub(super) fn refuse_foreign(&self, group: &CpuCgroup) -> Result<()> {
        let Some(written) = &self.written else {
            return Ok(());
        };
        let now = Saved::read(group)?;
        let is_idle = now
            .files
            .iter()
            .any(|(file, text)| *file == CpuFile::Idle && text == "1");
        for (file, found) in now.files {
            // cpu.idle 1 decides the weight that the kernel shows.
            if is_idle && matches!(file, CpuFile::Shares | CpuFile::Weight) {
                continue;
            }
            let saved = self.saved.files.iter().find(|(saved, _)| *saved == file);
            let own = written.get(file.name()).map_or(&[][..], Vec::as_slice);
            let Some((_, before)) = saved.filter(|(_, before)| *before != found) else {
                continue;
            };
            if !own.contains(&found) {
                return Err(HostError::SetByOther {
                    path: group.dir().join(file.name()),
                    found,
                    before: before.clone(),
                    written: own.last().cloned(),
                });
            }
        }
        Ok(())
    }
}

/// Identity of a group: distinguishes it from earlier and later groups at the same path.
fn identity(group: &CpuCgroup) -> Result<String> {
    let boot = read_text(Path::new("/proc/sys/kernel/random/boot_id"))?;
    let dir = group.dir();
    let inode = fs::metadata(dir).map_err(|error| io_error("reading", dir, error))?;
    Ok(format!("{} {}", boot.trim(), inode.ino()))
}

/// The right to change groups; others wait until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the process that holds it.
    pub(super) fn take(directory: &Path) -> Result<Lock> {
        fs::create_dir_all(directory).map_err(|error| io_error("creating", directory, error))?;
        let path = directory.join(LOCK);
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(&path);
        let locked = file.and_then(|file| file.lock().map(|()| Lock { _file: file }));
        locked.map_err(|error| io_error("locking", &path, error))
    }
}

/// CRC-32 of the compact form of a JSON, which neither spaces nor line ends are part of.
fn checksum(json: &serde_json::Map<String, serde_json::Value>) -> String {
    let mut crc = flate2::Crc::new();
    crc.update(serde_json::Value::from(json.clone()).to_string().as_bytes());
    format!("{:08x}", crc.sum())
}

/// The name of the journal of the group at `path`.
fn file_name(path: &str) -> String {
    let escaped = path.replace('%', "%25").replace('+', "%2B");
    format!("{}.json", escaped.replace('/', "+"))
}

/// The path of the group whose journal has this name.
fn group_of(name: &str) -> Option<String> {
    let path = name.strip_suffix(".json")?.replace('+', "/");
    Some(path.replace("%2B", "+").replace("%25", "%"))
}

impl Journal {
    /// Path of the journal.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The journal of the group at `path`, whether or not one of them is there.
    pub(super) fn of_path(directory: &Path, path: &str) -> Journal {
        Journal {
            path: directory.join(file_name(path)),
        }
    }

    /// The journal of `group`: the one that is there, or a new one with `now`, also in place of
    /// that of a group which is gone. `writes` are added to what it says was written. Tells whether
    /// it is new.
    pub(super) fn open_or_save(
        directory: &Path,
        group: &CpuCgroup,
        now: &Saved,
        writes: &[Write],
    ) -> Result<(Journal, bool)> {
        let Journal { path } = Journal::of_path(directory, group.path());
        let mut found = None;
        if is_there(&path)? {
            found = Some(Journal::open(directory, group)?).filter(|found| found.of_this_group);
        }
        let is_new = found.is_none();
        let (saved, written) = match found {
            Some(found) => (found.saved, found.written),
            None => (now.clone(), Some(BTreeMap::new())),
        };
        let written = written.map(|mut written| {
            for write in writes {
                let values = written.entry(write.file.name().to_owned()).or_default();
                values.retain(|value| *value != write.value);
                values.push(write.value.clone());
            }
            written
        });
        let files: serde_json::Map<String, serde_json::Value> = saved
            .files
            .iter()
            .map(|(file, text)| (file.name().to_owned(), text.clone().into()))
            .collect();
        let mut json = serde_json::Map::new();
        json.insert("schema".into(), SCHEMA.into());
        json.insert("cgroup".into(), group.path().into());
        json.insert("directory".into(), group.dir().to_string_lossy().into());
        json.insert("group".into(), identity(group)?.into());
        json.insert("files".into(), files.into());
        if let Some(written) = written {
            json.insert("written".into(), serde_json::json!(written));
        }
        json.insert(CHECKSUM.into(), checksum(&json).into());
        let json = serde_json::Value::from(json);
        save(directory, &path, &format!("{json:#}\n"))?;
        Ok((Journal { path }, is_new))
    }

    /// The journal of `group` and what it says.
    pub(super) fn open(directory: &Path, group: &CpuCgroup) -> Result<Found> {
        let Journal { path } = Journal::of_path(directory, group.path());
        if !is_there(&path)? {
            return Err(HostError::Told(format!(
                "nothing to undo for {}: there is no {}",
                group.path(),
                path.display()
            )));
        }
        let text = read_text(&path)?;
        let bad = |found: String| unexpected(&path, 0, "a journal of apply", found);
        let mut json: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        let told = json.remove(CHECKSUM);
        let json_of = |key: &str| json.get(key).unwrap_or(&serde_json::Value::Null);
        let is_unchecked = told.is_none() && json_of("schema") == SCHEMA_UNCHECKED;
        if !is_unchecked && told != Some(checksum(&json).into()) {
            return Err(HostError::Told(format!(
                "{} is damaged: its checksum is not that of what it says, so nothing was changed; \
                 compare its values with what the group should have, set them by hand and remove \
                 the file",
                path.display()
            )));
        }
        let known = is_unchecked || json_of("schema") == SCHEMA;
        let directory = json_of("directory").as_str();
        if !known || directory != Some(&*group.dir().to_string_lossy()) {
            let (schema, directory) = (json_of("schema"), json_of("directory"));
            return Err(bad(format!("{schema} of {directory}")));
        }
        let files = json_of("files")
            .as_object()
            .ok_or_else(|| bad("no files".to_owned()))?;
        let mut saved = Saved { files: Vec::new() };
        for (name, value) in files {
            let text = value.as_str().ok_or_else(|| bad(value.to_string()))?;
            saved
                .files
                .push((CpuFile::from_name(name)?, text.to_owned()));
        }
        let written = match json_of("written") {
            serde_json::Value::Null => None,
            told => {
                Some(serde_json::from_value(told.clone()).map_err(|error| bad(error.to_string()))?)
            }
        };
        // Older journals do not say.
        let of_this_group = match json_of("group").as_str() {
            Some(told) => told == identity(group)?,
            None => true,
        };
        Ok(Found {
            journal: Journal { path },
            saved,
            written,
            of_this_group,
        })
    }

    /// The groups that have a journal in `directory`.
    pub fn groups(directory: &Path) -> Result<Vec<String>> {
        if !is_there(directory)? {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(directory).map_err(|e| io_error("listing", directory, e))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut groups: Vec<String> = names.filter_map(|name| group_of(&name)).collect();
        groups.sort();
        Ok(groups)
    }

    /// Forgets it.
    pub(super) fn remove(self) -> Result<()> {
        fs::remove_file(&self.path).map_err(|error| io_error("removing", &self.path, error))?;
        sync_directory(self.path.parent().unwrap_or(Path::new("/")))
    }
}

fn save(directory: &Path, path: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(directory).map_err(|error| io_error("creating", directory, error))?;
    fresh::write(path, text).map_err(|error| io_error("writing", path, error))?;
    sync_directory(directory)
}

fn sync_directory(directory: &Path) -> Result<()> {
    let sync = || File::open(directory)?.sync_all();
    sync().map_err(|error| io_error("syncing", directory, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_journals_are_those_of_one_group_only() {
        assert_eq!(file_name("/web/api"), "+web+api.json");
        assert_eq!(file_name("/web+api"), "+web%2Bapi.json");
        for path in "/a/b|/a+b|/a%2Bb|/a%2b|/%|/a%252B+/%25|/|/ä b".split('|') {
            assert_eq!(group_of(&file_name(path)).as_deref(), Some(path));
        }
        assert_eq!(group_of("lock"), None);
    }
}
