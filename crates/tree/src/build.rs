//! From a tree of sources to a shared object, by the tree's own makefiles.
//!
//! The tree is not touched. A folder of links to it, in which the overlay is one more architecture,
//! is configured and compiled into a folder of its own; what is missing of the rest of the kernel
//! becomes a trap that says its name.
//!
//! Worked example: the first call for `linux-6.12.107` takes half a minute. The second reads the
//! some 900 files that were compiled, finds their contents unchanged and returns the same object;
//! after an edit of `kernel/sched/fair.c` it compiles that file and links again. Where `fair.c` was
//! put back with its old time, all is compiled again: `make` would keep the object.

use crate::config::{self, Config};
use crate::{overlay, trees};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::lists::list;

/// Objects of `kernel/sched` that the overlay compiles itself, with the source included.
const REPLACED: [&str; 2] = ["core.o", "fair.o"];

/// Names that the link script or the C library defines.
const ELSEWHERE: &str = "memcpy memset memmove memcmp strlen strcmp strncmp \
                         _GLOBAL_OFFSET_TABLE_ __real_hrtimer_try_to_cancel";

/// Why there is no object.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Not a kernel.
    #[error(
        "{0} is not a tree of kernel sources: there is no {1}. Give the folder that holds the kernel's top Makefile"
    )]
    NoTree(PathBuf, &'static str),
    /// Only one instruction set so far.
    #[error("trees are run on x86-64 machines only, this one is {0}")]
    Machine(&'static str),
    /// The packages' programs.
    #[error(
        "this schedcast is a static program and cannot load the scheduler that it would compile. Build it from source: make build"
    )]
    Static,
    /// A program that the kernel's makefiles call.
    #[error(
        "building a kernel tree needs `{0}`, which is not to be found (Debian: apt install {1})"
    )]
    NoProgram(&'static str, &'static str),
    /// The tree's makefiles failed.
    #[error("{tree} does not build ({step}):\n{errors}\nAll of it is in {log}")]
    Make {
        /// The tree.
        tree: PathBuf,
        /// Step of the build that failed.
        step: &'static str,
        /// Messages of the compiler.
        errors: String,
        /// Where the rest is.
        log: PathBuf,
    },
    /// No room.
    #[error(
        "no space left in {0}: building a tree takes some 60 MB there (XDG_CACHE_HOME says where)"
    )]
    NoSpace(PathBuf),
    /// A file.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
}

