#!/usr/bin/env python3
"""Checks the form of comments and Markdown paragraphs (docs/style.md), and rewraps them.

    .ci/words.py [PATH…]           # check all tracked files, or these; 1 if any line is at fault
    .ci/words.py --wrap [PATH…]    # rewrap paragraphs that are too wide, then check

A documentation comment names its item: none of its paragraphs begins with "What", "Who", "Whoever",
"Nobody" or "Somebody". Comments of Rust, Python, TypeScript, C and shell sources and paragraphs of
Markdown end at column 100.

A comment is Markdown. Code, tables, headings, HTML, transcripts and words that cannot be broken (an
address, a short code span) keep their form, and so do pages and parts of pages that programs write.
Only a paragraph with a line that is too wide is wrapped, all of it. Worked example at width 20: of

    - a list item that is too wide

    short

the first paragraph becomes

    - a list item that
      is too wide

and the second one stays. `python3 -m doctest .ci/words.py` runs the examples below.
"""

import argparse
import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH = 100
# A code span of up to so many characters stays on one line.
SPAN_MAX = 50
WORD = re.compile(
    rf"(?:(`+)(?!`)(?:(?!\1)[^\n]){{1,{SPAN_MAX}}}\1"
    r"|(?<![\w.,])\d[\d.,]* (?:%|‰|[nµum]?s|[MG]Hz|[kKMG]B|W)(?!\w)|\S)+"
)
# A sentence that begins so asks instead of naming the item.
ASKS = re.compile(r"(What|Who|Whoever|Nobody|Somebody)\b")
# Pages that programs write as a whole, and sources of others.
GENERATED = [
    "COPYING", "docs/SUMMARY.md", "docs/model.md", "docs/studies.md", "docs/formats/machine.md",
    "docs/formats/experiment.md", "docs/validation/bandwidth-6.18.md", "docs/validation/host-*.md",
    "docs/validation/*calibration*.md",
    "docs/validation/null-test.md", "docs/validation/*programs*.md", "docs/validation/*rt-app*.md",
    "docs/validation/robot.md", "docs/validation/servers-*.md", "docs/validation/single-hog.md",
    "docs/validation/vm-*.md", "crates/verify/tests/browser/axe.js",
    "crates/lab/src/report/page/report.js",
]

# Tokens in which a comment sign is none (strings), then comments, by family of languages.
C_STRING = r'"(?:\\.|[^"\\])*"|\'(?:\\[^\n\']*|[^\'\\\n])\''
TOKENS = {
    "rust": rf'(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)|\br(?P<raw>#*)".*?"(?P=raw)|{C_STRING}',
    "c": rf"(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)|{C_STRING}",
    "script": rf"(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)|{C_STRING}|'[^'\n]*'|`(?:\\.|[^`\\])*`",
    "python": r'(?P<line>\#[^\n]*)|"""(?:\\.|.)*?"""|\'\'\'(?:\\.|.)*?\'\'\'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])*'",
    "shell": r"(?P<line>(?<!\S)\#[^\n]*)|<<-?\s*(?P<q>['\"]?)(?P<end>\w+)(?P=q)\n.*?\n\s*(?P=end)\n"
    r"|'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.",
}
TOKENS = {family: re.compile(tokens, re.DOTALL) for family, tokens in TOKENS.items()}
FAMILIES = {
    ".rs": "rust", ".c": "c", ".h": "c", ".ts": "script", ".js": "script", ".py": "python",
    ".pyi": "python", ".sh": "shell",
}
LINE_COMMENT = re.compile(r"([ \t]*)(//[/!]?|#!?)(?: (.*)|)$")

ITEM = re.compile(r"(\s*)([*+-]|\d+[.)])(\s+)")
# Lines outside of paragraphs: headings, tables, quotes, HTML, references, rules, licences.
APART = re.compile(
    r"\s*(#{1,6} |\||>|<[a-zA-Z/!]|\[[^\]]+\]: |(-{3,}|={3,}|\*{3,})\s*$|SPDX-License-Identifier:)"
)
# Words that would begin something else if they came first in a line.
LEADING = re.compile(r"([*+>|-]|#{1,6}|\d+[.)]|=+|-{2,}|```.*|>.*|\|.*)$")


def columns(text):
    return len(text.expandtabs(8))


def words_of(text):
    """The words of a paragraph; a short code span is one word, and so is a number with its unit.

    >>> words_of("run `a b` (`c d`), then 5 % more")
    ['run', '`a b`', '(`c d`),', 'then', '5 %', 'more']
    """
    return [match[0] for match in WORD.finditer(text)]


