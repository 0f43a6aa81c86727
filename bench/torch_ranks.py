#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/torch_ranks.py FILE [--ranks N] [--repeat N]: a safetensors file that every rank of a
process group of torch.distributed (Gloo) gets whole, with a cold page cache before each run.

In turns: one process with ringload.load(); ringload.torch.load() by memory that all ranks map, by
mapped files, and by calls of the group; the same divided by a plan along dimension 0; the plug-in
for vLLM on a stand-in for the engine, with "distributed" and without; safetensors, a rank by a rank;
and, as a bound of the ways that give each rank the whole file in memory of its own, no load at all:
each rank copies as many bytes from memory into new huge pages. --ways has parts of the names. A run
ends when the last rank has its tensors, one byte of each page of which it has read. Bytes are those
of the drive that holds FILE, as /proc/diskstats counts them. Prints a table of medians, and the
ratios to one process with the whole file."""
import argparse
import datetime
import functools
import mmap
import multiprocessing
import os
import statistics
import sys
import time
import types

import torch
from torch import distributed

PAGE = 4096


def touch(tensor):
    """Reads a byte of each page."""
    return tensor.reshape(-1).view(torch.uint8)[::PAGE].sum()


def touch_all(pairs):
    for _, tensor in pairs:
        if tensor.numel() and tensor.is_floating_point():
            touch(tensor)


def whole(path, group):
    if distributed.get_rank(group) == 0:
        import ringload

        touch_all(ringload.load(path).torch().items())


def shared(path, group):
    import ringload.torch

    touch_all(ringload.torch.load(path, process_group=group).items())


def mapped(path, group):
    import ringload.torch

    touch_all(ringload.torch.load(path, process_group=group, memory="mapped").items())


def by_group(path, group):
    import ringload.torch

    touch_all(ringload.torch.load(path, process_group=group, transport="group").items())


def rows(info):
    return 0 if info.shape else None


def divided(path, group):
    import ringload.torch

    touch_all(ringload.torch.load(path, process_group=group, plan=rows).items())


def divided_mapped(path, group):
    import ringload.torch

    found = ringload.torch.load(path, process_group=group, plan=rows, memory="mapped")
    touch_all(found.items())


def plugin(path, group, **extra):
    from ringload.plugins import _weights

    module = types.ModuleType("tensor_parallel_stand_in")
    module.get_tp_group = lambda: types.SimpleNamespace(
        world_size=distributed.get_world_size(group), cpu_group=group)
    sys.modules[module.__name__] = module
    loader = types.SimpleNamespace(load_config=types.SimpleNamespace(use_tqdm_on_load=False))
    touch_all(_weights.weights_of(loader, {"device": "cpu", **extra}, module.__name__, [path]))


def plugin_distributed(path, group):
    plugin(path, group, distributed=True)


def by_safetensors(path, group):
    from safetensors.torch import load_file

    touch_all(load_file(path).items())


@functools.cache
def copied_bytes():
    return torch.ones(256 << 20, dtype=torch.uint8)


def copy_only(path, group):
    size = os.path.getsize(path)
    memory = mmap.mmap(-1, size)
    memory.madvise(mmap.MADV_HUGEPAGE)
    for part in torch.frombuffer(memory, dtype=torch.uint8).split(len(copied_bytes())):
        part.copy_(copied_bytes()[: len(part)])


WAYS = {
    "one process, the whole file": whole,
    "ringload.torch, shared memory": shared,
    "ringload.torch, mapped files": mapped,
    "ringload.torch, calls of Gloo": by_group,
    "ringload.torch, divided along dimension 0": divided,
    "ringload.torch, divided, mapped files": divided_mapped,
    "plug-in, distributed": plugin_distributed,
    "plug-in, each rank all": plugin,
    "safetensors, each rank all": by_safetensors,
    "no load: each rank copies as much": copy_only,
}


def drop_cache(path):
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def bytes_of_drive(path):
    """Bytes that were read from the block device, or its partition, that holds the file."""
    device = os.stat(path).st_dev
    numbers = (str(os.major(device)), str(os.minor(device)))
    with open("/proc/diskstats") as lines:
        for line in lines:
            fields = line.split()
            if tuple(fields[:2]) == numbers:
                return 512 * int(fields[5])
    raise SystemExit(f"{path} is on no block device")


def rank_main(rank, store, ranks, path, repeat, ways, results):
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=ranks,
        timeout=datetime.timedelta(minutes=5))
    group = distributed.new_group(list(range(ranks)))
    copied_bytes()
    for _ in range(repeat):
        for name, way in chosen(ways).items():
            if rank == 0:
                drop_cache(path)
                before = bytes_of_drive(path)
            distributed.barrier(group)
            begin = time.monotonic()
            way(path, group)
            distributed.barrier(group)
            if rank == 0:
                seconds = time.monotonic() - begin
                results.append((name, seconds, bytes_of_drive(path) - before))
    if rank == 0:
        print_table(results, os.path.getsize(path), chosen(ways))
    distributed.destroy_process_group()


def chosen(ways):
    """The ways whose names hold one of the comma-separated texts, and the first, as a base."""
    first = next(iter(WAYS))
    return {name: way for name, way in WAYS.items()
            if name == first or any(text in name for text in ways.split(","))}


def print_table(results, size, ways):
    base = statistics.median(seconds for name, seconds, _ in results if name == next(iter(WAYS)))
    print("| way | s, median | least .. most | time / one process | bytes read / file |")
    print("|---|---|---|---|---|")
    for name in ways:
        seconds = sorted(s for way, s, _ in results if way == name)
        read = statistics.median(b for way, _, b in results if way == name)
        median = statistics.median(seconds)
        print(f"| {name} | {median:.3f} | {seconds[0]:.3f} .. {seconds[-1]:.3f} | "
              f"{median / base:.2f} | {read / size:.3f} |")


def run_ranks(function, ranks, folder, *arguments):
    """Runs function(rank, store, *arguments) in a process for each rank, and ends this process.

    The store is a file in the folder, for init_process_group().
    """
    store = os.path.join(folder, f".store-{os.getpid()}")
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=function, args=(rank, store, *arguments)) for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if os.path.exists(store):
        os.unlink(store)
    raise SystemExit(max(abs(process.exitcode) for process in processes))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--ways", default="")
    options = parser.parse_args()
    folder = os.path.dirname(os.path.abspath(options.file))
    run_ranks(rank_main, options.ranks, folder, options.ranks, options.file, options.repeat,
              options.ways, [])


if __name__ == "__main__":
    main()
