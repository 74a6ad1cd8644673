//! `schedcast mcp`: the verbs that only read and simulate, as tools of the Model Context Protocol.
//!
//! ```text
//! {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"what_if","arguments":{…}}}   a line in
//! {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"…"}],"isError":false}}   a line out
//! ```
//!
//! A request is one line of JSON-RPC 2.0 on standard input, an answer one on standard output. A
//! call becomes a command line of schedcast, which runs in this process; what it prints is the
//! answer. No tool writes a file, changes a cgroup or starts a program: a value that begins with
//! `-` could become a flag that does, and is refused.
//!
//! Worked example: `what_if` with `{"recording": "pg", "variants": [{"name": "more", "set":
//! ["cpu.max=60000 100000"]}]}` runs `schedcast what-if --variant=more --set=cpu.max=60000 100000
//! --quiet pg`.

use std::fs::File;
use std::io::{BufReader, Write};

use schedcast_host::sys;
use schedcast_lab::error::{Error, Result};
use schedcast_lab::simulate::Simulate;
use schedcast_lab::simulator::Simulator;
use serde_json::{Value, json};

use crate::arguments::McpArguments;

mod session;

/// Longest line that is read, in bytes.
const LONGEST_REQUEST: u64 = 1 << 20;
/// Calls that wait behind the one that runs: at most 64 MiB.
const MOST_WAITING: usize = 64;
/// Versions of the protocol whose messages these are, the newest first.
const PROTOCOLS: [&str; 3] = ["2025-06-18", "2025-03-26", "2024-11-05"];

/// Codes of JSON-RPC.
const NO_JSON: i32 = -32700;
const NO_REQUEST: i32 = -32600;
const NO_METHOD: i32 = -32601;
const BAD_ARGUMENTS: i32 = -32602;
const FAILED: i32 = -32603;
/// The first of those that the protocol leaves to servers.
const BUSY: i32 = -32000;

/// A code of JSON-RPC and a sentence.
type Refusal = (i32, String);

/// How an argument of a tool becomes words of a command line.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// The file or folder that the verb is about.
    Subject,
    /// `--name=value`, from text or a whole number.
    Flag,
    /// The same for each text of a list.
    Flags,
    /// Columns, each with a name and settings.
    Variants,
    /// Two texts behind one flag.
    Pair,
    /// The words of a command, behind `--`.
    Command,
}

/// An argument of a tool.
struct Argument {
    name: &'static str,
    form: Form,
    help: &'static str,
}

/// Arguments, a row each: constant, name, form, help.
macro_rules! arguments {
    ($($constant:ident: $name:literal $form:ident $help:literal;)*) => {
        $(const $constant: Argument = Argument { name: $name, form: Form::$form, help: $help };)*
    };
}

arguments! {
    RECORDING: "recording" Subject "Folder that `schedcast record` wrote";
    CGROUP: "cgroup" Flag "Group that the question is about; without it, the only one that was limited";
    SET: "set" Flags "Settings for all columns: cpu.max='60000 100000', cpu.max.burst=20000, kernel.version=6.12";
    VARIANTS: "variants" Variants "Further columns, each with a name and settings as in `set`";
    SEEDS: "seeds" Flag "Runs of each column";
    DURATION: "duration" Flag "Simulated time, such as 20s";
    KERNEL: "kernel" Flag "Kernel release, such as 6.12";
    METRIC: "metric" Flags "Print only rows with these names";
    FORMAT: "format" Flag "table (the default), markdown or json";
    SUBJECT: "subject" Subject "File of an experiment, or folder of a recording";
    KIND: "kind" Flag "Kind of decision, such as place or throttle";
    DIFF: "diff" Pair "Two variants, whose first different decision is told";
    SLO: "slo" Flags "Promises, such as p99<80ms or nr_throttled<=10";
    CLIENT: "client" Flag "When clients ask: open (by a schedule), closed (when they are answered) or bounded (both)";
    EXPERIMENT: "experiment" Subject "File of the experiment";
    COMMAND: "command" Command "Words of the command line";
    MACHINE: "machine" Flag "Machine: a preset or a file";
    CPUS: "cpus" Flag "CPUs of the machine";
    START: "cgroup" Flag "Group that the command starts in";
    TASK: "task" Flag "Decisions about threads of this name";
    AT: "at" Flag "From this simulated time on, such as 2s";
    COUNT: "count" Flag "How many decisions";
    WHAT: "what" Subject "Kind of names to list";
}