def filled(words, first, rest, width):
    """Lines of the words, the first one behind `first` and the others behind `rest`.

    >>> filled("one two - three".split(), "* ", "  ", 9)
    ['* one', '  two -', '  three']
    """
    lines, line = [], []
    for word in words:
        before = first if not lines else rest
        if line and columns(before + " ".join([*line, word])) > width:
            carried = [word]
            # A word that would begin a list or a heading takes its neighbour along.
            while len(line) > 1 and LEADING.match(carried[0]):
                carried.insert(0, line.pop())
            lines.append(before + " ".join(line))
            line = carried
        else:
            line.append(word)
    return [*lines, (first if not lines else rest) + " ".join(line)]


class Paragraphs:
    """Markdown line by line, with wrapped paragraphs; `faults` are numbers of wide lines."""

    def __init__(self, width):
        self.width, self.lines, self.faults, self.begins = width, [], [], []
        self.open, self.first, self.rest = [], "", ""
        # Column of the text of the list item around, and what ends what is kept as it is.
        self.item, self.until, self.number = 0, None, 0

    def close(self):
        """Ends the open paragraph, wrapped if one of its lines is too wide."""
        if not self.open:
            return
        old = [text for _, text in self.open]
        self.begins.append((self.open[0][0], old[0][len(self.first):]))
        if any(columns(line) > self.width for line in old):
            text = " ".join([old[0][len(self.first):], *(line.strip() for line in old[1:])])
            new = filled(words_of(text), self.first, self.rest, self.width)
            if new != old:
                self.faults += [row for row, line in self.open if columns(line) > self.width]
            old = new
        self.lines += old
        self.open = []

    def keep(self, line):
        self.close()
        self.lines.append(line)

    def begin(self, line, first, rest):
        self.close()
        self.first, self.rest = first, rest
        self.open = [(self.number, line)]

    def feed(self, line):
        self.number += 1
        text, indent = line.strip(), len(line) - len(line.lstrip())
        if self.until:
            self.keep(line)
            if re.match(self.until, text):
                self.until = None
        elif fence := re.match(r"(```+|~~~+)", text):
            self.keep(line)
            self.until = re.escape(fence[1]) + r"\s*$"
        elif re.match(r"<!-- (?!end)[^>]*-->$", text):
            # A part that a program writes.
            self.keep(line)
            self.until = "<!-- end"
        elif not text:
            self.keep(line)
        elif item := ITEM.match(line):
            if self.open or indent < 4 or indent <= self.item:
                self.item = len(item[0])
                self.begin(line, item[0], " " * len(item[0]))
            else:
                self.keep(line)
        elif APART.match(line):
            self.keep(line)
            if re.match(r"<(?!https?:)[a-zA-Z!]", text):
                self.until = "$"
        elif self.open:
            self.open.append((self.number, line))
        elif indent >= self.item + 4:
            self.keep(line)
        else:
            self.item = self.item if indent >= self.item else 0
            self.begin(line, line[:indent], line[:indent])
        if self.open and re.search(r"(  |\\)$", line):
            # A hard break.
            self.close()

    def all(self, lines):
        for line in lines:
            self.feed(line)
        self.close()
        return self


def wrapped(lines, width):
    """The lines of a Markdown text, wrapped.

    >>> wrapped(["a b c d e", "f"], 5)
    ['a b c', 'd e f']
    >>> wrapped(["1. aa bb", "", "   cc dd", "", "        code stays"], 6)
    ['1. aa', '   bb', '', '   cc', '   dd', '', '        code stays']
    >>> wrapped(["| a table stays |", "# so does a heading", "```", "and code", "```"], 5)
    ['| a table stays |', '# so does a heading', '```', 'and code', '```']
    """
    return Paragraphs(width).all(lines).lines


def comments(text, family):
    """Runs of comment lines: index of the first, index behind the last, whether it is `/* … */`.

    >>> list(comments('a; // behind code\\n// one\\n// two\\n"\\n// in a string"\\n', "c"))
    [(1, 3, False)]
    """
    run = None
    for token in TOKENS[family].finditer(text):
        kind = token.lastgroup if token.lastgroup in ("line", "block") else None
        start = text.rfind("\n", 0, token.start()) + 1
        if kind is None or text[start:token.start()].strip():
            continue
        first = text.count("\n", 0, start)
        last = first + token[0].count("\n") + 1
        if kind == "block":
            if text[token.end():].split("\n", 1)[0].strip() == "":
                yield first, last, True
            continue
        mark = LINE_COMMENT.match(text[start:token.end()])
        mark = mark and (mark[1], mark[2])
        if run and run[1] == first and run[2] == mark:
            run = (run[0], last, mark)
            continue
        if run and run[2]:
            yield run[0], run[1], False
        run = (first, last, mark)
    if run and run[2]:
        yield run[0], run[1], False


