//! Interface of a program's model once its run is over.
//!
//! A tool ([`Tool`](super::Tool)) compiles a command line and leaves a model behind, mostly the
//! options it read. A new benchmark is a folder with a table of flags, a compiler and this trait,
//! and its line in [`TOOLS`](super::TOOLS).

use std::fmt::Debug;

use super::results::{MetricMap, Results};

/// When a client stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// After this time, with the transaction that is open by then.
    Time(u64),
    /// After so many transactions.
    Transactions(u64),
}

impl Length {
    /// When it ends by itself, if time says so.
    pub(super) fn duration_ns(self) -> Option<u64> {
        match self {
            Length::Time(time_ns) => Some(time_ns),
            Length::Transactions(_) => None,
        }
    }
}

/// A command that was compiled.
pub(super) trait Model: Debug + Send + Sync {
    /// How long it runs at the most if every task gets to run, as far as the command says: the run
    /// time of schbench, the timeout of stress-ng. `None` = until its work is done.
    fn length_ns(&self) -> Option<u64> {
        None
    }

    /// Of a command that runs until it is stopped: what would end it, such as "-r 20".
    fn endless_without(&self) -> Option<&'static str> {
        None
    }

    /// Notes on its file, with places: surprises for its reader.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Names that its tasks' statistics go to.
    fn statistics(&self, name: &str) -> Vec<String> {
        vec![name.to_owned()]
    }

    /// Longest time that an idle CPU may take to wake up while it runs, in microseconds.
    fn idle_latency_limit_us(&self) -> Option<u32> {
        None
    }

    /// Whether what its tasks record is for users as it is; otherwise [`Model::metrics`] makes of
    /// it what they see.
    fn records_for_users(&self) -> bool {
        false
    }

    /// Adds its metrics.
    fn metrics(&self, _results: &Results, _map: &mut MetricMap) {}

    /// Text that the tool would have printed.
    fn report(&self, results: &Results) -> String;
}
