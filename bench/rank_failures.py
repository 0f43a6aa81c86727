#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/rank_failures.py FOLDER [--runs N] [--limit SECONDS] [--kinds KINDS] [--minutes M]:
ranks of torch.distributed (Gloo) that fail during ringload.torch.stream(), N runs of each kind.

killed   one of 4 ranks gets SIGKILL between two tensors
stopped  one of 4 ranks gets SIGSTOP between two tensors
wrong    one of 4 ranks loads another file, a file that is missing, damaged or shorter than its
         header says

The kinds take turns. The runs alternate between both transports, and between a store in a file and
a store of rank 0. A run passes if every other rank (for "wrong": every rank) raises a
ringload.Error with a reason, at most the time limit and a second after the failure; for "wrong",
after the beginning. Time in which a rank was ready to run, and the machine ran others, does not
count. Prints a table, and the reasons. Ends with 1 if a run does not pass."""
import argparse
import collections
import datetime
import multiprocessing
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import struct
import sys
import time

import torch
from torch import distributed

import ringload
import ringload.torch

RANKS = 4
TENSORS = 24
slack_seconds = 1.0
KINDS = ("killed", "stopped", "wrong")
WRONG_FILES = ("other.safetensors", "missing.safetensors", "damaged.safetensors",
               "shorter.safetensors")  # fmt: skip


def write_files(folder):
    tensors = {f"t{n:02}": torch.full((256, 256), float(n)) for n in range(TENSORS)}
    ringload.save(folder / "right.safetensors", tensors)
    content = (folder / "right.safetensors").read_bytes()
    tensors["t05"] = torch.zeros(256, 255)
    ringload.save(folder / "other.safetensors", tensors)
    (folder / "shorter.safetensors").write_bytes(content[: len(content) // 2])
    damaged = struct.pack("<Q", 1 << 50) + content[8:]
    (folder / "damaged.safetensors").write_bytes(damaged)


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def seconds_ready():
    """How long this thread has waited for a processor."""
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


def rank_main(rank, store, path, limit, transport, fails_at, number, result):
    """Sends (time, class and text of its error, its beginning), and a message before its end."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=store, rank=rank, world_size=RANKS,
        timeout=datetime.timedelta(seconds=60))
    group = distributed.group.WORLD
    distributed.barrier(group)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # Gloo and the store tell of each lost rank.
    began, ready = time.monotonic(), seconds_ready()
    try:
        count = 0
        with ringload.torch.stream(path, process_group=group, transport=transport,
                                   window="1MiB", timeout=limit) as pairs:
            for _ in pairs:
                count += 1
                if count == fails_at:
                    result.send((time.monotonic(), "fails", "", began))
                    os.kill(os.getpid(), number)
        told = ("none", f"{count} tensors were loaded")
    except BaseException as failure:
        is_ours = isinstance(failure, ringload.Error)
        told = ("Error" if is_ours else type(failure).__name__, str(failure))
    result.send((time.monotonic() - (seconds_ready() - ready), *told, began))
    result.close()
    os._exit(0)


def received(result, limit):
    if not result.poll(60 + 2 * limit):
        return float("inf"), "none", "no answer", 0.0
    try:
        return result.recv()
    except EOFError:
        return float("inf"), "none", "the process ended", 0.0


def run(kind, number, folder, limit, generator):
    """The results of the ranks that must tell of an error: a list of (seconds, class, text)."""
    victim = generator.randrange(RANKS)
    transport = ("group", "shared_memory")[number % 2]
    if number // 2 % 2:
        store = f"tcp://127.0.0.1:{free_port()}"
    else:
        store = f"file://{folder}/store-{os.getpid()}-{kind}-{number}"
    context = multiprocessing.get_context("fork")
    processes, results = [], []
    for rank in range(RANKS):
        path, fails_at, signal_number = folder / "right.safetensors", 0, 0
        if rank == victim and kind == "wrong":
            path = folder / WRONG_FILES[number % len(WRONG_FILES)]
        elif rank == victim:
            # Before the last bucket, whose tensors a rank gets without the others.
            fails_at = generator.randrange(1, TENSORS - 4)
            signal_number = signal.SIGKILL if kind == "killed" else signal.SIGSTOP
        receiving, sending = context.Pipe(duplex=False)
        arguments = (rank, store, str(path), limit, transport, fails_at, signal_number, sending)
        processes.append(context.Process(target=rank_main, args=arguments))
        processes[-1].start()
        sending.close()
        results.append(receiving)
    failed_at = None
    if kind != "wrong":
        failed_at = received(results.pop(victim), limit)[0]
    found = [received(result, limit) for result in results]
    for process in processes:
        process.kill()
        process.join()
    return [
        (at - (began if failed_at is None else failed_at), name, text)
        for at, name, text, began in found
    ]


def outcome(name, found, limit):
    """(whether the run passed, seconds of its ranks, texts of its ranks)."""
    passed = all(
        kind == "Error" and text and taken <= limit + slack_seconds for taken, kind, text in found
    )
    if not passed:
        print(f"{name}: {found}", file=sys.stderr, flush=True)
    return passed, [taken for taken, _, _ in found], [text for _, _, text in found]


def print_table(outcomes):
    print("| kind | runs | passed | s until the error, median | most |")
    print("|---|---|---|---|---|")
    for kind, runs in outcomes.items():
        seconds = [taken for _, times, _ in runs for taken in times]
        print(f"| {kind} | {len(runs)} | {sum(passed for passed, _, _ in runs)} | "
              f"{statistics.median(seconds):.3f} | {max(seconds):.3f} |")
    for kind, runs in outcomes.items():
        reasons = collections.Counter(general(text) for _, _, texts in runs for text in texts)
        print(f"\n{kind}:")
        for text, count in reasons.most_common(12):
            print(f"  {count:5} {text}")


def general(text):
    """The text without its numbers and paths."""
    text = re.sub(r"/\S+/", "", text)
    return re.sub(r"\d[\d.,]*", "N", text)[:150]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--limit", type=float, default=3.0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stops before")
    parser.add_argument("--seed", type=int, default=31)
    options = parser.parse_args()
    folder = pathlib.Path(options.folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    write_files(folder)
    generator = random.Random(options.seed)
    kinds = options.kinds.split(",")
    outcomes = {kind: [] for kind in kinds}  # By kind: (whether it passed, seconds, texts) of runs.
    until = time.monotonic() + 60 * options.minutes
    for number in range(options.runs):
        for kind in kinds:
            if time.monotonic() < until:
                found = run(kind, number, folder, options.limit, generator)
                outcomes[kind].append(outcome(f"{kind}, run {number}", found, options.limit))
    print_table(outcomes)
    raise SystemExit(not all(passed for runs in outcomes.values() for passed, _, _ in runs))


if __name__ == "__main__":
    main()