def block_text(lines):
    """Indent and text of a comment `/* … */`; `None` for a form that is not known."""
    indent = re.match(r"\s*", lines[0])[0]
    body = "\n".join(lines)[len(indent):]
    opening = re.match(r"/\*+(\n| )", body)
    if not opening:
        return None
    inner = [line.strip() for line in body[opening.end():-2].split("\n")]
    starred = all(line.startswith("*") for line in inner[opening[1] != "\n":] if line)
    texts = [re.sub(r"^\* ?", "", line) if starred else line for line in inner]
    if not texts[-1]:
        texts.pop()
    return indent, opening[0].rstrip(), opening[1] == "\n", texts


class File:
    """A file with its faults: (number of the line, what is wrong)."""

    def __init__(self, path, name):
        self.path, self.name, self.faults = path, name, []
        self.text = path.read_text()
        self.lines = self.text.split("\n")

    def wide(self, first, paragraphs):
        self.faults += [(first + row, f"wider than {WIDTH} columns") for row in paragraphs.faults]

    def markdown(self):
        found = Paragraphs(WIDTH).all(self.lines)
        self.wide(0, found)
        self.lines = found.lines

    def source(self):
        family = FAMILIES[self.path.suffix]
        for first, last, is_block in sorted(comments(self.text, family), reverse=True):
            lines = self.lines[first:last]
            part = self.block if is_block else self.run
            self.lines[first:last] = part(first, lines)

    def run(self, first, lines):
        """A run of line comments."""
        indent, mark, _ = LINE_COMMENT.match(lines[0]).groups()
        if mark == "#!":
            return lines
        texts = [LINE_COMMENT.match(line)[3] or "" for line in lines]
        found = Paragraphs(WIDTH - columns(f"{indent}{mark} ")).all(texts)
        self.wide(first, found)
        if mark in ("///", "//!"):
            self.asks(first, found)
        return [f"{indent}{mark} {line}".rstrip() for line in found.lines]

    def block(self, first, lines):
        parts = block_text(lines)
        if not parts:
            return lines
        indent, opening, is_alone, texts = parts
        # A line may have to hold the beginning and the end.
        found = Paragraphs(WIDTH - columns(f"{indent}{opening} ") - len(" */")).all(texts)
        if max(map(columns, lines)) <= WIDTH or found.lines == texts:
            return lines
        self.wide(first + is_alone, found)
        body = [f"{indent} * {line}".rstrip() for line in found.lines]
        if is_alone:
            return [indent + opening, *body, f"{indent} */"]
        return [f"{indent}{opening} {found.lines[0]}", *body[1:-1], f"{body[-1]} */"]

    def asks(self, first, paragraphs):
        for row, text in paragraphs.begins:
            if word := ASKS.match(text):
                fault = f"a documentation comment names its item and begins with no {word[0]!r}"
                self.faults.append((first + row, fault))

    def checked(self):
        self.markdown() if self.path.suffix == ".md" else self.source()
        return self


def tracked(paths):
    listed = subprocess.run(
        ["git", "ls-files", "--", *paths], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in listed.stdout.split("\n"):
        if any(fnmatch.fnmatch(name, pattern) for pattern in GENERATED):
            continue
        path = ROOT / name
        if path.suffix in (".md", *FAMILIES) and path.is_file():
            yield File(path, name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--wrap", action="store_true", help="rewrap paragraphs that are too wide")
    parser.add_argument("paths", nargs="*", default=["."], help="files or folders")
    asked = parser.parse_args()
    count = 0
    for file in tracked(asked.paths):
        file.checked()
        if asked.wrap and "\n".join(file.lines) != file.text:
            file.path.write_text("\n".join(file.lines))
            file = File(file.path, file.name).checked()
        for row, fault in sorted(file.faults):
            print(f"{file.name}:{row}: {fault}")
        count += len(file.faults)
    if count:
        print(f"{count} lines against docs/style.md; --wrap wraps wide ones", file=sys.stderr)
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main())
