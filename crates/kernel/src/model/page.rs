//! The page `docs/model.md`, written from the table.

use super::Mark;

/// The page `docs/model.md`: every rule, by part.
fn page() -> String {
    let mut text = format!("{INTRODUCTION}{}\n", contents());
    let mut part = "";
    for mark in Mark::ALL {
        let about = mark.about();
        if about.part != part {
            part = about.part;
            text += &format!(
                "\n## {part}\n\n| rule | kernel function | versions | file | mark |\n|---|---|---|---|---|\n"
            );
        }
        text += &format!(
            "| {} | `{}` | {} | `{}` | `{}` |\n",
            about.says,
            about.function,
            about.versions(),
            about.file,
            about.name
        );
    }
    text
}

/// The parts in their order, as links to their headings.
fn contents() -> String {
    let mut parts: Vec<&str> = Mark::ALL.iter().map(|mark| mark.about().part).collect();
    parts.dedup();
    let links = parts.iter().map(|part| {
        let place = part.to_lowercase().replace(':', "").replace(' ', "-");
        format!("[{part}](#{place})")
    });
    links.collect::<Vec<String>>().join(" · ")
}

const INTRODUCTION: &str = "\
# The model, rule by rule

*Which rules of the scheduler does the simulator know, and of which releases?*

Every rule of the scheduler that the simulator knows, one row each:

| column | what it says |
|---|---|
| rule | what the rule says |
| kernel function | where the kernel has it, under the name of 6.18 |
| versions | the releases it holds in; a dash at the end: to this day; behind a semicolon, stable series that got or lost it |
| file | where it is in `crates/kernel/src` |
| mark | its name in `schedcast explain`, which prints the mark of the rule that decided, and the function under the name that the simulated release has for it |

For example: a task wakes on 6.12 and goes back to its previous CPU, which is idle and near. `explain` says `PrevIdle`; the row of that mark
says `select_idle_sibling` and `select/sibling.rs`.

The code of a rule says when it is reached, in builds with debug assertions, and a test collects what the tests of `crates/kernel` reach: every
mark. [How far to trust a forecast](validity.md#what-is-not-modelled) lists what is not modelled. This page is written from the table in
`crates/kernel/src/model/table.rs`.

Waits are no rules and have no mark: a wakeup waits for the lock of a queue whose CPU switches, a switch for the wakeup or the interrupt
that another CPU is at, and a task that is still being switched away from (`on_cpu`) is handed to its CPU (from 5.8) or placed when that is over.

";

/// `make renew` writes the page anew.
#[test]
fn the_page_is_that_of_the_table() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/model.md");
    if std::env::var_os("RENEW").is_some() {
        std::fs::write(file, page()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), page());
}
