//! The pieces that pictures have in common: the frame with its title, lines of a grid, text.

use schedcast_base::harmless::harmless;

/// The beginning of a picture of so much width and height, whose title stands at `left`. It ends
/// with `</svg>`.
pub fn begin([width, height]: [f64; 2], left: f64, title: &str) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n<title>{0}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n",
        escape(title)
    );
    text(
        &mut svg,
        [left, 18.0],
        "start",
        &format!("{title} (simulated)"),
    );
    svg
}

/// A line of a grid.
pub fn line(svg: &mut String, [x1, y1, x2, y2]: [f64; 4]) {
    *svg += &format!(
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#dddddd\"/>\n"
    );
}

/// Words at a place, which is their `start`, `middle` or `end`.
pub fn text(svg: &mut String, [x, y]: [f64; 2], anchor: &str, words: &str) {
    let words = escape(words);
    *svg += &format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>\n");
}

/// A line through places, as wide as said.
pub fn polyline(svg: &mut String, places: &[[f64; 2]], colour: &str, width: f64) {
    let places = places.iter().map(|[x, y]| format!("{x:.1},{y:.1}"));
    let points = places.collect::<Vec<_>>().join(" ");
    *svg += &format!(
        "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>\n"
    );
}

/// The text without characters that have a meaning in XML or HTML, in an attribute too, or that are
/// not allowed there, or that reorder what stands beside them.
pub fn escape(text: &str) -> String {
    harmless(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_picture_are_no_markup_and_xml_that_can_be_read() {
        let mut svg = begin([1.0, 1.0], 0.0, "\u{1b}[31m</title><script>\u{202e}\"&");
        svg += "</svg>";
        let title = "\\u001b[31m&lt;/title&gt;&lt;script&gt;\\u202e&quot;&amp;";
        assert!(svg.contains(&format!("<title>{title}</title>")), "{svg}");
        assert_eq!(svg.matches(title).count(), 2);
        assert!(!svg.contains("<script") && !svg.contains('\u{1b}'), "{svg}");
    }
}
