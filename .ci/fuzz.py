#!/usr/bin/env python3
"""Fuzzes every reader and the verbs by coverage, with libFuzzer, and writes what came of it.

    .ci/fuzz.py 10                          # seconds for each target
    .ci/fuzz.py 3600 --only verb command
    .ci/fuzz.py 600 --page docs/validity/fuzzing.md

The stable compiler counts coverage by flags of its own, so no other tool chain is needed; libFuzzer itself
is compiled from the crate `libfuzzer-sys` by the machine's C++ compiler. New inputs are kept below
`target/fuzz/inputs`, so that a later run goes on from there, and findings below `target/fuzz/findings`. A
finding is 10 s, 2 GB, a panic or an abort. A finding's file, put into `crates/fuzz/corpus/TARGET`, is a test.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CRATE = ROOT / "crates" / "fuzz"
WORK = ROOT / "target" / "fuzz"
TRIPLE = f"{os.uname().machine}-unknown-linux-gnu"
COVERAGE = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=16",
]
LONGEST_S = 10
MOST_MB = 2048
# Long inputs are slow, and seldom reach what short ones do not.
MOST_BYTES = 16384
BEGIN, END = "<!-- fuzzing -->", "<!-- end -->"


def build():
    """Builds the engine with coverage counters in everything it contains."""
    command = ["cargo", "build", "--locked", "--release", "--target", TRIPLE, "--target-dir", str(WORK)]
    environment = os.environ | {"RUSTFLAGS": " ".join(COVERAGE)}
    subprocess.run(command, cwd=CRATE / "engine", env=environment, check=True)
    return WORK / TRIPLE / "release" / "fuzz"


def fuzz(engine, target, seconds):
    """Fuzzes one target; how many inputs were run, how many branches they reached, and the findings."""
    inputs, findings = WORK / "inputs" / target, WORK / "findings" / target
    inputs.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    command = [
        str(engine), f"-max_total_time={seconds}", f"-timeout={LONGEST_S}", f"-rss_limit_mb={MOST_MB}",
        f"-max_len={MOST_BYTES}", f"-artifact_prefix={findings}/", "-print_final_stats=1",
        str(inputs), str(CRATE / "corpus" / target),
    ]  # fmt: skip
    done = subprocess.run(
        command, env=os.environ | {"FUZZ_TARGET": target}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", check=False,
    )  # fmt: skip
    runs = re.findall(r"stat::number_of_executed_units:\s*(\d+)", done.stdout)
    cover = re.findall(r"\bcov: (\d+)", done.stdout)
    found = sorted(path.name for path in findings.iterdir())
    if done.returncode != 0 and not found:
        sys.exit(f"{target}: the fuzzer ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return int(runs[-1]) if runs else 0, int(cover[-1]) if cover else 0, found


def table(rows):
    """The rows as markdown."""
    lines = ["| target | inputs run | branches reached | findings |", "| --- | ---: | ---: | ---: |"]
    for target, runs, cover, found in rows:
        lines.append(f"| `{target}` | {runs:,} | {cover:,} | {len(found)} |")
    lines.append(f"| together | {sum(row[1] for row in rows):,} | | {sum(len(row[3]) for row in rows)} |")
    return "\n".join(lines)


def main():
    names = sorted(path.name for path in (CRATE / "corpus").iterdir())
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seconds", type=int, help="for each target")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="TARGET")
    parser.add_argument("--page", type=pathlib.Path, help="file whose table is written anew")
    asked = parser.parse_args()
    engine = build()
    rows = []
    for target in asked.only:
        rows.append((target, *fuzz(engine, target, asked.seconds)))
        print(f"{target}: {rows[-1][1]:,} inputs, {len(rows[-1][3])} findings", flush=True)
    if asked.page:
        text = asked.page.read_text()
        before, rest = text.split(BEGIN)
        asked.page.write_text(f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{rest.split(END)[1]}")
    found = [f"target/fuzz/findings/{row[0]}/{name}" for row in rows for name in row[3]]
    sys.exit("\n".join(["findings:", *found]) if found else 0)


if __name__ == "__main__":
    main()
