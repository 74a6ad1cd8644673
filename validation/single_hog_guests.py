#!/usr/bin/env python3
"""Measures the hog of guest/single-hog.toml in virtual machines with stock kernels and stores its throttled periods.

    single_hog_guests.py RESULTS KERNELS SERIES...

KERNELS is a folder with `vmlinuz-…` and `config-…`; SERIES are versions such as `6.1`. Each guest has one CPU and a clock that
counts instructions, one nanosecond each, so the load of the host changes nothing. A guest measures all its runs in one
boot: for each it starts the neighbour, makes a new group, sleeps for a drawn time, starts the hog in the group and
reads `cpu.stat` after 20 s. Then it measures as many runs without the neighbour. Needs qemu-system-x86_64 and a
static busybox (Debian: qemu-system-x86, busybox-static).
"""

import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

RUNS = 30
SECONDS = 20
# Drawn sleeps are below this: longer than a period and a tick, in microseconds.
LONGEST_SLEEP_US = 1_000_000
# QEMU translates up to 512 instructions at a time; a block of `nop` costs the host nothing but the
# counting.
NOPS = 500
# The neighbour of guest/rt-app/pulse.json computes for so many instructions, then sleeps for so
# long.
PULSE_NS = 60_000
PULSE_SLEEP_NS = 29_000_000
BASE = 0x400000
HEADERS = 64 + 56
NEIGHBOURS = ["pulse", "none"]
APPLETS = ["sh", "mount", "mkdir", "rmdir", "usleep", "sleep", "cat", "grep", "uname"]

INIT = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec > /dev/ttyS1 2> /dev/ttyS0
echo +cpu > /sys/fs/cgroup/cgroup.subtree_control
echo release $(uname -r)
for neighbour in NEIGHBOURS; do for sleep in SLEEPS; do
    pod=/sys/fs/cgroup/pod$sleep
    test $neighbour = none || { /$neighbour & pulse=$!; }
    mkdir $pod
    echo 100000 100000 > $pod/cpu.max
    usleep $sleep
    ( read -r pid rest < /proc/self/stat; echo $pid > $pod/cgroup.procs; exec /hog ) &
    hog=$!
    sleep RUN_SECONDS
    echo $neighbour $(grep -E '^nr_(periods|throttled) ' $pod/cpu.stat)
    kill -9 $hog
    test $neighbour = none || kill -9 $pulse
    wait
    rmdir $pod
done; done
echo end
echo b > /proc/sysrq-trigger
"""


def program(code):
    """An ELF file that begins with the first byte of `code`."""
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    elf = struct.pack("<16sHHIQQQIHHHHHH", ident, 2, 62, 1, BASE + HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    size = HEADERS + len(code)
    return elf + struct.pack("<IIQQQQQQ", 1, 5, 0, BASE, BASE, size, size, 0x1000) + code


def hog():
    """A program that computes for ever: `nop` five hundred times, then a jump back."""
    return program(b"\x90" * NOPS + b"\xe9" + struct.pack("<i", -(NOPS + 5)))


def pulse():
    """A program that computes, sleeps, and begins again: `dec ecx; jnz` around the `nop`s, then `nanosleep`."""
    block = b"\x90" * NOPS + b"\xff\xc9\x0f\x85" + struct.pack("<i", -(NOPS + 8))
    work = b"\xb9" + struct.pack("<I", PULSE_NS // (NOPS + 2)) + block
    # mov eax, 35; mov edi, the time behind the code; xor esi, esi; syscall; jmp to the begin
    length = len(work) + 5 + 5 + 2 + 2 + 5
    time = struct.pack("<I", BASE + HEADERS + length)
    sleep = b"\xb8\x23\0\0\0\xbf" + time + b"\x31\xf6\x0f\x05\xe9" + struct.pack("<i", -length)
    return program(work + sleep + struct.pack("<qq", 0, PULSE_SLEEP_NS))


def archive(files):
    """A cpio archive of the format that kernels unpack: pairs of a name and either mode and content."""
    packed = bytearray()
    for number, (name, mode, content, device) in enumerate([*files, ("TRAILER!!!", 0, b"", (0, 0))]):
        fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name) + 1, 0]
        packed += b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        packed += bytes(-len(packed) % 4)
        packed += content
        packed += bytes(-len(packed) % 4)
    return bytes(packed)


def file_system(sleeps):
    """The guest's first file system."""
    busybox = shutil.which("busybox") or sys.exit("no busybox: apt install busybox-static")
    init = INIT.replace("SLEEPS", " ".join(map(str, sleeps))).replace("RUN_SECONDS", str(SECONDS))
    init = init.replace("NEIGHBOURS", " ".join(NEIGHBOURS))
    none = (0, 0)
    files = [(folder, 0o40755, b"", none) for folder in ("dev", "proc", "sys", "bin")]
    files.append(("dev/console", 0o20600, b"", (5, 1)))
    files.append(("bin/busybox", 0o100755, pathlib.Path(busybox).read_bytes(), none))
    files += [(f"bin/{name}", 0o120777, b"/bin/busybox", none) for name in APPLETS]
    files += [("init", 0o100755, init.encode(), none), ("hog", 0o100755, hog(), none)]
    files.append(("pulse", 0o100755, pulse(), none))
    return archive(files)


