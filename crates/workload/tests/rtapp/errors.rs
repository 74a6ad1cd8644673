//! Every refusal of the rt-app reader, word for word and with its place.

use schedcast_base::rows;
use schedcast_workload::rtapp::parse;

fn refusal(text: &str) -> String {
    match parse("w.json", text.as_bytes()) {
        Ok(file) => panic!("accepted: {text}\n{file:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_mistake_is_told_with_its_place() {
    for (around, cases) in rows::sections(include_str!("refusals.txt")) {
        for case in cases {
            let [text, expected] = rows::cells(case);
            let text = around.replace('…', text).replace("\\n", "\n");
            assert_eq!(refusal(&text), format!("w.json:{expected}"), "for {text}");
        }
    }
}

#[test]
fn an_unknown_key_without_a_near_one_gets_all_valid_names() {
    let long = refusal("{'tasks':{'a':{'run':1,'colour':3}}}");
    let start =
        "w.json:1:24: unknown key \"colour\" in task \"a\"; valid names: `loop`, `instance`, ";
    assert!(long.starts_with(start), "{long}");
}

#[test]
fn messages_stay_short_whatever_the_file_says() {
    let name = "x".repeat(100_000);
    let message = refusal(&format!("{{'tasks':{{'{name}':{{'{name}':1}}}}}}"));
    assert!(message.len() < 1000, "{} bytes", message.len());
    let message = refusal(&format!("{{'tasks':{{'a':{{'resume':'{name}'}}}}}}"));
    assert!(message.len() < 1000, "{} bytes", message.len());
}
