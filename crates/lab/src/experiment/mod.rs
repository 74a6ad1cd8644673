//! Experiment files: from TOML text to one typed [`Scenario`] per variant.
//!
//! ```toml
//! title = "What a 100 ms burst buffer does to schbench under a one-CPU limit"
//!
//! [machine]
//! preset = "generic-8"
//!
//! [kernel]
//! version = "5.14"
//!
//! [cgroup."/test"]
//! "cpu.max" = "100000 100000"
//!
//! [[program]]
//! run = "schbench-classic -m 1 -t 3 -r 20 -c 80000 -R 10"
//! cgroup = "/test"
//!
//! [[variant]]
//! name = "no burst"
//!
//! [[variant]]
//! name = "burst 100 ms"
//! [variant.cgroup."/test"]
//! "cpu.max.burst" = 100000
//!
//! [run]
//! seeds = 10
//! duration = "20s"
//! ```
//!
//! has two scenarios, which differ in `burst_us` of `/test` alone: 0 and 100,000. A variant is a
//! layer over the document, as are a recording below it and a `--set` above it; every value keeps
//! the place it was written at, so each mistake is reported where it was made.

use std::path::{Path, PathBuf};

use schedcast_base::whole;

pub mod cgroup;
mod clash;
pub mod document;
pub mod kernel;
pub mod keys;
pub mod machine;
pub mod program;
pub mod scenario;
pub mod service;
pub mod sweep;
#[cfg(test)]
pub(crate) mod tests;
pub mod unit;
pub mod units;

use self::document::{Entry, Kind, Table, Value};
use self::keys::{Key, Takes, keys, names};
pub use self::scenario::{Scenario, TimedChange};
use crate::error::{Error, Place, Result, Source};

/// Keys at the top of an experiment file.
const DOCUMENT_KEYS: [Key; 9] = keys! {
    "title" => Takes::Words("text"), "", "One line about the experiment.";
    "machine" => Takes::Words("table"), "`preset = \"generic-8\"`",
        "Machine that the programs run on.";
    "kernel" => Takes::Words("table"), "the default release", "Kernel whose scheduler decides.";
    "cgroup" => Takes::Words("tables by path"), "no groups", "Groups and their limits.";
    "program" => Takes::Words("tables"), "none", "Programs that run.";
    "variant" => Takes::Words("tables"), "one, the file itself", "The columns that are compared.";
    "at" => Takes::Words("tables"), "none", "Changes while programs run.";
    "sweep" => Takes::Words("table of arrays"), "none", "A grid of values.";
    "run" => Takes::Words("table"), "", "How long and how often.";
};

/// Keys of `[[variant]]` besides [`VARYING_KEYS`].
#[cfg(test)]
const VARIANT_KEYS: [Key; 1] = keys! {
    "name" => Takes::Words("one line of text"), "required",
        "Name of the column, unique in the experiment.";
};

/// Keys that a variant, a `--set` or a sweep axis can change.
pub(crate) const VARYING_KEYS: [&str; 6] = ["machine", "kernel", "cgroup", "program", "at", "run"];

/// Seeds of an experiment that does not say how many.
pub(crate) const DEFAULT_SEEDS: u32 = 10;

/// The name of the only variant of an experiment that has none.
pub(crate) const SINGLE_VARIANT: &str = "run";

/// A column that the command line adds: `--variant NAME` and the `--set`s after it.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtraVariant {
    /// Its name.
    pub name: String,
    /// Its settings, later ones over earlier ones.
    pub layers: Vec<Table>,
}

/// Defaults and places around a document when it is read.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Directory that relative paths start from.
    pub directory: PathBuf,
    /// Layers below the document: what a recording says about its machine, kernel and cgroups.
    pub below: Vec<Table>,
    /// Layers over the document and its variants: `--set` before the first `--variant`.
    pub settings: Vec<Table>,
    /// Whether `settings` are meant for one of the document's variants. If they are for all, a
    /// variant that sets the same is refused.
    pub for_one_variant: bool,
    /// Layers over these that hold whatever a variant says: `--seeds` and `--duration`.
    pub run: Vec<Table>,
    /// Columns added after the document's own.
    pub variants: Vec<ExtraVariant>,
    /// Name of the plain document where it has no variants; [`SINGLE_VARIANT`] if empty.
    pub plain_variant: String,
}