impl Argument {
    /// Whether a tool does nothing without it.
    fn is_required(&self) -> bool {
        matches!(self.form, Form::Subject | Form::Command) || self.name == SLO.name
    }
}

/// A verb as a tool, called by the verb's name with `_` for `-`.
struct Tool {
    verb: &'static str,
    help: &'static str,
    arguments: &'static [Argument],
}

const TOOLS: [Tool; 7] = [
    Tool {
        verb: "what-if",
        help: "Forecast a recorded service under other CPU limits, weights or kernels, beside what was recorded",
        arguments: &[
            RECORDING, CGROUP, SET, VARIANTS, KERNEL, CLIENT, SEEDS, DURATION, METRIC, FORMAT,
        ],
    },
    Tool {
        verb: "advise",
        help: "Find the smallest CPU limit under which a recorded service keeps promises, and who pays for it",
        arguments: &[RECORDING, CGROUP, SLO, CLIENT, SEEDS],
    },
    Tool {
        verb: "check",
        help: "Check whether a recorded service keeps promises under limits",
        arguments: &[RECORDING, CGROUP, SLO, SET, VARIANTS, KERNEL, CLIENT, SEEDS],
    },
    Tool {
        verb: "compare",
        help: "Run all variants of an experiment's file (TOML) and compare them",
        arguments: &[
            EXPERIMENT, SET, VARIANTS, KERNEL, SEEDS, DURATION, METRIC, FORMAT,
        ],
    },
    Tool {
        verb: "run",
        help: "Simulate a benchmark's command line (hackbench, schbench, stress-ng, …) on a machine and a kernel",
        arguments: &[
            COMMAND, MACHINE, CPUS, START, SET, KERNEL, SEEDS, DURATION, METRIC, FORMAT,
        ],
    },
    Tool {
        verb: "explain",
        help: "Single decisions of the simulated scheduler with the rule and the state behind them",
        arguments: &[SUBJECT, SET, VARIANTS, TASK, KIND, AT, COUNT, DIFF],
    },
    Tool {
        verb: "list",
        help: "List the valid names of machines, kernels, patches, programs or metrics",
        arguments: &[WHAT],
    },
];

impl Tool {
    fn name(&self) -> String {
        self.verb.replace('-', "_")
    }

    fn required(&self) -> Vec<&'static str> {
        let required = self.arguments.iter().filter(|one| one.is_required());
        required.map(|one| one.name).collect()
    }
}

/// Answers requests until there are no more.
///
/// # Errors
/// A file that cannot be read, an output that cannot be written.
pub(crate) fn mcp(arguments: &McpArguments, out: &mut impl Write) -> Result<()> {
    let simulator = Simulator::new().drawing();
    match &arguments.requests {
        None => {
            let input = BufReader::new(std::io::stdin());
            session::serve(input, simulator, out, sys::is_output_closed)
        }
        Some(path) => {
            let file =
                File::open(path).map_err(|error| Error::file("read", path.display(), &error))?;
            session::serve(BufReader::new(file), simulator, out, || false)
        }
    }
}

/// How a line is answered.
enum Reply {
    /// At once.
    Now(Value),
    /// By a tool that runs.
    Call { id: Value, parameters: Value },
    /// Not at all: the answer to this request is not wanted any more.
    Cancel(Value),
}

fn refused(id: &Value, (code, message): Refusal) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn answered(id: &Value, result: std::result::Result<Value, Refusal>) -> Value {
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(refusal) => refused(id, refusal),
    }
}

