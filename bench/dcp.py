#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/dcp.py FOLDER [--mib N] [--side N] [--warm] [--repeat N]: a checkpoint that four ranks have
saved with torch.distributed.checkpoint, as boxes of a 2 x 2 mesh, loaded with a cold page cache, or
with the files in the page cache. The tensors have N x N elements of bf16.

Writes the checkpoint to FOLDER/dcp-MIB-SIDE unless it is there. In turns, by PyTorch's own reader and by
ringload: all tensors in one process; and on four ranks, each tensor divided along dimension 0, and
along dimension 1. A run ends when the last rank has its tensors. Every result is compared once.
Bytes are those of the drive that holds FOLDER, as /proc/diskstats counts them, over the bytes of the
tensors. Prints a table of medians."""
import argparse
import datetime
import os
import pathlib
import statistics
import time
import warnings

import torch
from torch import distributed
from torch.distributed import checkpoint
from torch.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh
from torch_ranks import bytes_of_drive, drop_cache, run_ranks

RANKS = 4
side = 4096


def full(number):
    generator = torch.Generator().manual_seed(number)
    return torch.rand(side, side, generator=generator).to(torch.bfloat16)


def save(folder, count):
    mesh = init_device_mesh("cpu", (2, 2))
    state = {
        f"layer.{n}.weight": distribute_tensor(full(n), mesh, [Shard(0), Shard(1)])
        for n in range(count)
    }
    checkpoint.save(state, checkpoint_id=folder)


def torch_whole(folder, names, group):
    if distributed.get_rank(group) == 0:
        state = {name: torch.empty(side, side, dtype=torch.bfloat16) for name in names}
        checkpoint.load(state, checkpoint_id=folder, no_dist=True)
        return state


def ringload_whole(folder, names, group):
    if distributed.get_rank(group) == 0:
        import ringload

        return ringload.load(folder).torch()


def torch_divided(folder, names, dim):
    mesh = init_device_mesh("cpu", (RANKS,))
    shape = [side, side]
    shape[dim] //= RANKS
    state = {
        name: DTensor.from_local(
            torch.empty(shape, dtype=torch.bfloat16), mesh, [Shard(dim)], run_check=False)
        for name in names
    }
    checkpoint.load(state, checkpoint_id=folder)
    return {name: tensor.to_local() for name, tensor in state.items()}


def ringload_divided(folder, group, dim, memory="owned"):
    import ringload.torch

    return ringload.torch.load(folder, process_group=group, plan=dim, memory=memory)


WAYS = {
    ("one process, all", "PyTorch"): torch_whole,
    ("one process, all", "ringload"): ringload_whole,
    ("4 ranks, dimension 0", "PyTorch"): lambda f, names, group: torch_divided(f, names, 0),
    ("4 ranks, dimension 0", "ringload"): lambda f, names, group: ringload_divided(f, group, 0),
    ("4 ranks, dimension 1", "PyTorch"): lambda f, names, group: torch_divided(f, names, 1),
    ("4 ranks, dimension 1", "ringload"): lambda f, names, group: ringload_divided(f, group, 1),
    ("4 ranks, dimension 1", "ringload, mapped"): lambda f, names, group: ringload_divided(
        f, group, 1, "mapped"),
}


def check(way, state, names, rank):
    dim = {"0": 0, "1": 1}.get(way[0][-1])
    for number, name in enumerate(names):
        if number % 8 == 0 and state is not None:
            expected = full(number)
            expected = expected if dim is None else expected.chunk(RANKS, dim)[rank]
            assert torch.equal(state[name], expected), (way, name)


def prepare(folder, warm):
    """The files are in the page cache afterwards, or they are not."""
    for path in pathlib.Path(folder).iterdir():
        if warm:
            path.read_bytes()
        else:
            drop_cache(path)


def rank_main(rank, store, folder, count, tensor_side, warm, repeat):
    global side
    side = tensor_side
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS,
        timeout=datetime.timedelta(minutes=10))
    group = distributed.new_group(list(range(RANKS)))
    if not os.path.exists(os.path.join(folder, ".metadata")):
        save(folder, count)
        os.sync()
    names = [f"layer.{n}.weight" for n in range(count)]
    results = []
    for turn in range(repeat):
        for way, load in WAYS.items():
            if rank == 0:
                prepare(folder, warm)
                before = bytes_of_drive(folder)
            distributed.barrier(group)
            begin = time.monotonic()
            state = load(folder, names, group)
            distributed.barrier(group)
            if rank == 0:
                results.append((way, time.monotonic() - begin, bytes_of_drive(folder) - before))
            if turn == 0:
                check(way, state, names, rank)
            del state
            distributed.barrier(group)
    if rank == 0:
        print_table(results, count * side * side * 2)
    distributed.destroy_process_group()


def print_table(results, size):
    print("| layout | by | s, median | least .. most | PyTorch / this | bytes read / bytes needed |")
    print("|---|---|---|---|---|---|")
    medians = {}
    for way in WAYS:
        seconds = sorted(s for which, s, _ in results if which == way)
        read = statistics.median(b for which, _, b in results if which == way)
        medians[way] = statistics.median(seconds)
        print(f"| {way[0]} | {way[1]} | {medians[way]:.3f} | {seconds[0]:.3f} .. {seconds[-1]:.3f} "
              f"| {medians[way[0], 'PyTorch'] / medians[way]:.2f} | {read / size:.3f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--side", type=int, default=4096)
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    count = max(1, options.mib * 2**20 // (options.side**2 * 2))
    os.makedirs(options.folder, exist_ok=True)
    folder = os.path.join(options.folder, f"dcp-{options.mib}-{options.side}")
    run_ranks(rank_main, RANKS, options.folder, folder, count, options.side, options.warm,
              options.repeat)


if __name__ == "__main__":
    main()
