#!/usr/bin/env python3
"""Changes one thing in the source, runs the tests, and tells which changes no test notices.

    .ci/mutants.py diff [BASE]             # every mutant of the lines changed since the branch left BASE (main)
    .ci/mutants.py draw SEED COUNT PATH…   # COUNT mutants of the files below each PATH, drawn by SEED
    … --list                               # show the first COUNT of the draw, compile and test nothing
    … --again                              # only those that survived the last time; their fates are renewed
    … --page PAGE                          # write the table of the page
    … --only tree/drawn                    # run this suite alone

A mutant is one operator, bound or constant replaced: `<` by `<=`, `+` by `-`, `&&` by `||`, `min` by `max`,
`true` by `false`, a number by the next one. It is killed if a test fails, or hangs. A mutant that does not compile
is none: the next of its place is drawn. Mutants that mean the same as the original stand, with the argument, in
`.ci/mutants-equivalent.txt`. The exit code is 1 if any other survives.

All mutants are compiled at once, into a copy of the tree (target/mutants): a function with mutants 17 and 23 becomes

    fn f(…) -> u64 { match crate::schedcast_mutant() { 17 => { … }, 23 => { … }, _ => { … } } }

with its whole body in each arm, and SCHEDCAST_MUTANT=17 runs the tests with mutant 17. What stands outside of
functions, or in one that must stay `const` or returns `impl`, is compiled alone. Worked example:
`.ci/mutants.py draw 7 20 crates/kernel/src/fair` is the same twenty mutants on every machine.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "target/mutants"
TREE = COPY / "tree"
FATES = COPY / "fates.txt"
EQUIVALENT = ROOT / ".ci/mutants-equivalent.txt"
# A test that uses CPU time for so many times as long as it takes without a mutant, and for at least
# so many seconds, hangs; so does one that waits for so many times longer. Others' load, or a
# stopped machine, is no hang.
PATIENCE, PATIENCE_S, PATIENCE_WAITING = 10, 60, 10
# Limit of a suite that no mutant was left for, so that nobody knows how long it takes.
UNMEASURED_S = 600
# Address space of a test: an endless loop that stores must not take the memory of others.
ADDRESS_SPACE_BYTES = 8 << 30
WORKERS = 2
# Of the tests of the rules, those that take seconds.
SLOW = ("small_worlds", "properties", "every_mark_is_reached")
# The suites of a crate's mutants, run until one fails: (package, target of its tests, words).
SUITES = {
    "kernel": [("kernel", "lib", *(word for name in SLOW for word in ("--skip", name))), ("kernel", "lib", *SLOW), ("sim", "worlds"), ("sim", "known_answers"), ("sim", "lib"), ("tree", "trees"),
               ("tree", "drawn"), ("tree", "simulated"), ("lab", "lib")],
    "sim": [("sim", "lib"), ("sim", "worlds"), ("sim", "known_answers")],
}
# The one suite that runs, as PACKAGE/TARGET; None = all.
ONLY = None
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
# Comments, strings and characters, in which braces mean nothing.
INERT = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\[^\n]+?|[^\\\'\n])\'', re.DOTALL
)
FUNCTION = re.compile(r"\b(const\s+)?fn\s+\w+")
# Of a crate with mutants; comparisons that are always true and sums that overflow are among them.
SWITCH = """
/// Number of the mutant that runs; 0 is the original.
#[inline]
pub(crate) fn schedcast_mutant() -> u32 {
    static NUMBER: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {
        std::env::var("SCHEDCAST_MUTANT").map_or(0, |number| number.parse().unwrap())
    });
    *NUMBER
}
"""
ALLOWED = "#![allow(warnings, clippy::all, arithmetic_overflow, unconditional_panic, overflowing_literals)]\n"


class Mutant:
    """One changed line."""

    def __init__(self, path, line, old, new):
        self.path, self.line, self.old, self.new = path, line, old, new
        self.number = None
        # Which of equal changes of equal lines of the file it is.
        self.nth = 1

    def __str__(self):
        return f"{self.path}:{self.line}: {self.old.strip()}  →  {self.new.strip()}"

    def key(self):
        """Key of the mutant that stays when lines move: `rt/push.rs#2` is the second such line of the file."""
        nth = f"#{self.nth}" if self.nth > 1 else ""
        return (self.path + nth, self.old.strip(), self.new.strip())

    def crate(self):
        return pathlib.PurePath(self.path).parts[1]

    def applied(self, text):
        lines = text.split("\n")
        assert lines[self.line - 1] == self.old, self
        lines[self.line - 1] = self.new
        return "\n".join(lines)

    def offset(self, text):
        """Place in the file of the first character that differs."""
        start = sum(len(line) + 1 for line in text.split("\n")[: self.line - 1])
        return start + len(os.path.commonprefix([self.old, self.new]))


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
    found, seen = [], collections.Counter()
    for number, text in enumerate((ROOT / path).read_text().splitlines(), 1):
        if text.startswith("#[cfg(test)]"):
            break
        if SKIPPED.match(text):
            continue
        for mutant in [Mutant(path, number, text, new) for new in variants(text)]:
            seen[mutant.key()] += 1
            mutant.nth = seen[mutant.key()]
            if wanted is None or number in wanted:
                found.append(mutant)
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
    """Arguments of the mutants that mean the same, by their keys."""
    known = {}
    for line in EQUIVALENT.read_text().splitlines():
        if line and not line.startswith("#"):
            path, old, new, why = (part.strip() for part in line.split(" | "))
            known[path, old, new] = why
    return known


def functions(text):
    """(`const` or None, start and end of the body, whether it returns `impl`, first line) of the outermost functions."""
    blank = INERT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    found, behind = [], 0
    for head in FUNCTION.finditer(blank):
        if head.start() < behind:
            continue
        depth, start = 0, head.end()
        while start < len(blank) and not (depth == 0 and blank[start] in "{;"):
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(blank[start], 0)
            start += 1
        if start == len(blank) or blank[start] == ";":
            continue
        depth, behind = 1, start + 1
        while depth:
            depth += {"{": 1, "}": -1}.get(blank[behind], 0)
            behind += 1
        returns = re.search(r"->\s*impl\b", blank[head.end() : start])
        line = text.rfind("\n", 0, head.start()) + 1
        found.append((head.start(1) if head[1] else None, start, behind, bool(returns), line))
    return found


def switched(text, mutants, consts):
    """The file with its mutants behind a switch, the lines of each, and the mutants that cannot be so."""
    bodies, alone = collections.defaultdict(list), []
    every = functions(text)
    for mutant in mutants:
        place = mutant.offset(text)
        home = next((one for one in every if one[1] < place < one[2]), None)
        keeps_const = home and home[0] is not None and text[home[1] : home[2]] in consts
        if home is None or home[3] or keeps_const:
            alone.append(mutant)
        else:
            bodies[home].append(mutant)
    parts, at, spans = [], 0, []
    for home, inside in sorted(bodies.items(), key=lambda body: body[0][1]):
        const, start, end, _, line = home
        # Bodies that are inlined into each other's arms would multiply.
        parts.append(re.sub(r"#\[inline(\(always\))?\]", "", text[at:line]) + "#[inline(never)] ")
        parts += [text[line:const] + text[const:start].replace("const ", "", 1) if const is not None else text[line:start]]
        parts.append("{ match crate::schedcast_mutant() {\n")
        for mutant in inside:
            change = len(mutant.new) - len(mutant.old)
            first = "".join(parts).count("\n") + 1
            # Line of the change itself, in the copy.
            line = first + mutant.line - 1 - text.count("\n", 0, start)
            parts.append(f"{mutant.number} => " + mutant.applied(text)[start : end + change] + "\n")
            spans.append((first, "".join(parts).count("\n"), line, mutant))
        parts.append("_ => " + text[start:end] + "\n} }")
        at = end
    return "".join(parts) + text[at:], spans, alone


def cargo(words, **more):
    command = ["cargo", *words, "--locked", "--offline", "--target-dir", str(COPY / "target"), "--message-format", "json"]
    environment = {**os.environ, "CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_INCREMENTAL": "1"}
    done = subprocess.run(command, cwd=TREE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **more)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]


def errors(messages):
    for message in messages:
        diagnostic = message.get("message")
        if message.get("reason") == "compiler-message" and diagnostic["level"] == "error" and diagnostic["spans"]:
            span = next((span for span in diagnostic["spans"] if span["is_primary"]), diagnostic["spans"][0])
            while span.get("expansion") and not span["file_name"].startswith("crates/"):
                span = span["expansion"]["span"]
            yield span["file_name"], span["line_start"], diagnostic


def packages(crates):
    return [word for crate in sorted(crates) for word in ("-p", f"schedcast-{crate}")]


def write_switched(mutants, broken):
    """Writes all mutants into the copy; (those to be compiled alone, those that do not compile)."""
    crates, forced, consts = {mutant.crate() for mutant in mutants}, [], set()
    for crate in crates:
        file = f"crates/{crate}/src/lib.rs"
        if all(mutant.path != file for mutant in mutants):
            write(TREE / file, ALLOWED + (ROOT / file).read_text() + SWITCH)
    while True:
        by_path, alone, spans = collections.defaultdict(list), list(forced), {}
        for mutant in mutants:
            if mutant not in broken and mutant not in forced:
                by_path[mutant.path].append(mutant)
        for path in sorted({mutant.path for mutant in mutants}):
            text, spans[path], left = switched((ROOT / path).read_text(), by_path[path], consts)
            if path.endswith("/src/lib.rs"):
                text = ALLOWED + text + SWITCH
                spans[path] = [(first + 1, last + 1, line + 1, mutant) for first, last, line, mutant in spans[path]]
            write(TREE / path, text)
            alone += left
        code, messages = cargo(["check", *packages(crates)])
        if code == 0:
            return alone, broken
        before = len(broken) + len(forced) + len(consts)
        for path, line, diagnostic in errors(messages):
            if "non-const" in diagnostic["message"] and (name := re.search(r"`(?:\w+::|<[^>]*>::)*(\w+)`", diagnostic["message"])):
                for other in by_path:
                    text = (ROOT / other).read_text()
                    for const, start, end, *_ in functions(text):
                        if const is not None and re.search(rf"fn\s+{name[1]}\b", text[const:start]):
                            consts.add(text[start:end])
                continue
            for first, last, own, mutant in spans.get(path, []):
                if first <= line <= last and mutant not in broken + forced:
                    (broken if line == own else forced).append(mutant)
        if len(broken) + len(forced) + len(consts) == before:
            shown = "\n".join(diagnostic["rendered"] for *_, diagnostic in errors(messages))
            raise SystemExit(f"mutants: the copy does not compile:\n{shown}")


def suites_of(crate):
    suites = SUITES.get(crate, [(crate, "lib")])
    return [suite for suite in suites if ONLY in (None, "/".join(suite[:2]))]


def binaries(suites):
    """The compiled tests, by suite."""
    found = {}
    wanted = collections.defaultdict(set)
    for package, target, *_ in suites:
        wanted[package].add(target)
    for package, targets in wanted.items():
        words = [word for target in sorted(targets) for word in (["--lib"] if target == "lib" else ["--test", target])]
        code, messages = cargo(["test", "--no-run", "-p", f"schedcast-{package}", *words])
        if code:
            return None
        for message in messages:
            if message.get("executable") and message["profile"]["test"]:
                kind, name = message["target"]["kind"][0], message["target"]["name"]
                found[package, name if kind == "test" else "lib"] = message["executable"]
    return found


def passes(suite, executable, number, limit_s):
    """Whether the tests pass under a mutant: True, False, or None for a hang."""
    environment = {**os.environ, "SCHEDCAST_MUTANT": str(number), "RUST_BACKTRACE": "0"}

    def bound():
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s), int(limit_s)))

    process = subprocess.Popen(
        ["nice", executable, *suite[2:]], cwd=TREE / "crates" / suite[0], env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=bound, start_new_session=True, text=True,
    )
    late = threading.Event()
    timer = threading.Timer(PATIENCE_WAITING * limit_s, lambda: (late.set(), end(process)))
    timer.start()
    try:
        for line in process.stdout:
            # One that fails is enough.
            if line.rstrip().endswith("... FAILED"):
                return False
        code = process.wait()
        return None if late.is_set() or code in (-signal.SIGXCPU, -signal.SIGKILL) else code == 0
    finally:
        timer.cancel()
        end(process)
        process.wait()


def end(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def stage(suite, mutants, tell):
    """Compiles and runs one suite with each of the mutants, if there are any; (its limit, those that survive)."""
    name = "/".join(suite[:2])
    if not mutants:
        return UNMEASURED_S, []
    tests = binaries([suite])
    if tests is None:
        raise SystemExit(f"mutants: {name} does not compile")
    start = time.monotonic()
    if not passes(suite, tests[suite[:2]], 0, 1800):
        raise SystemExit(f"mutants: {name} fails without a mutant")
    took = time.monotonic() - start
    limit_s = max(PATIENCE_S, PATIENCE * took)
    print(f"{name}: {took:.1f} s without a mutant, {len(mutants)} mutants", flush=True)
    left = []
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        started = {pool.submit(passes, suite, tests[suite[:2]], mutant.number, limit_s): mutant for mutant in mutants}
        for done in concurrent.futures.as_completed(started):
            if done.result():
                left.append(started[done])
            else:
                tell(started[done], ("hang" if done.result() is None else "killed") + f" by {name}")
    return limit_s, left


def fate_alone(mutant, limits):
    """Fate of a mutant that is compiled without the others."""
    file = TREE / mutant.path
    kept = file.read_text()
    text = mutant.applied((ROOT / mutant.path).read_text())
    file.write_text(ALLOWED + text + SWITCH if mutant.path.endswith("/src/lib.rs") else text)
    try:
        for suite in suites_of(mutant.crate()):
            tests = binaries([suite])
            if tests is None:
                return "unbuildable"
            passed = passes(suite, tests[suite[:2]], 0, limits[suite])
            if not passed:
                return ("killed" if passed is False else "hang") + f" by {'/'.join(suite[:2])}"
        return "survived"
    finally:
        file.write_text(kept)


def write(file, text):
    """Writes what differs, so that the rest is not compiled again."""
    if not file.is_file() or file.read_text() != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def copy_tree(others):
    """The copy is that of the sources; what did not change keeps its time, and is not compiled again."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode().split("\0")
    names = {name for name in names if name and (ROOT / name).is_file()}
    for file in [file for file in TREE.rglob("*") if file.is_file()] if TREE.exists() else []:
        if file.relative_to(TREE).as_posix() not in names:
            file.unlink()
    for name in names - others:
        source, copy = ROOT / name, TREE / name
        if not copy.is_file() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)