/// Programs called while building, and the Debian packages they come in.
const PROGRAMS: &[(&str, &str)] = &[
    ("gcc", "gcc"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("nm", "binutils"),
    ("objcopy", "binutils"),
    ("readelf", "binutils"),
];

/// Builds the object of a tree.
#[derive(Clone, Debug)]
pub struct Builder {
    tree: PathBuf,
    config: Config,
    folder: PathBuf,
}

impl Builder {
    /// For `tree` with a configuration, results kept in the cache folder.
    ///
    /// # Errors
    /// When `tree` is not a tree of kernel sources or a program is missing.
    pub fn new(tree: &Path, config: Config) -> Result<Self, BuildError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(BuildError::Machine(std::env::consts::ARCH));
        }
        if cfg!(target_feature = "crt-static") {
            return Err(BuildError::Static);
        }
        for file in [
            "Makefile",
            "Kbuild",
            "kernel/sched/core.c",
            "kernel/sched/fair.c",
        ] {
            if !tree.join(file).is_file() {
                return Err(BuildError::NoTree(tree.to_path_buf(), file));
            }
        }
        for &(program, package) in PROGRAMS {
            let path = std::env::var_os("PATH").unwrap_or_default();
            if !std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
                return Err(BuildError::NoProgram(program, package));
            }
        }
        let tree = fs::canonicalize(tree).map_err(|error| BuildError::File(tree.into(), error))?;
        let mut hasher = DefaultHasher::new();
        (&tree, config.text()).hash(&mut hasher);
        let name = tree.file_name();
        let name = name.map_or("tree".into(), |name| name.to_string_lossy());
        let folder = format!("{name}-{:016x}", hasher.finish());
        Ok(Self {
            folder: trees::cache_folder().join("built").join(folder),
            tree,
            config,
        })
    }

    /// The object, compiled where its sources are not those of the last time.
    ///
    /// # Errors
    /// Missing file or tool, or the messages of the compiler.
    pub fn object(&self) -> Result<PathBuf, BuildError> {
        self.make_folder(&self.folder)?;
        let lock = self.folder.join("lock");
        let file = fs::File::create(&lock).map_err(|error| self.file_error(&lock, error))?;
        file.lock().map_err(|error| self.file_error(&lock, error))?;
        let object = self.folder.join("sched.so");
        if self.is_built() {
            return Ok(object);
        }
        let known = self.recorded_names();
        if self.out().exists() && !self.shows_changes() {
            let out = self.out();
            fs::remove_dir_all(&out).map_err(|error| self.file_error(&out, error))?;
        }
        self.record(&known, false)?;
        let made = self.lay_over();
        let made = made.and_then(|()| self.compile());
        let made = made.and_then(|()| self.link(&object));
        let compiled = self.compiled_names();
        self.record(&compiled.unwrap_or(known), made.is_ok())?;
        made?;
        Ok(object)
    }

    /// Whether the object is there, of the sources as they are.
    pub fn is_built(&self) -> bool {
        self.folder.join("sched.so").is_file() && self.unchanged()
    }

    /// Hash of the names and contents of the files that the object was compiled from, and of its
    /// configuration; `None` where there is no object.
    pub fn compiled_sources(&self) -> Option<String> {
        let text = fs::read_to_string(self.sources()).ok()?;
        let (hash, _) = text.split_once('\n')?;
        Some(format!("{hash} {}", self.config.text()))
    }

    fn farm(&self) -> PathBuf {
        self.folder.join("farm")
    }

    fn out(&self) -> PathBuf {
        self.folder.join("out")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Links to everything in the tree, and the overlay among its architectures.
    fn lay_over(&self) -> Result<(), BuildError> {
        let farm = self.farm();
        self.make_folder(&farm.join("arch"))?;
        for (from, to) in [
            (self.tree.clone(), farm.clone()),
            (self.tree.join("arch"), farm.join("arch")),
        ] {
            let entries = fs::read_dir(&from).map_err(|error| self.file_error(&from, error))?;
            for entry in entries.flatten().filter(|one| one.file_name() != "arch") {
                let link = to.join(entry.file_name());
                if link.is_symlink() {
                    continue;
                }
                symlink(entry.path(), &link).map_err(|error| self.file_error(&link, error))?;
            }
        }
        for (name, text) in overlay::FILES {
            let path = farm.join("arch/schedcast").join(name);
            self.make_folder(path.parent().unwrap_or(&farm))?;
            self.write(&path, text)?;
        }
        let own = config::own_options(&self.tree).into_iter();
        let own: String = own.map(|name| format!("CONFIG_{name}=y\n")).collect();
        self.write(&self.folder.join("config"), &(self.config.text() + &own))
    }

    fn compile(&self) -> Result<(), BuildError> {
        self.make_folder(&self.out())?;
        let _ = fs::remove_file(self.log());
        let config = format!("KCONFIG_ALLCONFIG={}", self.folder.join("config").display());
        self.make("configuring", &[config, "allnoconfig".into()])?;
        self.make("preparing", &["prepare".into()])?;
        let is_file = |path: String| self.tree.join(path).is_file();
        let there =
            |object: &&&str| is_file(format!("{object}.c")) || is_file(format!("{object}.S"));
        let folders = ["kernel/sched/", "arch/schedcast/core/"].map(String::from);
        let objects = list("objects").iter().filter(there);
        let objects = objects.map(|object| format!("{object}.o"));
        self.make(
            "compiling",
            &folders.into_iter().chain(objects).collect::<Vec<_>>(),
        )
    }

    fn make(&self, step: &'static str, targets: &[String]) -> Result<(), BuildError> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let output = Command::new("make")
            .args([&*format!("-j{jobs}"), "-s", "-C"])
            .arg(self.farm())
            .arg(format!("O={}", self.out().display()))
            .args(["ARCH=schedcast", "SUBARCH=schedcast", "LLVM=", "W="])
            .args(targets)
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL")
            .env("LC_ALL", "C")
            .output()
            .map_err(|error| self.file_error(Path::new("make"), error))?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let before = fs::read_to_string(self.log()).unwrap_or_default();
        self.write(&self.log(), &(before + &text))?;
        if output.status.success() {
            return Ok(());
        }
        if text.contains("No space left on device") {
            return Err(BuildError::NoSpace(self.folder.clone()));
        }
        Err(self.make_error(step, &text))
    }

    fn make_error(&self, step: &'static str, text: &str) -> BuildError {
        BuildError::Make {
            tree: self.tree.clone(),
            step,
            errors: first_errors(text, &format!("{}/", self.farm().display())),
            log: self.log(),
        }
    }

    /// All objects, those of `kernel/sched` as its own makefile lists them.
    fn objects(&self) -> Result<Vec<PathBuf>, BuildError> {
        let out = self.out();
        let objects = list("objects").iter();
        let objects = objects.map(|object| out.join(format!("{object}.o")));
        let mut objects: Vec<PathBuf> = objects.filter(|object| object.is_file()).collect();
        for (folder, left_out) in [
            ("kernel/sched", &REPLACED[..]),
            ("arch/schedcast/core", &[]),
        ] {
            let folder = out.join(folder);
            let entries = fs::read_dir(&folder).map_err(|error| self.file_error(&folder, error))?;
            let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            found.retain(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.ends_with(".o") && !left_out.contains(&&*name)
            });
            found.sort();
            objects.extend(found);
        }
        Ok(objects)
    }

    /// Definitions for the symbols that no object defines: functions become traps with their names,
    /// the rest zeros.
    fn missing(&self, objects: &[PathBuf]) -> Result<String, BuildError> {
        let lines = |program: &str, argument: &str| -> Result<Vec<String>, BuildError> {
            let output = Command::new(program)
                .arg(argument)
                .args(objects)
                .env("LC_ALL", "C")
                .output()
                .map_err(|error| self.file_error(Path::new(program), error))?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            Ok(text.lines().map(String::from).collect())
        };
        let symbols = lines("nm", "-g")?;
        let relocations = lines("readelf", "-rW")?;
        let (mut wanted, mut defined) = (BTreeSet::new(), BTreeSet::new());
        for line in &symbols {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [.., "U", name] => wanted.insert(name),
                [_, _, name] => defined.insert(name),
                _ => false,
            };
        }
        let called = relocations
            .iter()
            .filter(|line| line.contains("R_X86_64_PLT32"));
        let called = called.filter_map(|line| line.split_whitespace().nth(4));
        let called: BTreeSet<&str> = called.collect();
        let script = self.out().join("arch/schedcast/core/object.lds");
        let script = fs::read_to_string(script).unwrap_or_default();
        let by_script = |name: &str| script.contains(&format!("{name} = ."));
        let mut assembly = String::from(".section .text.sc_traps,\"ax\"\n");
        let mut data = String::from(".data\n");
        for &name in wanted.difference(&defined) {
            if ELSEWHERE.split(' ').any(|known| known == name) || by_script(name) {
                continue;
            }
            let _ = if called.contains(name) {
                write!(
                    assembly,
                    ".globl {name}\n.hidden {name}\n{name}: lea 1f(%rip), %rdi\n\tmov (%rsp), %rsi\n\tjmp sc_missing\n1:\t.asciz \"{name}\"\n"
                )
            } else {
                write!(
                    data,
                    ".balign 64\n.globl {name}\n.hidden {name}\n{name}: .zero 4096\n"
                )
            };
        }
        Ok(assembly + &data + ".section .note.GNU-stack,\"\",@progbits\n")
    }

    fn link(&self, object: &Path) -> Result<(), BuildError> {
        let objects = self.objects()?;
        let missing = self.folder.join("missing.S");
        self.write(&missing, &self.missing(&objects)?)?;
        // Definitions of the tree come before the overlay's stand-ins, and these before defaults
        // of the tree that an architecture is to replace.
        let services = self.out().join("arch/schedcast/core/services.o");
        let weak = self.folder.join("services.o");
        let mut objcopy = Command::new("objcopy");
        self.tool(objcopy.arg("--weaken").args([&services, &weak]))?;
        let others = objects.iter().filter(|object| **object != services);
        let script = self.out().join("arch/schedcast/core/object.lds");
        let linked = self.folder.join("sched.so.new");
        self.tool(
            Command::new("gcc")
                .args([
                    "-shared",
                    "-nostdlib",
                    "-fPIC",
                    "-Wl,-Bsymbolic",
                    "-Wl,--build-id=none",
                ])
                .args([
                    "-Wl,-z,norelro",
                    "-Wl,-z,noexecstack",
                    "-Wl,-z,defs",
                    "-Wl,--no-warn-rwx-segments",
                    "-Wl,--wrap=hrtimer_try_to_cancel",
                ])
                .arg(format!("-Wl,-T,{}", script.display()))
                .arg("-o")
                .arg(&linked)
                .arg(&missing)
                .arg(&weak)
                .args(others)
                .arg("-lc"),
        )?;
        fs::rename(&linked, object).map_err(|error| self.file_error(object, error))
    }

    /// Runs a program that says nothing when all is well.
    fn tool(&self, command: &mut Command) -> Result<(), BuildError> {
        let program = Path::new(command.get_program()).to_path_buf();
        let output = command
            .env("LC_ALL", "C")
            .output()
            .map_err(|error| self.file_error(&program, error))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        self.write(&self.log(), &text)?;
        Err(self.make_error("linking", &text))
    }

    /// Writes down of which files the folder's objects are, in which contents.
    fn record(&self, names: &BTreeSet<String>, is_built: bool) -> Result<(), BuildError> {
        let (hash, lines) = self.contents(names);
        let hash = if is_built { &hash } else { "not built" };
        self.write(&self.sources(), &format!("{hash}\n{lines}"))
    }

    fn sources(&self) -> PathBuf {
        self.folder.join("sources")
    }

    /// Hash of everything that the object is made of, and a line with hash and name of each file.
    fn contents(&self, names: &BTreeSet<String>) -> (String, String) {
        let mut lines = String::new();
        for name in names {
            let _ = writeln!(lines, "{} {name}", self.content(name));
        }
        let mut hasher = DefaultHasher::new();
        overlay::FILES.hash(&mut hasher);
        list("objects").hash(&mut hasher);
        for option in config::own_options(&self.tree) {
            option.hash(&mut hasher);
        }
        lines.hash(&mut hasher);
        (format!("{:016x}", hasher.finish()), lines)
    }

    /// Hash of a file of the tree.
    fn content(&self, name: &str) -> String {
        let mut hasher = DefaultHasher::new();
        let text = fs::read(self.tree.join(name)).unwrap_or_default();
        text.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    /// Names in the record.
    fn recorded_names(&self) -> BTreeSet<String> {
        let text = fs::read_to_string(self.sources()).unwrap_or_default();
        let lines = text.lines().skip(1).filter_map(|line| line.split_once(' '));
        lines.map(|(_, name)| name.to_owned()).collect()
    }

    /// Whether every change since the record is one for `make`, which compares times: a file that
    /// was put back with its old time is older than the object of its other contents.
    fn shows_changes(&self) -> bool {
        let time = |path: &Path| fs::metadata(path).and_then(|about| about.modified());
        let (Ok(text), Ok(recorded)) = (fs::read_to_string(self.sources()), time(&self.sources()))
        else {
            return false;
        };
        let mut lines = text.lines().skip(1).peekable();
        let has_lines = lines.peek().is_some();
        has_lines
            && lines.all(|line| {
                let (hash, name) = line.split_once(' ').unwrap_or_default();
                let is_newer = time(&self.tree.join(name)).is_ok_and(|time| time > recorded);
                is_newer || hash == self.content(name)
            })
    }

    /// Names of the files that were compiled.
    fn compiled_names(&self) -> Result<BTreeSet<String>, BuildError> {
        // Copies are compiled of all but the first.
        let others = ["Makefile", "core.c", "fair.c"];
        let others = others.map(|name| format!("kernel/sched/{name}"));
        let mut names: BTreeSet<String> = others.into();
        for object in self.objects()? {
            let name = object
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let Ok(text) = fs::read_to_string(object.with_file_name(format!(".{name}.cmd"))) else {
                continue;
            };
            names.extend(
                text.split_whitespace()
                    .filter_map(|word| self.in_tree(word)),
            );
        }
        Ok(names)
    }

    /// A word of a dependency file as a path below the tree, if it is one.
    fn in_tree(&self, word: &str) -> Option<String> {
        let name = word.strip_prefix(&format!("{}/", self.farm().display()))?;
        let outside = name.starts_with("arch/schedcast") || name.contains("..");
        (!outside && self.tree.join(name).is_file()).then(|| name.to_string())
    }

    /// Whether the sources are those that the object was made of.
    fn unchanged(&self) -> bool {
        let text = fs::read_to_string(self.sources()).unwrap_or_default();
        let (hash, lines) = self.contents(&self.recorded_names());
        text == format!("{hash}\n{lines}")
    }

    fn make_folder(&self, folder: &Path) -> Result<(), BuildError> {
        fs::create_dir_all(folder).map_err(|error| self.file_error(folder, error))
    }

    /// Writes a file, unless it has that text already: its time says when it changed.
    fn write(&self, path: &Path, text: &str) -> Result<(), BuildError> {
        if fs::read_to_string(path).is_ok_and(|there| there == text) {
            return Ok(());
        }
        fs::write(path, text).map_err(|error| self.file_error(path, error))
    }

    fn file_error(&self, path: &Path, error: io::Error) -> BuildError {
        if error.kind() == io::ErrorKind::StorageFull {
            return BuildError::NoSpace(self.folder.clone());
        }
        BuildError::File(path.to_path_buf(), error)
    }
}