/// An experiment, ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The title; empty if there is none.
    pub title: String,
    /// How often each variant runs, with seeds 0 to `seeds` − 1.
    pub seeds: u32,
    /// True if the number of seeds was not given, so that a comparison may add seeds where effects
    /// are small.
    pub seeds_are_default: bool,
    /// One scenario per variant and grid point, the first variant being the baseline.
    pub scenarios: Vec<Scenario>,
    /// The axes of `[sweep]`; empty without a grid.
    pub axes: Vec<sweep::Axis>,
    /// Where each scenario lies in the grid, one for each of `scenarios`.
    pub cells: Vec<Cell>,
}

impl Experiment {
    /// Groups with a limit in any scenario.
    pub(crate) fn limited_groups(&self) -> Vec<String> {
        let groups = self.scenarios.iter().flat_map(|scenario| &scenario.cgroups);
        let limited = groups.filter(|(_, group)| group.limits.quota_us.is_some());
        let paths: std::collections::BTreeSet<&String> = limited.map(|(path, _)| path).collect();
        paths.into_iter().cloned().collect()
    }
}

/// The place of a scenario in an experiment with a grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Name of the variant, without the point.
    pub variant: String,
    /// The value on every axis.
    pub values: Vec<Value>,
}

/// A file that [`load`] reads; some verbs take the folder of a recording besides.
const EXPECTED: &str =
    "expected the file of an experiment (TOML), or a recording where the verb takes one";

/// Reads an experiment file.
///
/// # Errors
/// [`Error::File`] if it cannot be read, otherwise as [`read`].
pub fn load(path: &Path, mut surroundings: Surroundings) -> Result<Experiment> {
    let shown = path.display().to_string();
    refuse_others(path, &shown)?;
    let text = whole::read(path).map_err(|error| {
        let error = Error::file("read", &shown, &error);
        error.hint(whole::instead_of(path, EXPECTED))
    })?;
    let text = String::from_utf8(text).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        Error::general(format!("{shown} is not text: byte {valid} is not UTF-8"))
    })?;
    surroundings.directory = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let document = document::parse(&Source::new(shown.as_str(), text))?;
    if document.entries.is_empty() {
        let empty = Error::general(format!("{shown} is empty: it describes no experiment"));
        let hint = "an experiment has at least one [[program]] with run = \"…\"";
        return Err(empty.hint(hint));
    }
    read(&document, &surroundings)
}

/// Refuses what another verb takes, saying which.
fn refuse_others(path: &Path, shown: &str) -> Result<()> {
    let refuse = |what: &str, verb: &str| {
        let error = Error::usage(format!("{shown} is {what}, not an experiment file"));
        Err(error.hint(format!("type: schedcast {verb}")))
    };
    if path.join("recording.json").exists() {
        return refuse("a recording", &format!("what-if {shown}"));
    }
    if path.extension().is_some_and(|end| end == "json") {
        return refuse("JSON", &format!("run -- rt-app {shown}"));
    }
    let words = [shown.to_string()];
    if !path.exists() && schedcast_workload::programs::tool(&words).is_ok() {
        return refuse("a program", &format!("run -- {shown}"));
    }
    Ok(())
}

/// First parts of the keys that `--set` takes.
pub(crate) fn root_keys() -> impl Iterator<Item = &'static str> {
    VARYING_KEYS.into_iter()
}

/// Whether an experiment has a key of this name.
pub(crate) fn is_root_key(name: &str) -> bool {
    DOCUMENT_KEYS.iter().any(|key| key.name == name)
}

/// The experiment of a text that is all there is; errors call it `name`.
///
/// # Errors
/// As [`read`], and what is no TOML.
pub fn read_text(name: &str, text: impl Into<String>) -> Result<Experiment> {
    let document = document::parse(&Source::new(name, text))?;
    read(&document, &Surroundings::default())
}

