//! Every refusal of the rt-app reader, word for word and with its place.

#[macro_use]
mod cases;

use schedcast_workload::rtapp::parse;

fn refusal(text: &str) -> String {
    match parse("w.json", text.as_bytes()) {
        Ok(file) => panic!("accepted: {text}\n{file:?}"),
        Err(error) => error.to_string(),
    }
}

fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(refusal(text), format!("w.json:{expected}"), "for {text}");
    }
}

#[test]
fn text_that_is_not_json_at_all() {
    check(&[
        ("", "1:1: expected a value, found the end of the file"),
        (
            "{'tasks':{'a':{'run' 5}}}",
            "1:22: expected `:`, `,` or `}` after the key \"run\", found `5`",
        ),
        (
            "[tasks]\ntask = 1",
            "1:2: expected a value, found \"tasks\"",
        ),
    ]);
}

#[test]
fn files_that_are_not_rt_app() {
    check(&cases! {
        "[1]" => "1:1: an rt-app file: expected an object with `tasks`, found an array";
        " 'x'" => "1:2: an rt-app file: expected an object with `tasks`, found the string \"x\"";
        "{}" => "1:1: an rt-app file needs an object `tasks`";
        "{'schedcast':{}}" => "1:1: an rt-app file needs an object `tasks`";
        "{'name':'x'}"
            => "1:2: unknown key \"name\" in the file; valid names: `tasks`, `global`, `resources`, `schedcast`";
        "{'task':{}}" => "1:2: unknown key \"task\" in the file; nearest valid name: `tasks`";
        "{'tasks':{},'tasks':{}}" => "1:13: \"tasks\" is given twice in the file (first at 1:2)";
        "{'tasks':[]}" => "1:10: `tasks`: expected an object, found an array";
        "{'tasks'}" => "1:2: `tasks`: expected an object, found no value";
        "{'tasks':{'a':5}}" => "1:15: task \"a\": expected an object, found 5";
        "{'tasks':{},\n'schedcast':{'arrivals':1}}"
            => "2:14: \"arrivals\" of `schedcast` is not supported yet";
        "{'tasks':{},'schedcast':true}" => "1:25: `schedcast`: expected an object, found true";
    });
}

#[test]
fn keys_of_global() {
    let cases = cases! {
        "'durration':1"
            => "1:23: unknown key \"durration\" in `global`; nearest valid name: `duration`";
        "'duration':1,\n'duration':2"
            => "2:1: \"duration\" is given twice in `global` (first at 1:23)";
        "'duration':-2"
            => "1:34: \"duration\" of `global`: expected a whole number from -1 to 2147483647, found -2";
        "'duration':1.5"
            => "1:34: \"duration\" of `global`: expected a whole number from -1 to 2147483647, found the number 1.5";
        "'duration':2147483648"
            => "1:34: \"duration\" of `global`: expected a whole number from -1 to 2147483647, found 2147483648";
        "'duration'"
            => "1:23: \"duration\" of `global`: expected a whole number from -1 to 2147483647, found no value";
        "'calibration':'cpu0'"
            => "1:37: \"calibration\" of `global`: expected a CPU such as \"CPU0\" or the nanoseconds of one loop, found the string \"cpu0\"";
        "'calibration':'CPU'"
            => "1:37: \"calibration\" of `global`: expected a CPU such as \"CPU0\" or the nanoseconds of one loop, found the string \"CPU\"";
        "'calibration':-1"
            => "1:37: \"calibration\" of `global`: expected a CPU such as \"CPU0\" or the nanoseconds of one loop, found -1";
        "'default_policy':'SCHED_NORMAL'"
            => "1:40: \"default_policy\" of `global`: unknown value \"SCHED_NORMAL\"; valid names: `SCHED_OTHER`, `SCHED_BATCH`, `SCHED_IDLE`, `SCHED_RR`, `SCHED_FIFO`, `SCHED_DEADLINE`";
        "'default_policy':3" => "1:40: \"default_policy\" of `global`: expected a string, found 3";
        "'pi_enabled':1" => "1:36: \"pi_enabled\" of `global`: expected `true` or `false`, found 1";
        "'lock_pages':'yes'"
            => "1:36: \"lock_pages\" of `global`: expected `true` or `false`, found the string \"yes\"";
        "'logdir':[]" => "1:32: \"logdir\" of `global`: expected a string, found an array";
        "'log_size':'Disable'"
            => "1:34: \"log_size\" of `global`: unknown value \"Disable\"; nearest valid name: `disable`";
        "'log_size':2048"
            => "1:34: \"log_size\" of `global`: expected a whole number from 0 to 2047, found 2048";
        "'log_size':true"
            => "1:34: \"log_size\" of `global`: expected a number of MiB or one of \"file\", \"disable\", \"auto\", found true";
        "'ftrace':'main,tsak'"
            => "1:32: \"ftrace\" of `global`: unknown category \"tsak\"; nearest valid name: `task`";
        "'ftrace':1"
            => "1:32: \"ftrace\" of `global`: expected a list of categories such as \"main,task\", or a boolean, found 1";
        "'mem_buffer_size':0"
            => "1:41: \"mem_buffer_size\" of `global`: expected a whole number from 1 to 2147483647, found 0";
    };
    for (members, expected) in cases {
        check(&[(
            &format!("{{'tasks':{{}},'global':{{{members}}}}}"),
            expected,
        )]);
    }
    check(&[(
        "{'tasks':{},'global':7}",
        "1:22: `global`: expected an object, found 7",
    )]);
}

