#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/save.py BENCH_SAVE FOLDER [--mib N] [--repeat N]: host memory saved to FOLDER, against the
best that fio writes directly there, and against the packages safetensors and ztensor (1.2) if this
Python has them.

In turns, each into a new file, with fsync in the time of all. fio writes with the block and depths
below, and the best of its medians counts. Its buffers lie on small pages, and, where enough huge
ones are reserved (sysctl vm.nr_hugepages=64), on those too, which is faster. Prints a table, and
each run's seconds."""
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


def huge_pages_free():
    with open("/proc/meminfo") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("HugePages_Free"))


def fio(path, mib, depth, block, memory):
    path.unlink(missing_ok=True)
    out = subprocess.run(
        ["fio", "--name=w", f"--filename={path}", "--rw=write", "--direct=1", f"--bs={block}",
         f"--iodepth={depth}", "--ioengine=io_uring", f"--size={mib}m", "--end_fsync=1",
         f"--mem={memory}", "--fallocate=native", "--refill_buffers=0", "--output-format=json"],
        check=True, capture_output=True, text=True).stdout
    job = json.loads(out)["jobs"][0]
    path.unlink()
    return job["job_runtime"] / 1000


def save_by_safetensors(path, arrays):
    import safetensors.numpy
    safetensors.numpy.save_file(arrays, path)


def save_by_ztensor(path, arrays):
    import ztensor.numpy
    ztensor.numpy.save_file(arrays, str(path))


def package(save, path, arrays):
    path.unlink(missing_ok=True)
    begin = time.monotonic()
    save(path, arrays)
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    took = time.monotonic() - begin
    path.unlink()
    return took


def importable(module):
    try:
        __import__(module)
    except ImportError:
        return False
    return True


def main():
    options = argparse.ArgumentParser()
    options.add_argument("program")
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("--mib", type=int, default=4096)
    options.add_argument("--repeat", type=int, default=5)
    options.add_argument("--block", default="4m")
    given = options.parse_args()
    packages = {}
    for name, module, save in [("safetensors.numpy.save_file", "safetensors.numpy", save_by_safetensors),
                               ("ztensor.numpy.save_file", "ztensor.numpy", save_by_ztensor)]:
        if not importable(module):
            print(f"without {name}", file=sys.stderr)
        else:
            packages[name] = save
    arrays = {}
    if packages:
        import numpy
        random = numpy.random.default_rng(1)
        each = (given.mib << 20) // 16
        arrays = {f"t{i}": random.integers(0, 256, each, numpy.uint8) for i in range(16)}
    path = given.folder / "save.safetensors"
    aligned = Saver(given.program, path, given.mib)
    anywhere = Saver(given.program, path, given.mib, "--offset", "16")
    kinds = {"ringload, from aligned memory": aligned.run,
             "ringload, from memory of an allocator": anywhere.run}
    for memory, pages in [("malloc", "small pages"), ("shmhuge", "huge pages")]:
        for depth in DEPTHS:
            if memory == "shmhuge" and huge_pages_free() < 4 * depth:
                print(f"without fio on {pages} at depth {depth}: too few are reserved", file=sys.stderr)
                continue
            kinds[f"fio, {depth} x {given.block}, {pages}"] = lambda d=depth, m=memory: fio(
                given.folder / "save.fio", given.mib, d, given.block, m)
    for name, save in packages.items():
        kinds[name] = lambda s=save: package(s, given.folder / "save.package", arrays)
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
