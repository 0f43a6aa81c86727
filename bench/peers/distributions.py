#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sizes and contents of tensors in .zt files, loaded in turns by ringload and by ztensor 1.2.3.

    bench/peers/distributions.py make FOLDER [--mib N]      numpy, ztensor
    bench/peers/distributions.py turns RINGLOAD FOLDER cold|warm [--rounds N]

Sizes: tensors of 50 MB; of 1 KB to 50 MB (mixed); of 10 KB. Each of these files is loaded whole, and
a tenth of its tensors by name. Contents, with zstd at level 3: int4 values in int8, weights of which
80 % were pruned, ternary weights in int8.

Each measurement is a process of its own, in an order drawn anew for each round; before it starts,
the page cache is verified to hold none of the file (cold) or all of it (warm). The time of ringload
is that of `ringload load --json`, the time of ztensor that of its calls; imports are not in it. Both
must have loaded the same number of bytes.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import page_cache  # noqa: E402

buffers_bytes = 128 << 20  # What a load may take besides its tensors, as ringload's slots.
selected = "part.3."  # Begins the names of a tenth of the tensors.
sizes = ("large", "mixed", "small")
contents = ("int4", "pruned", "ternary")
rows = [(name, "whole") for name in sizes + contents] + [(name, "a tenth") for name in sizes]


def tensor_sizes(kind, total, draw):
    """Bytes of each tensor, multiples of 4."""
    least, most = {"large": (50e6, 50e6), "mixed": (1e3, 50e6), "small": (1e4, 1e4)}[kind]
    while total > 0:
        # Each power of ten has as many tensors of the mixed file.
        size = int(least * (most / least) ** draw.random()) // 4 * 4
        total -= size
        yield size


def values_of(kind, shape, draw):
    import numpy

    if kind == "int4":
        return draw.integers(-8, 8, shape, numpy.int8)
    if kind == "ternary":
        return draw.integers(-1, 2, shape, numpy.int8)
    values = draw.standard_normal(shape, numpy.float32) * numpy.float32(0.02)
    values[draw.random(shape, numpy.float32) < 0.8] = 0
    return values


def make(folder, mib):
    import numpy
    import ztensor

    folder.mkdir(parents=True, exist_ok=True)
    draw = numpy.random.default_rng(1)
    for kind in sizes:
        with ztensor.Writer(str(folder / f"{kind}.zt")) as writer:
            for i, size in enumerate(tensor_sizes(kind, mib << 20, draw)):
                words = draw.integers(0, 1 << 32, size // 4, numpy.uint32)
                writer.write_numpy(f"part.{i % 10}.{i:06}", words.view(numpy.float32))
    for kind in contents:
        with ztensor.Writer(str(folder / f"{kind}.zt")) as writer:
            for i in range(16):
                element = 4 if kind == "pruned" else 1
                values = values_of(kind, ((mib << 20) // 16 // 1024 // element, 1024), draw)
                writer.write_numpy(f"part.{i % 10}.{i:06}", values, compress=3)
    os.sync()
    for path in sorted(folder.glob("*.zt")):
        print(f"{path.name}: {path.stat().st_size:,}")


def by_ringload(ringload, path, part):
    select = ["--select", selected + "*"] if part == "a tenth" else []
    ran = subprocess.run([ringload, "load", path, "--json", "--no-progress", *select],
                         capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(ran.stderr)
    return json.loads(ran.stdout)


def by_ztensor(path, part):
    """In a process of its own."""
    import ztensor
    import ztensor.numpy

    begin = time.perf_counter()
    if part == "whole":
        kept = ztensor.numpy.load_file(path, copy=True)
    else:
        with ztensor.Reader(path) as reader:
            kept = {name: reader.read_numpy(name, copy=True)
                    for name in reader.keys() if name.startswith(selected)}
    seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "bytes": sum(v.nbytes for v in kept.values())}))


def spread(seconds):
    return f"{statistics.median(seconds):.3f} s ({min(seconds):.3f} .. {max(seconds):.3f})"


def turns(ringload, folder, state, rounds):
    times = {(row, by): [] for row in rows for by in ("ringload", "ztensor")}
    loaded = {}
    for _ in range(rounds):
        for row, by in random.sample(list(times), len(times)):
            name, part = row
            path = str(folder / f"{name}.zt")
            size = max(os.path.getsize(path), loaded.get(row, 0))
            page_cache.bring_about(state, [path], size + buffers_bytes)
            if by == "ringload":
                report = by_ringload(ringload, path, part)
            else:
                ran = subprocess.run([sys.executable, __file__, "once", path, part],
                                     capture_output=True, text=True, check=True)
                report = json.loads(ran.stdout)
            if loaded.setdefault(row, report["bytes"]) != report["bytes"]:
                sys.exit(f"{path}: {by} loaded {report['bytes']:,} bytes, not {loaded[row]:,}")
            times[row, by].append(report["seconds"])
    print(f"| {state} | | bytes | ringload, median (least .. most) | ztensor | ringload is |\n"
          "|---|---|---|---|---|---|")
    for row in rows:
        ours, theirs = times[row, "ringload"], times[row, "ztensor"]
        ratio = statistics.median(theirs) / statistics.median(ours)
        print(f"| {row[0]} | {row[1]} | {loaded[row]:,} | {spread(ours)} | {spread(theirs)} | "
              f"{ratio:.2f} times as fast |")


def main():
    if sys.argv[1:2] == ["once"]:
        by_ztensor(*sys.argv[2:4])
        return
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("action", choices=("make", "turns"))
    parser.add_argument("arguments", nargs="+")
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if given.action == "make":
        make(pathlib.Path(given.arguments[0]), given.mib)
    else:
        ringload, folder, state = given.arguments
        turns(ringload, pathlib.Path(folder), state, given.rounds)


main()