/// The answer to a line; most notifications and an empty line have none.
fn reply(line: &[u8]) -> Option<Reply> {
    if line.trim_ascii().is_empty() {
        return None;
    }
    let request: Value = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => {
            let refusal = (NO_JSON, error.to_string());
            return Some(Reply::Now(refused(&Value::Null, refusal)));
        }
    };
    let is_id = |id: &Value| id.is_string() || id.is_i64() || id.is_u64();
    let has_id = request.get("id").is_none_or(is_id);
    let method = request.get("method").and_then(Value::as_str);
    let method = method.filter(|_| has_id && request["jsonrpc"] == "2.0");
    let Some(method) = method else {
        let expected = "a request is an object with jsonrpc, which is \"2.0\", an id, which is text or a whole \
                        number, and a method";
        let id = request.get("id").filter(|id| is_id(id));
        let id = id.unwrap_or(&Value::Null);
        return Some(Reply::Now(refused(id, (NO_REQUEST, expected.to_string()))));
    };
    let parameters = request.get("params").unwrap_or(&Value::Null);
    if method == "notifications/cancelled" {
        return Some(Reply::Cancel(parameters.get("requestId")?.clone()));
    }
    let id = request.get("id")?;
    let result = match method {
        "initialize" => Ok(initialized(parameters)),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": TOOLS.iter().map(described).collect::<Vec<_>>()})),
        "tools/call" => {
            let (id, parameters) = (id.clone(), parameters.clone());
            return Some(Reply::Call { id, parameters });
        }
        _ => {
            let known = ["initialize", "ping", "tools/list", "tools/call"];
            let nearest = schedcast_base::names::suggestion(method, &known);
            Err((NO_METHOD, format!("no method `{method}`; {nearest}")))
        }
    };
    Some(Reply::Now(answered(id, result)))
}

/// The reply to a call.
fn called(id: &Value, parameters: &Value, simulator: &impl Simulate) -> Value {
    answered(id, call(parameters, simulator))
}

