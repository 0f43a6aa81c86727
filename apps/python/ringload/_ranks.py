# SPDX-License-Identifier: Apache-2.0
"""Ranks that load one checkpoint together: threads, or processes of one or several machines."""

import atexit
import operator
import os
import weakref

from . import _core
from ._convert import indexed
from ._names import path_text
from ._operation import begin_end, let_waiting_return, one_step
from ._process_bound import ProcessBound
from ._tensor_info import TensorInfo

_joining = weakref.WeakSet()  # Operations that do not end with a Loader.
os.register_at_fork(after_in_child=_joining.clear)


def _stop_joining():
    begin_end()
    all_joining = list(_joining)
    for one in all_joining:
        one.cancel()
    for one in all_joining:
        one.exception(timeout=5)  # Waits until its socket is removed.
    let_waiting_return(1)


def _until_exit(begin):
    """Returns an operation of one step, which ends with the interpreter at the latest."""
    if not _joining:
        atexit.unregister(_stop_joining)
        atexit.register(_stop_joining)
    joining = one_step(begin)
    _joining.add(joining)
    return joining


def _result_of(starting):
    """Waits for a Group. Ctrl-C ends the waiting."""
    try:
        return starting.result()
    except KeyboardInterrupt:
        starting.cancel()
        starting.exception()  # Waits until its thread has ended.
        raise


def join_group(address, rank, ranks, timeout=300.0):
    """Returns a Group of 1 to 127 processes that meet at `address`. Waits for all ranks.

    If `address` is a path, the ranks are processes of this user on this machine. Rank 0 creates a
    Unix socket at the path, which must be free, and removes it when all ranks have joined.

    If `address` is "tcp://host:port" or "tcp://host:port/token", the ranks are processes on one or
    several machines. Rank 0 listens at the host and port, and refuses ranks with another token. The
    connections are neither encrypted nor authenticated: the network must be trusted.

    If a rank does not join, or does not answer later, within `timeout` seconds, the other ranks
    raise RankFailedError. Ctrl-C ends the waiting, and removes the socket.
    """
    return _result_of(join_group_async(address, rank, ranks, timeout))


def join_group_async(address, rank, ranks, timeout=300.0):
    """Like join_group(), but returns an operation that returns the Group."""
    return _until_exit(lambda: _core.join_group(path_text(address), rank, ranks, timeout))


def nccl_group(hosts, device="cuda", *, stream=None, library="libnccl.so.2", timeout=300.0):
    """Returns a Group that exchanges the memory of GPUs with NCCL. Waits for all ranks.

    All ranks of the Group `hosts` must call this function together, each with a GPU of its own.
    Afterwards only the new Group uses `hosts`, and Loader.group_load() refuses `hosts`. A
    Loader("cuda:1") loads with a group of the device "cuda:1", and all tensors are on that GPU.
    "cuda" means the current GPU of PyTorch, or "cuda:0" in a program that has not imported PyTorch.

    `stream` is the CUDA stream on which NCCL runs: None for the default stream, a number, or an
    object with an attribute `cuda_stream`, as PyTorch has. The stream must exist as long as the
    Group. `library` is the name or the path of NCCL 2.14 or later, which PyTorch brings too.

    If a rank does not answer within `timeout` seconds, the other ranks raise RankFailedError. If
    NCCL cannot be loaded, this rank raises UsageError, and the other ranks raise RankFailedError.
    This function has been tested with a replacement library for NCCL, but not on GPUs.
    """
    return _result_of(
        nccl_group_async(hosts, device, stream=stream, library=library, timeout=timeout)
    )


def nccl_group_async(hosts, device="cuda", *, stream=None, library="libnccl.so.2", timeout=300.0):
    """Like nccl_group(), but returns an operation that returns the Group."""
    number = getattr(stream, "cuda_stream", stream)
    number = 0 if number is None else operator.index(number)
    on = indexed(device)  # Another thread may have another current GPU.
    return _until_exit(
        lambda: _core.nccl_group(hosts, on, number, os.fsdecode(library), timeout)
    )


def make_thread_ranks(ranks, timeout=300.0):
    """Returns a list of Groups, one for each of `ranks` threads of this process."""
    return _core.make_thread_ranks(ranks, timeout)


class GroupLoad(ProcessBound):
    """The part of a load on this rank. Its methods return operations that return Tensors.

    The tensors are in the memory of the loader's device.

    All ranks make the same calls in the same order, even if a call returns nothing on some ranks. A
    call that differs between ranks, or is invalid on all ranks, raises on all ranks and changes
    nothing. Any other failure, and a call that is cancelled or dropped, ends the group: the other
    ranks raise RankFailedError with the reason.
    """

    _instead = "send .numpy() of the tensors that it gives"

    def __init__(self, loading, engine):
        self._loading = loading
        self._engine = engine

    def tensor(self, name):
        """Returns the whole tensor on every rank."""
        return one_step(lambda: self._loading.tensor(name))

    def shard(self, name, dim):
        """Returns this rank's block along `dim`: ceil(size / ranks) long, or less at the end."""
        return one_step(lambda: self._loading.shard(name, dim))

    def fused(self, as_name, names, dim):
        """Returns this rank's blocks of several tensors, concatenated along `dim`."""
        names = list(names)
        return one_step(lambda: self._loading.fused(as_name, names, dim))

    def push(self, name, to):
        """Returns the whole tensor on the rank `to`, and None on all other ranks."""
        return one_step(lambda: self._loading.push(name, to))

    def model(self, names=None):
        """Returns a Model of whole tensors on every rank: of the tensors `names`, or of all tensors.

        One call for many tensors is faster than a call of tensor() for each.
        """
        if isinstance(names, str):
            raise TypeError("names is a str: expected a list of names, or None for all tensors")
        names = None if names is None else list(names)
        return one_step(lambda: self._loading.model(names))

    def infos(self):
        """The descriptions of the tensors of the checkpoint."""
        return [TensorInfo(fields) for fields in self._loading.infos()]

    @property
    def stats(self):
        """The statistics of the reads of this rank."""
        return self._loading.stats()
