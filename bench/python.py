#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ringload costs from Python, beside the tool in C++ and the package safetensors.

    bench/python.py load TOOL FILE [--runs N]       the tool and ringload.load in turns, cold and warm
    bench/python.py import [--runs N]               import ringload, in new processes
    bench/python.py names FOLDER [--tensors N] [--runs N]
                                                    many small tensors into a dictionary of PyTorch's
    bench/python.py await FILE [--runs N]           a tensor that has landed, awaited and waited for
    bench/python.py small FOLDER [--runs N]         a file of 17 KB

Run by a Python that has the package ringload; `names` needs torch and safetensors as well, `small`
safetensors and NumPy. Each figure is from a process of its own, but for those of `await`, and printed as a row of a table:
median, least and most, and the median's share of the first row's.
"""

import argparse
import asyncio
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import time

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here / "peers"))

import page_cache  # noqa: E402

spare_bytes = 256 << 20


def in_turns(runs, kinds):
    """The figures of each kind, in an order drawn anew for each round."""
    figures = {name: [] for name in kinds}
    for round_number in range(runs):
        order = list(kinds)
        random.shuffle(order)
        for name in order:
            figures[name].append(kinds[name]())
            said = f"round {round_number + 1} of {runs}, {name}: {figures[name][-1]:.4f}"
            print(said, file=sys.stderr, flush=True)
    return figures


def print_table(title, figures, scale=1.0, unit="s"):
    print(f"\n| {title} | median, {unit} | least | most | of the first |\n|---|---|---|---|---|")
    first = statistics.median(next(iter(figures.values())))
    for name, all_of_it in figures.items():
        middle, least, most = statistics.median(all_of_it), min(all_of_it), max(all_of_it)
        cells = (f"{value * scale:.3f}" for value in (middle, least, most))
        print(f"| {name} | {' | '.join(cells)} | {middle / first:.3f} |", flush=True)


def numbers_of(program, *arguments):
    """The numbers that the program prints."""
    command = [sys.executable, "-B", "-c", program, *map(str, arguments)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(word) for word in ran.stdout.split()]


def in_new_process(program, *arguments):
    return numbers_of(program, *arguments)[0]


# --- load

# The Loader's making and closing are in the first time; the second is that of the load alone, as
# the library counts it.
load_program = """
import os, sys, time
import ringload
begin = time.perf_counter()
model = ringload.load(sys.argv[1])
seconds = time.perf_counter() - begin
print(seconds, model.stats["seconds"], flush=True)
os._exit(0)
"""


def loads(given):
    path, size = str(given.file), given.file.stat().st_size

    def by_tool():
        command = [given.tool, "load", str(given.file), "--json", "--no-progress"]
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
        report = json.loads(ran.stdout)
        beyond[0].append(report["seconds_starting"])
        return report["seconds"] + report["seconds_starting"]

    for state in given.states.split(","):
        inside, beyond = [], ([], [])

        def by_python(inside=inside):
            whole, alone = numbers_of(load_program, path)
            inside.append(alone)
            beyond[1].append(whole - alone)
            return whole

        def ready(measure, state=state):
            page_cache.bring_about(state, [path], size + spare_bytes)
            return measure()

        kinds = {
            "`ringload load --json`, with making its loader": by_tool,
            "`ringload.load`, with making and closing its Loader": by_python,
        }
        turns = {name: lambda kind=kind, ready=ready: ready(kind) for name, kind in kinds.items()}
        figures = in_turns(given.runs, turns)
        outside = dict(zip(kinds, beyond))
        figures["the load alone inside `ringload.load`"] = inside
        print_table(f"{size:,} bytes, {state}", figures)
        print_table(f"{size:,} bytes, {state}: beyond the load", outside, 1e3, "ms")


# --- import

import_program = """
import time
begin = time.perf_counter()
import {module}
print(time.perf_counter() - begin)
"""


def imports(given):
    kinds = {}
    for module in ("ringload", "asyncio"):
        program = import_program.format(module=module)
        kinds[f"`import {module}`"] = lambda program=program: in_new_process(program)
        kinds[f"`import {module}`"]()  # The files are in the page cache from now on.
    print_table("in a new process", in_turns(given.runs, kinds), 1e3, "ms")


# --- many tensors

names_program = """
import os, sys, time
import torch
from safetensors.torch import load_file
import ringload, ringload._convert
from ringload.compat.safetensors.torch import load_file as compat_load_file
load = {
    "package": lambda path: {name: t.clone() for name, t in load_file(path).items()},
    "views": load_file,
    "load": lambda path: ringload.load(path).torch(),
    "compat": compat_load_file,
}[sys.argv[2]]
begin = time.perf_counter()
tensors = load(sys.argv[1])
seconds = time.perf_counter() - begin
assert len(tensors) == int(sys.argv[3])
print(seconds, flush=True)
os._exit(0)
"""


def write_many(path, count, tensor_bytes=4096):
    header = {}
    for i in range(count):
        offsets = [i * tensor_bytes, (i + 1) * tensor_bytes]
        header[f"t{i:06}"] = {"dtype": "F32", "shape": [tensor_bytes // 4], "data_offsets": offsets}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _ in range(count):
            file.write(bytes(tensor_bytes))


def names(given):
    path = given.folder / f"many-{given.tensors}.safetensors"
    write_many(path, given.tensors)
    page_cache.make_cold([str(path)])  # On the drive, then in the page cache.
    page_cache.make_warm([str(path)])
    titles = {
        "views": "safetensors' `load_file`, views of its mapping",
        "package": "the same, each copied",
        "load": "`ringload.load(path).torch()`",
        "compat": "`ringload.compat.safetensors.torch.load_file`",
    }
    kinds = {
        title: lambda how=how: in_new_process(names_program, path, how, given.tensors)
        for how, title in titles.items()
    }
    print_table(f"{given.tensors:,} tensors, warm", in_turns(given.runs, kinds))
    path.unlink()


# --- await


async def seconds_awaited(load, name, count):
    begin = time.perf_counter()
    for _ in range(count):
        await load.tensor(name)
    return (time.perf_counter() - begin) / count


def awaited(given):
    import ringload

    count = 5000
    with ringload.Loader() as loader:
        load = loader.start(given.file).result()
        name = load.infos()[0].name
        load.finish().result()

        def waited():
            begin = time.perf_counter()
            for _ in range(count):
                load.tensor(name).result()
            return (time.perf_counter() - begin) / count

        kinds = {
            "`await load.tensor(name)`": lambda: asyncio.run(seconds_awaited(load, name, count)),
            "`load.tensor(name).result()`": waited,
        }
        print_table(f"a tensor that has landed, {count:,} times", in_turns(given.runs, kinds), 1e6, "us")


# --- small files

small_program = """
import statistics, sys, time
import ringload
from safetensors.numpy import load_file