def image(folder, series):
    """The newest image of a series there."""
    names = [path for path in folder.iterdir() if re.match(rf"vmlinuz-{re.escape(series)}[.+-]", path.name)]
    return max(names, default=None, key=lambda path: [int(part) for part in re.findall(r"\d+", path.name)])


def version(kernel):
    """The stable version that an image was built from, such as 6.1.176: it stands behind `Debian` in its header."""
    header = kernel.read_bytes()[: 1 << 16]
    start = struct.unpack_from("<H", header, 0x20E)[0] + 0x200
    text = header[start : header.index(b"\0", start)].decode()
    found = re.search(r"Debian (\d+\.\d+(\.\d+)?)", text) or re.match(r"(\d+\.\d+(\.\d+)?)", text)
    return found[1]


def measure(kernel, sleeps):
    """Release of the guest, and periods and throttled periods of each run beside the neighbour and without it."""
    with tempfile.TemporaryDirectory() as folder:
        packed, console, said = (pathlib.Path(folder, name) for name in ("archive", "console", "said"))
        packed.write_bytes(file_system(sleeps))
        words = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        words += ["-smp", "1", "-m", "512", "-accel", "tcg", "-cpu", "max", "-icount", "shift=0,sleep=off"]
        words += ["-kernel", str(kernel), "-initrd", str(packed)]
        words += ["-append", "console=ttyS0 quiet panic=-1 random.trust_cpu=1 rdinit=/init"]
        words += ["-serial", f"file:{console}", "-serial", f"file:{said}"]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL, timeout=3600)
        lines = said.read_text().replace("\r", "").splitlines() if said.exists() else []
        if not lines or lines[-1] != "end":
            end = console.read_text(errors="replace")[-2000:] if console.exists() else ""
            raise RuntimeError(f"{kernel.name}: the guest did not end well: {lines[-3:]}\n{end}")
        counted = [re.fullmatch(r"(\w+) nr_periods (\d+) nr_throttled (\d+)", line) for line in lines[1:-1]]
        of = {name: [[int(one[3]), int(one[2])] for one in counted if one[1] == name] for name in NEIGHBOURS}
        return lines[0].split()[1], of


def main(results, folder, *series):
    """Measures each series and stores it; what was stored of others stays."""
    results, folder = pathlib.Path(results), pathlib.Path(folder)
    stored = json.loads(results.read_text()) if results.exists() else {}
    for name in series:
        kernel = image(folder, name)
        if kernel is None:
            print(f"{name}: skipped, there is no vmlinuz-{name}… in {folder}")
            continue
        draws = random.Random(f"single hog {name}")
        sleeps = [draws.randrange(LONGEST_SLEEP_US) for _ in range(RUNS)]
        try:
            release, runs = measure(kernel, sleeps)
        except (RuntimeError, subprocess.SubprocessError) as error:
            print(f"{name}: not measured: {error}", flush=True)
            continue
        config = kernel.with_name(kernel.name.replace("vmlinuz", "config"))
        hertz = re.search(r"^CONFIG_HZ=(\d+)", config.read_text(), re.M) if config.exists() else None
        hertz = int(hertz[1]) if hertz else None
        stored[name] = {"release": release, "version": version(kernel), "hz": hertz, "sleeps_us": sleeps, "runs": runs}
        results.write_text(json.dumps(stored) + os.linesep)
        print(f"{name}: {release}, HZ {hertz}", flush=True)
        for neighbour, counted in runs.items():
            print(f"  {neighbour}: {[throttled for throttled, _ in counted]}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
