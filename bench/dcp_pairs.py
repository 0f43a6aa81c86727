#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/dcp_pairs.py FOLDER [--pairs N] [--kib K] [--seed S]: random pairs of layouts.

Each pair is a folder of torch.distributed.checkpoint, whose tensors were saved as random boxes, and
a random plan by which 4 ranks of Gloo load them with ringload.torch.load(), in turns with each
transport. Twenty pairs share a folder. Each rank compares its parts with those of the whole
tensors. Before each load the folder is dropped out of the page cache. The same pair is also loaded
by PyTorch's own reader, before or after, into DTensors of the same parts. Prints two ratios:
the bytes that all ranks have read from the drive (read_bytes of /proc/self/io), divided by the
bytes of the tensors, and divided by the bytes of the folder. The folder also has a header for each
box. Prints the times, and PyTorch's time over
the time of ringload. Ends with 1 if a tensor differs."""
import argparse
import datetime
import os
import pathlib
import random
import shutil
import statistics
import sys
import time
import warnings

import torch
from torch import distributed
from torch.distributed import checkpoint
from torch.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh
from torch_ranks import drop_cache, run_ranks

import ringload.torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "python"))
from test_dcp import grid, write_folder  # noqa: E402

RANKS, TENSORS, PAIRS_OF_FOLDER = 4, 8, 20
CARRIED = {
    "group": {"transport": "group"},
    "shared memory": {"transport": "shared_memory"},
    "mapped files": {"memory": "mapped"},
}


def bytes_read():
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("read_bytes"))


def tensors_of(choose, kib):
    """Random tensors of up to 3 dimensions and about `kib` KiB, by name."""
    found = {}
    for number in range(TENSORS):
        shape = [choose.randrange(1, 65) for _ in range(choose.randrange(3))]
        count = 1
        for size in shape:
            count *= size
        shape.insert(choose.randrange(len(shape) + 1), max(1, kib * 256 // count))
        generator = torch.Generator().manual_seed(choose.randrange(1 << 30))
        found[f"t{number}"] = torch.rand(shape, generator=generator)
    return found


def check(found, tensors, plan, rank):
    """Raises AssertionError if a part differs from the one of the whole tensor."""
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        expected = tensor
        if plan[name] is not None:
            chunks = tensor.chunk(RANKS, plan[name])
            expected = chunks[rank] if rank < len(chunks) else tensor.narrow(plan[name], 0, 0)
        assert torch.equal(found[name], expected), (name, tensor.shape, plan[name], rank)


def empty_state(tensors, plan, mesh):
    """Returns the destinations of PyTorch's reader: a DTensor for each divided tensor."""
    state = {}
    for name, tensor in tensors.items():
        state[name] = torch.empty_like(tensor)
        if plan[name] is not None:
            state[name] = distribute_tensor(state[name], mesh, [Shard(plan[name])])
    return state


def load_by_torch(path, state):
    checkpoint.load(state, checkpoint_id=str(path))
    return {n: t.to_local() if isinstance(t, DTensor) else t for n, t in state.items()}


def timed_cold(load, path, rank, group):
    """Runs `load` without the folder in the page cache. Returns its result, and the time until all
    ranks have finished."""
    if rank == 0:
        for file in path.iterdir():
            drop_cache(file)
    distributed.barrier(group)
    begin = time.monotonic()
    result = load()
    distributed.barrier(group)
    return result, time.monotonic() - begin


def rank_main(rank, store, folder, options):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS,
        timeout=datetime.timedelta(minutes=5))
    group = distributed.new_group(list(range(RANKS)))
    mesh = init_device_mesh("cpu", (RANKS,))
    choose = random.Random(options.seed)
    # For each transport, a list with one dict for each pair. "ringload" and "torch" have (seconds,
    # bytes read). "tensors" and "folder" have sizes in bytes.
    measured = {way: [] for way in CARRIED}
    for pair in range(options.pairs):
        if pair % PAIRS_OF_FOLDER == 0:
            tensors = tensors_of(choose, options.kib)
            layouts = {name: grid(choose, tensor.shape) for name, tensor in tensors.items()}
            path = pathlib.Path(folder) / "pairs"
            state = choose.getstate()  # Only rank 0 writes, and write_folder() chooses too.
            if rank == 0:
                shutil.rmtree(path, ignore_errors=True)
                write_folder(path, tensors, layouts, RANKS, choose)
                for file in path.iterdir():
                    with open(file, "rb") as content:
                        os.fsync(content.fileno())
            choose.setstate(state)
        plan = {name: choose.choice([None, *range(t.ndim)]) for name, t in tensors.items()}
        way = list(CARRIED)[pair % len(CARRIED)]
        state = empty_state(tensors, plan, mesh)

        def by_ringload(plan=plan, way=way):
            return ringload.torch.load(
                str(path), process_group=group, plan=plan, **CARRIED[way])

        loads = {"ringload": by_ringload, "torch": lambda s=state: load_by_torch(path, s)}
        of_pair = {
            "tensors": sum(t.numel() * 4 for t in tensors.values()),
            "folder": sum(file.stat().st_size for file in path.iterdir()),
        }
        for by in sorted(loads, reverse=pair % 2 == 1):
            before = bytes_read()
            parts, seconds = timed_cold(loads[by], path, rank, group)
            read = torch.tensor(bytes_read() - before)
            check(parts, tensors, plan, rank)
            distributed.all_reduce(read, group=group)
            of_pair[by] = seconds, int(read)
        measured[way].append(of_pair)
    if rank == 0:
        print_table(measured)
    distributed.barrier(group)
    distributed.destroy_process_group()


def print_table(measured):
    print("| transport | pairs | bytes read / tensors, mean | most | / folder, mean | most "
          "| PyTorch / folder | ms, median | PyTorch | PyTorch / ringload, median "
          "| 5 % of the pairs are below |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for way, pairs in measured.items():
        of_tensors = [p["ringload"][1] / p["tensors"] for p in pairs]
        of_folder = [p["ringload"][1] / p["folder"] for p in pairs]
        of_torch = [p["torch"][1] / p["folder"] for p in pairs]
        milliseconds = {by: statistics.median(p[by][0] * 1e3 for p in pairs)
                        for by in ("ringload", "torch")}
        times = sorted(p["torch"][0] / p["ringload"][0] for p in pairs)
        print(f"| {way} | {len(pairs)} | {statistics.mean(of_tensors):.3f} | {max(of_tensors):.3f} "
              f"| {statistics.mean(of_folder):.3f} | {max(of_folder):.3f} "
              f"| {statistics.mean(of_torch):.3f} "
              f"| {milliseconds['ringload']:.0f} | {milliseconds['torch']:.0f} "
              f"| {statistics.median(times):.1f} | {times[len(times) // 20]:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--kib", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=31)
    options = parser.parse_args()
    folder = os.path.abspath(options.folder)
    os.makedirs(folder, exist_ok=True)
    run_ranks(rank_main, RANKS, folder, folder, options)


if __name__ == "__main__":
    main()