/// The first errors in what the makefiles of the folder `farm` print, each once: `core.c` and
/// `fair.c` are compiled twice, as they are and as copies with hooks.
fn first_errors(text: &str, farm: &str) -> String {
    const SHOWN: usize = 8;
    let telling = |line: &&str| line.contains("error:") || line.contains("undefined reference");
    let mut lines: Vec<&str> = text.lines().filter(telling).collect();
    // A copy is no file that the compiler could read a line of, so it counts a tab as one column.
    lines.sort_by_key(|line| !line.starts_with(farm) && !line.starts_with("../farm/"));
    let mut known = BTreeSet::new();
    let lines = lines
        .into_iter()
        .map(|line| line.replace(farm, "").replace("../farm/", ""));
    let mut lines: Vec<String> = lines
        .filter(|line| known.insert(without_column(line)))
        .take(SHOWN)
        .collect();
    if lines.is_empty() {
        let last = text.lines().rev().take(SHOWN).map(str::to_owned);
        lines = last.collect();
        lines.reverse();
    }
    lines.join("\n")
}

/// `fair.c:7801: error: …` of `fair.c:7801:18: error: …`.
fn without_column(line: &str) -> String {
    let parts: Vec<&str> = line.splitn(4, ':').collect();
    match parts[..] {
        [file, number, column, rest] if column.parse::<u32>().is_ok() => {
            format!("{file}:{number}:{rest}")
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    /// `make` sees a change of a younger file; behind one of an older file everything is compiled
    /// again, and where no record says what the objects were made of.
    #[test]
    fn a_file_that_is_put_back_with_its_old_time_is_no_change_for_make() {
        let folder = tempfile::tempdir().unwrap();
        let builder = Builder {
            tree: folder.path().join("tree"),
            config: Config::default(),
            folder: folder.path().to_path_buf(),
        };
        fs::create_dir_all(&builder.tree).unwrap();
        let path = builder.tree.join("fair.c");
        let put = |text: &str, after_s: i64| {
            fs::write(&path, text).unwrap();
            let file = fs::File::options().append(true).open(&path).unwrap();
            let ago = Duration::from_secs(after_s.unsigned_abs());
            let now = SystemTime::now();
            let time = if after_s < 0 { now - ago } else { now + ago };
            file.set_modified(time).unwrap();
        };
        put("patched", -10);
        assert!(!builder.shows_changes());
        let names = ["fair.c".to_owned()].into();
        for is_built in [false, true] {
            builder.record(&names, is_built).unwrap();
            assert_eq!(builder.unchanged(), is_built);
            for (text, after_s, shows) in [
                ("patched", -10, true),
                ("patched", 10, true),
                ("again", 10, true),
                ("stock", -20, false),
            ] {
                put(text, after_s);
                assert_eq!(builder.shows_changes(), shows, "{text}, {after_s} s");
            }
            fs::remove_file(&path).unwrap();
            assert!(!builder.shows_changes());
            put("patched", -10);
        }
    }

    #[test]
    fn an_error_of_a_file_and_its_copy_is_one() {
        let text = "kernel/sched/fair.c:7801:11: error: no member named 'latency_nice'\n\
                    kernel/sched/fair.c:7900:3: error: stray '@'\n\
                    /cache/farm/kernel/sched/fair.c: In function 'select_idle_sibling':\n\
                    /cache/farm/kernel/sched/fair.c:7801:18: error: no member named 'latency_nice'\n\
                    ../farm/kernel/sched/rt.c:12:1: error: stray '@'\n\
                    make: *** [Makefile:1] Error 2\n";
        let errors = "kernel/sched/fair.c:7801:18: error: no member named 'latency_nice'\n\
                      kernel/sched/rt.c:12:1: error: stray '@'\n\
                      kernel/sched/fair.c:7900:3: error: stray '@'";
        assert_eq!(first_errors(text, "/cache/farm/"), errors);
        let other = "make: *** No rule to make target\nmake: stopped\n";
        assert_eq!(first_errors(other, "/cache/farm/"), other.trim_end());
    }
}
