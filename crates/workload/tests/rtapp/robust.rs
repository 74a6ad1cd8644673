//! No text whatever makes the rt-app reader panic.

use proptest::prelude::*;
use schedcast_workload::rtapp::parse;

const EVERY_EVENT: &[u8] = crate::EVERY_EVENT.as_bytes();
const OBSOLETE: &[u8] = crate::OBSOLETE.as_bytes();

/// Whatever is read must also be able to say what cannot run.
fn read(text: &[u8]) -> bool {
    match parse("w.json", text) {
        Ok(file) => {
            file.unsupported(true);
            true
        }
        Err(error) => {
            assert!(error.span.line >= 1 && error.span.column >= 1);
            assert!(!error.message.is_empty());
            false
        }
    }
}

#[test]
fn a_file_cut_at_any_byte_is_refused() {
    for text in [EVERY_EVENT, OBSOLETE] {
        assert!(read(text));
        let end = text
            .iter()
            .rposition(|byte| *byte == b'}')
            .expect("a closing brace");
        for length in 0..=end {
            assert!(!read(&text[..length]), "accepted {length} bytes");
        }
    }
}

#[test]
fn the_place_of_a_cut_is_the_end_or_where_something_began() {
    let lines = EVERY_EVENT.iter().filter(|byte| **byte == b'\n').count();
    for length in 0..EVERY_EVENT.len() - 3 {
        let error = parse("w.json", &EVERY_EVENT[..length]).expect_err("cut");
        assert!(error.span.line as usize <= lines + 1);
    }
}

#[test]
fn a_file_with_any_byte_changed_is_read_or_refused() {
    for position in 0..EVERY_EVENT.len() {
        for byte in [
            0, b'"', b'\'', b'{', b'}', b'[', b',', b'9', b'-', b'x', b'\\', b'/', 0xff,
        ] {
            let mut text = EVERY_EVENT.to_vec();
            text[position] = byte;
            read(&text);
        }
    }
}

/// Text made of the pieces of the grammar reaches further than random bytes do.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let words = "{ } [ ] , : 'tasks' 'global' 'resources' 'phases' 'run' 'timer' 'suspend' 'resume' \
        'fork' 'barrier' 'memrun' 'wait' 'loop' 'priority' 'policy' 'cpus' 'taskgroup' \
        'instance' 'exec' 'unique' 'ref' 'mode' 'type' 'size' 'a' '' 0 -1 99999999999999999999 \
        1.5 true null 'SCHED_DEADLINE' 'SCHED_FIFO' /* */ // \n \\u {'tasks':{'a':{ \
        'phases':{'p':{";
    prop::collection::vec(
        prop::sample::select(words.split(' ').collect::<Vec<_>>()),
        0..60,
    )
    .prop_map(|words| words.concat().into_bytes())
}

/// A value of any shape, so that every key meets every kind of value.
fn value() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just(String::from("null")),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i64>().prop_map(|value| value.to_string()),
        (-3_i64..40).prop_map(|value| value.to_string()),
        "[a-z/]{0,8}".prop_map(|value| format!("'{value}'")),
        Just(String::from("'SCHED_DEADLINE'")),
    ];
    scalar.prop_recursive(3, 12, 4, |inner| {
        let key = prop::sample::select(vec![
            "ref", "mutex", "period", "mode", "type", "size", "count", "stride", "run", "loop",
            "p", "duration", "access",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((key, inner), 0..4).prop_map(|members| {
                let members: Vec<String> = members
                    .into_iter()
                    .map(|(key, value)| format!("'{key}':{value}"))
                    .collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

fn task_key() -> impl Strategy<Value = &'static str> {
    let keys = "lock unlock wait signal broad sync sleep runtime run timer suspend resume memrun mem \
        iorun yield barrier fork sem_post sem_wait loop instance delay phases policy priority \
        dl-runtime dl-period dl-deadline util_min util_max cpus nodes_membind taskgroup period \
        deadline exec lock_order resources";
    prop::sample::select(keys.split(' ').collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..300)) {
        read(&text);
    }

    #[test]
    fn any_pieces_of_the_grammar_are_read_or_refused(text in pieces()) {
        read(&text);
    }

    #[test]
    fn any_value_under_any_key_is_read_or_refused(
        members in prop::collection::vec((task_key(), value()), 0..5),
    ) {
        let members: Vec<String> =
            members.into_iter().map(|(key, value)| format!("'{key}':{value}")).collect();
        read(format!("{{'tasks':{{'a':{{'run':1,{}}}}}}}", members.join(",")).as_bytes());
    }
}
