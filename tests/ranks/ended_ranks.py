#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ended_ranks.py RANKS_TOOL socket|tcp|mpi|machines [--mpirun PROGRAM] [--runs N] [--seed N]
   [--slack SECONDS] [--kinds KINDS]

Four processes are in a call, of which rank 0 has not come yet. One of them is killed, or its call
is cancelled, or it fails: every other says so, within the time limit, and none is left behind. By
MPI, mpirun is told not to end the others when one dies (--enable-recovery); without that it is seen
to end them. `machines` is MPI over TCP between two network namespaces. There, mpirun always ends the
others of a killed rank, because Open MPI 4.1.4 sometimes loops for ever in MPI_Testany when a TCP
connection was reset. Exit code 77: mpirun, or MPI in the tool, is not there, or no namespace can be
made.

Then N times: one of four processes that load without a pause is killed or stopped at a random
moment, or has another file, a damaged one or none. Every other process says why it ends, within
the time limit. With Open MPI 4.1.4, a rank rarely loops in MPI_Testany for ever, because another
was stopped while it wrote to a queue in shared memory. Such runs are counted, and few are allowed.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from random_ranks import command_on_machines, two_machines

RANKS = 4
TIMEOUT_S = 2


def make_checkpoint(path, size=1 << 20):
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

    def __init__(self, options, folder, calls, recovery=True, waits=True):
        self.folder = folder
        self.by_mpirun = options.way in ("mpi", "machines")
        for rank in range(RANKS):
            open(f"{folder}/said.{rank}", "w").close()
            os.makedirs(f"{folder}/of.{rank}", exist_ok=True)
            source = f"{folder}/of.{rank}/model.safetensors"
            if not os.path.lexists(source):
                os.symlink(f"{folder}/model.safetensors", source)
        # Rank 0 reads its standard input to the end before it comes.
        shell = (f'r=${{OMPI_COMM_WORLD_RANK:-$3}}; echo $$ > {folder}/pid.$r; cd {folder}/of.$r; '
                 f'exec "$@" > {folder}/said.$r')
        tool = ["sh", "-c", shell, options.tool, options.tool]
        rest = [str(RANKS), str(TIMEOUT_S * 1000), "divided", "model.safetensors", folder]
        if not self.by_mpirun:
            tcp = options.way == "tcp"
            address = f"tcp://127.0.0.1:{unused_port()}" if tcp else f"{folder}/socket"
            self.started = [
                subprocess.Popen([*tool, address, str(r), *rest,
                                  *(["wait"] if waits and r == 0 else []), *calls],
                                 stdin=subprocess.PIPE if r == 0 else subprocess.DEVNULL)
                for r in range(RANKS)]
            return
        command = [options.mpirun, "-n", str(RANKS), "--oversubscribe"]
        command += ["--enable-recovery"] if recovery else []
        if os.getuid() == 0:
            command.append("--allow-run-as-root")
        quiet = {"OMPI_MCA_btl": "self,vader", "OMPI_MCA_mpi_yield_when_idle": "1",
                 "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
        if options.way == "machines":
            command, quiet = command_on_machines(options, command), {}
        self.started = [subprocess.Popen([*command, *tool, "mpi", "0", *rest,
                                          *(["wait"] if waits else []), *calls],
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
        self.wait_until(lambda: not any(self.is_running(r) for r in range(RANKS)))
        for process in self.started:
            try:
                process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                # mpirun itself may wait for ever for a process that was killed.
                if not self.by_mpirun:
                    raise
                process.kill()
                process.wait()

    def is_running(self, rank):
        """A process that is dead, and whose end its parent has not yet read, is not running."""
        try:
            with open(f"/proc/{self.pid(rank)}/stat") as file:
                return file.read().rsplit(") ", 1)[1][0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False


def times_run(pid):
    """Of each thread: how often it has waited, and its clock ticks in programs and in the kernel."""
    found = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as status:
            waits = next(line for line in status if line.startswith("voluntary_ctxt_switches"))
        with open(f"/proc/{pid}/task/{task}/stat") as stat:
            ticks = stat.read().rsplit(") ", 1)[1].split()[11:13]
        found[task] = int(waits.split()[1]), int(ticks[0]), int(ticks[1])
    return found


def is_in_mpi(ranks, rank):
    """A thread of the rank runs without a wait and without the kernel.

    Each wait of ringload's group sleeps between two calls of MPI.
    """
    try:
        before = times_run(ranks.pid(rank))
        time.sleep(3)
        after = times_run(ranks.pid(rank))
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(task in before and waits == before[task][0] and system == before[task][2]
               and user > before[task][1] + 10 for task, (waits, user, system) in after.items())


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
    check_mpirun_ends_all(ranks, 2)


def check_mpirun_ends_all(ranks, killed):
    """Returns the seconds until mpirun has ended."""
    os.kill(ranks.pid(killed), signal.SIGKILL)
    begin = time.monotonic()
    assert ranks.started[0].wait(timeout=60) != 0
    seconds = time.monotonic() - begin
    ranks.finish()
    return seconds


def has_ended_with_reason(ranks, rank):
    """The reason names a rank. MPI does not always know which."""
    lines = [line for line in ranks.said(rank) if line not in ("", "ready")]
    return bool(lines) and lines[0].startswith(("rank ", "another rank: "))


def check_ended_at_random(options, folder, kind, choose):
    ended = choose.randrange(RANKS)
    by_mpirun = options.way == "machines" and kind == "killed"
    ranks = Ranks(options, folder, ["repeat,100000,model,t0,t1,t2,t3"], recovery=not by_mpirun,
                  waits=False)
    ranks.wait_until_ready()
    time.sleep(choose.uniform(0, 0.2))
    if by_mpirun:
        return check_mpirun_ends_all(ranks, ended)
    os.kill(ranks.pid(ended), signal.SIGKILL if kind == "killed" else signal.SIGSTOP)
    others = [r for r in range(RANKS) if r != ended]
    begin = time.monotonic()
    until = begin + TIMEOUT_S + options.slack
    while not all(has_ended_with_reason(ranks, r) for r in others) and time.monotonic() < until:
        time.sleep(0.01)
    seconds = time.monotonic() - begin
    silent = [r for r in others if not has_ended_with_reason(ranks, r)]
    stuck = [r for r in silent if ranks.by_mpirun and is_in_mpi(ranks, r)]
    assert silent == stuck, [ranks.said(r) for r in range(RANKS)]
    for rank in [*stuck, *([ended] if kind == "stopped" else [])]:
        os.kill(ranks.pid(rank), signal.SIGKILL)
    ranks.finish()
    if stuck:
        return None
    assert seconds < TIMEOUT_S + options.slack, seconds
    if not ranks.by_mpirun:
        for rank in others:
            assert ranks.said(rank)[1].startswith(f"rank {ended}: "), (rank, ranks.said(rank))
    return seconds


def check_wrong_file(options, folder, kind, choose):
    ended = choose.randrange(RANKS)
    os.makedirs(f"{folder}/of.{ended}")
    source = f"{folder}/of.{ended}/model.safetensors"
    if kind == "other":
        make_checkpoint(source, 4096)
    elif kind == "damaged":
        with open(source, "wb") as file:
            file.write(struct.pack("<Q", 1 << 50) + os.urandom(1000))
    else:
        os.symlink(f"{folder}/nothing", source)
    begin = time.monotonic()
    ranks = Ranks(options, folder, ["model,t0,t1,t2,t3"], waits=False)
    ranks.wait_until(lambda: all(ranks.has_ended(r) for r in range(RANKS)))
    seconds = time.monotonic() - begin
    ranks.finish()
    assert seconds < TIMEOUT_S + options.slack, seconds
    for rank in range(RANKS):
        said = ranks.said(rank)
        assert not said[-2].isdigit() and (rank == ended or "rank" in said[-2]), (rank, said)
    return seconds


def run_at_random(options):
    choose = random.Random(options.seed)
    kinds = {"killed": check_ended_at_random, "stopped": check_ended_at_random,
             "other": check_wrong_file, "damaged": check_wrong_file, "missing": check_wrong_file}
    for kind in options.kinds.split(","):
        check = kinds[kind]
        seconds, stuck = [], 0
        for _ in range(options.runs):
            with tempfile.TemporaryDirectory() as folder:
                # Between machines, a part is more than the pieces of a ring that are in flight.
                size = 1 << 21 if options.way == "machines" else 1 << 16
                make_checkpoint(f"{folder}/model.safetensors", size)
                taken = check(options, folder, kind, choose)
                stuck += taken is None
                seconds += [] if taken is None else [taken]
        if stuck:
            print(f"{kind}: {stuck} more runs, in which MPI_Testany did not return", flush=True)
        # A rare fault of MPI, not of ringload.
        assert stuck <= 1 + options.runs // 50, stuck
        if seconds:
            seconds.sort()
            print(f"{kind}: {len(seconds)} runs, all right; {seconds[len(seconds) // 2]:.3f} s until "
                  f"the last rank's reason at the median, {seconds[-1]:.3f} s at most", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("way", choices=["socket", "tcp", "mpi", "machines"])
    parser.add_argument("--mpirun", default="")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slack", type=float, default=4, help="seconds beyond the time limit, for "
                        "the answers of ranks that are asked for whom they wait, and a busy machine")
    parser.add_argument("--kinds", default="killed,stopped,other,damaged,missing")
    options = parser.parse_args()
    options.tool = os.path.abspath(options.tool)
    if options.way in ("mpi", "machines") and not os.path.exists(options.mpirun):
        print("skipped: this ringload was built without MPI, or there is no mpirun")
        sys.exit(77)
    with contextlib.ExitStack() as made:
        if options.way == "machines":
            options.machines = made.enter_context(two_machines())
        run(options)


def run(options):
    checks = [check_cancelled, check_failed]
    if options.way != "machines":
        checks.append(check_killed)
    if options.way in ("mpi", "machines"):
        checks.append(check_killed_by_mpirun)
    for check in checks:
        with tempfile.TemporaryDirectory() as folder:
            make_checkpoint(f"{folder}/model.safetensors")
            check(options, folder)
            print(f"{check.__name__}: right", flush=True)
    run_at_random(options)


if __name__ == "__main__":
    main()
