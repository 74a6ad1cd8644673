"""Shared by the scripts that hold forecasts beside what was measured."""

import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
# The machine when it has nothing to do: it runs beside everything that is simulated.
BACKGROUND = FOLDER.parent / "recordings" / "dev-vm-idle"
# The kernel that was measured on, docs/validity/measured-kernel.md.
KERNEL, PATCHES, HERTZ = "6.18.44", ["vcpu-pack"], 250
SIMULATED = f"kernel {KERNEL} with {', '.join(PATCHES)}, HZ {HERTZ}"


def kernel_keys():
    """The kernel that was measured on, as keys of an experiment."""
    return f'[kernel]\nversion = "{KERNEL}"\npatches = {json.dumps(PATCHES)}\nhz = {HERTZ}\n'


def described(machine):
    """The file of a machine: that of a preset by its name, or any other."""
    preset = FOLDER.parent / "machines" / f"{machine}.toml"
    return preset if preset.exists() else pathlib.Path(machine).resolve()


@contextlib.contextmanager
def file_of(text, suffix=".toml"):
    """The name of a file with this text, for as long as it is needed."""
    with tempfile.NamedTemporaryFile("w", suffix=suffix) as file:
        file.write(text)
        file.flush()
        yield file.name


def printed(schedcast, verb, *words, folder=None):
    """What a verb prints."""
    command = [schedcast, "-q", verb, *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder).stdout


def ask(schedcast, verb, *words, folder=None):
    """The answer of a verb."""
    return json.loads(printed(schedcast, verb, "--json", "-", *words, folder=folder))


def chosen(cases, names):
    """Of the cases by name those that are named, or all if none is."""
    if unknown := set(names) - set(cases):
        sys.exit(f"no case {', '.join(sorted(unknown))}; there are {', '.join(cases)}")
    return [case for name, case in cases.items() if not names or name in names]


def medians(*sides):
    """The lower median of each side."""
    return [statistics.median_low(side) for side in sides]


def spread(values, shown):
    """Median, smallest and largest."""
    return "{} ({} – {})".format(*map(shown, (*medians(values), min(values), max(values))))


class Tables:
    """Tables of a page, and how many of their figures pass."""

    def __init__(self):
        self.text, self.passed, self.compared = "", 0, 0

    def begin(self, title, about, *columns):
        """A section with a table of these columns."""
        names = "".join(f"| {name} " if name else "| " for name in (*columns, ""))
        self.text += f"\n## {title}\n\n{about}{names}|\n{'|---' * (len(columns) + 1)}|\n"

    def row(self, real, ours, band, *cells):
        """A figure, which passes within the band or within the spread of the real ones."""
        measured, predicted = medians(real, ours)
        self.verdict(min(real) <= predicted <= max(real) or abs(predicted - measured) <= band, *cells)

    def verdict(self, passes, *cells):
        """A figure that passes or does not."""
        self.passed, self.compared = self.passed + passes, self.compared + 1
        self.text += f"| {' | '.join([*cells, '' if passes else '**misses**'])} |\n"
