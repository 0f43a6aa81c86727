#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""machines.py BENCH_MACHINE_RANKS RINGLOAD [OPTION...]: machines that all need a whole checkpoint.

Each machine is a network namespace, whose link to a switch carries --mbyte MB/s in each direction
(a token bucket, tc tbf). The checkpoint is on a web server (nginx), whose link is not limited. In
turns:

  alone  one machine loads the checkpoint without a group
  tcp    all machines load it together, in a group over TCP, by one call of model_async()
  tcp-each  the same by a call of tensor_async() for each tensor, which waits for the one before
  mpi    the same with MPI, over TCP
  torch  the same with ringload.torch.load() and torch.distributed (Gloo); needs --python, a Python
         with torch and ringload
  torch-broadcast   no load: rank 0 has as many bytes, and passes them on by one broadcast of Gloo
  torch-all-gather  no load: each rank has an equal part of as many bytes, and Gloo's all_gather
                    passes the parts on

Prints for each way: the time from the first rank's beginning to the last rank's end; the bytes that
the server's link has sent, headers of TCP included; the bytes of its HTTP responses; and the
processor time of a machine, from the start of its process to the end. Processor time of the
simulated network and of MPI's ranks is not included, and Python's imports are. Needs root. Exit code 77: something is
missing.
"""

import argparse
import contextlib
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import typing

NETWORK = "10.78.0."
ORIGIN = 100
PORT = 28080
MEETING_PORT = 29500
SENT_LOG = "sent.log"

# Starts Open MPI's daemon on the machine that is the second word.
AGENT = """#!/bin/sh
machine=$1
shift
exec ip netns exec {prefix}$(echo $machine | cut -d. -f4) unshare --uts sh -c \
"hostname {prefix}$(echo $machine | cut -d. -f4); TMPDIR={folder}/$machine; export TMPDIR; mkdir -p \\$TMPDIR; $*"
"""

# The namespaces of the network hide no memory from the ranks, so the transport is named.
TORCH_RANK = """
import datetime, sys, time
import torch
from torch import distributed

rank, ranks, source, address, way, size = sys.argv[1:]
rank, ranks, size = int(rank), int(ranks), int(size)
if way == "torch":
    import ringload.torch
torch.set_num_threads(1)
distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=ranks,
                               timeout=datetime.timedelta(seconds=120))