fn initialized(parameters: &Value) -> Value {
    let asked = parameters.get("protocolVersion").and_then(Value::as_str);
    let known = PROTOCOLS.iter().find(|version| Some(**version) == asked);
    json!({
        "protocolVersion": known.unwrap_or(&PROTOCOLS[0]),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "schedcast", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// A tool as `tools/list` describes it, with a JSON schema of its arguments.
fn described(tool: &Tool) -> Value {
    let words = json!({"type": "array", "items": {"type": "string"}});
    let kind = |form: Form| match form {
        Form::Subject => json!({"type": "string"}),
        Form::Flag => json!({"type": ["string", "integer"]}),
        Form::Flags | Form::Command => words.clone(),
        Form::Pair => {
            json!({"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2})
        }
        Form::Variants => json!({"type": "array", "items": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "set": words},
            "required": ["name"],
            "additionalProperties": false,
        }}),
    };
    let properties = tool.arguments.iter().map(|argument| {
        let mut schema = kind(argument.form);
        schema["description"] = json!(argument.help);
        (argument.name.to_string(), schema)
    });
    json!({
        "name": tool.name(),
        "description": tool.help,
        "inputSchema": {
            "type": "object",
            "properties": properties.collect::<serde_json::Map<_, _>>(),
            "required": tool.required(),
            "additionalProperties": false,
        },
        "annotations": {"readOnlyHint": true},
    })
}

/// Runs a tool. A complaint of the verb is a result for the caller to read, and no error of the
/// protocol.
fn call(parameters: &Value, simulator: &impl Simulate) -> std::result::Result<Value, Refusal> {
    let name = parameters.get("name").and_then(Value::as_str);
    let name = name.ok_or((BAD_ARGUMENTS, "params.name names a tool".to_string()))?;
    let tool = TOOLS.iter().find(|tool| tool.name() == name);
    let tool = tool.ok_or_else(|| {
        let known = TOOLS.map(|tool| tool.name());
        let nearest =
            schedcast_base::names::suggestion(name, &known.each_ref().map(|one| &one[..]));
        (BAD_ARGUMENTS, format!("no tool `{name}`; {nearest}"))
    })?;
    let words = command_line(tool, parameters.get("arguments").unwrap_or(&Value::Null))
        .map_err(|message| (BAD_ARGUMENTS, message))?;
    let (mut told, mut complaints) = (Vec::new(), Vec::new());
    let words = words.into_iter().map(Into::into);
    let code = crate::run(words, simulator, &mut told, &mut complaints);
    // A broken promise (1) is an answer.
    let failed = code > 1;
    let said = if failed { complaints } else { told };
    let text = String::from_utf8_lossy(&said);
    Ok(json!({"content": [{"type": "text", "text": text}], "isError": failed}))
}

/// The words of a command line for a call.
fn command_line(tool: &Tool, given: &Value) -> std::result::Result<Vec<String>, String> {
    let none = serde_json::Map::new();
    let given = match given {
        Value::Null => &none,
        Value::Object(given) => given,
        _ => return Err("arguments are an object".to_string()),
    };
    let known: Vec<&str> = tool.arguments.iter().map(|one| one.name).collect();
    if let Some(name) = given.keys().find(|name| !known.contains(&name.as_str())) {
        let nearest = schedcast_base::names::suggestion(name, &known);
        return Err(format!(
            "{} has no argument `{name}`; {nearest}",
            tool.name()
        ));
    }
    let required = tool.required();
    if let Some(name) = required.iter().find(|name| !given.contains_key(**name)) {
        return Err(format!("{} needs `{name}`", tool.name()));
    }
    let mut words = vec!["schedcast".to_string(), tool.verb.to_string()];
    // A progress bar is for a terminal.
    words.push("--quiet".to_string());
    let (mut subject, mut command) = (None, None);
    for argument in tool.arguments {
        let Some(value) = given.get(argument.name) else {
            continue;
        };
        let name = argument.name;
        match argument.form {
            Form::Subject => {
                let text = value.as_str().ok_or_else(|| format!("`{name}` is text"))?;
                subject = Some(harmless(name, text)?);
            }
            Form::Flag => words.push(format!("--{name}={}", scalar(name, value)?)),
            Form::Flags => {
                for text in texts(name, value)? {
                    words.push(format!("--{name}={text}"));
                }
            }
            Form::Variants => variants(value, &mut words)?,
            Form::Pair => {
                words.push(format!("--{name}"));
                for text in texts(name, value)? {
                    words.push(harmless(name, &text)?);
                }
            }
            Form::Command => {
                let given = texts(name, value)?;
                if given.is_empty() {
                    return Err(format!("`{name}` is empty"));
                }
                command = Some(given);
            }
        }
    }
    words.extend(subject);
    if let Some(command) = command {
        words.push("--".to_string());
        words.extend(command);
    }
    Ok(words)
}

fn variants(value: &Value, words: &mut Vec<String>) -> std::result::Result<(), String> {
    let expected = "variants are a list of objects with `name` and `set`";
    for variant in value.as_array().ok_or(expected)? {
        let name = variant.get("name").and_then(Value::as_str);
        let name = name.ok_or(expected)?;
        words.push(format!("--variant={name}"));
        if let Some(settings) = variant.get("set") {
            for text in texts("set", settings)? {
                words.push(format!("--set={text}"));
            }
        }
    }
    Ok(())
}

/// A text or a whole number as text. A fraction loses its last zeros before it comes here.
fn scalar(name: &str, value: &Value) -> std::result::Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) if !number.is_f64() => Ok(number.to_string()),
        Value::Number(number) => Err(format!(
            "`{name}` is text or a whole number, found the number {number}: write it as text; as a number 6.10 \
             would be 6.1"
        )),
        _ => Err(format!("`{name}` is text or a whole number")),
    }
}

/// A text that stands by itself on a command line, where it must not become a flag.
fn harmless(name: &str, text: &str) -> std::result::Result<String, String> {
    match text.starts_with('-') {
        true => Err(format!("`{name}` begins with -: {text}")),
        false => Ok(text.to_string()),
    }
}

