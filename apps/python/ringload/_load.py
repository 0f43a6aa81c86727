# SPDX-License-Identifier: Apache-2.0
"""Loads in flight, whose tensors are used as they land."""

from ._operation import one_step
from ._tensor_info import TensorInfo


class Load:
    """A load in flight: its tensors can be used as they land. Dropping it cancels it."""

    def __init__(self, loading, engine):
        self._loading = loading
        self._engine = engine

    def tensor(self, name):
        """An operation that gives that tensor, whose reads go first from now on."""
        return one_step(lambda: self._loading.tensor(name))

    def next(self):
        """An operation that gives the next tensor that has landed; None after the last."""
        return one_step(self._loading.next)

    def finish(self):
        """An operation that gives the Model when all has landed. Cancelling it cancels the load."""
        return one_step(self._loading.finish)

    def infos(self):
        """What is being loaded."""
        return [TensorInfo(fields) for fields in self._loading.infos()]

    @property
    def stats(self):
        """How far it is: bytes_arrived of bytes_total, and the rest of what a load counts."""
        return self._loading.progress()

    @property
    def stats_of_files(self):
        """What has been read of each file, and how fast: a dictionary for each."""
        return self._loading.progress_of_files()

    def cancel(self):
        self._loading.cancel()

    def __iter__(self):
        return self

    def __next__(self):
        tensor = self.next().result()
        if tensor is None:
            raise StopIteration
        return tensor.name, tensor

    def __aiter__(self):
        return self

    async def __anext__(self):
        tensor = await self.next()
        if tensor is None:
            raise StopAsyncIteration
        return tensor.name, tensor


class Stream:
    """(name, tensor) pairs as they land, by `for` or `async for`.

    With a window their memory comes back as they are dropped, and the next are read into it; what
    then finds no room, because too much is held, raises MemoryError.
    """

    def __init__(self, starting):
        self._starting = starting
        self._load = None

    @property
    def stats(self):
        return self._load.stats if self._load is not None else None

    def cancel(self):
        (self._load or self._starting).cancel()

    def __iter__(self):
        return self

    def __next__(self):
        if self._load is None:
            self._load = self._starting.result()
        return next(self._load)

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self._load is None:
            self._load = await self._starting
        return await self._load.__anext__()
