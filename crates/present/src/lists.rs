//! Lists that `schedcast list` prints.

use schedcast_kernel::rules::own::OWN;
use schedcast_kernel::rules::{FEATURES, Origin, TUNABLES, Version, changes as table};
use schedcast_lab::metrics;
use schedcast_sim::Machine;
use schedcast_sim::machine::PRESETS;
use schedcast_workload::programs::{TOOLS, command, prefix};

use crate::tables::wrap;

schedcast_base::named! {
    /// A list.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Listing {
        /// Machine presets.
        Machines = "machines",
        /// Kernel releases and what each brought.
        Kernels = "kernels",
        /// Patches that can be added to a kernel or taken away.
        Patches = "patches",
        /// Benchmarks by their own command lines, with their flags.
        Programs = "programs",
        /// Metrics with unit and meaning.
        Metrics = "metrics",
    }
}

impl Listing {
    /// Its text.
    pub fn text(self) -> String {
        match self {
            Listing::Machines => machines(),
            Listing::Kernels => kernels(),
            Listing::Patches => patches(),
            Listing::Programs => programs(),
            Listing::Metrics => metrics::list(),
        }
    }
}

/// Machine presets with their CPUs.
fn machines() -> String {
    let mut text = format!("{:<16}{:>5}  {}\n", "MACHINE", "CPUS", "WHAT IT IS");
    for (name, file) in PRESETS {
        if let Ok(machine) = Machine::parse(name, file) {
            text += &format!(
                "{name:<16}{:>5}  {}\n",
                machine.topology.cpus(),
                machine.title
            );
        }
    }
    text + "host                 -  this machine, as calibrated by `schedcast calibrate`\n"
}

/// Benchmarks with all their flags.
fn programs() -> String {
    let mut text = command::list(&TOOLS);
    text += &format!("\nIn front of any of them may stand:\n{}", prefix::list());
    for tool in TOOLS {
        text += &format!("\n{}", command::describe(tool));
    }
    text
}

/// Every patch: release that brought it, commit, and a line about it; those of one's own last.
fn patches() -> String {
    let width = name_width();
    let mut text = format!("{:<width$}{:<10}{}\n", "PATCH", "SINCE", "COMMIT");
    for patch in table::all() {
        let since = patch
            .since
            .map_or("-".to_string(), |since| since.release.to_string());
        text += &format!(
            "{:<width$}{since:<10}{}\n",
            patch.name,
            match patch.origin {
                Origin::Commit(id) => id,
                Origin::Release => "release",
                Origin::Posted => "posted",
                Origin::Unpublished => "unpublished",
            }
        );
        text += &wrap("    ", &words(patch.description), 4);
    }
    for patch in OWN {
        text += &format!("{:<width$}{:<10}own\n", patch.name, "-");
        text += &wrap("    ", &words(patch.description), 4);
    }
    text + "\npatches = [\"NAME\"] adds a patch to a kernel without it, [\"-NAME\"] takes it away.\n"
}

/// Columns of the longest name of a patch, and two blanks.
fn name_width() -> usize {
    let names = table::all().map(|patch| patch.name);
    let names = names.chain(OWN.iter().map(|patch| patch.name));
    names.map(str::len).max().unwrap_or(0) + 2
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_string).collect()
}

/// Every release with the patches, features and tunables that came or went with it.
fn kernels() -> String {
    let mut text = format!("{:<8}{}\n", "KERNEL", "WHAT CHANGED");
    for version in Version::releases() {
        let changes = changes(version);
        let changes = if changes.is_empty() {
            vec!["-".to_string()]
        } else {
            changes
        };
        text += &wrap(&format!("{:<8}", version.to_string()), &changes, 8);
    }
    text + "\nLower case: patches. Upper case: features. With _ns, _us, _ms: tunables. A minus: gone.\n"
}

/// Changes that came with a release, then those that it no longer has. The oldest release brings
/// none: its changes were there before.
fn changes(version: Version) -> Vec<String> {
    let releases: Vec<Version> = Version::releases().collect();
    let before = releases.iter().rev().find(|release| **release < version);
    let Some(before) = before.copied() else {
        return Vec::new();
    };
    let patches = table::all().map(|patch| {
        (
            patch.name,
            patch.since.map(|since| since.release),
            patch.last(),
        )
    });
    let features = FEATURES
        .iter()
        .map(|feature| (feature.name, Some(feature.since), feature.until));
    let tunables = TUNABLES
        .iter()
        .map(|tunable| (tunable.name, Some(tunable.since), tunable.until));
    let all: Vec<_> = patches.chain(features).chain(tunables).collect();
    let came = all.iter().filter(|(_, since, _)| *since == Some(version));
    let went = all.iter().filter(|(_, _, until)| *until == Some(before));
    let came = came.map(|(name, ..)| name.to_string());
    came.chain(went.map(|(name, ..)| format!("-{name}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line<'a>(text: &'a str, start: &str) -> &'a str {
        text.lines().find(|line| line.starts_with(start)).unwrap()
    }

    #[test]
    fn lists_fit_a_terminal() {
        for text in [machines(), kernels(), patches()] {
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(100), "{text}");
        }
    }

    /// Text of the list from the line of `version` up to that of `next`.
    fn entry<'a>(text: &'a str, version: &str, next: &str) -> &'a str {
        let start = text.find(&format!("\n{version} ")).unwrap();
        let end = text.find(&format!("\n{next} ")).unwrap();
        &text[start..end]
    }

    #[test]
    fn kernels_say_what_came_and_went() {
        let kernels = kernels();
        let mut of_5_14 = entry(&kernels, "5.14", "5.15").split_whitespace();
        assert!(of_5_14.any(|name| name == "burst"), "{kernels}");
        let eevdf = entry(&kernels, "6.6", "6.7");
        assert!(eevdf.contains("base_slice_ns"), "{kernels}");
        assert!(eevdf.contains("-latency_ns"), "{kernels}");
        assert_eq!(line(&kernels, "4.5"), "4.5     -");
        assert!(kernels[kernels.find("\n6.18 ").unwrap()..].contains("task-throttle"));
    }

    #[test]
    fn patches_say_where_they_come_from() {
        let patches = patches();
        for (name, since, source) in [
            ("burst ", "5.14", "f4183717b370"),
            ("pstate-holdoff", "-", "posted"),
            ("vcpu-pack", "-", "unpublished"),
            ("waker-sibling", "-", "own"),
        ] {
            let width = name_width();
            let expected = format!("{name:<width$}{since:<10}{source}");
            assert_eq!(line(&patches, name), expected);
        }
        let row = line(&patches, "no-redo-without-imbalance ");
        assert_eq!(row.split_whitespace().nth(1), Some("4.20"));
        assert!(machines().contains("generic-8           8  "));
    }
}
