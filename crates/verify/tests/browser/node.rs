//! A node with ten neighbours, its page and its server.

use std::path::Path;

use schedcast_lab::question::{Columns, Question, Setting, Subject};
use schedcast_lab::recording::Recorded;

/// The programs beside the service.
pub(crate) const NEIGHBOURS: [&str; 10] = [
    "ledger",
    "mailer",
    "indexer",
    "thumbnails",
    "metrics",
    "cronjobs",
    "search",
    "billing",
    "session",
    "archiver",
];

/// Question about the effect of a burst on the service of the node.
pub(crate) fn question(seeds: u32) -> Question {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/ten-neighbours");
    let recorded = Recorded::open(&folder).unwrap();
    let set = |text: &str| vec![Setting::Set(text.to_string())];
    Question {
        cgroup: Some("/tenants/checkout".to_string()),
        columns: Columns {
            leading: Vec::new(),
            variants: vec![
                ("burst 20 ms".to_string(), set("cpu.max.burst=20000")),
                ("quota 60 ms".to_string(), set("cpu.max=60000")),
            ],
        },
        seeds: Some(seeds),
        ..Question::of(Subject::Recording(recorded))
    }
}
