#!/usr/bin/env python3
"""Changes one thing in the source, runs the tests, and tells which changes no test notices.

    .ci/mutants.py diff [BASE]             # every mutant of the lines changed since the branch left BASE (main)
    .ci/mutants.py draw SEED COUNT PATH…   # COUNT mutants of the files below each PATH, drawn by SEED
    … --list                               # show them, test nothing

A mutant is one operator, bound or constant replaced: `<` by `<=`, `+` by `-`, `&&` by `||`, `min` by `max`,
`true` by `false`, a number by the next one. It is killed if the unit tests of its crate fail, and it does not count
if it does not compile. Mutants that mean the same as the original stand, with the argument, in
`.ci/mutants-equivalent.txt`. The exit code is 1 if any other survives.

The tests run on a copy of the tree (target/mutants), so that the tree itself is never changed. Worked example:
`.ci/mutants.py draw 7 20 crates/kernel/src/fair` is the same twenty mutants on every machine.
"""

import pathlib
import random
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "target/mutants"
EQUIVALENT = ROOT / ".ci/mutants-equivalent.txt"
# Longer than any crate's unit tests take on a busy machine; what is still running is a hang.
PATIENCE_S = 1800
# (what is replaced, by what); each occurrence is a mutant.
SWAPS = [
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "),
    (r" != ", " == "), (r" && ", " || "), (r" \|\| ", " && "), (r" \+ ", " - "), (r" - ", " + "),
    (r" \* ", " / "), (r" / ", " * "), (r" \+= ", " -= "), (r" -= ", " += "), (r" << ", " >> "),
    (r" >> ", " << "), (r"\bmin\(", "max("), (r"\bmax\(", "min("), (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"), (r"saturating_sub\(", "saturating_add("),
]
NUMBER = re.compile(r"(?<![\w.])\d[\d_]*(?![\w.])")
# Lines that decide nothing: comments, attributes, declarations, what only debug builds check.
SKIPPED = re.compile(
    r"^\s*(//|#|use |pub use |mod |pub mod |debug_assert|assert|reached\(|impl\b|struct |(pub(\(\w+\))? )?(fn|type|const fn)\b)"
)


class Mutant:
    """One changed line."""

    def __init__(self, path, line, old, new):
        self.path, self.line, self.old, self.new = path, line, old, new

    def __str__(self):
        return f"{self.path}:{self.line}: {self.old.strip()}  →  {self.new.strip()}"

    def key(self):
        """Key of the mutant that stays when lines move."""
        return (self.path, self.old.strip(), self.new.strip())


def variants(text):
    """The line with one thing replaced, in order of place."""
    code = text.split("//")[0]
    found = []
    for pattern, by in SWAPS:
        for match in re.finditer(pattern, code):
            found.append((match.start(), text[: match.start()] + by + text[match.end() :]))
    for match in NUMBER.finditer(code):
        number = str(int(match[0].replace("_", "")) + 1)
        found.append((match.start(), text[: match.start()] + number + text[match.end() :]))
    return [text for _, text in sorted(found)]


def mutants_of(path, wanted=None):
    """All mutants of a file, or of some of its lines. Its tests, at the end, are left out."""
    found = []
    for number, text in enumerate((ROOT / path).read_text().splitlines(), 1):
        if text.startswith("#[cfg(test)]"):
            break
        if (wanted is None or number in wanted) and not SKIPPED.match(text):
            found.extend(Mutant(path, number, text, new) for new in variants(text))
    return found


def is_source(path):
    parts = pathlib.PurePath(path).parts
    is_test = any(re.fullmatch(r"(.*_)?tests?(ing)?(\.rs)?", part) for part in parts)
    return path.endswith(".rs") and parts[:1] == ("crates",) and "src" in parts and not is_test


def changed(base):
    """Mutants of the lines that changed since the branch left `base`, committed or not."""
    command = ["git", "diff", "--unified=0", "--merge-base", base, "--", "crates"]
    text = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    lines, path = {}, None
    for line in text.splitlines():
        if line.startswith("+++ "):
            path = line[6:] if line.startswith("+++ b/") else None
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            if path and is_source(path):
                lines.setdefault(path, set()).update(range(first, first + count))
    return [mutant for path in sorted(lines) for mutant in mutants_of(path, lines[path])]


def drawn(seed, places):
    """All mutants of each place in the order of the draw; the same order for the same seed."""
    chosen = []
    for place in places:
        files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / place).rglob("*.rs"))
        every = [mutant for path in files if is_source(path) for mutant in mutants_of(path)]
        if not every:
            raise SystemExit(f"mutants: no source to change below {place}")
        # One generator a place: another place more or less changes nothing here.
        random.Random(f"{seed} {place}").shuffle(every)
        chosen.append(every)
    return chosen


def equivalent():
    """Keys of the mutants that were argued to mean the same."""
    known = set()
    for line in EQUIVALENT.read_text().splitlines():
        if line and not line.startswith("#"):
            path, old, new, _why = (part.strip() for part in line.split(" | "))
            known.add((path, old, new))
    return known


def tests_of(path):
    package = "schedcast-" + pathlib.PurePath(path).parts[1]
    return ["cargo", "test", "--locked", "--offline", "-q", "-p", package, "--lib"]


def fate(mutant):
    """killed, survived or unbuildable."""
    file = COPY / "tree" / mutant.path
    original = file.read_text()
    lines = original.split("\n")
    assert lines[mutant.line - 1] == mutant.old, mutant
    lines[mutant.line - 1] = mutant.new
    file.write_text("\n".join(lines))
    quiet = {"cwd": COPY / "tree", "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [*tests_of(mutant.path), "--target-dir", str(COPY / "target")]
    try:
        if subprocess.run([*command, "--no-run"], **quiet).returncode != 0:
            return "unbuildable"
        done = subprocess.run(command, timeout=PATIENCE_S, **quiet)
        return "survived" if done.returncode == 0 else "killed"
    except subprocess.TimeoutExpired:
        return "killed"
    finally:
        file.write_text(original)


def copy_tree():
    tree = COPY / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    for name in filter(None, names.decode().split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def main(arguments):
    only_list = "--list" in arguments
    match [word for word in arguments if word != "--list"]:
        case ["diff"]:
            chosen = changed("main")
        case ["diff", base]:
            chosen = changed(base)
        case ["draw", seed, count, *places] if places:
            every = drawn(int(seed), places)
            chosen = [mutant for place in every for mutant in place[: int(count)]]
        case _:
            raise SystemExit(__doc__)
    known = equivalent()
    chosen = [mutant for mutant in chosen if mutant.key() not in known]
    if only_list:
        print("\n".join(map(str, chosen)))
        return 0
    copy_tree()
    fates = {"killed": 0, "survived": 0, "unbuildable": 0}
    for mutant in chosen:
        how = fate(mutant)
        fates[how] += 1
        print(f"{how:11} {mutant}", flush=True)
    print(", ".join(f"{count} {how}" for how, count in fates.items()))
    return 1 if fates["survived"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
