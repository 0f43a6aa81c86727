#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hdf5.py RINGLOAD FOLDER [--bytes N] [--runs N]: loads HDF5 files with ringload and with h5py, in
turns, from the disk and from the page cache, and prints a table for bench/results. Each measurement
is a process of its own. ringload's clock runs from the call to the last tensor; h5py's from opening
the file until every dataset is an array, imports not counted. What h5py gives is compared with what
`ringload sum` says once, before."""
import argparse
import hashlib
import json
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
import page_cache  # noqa: E402

MIB = 1 << 20

H5PY = """
import sys, time, h5py
begin = time.perf_counter()
with h5py.File(sys.argv[1]) as f:
    found = []
    f.visititems(lambda _, x: found.append(x[()]) if isinstance(x, h5py.Dataset) else None)
print(time.perf_counter() - begin)
"""


def make(path, kind, total):
    import h5py
    import numpy as np
    rng = np.random.default_rng(1)
    how = {}
    if kind != "contiguous":
        how = {"chunks": (256, 1024), "compression": "gzip", "compression_opts": 4}
    if kind == "deflated, shuffled":
        how["shuffle"] = True
    with h5py.File(path, "w") as f:
        for i in range(max(1, total // (64 * MIB))):
            # Weights: normal, with bfloat16's precision, so that there is something to compress.
            values = rng.standard_normal((16384, 1024), np.float32) * np.float32(0.02)
            values = (values.view(np.uint32) & 0xFFFF0000).view(np.float32)
            f.create_dataset(f"layer{i}/weight", data=values, **how)


def compare(ringload, path):
    import h5py
    said = subprocess.run([ringload, "sum", path], capture_output=True, text=True, check=True)
    theirs = {}
    with h5py.File(path) as f:
        f.visititems(lambda name, x: theirs.update({
            name.replace("/", "."): hashlib.sha256(x[()].tobytes()).hexdigest()})
            if isinstance(x, h5py.Dataset) else None)
    ours = dict(reversed(line.split(None, 1)) for line in said.stdout.splitlines())
    if ours != theirs:
        sys.exit(f"{path}: ringload and h5py disagree")


def seconds(who, ringload, path, state):
    (page_cache.make_warm if state == "warm" else page_cache.make_cold)([path])
    if who == "h5py":
        done = subprocess.run([sys.executable, "-c", H5PY, path], capture_output=True, text=True,
                              check=True)
        return float(done.stdout)
    done = subprocess.run([ringload, "load", path, "--json"], capture_output=True, text=True,
                          check=True)
    return json.loads(done.stdout)["seconds"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ringload")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--bytes", type=int, default=1 << 30)
    parser.add_argument("--runs", type=int, default=5)
    wanted = parser.parse_args()
    print("| file | state | ringload, s | h5py, s | times as fast |")
    print("|---|---|---|---|---|")
    for kind in ("contiguous", "deflated", "deflated, shuffled"):
        path = wanted.folder / (kind.replace(", ", "_") + f"_{wanted.bytes}.h5")
        if not path.exists():
            make(path, kind, wanted.bytes)
        path = str(path)
        compare(wanted.ringload, path)
        for state in ("cold", "warm"):
            found = {"ringload": [], "h5py": []}
            for _ in range(wanted.runs):
                for who, times in found.items():
                    times.append(seconds(who, wanted.ringload, path, state))
            row = [f"{statistics.median(t):.2f} ({min(t):.2f} .. {max(t):.2f})"
                   for t in found.values()]
            ratio = statistics.median(found["h5py"]) / statistics.median(found["ringload"])
            print(f"| {kind} | {state} | {row[0]} | {row[1]} | {ratio:.1f} |", flush=True)


if __name__ == "__main__":
    main()
