# SPDX-License-Identifier: Apache-2.0
"""Operations that end early: cancelled, interrupted, dropped, or used by their own functions."""

import asyncio
import gc
import threading
import time
import weakref

import pytest

import ringload
from ringload._operation import Operation


def run(main):
    return asyncio.run(asyncio.wait_for(main, 60))


def in_time(function):
    """Calls the function in a thread, and returns its result. Fails if it does not return."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    thread.join(20)
    assert results, "the function did not return"
    return results[0]


def test_progress_function_uses_its_operation(sample):
    with ringload.Loader() as loader:
        ends = []
        operation = loader.load(sample, progress=lambda stats: ends.append(operation.done()))
        model = in_time(operation.result)
        assert ends and not any(ends) and operation.done()

        operation = loader.load(sample, progress=lambda stats: operation.cancel())
        assert len(in_time(operation.result)) == len(model)  # The load had ended.

        operation = loader.load(sample, progress=lambda stats: operation.result())
        with pytest.raises(RuntimeError, match="cannot wait"):
            raise in_time(operation.exception)


def test_cancelled_iteration_loses_no_tensor(sample, arrays):
    async def main():
        names = []
        async with ringload.Loader() as loader:
            load = await loader.start(sample)
            while True:
                task = asyncio.ensure_future(anext_of(load))
                await asyncio.sleep(0)
                time.sleep(0.005)  # The tensor arrives, and the loop has not noticed.
                task.cancel()
                try:
                    names.append((await task)[0])
                except asyncio.CancelledError:
                    continue
                except StopAsyncIteration:
                    return names

    async def anext_of(load):
        return await load.__anext__()

    assert sorted(run(main())) == sorted(arrays)


def test_interrupted_iteration_loses_no_tensor(sample, arrays, monkeypatch):
    def interrupted(operation):
        raise KeyboardInterrupt

    with ringload.Loader() as loader:
        load = loader.start(sample).result()
        with monkeypatch.context() as patched:
            patched.setattr(Operation, "result", interrupted)
            with pytest.raises(KeyboardInterrupt):
                next(load)
        assert sorted(name for name, _ in load) == sorted(arrays)


def test_cancelled_task_waits_for_a_step_that_begins_late(sample, large):
    async def main():
        async with ringload.Loader() as loader:
            engine = loader._engine

            def steps():
                opened = yield engine.open(sample, {})
                assert len(opened) > 0
                return (yield engine.load(large, None, {}))

            operation = Operation(steps())
            task = asyncio.ensure_future(operation)
            await asyncio.sleep(0)
            time.sleep(0.2)  # The first step ends, and the loop has not noticed.
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return operation.done()

    assert run(main())


def test_cancelled_fill_begins_no_write(sample, arrays):
    class Engine:
        def __init__(self, engine):
            self.open = engine.open

        def fill(self, *arguments):
            raise AssertionError("a write has begun")

    with ringload.Loader() as loader:
        engine, loader._engine = loader._engine, Engine(loader._engine)
        operation = loader.fill(sample, {"i32": arrays["i32"].copy()})
        time.sleep(0.2)
        operation.cancel()
        with pytest.raises(ringload.CancelledError):
            operation.result()
        loader._engine = engine


def test_dropped_operation_with_progress_is_freed_at_once(large):
    with ringload.Loader() as loader:
        operation = loader.load(large, progress=lambda stats: None)
        freed = weakref.ref(operation)
        gc.disable()
        try:
            del operation
            assert freed() is None
        finally:
            gc.enable()


def test_type_of_an_operation_has_its_result():
    assert ringload.Operation[ringload.Model].__origin__ is ringload.Operation
