//! The answer as a page for a browser: one file, no script, nothing from elsewhere.

use crate::report;
use crate::svg::escape;
use schedcast_advise::fleet::{Fleet, HEADER, Verdict};

/// A page with all containers; `source` is what the answer was read from.
pub fn page(fleet: &Fleet, source: &str) -> String {
    let title = "Limits that hold back";
    let mut text = report::head(title, "");
    text += &format!(
        "<main class=\"scroll\">\n<h1>{title}</h1>\n<pre>{}</pre>\n<table>\n<thead><tr>",
        escape(&fleet.summary()),
    );
    for name in HEADER {
        text += &format!("<th scope=\"col\">{name}</th>");
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in &fleet.rows {
        let class = match row.verdict {
            Verdict::Fine => "",
            verdict => verdict.name(),
        };
        text += &format!("<tr class=\"{class}\">");
        let cells = fleet.cells(row);
        text += &format!("<th scope=\"row\">{}</th>", escape(&cells[0]));
        for (name, cell) in HEADER.iter().zip(&cells).skip(1) {
            text += &format!("<td data-name=\"{name}\">{}</td>", escape(cell));
        }
        text += "</tr>\n";
    }
    text += "</tbody>\n</table>\n";
    for (name, why) in &fleet.silent {
        text += &format!("<p>{}: {}</p>\n", escape(name), escape(why));
    }
    let version = env!("CARGO_PKG_VERSION");
    let (legend, source) = (escape(&fleet.legend()), escape(source));
    text + &format!(
        "<pre>{legend}</pre>\n<p>schedcast {version} · {source} · tier counters</p>\n</main>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use schedcast_advise::counters::Dump;
    use schedcast_advise::fleet::Question;

    use super::*;
    use schedcast_base::assert_contains;

    #[test]
    fn a_page_shows_all_containers_and_no_markup_of_their_names() {
        let question = Question {
            throttled_below: 0.05,
            budget_cpus: None,
        };
        let text = include_str!("../../../examples/fleet.json").replace("php", "<b>&x");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("range.json");
        std::fs::write(&path, text).unwrap();
        let page = page(
            &Fleet::new(&Dump::open(&[path], None).unwrap(), question),
            "<file>",
        );
        assert_eq!(page.matches("<tr class=").count(), 10);
        assert_contains(&page, "shop/&lt;b&gt;&amp;x-005/&lt;b&gt;&amp;x");
        assert!(
            page.contains("· &lt;file&gt; ·") && !page.contains("<b>"),
            "{page}"
        );
        assert!(page.contains("<tr class=\"raise\">") && page.contains("<tr class=\"record\">"));
    }
}
