//! The `global` object.
//!
//! Most of it is about rt-app itself, not about the workload. These keys matter to a forecast:
//! `duration` is the horizon, `calibration` turns `run` into work, `default_policy` and
//! `pi_enabled` reach the scheduler, `mem_buffer_size` and `cumulative_slack` the log.
//!
//! A file without `global` differs from one with an empty `global` in one point, taken over from
//! rt-app: it writes no log.

use super::ast::{Calibration, Global, Located, Note, Policy};
use super::error::{Fault, Span, quoted};
use super::fields::{Fields, INTEGER_MAX, object};
use super::json::{Kind, Value};
use schedcast_base::names::suggestion;

/// Every key of `global`. The last three are relics without effect that stand in many files.
pub(super) const KEYS: [&str; 16] = [
    "duration",
    "calibration",
    "default_policy",
    "pi_enabled",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
    "spacing",
    "frag",
    "fragment",
];

const WITHOUT_EFFECT: [&str; 3] = ["spacing", "frag", "fragment"];

const FTRACE_CATEGORIES: [&str; 7] = ["main", "task", "run", "loop", "stats", "event", "attrs"];

/// Words of `log_size`, and whether there is a log. rt-app never implemented `auto`.
const LOG_SIZES: [(&str, bool); 3] = [("file", true), ("disable", false), ("auto", true)];

const MEM_BUFFER_BYTES_DEFAULT: u32 = 4 << 20;

/// Defaults of a file without a `global` object. `span` is where a message may point to.
pub(super) fn absent(span: Span) -> Global {
    Global {
        duration_s: None,
        calibration: Calibration::Cpu(0),
        default_policy: Policy::Other,
        pi_enabled: Located { value: false, span },
        is_logged: false,
        io_device: String::from("/dev/null"),
        mem_buffer_bytes: MEM_BUFFER_BYTES_DEFAULT,
        cumulative_slack: false,
    }
}

/// Reads the `global` object.
pub(super) fn read(value: &Value, notes: &mut Vec<Note>) -> Result<Global, Fault> {
    let fields = Fields::new("`global`", object("`global`", value)?, &KEYS)?;
    let mut global = absent(value.span);
    if let Some(seconds) = fields.integer("duration", -1..=INTEGER_MAX)? {
        global.duration_s = u32::try_from(seconds.value)
            .ok()
            .filter(|seconds| *seconds > 0);
    }
    if let Some(calibration) = calibration(&fields)? {
        global.calibration = calibration;
    }
    if let Some(policy) = fields.choice("default_policy", &Policy::choices())? {
        global.default_policy = policy.value;
    }
    global.is_logged = log_size(&fields)?.unwrap_or(true);
    check_ftrace(&fields)?;
    if let Some(inherit) = fields.boolean("pi_enabled")? {
        global.pi_enabled = inherit;
    }
    fields.boolean("lock_pages")?;
    fields.boolean("gnuplot")?;
    if let Some(is_sum) = fields.boolean("cumulative_slack")? {
        global.cumulative_slack = is_sum.value;
    }
    fields.string("logdir")?;
    fields.string("log_basename")?;
    if let Some(device) = fields.string("io_device")? {
        global.io_device = device.value.to_owned();
    }
    if let Some(bytes) = fields.integer("mem_buffer_size", 1..=INTEGER_MAX)? {
        global.mem_buffer_bytes = u32::try_from(bytes.value).unwrap_or(u32::MAX);
    }
    for key in WITHOUT_EFFECT {
        if let Some(span) = fields.span(key) {
            let message = format!("rt-app 1.0 and later ignore `{key}`");
            notes.push(Note { span, message });
        }
    }
    Ok(global)
}

fn calibration(fields: &Fields<'_>) -> Result<Option<Calibration>, Fault> {
    let Some(member) = fields.member("calibration") else {
        return Ok(None);
    };
    let calibration = match &member.value.kind {
        // rt-app cannot tell 0 from "not said".
        Kind::Integer(0) => Some(Calibration::Cpu(0)),
        Kind::Integer(number) => u32::try_from(*number)
            .ok()
            .filter(|number| i64::from(*number) <= INTEGER_MAX)
            .map(Calibration::NanosecondsPerLoop),
        Kind::String(text) => text
            .strip_prefix("CPU")
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok())
            .map(Calibration::Cpu),
        _ => None,
    };
    let expected = "a CPU such as \"CPU0\" or the nanoseconds of one loop";
    let mismatch = || fields.mismatch("calibration", &member.value, expected);
    calibration.map(Some).ok_or_else(mismatch)
}

/// Whether `log_size` asks for a log.
fn log_size(fields: &Fields<'_>) -> Result<Option<bool>, Fault> {
    let Some(member) = fields.member("log_size") else {
        return Ok(None);
    };
    match &member.value.kind {
        Kind::Integer(_) => {
            // rt-app counts the buffer's bytes in an `int`. A buffer of no bytes is how it notes
            // "disable".
            let size = fields.integer("log_size", 0..=INTEGER_MAX >> 20)?;
            Ok(size.map(|size| size.value > 0))
        }
        Kind::String(_) => {
            let size = fields.choice("log_size", &LOG_SIZES)?;
            Ok(size.map(|size| size.value))
        }
        _ => {
            let expected = "a number of MiB or one of \"file\", \"disable\", \"auto\"";
            Err(fields.mismatch("log_size", &member.value, expected))
        }
    }
}

fn check_ftrace(fields: &Fields<'_>) -> Result<(), Fault> {
    let Some(member) = fields.member("ftrace") else {
        return Ok(());
    };
    let Value { kind, span } = &member.value;
    let list = match kind {
        Kind::Bool(_) => return Ok(()),
        Kind::String(list) => list,
        _ => {
            let expected = "a list of categories such as \"main,task\", or a boolean";
            return Err(fields.mismatch("ftrace", &member.value, expected));
        }
    };
    let mut words = list.split(',').map(str::trim);
    let is_known = |word: &str| ["", "none"].contains(&word) || FTRACE_CATEGORIES.contains(&word);
    let Some(word) = words.find(|word| !is_known(word)) else {
        return Ok(());
    };
    let hint = suggestion(word, &FTRACE_CATEGORIES);
    let word = quoted(word);
    let message = format!("\"ftrace\" of `global`: unknown category {word}; {hint}");
    Err(Fault::new(*span, message))
}
