# SPDX-License-Identifier: Apache-2.0
"""Ranks that load one checkpoint together: threads of a process, or processes of a machine."""

import atexit
import os
import weakref

from . import _core
from ._names import path_text
from ._operation import begin_end, let_waiting_return, one_step
from ._tensor_info import TensorInfo

_joining = weakref.WeakSet()  # Operations that no Loader's end would end.
os.register_at_fork(after_in_child=_joining.clear)


def _stop_joining():
    begin_end()
    all_joining = list(_joining)
    for one in all_joining:
        one.cancel()
    for one in all_joining:
        one.exception(timeout=5)  # Until its socket is removed.
    let_waiting_return(1)


def join_group(socket, rank, ranks, timeout=300.0):
    """A Group of processes of this machine and user, which meet at a Unix socket; waits for all.

    Rank 0 makes the socket, at a path that is free, and removes it when all have come. A rank that
    does not come, or is waited for later on, within `timeout` seconds is a RankFailedError. 1 to
    127 ranks. Ctrl-C ends the waiting, and removes the socket.
    """
    joining = join_group_async(socket, rank, ranks, timeout)
    try:
        return joining.result()
    except KeyboardInterrupt:
        joining.cancel()
        joining.exception()  # Until its thread has ended.
        raise


def join_group_async(socket, rank, ranks, timeout=300.0):
    """join_group() as an operation that gives the Group: to be awaited, or cancelled."""
    if not _joining:
        atexit.unregister(_stop_joining)
        atexit.register(_stop_joining)
    joining = one_step(lambda: _core.join_group(path_text(socket), rank, ranks, timeout))
    _joining.add(joining)
    return joining


def make_thread_ranks(ranks, timeout=300.0):
    """A list of Groups, one for each of so many threads of this process."""
    return _core.make_thread_ranks(ranks, timeout)


class GroupLoad:
    """What this rank has of a load. Its methods give operations of Tensors, on the host.

    All ranks make the same calls in the same order, also those that a call gives nothing. A call
    that is not the same on all of them, or is wrong on all, raises on all of them and changes
    nothing. What else fails on one rank, is cancelled or dropped there, ends the group: the others
    raise RankFailedError, with its reason.
    """

    def __init__(self, loading, engine):
        self._loading = loading
        self._engine = engine

    def tensor(self, name):
        """The whole tensor, on every rank."""
        return one_step(lambda: self._loading.tensor(name))

    def shard(self, name, dim):
        """The block of this rank along `dim`: ceil(size / ranks) long, the last may be shorter."""
        return one_step(lambda: self._loading.shard(name, dim))

    def fused(self, as_name, names, dim):
        """The blocks of this rank of several tensors, behind each other along `dim`."""
        names = list(names)
        return one_step(lambda: self._loading.fused(as_name, names, dim))

    def push(self, name, to):
        """The whole tensor on the rank `to`; None on all others."""
        return one_step(lambda: self._loading.push(name, to))

    def infos(self):
        """What the checkpoint holds."""
        return [TensorInfo(fields) for fields in self._loading.infos()]

    @property
    def stats(self):
        """Of what this rank has read."""
        return self._loading.stats()
