use super::*;
use schedcast_base::rows;

pub(super) const FLAGS: &str = "\
[toy]
-t --threads N = 1 | number of threads
-r --runtime S | seconds
-R --rps N | requests
-q --quiet | no output | output
-a --affinity [CPUS] | CPUs
-A --auto | grows | refused: it repeats itself
";

static TOOL: Tool = Tool {
    words: &["toy"],
    name: "toy",
    about: "a toy",
    operands: "",
    compile: |words, _| Err(words.error("a toy")),
};

static FILE_TOOL: Tool = Tool {
    words: &["perf", "bench"],
    name: "perf-bench",
    about: "takes a file",
    operands: "FILE",
    compile: |words, _| Err(words.error("a toy")),
};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn parse(line: &str) -> Words {
    TOOL.parse(&words(line)).expect("valid")
}

fn refuse(line: &str) -> String {
    TOOL.parse(&words(line)).unwrap_err().to_string()
}

#[test]
fn all_spellings_of_a_value_mean_the_same() {
    let texts =
        "toy -t 3|toy -t3|toy -qt3|toy --threads 3|toy --threads=3|toy --thr=3|toy -t 9 -t 3";
    for line in texts.split('|') {
        assert_eq!(parse(line).whole("threads", 1..=9, 1), Ok(3), "{line}");
    }
    assert_eq!(parse("toy -q").whole("threads", 1..=9, 1), Ok(1));
    assert!(parse("toy -q").has("quiet"));
}

#[test]
fn optional_values_are_taken_only_if_they_look_like_one() {
    assert_eq!(parse("toy -a 0-2").last("affinity").unwrap().text(), "0-2");
    assert_eq!(parse("toy -a -q").last("affinity").unwrap().text(), "");
    assert_eq!(parse("toy -a").last("affinity").unwrap().value, None);
}

#[test]
fn unknown_missing_superfluous_and_bad_words_are_refused() {
    for case in &rows::sections(include_str!("../refusals.txt"))["a toy"] {
        let [line, expected] = rows::cells(case);
        assert_eq!(refuse(line), expected);
    }
    let number = |text: &str| {
        let line = format!("toy -t {text}");
        parse(&line)
            .whole("threads", 1..=9, 1)
            .unwrap_err()
            .to_string()
    };
    for text in "x 0 10 +3 3x 0x3 -1 99999999999999999999".split(' ') {
        assert_eq!(
            number(text),
            format!("toy, word 2: flag `-t` needs a whole number from 1 to 9, found `{text}`")
        );
    }
}

#[test]
fn operands_follow_a_tool_of_several_words() {
    let read = FILE_TOOL.parse(&words("perf bench -- -f")).unwrap();
    assert_eq!(read.operands, [("-f".to_owned(), 4)]);
    let error = FILE_TOOL.parse(&words("perf bench -f")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "perf-bench, word 3: unknown flag `-f`; there are no valid names"
    );
}

#[test]
fn durations_and_cpu_lists_are_read() {
    let time = |text: &str| {
        parse(&format!("toy -r {text}"))
            .last("runtime")
            .unwrap()
            .duration_ns(1_000_000_000)
    };
    assert_eq!(time("20"), Ok(20_000_000_000));
    assert_eq!(time("2m"), Ok(120_000_000_000));
    assert_eq!(time("1d"), Ok(86_400_000_000_000));
    for text in ["", "m", "-1", "1.5", "400d", "é"] {
        assert!(
            time(if text.is_empty() { "x" } else { text }).is_err(),
            "{text}"
        );
    }
    let cpus = |text: &str| {
        let read = parse(&format!("toy --affinity={text}"));
        read.last("affinity")
            .unwrap()
            .cpu_list(8)
            .map(|set| set.iter().map(|cpu| cpu.0).collect::<Vec<u32>>())
    };
    assert_eq!(cpus("0-2,5"), Ok(vec![0, 1, 2, 5]));
    for text in ["", "8", "2-1", "a", "1-", "0,,1"] {
        assert!(cpus(text).is_err(), "{text}");
    }
}

#[test]
fn help_comes_from_the_table() {
    let text = describe(&TOOL);
    assert!(
        text.contains("  -t, --threads N             number of threads (default 1)\n"),
        "{text}"
    );
    assert!(text.contains("refused: it repeats itself"), "{text}");
    assert!(list(&[&TOOL]).contains("toy                     a toy\n"));
}
