//! The file with the given figures.

use std::path::{Path, PathBuf};

use schedcast_base::quantile::{MEDIAN, nearest_rank};
use schedcast_lab::error::{Error, Place, Result, Source};
use schedcast_lab::experiment::document::{self, Entry, Kind, Table, Value};
use schedcast_lab::experiment::machine::preset_source;

const KEYS: [&str; 5] = ["machine", "kernel", "run", "cgroup", "figure"];
const FIGURE_KEYS: [&str; 5] = ["run", "set", "metric", "measured", "constant"];
/// Runs of each benchmark where `[run]` says nothing: the phases of timers differ.
const SEEDS: u32 = 3;

/// Figures that were measured on a machine, and the description they complete.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Name and text of the preset that is described otherwise.
    pub preset: (String, String),
    /// Directory that relative paths start from.
    pub(super) directory: PathBuf,
    /// Machine and kernel of all runs.
    pub(super) base: Table,
    pub(super) given: Vec<Given>,
    /// Runs of each benchmark; `None`: as `[run]` says.
    pub(super) seeds: Option<u32>,
}

/// One result and the constant that it decides.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub command: String,
    pub metric: String,
    pub constant: String,
    /// Results of the repeats, sorted.
    measured: Vec<f64>,
    /// Settings that hold for this run.
    pub layers: Vec<Table>,
    pub place: Place,
    run: Value,
}

/// Reads the file.
///
/// # Errors
/// A file that cannot be read, unknown and missing keys, a preset that does not exist, no figures.
pub(crate) fn read(path: &Path) -> Result<Figures> {
    let shown = path.display().to_string();
    let text = schedcast_base::whole::text(path)?;
    let source = Source::new(shown, text);
    let mut base = document::parse(&source)?;
    base.refuse_unknown(&KEYS, "a file of figures")?;
    let directory = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let whole = Place::new(&source, 0..0);
    let Some(figures) = base.take("figure") else {
        return Err(Error::input(&whole, "no [[figure]] to fit anything to"));
    };
    let figures = figures.value.array("[[figure]] sections")?;
    let machine = base.get("machine").map(|value| value.table("[machine]"));
    let machine = machine.transpose()?;
    if let Some(machine) = machine {
        // Other keys changed here would be missing in the preset that is written.
        machine.refuse_unknown(&["preset"], "[machine] of a file of figures")?;
    }
    let Some(preset) = machine.and_then(|table| table.get("preset")) else {
        let error = Error::input(&whole, "which machine do the figures complete?");
        return Err(error.hint("for example [machine] and preset = \"generic-8\""));
    };
    let name = preset.text("the name or the path of a machine preset")?;
    let preset = preset_source(name, Some(preset), &directory)?;
    let run = base.get("run").map(|value| value.table("[run]"));
    let told = run
        .transpose()?
        .is_some_and(|run| run.get("seeds").is_some());
    Ok(Figures {
        preset: (name.to_owned(), preset.text.clone()),
        directory,
        given: figures.iter().map(given).collect::<Result<_>>()?,
        base,
        seeds: (!told).then_some(SEEDS),
    })
}

fn given(value: &Value) -> Result<Given> {
    let table = value.table("a [[figure]]")?;
    table.refuse_unknown(&FIGURE_KEYS, "[[figure]]")?;
    let need = |key: &str| {
        table.get(key).ok_or_else(|| {
            let keys = "run, metric, measured and constant";
            Error::input(&value.place, format!("a [[figure]] without `{key}`"))
                .hint(format!("it needs {keys}"))
        })
    };
    let run = need("run")?;
    let constant = need("constant")?;
    let name = constant.text("a constant, such as \"cost.context_switch_ns\"")?;
    if name.split('.').count() != 2 {
        let error = Error::input(&constant.place, format!("`{name}` is not SECTION.KEY"));
        return Err(error.hint("such as cost.context_switch_ns, as in machines/*.toml"));
    }
    let mut layers = Vec::new();
    if let Some(set) = table.get("set") {
        for setting in set.array("settings, such as [\"machine.cpus=1\"]")? {
            let setting = setting.text("a setting, such as \"machine.cpus=1\"")?;
            layers.push(document::parse_setting(&Source::new("set", setting), None)?);
        }
    }
    Ok(Given {
        command: run.text("a command line")?.to_owned(),
        metric: need("metric")?.text("a metric, PROGRAM/METRIC")?.to_owned(),
        constant: name.to_owned(),
        measured: numbers(need("measured")?)?,
        layers,
        place: value.place.clone(),
        run: run.clone(),
    })
}

/// A result, or those of several repeats, sorted.
fn numbers(value: &Value) -> Result<Vec<f64>> {
    let number = |value: &Value| match value.kind {
        Kind::Integer(number) if number > 0 => Ok(number as f64),
        Kind::Float(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err(value.expected("a number above 0")),
    };
    let mut all = match &value.kind {
        Kind::Array(values) if !values.is_empty() => {
            values.iter().map(number).collect::<Result<Vec<f64>>>()?
        }
        _ => vec![number(value)?],
    };
    all.sort_by(f64::total_cmp);
    Ok(all)
}

impl Given {
    /// Of an even number of repeats the lower one of the two in the middle.
    pub(super) fn median(&self) -> f64 {
        nearest_rank(&self.measured, MEDIAN).unwrap_or(f64::NAN)
    }

    /// The smallest and the largest repeat.
    pub(super) fn range(&self) -> (f64, f64) {
        (self.measured[0], self.measured[self.measured.len() - 1])
    }

    /// The experiment that runs the command alone.
    pub(super) fn document(&self, base: &Table) -> Table {
        let run = Entry {
            key: "run".to_owned(),
            key_place: self.place.clone(),
            value: self.run.clone(),
        };
        let program = Value {
            kind: Kind::Table(Table { entries: vec![run] }),
            place: self.place.clone(),
        };
        let mut document = base.clone();
        document.entries.push(Entry {
            key: "program".to_owned(),
            key_place: self.place.clone(),
            value: Value {
                kind: Kind::Array(vec![program]),
                place: self.place.clone(),
            },
        });
        document
    }

    /// No value of the constant gives what was measured.
    pub(crate) fn out_of_reach(&self, wanted: f64, at_none: f64, at_most: f64) -> Error {
        let (metric, constant) = (&self.metric, &self.constant);
        let message = format!("no {constant} makes {metric} {wanted}");
        Error::input(&self.place, message).hint(format!(
            "it is {at_none:.6} with 0 and {at_most:.6} with the largest value tried: is it the right constant, and \
             the right machine otherwise?"
        ))
    }
}
