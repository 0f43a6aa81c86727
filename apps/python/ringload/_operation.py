# SPDX-License-Identifier: Apache-2.0
"""Operations, which can be awaited, waited for, or converted to a concurrent.futures.Future.

An operation is a generator of steps. Each yielded step is an operation of the engine. The waiting
thread or task sends the step's result back, and so the next step begins. Only Python threads run
this code.
"""

import os
import threading
import time
import types
import weakref

from . import _core
from ._errors import CancelledError, make
from ._process_bound import ProcessBound
from ._progress import reports_nothing

tick_seconds = 0.1
_waiting = []  # One event for each thread that waits, without the GIL, for an operation.
os.register_at_fork(after_in_child=_waiting.clear)


_interpreter_ends = threading.Event()


def begin_end():
    """Called when the interpreter ends, before operations in flight are cancelled."""
    _interpreter_ends.set()


def let_waiting_return(seconds):
    """Waits at most `seconds` for the threads whose operations have ended.

    Called at the end of the interpreter, because a thread never gets the GIL after that end.
    """
    until = time.monotonic() + seconds
    while _waiting and time.monotonic() < until:
        time.sleep(0.001)


class Operation(ProcessBound):
    """An operation that has begun. Dropping the object cancels it.

    `await operation` and `operation.result()` return the same result, or raise the same exception,
    each time. Cancelling a task that awaits the operation cancels the operation.

    asyncio.ensure_future(), gather() and wait_for() take an operation. asyncio.create_task() and
    TaskGroup.create_task() take coroutines only: give them an `async def` that awaits it.
    """

    _instead = "send what its result gives, such as .numpy() of tensors"

    __slots__ = ("_steps", "_begun", "_lock", "_advancing", "_over", "_value", "_failure",
                 "_cancelled", "_tick", "_ticking", "__weakref__")  # fmt: skip

    def __init__(self, steps, ticking=False):
        self._steps = steps
        self._begun = None
        self._lock = threading.RLock()
        self._advancing = None  # The thread that runs a step.
        self._over = False
        self._value = None
        self._failure = None
        self._cancelled = False
        self._tick = None  # Set by a step if the operation is `ticking`.
        self._ticking = ticking
        self._step(lambda: next(steps))
        if self._failure is not None:
            raise self._failure

    # `Operation[Model]` is a type, as in the stub of the package.
    __class_getitem__ = classmethod(types.GenericAlias)

    def _step(self, go):
        try:
            self._begun = go()
            if self._cancelled:
                self._begun.cancel()
        except StopIteration as done:
            self._end(done.value, None)
        except BaseException as failure:
            self._end(None, failure.with_traceback(None))

    def _end(self, value, failure):
        self._value = value
        self._failure = failure
        self._over = True
        self._steps = self._begun = self._tick = None

    def _advance(self, begun):
        """Continues after the step `begun`, unless another thread has already continued.

        Returns False if this thread is already running a step. Steps call functions of the caller,
        and a signal handler interrupts a step. Both may use the operation.
        """
        with self._lock:
            if self._advancing is not None:
                return False
            self._advancing = threading.get_ident()
            try:
                self._continue_after(begun)
            finally:
                self._advancing = None
        return True

    def _continue_after(self, begun):
        if self._over or self._begun is not begun:
            return
        try:
            result = begun.take()
        except Exception as failure:
            raised = failure.with_traceback(None)
            self._step(lambda: self._steps.throw(raised))
        else:
            self._step(lambda: self._steps.send(result))

    def done(self):
        """Returns True if the operation has ended, with or without success."""
        while not self._over:
            begun = self._begun
            if begun is None or not begun.ended() or not self._advance(begun):
                return self._over
        return True

    def cancel(self):
        """Requests its end. It ends when neither kernel nor device uses its memory."""
        # Without the lock, which may be held by a step that calls a function of the caller. The
        # next step checks the flag after it has begun.
        self._cancelled = True
        begun = self._begun
        if begun is not None:
            begun.cancel()

    def _require_not_cancelled(self):
        """Raises CancelledError if the end was requested. Called before memory is written."""
        if self._cancelled:
            raise make("cancelled", 0, "the operation was cancelled", "")

    def result(self, timeout=None):
        """Waits for the end, without the GIL. Ctrl-C interrupts only the wait, not the operation.

        Raises TimeoutError after `timeout` seconds.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not self.done():
            if self._advancing == threading.get_ident():
                raise RuntimeError("a function that the operation calls cannot wait for its end")
            begun, tick = self._begun, self._tick
            if begun is None:
                continue
            seconds = None if until is None else max(0.0, until - time.monotonic())
            if tick is not None:
                seconds = tick_seconds if seconds is None else min(seconds, tick_seconds)
            _waiting.append(None)
            try:
                ended = begun.wait(seconds)
            finally:
                _waiting.pop()
            if ended:
                continue
            if tick is not None:
                tick()
            if until is not None and time.monotonic() >= until and not begun.ended():
                raise TimeoutError(f"the operation has not ended after {timeout} s")
        return self._outcome()

    def exception(self, timeout=None):
        """Waits for the end. Returns the exception of the operation, or None."""
        try:
            self.result(timeout)
        except BaseException as failure:
            if failure is self._failure:
                return failure
            raise
        return None

    def future(self):
        """Returns a concurrent.futures.Future. Cancelling the future cancels the operation."""
        from . import _futures

        return _futures.future_of(self)

    def _outcome(self):
        if self._failure is None:
            return self._value
        if isinstance(self._failure, CancelledError) and _ends_with_interpreter():
            raise SystemExit  # Ends a daemon thread without a traceback.
        raise self._failure.with_traceback(None)  # Otherwise, each call extends the traceback.

    def __await__(self):
        import asyncio

        loop = asyncio.get_running_loop()
        waker = _waker_of(loop)
        ticker = _Ticker(self, loop) if self._ticking else None
        try:
            while not self.done():
                begun = self._begun
                if begun is None:
                    continue
                try:
                    yield from waker.ended(begun)
                except asyncio.CancelledError:
                    self.cancel()
                    while not self.done():  # A step may begin after the cancellation.
                        begun = self._begun
                        if begun is not None:
                            yield from _ended_at_last(waker, begun, asyncio.CancelledError)
                    raise
                except BaseException:
                    self.cancel()
                    raise
        finally:
            if ticker is not None:
                ticker.stop()
        if isinstance(self._failure, CancelledError):
            raise asyncio.CancelledError(str(self._failure))
        return self._outcome()


def _ends_with_interpreter():
    return _interpreter_ends.is_set() and threading.current_thread().daemon


class _Ticker:
    """Calls the progress function of an operation in its event loop, while a task awaits it."""

    def __init__(self, operation, loop):
        self._operation = operation
        self._loop = loop
        self._timer = loop.call_later(tick_seconds, self._tick)

    def _tick(self):
        tick = self._operation._tick
        if tick is not None:
            tick()
        self._timer = self._loop.call_later(tick_seconds, self._tick)

    def stop(self):
        self._timer.cancel()
        self._operation = None


def _ended_at_last(waker, begun, cancelled):
    """Awaits the end, even if the task is cancelled meanwhile."""
    while not begun.ended():
        try:
            yield from waker.ended(begun)
        except cancelled:
            pass


class _LoopWaker:
    """Wakes the tasks of one event loop through an eventfd, which the loop polls."""

    def __init__(self, loop):
        self._waker = _core.Waker()
        self._waiting = {}
        self._tokens = 0
        self._loop = weakref.ref(loop)
        loop.add_reader(self._waker.fileno(), self._drain)

    def ended(self, begun):
        self._tokens += 1
        token = self._tokens
        future = self._loop().create_future()
        self._waiting[token] = future
        begun.subscribe(self._waker, token)
        try:
            yield from future
        finally:
            self._waiting.pop(token, None)

    def _drain(self):
        for token in self._waker.drain():
            future = self._waiting.pop(token, None)
            if future is not None and not future.done():
                future.set_result(None)


_wakers = weakref.WeakKeyDictionary()


def _waker_of(loop):
    waker = _wakers.get(loop)
    if waker is None:
        waker = _wakers[loop] = _LoopWaker(loop)
    return waker


def waited_for(operation):
    """Returns the result. If the wait is interrupted, the operation is cancelled and has ended."""
    try:
        return operation.result()
    except BaseException:
        operation.cancel()
        while not operation.done():
            begun = operation._begun
            if begun is not None:
                begun.wait(tick_seconds)
        raise


def one_step(begin):
    """Returns an operation of one step."""

    def steps():
        return (yield begin())

    return Operation(steps())


def reported(steps, report):
    """Returns an operation that calls `report` repeatedly while a caller waits for it."""
    if reports_nothing(report):
        return Operation(steps)
    operation = Operation(steps, ticking=True)
    operation._tick = report
    return operation
