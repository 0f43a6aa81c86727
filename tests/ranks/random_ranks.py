#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_ranks.py RANKS_TOOL socket|tcp|mpi|machines [--mpirun PROGRAM] [--rounds N] [--seed N]

Makes random checkpoints, lets several processes load each together, and compares what every rank
got of every call with NumPy, or, where that is not installed, with a few lines of Python that do
the same. `machines` is MPI over TCP between two network namespaces with host names of their own.
Exit code 77: mpirun, or MPI in the tool, is not there, or namespaces cannot be made.
"""

import argparse
import contextlib
import itertools
import json
import math
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile

try:
    import numpy
except ImportError:
    numpy = None

WIDTHS = {"F32": 4, "BF16": 2, "U8": 1, "I64": 8, "F16": 2}


def block(data, shape, width, dim, begin, end):
    """The bytes of data[..., begin:end, ...]."""
    if numpy is not None:
        whole = numpy.frombuffer(data, dtype=f"V{width}").reshape(shape)
        which = [slice(None)] * len(shape)
        which[dim] = slice(begin, end)
        return numpy.ascontiguousarray(whole[tuple(which)]).tobytes()
    inner = math.prod(shape[dim + 1:]) * width
    rows = range(math.prod(shape[:dim]))
    count = shape[dim]
    return b"".join(
        data[(r * count + begin) * inner:(r * count + max(begin, min(end, count))) * inner]
        for r in rows)


def make_checkpoint(rng, path, large_rows):
    tensors = {}
    for i in range(rng.randint(1, 8)):
        dtype = rng.choice(list(WIDTHS))
        shape = [rng.choice([0, 1, rng.randint(1, 50)]) for _ in range(rng.randint(0, 3))]
        data = rng.randbytes(math.prod(shape) * WIDTHS[dtype])
        tensors[f"t{i}"] = (dtype, shape, data)
    if rng.random() < 0.5 or large_rows > 3000:
        shape = [rng.randint(large_rows // 3, large_rows), rng.randint(1, 300)]
        tensors["large"] = ("BF16", shape, rng.randbytes(2 * math.prod(shape)))
    header = {}
    at = 0
    # The order that the reference has: wide types first, so that all are aligned.
    for name in sorted(tensors, key=lambda n: -WIDTHS[tensors[n][0]]):
        dtype, shape, data = tensors[name]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in header:
            file.write(tensors[name][2])
    return tensors


def random_calls(rng, tensors, ranks):
    calls = []
    for name, (dtype, shape, _) in tensors.items():
        calls.append(f"tensor,{name}")
        calls.append(f"push,{name},{rng.randrange(ranks)}")
        calls += [f"shard,{name},{dim}" for dim in range(len(shape))]
        others = rng.sample(sorted(tensors), rng.randrange(len(tensors) + 1))
        calls.append(",".join(["model", name, *others]))
    for first, second in itertools.combinations(tensors, 2):
        a, b = tensors[first], tensors[second]
        if a[0] != b[0] or len(a[1]) != len(b[1]):
            continue
        for dim in range(len(a[1])):
            if a[1][:dim] + a[1][dim + 1:] == b[1][:dim] + b[1][dim + 1:]:
                calls.append(f"fused,both,{dim},{first},{second}")
    rng.shuffle(calls)
    return calls


def own_block(tensor, dim, rank, ranks):
    dtype, shape, data = tensor
    length = -(-shape[dim] // ranks)
    begin = min(length * rank, shape[dim])
    end = min(begin + length, shape[dim])
    part = shape[:dim] + [end - begin] + shape[dim + 1:]
    return part, block(data, shape, WIDTHS[dtype], dim, begin, end)


def joined(parts, dim, width):
    shape = list(parts[0][0])
    shape[dim] = sum(p[0][dim] for p in parts)
    if numpy is not None:
        arrays = [numpy.frombuffer(d, dtype=f"V{width}").reshape(s) for s, d in parts]
        return shape, numpy.concatenate(arrays, dim).tobytes()
    outer = math.prod(shape[:dim])
    pieces = [len(d) // outer if outer else 0 for _, d in parts]
    return shape, b"".join(
        d[r * n:(r + 1) * n] for r in range(outer) for (_, d), n in zip(parts, pieces))


def wanted(call, tensors, rank, ranks):
    what, *rest = call.split(",")
    if what == "fused":
        _, dim, *names = rest
        dtype = tensors[names[0]][0]
        parts = [own_block(tensors[n], int(dim), rank, ranks) for n in names]
        return dtype, *joined(parts, int(dim), WIDTHS[dtype])
    dtype, shape, data = tensors[rest[0]]
    if what in ("tensor", "model"):
        return dtype, shape, data
    if what == "push":
        return (dtype, shape, data) if int(rest[1]) == rank else None
    return dtype, *own_block(tensors[rest[0]], int(rest[1]), rank, ranks)


def bytes_read_again(calls, tensors):
    """The bytes of shards along dimension 0 that later calls need again."""
    read_again = 0
    lent = set()
    for call in calls:
        kind, *rest = call.split(",")
        used = {"fused": rest[2:], "model": rest}.get(kind, rest[:1])
        read_again += sum(len(tensors[name][2]) for name in lent & set(used))
        lent -= set(used)
        if kind == "shard" and rest[1] == "0":
            lent.add(rest[0])
    return read_again


# How mpirun starts its daemon on the other machine, which is called by its address.
AGENT = """#!/bin/sh
shift
exec ip netns exec {b} unshare --uts sh -c "hostname {b}; TMPDIR={folder}; export TMPDIR; $*"
"""


@contextlib.contextmanager
def two_machines():
    a, b = (f"ringload-{os.getpid()}-{which}" for which in "ab")
    devices = [f"rl{os.getpid()}{which}" for which in "ab"]

    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as made:
        try:
            for name in (a, b):
                ip("netns", "add", name)
                made.callback(ip, "netns", "del", name)
            ip("link", "add", devices[0], "netns", a, "type", "veth", "peer", "name", devices[1],
               "netns", b)
            for number, name in enumerate((a, b)):
                ip("-n", name, "link", "set", "lo", "up")
                ip("-n", name, "link", "set", devices[number], "up")
                ip("-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", devices[number])
        except (OSError, subprocess.CalledProcessError) as why:
            print(f"skipped: no network namespaces: {why}")
            sys.exit(77)
        with open(f"{folder}/agent", "w") as file:
            file.write(AGENT.format(b=b, folder=folder))
        os.chmod(f"{folder}/agent", 0o755)
        yield a, f"{folder}/agent"


def command_on_machines(options, command):
    first, agent = options.machines
    network = "10.77.0.0/24"
    settings = {"plm_rsh_agent": agent, "btl": "self,tcp", "btl_tcp_if_include": network,
                "oob_tcp_if_include": network, "mpi_yield_when_idle": "1"}
    words = [w for name, value in settings.items() for w in ("--mca", name, value)]
    return ["ip", "netns", "exec", first, "unshare", "--uts", "sh", "-c",
            f'hostname {first}; exec "$@"', "sh", command[0], *words,
            "--host", "10.77.0.1:8,10.77.0.2:8", "--map-by", "node", *command[1:]]


def unused_port():
    """A port outside the range from which the kernel chooses ports."""
    for port in range(20_000 + os.getpid() * 61 % 10_000, 32_000):
        with socket.socket() as server, contextlib.suppress(OSError):
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("127.0.0.1", port))
            return port
    sys.exit("no port is free")


def start(options, folder, ranks, how, source, calls):
    address = {"socket": f"{folder}/socket", "tcp": f"tcp://127.0.0.1:{unused_port()}/random"}
    tool = [options.tool, address.get(options.way, "mpi")]
    rest = ["60000", how, source, folder, *calls]
    if options.way in address:
        return [subprocess.Popen([*tool, str(r), str(ranks), *rest], stdout=subprocess.PIPE,
                                 stdin=subprocess.DEVNULL, text=True) for r in range(ranks)]
    command = [options.mpirun, "-n", str(ranks), "--oversubscribe"]
    if os.getuid() == 0:
        command.append("--allow-run-as-root")
    if options.way == "machines":
        return [subprocess.Popen([*command_on_machines(options, command), *tool, "0", str(ranks),
                                  *rest], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                 text=True)]
    # Without a network, and many to a processor.
    quiet = {"OMPI_MCA_btl": "self,vader", "OMPI_MCA_mpi_yield_when_idle": "1",
             "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
    return [subprocess.Popen([*command, *tool, "0", str(ranks), *rest], stdout=subprocess.PIPE,
                             stdin=subprocess.DEVNULL, text=True, env={**os.environ, **quiet})]


def check(options, rng, ranks, how):
    with tempfile.TemporaryDirectory() as folder:
        source = f"{folder}/model.safetensors"
        # Between machines, MPI sends many bytes in another way than few.
        large_rows = 60_000 if options.way == "machines" else 3000
        tensors = make_checkpoint(rng, source, large_rows)
        calls = random_calls(rng, tensors, ranks)
        read = []
        for one in start(options, folder, ranks, how, source, calls):
            said = one.communicate(timeout=100)[0].split("\n")
            if one.returncode != 0:
                sys.exit(f"a rank failed: {said}")
            read += [int(line) for line in said if line.isdigit()]
        for rank, (i, call) in itertools.product(range(ranks), enumerate(calls)):
            with open(f"{folder}/{rank}.{i}", "rb") as file:
                head, got = file.readline().decode().split(), file.read()
            want = wanted(call, tensors, rank, ranks)
            if want is None:
                assert head == ["nothing"], (rank, call, head)
                continue
            assert head == [want[0], *map(str, want[1])], (rank, call, head)
            assert got == want[2], f"rank {rank} of {ranks}: {call} differs"
        # Within 1 %, and the blocks at both ends of each rank's part.
        size = sum(len(t[2]) for t in tensors.values()) + bytes_read_again(calls, tensors)
        assert len(read) == ranks, read
        if how == "divided":
            assert sum(read) <= 1.01 * size + ranks * 2 * 4096 + 4096 * len(tensors), (read, size)
        return len(calls)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("way", choices=["socket", "tcp", "mpi", "machines"])
    parser.add_argument("--mpirun", default="")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.way in ("mpi", "machines") and not os.path.exists(options.mpirun):
        print("skipped: this ringload was built without MPI, or there is no mpirun")
        sys.exit(77)
    with contextlib.ExitStack() as kept:
        if options.way == "machines":
            options.machines = kept.enter_context(two_machines())
        run(options)


def run(options):
    rng = random.Random(options.seed)
    calls = 0
    for round_number in range(options.rounds):
        ranks = 4 if round_number == 0 else rng.randint(1, 6)
        how = "own" if round_number % 4 == 3 else "divided"
        calls += check(options, rng, ranks, how)
    oracle = "NumPy" if numpy is not None else "Python"
    print(f"{options.rounds} checkpoints, {calls} calls: as {oracle} has it")


if __name__ == "__main__":
    main()
