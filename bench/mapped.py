#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mapped loads, warm, beside the safetensors package's own mapping, in turns.

    python3 bench/mapped.py BUILD/bench FILE.safetensors [--repeat 9]

Each run is a process of its own. The clock starts when everything is imported, and stops when the
bytes of all tensors have been added up, by the same function in both. Needs torch and safetensors.
Torch before 2.1 has no FP8: a file by `ringload make --shape llama` is of BF16.
"""

import argparse
import ctypes
import pathlib
import statistics
import subprocess
import sys
import time


def sum_by_safetensors(words, path):
    """Prints what bench_mapped prints, of a load by the package."""
    import torch  # noqa: F401, so that it is there before the clock starts
    from safetensors import safe_open

    add_up = ctypes.CDLL(words).sum_of_words
    add_up.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    add_up.restype = ctypes.c_uint64
    begin = time.perf_counter()
    with safe_open(path, framework="pt", device="cpu") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    landed = time.perf_counter() - begin
    total = 0
    for tensor in tensors.values():
        total += add_up(tensor.data_ptr(), tensor.numel() * tensor.element_size())
    print(f"{landed:.6f} {time.perf_counter() - begin:.6f} {total % 2**64}")


def run(command):
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"mapped.py: {command[0]}: {ran.stderr.strip()}")
    said = ran.stdout.split()
    return float(said[0]), float(said[1]), int(said[2])


def read_through(path):
    with open(path, "rb", buffering=0) as file:
        room = bytearray(1 << 22)
        while file.readinto(room):
            pass


def compare(build, path, repeat):
    build = build.resolve()
    program, words = str(build / "bench_mapped"), str(build / "libbench_words.so")
    ways = {
        "safetensors, mapped": [sys.executable, __file__, "--one", words, path],
        "ringload, mapped": [program, path],
        "ringload, mapped, populated": [program, path, "--populate"],
    }
    read_through(path)
    seen = {name: [] for name in ways}
    for _ in range(repeat):
        for name, command in ways.items():
            seen[name].append(run(command))
    sums = {one[2] for each in seen.values() for one in each}
    if len(sums) != 1:
        sys.exit(f"mapped.py: the sums differ: {seen}")
    print("| median of", repeat, "| first tensor, s | all added up, s | least .. most |")
    print("|---|---|---|---|")
    for name, each in seen.items():
        landed, total = ([one[i] for one in each] for i in (0, 1))
        print(
            f"| {name} | {statistics.median(landed):.4f} | {statistics.median(total):.3f} "
            f"| {min(total):.3f} .. {max(total):.3f} |"
        )


def main():
    if sys.argv[1:2] == ["--one"]:
        sum_by_safetensors(*sys.argv[2:4])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path, help="the folder of bench_mapped")
    parser.add_argument("file", help="a .safetensors file")
    parser.add_argument("--repeat", type=int, default=9)
    given = parser.parse_args()
    compare(given.build, given.file, given.repeat)


if __name__ == "__main__":
    main()
