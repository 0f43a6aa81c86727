# SPDX-License-Identifier: Apache-2.0
"""Models that processes share: Keeper and attach."""

import asyncio
import os
import re
import subprocess
import sys
import threading
import time

import pytest
from conftest import same

import ringload


@pytest.fixture
def socket(tmp_path):
    # A socket's path is short, and a test's folder may be deep.
    os.symlink(tmp_path, link := f"/tmp/ringload-{os.getpid()}")
    yield f"{link}/keeper"
    os.unlink(link)


def test_attached_model_is_the_kept_one_and_outlives_its_keeper(sample, arrays, socket):
    with ringload.Loader("shared") as loader, ringload.Keeper(socket) as keeper:
        model = loader.load(sample).result()
        keeper.publish("sample", model)
        attached = ringload.attach(socket, "sample")
        (served,) = keeper.models()
        assert served["name"] == "sample" and served["version"] == served["attached"] == 1
        assert served["nbytes"] >= sum(array.nbytes for array in arrays.values())
    del model
    assert set(attached) == set(arrays)
    for name, tensor in attached.items():
        assert tensor.read_only and tensor.device == "cpu"
        assert same(tensor.numpy(), arrays[name]), name
        assert tensor.nbytes == 0 or not tensor.numpy().flags.writeable


def test_another_process_attaches_and_is_counted_until_it_ends(sample, socket):
    program = (
        "import sys, ringload\n"
        "model = ringload.attach(sys.argv[1], 'sample')\n"
        "print(bytes(model['scalar']).hex(), flush=True)\n"
        "sys.stdin.readline()\n"
    )
    with ringload.Loader("shared") as loader, ringload.Keeper(socket) as keeper:
        keeper.publish("sample", loader.load(sample).result())
        with subprocess.Popen(
            [sys.executable, "-c", program, socket],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout.readline() == "07000000\n"
            assert keeper.models()[0]["attached"] == 1
            assert keeper.withdraw("sample") and not keeper.withdraw("sample")
            with pytest.raises(FileNotFoundError, match="sample"):
                ringload.attach(socket, "sample")
            child.communicate("\n")


def test_keeper_refuses_what_cannot_be_shared(sample, socket):
    with pytest.raises(FileNotFoundError):
        ringload.attach(socket, "sample")
    with ringload.Keeper(socket) as keeper:
        with pytest.raises(ringload.UsageError) as refused:
            keeper.publish("sample", ringload.load(sample))
        assert refused.value.kind == "device_unavailable"
        with pytest.raises(OSError):
            ringload.Keeper(socket)
        with pytest.raises(ValueError):
            ringload.attach(socket, "sample", timeout=0)
    with pytest.raises(RuntimeError, match="closed"):
        keeper.models()


def test_keeper_of_the_parent_is_refused_in_a_child(socket):
    with ringload.Keeper(socket) as keeper:
        child = os.fork()
        if child == 0:
            try:
                keeper.models()
            except RuntimeError as refusal:
                os._exit(0 if "forked" in str(refusal) else 2)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert keeper.models() == []


def test_metrics_name_the_models_and_the_loader(socket, sample):
    with ringload.Loader("shared") as loader, ringload.Keeper(socket) as keeper:
        keeper.publish('a "b"', loader.load(sample).result())
        text = keeper.metrics()
        assert "ringload_keeper_models 1\n" in text
        assert 'ringload_keeper_model_version{model="a \\"b\\""} 1\n' in text
        metrics = loader.metrics("x")
        assert 'ringload_loader_tensor_allocations{loader="x"} 1\n' in metrics
        threads = int(re.search(r'^ringload_loader_threads{loader="x"} (\d+)$', metrics, re.M)[1])
        assert 5 <= threads <= len(os.listdir("/proc/self/task"))
    with pytest.raises(RuntimeError, match="closed"):
        loader.metrics()


def test_closed_while_a_model_is_published(large, socket):
    with ringload.Loader("shared") as loader:
        model = loader.load(large).result()
        for pause in (0, 0.001, 0.004, 0.016):
            keeper = ringload.Keeper(socket)
            thread = threading.Thread(target=keeper.publish, args=("large", model))
            thread.start()
            time.sleep(pause)
            keeper.close()
            thread.join(60)
            assert not thread.is_alive()


def test_versions_are_learned_of_and_attached(sample, socket):
    with ringload.Loader("shared") as loader, ringload.Keeper(socket) as keeper:
        model = loader.load(sample).result()
        assert model.kept_version is None
        with pytest.raises(FileNotFoundError):
            ringload.served_version(socket, "sample")
        waiting = ringload.attach_next(socket, "sample")
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.01)
        keeper.publish("sample", model)
        first = waiting.result(timeout=60)
        assert first.kept_version == ringload.served_version(socket, "sample")
        assert first.kept_version.number == 1 and first.kept_version.keeper != 0
        assert ringload.attach(socket, "sample").kept_version == first.kept_version

        waiting = ringload.attach_next(socket, "sample", first)
        keeper.publish("sample", loader.load(sample).result())
        second = waiting.result(timeout=60)
        assert second.kept_version.number == 2
        assert second.kept_version != first.kept_version
        assert hash(second.kept_version) != hash(first.kept_version)
        assert ringload.served_version(socket, "sample") == second.kept_version

        waiting = ringload.attach_next(socket, "sample", second.kept_version)
        waiting.cancel()
        with pytest.raises(ringload.CancelledError):
            waiting.result(timeout=60)
        waiting = ringload.attach_next(socket, "sample", second)
    with pytest.raises(OSError):
        waiting.result(timeout=60)


def test_versions_are_awaited(sample, socket):
    async def read_versions(keeper, model):
        numbers = []
        async for version in ringload.attach_versions(socket, "sample"):
            numbers.append(version.kept_version.number)
            if len(numbers) == 3:
                return numbers
            keeper.publish("sample", model)

    with ringload.Loader("shared") as loader, ringload.Keeper(socket) as keeper:
        model = loader.load(sample).result()
        keeper.publish("sample", model)
        assert asyncio.run(read_versions(keeper, model)) == [1, 2, 3]


def test_program_ends_while_it_waits_for_a_version(socket):
    program = "import sys, ringload; waiting = ringload.attach_next(sys.argv[1], 'm')"
    with ringload.Keeper(socket):
        ended = subprocess.run([sys.executable, "-c", program, socket], timeout=60, check=False)
        assert ended.returncode == 0
