# SPDX-License-Identifier: Apache-2.0
"""Loads in progress, whose tensors can be used as they arrive."""

import collections

from ._operation import one_step
from ._process_bound import ProcessBound
from ._tensor_info import TensorInfo


class Load(ProcessBound):
    """A load in progress.

    Its tensors can be used as they arrive. Dropping the object cancels it.
    """

    _instead = "send .numpy() of its tensors"

    def __init__(self, loading, engine):
        self._loading = loading
        self._engine = engine
        self._interrupted = collections.deque()  # Operations of interrupted iterations.

    def tensor(self, name):
        """Returns an operation that returns the tensor. Its reads get priority from now on."""
        return one_step(lambda: self._loading.tensor(name))

    def next(self):
        """Returns an operation that returns the next tensor to arrive, or None after the last."""
        return one_step(self._loading.next)

    def finish(self):
        """Returns an operation that returns the complete Model. Cancelling it cancels the load."""
        return one_step(self._loading.finish)

    def infos(self):
        """The descriptions of the tensors that are being loaded."""
        return [TensorInfo(fields) for fields in self._loading.infos()]

    @property
    def stats(self):
        """The progress, bytes_arrived of bytes_total, and the other counts of a load."""
        return self._loading.progress()

    @property
    def stats_of_files(self):
        """The bytes and the read rate of each file: a dictionary for each."""
        return self._loading.progress_of_files()

    def cancel(self):
        self._loading.cancel()

    def __iter__(self):
        return self

    def __next__(self):
        operation = self._next_operation()
        try:
            tensor = operation.result()
        except BaseException:
            self._interrupted.append(operation)
            raise
        if tensor is None:
            raise StopIteration
        return tensor.name, tensor

    def _next_operation(self):
        """Returns the operation of the next tensor.

        If an iteration was interrupted, its tensor may have arrived. It is then the next tensor.
        """
        while True:
            try:
                operation = self._interrupted.popleft()
            except IndexError:
                return self.next()
            may_continue = not operation.done() and not operation._cancelled
            if may_continue or operation.exception() is None:
                return operation

    def __aiter__(self):
        return self

    async def __anext__(self):
        operation = self._next_operation()
        try:
            tensor = await operation
        except BaseException:
            self._interrupted.append(operation)
            raise
        if tensor is None:
            raise StopAsyncIteration
        return tensor.name, tensor


class Stream(ProcessBound):
    """Yields (name, tensor) pairs as tensors arrive, by `for` or `async for`.

    With a window, the memory of dropped tensors is used for the next tensors. MemoryError is raised
    if the held tensors leave too little space for the next tensor.
    """

    _instead = "send .numpy() of its tensors"

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
