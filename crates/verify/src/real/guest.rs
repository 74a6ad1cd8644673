//! This program in a virtual machine, where it runs scenarios for real under another kernel.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schedcast_host::server;
use schedcast_host::vm::{self, Accelerator, Done, KernelImage, Order};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Scenario;
use schedcast_lab::experiment::document::{Table, flag_setting};
use schedcast_lab::question::Setting;

use super::{MeasuredRepeats, Purpose, limit, note, tools, words_of};

/// Where the settings come from, in messages.
const FLAG: &str = "--on";
/// A minute on this host; a translated guest takes ten to twenty times as long for some of it.
const CALIBRATION: Duration = Duration::from_secs(1200);
/// A guest may take so much longer than its programs run: it may be emulated.
const SLOWNESS: u32 = 20;

/// The keys that make a simulation one of the kernel in `image`, on as many CPUs as the guest can
/// have.
fn keys(image: &KernelImage) -> Vec<([&'static str; 2], String)> {
    let mut keys = vec![(["kernel", "version"], image.version.clone())];
    keys.extend(image.hz.map(|hz| (["kernel", "hz"], hz.to_string())));
    let preempt = image.preempt.map(str::to_owned);
    keys.extend(preempt.map(|model| (["kernel", "preempt"], model)));
    keys.extend(emulated(Accelerator::here()));
    keys
}

/// The keys that an emulated guest has besides: its one CPU, and time in which programs start,
/// which takes them longer.
fn emulated(accelerator: Accelerator) -> Vec<([&'static str; 2], String)> {
    match accelerator {
        Accelerator::Kvm | Accelerator::Threads => Vec::new(),
        Accelerator::Emulation => vec![
            (["machine", "cpus"], "1".to_owned()),
            (["run", "warmup"], "500ms".to_owned()),
        ],
    }
}

/// Layers over an experiment that is read inside a guest.
pub fn guest_layers() -> Vec<Table> {
    let keys = Accelerator::around().map(emulated).unwrap_or_default();
    let layer = |(key, value): ([&'static str; 2], String)| flag_setting(FLAG, key, &value);
    keys.into_iter().map(layer).collect()
}

/// Layers over an experiment that make it one of the kernel in `image`.
pub fn layers(image: &KernelImage) -> Vec<Table> {
    let layer = |(key, value): ([&'static str; 2], String)| flag_setting(FLAG, key, &value);
    keys(image).into_iter().map(layer).collect()
}

/// The same as settings of a question.
pub fn settings(image: &KernelImage) -> Vec<Setting> {
    flags(keys(image))
}

/// The same as [`guest_layers`], as settings of a question.
pub fn guest_settings() -> Vec<Setting> {
    flags(Accelerator::around().map(emulated).unwrap_or_default())
}

fn flags(keys: Vec<([&'static str; 2], String)>) -> Vec<Setting> {
    let setting = |(key, argument)| Setting::Flag {
        flag: FLAG,
        key,
        argument,
    };
    keys.into_iter().map(setting).collect()
}

/// Refuses variants that name a kernel of their own.
///
/// # Errors
/// The first such variant.
pub fn refuse_other_kernels(image: &KernelImage, scenarios: &[Scenario]) -> Result<()> {
    let other = |scenario: &&Scenario| scenario.kernel.release().to_string() != image.version;
    match scenarios.iter().find(other) {
        None => Ok(()),
        Some(scenario) => {
            let (name, version) = (&scenario.name, scenario.kernel.release());
            let message = format!(
                "`{name}` is of kernel {version}, and the guest's is {}",
                image.version
            );
            Err(Error::general(message).hint("leave kernel.version out of the variants"))
        }
    }
}

/// How this program measures scenarios once more inside a guest.
#[derive(Debug)]
pub struct GuestCall<'a> {
    /// Its arguments.
    pub words: Vec<OsString>,
    /// Files that it reads.
    pub files: Vec<&'a Path>,
}

/// Kernel of a guest that has all that `scenarios` need, and the figures that `call` measures in
/// it.
///
/// # Errors
/// A tool that is not installed, no qemu, a guest that fails; its complaints are part of the
/// message.
pub(super) fn measure(
    image: &KernelImage,
    scenarios: &[Scenario],
    (repeats, purpose): (u32, Purpose<'_>),
    call: &GuestCall<'_>,
) -> Result<(String, Vec<MeasuredRepeats>)> {
    scenarios
        .iter()
        .try_for_each(|one| refuse_inner_programs(one, purpose))?;
    let once: Duration = scenarios.iter().map(|one| limit(one, purpose)).sum();
    let mut order = order(cpus(scenarios)?, once * (2 * repeats + 1) * SLOWNESS)?;
    order.words.extend(call.words.iter().cloned());
    order.files = call.files.iter().map(|path| path.to_path_buf()).collect();
    for program in scenarios.iter().flat_map(|scenario| &scenario.programs) {
        let words = words_of(program, order.cpus)?;
        if server::is_client(&words) {
            let message = "a virtual machine has no server for it";
            let error = Error::input(&program.action.place, message);
            return Err(error.hint("clients of databases and web servers run on the host only"));
        }
        if let Some(tool) = words.first() {
            tools::find(tool)?;
            order.tools.push(tool.clone());
        }
        let named = words.iter().skip(1).map(PathBuf::from);
        order.files.extend(named.filter(|path| path.is_file()));
    }
    let done = printed(vm::run(image, &order)?)?;
    let lines = done.stdout.lines().map(serde_json::from_str);
    let measured: std::result::Result<Vec<MeasuredRepeats>, _> = lines.collect();
    let measured = measured.map_err(|error| {
        Error::general(format!(
            "the guest printed something else than results: {error}"
        ))
    })?;
    if measured.len() != scenarios.len() {
        let (got, wanted) = (measured.len(), scenarios.len());
        let message = format!("the guest measured {got} of {wanted} variants");
        return Err(Error::general(message));
    }
    if matches!(purpose, Purpose::Shown) && done.accelerator == Accelerator::Emulation {
        note("the guest was emulated: latencies and speeds are the emulator's");
    }
    let (version, accelerator) = (&image.version, done.accelerator.name());
    let kernel = format!("{version} in a virtual machine ({accelerator})");
    Ok((kernel, measured))
}

/// Refuses a program in a group that has others below it, which a kernel refuses when it is there:
/// `cgroup.procs` of a group that hands a controller on is busy. The root group of a machine may
/// hold programs, the own one of a run that is shown may not.
fn refuse_inner_programs(scenario: &Scenario, purpose: Purpose<'_>) -> Result<()> {
    let is_below = |group: &str, path: &str| {
        let prefix = if path == "/" { "" } else { path };
        let rest = group.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    for program in &scenario.programs {
        let path = program.cgroup.as_str();
        if path == "/" && !matches!(purpose, Purpose::Shown) {
            continue;
        }
        if let Some(below) = scenario.cgroups.keys().find(|group| is_below(group, path)) {
            let message = format!(
                "it starts in {path}, and a kernel has no programs beside the group {below}"
            );
            let error = Error::input(&program.action.place, message);
            return Err(error.hint("give it a group that has none below it: cgroup = \"/other\""));
        }
    }
    Ok(())
}

/// An order for this program, without arguments.
fn order(cpus: usize, limit: Duration) -> Result<Order> {
    let own = std::env::current_exe().map_err(|error| Error::file("find", "schedcast", &error))?;
    Ok(Order {
        words: vec![own.into()],
        cpus,
        limit,
        ..Order::default()
    })
}

/// Machine file that `schedcast calibrate` writes in a guest with `cpus` CPUs.
///
/// # Errors
/// No qemu, no such kernel, a guest that fails.
pub fn calibrated(series: &str, cpus: usize) -> Result<String> {
    let image = KernelImage::find(series)?;
    let mut order = order(cpus, CALIBRATION)?;
    order
        .words
        .extend(["calibrate", "--output=-"].map(OsString::from));
    printed(vm::run(&image, &order)?).map(|done| done.stdout)
}

/// Output of a guest that ended well.
fn printed(done: Done) -> Result<Done> {
    match done.code {
        0 => Ok(done),
        code => {
            let message = format!("in the virtual machine it ended with {code}");
            Err(Error::general(message).hint(done.stderr.trim()))
        }
    }
}

/// The CPUs of the machine, which are those of the guest.
fn cpus(scenarios: &[Scenario]) -> Result<usize> {
    let mut all: Vec<usize> = scenarios.iter().map(|one| one.machine.cpus()).collect();
    all.sort_unstable();
    all.dedup();
    match all.as_slice() {
        [cpus] => Ok(*cpus),
        _ => {
            let message = format!(
                "the variants are for machines of {all:?} CPUs, and a guest has one number"
            );
            Err(Error::general(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_contains;
    use schedcast_lab::experiment;

    #[test]
    fn a_program_beside_groups_is_refused_before_a_guest_boots() {
        let said = |cgroup: &str| {
            let text = format!(
                "[cgroup.\"/a\"]\n[cgroup.\"/b/c\"]\n[[program]]\nrun = \"hackbench -g 1\"\ncgroup = \"{cgroup}\"\n"
            );
            let experiment = experiment::read_text("vm.toml", text).unwrap();
            let refused = refuse_inner_programs(&experiment.scenarios[0], Purpose::Shown);
            refused.map_err(|error| error.to_string()).err()
        };
        for (cgroup, below) in [("/", "/a"), ("/b", "/b/c")] {
            let said = said(cgroup).unwrap();
            assert!(said.contains(&format!("starts in {cgroup}, and")), "{said}");
            assert_contains(&said, &format!("beside the group {below} "));
        }
        assert_eq!((said("/a"), said("/b/c")), (None, None));
    }
}
