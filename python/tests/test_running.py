"""Progress, interrupts, threads, resumed sweeps."""

import signal
import subprocess
import sys
import threading
import time

import pytest
import schedcast
from conftest import EXPERIMENT, GRID


def test_progress_ends_with_all_runs():
    seen = []
    schedcast.compare(EXPERIMENT, seeds=5, progress=lambda ended, runs: seen.append((ended, runs)))
    assert seen[-1] == (10, 10)
    assert seen == sorted(set(seen))


def test_what_progress_raises_ends_the_question():
    def stop(ended, runs):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        schedcast.compare(EXPERIMENT, seeds=2000, progress=stop)


def test_ctrl_c_interrupts_between_runs():
    program = (
        "import schedcast, sys\n"
        "print('ready', flush=True)\n"
        f"schedcast.compare({EXPERIMENT!r}, seeds=100000)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert said.rstrip().endswith("KeyboardInterrupt"), said


def test_other_threads_run_meanwhile():
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.wait(0.001):
            ticks.append(None)

    thread = threading.Thread(target=tick)
    thread.start()
    before = len(ticks)
    schedcast.compare(EXPERIMENT, seeds=30, workers=1)
    during = len(ticks) - before
    stop.set()
    thread.join()
    assert during > 2, "the interpreter was held"


def test_an_interrupted_sweep_resumes(tmp_path, grid):
    def stop(ended, runs):
        if ended >= 2:
            raise KeyboardInterrupt

    long = GRID.replace("seeds = 2", "seeds = 60")
    whole = schedcast.sweep(long)
    with pytest.raises(KeyboardInterrupt):
        schedcast.sweep(long, tmp_path, workers=1, progress=stop)
    seen = []
    resumed = schedcast.sweep(long, tmp_path, progress=lambda *now: seen.append(now))
    assert resumed.to_json() == whole.to_json()
    again = schedcast.sweep(long, tmp_path, progress=lambda *now: seen.append(now))
    assert seen[-1] == (0, 0), "everything was finished"
    assert again.to_csv() == (tmp_path / "results.csv").read_text()


def test_experiments_check_themselves():
    assert schedcast.Experiment(EXPERIMENT).check() == ["no burst", "burst"]
    assert len(schedcast.Experiment(GRID).check()) == 6
    assert schedcast.Experiment(kernel={"hz": 250}).toml == "\n[kernel]\nhz = 250\n"


def test_mistakes_of_the_caller():
    with pytest.raises(TypeError, match="beside a path or a text"):
        schedcast.Experiment(EXPERIMENT, kernel={"hz": 250})
    with pytest.raises(TypeError, match="settings are a mapping"):
        schedcast.compare(EXPERIMENT, set="kernel.hz=250")
    with pytest.raises(TypeError, match="cannot hold"):
        schedcast.Experiment(kernel={"hz": object()})
    with pytest.raises(TypeError, match="either an experiment or a command"):
        schedcast.run()
    with pytest.raises(schedcast.UsageError, match="no variant `brust`"):
        schedcast.run(EXPERIMENT, variant="brust")


def test_documents_survive_odd_texts():
    title = 'a "quoted"\ttitle \\ with \x7f and ü'
    experiment = schedcast.Experiment({"title": title, "run": {"seeds": 1, "duration": "1ms"}})
    assert schedcast.compare(experiment).title == title
