import os
import signal
import threading
import time

import pytest
import schedcast
from conftest import EXPERIMENT, GRID

pytest.importorskip("distributed")

import schedcast.distributed
from distributed import Client, LocalCluster


@pytest.fixture(scope="module")
def client():
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        yield client


def test_the_bytes_are_those_of_one_machine(client, grid, tmp_path):
    folder = tmp_path / "sweep"
    sweep = schedcast.distributed.sweep(GRID, folder, client, parts=4)
    assert sweep.to_json() == grid.to_json()
    assert sweep.to_csv() == grid.to_csv()
    assert (folder / "results.csv").read_text() == grid.to_csv()
    journals = list(folder.glob("parts-*/part-*-of-4/journal"))
    assert len(journals) == 4

    # Asked again, only the missing part runs.
    journals[0].unlink()
    kept = {journal: journal.stat().st_mtime_ns for journal in journals[1:]}
    again = schedcast.distributed.sweep(GRID, folder, client, parts=4)
    assert again.to_json() == grid.to_json()
    assert journals[0].exists()
    assert kept == {journal: journal.stat().st_mtime_ns for journal in journals[1:]}


def test_workers_may_die(client, tmp_path):
    slow = GRID.replace('duration = "1s"', 'duration = "1500s"').replace("-r 1", "-r 1500")
    over = threading.Event()
    killed = []

    def kill():
        while len(killed) < 2 and not over.wait(0.05):
            busy = [worker for worker, tasks in client.processing().items() if tasks]
            if busy:
                # The nanny starts another worker in its place.
                process = client.run(os.getpid, workers=busy[:1])[busy[0]]
                os.kill(process, signal.SIGKILL)
                killed.append(process)
                time.sleep(1)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        sweep = schedcast.distributed.sweep(slow, tmp_path / "sweep", client)
    finally:
        over.set()
        killer.join()
    assert killed
    assert sweep.to_json() == schedcast.sweep(slow).to_json()


def test_files_are_sent_and_are_the_same_points_anywhere(client, tmp_path):
    recording = "recordings/postgres-quota"
    home = tmp_path / "home"
    home.mkdir()
    (home / "recordings").symlink_to(os.path.join(os.path.dirname(__file__), "../../recordings"))
    (home / "grid.toml").write_text(
        f"""
[kernel]
version = "6.18"
[[program]]
replay = "{recording}"
[sweep]
"kernel.hz" = [250, 1000]
[run]
seeds = 2
duration = "1s"
"""
    )
    sweep = schedcast.distributed.sweep(
        home / "grid.toml", tmp_path / "sweep", client, files=[recording]
    )
    assert sweep.to_json() == schedcast.sweep(home / "grid.toml").to_json()
    assert len(list((tmp_path / "sweep").glob("parts-*/*/journal"))) == 2


def test_mistakes_are_those_of_one_machine(client, tmp_path):
    with pytest.raises(schedcast.Error, match="no \\[sweep\\]"):
        schedcast.distributed.sweep(EXPERIMENT, tmp_path / "sweep", client)