def with_own_loader(path):
    with ringload.Loader() as loader:
        return loader.load(path).result()

load = {"package": load_file, "load": ringload.load, "own": with_own_loader}[sys.argv[2]]
seconds = []
for _ in range(500):
    begin = time.perf_counter()
    load(sys.argv[1])
    seconds.append(time.perf_counter() - begin)
print(statistics.median(seconds), flush=True)
"""


def small(given):
    path = given.folder / "small.safetensors"
    write_many(path, 4)
    titles = {
        "package": "safetensors' `load_file` of NumPy",
        "load": "`ringload.load`",
        "own": "a Loader that is made and closed for it",
    }
    kinds = {
        title: lambda how=how: in_new_process(small_program, path, how)
        for how, title in titles.items()
    }
    size = path.stat().st_size
    print_table(f"{size:,} bytes, warm", in_turns(given.runs, kinds), 1e6, "us")
    path.unlink()


def main():
    line = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    which = line.add_subparsers(required=True)
    programs = {
        "load": loads, "import": imports, "names": names, "await": awaited, "small": small
    }  # fmt: skip
    for name, run in programs.items():
        one = which.add_parser(name)
        one.set_defaults(run=run)
        one.add_argument("--runs", type=int, default=9)
        if name == "load":
            one.add_argument("tool")
            one.add_argument("--states", default="cold,warm")
        if name in ("load", "await"):
            one.add_argument("file", type=pathlib.Path)
        if name in ("names", "small"):
            one.add_argument("folder", type=pathlib.Path)
        if name == "names":
            one.add_argument("--tensors", type=int, default=100000)
    given = line.parse_args()
    print(
        f"Python {sys.version.split()[0]}, {os.cpu_count()} processors,"
        f" Linux {os.uname().release.split('-')[0]}"
    )
    given.run(given)


if __name__ == "__main__":
    main()
