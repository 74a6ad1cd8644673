//! Keys of the experiment file: what each takes, in which bounds, and what stands for it when it is
//! missing.
//!
//! The readers take names and bounds of keys from these rows, and `docs/formats/experiment.md` is
//! written from them.

use super::document::Value;
use crate::error::Result;

/// A key.
#[derive(Clone, Copy)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Values that the key accepts.
    pub takes: Takes,
    /// Effect of leaving the key out, for the page.
    pub default: &'static str,
    /// Meaning of the key, in a sentence or two.
    pub about: &'static str,
}

/// Values that a key accepts.
#[derive(Clone, Copy)]
pub enum Takes {
    /// Values described by these words.
    Words(&'static str),
    /// A whole number from the first to the second, with its unit.
    Whole(i64, i64, &'static str),
    /// A number from the first to the second, with its unit.
    Number(f64, f64, &'static str),
}

/// A table of keys, a row each: name, accepted values, default, meaning.
macro_rules! keys {
    ($($name:expr => $takes:expr, $default:expr, $about:expr;)*) => {
        [$($crate::experiment::keys::Key {
            name: $name,
            takes: $takes,
            default: $default,
            about: $about,
        }),*]
    };
}
pub(crate) use keys;

/// `true` or `false`.
pub(crate) const SWITCH: Takes = Takes::Words("`true` or `false`");
/// A duration.
pub(crate) const TIME: Takes =
    Takes::Words("a duration: `\"20s\"`, `\"1.5ms\"`; ns, us, ms, s, min, h");

/// Names of the keys, in the order of the rows.
pub fn names(keys: &[Key]) -> Vec<&'static str> {
    keys.iter().map(|key| key.name).collect()
}

fn row<'a>(keys: &'a [Key], name: &str) -> &'a Key {
    let found = keys.iter().find(|key| key.name == name);
    found.unwrap_or_else(|| unreachable!("`{name}` is read and has no row"))
}

/// Reads a whole number within the bounds of its row.
///
/// # Errors
/// Something else, with its place.
pub(crate) fn whole(keys: &[Key], name: &str, value: &Value) -> Result<i64> {
    match row(keys, name).takes {
        Takes::Whole(least, most, _) => value.integer_in(least, most, name),
        _ => value.integer(name),
    }
}

/// Reads a number within the bounds of its row.
///
/// # Errors
/// Something else, with its place.
pub(crate) fn number(keys: &[Key], name: &str, value: &Value) -> Result<f64> {
    match row(keys, name).takes {
        Takes::Number(least, most, _) => super::service::number_of(value, name, least, most),
        _ => super::service::number_of(value, name, f64::MIN, f64::MAX),
    }
}

#[cfg(test)]
mod page {
    use std::fmt::Write;

    use schedcast_kernel::rules::{DEFAULT, DOMAIN_TUNABLES, TUNABLES};

    use super::super::{DOCUMENT_KEYS, cgroup, kernel, machine, program, scenario, service};
    use super::{Key, Takes};

    const INTRODUCTION: &str = "\
# An experiment's file

*Which keys has an experiment, in which units, with which defaults and bounds?*

`schedcast compare`, `sweep`, `explain` and `validate` read such a file; [compare](../commands/compare.md) begins with one. An
unknown key is refused, with its place and the nearest valid name. `--set KEY=VALUE` writes the same keys dotted:
`kernel.hz=1000`, `program.NAME.start=2s`, `cgroup.\"/a\".\"cpu.max\"=50%`. A relative path of `preset`, `background` or
`replay` starts at the file's folder, one on the command line and one among the words of `run` where schedcast is called. This page is written from the rows that the readers use.
";

    fn takes(key: &Key) -> String {
        let unit = |unit: &str| match unit {
            "" => String::new(),
            unit => format!(" {unit}"),
        };
        match key.takes {
            Takes::Words(words) => words.to_string(),
            Takes::Whole(least, most, of) => format!("{least} to {most}{}", unit(of)),
            Takes::Number(least, most, of) => {
                format!("{least} to {most}{}, a fraction too", unit(of))
            }
        }
    }

    fn section(heading: &str, about: &str, keys: &[Key], text: &mut String) {
        write!(
            text,
            "\n## {heading}\n\n{about}\n\n| key | value | default | meaning |\n|---|---|---|---|\n"
        )
        .unwrap();
        for key in keys {
            let (name, default, about) = (key.name, key.default, key.about);
            writeln!(text, "| `{name}` | {} | {default} | {about} |", takes(key)).unwrap();
        }
    }

