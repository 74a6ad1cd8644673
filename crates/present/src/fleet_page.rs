//! The answer as a page for a browser: one file, no script, nothing from elsewhere.

use std::fmt::Write;

use super::files::HEADER;
use super::{Fleet, Verdict};
use crate::report;
use crate::svg::escape;

impl Fleet {
    /// A page with all containers; `source` is what the answer was read from.
    pub fn page(&self, source: &str) -> String {
        let title = "Limits that hold back";
        let mut text = report::head(title, "");
        let _ = write!(
            text,
            "<main class=\"scroll\">\n<h1>{title}</h1>\n<pre>{}</pre>\n<table>\n<thead><tr>",
            escape(&self.summary()),
        );
        for name in HEADER {
            let _ = write!(text, "<th scope=\"col\">{name}</th>");
        }
        text += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            let class = match row.verdict {
                Verdict::Fine => "",
                verdict => verdict.word(),
            };
            let _ = write!(text, "<tr class=\"{class}\">");
            let cells = self.cells(row);
            let _ = write!(text, "<th scope=\"row\">{}</th>", escape(&cells[0]));
            for (name, cell) in HEADER.iter().zip(&cells).skip(1) {
                let _ = write!(text, "<td data-name=\"{name}\">{}</td>", escape(cell));
            }
            text += "</tr>\n";
        }
        text += "</tbody>\n</table>\n";
        for (name, why) in &self.silent {
            let _ = writeln!(text, "<p>{}: {}</p>", escape(name), escape(why));
        }
        let version = env!("CARGO_PKG_VERSION");
        let (legend, source) = (escape(&self.legend()), escape(source));
        text + &format!(
            "<pre>{legend}</pre>\n<p>schedcast {version} · {source} · tier counters</p>\n</main>\n</body>\n</html>\n"
        )
    }
}
