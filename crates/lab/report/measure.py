"""How large a report is, how soon it is drawn, and how soon the served page has numbers: measure.py SCHEDCAST.

Chromium is driven by chromedriver (Debian: `apt-get install chromium-driver`), each page five times, on the clock of the
wall. The drawing ends with the second frame after the script; an answer ends when its numbers stand in the panel.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
REPEATS = 5
PORT = 9517
REPORTS = {
    "PostgreSQL, seven variants": ["recordings/postgres-quota", "--measured"],
    "ten neighbours, one setting": [
        "recordings/ten-neighbours",
        *["--cgroup", "/tenants/checkout", "--set", "cpu.max.burst=20000"],
    ],
}
SERVED = {
    "PostgreSQL": ["recordings/postgres-quota"],
    "ten neighbours": ["recordings/ten-neighbours", "--cgroup", "/tenants/checkout"],
}
#: Quotas that the measured moves set, ms: none is one of the frontier's.
MOVES = [47, 63, 58, 71, 53]
#: Sets a quota as a reader does; the first numbers and the whole answer, in ms.
MOVE = """
const [quota, done] = arguments;
const status = document.querySelector("#status");
const field = document.querySelector("#quota-number");
const begin = performance.now();
let first = null;
const watch = new MutationObserver(() => {
  const text = status.textContent;
  if (/^one seed in/.test(text)) first = performance.now() - begin;
  if (!/^\\d+ seeds? in/.test(text)) return;
  watch.disconnect();
  requestAnimationFrame(() => done([first, performance.now() - begin]));
});
watch.observe(status, { childList: true, characterData: true, subtree: true });
field.value = String(quota);
field.dispatchEvent(new Event("input", { bubbles: true }));
"""


def ask(path, body=None, method="POST"):
    """Answer of chromedriver."""
    data = json.dumps(body or {}).encode() if method == "POST" else None
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", data, method=method)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)["value"]


def session():
    """A browser without a window; waits until chromedriver listens."""
    options = {"args": ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"]}
    wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
    for _ in range(100):
        try:
            return f"/session/{ask('/session', wanted)['sessionId']}"
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    sys.exit("chromedriver does not answer")


def drawn(browser, url):
    """Milliseconds from the begin of the page's script to its second frame."""
    ask(f"{browser}/url", {"url": url})
    script = "const all = performance.getEntriesByName('drawn'); return all.length ? all[0].duration : null"
    for _ in range(200):
        found = ask(f"{browser}/execute/sync", {"script": script, "args": []})
        if found is not None:
            return found
        time.sleep(0.05)
    sys.exit(f"{url} is not drawn")


def spread(values):
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def main(schedcast):
    scratch = Path(tempfile.mkdtemp())
    print("| report | bytes | drawn after, ms |\n|---|---|---|")
    browser = session()
    for name, words in REPORTS.items():
        page = scratch / "report.html"
        subprocess.run(
            [schedcast, "what-if", *words, "--report", str(page), "-q"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        times = [drawn(browser, f"file://{page}") for _ in range(REPEATS)]
        print(f"| {name} | {page.stat().st_size} | {spread(times)} |")
    print("\n| served page | first numbers after a move, ms | whole answer, ms |\n|---|---|---|")
    for name, words in SERVED.items():
        server = subprocess.Popen(
            [schedcast, "serve", *words, "--port", "0"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            stderr=subprocess.DEVNULL,
        )
        try:
            drawn(browser, server.stdout.readline().split()[0])
            moves = [
                ask(f"{browser}/execute/async", {"script": MOVE, "args": [quota]})
                for quota in MOVES
            ]
        finally:
            server.kill()
        firsts, wholes = zip(*moves, strict=True)
        print(f"| {name} | {spread(firsts)} | {spread(wholes)} |")
    ask(browser, method="DELETE")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    driver = subprocess.Popen(["chromedriver", f"--port={PORT}"], stdout=subprocess.DEVNULL)
    try:
        main(str(Path(sys.argv[1]).resolve()))
    finally:
        driver.kill()
