//! One page a study: verdicts, constants, tables and its picture, in a file that needs nothing else.
//!
//! ```text
//! title
//! picture             the study's series as SVG
//! verdicts            claim · published · band · ours · verdict
//! constants           what was fitted, and to which rows
//! tables              the published ones beside ours
//! ```

use super::report::{Report, StudyReport};
use crate::svg::escape;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;\
color:#222}table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .7rem;text-align:left;\
border-bottom:1px solid #ddd}.missed{color:#b00020;font-weight:600}pre{overflow-x:auto;background:#f6f6f6;\
padding:.7rem}svg{max-width:100%;height:auto}";

fn document(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n<h1>{title}</h1>\n{body}</html>\n"
    )
}

/// Rows of a table; a cell that says MISSED stands out.
fn rows(heading: &[&str], lines: &[Vec<String>]) -> String {
    let head: String = heading
        .iter()
        .map(|cell| format!("<th>{cell}</th>"))
        .collect();
    let line = |cells: &Vec<String>| {
        let cell = |text: &String| match text.as_str() {
            "MISSED" => "<td class=\"missed\">missed</td>".to_owned(),
            text => format!("<td>{}</td>", escape(text)),
        };
        let cells: String = cells.iter().map(cell).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let lines: String = lines.iter().map(line).collect();
    format!("<table>\n<tr>{head}</tr>\n{lines}</table>\n")
}

impl StudyReport {
    /// The study as a page of HTML.
    pub fn page(&self) -> String {
        let heading = ["claim", "published", "band", "ours", "verdict"];
        let shown = if self.quick { 4 } else { 5 };
        let body = format!(
            "<p>{} · {} simulated runs · <a href=\"index.html\">all studies</a></p>\n{}\n<h2>Verdicts</h2>\n{}\
             <p>{}</p>\n<h2>Constants and tables</h2>\n<pre>{}</pre>\n",
            escape(self.title),
            self.runs,
            self.picture(),
            rows(&heading[..shown], &self.verdict_lines()),
            escape(self.score_text().trim()),
            escape(&self.constants_and_tables()),
        );
        document(self.name, &body)
    }
}

impl Report {
    /// The page that lists the studies, as HTML; it links to `NAME.html` of each.
    pub fn index_page(&self) -> String {
        let line = |study: &StudyReport| {
            let passed = study.verdicts.iter().filter(|verdict| verdict.pass).count();
            let bands = match self.quick {
                true => "no verdict".to_owned(),
                false => format!("{passed} of {} bands met", study.verdicts.len()),
            };
            format!(
                "<li><a href=\"{0}.html\">{0}</a>: {1}; {bands}</li>\n",
                study.name,
                escape(study.title)
            )
        };
        let lines: String = self.studies.iter().map(line).collect();
        let summary = escape(self.summary().trim());
        document(
            "Published studies",
            &format!("<ul>\n{lines}</ul>\n<p>{summary}</p>\n"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn cells_are_no_markup_and_misses_stand_out() {
        let line = vec!["p99 < 1 ms".to_owned(), "MISSED".to_owned()];
        let table = rows(&["claim", "verdict"], &[line]);
        assert!(table.contains("<td>p99 &lt; 1 ms</td><td class=\"missed\">missed</td>"));
    }
}