fn texts(name: &str, value: &Value) -> std::result::Result<Vec<String>, String> {
    let expected = || format!("`{name}` is a list of texts");
    let values = value.as_array().ok_or_else(expected)?;
    let texts = values.iter().map(|one| one.as_str().map(str::to_string));
    texts.collect::<Option<_>>().ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn answers(requests: &str) -> Vec<Value> {
        let mut out = Vec::new();
        let simulator = Simulator::new().drawing();
        let input = Cursor::new(requests.to_owned());
        session::serve(input, simulator, &mut out, || false).unwrap();
        // Each message is a line of its own.
        let lines = std::str::from_utf8(&out).unwrap().lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn call_of(name: &str, arguments: Value) -> Value {
        let parameters = json!({"name": name, "arguments": arguments});
        let request =
            json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": parameters});
        answers(&request.to_string()).remove(0)
    }

    #[test]
    fn a_session_from_its_begin_to_a_call() {
        let requests = [
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-03-26"}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": "a", "method": "tools/list"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list", "arguments": {"what": "machines"}}}),
        ];
        let lines: String = requests.iter().map(|one| format!("{one}\n")).collect();
        let told = answers(&lines);
        assert_eq!(told.len(), 3, "a notification has no answer");
        assert_eq!(told[0]["result"]["protocolVersion"], "2025-03-26");
        assert_eq!(told[1]["id"], "a");
        let tools = told[1]["result"]["tools"].as_array().unwrap();
        assert_eq!(tools.len(), TOOLS.len());
        let text = told[2]["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("generic-8"), "{text}");
    }

    #[test]
    fn a_simulated_command_line_answers_with_its_table() {
        let arguments = json!({
            "command": ["cyclictest", "-t", "1", "-i", "1000", "-d", "0"],
            "cpus": 2, "kernel": "6.1", "seeds": 2, "duration": "20ms", "format": "json",
        });
        let told = call_of("run", arguments);
        assert_eq!(told["result"]["isError"], false, "{told}");
        let text = told["result"]["content"][0]["text"].as_str().unwrap();
        let table: Value = serde_json::from_str(text).unwrap();
        assert_eq!(table["variants"][0]["kernel"]["version"], "6.1");
    }

    #[test]
    fn what_the_verb_complains_about_is_told_to_the_caller() {
        let told = call_of("run", json!({"command": ["hackbnch"]}));
        assert_eq!(told["result"]["isError"], true);
        let text = told["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("unknown program"), "{text}");
    }

    #[test]
    fn no_value_becomes_a_flag() {
        let diff = json!({"subject": "e.toml", "diff": ["a", "--json=/tmp/written"]});
        for (name, arguments) in [
            ("what_if", json!({"recording": "--json=/tmp/written"})),
            ("explain", diff),
            ("list", json!({"what": "-h"})),
        ] {
            let told = call_of(name, arguments);
            assert_eq!(told["error"]["code"], BAD_ARGUMENTS, "{told}");
        }
        let variants = json!([{"name": "--trace=y", "set": ["--report=z"]}]);
        let given = json!({"recording": "r", "cgroup": "--json=x", "variants": variants});
        let line = command_line(&TOOLS[0], &given);
        let expected =
            "schedcast what-if --quiet --cgroup=--json=x --variant=--trace=y --set=--report=z r";
        assert_eq!(line.unwrap().join(" "), expected);
    }

    #[test]
    fn what_is_no_request_is_refused_with_its_code() {
        let code = |request: &str| answers(request)[0]["error"]["code"].as_i64().unwrap() as i32;
        assert_eq!(code("{"), NO_JSON);
        assert_eq!(code("[]"), NO_REQUEST);
        let ping = |begin: &str| code(&format!(r#"{{{begin} "method": "ping"}}"#));
        assert_eq!(ping(r#""id": 1,"#), NO_REQUEST);
        assert_eq!(ping(r#""id": 1, "jsonrpc": "1.0","#), NO_REQUEST);
        assert_eq!(ping(r#""id": null, "jsonrpc": "2.0","#), NO_REQUEST);
        let unknown = r#"{"id": 1, "jsonrpc": "2.0", "method": "tools/cal"}"#;
        assert_eq!(code(unknown), NO_METHOD);
        let unknown = call_of("what_iff", json!({}));
        assert_eq!(unknown["error"]["code"], BAD_ARGUMENTS);
        let missing = call_of("advise", json!({"recording": "r"}));
        assert_eq!(missing["error"]["message"], "advise needs `slo`");
        let unknown = call_of("list", json!({"what": "machines", "whot": 1}));
        let message = unknown["error"]["message"].as_str().unwrap();
        assert!(message.contains("nearest valid name: `what`"), "{message}");
    }

    #[test]
    fn what_is_of_another_type_than_its_argument_is_refused() {
        let message = |name: &str, arguments: Value| {
            let told = call_of(name, arguments);
            assert_eq!(told["error"]["code"], BAD_ARGUMENTS, "{told}");
            told["error"]["message"].as_str().unwrap().to_string()
        };
        let kernel = message("run", json!({"command": ["hackbench"], "kernel": 6.10}));
        assert!(kernel.contains("found the number 6.1: write"), "{kernel}");
        assert!(
            kernel.ends_with("as a number 6.10 would be 6.1"),
            "{kernel}"
        );
        assert_eq!(
            message("what_if", json!({"recording": 5})),
            "`recording` is text"
        );
        assert_eq!(message("run", json!({"command": []})), "`command` is empty");
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_and_the_next_one_answered() {
        let long = "x".repeat(LONGEST_REQUEST as usize + 10);
        let told = answers(&format!(
            "{long}\n{{\"jsonrpc\": \"2.0\", \"id\": 3, \"method\": \"ping\"}}\n{long}"
        ));
        assert_eq!((told.len(), &told[1]["id"]), (3, &json!(3)));
        for refused in [&told[0], &told[2]] {
            assert_eq!(refused["error"]["code"], NO_REQUEST);
            let message = refused["error"]["message"].as_str().unwrap();
            assert!(message.contains("longer than"), "{message}");
        }
    }

    #[test]
    fn a_ping_overtakes_calls_and_a_cancelled_call_has_no_answer() {
        let call = |id: u32, duration: &str| {
            let words = json!(["cyclictest", "-t", "1", "-i", "1000", "-d", "0"]);
            let arguments = json!({"command": words, "seeds": 2, "duration": duration});
            let parameters = json!({"name": "run", "arguments": arguments});
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": parameters})
                .to_string()
        };
        let cancel = |id: u32| {
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}).to_string()
        };
        let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}).to_string();
        let lines = [
            call(1, "200s"),
            call(2, "20ms"),
            call(3, "20ms"),
            cancel(1),
            cancel(3),
            ping,
        ];
        let told = answers(&lines.join("\n"));
        let ids: Vec<u64> = told.iter().map(|one| one["id"].as_u64().unwrap()).collect();
        assert_eq!(ids, [9, 2]);
    }

    #[test]
    fn calls_beyond_those_that_may_wait_are_refused() {
        let call = |id: usize| {
            let parameters = json!({"name": "list", "arguments": {"what": "machines"}});
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": parameters})
                .to_string()
        };
        let slow = json!({"command": ["hackbench", "-g", "10"], "seeds": 2});
        let parameters = json!({"name": "run", "arguments": slow});
        let slow = json!({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": parameters})
            .to_string();
        let last = MOST_WAITING + 2;
        let lines: Vec<String> = [slow].into_iter().chain((1..=last).map(call)).collect();
        let told = answers(&lines.join("\n"));
        let refused: Vec<&Value> = told
            .iter()
            .filter(|one| one["error"] != Value::Null)
            .collect();
        let ids: Vec<u64> = refused
            .iter()
            .map(|one| one["id"].as_u64().unwrap())
            .collect();
        assert_eq!(ids, [last as u64 - 1, last as u64]);
        assert_eq!(refused[0]["error"]["code"], BUSY);
        assert_eq!(told.len(), last + 1);
    }

    #[test]
    fn who_is_gone_is_not_computed_for() {
        let arguments = json!({"command": ["hackbench", "-g", "40"], "seeds": 2});
        let parameters = json!({"name": "run", "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters});
        let mut out = Vec::new();
        let simulator = Simulator::new().drawing();
        session::serve(Cursor::new(call.to_string()), simulator, &mut out, || true).unwrap();
        assert!(out.is_empty());
    }
}
