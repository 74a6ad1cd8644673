//! Reads words by a table, as `getopt_long` does.

use super::{CommandError, Effect, Flag, Given, Tool, Value, Words};
use schedcast_base::names::suggestion;

impl Tool {
    /// Reads a command line that begins with the tool's own words.
    ///
    /// # Errors
    /// Unknown flags, flags that cannot be forecast, missing and superfluous values.
    pub fn parse(&'static self, words: &[String]) -> Result<Words, CommandError> {
        self.parse_from(words, 0)
    }

    /// Same, of a command line in which the tool's own words begin at index `from`.
    ///
    /// # Errors
    /// As [`Tool::parse`].
    pub(crate) fn parse_from(
        &'static self,
        words: &[String],
        from: usize,
    ) -> Result<Words, CommandError> {
        let mut reader = Reader {
            tool: self,
            words,
            at: from + self.words.len(),
            read: Words::new(self),
        };
        // First, because its flags are not known either.
        for (at, word) in words.iter().enumerate().skip(reader.at) {
            if let Some(refusal) = self.not_modelled(word) {
                return Err(CommandError::new(self.name, at + 1, refusal));
            }
        }
        while reader.at < words.len() {
            reader.word()?;
        }
        Ok(reader.read)
    }

    /// Reads the flags from index `from` on and `operands` words behind them, and says at which
    /// index the next word stands. Used for a tool that starts the command behind it.
    ///
    /// # Errors
    /// As [`Tool::parse`]; fewer operands than asked for.
    pub(in crate::programs) fn parse_leading(
        &'static self,
        words: &[String],
        from: usize,
        operands: usize,
    ) -> Result<(Words, usize), CommandError> {
        let mut reader = Reader {
            tool: self,
            words,
            at: from,
            read: Words::new(self),
        };
        while let Some(word) = words.get(reader.at) {
            let is_flag = word.len() > 1 && word.starts_with('-');
            if word == "--" && reader.read.operands.is_empty() {
                reader.at += 1;
            } else if is_flag && reader.read.operands.is_empty() {
                reader.word()?;
            } else if reader.read.operands.len() < operands {
                reader.at += 1;
                reader.read.operand(word, reader.at)?;
            } else {
                break;
            }
        }
        if reader.read.operands.len() < operands {
            return Err(CommandError::new(
                self.name,
                from,
                "needs a value and a program behind it",
            ));
        }
        Ok((reader.read, reader.at))
    }

    /// Every spelling of every flag that is accepted.
    fn spellings(&self) -> Vec<String> {
        let accepted = self
            .flags()
            .iter()
            .filter(|flag| !matches!(flag.effect, Effect::Refused(_)));
        accepted
            .flat_map(|flag| {
                let long = flag.long.map(|long| format!("--{long}"));
                let short = flag.short.map(|short| format!("-{short}"));
                [long, short].into_iter().flatten()
            })
            .collect()
    }
}

struct Reader<'a> {
    tool: &'static Tool,
    words: &'a [String],
    /// Index of the next word.
    at: usize,
    read: Words,
}

impl Reader<'_> {
    fn word(&mut self) -> Result<(), CommandError> {
        let word = self.words[self.at].clone();
        self.at += 1;
        if word == "--" {
            while self.at < self.words.len() {
                self.at += 1;
                self.read.operand(&self.words[self.at - 1], self.at)?;
            }
            return Ok(());
        }
        if let Some(long) = word.strip_prefix("--") {
            return self.long(&word, long);
        }
        match word.strip_prefix('-') {
            Some(cluster) if !cluster.is_empty() => self.cluster(cluster),
            _ => self.read.operand(&word, self.at),
        }
    }

    fn error(&self, message: String) -> CommandError {
        CommandError::new(self.tool.name, self.at, message)
    }

    fn unknown(&self, typed: &str) -> CommandError {
        let spellings = self.tool.spellings();
        let valid: Vec<&str> = spellings.iter().map(String::as_str).collect();
        let hint = suggestion(typed, &valid);
        self.error(format!("unknown flag `{typed}`; {hint}"))
    }

    /// A long flag by its name or by a beginning that no other has.
    fn long(&mut self, word: &str, long: &str) -> Result<(), CommandError> {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        let flags = self.tool.flags();
        // The names of sysbench's options are the same with `_` and with `-`.
        let dashed = name.replace('_', "-");
        let name = match self.tool.name {
            "sysbench" => dashed.as_str(),
            _ => name,
        };
        let exact = flags.iter().find(|flag| flag.long == Some(name));
        let begins = |flag: &&Flag| flag.long.is_some_and(|long| long.starts_with(name));
        let flag = match (exact, flags.iter().filter(begins).count()) {
            (Some(flag), _) => flag,
            (None, 1) => flags.iter().find(begins).unwrap_or(&flags[0]),
            (None, 0) => {
                let typed = word.split('=').next().unwrap_or(word);
                return Err(self.unknown(typed));
            }
            (None, _) => {
                let candidates: Vec<String> = flags
                    .iter()
                    .filter(begins)
                    .map(|flag| format!("`--{}`", flag.long.unwrap_or("")))
                    .collect();
                let candidates = candidates.join(", ");
                return Err(self.error(format!("`--{name}` could be {candidates}")));
            }
        };
        let typed = format!("--{}", flag.long.unwrap_or(name));
        if flag.value == Value::None && value.is_some() {
            return Err(self.error(format!("flag `{typed}` takes no value")));
        }
        self.give(flag, typed, value)
    }

    /// `-qm`, `-t3`: short flags until one takes the rest as its value.
    fn cluster(&mut self, cluster: &str) -> Result<(), CommandError> {
        let mut rest = cluster.chars();
        while let Some(short) = rest.next() {
            let typed = format!("-{short}");
            let Some(flag) = self
                .tool
                .flags()
                .iter()
                .find(|flag| flag.short == Some(short))
            else {
                // A word of several characters that begins with no flag was meant as one name.
                let whole = cluster.chars().count() > 1 && rest.as_str().len() + 1 == cluster.len();
                return Err(self.unknown(&if whole { format!("-{cluster}") } else { typed }));
            };
            if flag.value == Value::None {
                self.give(flag, typed, None)?;
                continue;
            }
            let value = (!rest.as_str().is_empty()).then(|| rest.as_str().to_owned());
            return self.give(flag, typed, value);
        }
        Ok(())
    }

    fn give(
        &mut self,
        flag: &'static Flag,
        typed: String,
        attached: Option<String>,
    ) -> Result<(), CommandError> {
        if let Effect::Refused(why) = flag.effect {
            return Err(self.error(format!("flag `{typed}` cannot be forecast: {why}")));
        }
        let word = self.at;
        let value = match (flag.value, attached) {
            (Value::None, _) => None,
            (_, Some(value)) => Some(value),
            (Value::Required(name), None) => match self.words.get(self.at) {
                Some(next) => {
                    self.at += 1;
                    Some(next.clone())
                }
                None => {
                    let help = flag.help;
                    return Err(self.error(format!("flag `{typed}` needs a value {name}: {help}")));
                }
            },
            (Value::Optional(_), None) => match self.words.get(self.at) {
                Some(next) if looks_like_a_value(next) => {
                    self.at += 1;
                    Some(next.clone())
                }
                _ => None,
            },
        };
        self.read.given.push(Given {
            tool: self.tool,
            flag,
            typed,
            value,
            word,
        });
        Ok(())
    }
}

/// An optional value is a number or a list of CPUs, as in cyclictest's `-t 3` and `-a 0-2`.
fn looks_like_a_value(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit())
}