/// Turns a document into scenarios.
///
/// # Errors
/// The first mistake, with its place: unknown keys, wrong types, values the kernel would refuse,
/// duplicate names.
pub fn read(document: &Table, surroundings: &Surroundings) -> Result<Experiment> {
    document.refuse_unknown(&names(&DOCUMENT_KEYS), "an experiment")?;
    let title = match document.get("title") {
        Some(value) => value.text("a title")?.to_string(),
        None => String::new(),
    };
    let axes = match scenario::section(document, "sweep")? {
        Some(section) => sweep::read(section, &VARYING_KEYS)?,
        None => Vec::new(),
    };
    let mut variants = read_variants(document, &surroundings.plain_variant)?;
    let own = variants.len();
    add_variants(&mut variants, &surroundings.variants)?;
    let (below, over) = shared_layers(document, surroundings)?;
    if !surroundings.for_one_variant && variants.len() > 1 {
        clash::refuse_in_variants(&surroundings.settings, &variants[..own])?;
    }
    clash::refuse_in_axes(&surroundings.settings, &axes)?;
    let base: Vec<Table> = below.iter().chain(&over).cloned().collect();
    let (mut columns, mut cells) = (Vec::new(), Vec::new());
    for (row, (variant, layers)) in variants.iter().enumerate() {
        for point in sweep::points(&axes) {
            let mut all = below.clone();
            // Settings are for the columns of the document, which a column may set anew.
            let [lower, upper] = match row < own {
                true => [layers, &over],
                false => [&over, layers],
            };
            all.extend(lower.iter().chain(upper).cloned());
            all.push(point.layer);
            columns.push((column_name(variant, variants.len(), &point.label), all));
            cells.push(Cell {
                variant: variant.clone(),
                values: point.values,
            });
        }
    }
    let build = |(name, layers): &(String, Vec<Table>)| {
        scenario::build(name, layers, &surroundings.directory)
    };
    let mut scenarios: Vec<Scenario> = columns.iter().map(build).collect::<Result<_>>()?;
    if scenarios.iter().any(|one| one.kernel.tree.is_some()) {
        for (_, layers) in &mut columns {
            layers.iter_mut().for_each(without_recorded_patches);
        }
        scenarios = columns.iter().map(build).collect::<Result<_>>()?;
        for scenario in &mut scenarios {
            scenario.machine.machine.leave_out_what_trees_lack();
        }
    }
    Ok(Experiment {
        title,
        seeds: read_seeds(&base)?.unwrap_or(DEFAULT_SEEDS),
        seeds_are_default: read_seeds(&base)?.is_none(),
        scenarios,
        axes,
        cells,
    })
}

/// Takes away what a recording says of its kernel's patches. A tree has them or not, by itself, and
/// the columns of one table differ in what their user asked for only.
fn without_recorded_patches(layer: &mut Table) {
    for entry in layer
        .entries
        .iter_mut()
        .filter(|entry| entry.key == "kernel")
    {
        if let document::Kind::Table(kernel) = &mut entry.value.kind {
            kernel
                .entries
                .retain(|entry| entry.key != "recorded_patches");
        }
    }
}

/// The layers that all variants share: what lies below with the document itself, and what the
/// command line sets over a variant of the document.
fn shared_layers(
    document: &Table,
    surroundings: &Surroundings,
) -> Result<(Vec<Table>, Vec<Table>)> {
    let mut varying = document.clone();
    varying
        .entries
        .retain(|entry| VARYING_KEYS.contains(&entry.key.as_str()));
    let mut below = surroundings.below.clone();
    below.push(varying);
    let over = surroundings.settings.iter().chain(&surroundings.run);
    let over: Vec<Table> = over.cloned().collect();
    for layer in below.iter().chain(&over) {
        check_layer(layer, "a setting")?;
        check_run_keys(layer)?;
    }
    Ok((below, over))
}

fn check_layer(layer: &Table, inside: &str) -> Result<()> {
    layer.refuse_unknown(&VARYING_KEYS, inside)
}

fn check_run_keys(layer: &Table) -> Result<()> {
    match scenario::section(layer, "run")? {
        Some(run) => run.refuse_unknown(&names(&scenario::RUN_KEYS), "[run]"),
        None => Ok(()),
    }
}

fn column_name(variant: &str, variants: usize, point: &str) -> String {
    match (variants, point.is_empty()) {
        (_, true) => variant.to_string(),
        (1, false) => point.to_string(),
        (_, false) => format!("{variant}, {point}"),
    }
}

/// The variants of the document, each with its layer; one without settings if there are none.
fn read_variants(document: &Table, plain: &str) -> Result<Vec<(String, Vec<Table>)>> {
    let Some(value) = document.get("variant") else {
        let name = if plain.is_empty() {
            SINGLE_VARIANT
        } else {
            plain
        };
        return Ok(vec![(name.to_string(), Vec::new())]);
    };
    let mut variants: Vec<(String, Vec<Table>)> = Vec::new();
    for value in value.array("[[variant]] sections")? {
        let mut layer = value.table("a [[variant]] section")?.clone();
        let Some(name) = layer.take("name") else {
            return Err(Error::input(&value.place, "a variant needs a `name`"));
        };
        let text = variant_name(&name.value)?;
        if variants.iter().any(|(other, _)| other == text) {
            let message = format!("two variants are named `{text}`");
            return Err(Error::input(&name.value.place, message));
        }
        let name = text.to_string();
        check_variant(&layer)?;
        variants.push((name, vec![layer]));
    }
    Ok(variants)
}