def run(queues, counts, known, again):
    """Fates of the first mutants of each queue that compile."""
    old = dict(reversed(line.split(" | ", 1)) for line in FATES.read_text().splitlines()) if FATES.exists() else {}
    fates = {mutant: how for mutant, how in old.items() if again or how == "unbuildable"}
    number, chosen = 0, []
    # A reserve for those that do not compile; the rest of it is not run.
    for queue, count in zip(queues, counts):
        for mutant in queue[: count + count // 4]:
            number += 1
            mutant.number = number
            chosen.append(mutant)
    copy_tree({mutant.path for mutant in chosen} | {f"crates/{mutant.crate()}/src/lib.rs" for mutant in chosen})
    alone, broken = write_switched(chosen, [mutant for mutant in chosen if fates.get(str(mutant)) == "unbuildable"])
    used = []
    for queue, count in zip(queues, counts):
        used += [mutant for mutant in queue if mutant.number and mutant not in broken][:count]
    fates.update((str(mutant), "unbuildable") for mutant in broken)
    alone = [mutant for mutant in alone if mutant in used]
    print(f"{len(used)} mutants, {len(alone)} of them compiled alone, {len(broken)} do not compile", flush=True)
    def tell(mutant, how):
        fates[str(mutant)] = how
        FATES.write_text("".join(f"{how} | {mutant}\n" for mutant, how in fates.items()))
        print(f"{how:32} {mutant}", flush=True)

    for mutant in used:
        if mutant.key() in known:
            tell(mutant, "equivalent")
    pending = [mutant for mutant in used if mutant.key() not in known and " by " not in fates.get(str(mutant), "")]
    limits = {}
    for suite in dict.fromkeys(suite for mutant in pending for suite in suites_of(mutant.crate())):
        asked = [mutant for mutant in pending if suite in suites_of(mutant.crate()) and mutant not in alone]
        limits[suite], left = stage(suite, asked, tell)
        pending = [mutant for mutant in pending if mutant not in asked or mutant in left]
    for mutant in pending:
        if mutant not in alone:
            tell(mutant, "survived")
    for mutant in alone:
        if mutant in pending:
            tell(mutant, fate_alone(mutant, limits))
    return fates


def write_page(page, places, queues, fates):
    """Writes the table of fates, and who survives, between the marks of the page."""
    suites = sorted({how.split(" by ")[1] for how in fates.values() if " by " in how})
    heads = [*(f"`{suite}`" for suite in suites), "a hang", "equivalent", "survive"]
    lines = [f"| place | mutants | {' | '.join(heads)} | do not compile |", "|---|" + "---:|" * (len(heads) + 2)]
    total = collections.Counter()
    for place, queue in zip(places, queues):
        row = collections.Counter()
        for mutant in queue:
            how = fates.get(str(mutant))
            row[how if how is None or how.startswith("killed") else how.split(" by ")[0]] += 1
        del row[None]
        total += row
        lines.append(table_row(f"`{place}`", row, suites))
    lines.append(table_row("all", total, suites))
    left = [str(mutant) for queue in queues for mutant in queue if fates.get(str(mutant)) == "survived"]
    if left:
        lines += ["", "These survive:", "", "```text", *left, "```"]
    before, _, rest = page.read_text().partition("<!-- fates -->")
    after = rest.partition("<!-- end -->")[2]
    page.write_text(f"{before}<!-- fates -->\n\n" + "\n".join(lines) + f"\n\n<!-- end -->{after}")


def table_row(name, fates, suites):
    kinds = [*(f"killed by {suite}" for suite in suites), "hang", "equivalent", "survived"]
    cells = [name, sum(fates[kind] for kind in kinds), *(fates[kind] for kind in kinds), fates["unbuildable"]]
    return "| " + " | ".join(map(str, cells)) + " |"


def main(arguments):
    page = None
    if "--page" in arguments:
        row = arguments.index("--page")
        page = arguments[row + 1]
        del arguments[row : row + 2]
    if "--only" in arguments:
        global ONLY
        row = arguments.index("--only")
        ONLY = arguments[row + 1]
        del arguments[row : row + 2]
    options = {word for word in arguments if word in ("--list", "--again")}
    match [word for word in arguments if word not in options]:
        case ["diff", *base] if len(base) < 2:
            queues, places = [changed(*base or ["main"])], ["diff"]
            counts = [len(queues[0])]
        case ["draw", seed, count, *places] if places:
            queues, counts = drawn(int(seed), places), [int(count)] * len(places)
        case _:
            raise SystemExit(__doc__)
    if "--list" in options:
        print("\n".join(str(mutant) for queue, count in zip(queues, counts) for mutant in queue[:count]))
        return 0
    fates = run(queues, counts, equivalent(), "--again" in options)
    total = collections.Counter(how.split(" by ")[0] for how in fates.values())
    print(", ".join(f"{count} {how}" for how, count in total.items()))
    if page:
        write_page(ROOT / page, places, queues, fates)
    return 1 if total["survived"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