#[test]
fn keys_of_a_task() {
    let cases = cases! {
        "'run':1,'lop':3" => "1:24: unknown key \"lop\" in task \"a\"; nearest valid name: `loop`";
        "'slep2':1" => "1:16: unknown key \"slep2\" in task \"a\"; nearest valid name: `sleep`";
        "'loop':1,'run':1,'loop':2"
            => "1:33: \"loop\" is given twice in task \"a\" (first at 1:16)";
        "'run':1,'loop':-2"
            => "1:31: \"loop\" of task \"a\": expected a whole number from -1 to 2147483647, found -2";
        "'run':1,'instance':-1"
            => "1:35: \"instance\" of task \"a\": expected a whole number from 0 to 2147483647, found -1";
        "'run':1,'delay':'1ms'"
            => "1:32: \"delay\" of task \"a\": expected a whole number from 0 to 2147483647, found the string \"1ms\"";
        "'loop':3" => "1:11: task \"a\" has no events";
        "" => "1:11: task \"a\" has no events";
        "'phases':{'p':{'loop':1}}" => "1:26: phase \"p\" of task \"a\" has no events";
        "'phases':{}" => "1:25: \"phases\" of task \"a\": expected at least one phase";
        "'phases':[]" => "1:25: \"phases\" of task \"a\": expected an object, found an array";
        "'phases':{'p':1}" => "1:30: phase \"p\" of task \"a\": expected an object, found 1";
        "'run':1,'phases':{'p':{'run':1}}"
            => "1:16: event \"run\" stands beside \"phases\" in task \"a\"; rt-app would ignore it, so move it into a phase";
        "'phases':{'p':{'run':1,'instance':2}}"
            => "1:39: \"instance\" is a key of a task, not of a phase; rt-app would ignore it in phase \"p\" of task \"a\"";
        "'phases':{'p':{'run':1,'prioritty':2}}"
            => "1:39: unknown key \"prioritty\" in phase \"p\" of task \"a\"; nearest valid name: `priority`";
        "'phases':{'p':{'run':1,'loop':1,'loop':2}}"
            => "1:48: \"loop\" is given twice in phase \"p\" of task \"a\" (first at 1:39)";
    };
    for (members, expected) in cases {
        check(&[(&format!("{{'tasks':{{'a':{{{members}}}}}}}"), expected)]);
    }
    let long = refusal("{'tasks':{'a':{'run':1,'colour':3}}}");
    let start =
        "w.json:1:24: unknown key \"colour\" in task \"a\"; valid names: `loop`, `instance`, ";
    assert!(long.starts_with(start), "{long}");
}

