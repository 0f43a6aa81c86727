# SPDX-License-Identifier: Apache-2.0
"""Ranks that load one checkpoint together, as threads and as processes."""

import asyncio
import concurrent.futures
import contextlib
import multiprocessing
import os
import shutil
import signal
import socket as socket_module
import subprocess
import sys
import threading

import numpy
import pytest
from conftest import same, write_safetensors

import ringload

patience = 60  # In seconds; what is waited for comes much sooner, or never.


@pytest.fixture
def checkpoint(tmp_path):
    random = numpy.random.default_rng(7)
    arrays = {
        "wide": random.random((50, 333), numpy.float32),
        "q": random.random((10, 8), numpy.float32),
        "k": random.random((4, 8), numpy.float32),
        "norm": random.random(77, numpy.float32),
    }
    return write_safetensors(tmp_path / "ranks.safetensors", arrays), arrays


def on_threads(ranks, work, timeout=patience):
    """What `work` gives, or raises, on each rank."""
    groups = ringload.make_thread_ranks(ranks, timeout=timeout)
    with concurrent.futures.ThreadPoolExecutor(ranks) as pool:
        running = [pool.submit(work, groups.pop(0)) for _ in range(ranks)]
        return [one.exception(patience) or one.result() for one in running]


def block(array, rank, ranks, dim):
    each = -(-array.shape[dim] // ranks)
    index = [slice(None)] * array.ndim
    index[dim] = slice(rank * each, (rank + 1) * each)
    return array[tuple(index)]


def all_calls(group, path, **how):
    """Every call once, as arrays."""
    with ringload.Loader() as loader:
        load = loader.group_load(group, path, **how).result()
        found = {
            "whole": load.tensor("norm").result(),
            "rows": load.shard("wide", 0).result(),
            "columns": load.shard("wide", dim=1).result(),
            "fused": load.fused("qk", ["q", "k"], 0).result(),
            "pushed": load.push("q", 1).result(),
            "named in a model": load.model(["q", "wide"]).result()["q"],
        }
        model = load.model().result()
        found |= {f"{name} of the model": model[name] for name in model}
        assert load.stats["bytes"] > 0
        return {name: None if one is None else one.numpy() for name, one in found.items()}


def expected(arrays, rank, ranks):
    return {
        "whole": arrays["norm"],
        "rows": block(arrays["wide"], rank, ranks, 0),
        "columns": block(arrays["wide"], rank, ranks, 1),
        "fused": numpy.concatenate([block(arrays[name], rank, ranks, 0) for name in ("q", "k")]),
        "pushed": arrays["q"] if rank == 1 else None,
        "named in a model": arrays["q"],
        **{f"{name} of the model": array for name, array in arrays.items()},
    }


def check_calls(found, arrays, rank, ranks):
    assert found.keys() == expected(arrays, rank, ranks).keys()
    for name, array in expected(arrays, rank, ranks).items():
        assert found[name] is None if array is None else same(found[name], array), (rank, name)


@pytest.mark.parametrize("reading", ["divided", "own"])
def test_threads_get_tensors_shards_and_fused_tensors(checkpoint, reading):
    path, arrays = checkpoint
    all_found = on_threads(3, lambda group: all_calls(group, path, reading=reading))
    for rank, found in enumerate(all_found):
        check_calls(found, arrays, rank, 3)


def test_a_rank_knows_its_group_and_what_the_checkpoint_holds(checkpoint):
    path, arrays = checkpoint

    def work(group):
        with ringload.Loader() as loader:
            load = loader.group_load(group, path, dtype="bf16").result()
            assert {info.name for info in load.infos()} == set(arrays)
            return repr(group), group.rank, group.size, load.tensor("q").result().dtype

    assert on_threads(2, work) == [
        (f"<ringload.Group: rank {rank} of 2>", rank, 2, "bf16") for rank in range(2)
    ]


def test_a_list_of_files_is_one_checkpoint(checkpoint, tmp_path):
    path, arrays = checkpoint
    files = [tmp_path / "a.safetensors", os.fsencode(tmp_path / "b.safetensors")]
    for file, names in zip(files, (sorted(arrays)[::2], sorted(arrays)[1::2])):
        ringload.save(file, {name: arrays[name] for name in names})
    for rank, found in enumerate(on_threads(3, lambda group: all_calls(group, files))):
        check_calls(found, arrays, rank, 3)


def test_a_group_load_takes_no_checkpoint(checkpoint):
    with ringload.open(checkpoint[0]) as opened, ringload.Loader() as loader:
        with pytest.raises(TypeError, match="pass its name, not a Checkpoint"):
            loader.group_load(ringload.make_thread_ranks(1)[0], opened)


def nccl_without_calls(folder):
    """A library that has the names of NCCL's functions."""
    compiler = shutil.which("cc")
    if not ringload.features()["cuda"] or compiler is None:
        pytest.skip("ringload was built without CUDA, or there is no C compiler")
    names = (
        "GetUniqueId CommInitRankConfig CommDestroy CommAbort CommGetAsyncError GetErrorString "
        "GroupStart GroupEnd Send Recv Broadcast"
    )
    source, library = folder / "nccl.c", folder / "libnccl.so.2"
    source.write_text("".join(f"int nccl{name}(void) {{ return 0; }}\n" for name in names.split()))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def test_a_group_of_nccl_without_a_library_is_an_error_on_every_rank():
    if not ringload.features()["cuda"]:
        with pytest.raises(ringload.UsageError, match="built without CUDA"):
            ringload.nccl_group(ringload.make_thread_ranks(1)[0])
        pytest.skip("ringload was built without CUDA")

    def work(group):
        library = "/no/such/libnccl.so.2" if group.rank == 1 else "libc.so.6"
        ringload.nccl_group(group, "cuda:0", library=library, timeout=patience)

    first, second = on_threads(2, work)
    assert isinstance(second, ringload.UsageError), second
    assert "/no/such/libnccl.so.2: cannot open" in str(second)
    assert isinstance(first, (ringload.UsageError, ringload.RankFailedError)), first


def test_a_group_of_nccl_refuses_what_is_no_gpu_and_no_stream():
    group = ringload.make_thread_ranks(1)[0]
    with pytest.raises(ringload.UsageError, match="is 'cpu', expected a GPU"):
        ringload.nccl_group(group, "cpu")
    with pytest.raises(TypeError):
        ringload.nccl_group(group, "cuda:0", stream="one")
    with pytest.raises(ringload.UsageError, match="timeout must be above 0"):
        ringload.nccl_group(group, "cpu", timeout=0)


def test_the_group_of_a_group_of_nccl_loads_nothing_else(checkpoint):
    if not ringload.features()["cuda"]:
        pytest.skip("ringload was built without CUDA")
    group = ringload.make_thread_ranks(1)[0]
    with pytest.raises(ringload.UsageError, match="cannot open"):
        ringload.nccl_group(group, library="/no/such/libnccl.so.2")
    with ringload.Loader() as loader:
        with pytest.raises(ringload.UsageError, match="belongs to a group of NCCL"):
            loader.group_load(group, checkpoint[0]).result()
    with pytest.raises(ringload.UsageError, match="belongs to a group of NCCL"):
        ringload.nccl_group(group, library="/no/such/libnccl.so.2")


def test_the_wait_for_the_other_ranks_of_nccl_can_be_cancelled(tmp_path):
    library = nccl_without_calls(tmp_path)
    waiting, other = ringload.make_thread_ranks(2, timeout=patience)[::-1]
    setup = ringload.nccl_group_async(waiting, 0, library=library, timeout=patience)
    with pytest.raises(TimeoutError):
        setup.result(timeout=0.05)
    setup.cancel()
    with pytest.raises(ringload.CancelledError):
        setup.result(timeout=patience)
    assert other.size == 2


def test_ranks_of_one_event_loop_await_each_other(checkpoint):
    path, arrays = checkpoint

    async def rank_of(group):
        async with ringload.Loader() as loader:
            load = await loader.group_load(group, path)
            both = load.shard("wide", 0), load.tensor("norm")  # Begun at once, in this order.
            return [(await one).numpy() for one in both]

    async def all_ranks():
        groups = ringload.make_thread_ranks(3, timeout=patience)
        return await asyncio.wait_for(asyncio.gather(*map(rank_of, groups)), patience)

    for rank, (rows, norm) in enumerate(asyncio.run(all_ranks())):
        assert same(rows, block(arrays["wide"], rank, 3, 0)) and same(norm, arrays["norm"])


def test_a_load_of_one_group_follows_another(checkpoint):
    path, arrays = checkpoint

    def work(group):
        with ringload.Loader() as loader:
            loads = [loader.group_load(group, path).result() for _ in range(2)]
            return [load.tensor("q").result().numpy() for load in loads]

    assert all(same(array, arrays["q"]) for found in on_threads(2, work) for array in found)


# --- Processes


def unused_port():
    """A port outside the range from which the kernel chooses ports."""
    for port in range(20_000 + os.getpid() * 61 % 10_000, 32_000):
        with socket_module.socket() as server, contextlib.suppress(OSError):
            server.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def _rank_of_process(address, rank, ranks, path):
    return all_calls(ringload.join_group(address, rank, ranks, timeout=patience), path)


@pytest.mark.parametrize("transport", ["socket", "tcp"])
def test_processes_get_tensors_shards_and_fused_tensors(checkpoint, tmp_path, transport):
    path, arrays = checkpoint
    socket = tmp_path / "socket"
    address = socket if transport == "socket" else f"tcp://127.0.0.1:{unused_port()}/a token"
    spawned = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(3, mp_context=spawned) as pool:
        running = [pool.submit(_rank_of_process, address, rank, 3, path) for rank in range(3)]
        for rank, one in enumerate(running):
            check_calls(one.result(patience), arrays, rank, 3)
    assert not socket.exists()


def test_ranks_that_do_not_meet_over_tcp_are_an_error():
    address = f"tcp://127.0.0.1:{unused_port()}"
    failed = raised(lambda: ringload.join_group(address + "/hidden", 0, 2, timeout=0.01))
    assert isinstance(failed, ringload.RankFailedError) and "1 ranks did not join" in str(failed)
    assert address in str(failed) and "hidden" not in str(failed)
    with pytest.raises(ConnectionRefusedError):
        ringload.join_group(address, 1, 2, timeout=0.01)
    wrong = raised(lambda: ringload.join_group("tcp://127.0.0.1", 0, 2))
    assert wrong.kind == "invalid_options" and "tcp://host:port" in str(wrong)


def _rank_that_is_killed(socket, path):
    group = ringload.join_group(socket, 1, 2, timeout=patience)
    with ringload.Loader() as loader:
        load = loader.group_load(group, path).result()
        load.tensor("q").result()
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_rank_that_is_killed_is_an_error_of_the_others(checkpoint, tmp_path):
    path, arrays = checkpoint
    socket = tmp_path / "socket"
    other = multiprocessing.get_context("spawn").Process(
        target=_rank_that_is_killed, args=(socket, path)
    )
    other.start()
    with ringload.Loader() as loader:
        group = ringload.join_group(socket, 0, 2, timeout=patience)
        load = loader.group_load(group, path).result()
        assert same(load.tensor("q").result().numpy(), arrays["q"])
        with pytest.raises(ringload.RankFailedError, match="rank 1") as failed:
            load.tensor("wide").result()
        assert failed.value.kind == "rank_failed" and isinstance(failed.value, ConnectionError)
        with pytest.raises(ringload.RankFailedError, match="rank 1"):
            load.tensor("q").result()
    other.join(patience)
    assert other.exitcode == -signal.SIGKILL


# --- What goes wrong


def raised(work):
    with pytest.raises(ringload.Error) as failed:
        work()
    return failed.value


def test_a_call_that_differs_or_is_wrong_on_all_changes_nothing(checkpoint):
    path, arrays = checkpoint

    def work(group):
        with ringload.Loader() as loader:
            load = loader.group_load(group, path).result()
            differs = raised(lambda: load.tensor("q" if group.rank else "k").result())
            missing = raised(lambda: load.tensor("no").result())
            outside = raised(lambda: load.shard("norm", 1).result())
            nobody = raised(lambda: load.push("norm", 2).result())
            kinds = [one.kind for one in (differs, missing, outside, nobody)]
            assert isinstance(differs, ringload.UsageError) and isinstance(missing, KeyError)
            return kinds, same(load.tensor("q").result().numpy(), arrays["q"])

    kinds = ["mismatched_call", "no_such_tensor", "invalid_selection", "invalid_selection"]
    assert on_threads(2, work) == [(kinds, True)] * 2


def test_what_fails_on_one_rank_is_said_on_the_others(checkpoint):
    path, _ = checkpoint

    def work(group):
        with ringload.Loader() as loader:
            return raised(loader.group_load(group, path if group.rank else path + "x").result)

    own, other = on_threads(2, work)
    assert isinstance(own, FileNotFoundError)
    assert isinstance(other, ringload.RankFailedError) and "ranks.safetensorsx" in str(other)


def test_a_checkpoint_that_differs_is_refused_on_all_ranks(checkpoint, tmp_path):
    path, arrays = checkpoint
    other = write_safetensors(tmp_path / "other.safetensors", {"q": arrays["q"]})

    def work(group):
        with ringload.Loader() as loader:
            return raised(loader.group_load(group, other if group.rank else path).result).kind

    assert on_threads(2, work) == ["mismatched_call"] * 2


def test_a_cancelled_call_ends_it_for_the_others(checkpoint):
    path, _ = checkpoint
    begun = threading.Event()

    def work(group):
        with ringload.Loader() as loader:
            load = loader.group_load(group, path).result()
            if group.rank == 0:
                begun.wait(patience)
                return raised(load.tensor("q").result)
            call = load.tensor("q")  # Waits for rank 0.
            call.cancel()
            failed = raised(call.result)
            begun.set()
            return failed

    other, own = on_threads(2, work)
    assert isinstance(own, ringload.CancelledError)
    assert isinstance(other, ringload.RankFailedError) and "its call was cancelled" in str(other)


def test_a_call_that_is_dropped_is_cancelled(checkpoint):
    path, _ = checkpoint
    dropped = threading.Event()

    def work(group):
        with ringload.Loader() as loader:
            load = loader.group_load(group, path).result()
            if group.rank == 1:
                load.tensor("q")
                del load  # Waits for the call, which is cancelled.
                dropped.set()
                return None
            dropped.wait(patience)
            return raised(load.tensor("q").result)

    other, _ = on_threads(2, work)
    assert isinstance(other, ringload.RankFailedError)


def test_a_call_keeps_its_load(checkpoint):
    path, arrays = checkpoint

    def work(group):
        with ringload.Loader() as loader:
            call = loader.group_load(group, path).result().tensor("q")
            return same(call.result().numpy(), arrays["q"])

    assert on_threads(2, work) == [True, True]


def test_closing_the_loader_ends_the_calls_of_its_rank(checkpoint):
    path, _ = checkpoint
    closed = threading.Event()

    def work(group):
        loader = ringload.Loader()
        load = loader.group_load(group, path).result()
        if group.rank == 0:
            closed.wait(patience)
            return raised(load.tensor("q").result)
        call = load.tensor("q")
        loader.close()
        closed.set()
        with pytest.raises(RuntimeError, match="Loader is closed"):
            load.tensor("q")
        return raised(call.result)

    other, own = on_threads(2, work)
    assert isinstance(own, ringload.CancelledError)
    assert isinstance(other, ringload.RankFailedError)


def test_closing_the_loader_ends_a_load_that_begins(checkpoint):
    path, _ = checkpoint
    with contextlib.closing(ringload.Loader()) as loader:
        groups = ringload.make_thread_ranks(2, timeout=patience)
        opening = loader.group_load(groups[0], path)  # Rank 1 never comes.
    assert isinstance(raised(opening.result), ringload.CancelledError)


def test_a_group_is_in_one_call_at_a_time(checkpoint):
    path, _ = checkpoint
    with ringload.Loader() as loader:
        groups = ringload.make_thread_ranks(2, timeout=patience)
        opening = loader.group_load(groups[0], path)
        with pytest.raises(ValueError, match="in a call of another load"):
            loader.group_load(groups[0], path)
        opening.cancel()


def test_a_rank_that_left_is_an_error(checkpoint):
    path, _ = checkpoint
    with ringload.Loader() as loader:
        groups = ringload.make_thread_ranks(2, timeout=patience)
        groups.pop()
        failed = raised(loader.group_load(groups[0], path).result)
    assert isinstance(failed, ringload.RankFailedError) and "left the group" in str(failed)


def test_options_that_make_no_sense_are_refused(checkpoint):
    path, _ = checkpoint

    def only_rank():
        return ringload.make_thread_ranks(1)[0]

    with ringload.Loader() as loader:
        with pytest.raises(ValueError, match="divided, own"):
            loader.group_load(only_rank(), path, reading="twice")
        with pytest.raises(ValueError, match="no option colour"):
            loader.group_load(only_rank(), path, colour="red")
        with pytest.raises(TypeError):
            loader.group_load("rank 0", path)
        assert raised(loader.group_load(only_rank(), path, memory="mapped").result).kind == (
            "invalid_options"
        )
        with pytest.raises(TypeError):
            loader.group_load(only_rank(), path).result().shard("q", -1)
    for ranks in (0, 128):
        assert raised(lambda: ringload.make_thread_ranks(ranks)).kind == "invalid_selection"
    for timeout in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            ringload.make_thread_ranks(2, timeout)


def test_ranks_that_do_not_come_are_an_error(tmp_path):
    socket = tmp_path / "socket"
    failed = raised(lambda: ringload.join_group(socket, 0, 3, timeout=0.01))
    assert isinstance(failed, ringload.RankFailedError) and "2 ranks did not join" in str(failed)
    assert not socket.exists()
    with pytest.raises(OSError):
        ringload.join_group(socket, 1, 2, timeout=0.01)
    assert raised(lambda: ringload.join_group(socket, 2, 2)).kind == "invalid_selection"


def test_a_group_of_the_parent_is_refused_after_fork():
    program = (
        "import os, ringload\n"
        "group = ringload.make_thread_ranks(1)[0]\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: group.rank\n"
        "    except RuntimeError as refusal: assert 'forked' in str(refusal)\n"
        "    else: os._exit(1)\n"
        "    del group\n"
        "    os._exit(ringload.make_thread_ranks(1)[0].rank)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert group.rank == 0\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=patience)
