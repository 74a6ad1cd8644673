//! The `global` object.
//!
//! Most of it is about rt-app itself, not about the workload. These keys matter to a forecast:
//! `duration` is the horizon, `calibration` turns `run` into work, `default_policy` and
//! `pi_enabled` reach the scheduler, `mem_buffer_size` and `cumulative_slack` the log.
//!
//! A file without `global` differs from one with an empty `global` in one point, taken over from
//! rt-app: it writes no log.

use super::ast::{Calibration, FtraceCategory, Global, Located, LogSize, Note, Policy};
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

const FTRACE_CATEGORIES: [(&str, FtraceCategory); 7] = [
    ("main", FtraceCategory::Main),
    ("task", FtraceCategory::Task),
    ("run", FtraceCategory::Run),
    ("loop", FtraceCategory::Loop),
    ("stats", FtraceCategory::Stats),
    ("event", FtraceCategory::Event),
    ("attrs", FtraceCategory::Attrs),
];

const LOG_SIZES: [(&str, LogSize); 3] = [
    ("file", LogSize::File),
    ("disable", LogSize::Disabled),
    ("auto", LogSize::File),
];

const MEM_BUFFER_BYTES_DEFAULT: u32 = 4 << 20;

/// Defaults of a file without a `global` object. `span` is where a message may point to.
pub(super) fn absent(span: Span) -> Global {
    Global {
        duration_s: None,
        calibration: Calibration::Cpu(0),
        default_policy: Policy::Other,
        pi_enabled: Located { value: false, span },
        lock_pages: true,
        logdir: String::from("./"),
        log_basename: String::from("rt-app"),
        log_size: LogSize::Disabled,
        ftrace: Vec::new(),
        gnuplot: false,
        io_device: String::from("/dev/null"),
        mem_buffer_bytes: MEM_BUFFER_BYTES_DEFAULT,
        cumulative_slack: false,
    }
}

/// Reads the `global` object.
pub(super) fn read(value: &Value, notes: &mut Vec<Note>) -> Result<Global, Fault> {
    let fields = Fields::new("`global`", object("`global`", value)?, &KEYS)?;
    let mut global = absent(value.span);
    global.log_size = LogSize::File;
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
    if let Some(log_size) = log_size(&fields)? {
        global.log_size = log_size;
    }
    if let Some(categories) = ftrace(&fields)? {
        global.ftrace = categories;
    }
    if let Some(inherit) = fields.boolean("pi_enabled")? {
        global.pi_enabled = inherit;
    }
    read_switches(&fields, &mut global)?;
    read_texts(&fields, &mut global)?;
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

fn read_switches(fields: &Fields<'_>, global: &mut Global) -> Result<(), Fault> {
    let switches = [
        ("lock_pages", &mut global.lock_pages),
        ("gnuplot", &mut global.gnuplot),
        ("cumulative_slack", &mut global.cumulative_slack),
    ];
    for (key, target) in switches {
        if let Some(switch) = fields.boolean(key)? {
            *target = switch.value;
        }
    }
    Ok(())
}

fn read_texts(fields: &Fields<'_>, global: &mut Global) -> Result<(), Fault> {
    let texts = [
        ("logdir", &mut global.logdir),
        ("log_basename", &mut global.log_basename),
        ("io_device", &mut global.io_device),
    ];
    for (key, target) in texts {
        if let Some(text) = fields.string(key)? {
            *target = text.value.to_owned();
        }
    }
    Ok(())
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

fn log_size(fields: &Fields<'_>) -> Result<Option<LogSize>, Fault> {
    let Some(member) = fields.member("log_size") else {
        return Ok(None);
    };
    match &member.value.kind {
        // A buffer of no bytes is how rt-app itself notes "disable".
        Kind::Integer(0) => Ok(Some(LogSize::Disabled)),
        Kind::Integer(_) => {
            // rt-app counts the buffer's bytes in an `int`.
            let size = fields.integer("log_size", 0..=INTEGER_MAX >> 20)?;
            Ok(size.map(|size| LogSize::Mebibytes(u32::try_from(size.value).unwrap_or(u32::MAX))))
        }
        Kind::String(_) => Ok(fields
            .choice("log_size", &LOG_SIZES)?
            .map(|size| size.value)),
        _ => {
            let expected = "a number of MiB or one of \"file\", \"disable\", \"auto\"";
            Err(fields.mismatch("log_size", &member.value, expected))
        }
    }
}

fn ftrace(fields: &Fields<'_>) -> Result<Option<Vec<FtraceCategory>>, Fault> {
    let Some(member) = fields.member("ftrace") else {
        return Ok(None);
    };
    let every = || {
        FTRACE_CATEGORIES
            .iter()
            .map(|(_, category)| *category)
            .collect()
    };
    match &member.value.kind {
        Kind::Bool(true) => Ok(Some(every())),
        Kind::Bool(false) => Ok(Some(Vec::new())),
        Kind::String(list) => ftrace_categories(list, member.value.span).map(Some),
        _ => {
            let expected = "a list of categories such as \"main,task\", or a boolean";
            Err(fields.mismatch("ftrace", &member.value, expected))
        }
    }
}

fn ftrace_categories(list: &str, span: Span) -> Result<Vec<FtraceCategory>, Fault> {
    let mut categories = Vec::new();
    for word in list.split(',').map(str::trim) {
        if word.is_empty() || word == "none" {
            continue;
        }
        match FTRACE_CATEGORIES.iter().find(|(name, _)| *name == word) {
            Some((_, category)) => categories.push(*category),
            None => {
                let names = FTRACE_CATEGORIES.map(|(name, _)| name);
                let message = format!(
                    "\"ftrace\" of `global`: unknown category {}; {}",
                    quoted(word),
                    suggestion(word, &names)
                );
                return Err(Fault::new(span, message));
            }
        }
    }
    categories.sort_unstable();
    categories.dedup();
    Ok(categories)
}
