//! Files of rt-app: what they mean, what is refused, and the programs they become.

mod compile;
mod errors;
mod examples;
mod grammar;
mod ideal;
mod meaning;
mod robust;

use schedcast_workload::rtapp::{File, Task, parse};

const EVERY_EVENT: &str = include_str!("fixtures/every-event.json");
const OBSOLETE: &str = include_str!("fixtures/obsolete.json");

fn read(text: &str) -> File {
    parse("w.json", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// A file with one task whose members are given.
fn task(members: &str) -> Task {
    let file = read(&format!("{{'tasks':{{'a':{{{members}}}}}}}"));
    file.tasks.into_iter().next().expect("one task")
}
