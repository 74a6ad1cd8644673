//! `rt-app FILE`: the file does the work, see [`crate::rtapp`].

use std::sync::Arc;

use schedcast_sim::workload::TaskSpec;

use super::Results;
use super::command::{CommandError, Tool, Words};
use super::model::Model;
use super::start::Compiler;
use crate::rtapp::compile::{Prices as FilePrices, RtAppOptions};
use crate::rtapp::{self, log};

/// `rt-app`.
pub static TOOL: Tool = Tool {
    words: &["rt-app"],
    name: "rt-app",
    about: "threads and phases described by a file",
    operands: "FILE",
    compile: |words, compiler| Ok(Arc::new(compile(words, compiler)?)),
};

/// Result of compiling a file.
#[derive(Debug)]
struct Compiled {
    length_ns: Option<u64>,
    endless: bool,
    notes: Vec<String>,
    statistics: Vec<String>,
    threads: Vec<String>,
    channel: u16,
}

/// Reads the file and adds what it describes.
fn compile(words: &Words, compiler: &mut Compiler) -> Result<Compiled, CommandError> {
    let (file, word) = match words.operands.as_slice() {
        [] => return Err(words.error("needs a file: `rt-app FILE`")),
        [file] => file,
        [_, (second, word), ..] => {
            let message = format!("one file at a time; `{second}` is the second");
            return Err(CommandError::new(TOOL.name, *word, message));
        }
    };
    let start = compiler.start;
    let refuse = |message: String| CommandError::new(TOOL.name, *word, message);
    let file =
        rtapp::load(&start.directory.join(file)).map_err(|error| refuse(error.to_string()))?;
    let options = RtAppOptions {
        cpus: start.cpus,
        capacities: start.capacities.clone(),
        affinity: start.affinity,
        group: start.group,
        address_space: compiler.free_address_space(),
        start_ns: start.start_ns,
        has_clamps: start.kernel_has_clamps,
        prices: FilePrices {
            calibrated_loop_permille: start.prices.rt_app_loop_permille,
            memset_byte_ps: start.prices.memset_byte_ps,
            ..FilePrices::default()
        },
        log_channel: start.log_channel,
    };
    let before = compiler.workload.tasks.len();
    let compiled = rtapp::compile::compile(&file, &options, compiler.workload)
        .map_err(|error| refuse(error.to_string()))?;
    let name_of = |task: &TaskSpec| task.statistics.clone().unwrap_or_else(|| task.name.clone());
    let mut statistics: Vec<String> = compiler.workload.tasks[before..]
        .iter()
        .map(name_of)
        .chain(file.tasks.iter().map(|task| task.name.clone()))
        .collect();
    statistics.sort();
    statistics.dedup();
    Ok(Compiled {
        endless: compiled.end_ns.is_none() && file.tasks.iter().any(is_endless),
        length_ns: compiled.end_ns.map(|end_ns| end_ns - start.start_ns),
        notes: file
            .notes
            .iter()
            .map(|note| format!("{}:{}: {}", file.name, note.span, note.message))
            .collect(),
        statistics,
        threads: compiled
            .threads
            .into_iter()
            .map(|thread| thread.name)
            .collect(),
        channel: start.log_channel,
    })
}

fn is_endless(task: &rtapp::Task) -> bool {
    task.instances > 0 && task.repeat == rtapp::Repeat::Forever
}

impl Model for Compiled {
    fn length_ns(&self) -> Option<u64> {
        self.length_ns
    }

    fn endless_without(&self) -> Option<&'static str> {
        self.endless
            .then_some("a `duration` in the file's `global`")
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn statistics(&self, _name: &str) -> Vec<String> {
        self.statistics.clone()
    }

    fn records_for_users(&self) -> bool {
        true
    }

    /// The logs of all threads, each under the name that rt-app gives its file.
    fn report(&self, results: &Results) -> String {
        let kept = results.probes.log.as_deref().unwrap_or_default();
        let rows: Vec<log::Row> = kept
            .iter()
            .filter(|row| row.channel == self.channel)
            .filter_map(|row| log::Row::from_registers(&row.values, results.start_ns))
            .collect();
        let mut text = String::new();
        for (number, name) in self.threads.iter().enumerate() {
            text += &format!("==> rt-app-{name}.log <==\n{}\n", log::HEADER);
            for row in rows.iter().filter(|row| row.index == number as u64) {
                text += &format!("{row}\n");
            }
        }
        text
    }
}