#[test]
fn scheduling_keys() {
    let cases = cases! {
        "'policy':'SCHED_FIF0'"
            => "1:25: \"policy\" of task \"a\": unknown value \"SCHED_FIF0\"; nearest valid name: `SCHED_FIFO`";
        "'priority':20"
            => "1:27: \"priority\" of task \"a\": expected a nice value from -20 to 19 under SCHED_OTHER, found 20";
        "'priority':-21,'policy':'SCHED_BATCH'"
            => "1:27: \"priority\" of task \"a\": expected a nice value from -20 to 19 under SCHED_BATCH, found -21";
        "'policy':'SCHED_RR','priority':100"
            => "1:47: \"priority\" of task \"a\": expected a real-time priority from 1 to 99 under SCHED_RR, found 100";
        "'policy':'SCHED_FIFO','priority':0"
            => "1:49: \"priority\" of task \"a\": expected a real-time priority from 1 to 99 under SCHED_FIFO, found 0";
        "'dl-runtime':-1"
            => "1:29: \"dl-runtime\" of task \"a\": expected a whole number from 0 to 2147483647, found -1";
        "'util_min':1025"
            => "1:27: \"util_min\" of task \"a\": expected a whole number from -1 to 1024, found 1025";
        "'util_max':-2"
            => "1:27: \"util_max\" of task \"a\": expected a whole number from -1 to 1024, found -2";
        "'cpus':3" => "1:23: \"cpus\" of task \"a\": expected an array of whole numbers, found 3";
        "'cpus':[]" => "1:23: \"cpus\" of task \"a\": expected at least one number";
        "'cpus':[0,-1]"
            => "1:26: \"cpus\" of task \"a\": expected a whole number from 0 to 2147483647, found -1";
        "'nodes_membind':['0']"
            => "1:33: \"nodes_membind\" of task \"a\": expected a whole number from 0 to 2147483647, found the string \"0\"";
        "'taskgroup':'tg'" => "1:28: taskgroup \"tg\" must begin with `/`, as in \"/tg\"";
        "'taskgroup':'/tg','policy':'SCHED_FIFO'"
            => "1:43: task \"a\" is in taskgroup \"/tg\" (given at 1:28), which SCHED_FIFO cannot have; only SCHED_OTHER, SCHED_BATCH and SCHED_IDLE can";
    };
    for (members, expected) in cases {
        check(&[(
            &format!("{{'tasks':{{'a':{{{members},'run':1}}}}}}"),
            expected,
        )]);
    }
}

/// The attributes in force when a phase begins decide the meaning of its keys.
#[test]
fn scheduling_keys_of_phases_are_judged_by_what_is_in_force() {
    check(&[
        (
            "{'tasks':{'a':{'policy':'SCHED_FIFO','phases':{\n'p':{'run':1},\n'q':{'priority':-5,'run':1}}}}}",
            "3:17: \"priority\" of phase \"q\" of task \"a\": expected a real-time priority from 1 to 99 under SCHED_FIFO, found -5",
        ),
        (
            "{'tasks':{'a':{'taskgroup':'/tg','phases':{\n'p':{'run':1},\n'q':{'policy':'SCHED_RR','run':1}}}}}",
            "3:15: phase \"q\" of task \"a\" is in taskgroup \"/tg\" (given at 1:28), which SCHED_RR cannot have; only SCHED_OTHER, SCHED_BATCH and SCHED_IDLE can",
        ),
        (
            "{'tasks':{'a':{'policy':'SCHED_RR','phases':{\n'q':{'taskgroup':'/tg','run':1}}}}}",
            "2:1: phase \"q\" of task \"a\" is in taskgroup \"/tg\" (given at 2:18), which SCHED_RR cannot have; only SCHED_OTHER, SCHED_BATCH and SCHED_IDLE can",
        ),
    ]);
}

