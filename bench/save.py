#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/save.py BENCH_SAVE FOLDER [--mib N] [--repeat N]: host memory saved to FOLDER, against the
best that fio writes directly there, and against the package safetensors if this Python has it.

In turns, each into a new file, with fsync in the time of all. fio writes with the block and depths
below, and the best of its medians counts. Prints a table, and each run's seconds."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

DEPTHS = [2, 4, 8, 16]


class Saver:
    def __init__(self, program, path, mib, *options):
        self.process = subprocess.Popen([program, path, "--mib", str(mib), *options], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def run(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        report = json.loads(self.process.stdout.readline())
        assert report["direct"] >= report["bytes"] - 4096, report
        return report["seconds"]

    def end(self):
        self.process.communicate()


def fio(path, mib, depth, block):
    path.unlink(missing_ok=True)
    out = subprocess.run(
        ["fio", "--name=w", f"--filename={path}", "--rw=write", "--direct=1", f"--bs={block}",
         f"--iodepth={depth}", "--ioengine=io_uring", f"--size={mib}m", "--end_fsync=1",
         "--fallocate=native", "--refill_buffers=0", "--output-format=json"],
        check=True, capture_output=True, text=True).stdout
    job = json.loads(out)["jobs"][0]
    path.unlink()
    return job["job_runtime"] / 1000


def package(path, arrays):
    import safetensors.numpy
    path.unlink(missing_ok=True)
    begin = time.monotonic()
    safetensors.numpy.save_file(arrays, path)
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    took = time.monotonic() - begin
    path.unlink()
    return took


def main():
    options = argparse.ArgumentParser()
    options.add_argument("program")
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("--mib", type=int, default=4096)
    options.add_argument("--repeat", type=int, default=5)
    options.add_argument("--block", default="4m")
    given = options.parse_args()
    arrays = None
    try:
        import numpy
        import safetensors.numpy
        random = numpy.random.default_rng(1)
        each = (given.mib << 20) // 16
        arrays = {f"t{i}": random.integers(0, 256, each, numpy.uint8) for i in range(16)}
    except ImportError:
        print("without the package safetensors", file=sys.stderr)
    path = given.folder / "save.safetensors"
    aligned = Saver(given.program, path, given.mib)
    anywhere = Saver(given.program, path, given.mib, "--offset", "16")
    kinds = {"ringload, from aligned memory": aligned.run,
             "ringload, from memory of an allocator": anywhere.run}
    for depth in DEPTHS:
        kinds[f"fio, {depth} x {given.block}"] = lambda d=depth: fio(given.folder / "save.fio", given.mib,
                                                                     d, given.block)
    if arrays:
        kinds["safetensors.numpy.save_file"] = lambda: package(given.folder / "save.package", arrays)
    seconds = {name: [] for name in kinds}
    for turn in range(given.repeat):
        order = list(kinds)
        for name in order[turn % len(order):] + order[:turn % len(order)]:
            seconds[name].append(kinds[name]())
    aligned.end()
    anywhere.end()
    best = min(statistics.median(s) for name, s in seconds.items() if name.startswith("fio"))
    print("| median of the runs | s | GB/s | least .. most | of fio's best |\n|---|---|---|---|---|")
    for name, s in seconds.items():
        rate = [given.mib * 1048576 / 1e9 / one for one in s]
        print(f"| {name} | {statistics.median(s):.3f} | {statistics.median(rate):.2f} | {min(rate):.2f} .. "
              f"{max(rate):.2f} | {best / statistics.median(s):.3f} |")
    for name, s in seconds.items():
        print(name + ":", " ".join(f"{one:.3f}" for one in s))


main()
