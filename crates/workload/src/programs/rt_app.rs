//! `rt-app FILE`: the file does the work, see [`crate::rtapp`].

use schedcast_sim::workload::TaskSpec;

use super::Results;
use super::command::{CommandError, Tool, Words};
use super::start::Compiler;
use crate::rtapp::compile::{Options, Prices as FilePrices};
use crate::rtapp::{self, log};

/// `rt-app`.
pub static TOOL: Tool = Tool {
    words: &["rt-app"],
    name: "rt-app",
    about: "threads and phases described by a file",
    operands: "FILE",
    flags: &[],
};

/// What became of a file.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// When the run ends, if the file says so.
    pub end_ns: Option<u64>,
    /// Names its tasks' statistics go to.
    pub statistics: Vec<String>,
    /// Whether it wants a log.
    pub logged: bool,
    threads: Vec<String>,
    channel: u16,
}

/// Reads the file and adds what it describes.
pub(super) fn compile(words: &Words, compiler: &mut Compiler) -> Result<Compiled, CommandError> {
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
    let options = Options {
        cpus: start.cpus,
        affinity: start.affinity,
        group: start.group,
        address_space: compiler.free_address_space(),
        start_ns: start.start_ns,
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
        end_ns: compiled.end_ns,
        statistics,
        logged: compiled.logged,
        threads: compiled
            .threads
            .into_iter()
            .map(|thread| thread.name)
            .collect(),
        channel: start.log_channel,
    })
}

impl Compiled {
    /// The logs of all threads, each under the name that rt-app gives its file.
    pub(super) fn report(&self, results: &Results) -> String {
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
