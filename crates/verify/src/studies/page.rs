//! One page a study: verdicts, constants, tables and its picture, in a file that needs nothing
//! else.
//!
//! ```text
//! title
//! picture             the study's series as SVG
//! verdicts            claim · published · band · ours · verdict
//! constants           what was fitted, and to which rows
//! tables              the published ones beside ours
//! ```

use schedcast_present::report;
use schedcast_present::svg::escape;

use super::report::{Report, StudyReport};

fn document(title: &str, under: &str, sections: &str) -> String {
    let head = report::head(title, "");
    let title = escape(title);
    format!(
        "{head}<div id=\"page\">\n<a class=\"skip\" href=\"#results\">skip to the results</a>\n\
         <main id=\"results\">\n<header>\n<h1>{title}</h1>\n<p class=\"meta\">{under}</p>\n</header>\n\
         {sections}</main>\n</div>\n</body>\n</html>\n"
    )
}

fn section(id: &str, title: &str, body: &str) -> String {
    format!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n\
         <h2 id=\"{id}-title\">{title}</h2>\n{body}</section>\n"
    )
}

/// Wraps content that may be wider than the page, so that it scrolls and is reachable with the
/// keyboard.
fn scroll(label: &str, inside: &str) -> String {
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">\n{inside}</div>\n"
    )
}

/// Rows of a table; a cell that says MISSED stands out.
fn rows(heading: &[&str], lines: &[Vec<String>]) -> String {
    let head: String = heading
        .iter()
        .map(|cell| format!("<th scope=\"col\">{cell}</th>"))
        .collect();
    let line = |cells: &Vec<String>| {
        let cell = |(row, text): (usize, &String)| match (row, text.as_str()) {
            (0, text) => format!("<th scope=\"row\">{}</th>", escape(text)),
            (row, "MISSED") => {
                let name = heading[row];
                format!("<td data-name=\"{name}\" class=\"missed\">missed</td>")
            }
            (row, text) => format!("<td data-name=\"{}\">{}</td>", heading[row], escape(text)),
        };
        let cells: String = cells.iter().enumerate().map(cell).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let lines: String = lines.iter().map(line).collect();
    let table =
        format!("<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}</tbody>\n</table>\n");
    scroll("table of verdicts", &table)
}

impl StudyReport {
    /// The study as a page of HTML.
    pub fn page(&self) -> String {
        let heading = ["claim", "published", "band", "ours", "verdict"];
        let shown = if self.quick { 4 } else { 5 };
        let under = format!(
            "{} · {} simulated runs · <a href=\"index.html\">all studies</a>",
            escape(self.title),
            self.runs
        );
        let picture = format!("<div class=\"picture\">{}</div>\n", self.picture());
        let verdicts = format!(
            "{}<p>{}</p>\n",
            rows(&heading[..shown], &self.verdict_lines()),
            escape(self.score_text().trim())
        );
        let tables = format!("<pre>{}</pre>\n", escape(&self.constants_and_tables()));
        let sections = [
            section("picture", "Series", &scroll("picture", &picture)),
            section("verdicts", "Verdicts", &verdicts),
            section(
                "tables",
                "Constants and tables",
                &scroll("their text", &tables),
            ),
        ];
        document(self.name, &under, &sections.concat())
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
        let list = section("studies", "Studies", &format!("<ul>\n{lines}</ul>\n"));
        document("Published studies", &escape(self.summary().trim()), &list)
    }
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn cells_are_no_markup_and_misses_stand_out() {
        let line = vec!["p99 < 1 ms".to_owned(), "MISSED".to_owned()];
        let table = rows(&["claim", "verdict"], &[line]);
        assert!(table.contains("<th scope=\"row\">p99 &lt; 1 ms</th><td data-name=\"verdict\" class=\"missed\">missed</td>"));
    }
}