fn check_variant(layer: &Table) -> Result<()> {
    check_layer(layer, "a variant")?;
    check_run_keys(layer)?;
    let seeds = scenario::section(layer, "run")?.and_then(|run| run.entry("seeds"));
    match seeds {
        Some(entry) => Err(
            Error::input(&entry.key_place, "all variants run with the same seeds")
                .hint("they are compared seed by seed; set seeds in [run]"),
        ),
        None => Ok(()),
    }
}

fn variant_name(value: &Value) -> Result<&str> {
    let text = value.text("a name")?;
    if text.trim().is_empty() || text.contains(char::is_control) {
        return Err(Error::input(
            &value.place,
            "a variant's name is one line of text",
        ));
    }
    Ok(text)
}

fn add_variants(variants: &mut Vec<(String, Vec<Table>)>, extra: &[ExtraVariant]) -> Result<()> {
    for added in extra {
        if variants.iter().any(|(name, _)| *name == added.name) {
            return Err(Error::usage(format!(
                "two variants are named `{}`",
                added.name
            )));
        }
        for layer in &added.layers {
            check_variant(layer)?;
        }
        variants.push((added.name.clone(), added.layers.clone()));
    }
    Ok(())
}

/// `[run] seeds` of the highest layer that sets it, if one does.
fn read_seeds(layers: &[Table]) -> Result<Option<u32>> {
    let mut seeds = None;
    for layer in layers {
        if let Some(value) = scenario::section(layer, "run")?.and_then(|run| run.get("seeds")) {
            seeds = Some(keys::whole(&scenario::RUN_KEYS, "seeds", value)?);
        }
    }
    Ok(seeds.and_then(|seeds| u32::try_from(seeds).ok()))
}

/// A document for an experiment without a file: `command` as its only program, in `cgroup`.
pub fn command_document(command: &[String], cgroup: Option<&str>) -> Table {
    let text = command
        .iter()
        .map(|word| units::quote_word(word))
        .collect::<Vec<_>>()
        .join(" ");
    let place = Place::new(
        &Source::of_command_line("command", text.clone()),
        0..text.len(),
    );
    let string = |text: &str| Value::new(Kind::Text(text.into()), place.clone());
    let words = Kind::Array(command.iter().map(|word| string(word)).collect());
    let mut program = vec![("run", Value::new(words, place.clone()))];
    let Some(path) = cgroup else {
        return program_document(program, &place);
    };
    let group_place = Place::new(&Source::of_command_line("--cgroup", path), 0..path.len());
    let group = Value::new(Kind::Text(path.into()), group_place.clone());
    program.push(("cgroup", group));
    let mut document = program_document(program, &place);
    if path != "/" {
        let empty = Value::new(Kind::Table(Table::default()), group_place.clone());
        let parts = ["cgroup".to_string(), path.to_string()];
        document.merge(&document::nest(&parts, &group_place, empty));
    }
    document
}

/// Name of the source that is a recording asked about, without a file that replays it.
pub(crate) const RECORDING: &str = "recording";

/// A document that replays the recording in `folder` and nothing else.
pub(crate) fn replay_document(folder: &str) -> Table {
    let place = Place::new(&Source::new(RECORDING, folder), 0..folder.len());
    let replay = Value::new(Kind::Text(folder.into()), place.clone());
    let name = Value::new(Kind::Text("recording".into()), place.clone());
    program_document(vec![("name", name), ("replay", replay)], &place)
}

fn program_document(keys: Vec<(&str, Value)>, place: &Place) -> Table {
    let entry = |key: &str, value: Value| Entry::new(key, place.clone(), value);
    let entries = keys
        .into_iter()
        .map(|(key, value)| entry(key, value))
        .collect();
    let section = Value::new(Kind::Table(Table { entries }), place.clone());
    let programs = Value::new(Kind::Array(vec![section]), place.clone());
    Table {
        entries: vec![entry("program", programs)],
    }
}
