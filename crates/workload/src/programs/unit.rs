//! `systemd-run`: a command in a group of its own, with the limits of a unit.
//!
//! Worked example: `systemd-run --scope -p CPUQuota=50% -p Nice=5 hackbench -g
//! 2` starts `hackbench` with nice value 5 in `/system.slice/run-hackbench.scope`, whose `cpu.max` is `50000
//! 100000`. The reader of the experiment makes the group; the attributes of the process are set
//! here.

use schedcast_base::names::suggestion;

use super::command::{CommandError, Given, Words, policy_of};
use super::prefix::{Machine, Prefixes};

/// The group of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// It is a scope, which inherits from the shell, and no service.
    pub scope: bool,
    /// Its name; `None` = made of the program's.
    name: Option<String>,
    slice: Option<String>,
    /// Files of its group and what is in them.
    pub files: Vec<(&'static str, String)>,
}

impl Unit {
    /// Path of its group, for a program of this name.
    pub fn path(&self, program: &str) -> String {
        let kind = if self.scope { "scope" } else { "service" };
        let name = match &self.name {
            Some(name) => name.trim_end_matches(&format!(".{kind}")).to_owned(),
            None => format!("run-{program}"),
        };
        let slice = self.slice.as_deref().unwrap_or("system");
        let slice = slice.trim_end_matches(".slice");
        // `a-b.slice` lies in `a.slice`, and `-.slice` is the root.
        let mut path = String::new();
        let ends = slice.match_indices('-').map(|(end, _)| end);
        for end in ends
            .chain([slice.len()])
            .filter(|&end| end > 0 && slice != "-")
        {
            path += &format!("/{}.slice", &slice[..end]);
        }
        format!("{path}/{name}.{kind}")
    }
}

/// Name of the prefix.
pub(super) const NAME: &str = "systemd-run";

const PROPERTIES: [&str; 8] = [
    "CPUQuota",
    "CPUQuotaPeriodSec",
    "CPUWeight",
    "AllowedCPUs",
    "Nice",
    "CPUSchedulingPolicy",
    "CPUSchedulingPriority",
    "CPUAffinity",
];
/// Beginnings of properties whose subjects are not modelled.
const OTHER_SUBJECTS: [(&str, &str); 4] = [
    ("Memory", "memory is not modelled"),
    ("IO", "disks have no limits in the model"),
    ("Tasks", "the number of tasks is not limited in the model"),
    ("Runtime", "the run has a length of its own: `--duration`"),
];

/// Reads the flags of `systemd-run`.
pub(super) fn apply(
    words: &Words,
    prefixes: &mut Prefixes,
    machine: &Machine,
) -> Result<(), CommandError> {
    if prefixes.unit.is_some() {
        return Err(words.error("a unit cannot be started within another"));
    }
    let text = |key: &str| words.last(key).map(|given| given.text().to_owned());
    let mut unit = Unit {
        scope: words.has("scope"),
        name: text("unit"),
        slice: text("slice"),
        files: Vec::new(),
    };
    if let Some(given) = words.last("nice") {
        prefixes.nice = nice(given, given.text())?;
    }
    let (mut quota, mut period_us, mut priority) = (None, 100_000, 0);
    for given in words
        .given
        .iter()
        .filter(|given| given.flag.key() == "property")
    {
        let Some((name, value)) = given.text().split_once('=') else {
            return Err(given.expected("NAME=VALUE, such as `CPUQuota=50%`"));
        };
        let bad = |what: &str| given.error(format!("`{name}` needs {what}, found `{value}`"));
        match name {
            "CPUQuota" => quota = Some(percent(value).ok_or_else(|| bad("a share such as `50%`"))?),
            "CPUQuotaPeriodSec" => {
                let time = period(value).filter(|us| (1000..=1_000_000).contains(us));
                period_us = time.ok_or_else(|| bad("a time from 1ms to 1s"))?;
            }
            "CPUWeight" if value == "idle" => unit.files.push(("cpu.idle", "1".into())),
            "CPUWeight" => {
                let weight = value
                    .parse::<u32>()
                    .ok()
                    .filter(|w| (1..=10_000).contains(w));
                weight.ok_or_else(|| bad("`idle` or a whole number from 1 to 10000"))?;
                unit.files.push(("cpu.weight", value.to_owned()));
            }
            "AllowedCPUs" => {
                let cpus = value.split_whitespace().collect::<Vec<_>>().join(",");
                unit.files.push(("cpuset.cpus", cpus));
            }
            "Nice" => prefixes.nice = nice(given, value)?,
            "CPUSchedulingPolicy" => {
                let policy =
                    policy_of(value).ok_or_else(|| bad("other, batch, idle, fifo or rr"))?;
                prefixes.policy = Some((policy, 0));
            }
            "CPUSchedulingPriority" => {
                let number = value
                    .parse()
                    .ok()
                    .filter(|number| (1..=99).contains(number));
                priority = number.ok_or_else(|| bad("a whole number from 1 to 99"))?;
            }
            "CPUAffinity" => {
                let list = value.split_whitespace().collect::<Vec<_>>().join(",");
                let set = super::command::cpus(&list, machine.cpus);
                let what = format!("CPUs of 0 to {}", machine.cpus.saturating_sub(1));
                prefixes.affinity = Some(set.ok_or_else(|| bad(&what))?);
            }
            _ => return Err(unknown(given, name)),
        }
    }
    if let Some(hundredths) = quota {
        // At least a millisecond, as systemd has it.
        let quota_us = (hundredths * period_us / 10_000).max(1000);
        unit.files
            .push(("cpu.max", format!("{quota_us} {period_us}")));
    }
    if let Some((policy, level)) = &mut prefixes.policy {
        // A real-time service without a priority has the lowest.
        *level = if policy.is_rt() { priority.max(1) } else { 0 };
    }
    prefixes.unit = Some(unit);
    Ok(())
}

fn unknown(given: &Given, name: &str) -> CommandError {
    let other = OTHER_SUBJECTS
        .iter()
        .find(|(begin, _)| name.starts_with(begin));
    given.error(match other {
        Some((_, why)) => format!("property `{name}` cannot be forecast: {why}"),
        None => format!(
            "unknown property `{name}`; {}",
            suggestion(name, &PROPERTIES)
        ),
    })
}

fn nice(given: &Given, text: &str) -> Result<i32, CommandError> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (-20..=19).contains(number));
    number.ok_or_else(|| given.error(format!("a nice value is -20 to 19, found `{text}`")))
}

/// Hundredths of a percent, of which systemd knows two digits.
fn percent(text: &str) -> Option<u64> {
    let (whole, part) = text
        .strip_suffix('%')?
        .split_once('.')
        .unwrap_or((text.strip_suffix('%')?, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 2 {
        return None;
    }
    let whole: u64 = whole.parse().ok().filter(|whole| *whole <= 1_000_000)?;
    let part: u64 = format!("{part:0<2}").parse().ok()?;
    Some(whole * 100 + part).filter(|share| *share > 0)
}

/// Microseconds of a time such as `20ms`; seconds without a unit.
fn period(text: &str) -> Option<u64> {
    let units = [("us", 1), ("ms", 1000), ("s", 1_000_000), ("", 1_000_000)];
    let (digits, unit) = units.iter().find_map(|(suffix, unit)| {
        let digits = text.strip_suffix(suffix)?;
        digits
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then_some((digits, unit))
    })?;
    digits.parse::<u64>().ok()?.checked_mul(*unit)
}
