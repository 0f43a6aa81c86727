# SPDX-License-Identifier: Apache-2.0
"""Operations as futures of concurrent.futures: one thread of Python's settles them all."""

import concurrent.futures
import os
import select
import threading

from . import _core


class Future(concurrent.futures.Future):
    """Settled when its operation ends."""

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

    def _run(self):
        while True:
            select.select([self._waker.fileno()], [], [])
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
