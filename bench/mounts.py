#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mounts.py RINGLOAD SLOW_MOUNT: compares the default options with fixed settings on slow mounts.

Each cell of the grid is a mount with a latency, a bandwidth, and maybe reads that stall for 500 ms.
The ceiling of a cell is the best median of all fixed settings, of RINGLOAD and of each program of
--also. All settings of a cell are measured in turns. Needs root and FUSE. In a virtual machine,
backed_memory.py should run this program.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import tempfile

# Slots, and bytes of each.
FIXED = [(8, 1 << 20), (16, 4 << 20), (32, 2 << 20), (64, 1 << 20), (64, 4 << 20)]
# A load takes at least 1.6 s.
MIB_BY_BANDWIDTH = {100: 256, 300: 768, 1000: 1536}


class Mount:
    """A folder served by slow_mount."""

    def __init__(self, program, folder, target, options):
        self.target = target
        self.process = subprocess.Popen(
            [program, folder, target, *options], stdout=subprocess.PIPE, text=True
        )
        if self.process.stdout.readline() != "mounted\n":
            raise SystemExit("mounts.py: the folder cannot be mounted")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", self.target], check=True)
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            # A copy of the mount exists in the mount namespace of another program.
            self.process.terminate()
            self.process.wait()


def load_report(program, path, options):
    """The report of one load."""
    done = subprocess.run(
        [program, "load", path, "--json", "--no-progress", *options],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(done.stdout)


def load(program, path, options):
    """Seconds of one load."""
    return load_report(program, path, options)["seconds"]


def fixed_options(slots, slot_bytes):
    return [
        "--slots", str(slots), "--slot-bytes", str(slot_bytes),
        "--bytes-in-flight", str(slots * slot_bytes),
    ]  # fmt: skip


def settings_of(arguments):
    """Name, program and options of each setting. The first is compared with the ceiling."""
    found = [("default", arguments.ringload, [])]
    programs = [("", arguments.ringload)] + [("other ", also) for also in arguments.also]
    for prefix, program in programs:
        if prefix:
            found.append((prefix + "default", program, []))
        for slots, slot_bytes in FIXED:
            name = f"{prefix}{slots} x {slot_bytes >> 20} MiB"
            found.append((name, program, fixed_options(slots, slot_bytes)))
    return found


def measure(arguments, path, settings):
    """The times of each setting."""
    load(arguments.ringload, path, [])  # The first load is not counted.
    times = {name: [] for name, _, _ in settings}
    for _ in range(arguments.rounds):
        for name, program, options in settings:
            times[name].append(load(program, path, options))
    return times


def tail_columns(reports):
    tail = sorted(report["seconds"] for report in reports)
    median = statistics.median(tail)
    last = tail[math.ceil(0.99 * len(tail)) - 1]
    issued = sum(report.get("second_reads", 0) for report in reports)
    won = sum(report.get("second_reads_won", 0) for report in reports)
    return f"| {median:.2f} s | {last / median:.2f} | {issued}, {won} "


def run_cell(arguments, folder, target, cell):
    latency, bandwidth, stalled = cell
    options = ["--latency", str(latency), "--bandwidth", str(bandwidth), "--stalled", str(stalled)]
    path = f"{target}/{MIB_BY_BANDWIDTH[bandwidth]}.safetensors"
    with Mount(arguments.slow_mount, folder, target, options):
        times = measure(arguments, path, settings_of(arguments))
        programs = [arguments.ringload, *arguments.also]
        reports = {program: [] for program in programs}
        for _ in range(arguments.tail):
            for program in programs:
                reports[program].append(load_report(program, path, []))
    medians = {name: statistics.median(each) for name, each in times.items()}
    fixed = {name: each for name, each in medians.items() if not name.endswith("default")}
    best = min(fixed, key=fixed.get)
    megabytes = MIB_BY_BANDWIDTH[bandwidth] * 1.048576
    row = (
        f"| {latency} ms | {bandwidth} MB/s | {100 * stalled:g} % "
        f"| {megabytes / medians['default']:.0f} | {megabytes / fixed[best]:.0f} ({best}) "
        f"| {fixed[best] / medians['default']:.2f} "
    )
    if arguments.also:
        other = medians["other default"]
        row += f"| {megabytes / other:.0f} "
    for tail in reports.values() if arguments.tail else []:
        row += tail_columns(tail)
    print(row + "|", flush=True)
    if arguments.each:
        for report in (report for tail in reports.values() for report in tail):
            fields = ("seconds", "seconds_opening", "second_reads", "second_reads_won")
            print("  ", {name: report.get(name) for name in fields}, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ringload")
    parser.add_argument("slow_mount")
    parser.add_argument("--also", action="append", default=[], help="another ringload")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tail", type=int, default=0, help="further loads, for the 99th percentile")
    parser.add_argument("--each", action="store_true", help="print each further load")
    parser.add_argument("--latency", type=float, nargs="*", default=[0.2, 5, 50])
    parser.add_argument("--bandwidth", type=int, nargs="*", default=[100, 300, 1000])
    parser.add_argument("--stalled", type=float, nargs="*", default=[0, 0.01])
    parser.add_argument("--folder", help="where the models are made; default: a temporary folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as work:
        folder, target = pathlib.Path(work, "models"), pathlib.Path(work, "mount")
        folder.mkdir()
        target.mkdir()
        for bandwidth in arguments.bandwidth:
            mib = MIB_BY_BANDWIDTH[bandwidth]
            subprocess.run(
                [arguments.ringload, "make", folder / f"{mib}.safetensors", "--bytes", f"{mib}M",
                 "--shape", "llama", "--no-progress"],
                check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        head = "| latency | bandwidth | stalled | default, MB/s | ceiling, MB/s | of the ceiling "
        head += "| other default, MB/s " if arguments.also else ""
        columns = "| median | p99 / median | second reads, won "
        head += columns * (1 + len(arguments.also)) if arguments.tail else ""
        head += "|"
        print(head + "\n" + "|---" * (head.count("|") - 1) + "|", flush=True)
        for stalled in arguments.stalled:
            for latency in arguments.latency:
                for bandwidth in arguments.bandwidth:
                    cell = (latency, bandwidth, stalled)
                    run_cell(arguments, str(folder), str(target), cell)


if __name__ == "__main__":
    main()
