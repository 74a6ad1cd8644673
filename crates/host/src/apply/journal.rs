//! The previous values of a group, safe on disk before anything is written.
//!
//! One file a group, named by its path with `/` as `+`: `/web/api` is `+web+api.json`. It is written beside
//! its place, synced, renamed, and the directory synced: after a crash it is there as a whole or not at all.
//!
//! A group may end before it is undone, with a restart of its service or of the machine, and another be made at its path. The
//! values of the one are nothing to the other, so a journal says which group it is of: the boot, and the inode of the
//! directory, which no later group of that boot has.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use schedcast_trace::fresh;

use crate::cgroup::CpuCgroup;
use crate::error::{HostError, Result, io_error, read_text};
use crate::files::CpuFile;
use crate::hierarchy::CgroupVersion;

use super::Wish;

/// Name and version of the form on disk.
const SCHEMA: &str = "schedcast.undo/1";

/// The settings of a group as text, file by file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Every cpu setting that the group has.
    pub files: Vec<(CpuFile, String)>,
}

impl Saved {
    /// What `group` has now.
    pub fn read(group: &CpuCgroup) -> Result<Saved> {
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
        let there = files
            .iter()
            .filter(|file| group.dir().join(file.name()).exists());
        let files = there.map(|file| Ok((*file, group.read(*file)?)));
        Ok(Saved {
            files: files.collect::<Result<_>>()?,
        })
    }

    /// These settings as a wish.
    pub fn wish(&self) -> Result<Wish> {
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
    /// Whether the group at its path is the one it was written for.
    pub of_this_group: bool,
}

/// What tells a group from all others at its path, before it and after it.
fn identity(group: &CpuCgroup) -> Result<String> {
    let boot = read_text(Path::new("/proc/sys/kernel/random/boot_id"))?;
    let dir = group.dir();
    let inode = fs::metadata(dir).map_err(|error| io_error("reading", dir, error))?;
    Ok(format!("{} {}", boot.trim(), inode.ino()))
}

impl Journal {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn place(directory: &Path, group: &CpuCgroup) -> PathBuf {
        directory.join(format!("{}.json", group.path().replace('/', "+")))
    }

    /// The journal of `group`: the one that is there, or a new one with `now`, also in place of that of a group which is
    /// gone. Tells whether it is new.
    pub(super) fn open_or_save(
        directory: &Path,
        group: &CpuCgroup,
        now: &Saved,
    ) -> Result<(Journal, bool)> {
        let path = Journal::place(directory, group);
        if path.exists() {
            let found = Journal::open(directory, group)?;
            if found.of_this_group {
                return Ok((found.journal, false));
            }
        }
        let files: serde_json::Map<String, serde_json::Value> = now
            .files
            .iter()
            .map(|(file, text)| (file.name().to_owned(), text.clone().into()))
            .collect();
        let json = serde_json::json!({
            "schema": SCHEMA,
            "cgroup": group.path(),
            "directory": group.dir(),
            "group": identity(group)?,
            "files": files,
        });
        save(directory, &path, &format!("{json:#}\n"))?;
        Ok((Journal { path }, true))
    }

    /// The journal of `group` and what it says.
    pub(super) fn open(directory: &Path, group: &CpuCgroup) -> Result<Found> {
        let path = Journal::place(directory, group);
        if !path.exists() {
            return Err(HostError::NothingToUndo {
                cgroup: group.path().to_owned(),
                journal: path,
            });
        }
        let text = read_text(&path)?;
        let bad = |found: String| HostError::Parse {
            path: path.clone(),
            line: 0,
            expected: "a journal of apply",
            found,
        };
        let json: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        if json["schema"] != SCHEMA
            || json["directory"].as_str().map(Path::new) != Some(group.dir())
        {
            return Err(bad(format!("{} of {}", json["schema"], json["directory"])));
        }
        let files = json["files"]
            .as_object()
            .ok_or_else(|| bad("no files".to_owned()))?;
        let mut saved = Saved { files: Vec::new() };
        for (name, value) in files {
            let text = value.as_str().ok_or_else(|| bad(value.to_string()))?;
            saved
                .files
                .push((CpuFile::from_name(name)?, text.to_owned()));
        }
        // Older journals do not say.
        let of_this_group = match json["group"].as_str() {
            Some(told) => told == identity(group)?,
            None => true,
        };
        Ok(Found {
            journal: Journal { path },
            saved,
            of_this_group,
        })
    }

    /// The groups that have a journal in `directory`.
    pub fn groups(directory: &Path) -> Result<Vec<String>> {
        if !directory.exists() {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(directory).map_err(|e| io_error("listing", directory, e))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut groups: Vec<String> = names
            .filter_map(|name| Some(name.strip_suffix(".json")?.replace('+', "/")))
            .collect();
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
