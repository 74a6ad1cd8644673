use schedcast_base::rows;

use super::*;

fn kind(text: &str) -> Kind {
    parse(text.as_bytes())
        .unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
        .kind
}

fn fault(text: &[u8]) -> String {
    let fault = parse(text).expect_err("must not be accepted");
    format!("{}: {}", fault.span, fault.message)
}

fn members(text: &str) -> Vec<(String, Kind)> {
    match kind(text) {
        Kind::Object(members) => members
            .into_iter()
            .map(|member| (member.key, member.value.kind))
            .collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn scalars_as_json_c_takes_them() {
    assert_eq!(kind("1"), Kind::Integer(1));
    assert_eq!(kind("-17"), Kind::Integer(-17));
    assert_eq!(kind("-0"), Kind::Integer(0));
    assert_eq!(kind("010"), Kind::Integer(10));
    assert_eq!(kind("9223372036854775807"), Kind::Integer(i64::MAX));
    assert_eq!(
        kind("9223372036854775808"),
        Kind::Number("9223372036854775808".into())
    );
    assert_eq!(kind("1.50"), Kind::Number("1.50".into()));
    assert_eq!(kind("-1e+3"), Kind::Number("-1e+3".into()));
    assert_eq!(kind("NaN"), Kind::Number("NaN".into()));
    assert_eq!(kind("-Infinity"), Kind::Number("-Infinity".into()));
    assert_eq!(kind("true"), Kind::Bool(true));
    assert_eq!(kind("FALSE"), Kind::Bool(false));
    assert_eq!(kind("Null"), Kind::Null);
}

#[test]
fn strings_in_both_quotes_with_escapes() {
    assert_eq!(kind(r#""a'b""#), Kind::String("a'b".into()));
    assert_eq!(kind("'a\"b'"), Kind::String("a\"b".into()));
    assert_eq!(
        kind(r#""\" \\ \/ \b \f \n \r \t""#),
        Kind::String("\" \\ / \u{8} \u{c} \n \r \t".into())
    );
    assert_eq!(kind(r#""\u00e9\uD83D\ude00""#), Kind::String("é😀".into()));
    assert_eq!(kind("\"two\nlines\""), Kind::String("two\nlines".into()));
}

#[test]
fn half_a_surrogate_pair_becomes_the_replacement_character() {
    assert_eq!(kind(r#""\ud83d""#), Kind::String("\u{fffd}".into()));
    assert_eq!(kind(r#""\ude00x""#), Kind::String("\u{fffd}x".into()));
    assert_eq!(kind(r#""\ud83d\u0041""#), Kind::String("\u{fffd}A".into()));
}

#[test]
fn commas_before_closing_brackets() {
    assert_eq!(kind("[]"), Kind::Array(Vec::new()));
    assert_eq!(members("{}"), []);
    assert_eq!(members("{'a':1,}"), [("a".into(), Kind::Integer(1))]);
    let Kind::Array(items) = kind("[1, 2, ]") else {
        panic!("an array")
    };
    assert_eq!(items.len(), 2);
}

#[test]
fn duplicate_keys_stay_in_order() {
    let expected = [
        ("run".into(), Kind::Integer(1)),
        ("sleep".into(), Kind::Integer(2)),
        ("run".into(), Kind::Integer(3)),
    ];
    assert_eq!(members(r#"{"run":1,"sleep":2,"run":3}"#), expected);
}

#[test]
fn keys_may_stand_alone() {
    let expected = [
        ("suspend".into(), Kind::Absent),
        ("run".into(), Kind::Integer(1)),
        ("yield".into(), Kind::Absent),
    ];
    assert_eq!(members(r#"{"suspend", "run":1, "yield"}"#), expected);
}

#[test]
fn comments_stand_wherever_white_space_may() {
    let text = "/* a */{/**/\"a\"/* * / */:// to the end: }\n1/***/,// b\n}// no line end";
    assert_eq!(members(text), [("a".into(), Kind::Integer(1))]);
}

#[test]
fn every_key_and_value_has_its_place() {
    let text = "{\n\t\"é\" : [ 7,\r\n 'x' ],\n\"b\" }";
    let value = parse(text.as_bytes()).expect("valid");
    let Kind::Object(members) = value.kind else {
        panic!("an object")
    };
    assert_eq!(value.span, Span { line: 1, column: 1 });
    assert_eq!(members[0].span, Span { line: 2, column: 2 });
    // The accented letter is one column, though two bytes.
    assert_eq!(members[0].value.span, Span { line: 2, column: 8 });
    let Kind::Array(items) = &members[0].value.kind else {
        panic!("an array")
    };
    assert_eq!(
        items[0].span,
        Span {
            line: 2,
            column: 10
        }
    );
    assert_eq!(items[1].span, Span { line: 3, column: 2 });
    assert_eq!(members[1].span, Span { line: 4, column: 1 });
    assert_eq!(members[1].value.span, Span { line: 4, column: 1 });
}

#[test]
fn nesting_is_limited_as_in_json_c() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(nested(DEPTH_MAX).as_bytes()).is_ok());
    assert_eq!(
        fault(nested(DEPTH_MAX + 1).as_bytes()),
        "1:33: values nest deeper than 32 levels"
    );
    assert_eq!(
        fault("{'a':".repeat(100_000).as_bytes()),
        "1:161: values nest deeper than 32 levels"
    );
}

#[test]
fn each_mistake_has_a_place_and_an_expectation() {
    for case in rows::lines(include_str!("json_refusals.txt")) {
        let [text, expected] = rows::cells(case);
        let text = text.replace("\\n", "\n");
        assert_eq!(fault(text.as_bytes()), expected, "for {text}");
    }
    let bytes: [(&[u8], &str); 5] = [
        (
            b" \n /* x */ ",
            "2:10: expected a value, found the end of the file",
        ),
        (
            b"{\"a\":1}\0",
            "1:8: expected the end of the file, found byte 0x00",
        ),
        (b"\xef\xbb\xbf{}", "1:1: expected a value, found `\u{feff}`"),
        (b"\x0b1", "1:1: expected a value, found byte 0x0b"),
        (b"'a\xff'", "1:1: this string is not valid UTF-8"),
    ];
    for (text, expected) in bytes {
        assert_eq!(fault(text), expected, "for {}", text.escape_ascii());
    }
}
