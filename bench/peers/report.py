# SPDX-License-Identifier: Apache-2.0
"""What was measured, as the page that bench/results keeps: a heading, tables, and notes."""

import datetime
import os
import pathlib
import platform
import statistics
import subprocess

from peers import peers

gib = 1 << 30
ceiling = "ceiling"
ceiling_title = "ceiling: plain reads"


def first_match(path, key):
    try:
        with open(path) as file:
            for line in file:
                if line.startswith(key):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return "unknown"


def drive_of(path):
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    kind = "unknown file system"
    with open("/proc/self/mountinfo") as file:
        for line in file:
            if f" {number} " in line:
                kind = line.split(" - ", 1)[1].split()[0]
                break
    node = pathlib.Path("/sys/dev/block") / number
    return f"{kind} on {node.resolve().name if node.exists() else number}"


def heading(how, python_versions):
    described = subprocess.run([how.ringload, "--version"], capture_output=True, text=True)
    torch = python_versions.get("torch", "unknown")
    kernel = platform.release().split("-")[0]
    return (
        f"{datetime.date.today()}; {os.cpu_count()} processors,"
        f" {first_match('/proc/cpuinfo', 'model name')};"
        f" {first_match('/proc/meminfo', 'MemTotal')} of memory; Linux {kernel};"
        f" {drive_of(how.files[0])}. {len(how.files)} file{'s'[: len(how.files) != 1]} of"
        f" {how.size:,} bytes. {described.stdout.strip()}; torch {torch}."
    )


def median(runs, key):
    return statistics.median(run[key] for run in runs)


def row(title, version, seconds, runs, against):
    size = runs[0]["of"]
    middle = statistics.median(seconds)
    shares = [f"{reference / middle:.2f}" if reference else "" for reference in against]
    cells = [
        f"{title:<34}",
        f"{version:>8}",
        f"{middle:7.3f}",
        f"{size / middle / 1e9:5.2f}",
        f"{size / max(seconds) / 1e9:5.2f} .. {size / min(seconds) / 1e9:5.2f}",
        *(f"{share:>5}" for share in shares),
        f"{median(runs, 'cpu') / (size / gib):5.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


def table(state, names, runs, ringload_version):
    """In the order of `names`; a contender that has no runs has no row."""
    into = "gpu-" if names[0].startswith("gpu-") else ""
    ours, plain = runs.get((state, f"{into}ringload"), []), runs.get((state, "pread-1"), [])
    against = [
        median(ours, "seconds") if ours else None,
        median(ours, "wall") if ours else None,
        median(plain, "seconds") if plain else None,
    ]
    print(f"\n{'Into GPU' if into else 'Into host'} memory, {state}:\n")
    print(
        f"| {'median':<34} | version  | s       | GB/s  | least .. most  | of ringload"
        " | of its process | of plain pread | CPU s/GiB |"
    )
    print("|" + "---|" * 9)
    for name in names:
        found = runs.get((state, name), [])
        if not found:
            continue
        if name == ceiling:
            print(row(ceiling_title, "", [r["seconds"] for r in found], found, against))
        elif name in ("ringload", "gpu-ringload"):
            for title, key in (("ringload load", "seconds"), ("the same, whole process", "wall")):
                print(row(title, ringload_version, [r[key] for r in found], found, against))
        else:
            version = found[0]["version"]
            seconds = [r["seconds"] for r in found]
            print(row(peers[name].title, version, seconds, found, against))


notes = """
Of ringload, of its process, of plain pread: the speed of the row in shares of those. ringload's
time is that of making the loader and of the load, as `ringload load --json` gives them; a whole
process is from fork to exit, with the return of all memory. The others, ringload in Python too, are
timed inside their process, after all imports, from the call until every tensor is in memory; in
Python that holds the making and closing of a Loader. Rows of .pt and .gguf load the same tensors
from a file of that format. Every row but the one in
brackets ends with all bytes in memory of the process's own, which was compared with the files in
each run after the clock had stopped; for ringload, once, by `ringload sum`. In brackets: tensors
that are views of the file's mapping, each page of them touched, and nothing copied. CPU: user and
system time, without kernel threads; ringload's is of the whole process. Free memory was touched
before each run. The ceiling: uring-bench, into memory that was there before its clock started, cold
by io_uring past the page cache, warm by one thread of pread for each processor. The peers are
installed without the packages they ask for: Debian's torch is older than some of them declare. The
page cache was verified empty (cold) and full (warm) before each clock
started."""


def report(how, names, runs, why_not, python_versions, ringload_version):
    print(heading(how, python_versions))
    everything = [run for found in runs.values() for run in found]
    for into in (False, True):
        rows = [name for name in names if name.startswith("gpu-") == into]
        for state in ("cold", "warm"):
            if any(runs.get((state, name)) for name in rows):
                table(state, rows, runs, ringload_version)
    print(notes)
    if everything:
        busy = [run["elsewhere"] for run in everything]
        print(
            "Processors busy with other work during a run:"
            f" {statistics.median(busy):.2f} in the median, {max(busy):.2f} at most."
        )
    for name in names:
        found = runs["cold", name] + runs["warm", name]
        late = max((run.get("modules_inside_clock", 0) for run in found), default=0)
        if late > 0:
            print(f"The time of {peers[name].title} holds the import of {late} modules.")
    if why_not:
        print("\nNot measured, or not to the end:\n")
        for name, why in why_not.items():
            package = peers[name].package if name in peers else ""
            title = peers[name].title if name in peers else name.removeprefix("gpu-")
            version = python_versions.get(package, "")
            into = " into GPU memory" if name.startswith("gpu-") else ""
            print(f"- {' '.join((title + into, version)).strip()}: {why}")