#[test]
fn values_of_events() {
    let cases = cases! {
        "'lock':1" => "1:23: event \"lock\" of task \"a\": expected a name, found 1";
        "'lock_pages':true"
            => "1:29: event \"lock_pages\" of task \"a\" (a `lock`, as its key begins so): expected a name, found true";
        "'unlock'" => "1:16: event \"unlock\" of task \"a\": expected a name, found no value";
        "'wait':'c'"
            => "1:23: event \"wait\" of task \"a\": expected an object, found the string \"c\"";
        "'wait':{'ref':'c','mutx':'m'}"
            => "1:34: unknown key \"mutx\" in event \"wait\" of task \"a\"; nearest valid name: `mutex`";
        "'sync':{'ref':1}"
            => "1:30: \"ref\" of event \"sync\" of task \"a\": expected a string, found 1";
        "'signal':null" => "1:25: event \"signal\" of task \"a\": expected a name, found null";
        "'broadcast':[]"
            => "1:28: event \"broadcast\" of task \"a\" (a `broad`, as its key begins so): expected a name, found an array";
        "'sleep':-1"
            => "1:24: event \"sleep\" of task \"a\": expected a whole number of microseconds from 0 to 2147483647, found -1";
        "'runtime':'5'"
            => "1:26: event \"runtime\" of task \"a\": expected a whole number of microseconds from 0 to 2147483647, found the string \"5\"";
        "'run':1e3"
            => "1:22: event \"run\" of task \"a\": expected a whole number of microseconds from 0 to 2147483647, found the number 1e3";
        "'run0':{}"
            => "1:23: event \"run0\" of task \"a\" (a `run`, as its key begins so): expected a whole number of microseconds from 0 to 2147483647, found an object";
        "'timer':5" => "1:24: event \"timer\" of task \"a\": expected an object, found 5";
        "'timer':{'ref':'t','period':-1}"
            => "1:44: \"period\" of event \"timer\" of task \"a\": expected a whole number from 0 to 2147483647, found -1";
        "'timer':{'ref':'t','period':1,'mode':'absolut'}"
            => "1:53: \"mode\" of event \"timer\" of task \"a\": unknown value \"absolut\"; nearest valid name: `absolute`";
        "'timer':{'ref':'t','perod':1}"
            => "1:35: unknown key \"perod\" in event \"timer\" of task \"a\"; nearest valid name: `period`";
        "'suspend':5"
            => "1:26: event \"suspend\" of task \"a\": expected a name or nothing, found 5";
        "'mem':'4k'"
            => "1:22: event \"mem\" of task \"a\": expected a whole number of bytes from 0 to 2147483647, found the string \"4k\"";
        "'membind_nodes':[0]"
            => "1:32: event \"membind_nodes\" of task \"a\" (a `mem`, as its key begins so): expected a whole number of bytes from 0 to 2147483647, found an array";
        "'iorun':true"
            => "1:24: event \"iorun\" of task \"a\": expected a whole number of bytes from 0 to 2147483647, found true";
        "'barrier':1" => "1:26: event \"barrier\" of task \"a\": expected a name, found 1";
        "'sem_post':1" => "1:27: event \"sem_post\" of task \"a\": expected a name, found 1";
        "'memrun':{'size':1,'count':1}"
            => "1:25: event \"memrun\" of task \"a\": `type` is missing";
        "'memrun':{'type':'read','count':1}"
            => "1:25: event \"memrun\" of task \"a\": `size` is missing";
        "'memrun':{'type':'read','size':1}"
            => "1:25: event \"memrun\" of task \"a\": `count` is missing";
        "'memrun':{'type':'raed','size':1,'count':1}"
            => "1:33: \"type\" of event \"memrun\" of task \"a\": unknown value \"raed\"; nearest valid name: `read`";
        "'memrun':{'type':'read','size':1,'count':1,'stride':8}"
            => "1:59: event \"memrun\" of task \"a\": `stride` is for type \"chase\" only";
        "'memrun':{'type':'chase','size':127,'count':1}"
            => "1:25: event \"memrun\" of task \"a\": a chase needs a size of at least two strides, found 127 and 64 bytes";
        "'memrun':{'type':'chase','size':99,'count':1,'stride':4}"
            => "1:70: \"stride\" of event \"memrun\" of task \"a\": expected a whole number from 8 to 2147483647, found 4";
        "'memrun':{'type':'chase','size':999,'count':1,'pattern':'rand'}"
            => "1:72: \"pattern\" of event \"memrun\" of task \"a\": unknown value \"rand\"; nearest valid name: `random`";
    };
    for (event, expected) in cases {
        check(&[(&format!("{{'tasks':{{'a':{{{event}}}}}}}"), expected)]);
    }
}

