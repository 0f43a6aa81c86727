# SPDX-License-Identifier: Apache-2.0
"""Operations that are awaited, waited for, made futures, and cancelled."""

import asyncio
import concurrent.futures
import subprocess
import sys
import threading

import pytest
from conftest import same

import ringload


def run(main):
    return asyncio.run(asyncio.wait_for(main, 60))


def test_awaited_load(sample, arrays):
    async def main():
        async with ringload.Loader() as loader:
            return await loader.load(sample)

    model = run(main())
    assert same(model["f32"].numpy(), arrays["f32"])


def test_many_loads_at_once_on_one_loader(sample):
    async def main():
        async with ringload.Loader() as loader:
            return await asyncio.gather(*(loader.load(sample) for _ in range(50)))

    assert [len(model) for model in run(main())] == [len(ringload.load(sample))] * 50


def test_loops_one_after_the_other_and_beside_each_other(sample):
    async def main(loader):
        return len(await loader.load(sample))

    with ringload.Loader() as loader:
        counts = [run(main(loader)) for _ in range(3)]
        threads = []
        for _ in range(4):
            threads.append(threading.Thread(target=lambda: counts.append(run(main(loader)))))
            threads[-1].start()
        for thread in threads:
            thread.join()
    assert len(set(counts)) == 1 and len(counts) == 7


def test_future_tells_of_progress_while_it_runs(stalled):
    server = stalled()
    twice = threading.Event()
    told = []

    def tell(stats):
        told.append(stats)
        if len(told) == 2:
            twice.set()

    with ringload.Loader(remote=True) as loader:
        future = loader.load(server.address, progress=tell).future()
        assert twice.wait(60), "it told of nothing"
        assert not future.done()
        future.cancel()


def test_future_outlives_a_progress_that_raises(sample, large, monkeypatch):
    failures = []
    monkeypatch.setattr(threading, "excepthook", failures.append)

    def tell(stats):
        raise ZeroDivisionError

    with ringload.Loader() as loader:
        with pytest.raises(ZeroDivisionError):  # It is told at the end, too.
            loader.load(large, progress=tell).future().result(60)
        assert len(loader.load(sample).future().result(60)) > 0
    assert all(one.exc_type is ZeroDivisionError for one in failures)


def test_ensure_future_and_task_groups_take_operations(sample):
    async def main():
        async with ringload.Loader() as loader:
            async def load():
                return await loader.load(sample)

            tasks = [asyncio.ensure_future(loader.load(sample)), asyncio.create_task(load())]
            return [len(model) for model in await asyncio.gather(*tasks)]

    assert run(main()) == [len(ringload.load(sample))] * 2


def test_operation_gives_its_result_as_often_as_it_is_asked(sample):
    async def main():
        async with ringload.Loader() as loader:
            operation = loader.load(sample)
            first = await operation
            assert await operation is first
            assert operation.result() is first
            assert operation.done() and operation.exception() is None
            both = await asyncio.gather(operation, operation)
            assert both == [first, first]

    run(main())


def test_tensor_and_the_rest_of_a_load_in_flight(sample, arrays):
    async def main():
        async with ringload.Loader() as loader:
            load = await loader.start(sample)
            assert {info.name for info in load.infos()} == set(arrays)
            tensor = await load.tensor("model.layers.1.weight")
            assert same(tensor.numpy(), arrays["model.layers.1.weight"])
            names = [name async for name, _ in load]
            assert sorted(names) == sorted(arrays)
            assert len(await load.finish()) == len(arrays)
            with pytest.raises(KeyError):
                await load.tensor("no")

    run(main())


def test_stream_through_a_window_holds_no_more_than_that(large):
    async def main():
        peak = 0
        async with ringload.Loader() as loader:
            names = []
            async for name, tensor in loader.stream(large, window="64MiB"):
                names.append(name)
                assert tensor.nbytes == 8 << 20
                peak = max(peak, loader.memory["tensor_bytes"])
                del tensor
            assert names == [f"t{i:02}" for i in range(64)]
        assert 0 < peak <= 64 << 20

    run(main())


def test_window_that_is_held_is_a_MemoryError(large):
    held = []
    with pytest.raises(MemoryError):
        for pair in ringload.stream(large, window="32MiB"):
            held.append(pair)
    assert len(held) < 5


def test_stream_that_is_left_is_cancelled(large):
    with ringload.Loader() as loader:
        for _name, _tensor in loader.stream(large):
            break
        del _tensor
    for name, _tensor in ringload.stream(large):
        assert name
        break


def test_failure_is_raised_where_it_is_awaited(tmp_path):
    async def main():
        async with ringload.Loader() as loader:
            operation = loader.load(tmp_path / "no")
            for _ in range(2):
                with pytest.raises(FileNotFoundError):
                    await operation
            assert isinstance(operation.exception(), FileNotFoundError)

    run(main())


# --- cancelling
#
# What has to be in flight when it is cancelled reads from a server that does not answer. Of local
# files a load may have ended before: both are right then, and nothing stays.


async def in_flight(server):
    assert await asyncio.to_thread(server.asked.wait, 30)


