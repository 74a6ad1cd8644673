"""Takes the pictures of the documentation anew: pictures.py SCHEDCAST DIR.

A report of the repository's recording is written and the same question is served; Chromium takes a picture of each
section of interest. Nothing but Chromium and the command is needed.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RECORDING = "recordings/postgres-quota"
SETTINGS = ["--variant", "quota 75 ms", "--set", "cpu.max=75000 100000"]
SETTINGS += ["--variant", "burst 50 ms", "--set", "cpu.max.burst=50000"]
#: A service among ten neighbours, whose page is taken at the sizes of a telephone, a laptop and a large screen.
NODE = ["recordings/ten-neighbours", "--cgroup", "/tenants/checkout"]
NODE_SETTINGS = ["--variant", "burst 20 ms", "--set", "cpu.max.burst=20000"]
NODE_SETTINGS += ["--variant", "quota 60 ms", "--set", "cpu.max=60000"]
SIZES = {"390": (390, 844), "1280": (1280, 900), "1920": (1920, 1080)}
LIGHT, DARK = [], ["--blink-settings=preferredColorScheme=0"]
SCHEMES = {"light": LIGHT, "dark": DARK}
WIDTH = 1120
#: The page alone with one of its sections.
ONLY = """<style>
header, main section:not(#{section}) {{ display: none }}
#page {{ max-width: none; padding: 0 24px }}
</style>"""
#: Says how high the section is, once it is drawn.
HEIGHT = """<script>setTimeout(() => {
  const note = document.createElement("i");
  const box = document.querySelector("main section#SECTION").getBoundingClientRect();
  note.id = "high-" + Math.ceil(box.bottom + 18);
  document.body.append(note);
}, 1500);</script>"""
#: Presses the button that goes to the longest wait.
WORST = """<script>setTimeout(() => {
  const buttons = [...document.querySelectorAll("#timeline button")];
  buttons.find((button) => button.textContent.includes("longest wait"))?.click();
}, 700);</script>"""


def browse(profile, url, *more):
    """Have Chromium open a page; what it prints."""
    words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    words += [f"--user-data-dir={profile}", "--virtual-time-budget=20000", "--timeout=60000"]
    done = subprocess.run([*words, *more, url], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


class Studio:
    """Takes pictures into a folder."""

    def __init__(self, folder, scratch):
        self.folder, self.scratch = folder, scratch

    def take(self, name, url, size, scheme=LIGHT):
        """One picture of a page."""
        picture = self.folder / f"{name}.png"
        window = f"--window-size={size[0]},{size[1]}"
        browse(self.scratch / "profile", url, f"--screenshot={picture}", window, *scheme)
        print(picture)

    def section(self, name, page, section, scheme=LIGHT, script="", at=""):
        """One section of a report, as high as it is."""
        head, foot = ONLY.format(section=section) + "</head>", HEIGHT.replace("SECTION", section)
        text = page.read_text().replace("</head>", head, 1)
        text = text.replace("</body>", script + foot + "</body>")
        changed = self.scratch / f"{section}.html"
        changed.write_text(text)
        url = f"file://{changed}{at}"
        drawn = browse(self.scratch / "profile", url, "--dump-dom", f"--window-size={WIDTH},900", *scheme)
        high = re.search(r'id="high-(\d+)"', drawn)
        self.take(name, url, (WIDTH, int(high[1])), scheme)


def main(schedcast, folder):
    """Every picture."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        studio = Studio(Path(folder).resolve(), scratch)
        page = scratch / "report.html"
        words = ["what-if", RECORDING, *SETTINGS, "--report", str(page), "-q"]
        subprocess.run([schedcast, *words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        for scheme, flags in SCHEMES.items():
            studio.take(f"report-{scheme}", f"file://{page}#promise=p95<40ms", SIZES["1280"], flags)
            studio.section(f"frontier-{scheme}", page, "frontier", flags, at="#promise=p95<40ms")
            studio.section(f"periods-{scheme}", page, "periods", flags)
            studio.section(f"timeline-{scheme}", page, "timeline", flags, WORST)
        studio.section("latency-light", page, "latency")
        node = scratch / "node.html"
        words = ["what-if", *NODE, *NODE_SETTINGS, "--report", str(node), "-q"]
        subprocess.run([schedcast, *words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        for size, window in SIZES.items():
            for scheme, flags in SCHEMES.items():
                studio.take(f"node-{size}-{scheme}", f"file://{node}#promise=p95<90ms", window, flags)
        words = [schedcast, "serve", RECORDING, "--port", "0"]
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
            try:
                address = server.stdout.readline().split()[0]
                chosen = f"{address}#quota_us=67000&pin=burst_us%3D25000&promise=p95<40ms"
                for scheme, flags in SCHEMES.items():
                    studio.take(f"serve-{scheme}", chosen, SIZES["1280"], flags)
            finally:
                server.kill()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(str(Path(sys.argv[1]).resolve()), sys.argv[2])