group = distributed.new_group(list(range(ranks)))
content = torch.zeros(0 if way == "torch" else -(-size // ranks) * ranks, dtype=torch.uint8)
distributed.barrier(group)
begin = time.monotonic()
if way == "torch":
    found = ringload.torch.load(source, process_group=group, transport="group")
    size = sum(t.numel() * t.element_size() for t in found.values())
elif way == "torch-broadcast":
    distributed.broadcast(content, 0, group=group)
else:
    parts = list(content.chunk(ranks))
    distributed.all_gather(parts, parts[rank], group=group)
print(begin, time.monotonic(), size, flush=True)
distributed.barrier(group)
distributed.destroy_process_group()
"""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def command(*words):
    subprocess.run(words, check=True, capture_output=True)


class Machines:
    """The namespaces: a switch, an origin, and one for each rank."""

    def __init__(self, count, mbyte, folder, made):
        self.prefix = f"rl{os.getpid()}-"
        self.folder = folder
        self.add_namespace("switch", made)
        switch = self.prefix + "switch"
        command("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        command("ip", "-n", switch, "link", "set", "br0", "up")
        self.add_machine(ORIGIN, None, made)
        for number in range(1, count + 1):
            self.add_machine(number, mbyte, made)

    def add_namespace(self, name, made):
        command("ip", "netns", "add", self.prefix + name)
        made.callback(command, "ip", "netns", "del", self.prefix + name)
        command("ip", "-n", self.prefix + name, "link", "set", "lo", "up")

    def add_machine(self, number, mbyte, made):
        self.add_namespace(str(number), made)
        space, switch = self.prefix + str(number), self.prefix + "switch"
        port = f"port{number}"
        command("ip", "-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth0",
                "netns", space)
        command("ip", "-n", switch, "link", "set", port, "master", "br0", "up")
        command("ip", "-n", space, "addr", "add", f"{NETWORK}{number}/24", "dev", "eth0")
        command("ip", "-n", space, "link", "set", "eth0", "up")
        if mbyte is None:
            return
        for where, device in ((space, "eth0"), (switch, port)):
            command("tc", "-n", where, "qdisc", "add", "dev", device, "root", "tbf", "rate",
                    f"{mbyte * 8}mbit", "burst", "256kb", "latency", "50ms")

    def start(self, number, words, **options):
        return subprocess.Popen(["ip", "netns", "exec", self.prefix + str(number), *words],
                                stdout=subprocess.PIPE, text=True, **options)

    def bytes_sent_by_origin(self):
        path = "/sys/class/net/eth0/statistics/tx_bytes"
        origin = self.prefix + str(ORIGIN)
        return int(subprocess.check_output(["ip", "netns", "exec", origin, "cat", path]))


def start_server(machines, folder, made):
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        skip("no nginx (Debian: nginx-light)")
    user = "user root;" if os.getuid() == 0 else ""
    (folder / "nginx.conf").write_text(f"""
{user}
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
worker_processes 1;
events {{ worker_connections 1024; }}
http {{
  log_format sent '$bytes_sent';
  access_log {folder}/{SENT_LOG} sent;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 100000;
  server {{ listen {NETWORK}{ORIGIN}:{PORT}; root {folder}; }}
}}
""")
    server = machines.start(ORIGIN, [nginx, "-c", f"{folder}/nginx.conf", "-e", f"{folder}/error.log"])
    made.callback(server.wait)
    made.callback(server.terminate)
    time.sleep(0.5)


def start_mpi(options, machines, folder, url):
    agent = folder / "agent"
    agent.write_text(AGENT.format(prefix=machines.prefix, folder=folder))
    agent.chmod(0o755)
    network = NETWORK + "0/24"
    settings = {"plm_rsh_agent": str(agent), "btl": "self,tcp", "btl_tcp_if_include": network,
                "oob_tcp_if_include": network, "mpi_yield_when_idle": "1"}
    words = [word for name, value in settings.items() for word in ("--mca", name, value)]
    hosts = ",".join(f"{NETWORK}{r + 1}:1" for r in range(options.ranks))
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    first = machines.prefix + "1"
    return [machines.start(1, ["unshare", "--uts", "sh", "-c", f'hostname {first}; exec "$@"', "sh",
                               shutil.which("mpirun"), "-n", str(options.ranks), *root, *words,
                               "--host", hosts, "--map-by", "node", options.program, "mpi", url])]


def start(way, options, machines, folder, url, size):
    """The processes of a run."""
    address = f"tcp://{NETWORK}1:{MEETING_PORT}"
    if way == "alone":
        return [machines.start(1, [options.program, "alone", url])]
    if way == "mpi":
        return start_mpi(options, machines, folder, url)
    started = []
    for rank in range(options.ranks):
        if way.startswith("torch"):
            words = [options.python, "-c", TORCH_RANK, str(rank), str(options.ranks), url, address,
                     way, str(size)]
            environment = {**os.environ, "GLOO_SOCKET_IFNAME": "eth0"}
            started.append(machines.start(rank + 1, words, env=environment))
        else:
            words = [options.program, address, url, "--rank", str(rank), "--ranks",
                     str(options.ranks), *(["--each"] if way == "tcp-each" else [])]
            started.append(machines.start(rank + 1, words))
    return started


class Run(typing.NamedTuple):
    seconds: float
    link_bytes: int  # That the origin's link has sent.
    http_bytes: int  # Of the origin's HTTP responses.
    user: float  # Seconds of all processes.
    system: float


def run(way, options, machines, folder, url, size):
    """One run as a Run."""
    log = folder / SENT_LOG
    log.write_text("")
    sent, used = machines.bytes_sent_by_origin(), resource.getrusage(resource.RUSAGE_CHILDREN)
    processes = start(way, options, machines, folder, url, size)
    lines = [line.split() for process in processes for line in process.communicate()[0].splitlines()]
    results = [line for line in lines if len(line) == 3]
    expected = 1 if way == "alone" else options.ranks
    if any(process.returncode for process in processes) or len(results) != expected:
        sys.exit(f"{way}: a rank failed: {lines}")
    if any(int(line[2]) != size for line in results):
        sys.exit(f"{way}: a rank has other bytes: {results}, expected {size}")
    seconds = max(float(line[1]) for line in results) - min(float(line[0]) for line in results)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Run(seconds, machines.bytes_sent_by_origin() - sent,
               sum(int(line) for line in log.read_text().split()),
               after.ru_utime - used.ru_utime, after.ru_stime - used.ru_stime)


def print_table(found, size, options):
    base = statistics.median(run.seconds for run in found["alone"])
    mbyte = options.mbyte
    print(f"link: {mbyte} MB/s; checkpoint: {size:,} bytes, {size / mbyte / 1e6:.2f} s of a link\n")
    print("| way | s, median | least .. most | time / alone | sent by the link / checkpoint "
          "| HTTP / checkpoint | user + system s of a machine |")
    print("|---|---|---|---|---|---|---|")
    for way, runs in found.items():
        median = Run(*(statistics.median(values) for values in zip(*runs)))
        count = 1 if way == "alone" else options.ranks
        print(f"| {way} | {median.seconds:.2f} | {min(runs).seconds:.2f} .. {max(runs).seconds:.2f} "
              f"| {median.seconds / base:.2f} | {median.link_bytes / size:.3f} "
              f"| {median.http_bytes / size:.3f} | {median.user / count:.2f} + "
              f"{median.system / count:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("ringload")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--mbyte", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", default="tcp,mpi")
    parser.add_argument("--python", help="a Python with torch and ringload")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    if os.getuid() != 0:
        skip("network namespaces take root")
    ways = ["alone", *options.ways.split(",")]
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as made:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        try:
            machines = Machines(options.ranks, options.mbyte, folder, made)
        except (OSError, subprocess.CalledProcessError) as failure:
            skip(f"no network namespaces with token buckets: {getattr(failure, 'stderr', failure)}")
        model = folder / "model.safetensors"
        command(options.ringload, "make", str(model), "--bytes", f"{options.mib}M", "--no-progress")
        start_server(machines, folder, made)
        url = f"http://{NETWORK}{ORIGIN}:{PORT}/{model.name}"
        size = tensor_bytes(model)
        found = {way: [] for way in ways}
        for _ in range(options.rounds):
            for way in ways:
                found[way].append(run(way, options, machines, folder, url, size))
                print(f"# {way}: {found[way][-1].seconds:.2f} s", flush=True)
        print_table(found, size, options)


def tensor_bytes(path):
    with open(path, "rb") as file:
        header = int.from_bytes(file.read(8), "little")
    return path.stat().st_size - 8 - header


if __name__ == "__main__":
    main()
