#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ended_ranks.py RANKS_TOOL socket|tcp|mpi [--mpirun PROGRAM]

Four processes are in a call, of which rank 0 has not come yet. One of them is killed, or its call
is cancelled, or it fails: every other says so, within the time limit, and none is left behind. By
MPI, mpirun is told not to end the others when one dies (--enable-recovery); without that it is seen
to end them. Exit code 77: mpirun, or MPI in the tool, is not there.
"""

import argparse
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

RANKS = 4
TIMEOUT_S = 2


def make_checkpoint(path):
    size = 1 << 20
    header = {f"t{i}": {"dtype": "U8", "shape": [size], "data_offsets": [i * size, (i + 1) * size]}
              for i in range(4)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + os.urandom(4 * size))


def unused_port():
    """A port outside the range from which the kernel chooses ports."""
    for port in range(20_000 + os.getpid() * 61 % 10_000, 32_000):
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                server.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    sys.exit("no port is free")


class Ranks:
    """The processes. Each has a file with its process id, and one of what it says."""

    def __init__(self, options, folder, calls, recovery=True):
        self.folder = folder
        self.by_mpirun = options.way == "mpi"
        for rank in range(RANKS):
            open(f"{folder}/said.{rank}", "w").close()
        # Rank 0 reads its standard input to the end before it comes.
        shell = (f'r=${{OMPI_COMM_WORLD_RANK:-$3}}; echo $$ > {folder}/pid.$r; '
                 f'exec "$@" > {folder}/said.$r')
        tool = ["sh", "-c", shell, options.tool, options.tool]
        rest = [str(RANKS), str(TIMEOUT_S * 1000), "divided", f"{folder}/model.safetensors", folder]
        if options.way != "mpi":
            tcp = options.way == "tcp"
            address = f"tcp://127.0.0.1:{unused_port()}" if tcp else f"{folder}/socket"
            self.started = [
                subprocess.Popen([*tool, address, str(r), *rest,
                                  *(["wait"] if r == 0 else []), *calls],
                                 stdin=subprocess.PIPE if r == 0 else subprocess.DEVNULL)
                for r in range(RANKS)]
            return
        command = [options.mpirun, "-n", str(RANKS), "--oversubscribe"]
        command += ["--enable-recovery"] if recovery else []
        if os.getuid() == 0:
            command.append("--allow-run-as-root")
        quiet = {"OMPI_MCA_btl": "self,vader", "OMPI_MCA_mpi_yield_when_idle": "1",
                 "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
        self.started = [subprocess.Popen([*command, *tool, "mpi", "0", *rest, "wait", *calls],
                                         stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL, env={**os.environ, **quiet})]

    def said(self, rank):
        with open(f"{self.folder}/said.{rank}") as file:
            return file.read().split("\n")

    def has_ended(self, rank):
        """It has said more than that it is ready, or something else."""
        return self.said(rank)[-2:-1] not in ([], ["ready"])

    def pid(self, rank):
        with open(f"{self.folder}/pid.{rank}") as file:
            return int(file.read())

    def wait_until(self, what, seconds=60):
        end = time.monotonic() + seconds
        while not what():
            if time.monotonic() > end:
                sys.exit(f"it did not happen: {[self.said(r) for r in range(RANKS)]}")
            time.sleep(0.01)

    def wait_until_ready(self):
        self.wait_until(lambda: all("ready" in self.said(r) for r in range(RANKS)))

    def finish(self):
        """Rank 0 comes now. Nothing is left behind."""
        self.started[0].stdin.close()
        for one in self.started:
            try:
                one.wait(timeout=30)
            except subprocess.TimeoutExpired:
                # mpirun itself may wait for ever for a process that was killed.
                if not self.by_mpirun:
                    raise
                one.kill()
                one.wait()
        # What mpirun has killed may end a moment after it.
        self.wait_until(lambda: not any(os.path.exists(f"/proc/{self.pid(r)}")
                                        for r in range(RANKS)))


def check_cancelled(options, folder):
    ranks = Ranks(options, folder, ["cancel,1,tensor,t1"])
    ranks.wait_until(lambda: ranks.has_ended(1) and ranks.has_ended(2))
    ranks.finish()
    # Ranks 2 and 3 may hear of it before they are ready.
    for rank in range(RANKS):
        why = "group_load: it was cancelled" if rank == 1 else "rank 1: its call was cancelled"
        assert ranks.said(rank)[-2].startswith(why), (rank, ranks.said(rank))


def check_failed(options, folder):
    ranks = Ranks(options, folder, ["fail,1"])
    ranks.wait_until(lambda: all(ranks.has_ended(r) for r in (1, 2, 3)))
    ranks.finish()
    for rank in range(RANKS):
        why = "it gives up" if rank == 1 else "rank 1: it gives up"
        assert ranks.said(rank)[-2] == why, (rank, ranks.said(rank))


def check_killed(options, folder):
    ranks = Ranks(options, folder, ["tensor,t1", "tensor,t2"])
    ranks.wait_until_ready()
    os.kill(ranks.pid(2), signal.SIGKILL)
    survivors = [r for r in range(RANKS) if r != 2]
    ranks.wait_until(lambda: all(len(ranks.said(r)) > 2 for r in survivors if r != 0))
    ranks.finish()
    for rank in survivors:
        assert ranks.said(rank)[1].startswith("rank "), (rank, ranks.said(rank))


def check_killed_by_mpirun(options, folder):
    ranks = Ranks(options, folder, ["tensor,t1", "tensor,t2"], recovery=False)
    ranks.wait_until_ready()
    os.kill(ranks.pid(2), signal.SIGKILL)
    assert ranks.started[0].wait(timeout=60) != 0
    ranks.finish()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("way", choices=["socket", "tcp", "mpi"])
    parser.add_argument("--mpirun", default="")
    options = parser.parse_args()
    if options.way == "mpi" and not os.path.exists(options.mpirun):
        print("skipped: this ringload was built without MPI, or there is no mpirun")
        sys.exit(77)
    checks = [check_cancelled, check_failed, check_killed]
    if options.way == "mpi":
        checks.append(check_killed_by_mpirun)
    for check in checks:
        with tempfile.TemporaryDirectory() as folder:
            make_checkpoint(f"{folder}/model.safetensors")
            check(options, folder)
            print(f"{check.__name__}: right")


if __name__ == "__main__":
    main()