#[test]
fn references_that_cannot_work() {
    check(&cases! {
        "{'tasks':{'main':{'fork':'chld'},\n'child':{'run':1}}}"
            => "1:19: event \"fork\" forks task \"chld\", which does not exist; nearest valid name: `child`";
        "{'tasks':{'main':{'fork':'child'},\n'child':{'run':1,'barrier':'b'}}}"
            => "2:18: task \"child\" has a barrier and is forked at 1:19; the users of a barrier must be known from the start";
        "{'tasks':{'a':{'suspend'},\n'b':{'suspend':'door'},'c':{'resume':'doors'}}}"
            => "2:29: nothing suspends on \"doors\"; nearest valid name: `door`";
        "{'tasks':{'a':{'resume':'thread9'}}}"
            => "1:16: nothing suspends on \"thread9\"; valid names: `a`";
        "{'tasks':{'a':{'memrun':{'type':'read','size':64,'count':1,'ref':'b'},\n'memrun2':{'type':'read','size':65,'count':1,'ref':'b'}}}}"
            => "2:1: event \"memrun2\" shares buffer \"b\" with the one at 1:16 but differs in type, size, stride or pattern";
    });
}

#[test]
fn keys_of_the_grammar_of_before_2014() {
    let cases = cases! {
        "'exec':1,'perod':2"
            => "1:25: unknown key \"perod\" in task \"a\"; nearest valid name: `period`";
        "'exec':-1"
            => "1:23: \"exec\" of task \"a\": expected a whole number from 0 to 2147483647, found -1";
        "'exec':1,'sleep':3"
            => "1:33: \"sleep\" of task \"a\": expected `true` or `false`, found 3";
        "'lock_order':'m'"
            => "1:29: \"lock_order\" of task \"a\": expected an array of names, found the string \"m\"";
        "'resources':{'m':{'duratoin':1}}"
            => "1:34: unknown key \"duratoin\" in resource \"m\" of task \"a\"; nearest valid name: `duration`";
        "'phases':{'p':{'exec':1,'run':1}}"
            => "1:40: unknown key \"run\" in phase \"p\" of task \"a\"; valid names: `exec`, `period`, `deadline`, `lock_order`, `resources`, `sleep`, `loop`, `policy`, `priority`, `cpus`, `phases`, `instance`, `delay`, `duration`";
    };
    for (members, expected) in cases {
        check(&[(&format!("{{'tasks':{{'a':{{{members}}}}}}}"), expected)]);
    }
    check(&[
        (
            "{'resources':{'m':{'type':'mutx'}}}",
            "1:27: \"type\" of resource \"m\": unknown value \"mutx\"; nearest valid name: `mutex`",
        ),
        (
            "{'resources':5}",
            "1:14: `resources`: expected an object, found 5",
        ),
    ]);
}

#[test]
fn messages_stay_short_whatever_the_file_says() {
    let name = "x".repeat(100_000);
    let message = refusal(&format!("{{'tasks':{{'{name}':{{'{name}':1}}}}}}"));
    assert!(message.len() < 1000, "{} bytes", message.len());
    let message = refusal(&format!("{{'tasks':{{'a':{{'resume':'{name}'}}}}}}"));
    assert!(message.len() < 1000, "{} bytes", message.len());
}