    fn tunables(text: &mut String) {
        *text += &format!(
            "\nTunables of the scheduler are keys of `[kernel]`, too, under their name in debugfs or as a sysctl. Their defaults are \
             those of the release and of the number of CPUs; `schedcast list kernels` shows which release has which. The default \
             version is {DEFAULT}.\n\n| key | value | releases | meaning |\n|---|---|---|---|\n"
        );
        for one in TUNABLES {
            let until = one.until.map_or(String::new(), |until| until.to_string());
            let (name, sysctl, since) = (one.name, one.sysctl, one.since);
            let names = match name == sysctl {
                true => format!("`{name}`"),
                false => format!("`{name}`, `{sysctl}`"),
            };
            let (least, most, about) = (one.least, one.most, one.description);
            writeln!(
                text,
                "| {names} | {least} to {most} | {since} – {until} | {about} |"
            )
            .unwrap();
        }
        *text += "\nNumbers of domains stand in a table for each level, `[kernel.domains.MC]` or \
                  `--set kernel.domains.MC.busy_factor=4`: `SMT` (the threads of a core), `CLS` (a level 2 cache), `MC` (the \
                  last level cache), `PKG` (called `DIE` before 6.7), `NODE` and `NUMA` (all distances between nodes). debugfs \
                  has them in `domains/cpu*/domain*`; here they hold for every CPU. A level that the machine does not have is \
                  refused.\n\n| key | value | default | meaning |\n|---|---|---|---|\n";
        let defaults = [
            "110 for `SMT`, 117 for `CLS` and `MC`; 117 for others, 125 before 5.10",
            "0 for `SMT`, 2 for `NUMA`, 1 for others",
            "16; 32 before 5.10",
            "as many as the domain has CPUs",
            "twice as many",
        ];
        for (one, default) in DOMAIN_TUNABLES.iter().zip(defaults) {
            let name = one.name.rsplit('.').next().unwrap_or_default();
            let (least, most, about) = (one.least, one.most, one.description);
            writeln!(
                text,
                "| `{name}` | {least} to {most} | {default} | {about} |"
            )
            .unwrap();
        }
    }

    fn page() -> String {
        let mut text = INTRODUCTION.to_string();
        let mut add = |heading: &str, about: &str, keys: &[Key]| {
            section(heading, about, keys, &mut text);
        };
        add(
            "At the top",
            "All keys are optional, but without a program nothing runs.",
            &DOCUMENT_KEYS,
        );
        add(
            "`[machine]`",
            "A preset and what is changed in it. The tables of [a machine's file](machine.md) may be written here, \
             too, and are laid over the preset: `[machine.cost]`, `[machine.topology]` and so on.",
            &machine::KEYS,
        );
        add(
            "`[kernel]`",
            "The release, how it was built, and what is switched or set in it.",
            &kernel::KEYS,
        );
        tunables(&mut text);
        let mut add = |heading: &str, about: &str, keys: &[Key]| {
            section(heading, about, keys, &mut text);
        };
        add(
            "`[cgroup.\"/path\"]`",
            "Values that are written to the files of a cpu cgroup. Groups above it are made as well. Values are read as the kernel reads them, \
             and what it would refuse is refused with its errno. The files of cgroup v1 and v2 are not mixed in one group.",
            &cgroup::keys(),
        );
        add(
            "`[[program]]`",
            "A program has exactly one of `run`, `replay` and `profile`.",
            &program::KEYS,
        );
        add(
            "`[program.profile]`",
            "A stationary service, as `schedcast profile` writes it. It has either `rate` or `clients`. A list of quantiles \
             is 1 to 10000 ascending numbers at equal steps of probability; one number is the same every time.",
            &service::KEYS,
        );
        add(
            "`[[variant]]`",
            "A column. Besides its name it has the sections `machine`, `kernel`, `cgroup`, `program`, `at` and `run`, \
             laid over those of the file; a program is addressed by its name. The first variant is the baseline.",
            &super::super::VARIANT_KEYS,
        );
        add(
            "`[[at]]`",
            "A change while the programs run. Machine, programs and `[run]` stay.",
            &scenario::AT_KEYS,
        );
        add(
            "`[run]`",
            "How long and how often. A variant cannot change `seeds`.",
            &scenario::RUN_KEYS,
        );
        text += "\n## `[sweep]`\n\nEach key is a dotted key of the sections above and has an array of values: \
                 `\"kernel.version\" = [\"6.6\", \"6.12\"]`. All combinations are run, up to 100000, the last key fastest.\n";
        text
    }

    /// UPDATE_REFERENCE=1 renews the page.
    #[test]
    fn the_page_is_that_of_the_rows() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/formats/experiment.md"
        );
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            std::fs::write(file, page()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(file).unwrap_or_default(), page());
    }
}