def test_cancelling_the_task_cancels_the_load(stalled):
    server = stalled()

    async def main():
        async with ringload.Loader(remote=True) as loader:
            operation = loader.load(server.address)

            async def waiting():
                await operation

            task = asyncio.ensure_future(waiting())
            await in_flight(server)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert operation.done()
            assert loader.memory["tensor_bytes"] == 0

    run(main())


def test_timeout_cancels_the_load(stalled):
    server = stalled()

    async def main():
        async with ringload.Loader(remote=True) as loader:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(loader.load(server.address), 0.001)
            assert loader.memory["tensor_bytes"] == 0

    run(main())


@pytest.mark.parametrize("turns", [0, 1, 5, 50])
def test_local_load_that_is_cancelled_leaves_nothing(large, turns):
    async def main():
        async with ringload.Loader() as loader:
            task = asyncio.ensure_future(load(loader))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            try:
                assert len(await task) == 64
            except asyncio.CancelledError:
                pass
            del task
            assert loader.memory["tensor_bytes"] == 0

    async def load(loader):
        return await loader.load(large)

    run(main())


def test_cancelled_operation_says_so(stalled):
    with ringload.Loader(remote=True) as loader:
        server = stalled()
        operation = loader.load(server.address)
        assert server.asked.wait(30)
        operation.cancel()
        with pytest.raises(ringload.CancelledError):
            operation.result()

    async def main():
        async with ringload.Loader(remote=True) as loader:
            server = stalled()
            operation = loader.load(server.address)
            await in_flight(server)
            operation.cancel()
            with pytest.raises(asyncio.CancelledError):
                await operation

    run(main())


def test_closing_the_loader_cancels_its_loads(stalled):
    server = stalled()
    loader = ringload.Loader(remote=True)
    operation = loader.load(server.address)
    assert server.asked.wait(30)
    loader.close()
    with pytest.raises(ringload.CancelledError):
        operation.result()
    with pytest.raises(RuntimeError, match="closed"):
        loader.load(server.address)
    loader.close()


def test_cancelling_the_wait_for_one_tensor_leaves_the_load(large):
    async def main():
        async with ringload.Loader() as loader:
            load = await loader.start(large)
            waiting = load.tensor("t63")
            waiting.cancel()
            try:
                await waiting
            except asyncio.CancelledError:
                pass
            assert len(await load.finish()) == 64

    run(main())


def test_fill_is_over_when_its_cancelling_is(large, stalled):
    import numpy

    server = stalled(64 << 20)  # Of the 512 MiB, that much comes.

    async def main():
        into = {f"t{i:02}": numpy.ones(8 << 20, numpy.uint8) for i in range(16)}
        async with ringload.Loader(remote=True) as loader:
            filling = asyncio.ensure_future(fill(loader, into))
            await in_flight(server)
            filling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await filling
            before = {name: array.tobytes() for name, array in into.items()}
            await loader.load(large, select="t00")
            assert before == {name: array.tobytes() for name, array in into.items()}

    async def fill(loader, into):
        await loader.fill(server.address, into)

    run(main())


# --- waiting


def test_result_waits_no_longer_than_it_is_told(stalled):
    with ringload.Loader(remote=True) as loader:
        operation = loader.load(stalled().address)
        for seconds in (0, 0.001):
            with pytest.raises(TimeoutError):
                operation.result(seconds)
            assert not operation.done()


def test_future_of_concurrent_futures(sample, tmp_path):
    with ringload.Loader() as loader:
        futures = [loader.load(sample).future() for _ in range(8)]
        done, waiting = concurrent.futures.wait(futures, 60)
        assert len(done) == 8 and not waiting
        assert all(len(future.result()) for future in done)
        failed = loader.load(tmp_path / "no").future()
        assert isinstance(failed.exception(60), FileNotFoundError)
        opened = loader.open(sample).future().result(60)
        assert "f32" in opened


def test_a_future_is_completed_in_a_process_with_many_descriptors(sample):
    """The thread that completes futures may have descriptors above 1023."""
    script = f"""
import os, resource, sys
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
if hard != resource.RLIM_INFINITY and hard < 2048:
    sys.exit(77)
resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
for _ in range(1100):
    os.dup(0)
import ringload
with ringload.Loader() as loader:
    print(len(loader.load({str(sample)!r}).future().result(60)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("RLIMIT_NOFILE is too small")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0 and done.stderr == ""


def test_cancelled_future(stalled):
    with ringload.Loader(remote=True) as loader:
        future = loader.load(stalled().address).future()
        assert future.cancel()
        assert future.cancelled()


def test_threads_may_share_an_operation(sample):
    with ringload.Loader() as loader:
        operation = loader.load(sample)
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(operation.result())) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8 and all(one is found[0] for one in found)


def test_result_that_was_taken_when_a_signal_came_can_be_taken_again(sample):
    """Between the taking and the keeping of a result a signal's handler may raise."""
    with ringload.Loader() as loader:
        operation = loader.load(sample)
        begun = operation._begun
        assert begun.wait()
        assert begun.take() is begun.take()
        assert "f32" in operation.result()
