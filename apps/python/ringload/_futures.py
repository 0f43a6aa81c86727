# SPDX-License-Identifier: Apache-2.0
"""Operations as concurrent.futures.Future objects. One Python thread completes all of them."""

import concurrent.futures
import os
import select
import sys
import threading

from . import _core
from ._operation import tick_seconds


class Future(concurrent.futures.Future):
    """Completed when its operation ends."""

    def __init__(self, operation):
        super().__init__()
        self._operation = operation

    def cancel(self):
        self._operation.cancel()
        return super().cancel()


class _Settler:
    def __init__(self):
        self._waker = _core.Waker()
        self._lock = threading.Lock()
        self._waiting = {}
        self._tokens = 0
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.made_in = os.getpid()
        threading.Thread(target=self._run, name="ringload futures", daemon=True).start()

    def settle_later(self, future):
        operation = future._operation
        while not operation.done():
            begun = operation._begun
            if begun is None:
                continue
            with self._lock:
                self._tokens += 1
                token = self._tokens
                self._waiting[token] = future
            begun.subscribe(self._waker, token)
            if operation._ticking:
                os.eventfd_write(self._wake, 1)  # The thread may wait without a time limit.
            return
        self._settle(future)

    @staticmethod
    def _settle(future):
        if not future.set_running_or_notify_cancel():
            return
        failure = future._operation.exception()
        if failure is not None:
            future.set_exception(failure)
        else:
            future.set_result(future._operation.result())

    def _tick(self):
        """Reports the progress of operations. Returns True if operations with progress remain."""
        with self._lock:
            ticking = [one._operation for one in self._waiting.values() if one._operation._ticking]
        for operation in ticking:
            tick = operation._tick
            try:
                if tick is not None:
                    tick()
            except Exception:  # Reported like an exception of a thread. The others continue.
                failure = (*sys.exc_info(), threading.current_thread())
                threading.excepthook(threading.ExceptHookArgs(failure))
                operation._ticking = False
        return bool(ticking)

    def _run(self):
        waited = select.poll()  # select() refuses descriptors above 1023.
        waited.register(self._waker.fileno(), select.POLLIN)
        waited.register(self._wake, select.POLLIN)
        while True:
            waited.poll(tick_seconds * 1000 if self._tick() else None)
            try:
                os.eventfd_read(self._wake)
            except BlockingIOError:
                pass
            for token in self._waker.drain():
                with self._lock:
                    future = self._waiting.pop(token)
                self.settle_later(future)
                del future


_settler = None
_settler_lock = threading.Lock()


def future_of(operation):
    global _settler
    with _settler_lock:
        if _settler is None or _settler.made_in != os.getpid():
            _settler = _Settler()
    future = Future(operation)
    _settler.settle_later(future)
    return future
