//! Published tables beside ours, in the layout they were published in.
//!
//! Worked example, mmtests: 309.82 → 327.01 MB/s prints as `309.82    327.01 (  5.55%)`, and ours
//! next to it in the same form; the error is the difference of both changes, here in points.

use schedcast_lab::metrics::Better;

use super::accept::{Layout, number};
use super::prediction::Prediction;
use super::published::{Kernel, Published, Role, Row};

/// A published figure and ours: base and patched.
struct Line<'a> {
    label: String,
    base: Option<&'a Row>,
    patched: Option<&'a Row>,
}

/// One cell of a table.
pub(super) type Cells = Vec<String>;

/// A table, ready to be printed: heading, then lines.
pub(super) struct Table {
    pub title: String,
    pub note: &'static str,
    pub heading: Cells,
    pub lines: Vec<Cells>,
}

/// The published table called `name` beside ours.
pub(super) fn table(
    published: &Published,
    prediction: &Prediction,
    name: &str,
    layout: Layout,
) -> Table {
    let lines = lines(published, name);
    let two_kernels = lines.iter().any(|line| line.patched.is_some());
    let mut heading: Cells = vec![String::new(), "published".into()];
    if two_kernels {
        heading.push("patched".into());
    }
    heading.push("ours".into());
    if two_kernels {
        heading.push("patched".into());
    }
    heading.push("error".into());
    Table {
        title: name.to_string(),
        note: match layout {
            Layout::Mmtests => "positive is better, as in mmtests; error in points of the change",
            Layout::Lkp => "raw change, as in lkp; error in points of the change",
            Layout::Schbench => "percentiles as schbench prints them; error of the value",
            Layout::Plain => "error in points of the change, or of the value",
        },
        heading,
        lines: lines
            .iter()
            .map(|line| cells(line, prediction, layout, two_kernels))
            .collect(),
    }
}

/// Names of the tables, in the order they were published.
pub(super) fn names(published: &Published) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in &published.rows {
        if !names.contains(&row.question.table.as_str()) {
            names.push(&row.question.table);
        }
    }
    names
}

fn lines<'a>(published: &'a Published, name: &str) -> Vec<Line<'a>> {
    let mut lines: Vec<Line> = Vec::new();
    for row in &published.rows {
        let asked = &row.question;
        if asked.table != name {
            continue;
        }
        let known = lines.iter_mut().find(|line| {
            let one = line.base.or(line.patched);
            one.is_some_and(|one| one.question.same_figure(asked))
        });
        let line = match known {
            Some(line) => line,
            None => {
                lines.push(Line {
                    label: label(published, row),
                    base: None,
                    patched: None,
                });
                let last = lines.len() - 1;
                &mut lines[last]
            }
        };
        match asked.kernel {
            Kernel::Base => line.base = Some(row),
            Kernel::Patched => line.patched = Some(row),
        }
    }
    lines
}

/// Point and metric, and the workload where a table has several.
fn label(published: &Published, row: &Row) -> String {
    let asked = &row.question;
    let of_table = |other: &&Row| other.question.table == asked.table;
    let one_workload = published
        .rows
        .iter()
        .filter(of_table)
        .all(|other| other.question.workload == asked.workload);
    let workload = if one_workload { "" } else { &asked.workload };
    let parts = [workload, &asked.point, &asked.metric];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let text = parts.join(" ");
    match row.role {
        Role::Context => format!("{text} (not scored)"),
        _ => text,
    }
}

fn cells(line: &Line, prediction: &Prediction, layout: Layout, two_kernels: bool) -> Cells {
    let ours = |row: Option<&Row>| {
        row.and_then(|row| prediction.answered(row.question.index))
            .map(|answer| answer.value)
    };
    let published = [line.base, line.patched].map(|row| row.map(|row| row.value));
    let own = [ours(line.base), ours(line.patched)];
    let better = line
        .base
        .or(line.patched)
        .map_or(Better::None, |row| row.question.better);
    let mut cells = vec![line.label.clone()];
    for [base, patched] in [published, own] {
        cells.push(base.map_or("-".into(), number));
        if two_kernels {
            cells.push(match (patched, change(layout, better, base, patched)) {
                (None, _) => "-".into(),
                (Some(patched), None) => number(patched),
                (Some(patched), Some(change)) => {
                    format!("{} ({change:+7.2}%)", number(patched))
                }
            });
        }
    }
    let changes = [published, own].map(|[base, patched]| change(layout, better, base, patched));
    cells.push(match (changes, published, own) {
        ([Some(theirs), Some(ours)], ..) => format!("{:+.1} pt", ours - theirs),
        (_, [Some(theirs), None], [Some(ours), _]) | (_, [_, Some(theirs)], [_, Some(ours)])
            if theirs != 0.0 =>
        {
            format!("{:+.1}%", 100.0 * (ours / theirs - 1.0))
        }
        _ => "-".into(),
    });
    cells
}

/// Change in per cent from base to patched, in the sense of the layout.
fn change(layout: Layout, better: Better, base: Option<f64>, patched: Option<f64>) -> Option<f64> {
    let (base, patched) = base.zip(patched)?;
    if base == 0.0 {
        return None;
    }
    let raw = 100.0 * (patched / base - 1.0);
    Some(match (layout, better) {
        (Layout::Mmtests, Better::Lower) => -raw,
        _ => raw,
    })
}
