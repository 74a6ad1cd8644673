#!/usr/bin/env python3
"""Checks that the licence of every dependency fits GPL-2.0-only, and writes the bill of materials.

What is linked into the command or the Python package is distributed with it, so its licence must allow
distribution under the terms of GPL version 2 alone. Apache-2.0 does not: its patent clause is a further
restriction. Tools and libraries that only tests use are not distributed; they must be free, no more.

    .ci/licences.py                 # check; 0 if all fit
    .ci/licences.py bill FILE       # check, and write the bill of materials (CycloneDX 1.5, JSON)

Worked example: `(MIT OR Apache-2.0) AND Unicode-3.0` fits, because MIT does and Unicode-3.0 does.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Crates whose builds are given to users.
SHIPPED = ("schedcast-cli", "schedcast-python")
# Licences under which code may be part of a work under GPL-2.0-only
# (https://www.gnu.org/licenses/license-list.html).
FITS = {
    "0BSD", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "GPL-2.0-only", "GPL-2.0-or-later",
    "ISC", "LGPL-2.1-only", "LGPL-2.1-or-later", "MIT", "MIT-0", "MPL-2.0", "Unicode-3.0", "Unlicense",
    "Zlib",
    # The exception drops the clauses of Apache-2.0 that conflict with GPL version 2.
    "Apache-2.0 WITH LLVM-exception",
}
# Free licences that may not be part of such a work; tests may use what has them.
FREE = FITS | {"Apache-2.0"}
# npm packages of the report page: version, licence, and whether the page contains them.
PAGE = {
    "axe-core": ("4.14.1", "MPL-2.0", False),
    "esbuild": ("0.28.2", "MIT", False),
    "typescript": ("7.0.2", "Apache-2.0", False),
    "uplot": ("1.6.32", "MIT", True),
}


def fits(expression, allowed):
    """Whether an SPDX expression can be met with the allowed licences alone."""
    # "A/B" is how older packages write "A OR B".
    words = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def operand():
        if not words:
            raise ValueError(f"{expression!r} ends too early")
        word = words.pop(0)
        if word == "(":
            value = either()
            if not words or words.pop(0) != ")":
                raise ValueError(f"{expression!r} lacks a )")
            return value
        if words[:1] == ["WITH"]:
            word = f"{word} WITH {words[1]}"
            del words[:2]
        return word in allowed

    def both():
        value = operand()
        while words[:1] == ["AND"]:
            words.pop(0)
            value = operand() and value
        return value

    def either():
        value = both()
        while words[:1] == ["OR"]:
            words.pop(0)
            value = both() or value
        return value

    value = either()
    if words:
        raise ValueError(f"{expression!r}: what is {words[0]!r}?")
    return value


def metadata():
    # It runs on Linux only, so what dependencies need on other systems is not part of it.
    platform = ["--filter-platform", "x86_64-unknown-linux-gnu"]
    command = ["cargo", "metadata", "--locked", "--format-version", "1", *platform]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def shipped_ids(graph, packages):
    """Dependencies of the shipped crates, tests and benchmarks left out."""
    nodes = {node["id"]: node["deps"] for node in graph["nodes"]}
    waiting = [key for key, package in packages.items() if package["name"] in SHIPPED]
    if len(waiting) != len(SHIPPED):
        raise SystemExit(f"licences: not all of {', '.join(SHIPPED)} are in the workspace")
    found = set()
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            for dependency in nodes[key]:
                if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                    waiting.append(dependency["pkg"])
    return found


def complaints(packages, shipped):
    """A sentence for each dependency whose licence does not fit."""
    for key, package in sorted(packages.items()):
        what = f"{package['name']} {package['version']}"
        licence = package["license"]
        if licence is None:
            yield f"{what} names no licence"
            continue
        allowed, where = (FITS, "built into schedcast") if key in shipped else (FREE, "used by tests")
        try:
            fine = fits(licence, allowed)
        except ValueError as error:
            fine, licence = False, str(error)
        if not fine:
            yield f"{what} is {where} and has the licence {licence}"


def page_complaints():
    folder = ROOT / "crates/lab"
    wanted = json.loads((folder / "report/package.json").read_text())
    versions = {**wanted.get("dependencies", {}), **wanted.get("devDependencies", {})}
    known = {name: version for name, (version, _, _) in PAGE.items()}
    if versions != known:
        yield f"the report page uses {versions}; the licences of {known} are known"
    for name, (_, licence, contained) in PAGE.items():
        if not fits(licence, FITS if contained else FREE):
            yield f"{name} of the report page has the licence {licence}"
    if not (folder / "src/report/page/uPlot.LICENSE").exists():
        yield "the licence of uPlot is not beside the report page that contains it"


def checksums():
    """SHA-256 of each package's archive, by name and version, from Cargo.lock."""
    text = (ROOT / "Cargo.lock").read_text()
    entry = re.compile(r'name = "([^"]+)"\nversion = "([^"]+)"\nsource = [^\n]+\nchecksum = "([0-9a-f]{64})"')
    return {(name, version): checksum for name, version, checksum in entry.findall(text)}


def bill(packages, shipped):
    """The bill of materials: the same bytes for the same Cargo.lock."""
    known = checksums()
    components = []
    for key in shipped:
        package = packages[key]
        name, version = package["name"], package["version"]
        component = {
            "type": "library",
            "name": name,
            "version": version,
            "licenses": [{"expression": package["license"].replace("/", " OR ")}],
        }
        if package["source"] is not None:
            component["purl"] = f"pkg:cargo/{name}@{version}"
            component["hashes"] = [{"alg": "SHA-256", "content": known[name, version]}]
        components.append(component)
    for name, (version, licence, contained) in PAGE.items():
        if contained:
            components.append({
                "type": "library",
                "name": name,
                "version": version,
                "licenses": [{"expression": licence}],
                "purl": f"pkg:npm/{name}@{version}",
            })
    components.sort(key=lambda one: (one["name"], one["version"]))
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components}


def self_check():
    """The reader of expressions against answers that are known."""
    for expression, expected in [
        ("MIT", True),
        ("Apache-2.0", False),
        ("MIT/Apache-2.0", True),
        ("Apache-2.0 OR MIT", True),
        ("Apache-2.0 AND MIT", False),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("Apache-2.0 OR GPL-3.0-only AND MIT", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("GPL-3.0-or-later", False),
    ]:
        assert fits(expression, FITS) is expected, expression


def main(arguments):
    if arguments[:1] not in ([], ["bill"]) or len(arguments) == 1:
        raise SystemExit(__doc__)
    self_check()
    found = metadata()
    packages = {package["id"]: package for package in found["packages"]}
    shipped = shipped_ids(found["resolve"], packages)
    wrong = [*complaints(packages, shipped), *page_complaints()]
    for complaint in wrong:
        print(f"licences: {complaint}", file=sys.stderr)
    if wrong:
        return 1
    if arguments:
        text = json.dumps(bill(packages, shipped), indent=1) + "\n"
        pathlib.Path(arguments[1]).write_text(text)
    print(f"licences: {len(shipped)} packages in what is shipped, {len(packages) - len(shipped)} in tests; all fit")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
