"""Tests packages where they will run: python3 packaging/test.py FOLDER ARCHITECTURE VERSION.

Each test prints one line: what was shown, or why it was skipped. As root, because most of them change
their root folder: into an empty one, one with musl's busybox alone, and a Debian 11.
"""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
RECORDING = REPOSITORY / "recordings" / "postgres-quota"
QUESTION = ["what-if", "recording", "--seeds", "1", "--duration", "5s", "--json", "-"]
LARGEST_BYTES = 12_000_000


class Skipped(Exception):
    """Something that this machine lacks."""


def run(words: list[str | Path], root: Path | None = None, **more: object) -> str:
    """Standard output of a command, in a root of its own if one is given."""
    chroot = ["chroot", root] if root else []
    done = subprocess.run([*chroot, *words], capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Packages:
    """The packages of one architecture and the roots that they run in."""

    def __init__(self, folder: Path, architecture: str, version: str, work: Path) -> None:
        self.folder, self.architecture, self.version, self.work = folder, architecture, version, work
        archive = self.archive()
        with tarfile.open(archive) as tar:
            tar.extractall(work, filter="data")
        self.program = work / f"schedcast-{version}-{architecture}-linux" / "schedcast"
        shutil.copytree(RECORDING, work / "recording")
        self.answer = run([self.program, *QUESTION], cwd=work)

    def archive(self) -> Path:
        return self.folder / f"schedcast-{self.version}-{self.architecture}-linux.tar.gz"

    def root(self, name: str, program: Path | None = None) -> Path:
        """A new root folder with the program and a recording."""
        root = self.work / name
        root.mkdir()
        shutil.copy(program or self.program, root / "schedcast")
        shutil.copytree(RECORDING, root / "recording")
        return root

    def answers(self, root: Path, program: str = "/schedcast") -> None:
        """The same bytes as outside."""
        same = run([program, *QUESTION], root)
        assert json.loads(same)["variants"] == json.loads(self.answer)["variants"]

    def is_static_and_small(self) -> str:
        size = self.program.stat().st_size
        assert size <= LARGEST_BYTES, f"{size} bytes"
        sections = run(["readelf", "-SlW", self.program])
        assert "INTERP" not in sections, "it has a dynamic loader"
        assert ".debug" not in sections, "it has debug information"
        needs = run(["readelf", "-dW", self.program])
        assert "NEEDED" not in needs, needs
        return f"{size / 1e6:.1f} MB, no loader, no library, no debug information"

    def runs_in_an_empty_root(self) -> str:
        self.answers(self.root("empty"))
        return "an empty root: the same answer to the byte"

    def runs_beside_musl(self) -> str:
        busybox = shutil.which("busybox")
        if busybox is None:
            raise Skipped("no busybox: apt install busybox-static")
        root = self.root("musl")
        (root / "bin").mkdir()
        shutil.copy(busybox, root / "bin" / "sh")
        libc = Path(f"/lib/ld-musl-{self.architecture}.so.1")
        if libc.exists():
            (root / "lib").mkdir()
            shutil.copy(libc, root / "lib")
        line = f"/schedcast --version && /schedcast {' '.join(QUESTION)} > /answer"
        said = run(["/bin/sh", "-c", line], root)
        assert self.version in said
        answer = json.loads((root / "answer").read_text())
        assert answer["variants"] == json.loads(self.answer)["variants"]
        return "a root of busybox" + (" and musl" if libc.exists() else "")

    def installs_on_debian_11(self) -> str:
        root = Path(os.environ.get("DEBIAN_11", "/nonexistent"))
        if not root.is_dir():
            raise Skipped("DEBIAN_11 names no root: debootstrap --variant=minbase bullseye FOLDER")
        names = {"x86_64": "amd64", "aarch64": "arm64"}
        deb = self.folder / f"schedcast_{self.version}_{names[self.architecture]}.deb"
        shutil.copy(deb, root / "tmp" / "schedcast.deb")
        shutil.copytree(RECORDING, root / "recording", dirs_exist_ok=True)
        try:
            run(["dpkg", "-i", "/tmp/schedcast.deb"], root)
            self.answers(root, "/usr/bin/schedcast")
            listed = run(["dpkg", "-L", "schedcast"], root)
            for name in ["man1/schedcast-top.1.gz", "bash-completion/completions/schedcast"]:
                assert name in listed, listed
            run(["dpkg", "-r", "schedcast"], root)
            assert not (root / "usr/bin/schedcast").exists()
        finally:
            shutil.rmtree(root / "recording", ignore_errors=True)
            (root / "tmp" / "schedcast.deb").unlink(missing_ok=True)
        return "Debian " + (root / "etc/debian_version").read_text().strip() + ": installed, ran, removed"

    def is_an_rpm(self) -> str:
        rpm = self.folder / f"schedcast-{self.version}-1.{self.architecture}.rpm"
        if not rpm.exists():
            raise Skipped("no .rpm was made: apt install rpm")
        listed = run(["rpm", "-qpl", rpm])
        for name in ["/usr/bin/schedcast", "/usr/share/man/man1/schedcast-top.1.gz"]:
            assert name in listed, listed
        needs = run(["rpm", "-qp", "--requires", rpm]).splitlines()
        assert all(line.startswith("rpmlib(") for line in needs), needs
        unpacked = self.work / "rpm"
        unpacked.mkdir()
        run(["sh", "-c", f"rpm2cpio '{rpm}' | cpio -id --quiet"], cwd=unpacked)
        assert self.version in run([unpacked / "usr/bin/schedcast", "--version"])
        return "the .rpm needs nothing and its program runs"

    def is_an_image(self) -> str:
        tar = tarfile.open(self.folder / f"schedcast-{self.version}-{self.architecture}.oci.tar")

        def blob(entry: dict[str, object]) -> bytes:
            name, digest = str(entry["digest"]).split(":")
            content = tar.extractfile(f"blobs/{name}/{digest}").read()
            assert hashlib.sha256(content).hexdigest() == digest
            assert len(content) == entry["size"]
            return content

        index = json.load(tar.extractfile("index.json"))
        manifest = json.loads(blob(index["manifests"][0]))
        config = json.loads(blob(manifest["config"]))
        layer = gzip.decompress(blob(manifest["layers"][0]))
        assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
        root = self.work / "image"
        root.mkdir()
        (self.work / "layer.tar").write_bytes(layer)
        with tarfile.open(self.work / "layer.tar") as files:
            files.extractall(root, filter="data")
        shutil.copytree(RECORDING, root / "recording")
        self.answers(root, config["config"]["Entrypoint"][0])
        return "the image's digests fit, and its layer is a root in which the program runs"

    def looks_at_another_root(self) -> str:
        root = self.root("host")
        (root / "proc").mkdir()
        found = run([self.program, "--host-root", root, "self", "check", "--json", "-"])
        states = {one["what"]: one["state"] for one in json.loads(found)["facilities"]}
        assert states["kernel"] == "no", "there is no /proc in that root"
        return "--host-root makes an empty root the host"

    def is_a_kubectl_plugin(self) -> str:
        manifest = (self.folder / "schedcast.yaml").read_text()
        digest = hashlib.sha256(self.archive().read_bytes()).hexdigest()
        assert digest in manifest and self.version in manifest
        tools = self.work / "tools"
        tools.mkdir()
        kubectl = tools / "kubectl"
        kubectl.write_text('#!/bin/sh\n[ "$1" = get ] && echo node-7 || echo "$@"\n')
        kubectl.chmod(0o755)
        here = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "SCHEDCAST_IMAGE": "image"}
        plugin = self.program.with_name("kubectl-schedcast")
        said = run([plugin, "record", "shop/web/app", "-o", "/tmp/web"], env=here)
        wanted = (
            "debug node/node-7 -it --quiet --profile=sysadmin --image=image -- /schedcast "
            "--host-root /host record --pod shop/web/app -o /tmp/web\n"
        )
        assert said == wanted, said
        assert "node/n1" in run([plugin, "top", "n1"], env=here)
        assert self.version in run([plugin, "--version"], env=here)
        return "the plugin finds a pod's node, and krew's manifest has the archive's checksum"

    def gates_a_pipeline(self) -> str:
        script = REPOSITORY / "packaging" / "check-action" / "check.sh"

        def check(slo: str, settings: str = "cpu.max=90000 100000\n") -> int:
            inputs = {
                "RECORDING": str(RECORDING),
                "SLO": slo,
                "SETTINGS": settings,
                "PROGRAM": str(self.program),
                "JSON": str(self.work / "check.json"),
            }
            return subprocess.run([script], env=os.environ | inputs, capture_output=True).returncode

        assert (check("p99<10s\np50<5s\n"), check("p99<1us")) == (0, 1)
        wide = "variant wide\ncpu.max=90000 100000\n"
        tight = "variant tight\ncpu.max=5000 100000\n"
        columns = [check("p50<5s", settings) for settings in (wide, wide + tight, tight + wide)]
        assert columns == [0, 1, 1], columns
        return "the action passes a kept promise and fails a broken one"

    def installs_as_a_wheel(self) -> str:
        wheels = list(self.folder.glob("schedcast-*.whl"))
        if not wheels:
            raise Skipped("no wheel was made: pip install maturin")
        environment = self.work / "venv"
        run([sys.executable, "-m", "venv", environment])
        without_rust = {"PATH": f"{environment}/bin:/usr/bin:/bin", "HOME": str(self.work)}
        run(
            # Of all wheels the one that fits this machine.
            [environment / "bin/pip", "install", "--no-index", "--quiet", "--only-binary=:all:"]
            + ["--find-links", self.folder, "schedcast"],
            env=without_rust,
        )
        code = (
            "import schedcast\n"
            f"answer = schedcast.what_if({str(RECORDING)!r}, seeds=1, duration='5s')\n"
            "print(len(answer))\n"
        )
        said = run([environment / "bin/python", "-c", code], env=without_rust)
        assert said == "1\n", said
        return f"of {len(wheels)} wheels the one for this machine answers in a fresh environment without Rust"

    def tests(self) -> list[Callable[[], str]]:
        return [
            self.is_static_and_small,
            self.runs_in_an_empty_root,
            self.runs_beside_musl,
            self.installs_on_debian_11,
            self.is_an_rpm,
            self.is_an_image,
            self.looks_at_another_root,
            self.is_a_kubectl_plugin,
            self.gates_a_pipeline,
            self.installs_as_a_wheel,
        ]


def main() -> int:
    """Runs all tests, those after a failed one too."""
    folder, architecture, version = Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3]
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        packages = Packages(folder, architecture, version, Path(work))
        for test in packages.tests():
            name = test.__name__.replace("_", " ")
            try:
                print(f"ok       {name}: {test()}", flush=True)
            except Skipped as why:
                print(f"skipped  {name}: {why}", flush=True)
            except AssertionError as why:
                failed += 1
                print(f"FAILED   {name}: {why}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
