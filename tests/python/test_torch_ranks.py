# SPDX-License-Identifier: Apache-2.0
"""ringload.torch: one load on all ranks of a process group, each rank a process."""

import contextlib
import datetime
import gc
import json
import multiprocessing
import os
import pathlib
import signal
import struct
import subprocess
import sys
import threading
import time
import types

import numpy
import pytest
from conftest import write_safetensors

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
distributed = torch.distributed
if not (distributed.is_available() and distributed.is_gloo_available()):
    pytest.skip("PyTorch was built without Gloo", allow_module_level=True)

import ringload  # noqa: E402
import ringload.torch  # noqa: E402
from ringload.torch import _buckets, _files, _group, _plan, _stream, _transports  # noqa: E402

patience = 120  # In seconds; each result comes much sooner, or never.
# "direct" is shared memory whose ranks may not use the page cache.
transports = ["group", "shared_memory", "mapped", "direct"]


def by(transport):
    """The options that lead to a transport."""
    if transport == "direct":
        return {"transport": "shared_memory", "route": "direct"}
    return {"memory": "mapped"} if transport == "mapped" else {"transport": transport}


@pytest.fixture
def checkpoint(tmp_path):
    random = numpy.random.default_rng(7)
    arrays = {
        "layers.0.q_proj.weight": random.random((50, 36), numpy.float32),
        "layers.0.q_proj.bias": random.random(50, numpy.float32),
        "layers.0.o_proj.weight": random.random((36, 50), numpy.float32),
        "layers.0.o_proj.bias": random.random(36, numpy.float32),
        "layers.0.gate_up_proj.weight": random.random((48, 7), numpy.float32),
        "experts": random.random((5, 24, 3), numpy.float32),
        "one_row": random.random((1, 700), numpy.float32),
        "scalar": numpy.array(5, numpy.int64),
        "empty": numpy.zeros((0, 3), numpy.float32),
        "mask": random.random(13) > 0.5,
    }
    return write_safetensors(tmp_path / "ranks.safetensors", arrays), arrays


def _start_rank(work, rank, ranks, store, results, arguments):
    distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=ranks,
        timeout=datetime.timedelta(seconds=patience),
    )  # fmt: skip
    group = distributed.new_group(list(range(ranks)))
    try:
        results.put((rank, work(group, *arguments)))
    except BaseException as failure:
        results.put((rank, f"{type(failure).__name__}: {failure}"))


@contextlib.contextmanager
def started(tmp_path, ranks, work, *arguments):
    """Processes of a group, and the queue of their results."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed", "ringload.torch"])
    results = context.Queue()
    store = tmp_path / f"store-{time.monotonic_ns()}"
    processes = [
        context.Process(target=_start_rank, args=(work, rank, ranks, store, results, arguments))
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    try:
        yield processes, results
    finally:
        for process in processes:
            process.kill()
            process.join()


def on_ranks(tmp_path, ranks, work, *arguments):
    """By rank, the result of `work`, or the text of its exception."""
    with started(tmp_path, ranks, work, *arguments) as (_, results):
        found = dict(results.get(timeout=patience) for _ in range(ranks))
    return [found[rank] for rank in range(ranks)]


def as_arrays(tensors):
    return {name: tensor.numpy().copy() for name, tensor in tensors.items()}


def chunk(array, rank, ranks, dim):
    each = -(-array.shape[dim] // ranks)
    index = [slice(None)] * array.ndim
    index[dim] = slice(rank * each, (rank + 1) * each)
    return array[tuple(index)]


def packed(array, rank, ranks, dim, parts=2):
    blocks = numpy.split(array, parts, dim)
    return numpy.concatenate([chunk(block, rank, ranks, dim) for block in blocks], dim)


def check(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        assert found[name].shape == array.shape, name
        assert found[name].tobytes() == array.tobytes(), name


def load(group, path, options):
    with ringload.torch.stream(path, process_group=group, timeout=patience, **options) as pairs:
        found = as_arrays(dict(pairs))
    return found, pairs.stats


@pytest.mark.parametrize("transport", transports)
@pytest.mark.parametrize(("ranks", "window"), [(2, "512MiB"), (3, 12000), (4, 1)])
def test_every_rank_gets_all_and_each_byte_is_read_once(
    tmp_path, checkpoint, transport, ranks, window
):
    path, arrays = checkpoint
    found = on_ranks(tmp_path, ranks, load, path, {**by(transport), "window": window})
    for tensors, _ in found:
        check(tensors, arrays)
    for _, stats in found:
        assert stats["transport"] == transport.replace("direct", "shared_memory")
        assert stats["buckets"] >= (1 if window == "512MiB" else 4)
    assert sum(stats["bytes"] for _, stats in found) == sum(
        array.nbytes for array in arrays.values()
    )


tp_plan = {
    "layers.*.q_proj": "colwise",
    "layers.*.o_proj": "rowwise",
    "layers.*.gate_up_proj": "packed_colwise",
    "experts": 1,
    "one_r*": -1,
    "layers.*.absent": "colwise",
}


def divided(arrays, rank, ranks):
    return {
        "layers.0.q_proj.weight": chunk(arrays["layers.0.q_proj.weight"], rank, ranks, 0),
        "layers.0.q_proj.bias": chunk(arrays["layers.0.q_proj.bias"], rank, ranks, 0),
        "layers.0.o_proj.weight": chunk(arrays["layers.0.o_proj.weight"], rank, ranks, 1),
        "layers.0.o_proj.bias": arrays["layers.0.o_proj.bias"],
        "layers.0.gate_up_proj.weight": packed(
            arrays["layers.0.gate_up_proj.weight"], rank, ranks, 0
        ),
        "experts": chunk(arrays["experts"], rank, ranks, 1),
        "one_row": chunk(arrays["one_row"], rank, ranks, 1),
        **{name: arrays[name] for name in ("scalar", "empty", "mask")},
    }


@pytest.mark.parametrize("transport", transports)
@pytest.mark.parametrize(("ranks", "window"), [(2, "512MiB"), (4, 9000)])
def test_a_plan_divides_tensors_and_each_byte_is_read_once(
    tmp_path, checkpoint, transport, ranks, window
):
    path, arrays = checkpoint
    options = {"plan": tp_plan, "window": window, **by(transport)}
    found = on_ranks(tmp_path, ranks, load, path, options)
    for rank, one in enumerate(found):
        assert not isinstance(one, str), one
        tensors = one[0]
        check(tensors, divided(arrays, rank, ranks))
    if transport == "mapped":
        return  # Ranks read the same rows, once from the drive and then from the page cache.
    assert sum(stats["bytes"] for _, stats in found) <= 1.02 * sum(
        array.nbytes for array in arrays.values()
    )


def memories_made(group, path):
    """How many memories a rank makes for a load of many buckets, and what it gets."""
    made, create = [], os.memfd_create

    def counted(*arguments):
        made.append(create(*arguments))
        return made[-1]

    os.memfd_create = counted
    options = {"plan": 1, "window": 4000, "timeout": patience, **by("direct")}
    with ringload.torch.stream(path, process_group=group, **options) as pairs:
        found = as_arrays(dict(pairs))
    return found, len(made), pairs.stats["buckets"]


def test_memory_of_divided_tensors_serves_further_buckets(tmp_path):
    arrays = {f"t{n:02}": numpy.full((20, 10), n, numpy.int64) for n in range(12)}
    path = write_safetensors(tmp_path / "many.safetensors", arrays)
    found = on_ranks(tmp_path, 2, memories_made, path)
    for rank, (tensors, _, buckets) in enumerate(found):
        check(tensors, {name: chunk(array, rank, 2, 1) for name, array in arrays.items()})
        assert buckets == 12
    assert [made for _, made, _ in found] == [3, 0]  # One shows whether ranks can map memory.


@pytest.mark.parametrize("transport", transports)
def test_dtype_and_select_are_those_of_a_load(tmp_path, checkpoint, transport):
    path, arrays = checkpoint
    options = {"dtype": "float64", "select": ["one_row", "mask"], **by(transport)}
    for tensors, _ in on_ranks(tmp_path, 2, load, path, options):
        one_row = arrays["one_row"].astype(numpy.float64)
        check(tensors, {"one_row": one_row, "mask": arrays["mask"]})


def write_in_shared_tensors(group, path, transport):
    found = ringload.torch.load(path, process_group=group, **by(transport))
    found["one_row"].fill_(group.rank())
    distributed.barrier(group)
    return set(found["one_row"].flatten().tolist())


class RecordedGroup:
    """A group whose calls are recorded, and carried out later by pass_on()."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size
        self.exchanges, self.gathers = [], []

    def begin_exchange(self, *call):
        self.exchanges.append(call)

    def begin_gather(self, parts):
        self.gathers.append(parts)


def pass_on(groups):
    """Carries out the recorded calls of all ranks. Returns the bytes that each rank has sent."""
    sent = [0] * len(groups)
    for calls in zip(*(group.exchanges for group in groups)):
        split = [content.split(sizes) for _, content, _, sizes in calls]
        for rank, (received, _, sizes, _) in enumerate(calls):
            assert [len(part[rank]) for part in split] == sizes
            received.copy_(torch.cat([part[rank] for part in split]))
            sent[rank] += sum(len(part) for r, part in enumerate(split[rank]) if r != rank)
    for calls in zip(*(group.gathers for group in groups)):
        own = [parts[rank].clone() for rank, parts in enumerate(calls)]
        assert len({len(part) for part in own}) == 1
        for rank, parts in enumerate(calls):
            for into, part in zip(parts, own):
                into.copy_(part)
            sent[rank] += len(own[rank]) * (len(groups) - 1)
    for group in groups:
        group.exchanges, group.gathers = [], []
    return sent


def item_of(name, rows, width, offset, ranks, rank, encoding="", cut=None):
    info = types.SimpleNamespace(
        name=name, shape=(rows, width), dtype="u8", type="", encoding=encoding,
        nbytes=rows * width, offset=offset)  # fmt: skip
    return _buckets.Item(info, cut, None, rank, ranks)


@pytest.mark.parametrize(
    ("cut", "encoding", "expected"),
    [
        (None, "", [10, 1, 1]),  # Every rank gets all.
        (_plan.Cut(0), "", [12]),  # A rank reads 34 rows of 100 at most.
        (_plan.Cut(1), "", [10, 1, 1]),  # A rank reads other columns too.
        (_plan.Cut(0), "zstd", [10, 1, 1]),  # A rank reads the tensor as a whole.
    ],
)
def test_a_bucket_counts_the_bytes_that_one_rank_holds(cut, encoding, expected):
    counts = []
    for rank in range(3):
        items = [item_of("t", 100, 10, 0, 3, rank, encoding, cut) for _ in range(10)]
        items += [item_of("large", 1000, 10, 0, 3, rank, encoding, cut) for _ in range(2)]
        buckets = _buckets.make_buckets(items, 10_200)
        counts.append([len(bucket.items) for bucket in buckets])
    assert counts == 3 * [expected]


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("encoding", ["", "zstd"])
@pytest.mark.parametrize("sizes", [(5, 16, 9, 1, 0, 70), (4096,), (1,), (0, 0), (200, 1, 1)])
def test_calls_of_the_group_send_the_same_amount_from_each_rank(ranks, encoding, sizes, monkeypatch):
    """Also if one rank has read all: a rank reads a compressed tensor as a whole."""
    monkeypatch.setattr(_transports, "_gathered_bytes", 100)
    groups = [RecordedGroup(rank, ranks) for rank in range(ranks)]
    carried = [_transports.Collectives(group, "cpu") for group in groups]
    prepared = []
    for group, transport in zip(groups, carried):
        bucket = _buckets.Bucket()
        bucket.items = [
            item_of(f"t{n}", rows, 7, 5000 * n + 3, ranks, group.rank, encoding)
            for n, rows in enumerate(sizes)
        ]
        prepared.append(transport.prepare(bucket, None))
        prepared[-1].memory.fill_(0)
        for into in prepared[-1].reads.into.values():
            into.copy_(torch.arange(into.numel()).view(into.shape) % 251 + 1)
    read = [int(each.memory.count_nonzero()) for each in prepared]
    expected = sum(each.memory.int() for each in prepared)  # The shares do not overlap.
    for transport, each in zip(carried, prepared):
        transport.begin(each)
    pass_on(groups)
    for transport, each in zip(carried, prepared):
        transport.gather(each)
    sent = pass_on(groups)
    assert sum(read) == 7 * sum(sizes)
    assert len(set(sent)) == 1
    assert sent[0] <= len(expected)
    assert all(torch.equal(each.memory.int(), expected) for each in prepared)


@pytest.mark.parametrize("transport", transports[1:])
def test_tensors_of_shared_memory_are_private_to_a_rank(tmp_path, checkpoint, transport):
    path, _ = checkpoint
    before = pathlib.Path(path).read_bytes()
    assert on_ranks(tmp_path, 2, write_in_shared_tensors, path, transport) == [{0.0}, {1.0}]
    assert pathlib.Path(path).read_bytes() == before


def offsets_of(group, path):
    found = ringload.torch.load(path, process_group=group, memory="mapped")
    return {name: tensor.double().sum().item() for name, tensor in found.items()}


def test_tensors_that_cannot_be_mapped_are_loaded(tmp_path):
    """At an odd offset, or compressed."""
    arrays = {
        "odd": numpy.ones(3, numpy.uint8),
        "floats": numpy.arange(1000, dtype=numpy.float32),
        "halves": numpy.arange(700, dtype=numpy.float16),
    }
    sums = {name: float(array.astype(float).sum()) for name, array in arrays.items()}
    path = write_safetensors(tmp_path / "odd.safetensors", arrays)
    assert on_ranks(tmp_path, 2, offsets_of, path) == [sums] * 2
    if ringload.features()["zstd"]:
        path = str(tmp_path / "compressed.zt")
        ringload.save(path, arrays, zstd_level=3)
        assert on_ranks(tmp_path, 2, offsets_of, path) == [sums] * 2


def load_own(group, paths, options):
    path = paths[distributed.get_rank(group)]
    return load(group, path, options)[1]["buckets"]


def test_ranks_that_load_different_files_get_an_error(tmp_path, checkpoint):
    path, arrays = checkpoint
    other = write_safetensors(tmp_path / "o.safetensors", {**arrays, "mask": numpy.ones(13, "i8")})
    for text in on_ranks(tmp_path, 3, load_own, [path, path, other], {}):
        assert text.startswith("UsageError: rank 2 and rank 0 differ in their tensors"), text


def load_with_plan(group, path):
    return load(group, path, {"plan": distributed.get_rank(group) or None, "select": "experts"})


def test_ranks_with_different_plans_get_an_error(tmp_path, checkpoint):
    for text in on_ranks(tmp_path, 2, load_with_plan, checkpoint[0]):
        assert text.startswith("UsageError: rank 1 and rank 0 differ in their plan"), text


def test_a_rank_without_the_file_is_an_error_on_all(tmp_path, checkpoint):
    path, _ = checkpoint
    texts = on_ranks(tmp_path, 3, load_own, [path, path + ".absent", path], {})
    assert texts[1].startswith("SourceNotFoundError: ")
    for text in (texts[0], texts[2]):
        assert text.startswith("RankFailedError: rank 1: ") and "no such file" in text, text


def truncated_on_one(group, path, transport):
    """Rank 1 sees the file as it was before it is cut off."""
    rank = distributed.get_rank(group)
    pairs = ringload.torch.stream(
        path, process_group=group, window=1, timeout=patience, **by(transport)
    )
    distributed.barrier(group)
    if rank == 0:
        with open(path, "r+b") as file:
            file.truncate(os.path.getsize(path) - 60000)
    distributed.barrier(group)
    return len(list(pairs))


@pytest.mark.parametrize("transport", transports)
def test_a_file_that_becomes_shorter_is_an_error_on_all(tmp_path, transport):
    arrays = {f"t{i}": numpy.full((100, 1000), i, numpy.uint8) for i in range(4)}
    path = write_safetensors(tmp_path / "short.safetensors", arrays)
    texts = on_ranks(tmp_path, 2, truncated_on_one, path, transport)
    for text in texts:
        assert "short.safetensors" in text and ("rank" in text or "short" in text), texts


def replaced_between_opens(group, path, other, options):
    """Rank 0 opens the file, then `other` replaces it, then rank 1 opens it."""
    rank = distributed.get_rank(group)
    while rank == 1 and os.path.exists(other):
        time.sleep(0.01)

    def select(info):
        if rank == 0 and os.path.exists(other):
            os.replace(other, path)
        return True

    return load(group, path, {**options, "select": select})


@pytest.mark.parametrize("transport", transports)
def test_ranks_that_open_different_versions_of_a_file_get_an_error(tmp_path, transport):
    versions = [
        write_safetensors(tmp_path / f"{n}.safetensors", {"x": numpy.full(9000, n, numpy.uint8)})
        for n in range(2)
    ]
    for text in on_ranks(tmp_path, 2, replaced_between_opens, *versions, by(transport)):
        assert text.startswith("UsageError: rank 1 and rank 0 differ in their files"), text


def test_files_of_different_machines_may_have_different_times():
    ranks = [{"scope": "a", "files": "1", "source": "x"}, {"scope": "b", "files": "2"}]
    _stream._check_same_files(ranks)
    ranks.append({"scope": "b", "files": "3", "source": "x"})
    with pytest.raises(ringload.UsageError, match="rank 2 and rank 1 differ in their files"):
        _stream._check_same_files(ranks)


def test_a_file_that_is_replaced_while_it_is_opened_is_an_error(tmp_path):
    path = write_safetensors(tmp_path / "x.safetensors", {"x": numpy.zeros(8, numpy.uint8)})

    def opened_and_replaced():
        checkpoint = ringload.open(path)
        other = write_safetensors(tmp_path / "y", {"x": numpy.ones(8, numpy.uint8)})
        os.replace(other, path)
        return checkpoint

    with pytest.raises(ringload.Error, match="changed while they were opened"):
        _files.open_local(_files.identities_near(path), opened_and_replaced)

    opens = []
    for source in (tmp_path, path):
        near = _files.identities_near(source)
        _files.open_local(near, lambda: opens.append(1) or ringload.open(path))
    assert len(opens) == 2  # One open is enough if the paths are known before it.


def test_files_are_small_together(tmp_path):
    assert not _files.are_small(_files.identities_near("https://example.org/x.safetensors"))
    for name, nbytes, expected in (("x", 64 << 20, True), ("y", 0, True), ("z", 1, False)):
        with open(tmp_path / name, "wb") as file:
            file.truncate(nbytes)
        assert _files.are_small(_files.identities_near(tmp_path)) == expected
    (tmp_path / "z").unlink()
    assert _files.are_small(_files.identities_near(tmp_path / "y"))
    (tmp_path / "folder").mkdir()  # It may have large files.
    assert not _files.are_small(_files.identities_near(tmp_path / "y"))


def test_a_name_of_the_hub_says_nothing_about_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "small").touch()
    monkeypatch.chdir(tmp_path)
    assert _files.identities_near("small")
    assert _files.identities_near("gpt2") == {}


def with_one_unusual_rank(group, path, unusual):
    """Loads. The last rank cannot map memory, cannot make a transport, or knows no device."""
    if distributed.get_rank(group) == distributed.get_world_size(group) - 1:
        if unusual == "map":
            real_open = os.open

            def refused(path, *arguments, **more):
                if str(path).startswith("/proc/") and "/fd/" in str(path):
                    raise PermissionError(13, "refused")
                return real_open(path, *arguments, **more)

            os.open = refused
        else:

            def failing(*arguments):
                raise OSError("a planted failure")

            name = "SharedMemory" if unusual == "transport" else "indexed"
            setattr(_stream, name, failing)
    try:
        with ringload.torch.stream(
            path, process_group=group, device="cpu", timeout=patience
        ) as stream:
            return stream.stats["transport"], as_arrays(dict(stream))
    finally:
        kept = [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
                if os.path.exists(f"/proc/self/fd/{n}")]  # fmt: skip
        assert not any("memfd:ringload" in path for path in kept)


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_rank_that_cannot_map_memory_leads_to_calls_of_the_group(tmp_path, checkpoint, ranks):
    path, arrays = checkpoint
    for transport, found in on_ranks(tmp_path, ranks, with_one_unusual_rank, path, "map"):
        assert transport == "group"
        check(found, arrays)


@pytest.mark.parametrize("unusual", ["transport", "device"])
def test_a_rank_without_a_transport_or_a_device_fails_all_ranks(tmp_path, checkpoint, unusual):
    texts = on_ranks(tmp_path, 2, with_one_unusual_rank, checkpoint[0], unusual)
    assert texts[0].startswith("RankFailedError: rank 1: a planted failure"), texts
    assert texts[1].startswith("OSError: a planted failure"), texts


def closed_before_the_first_pair(group, path, other):
    """Rank 0 closes its stream. Then the descriptor of its memory is another file."""
    stream = ringload.torch.stream(path, process_group=group, timeout=patience)
    if distributed.get_rank(group) == 0:
        number = stream._transport._announced.file
        stream.close()
        file = os.open(other, os.O_RDWR)
        os.dup2(file, number)
    distributed.barrier(group)
    return None if distributed.get_rank(group) == 0 else list(stream)


def test_a_closed_stream_of_rank_0_does_not_let_other_ranks_write_to_its_files(
    tmp_path, checkpoint
):
    other = tmp_path / "other"
    other.write_bytes(bytes(16 << 20))
    texts = on_ranks(tmp_path, 2, closed_before_the_first_pair, checkpoint[0], str(other))
    assert "closed" in texts[1], texts
    assert other.read_bytes() == bytes(16 << 20)


@pytest.mark.parametrize(
    ("format", "files", "nbytes", "ranks", "expected"),
    [
        ("dcp", 1 + 4, (16 << 20) - 1, 4, True),  # Less than 4 MiB of each file.
        ("dcp", 1 + 4, 16 << 20, 4, False),
        ("dcp", 1 + 1, 16 << 20, 4, False),  # Each rank reads 4 MiB of one box.
        ("dcp", 1 + 1, 16 << 20, 5, True),
        ("dcp", 1 + 1, 4096, 1, False),  # No other rank reads the pages.
        ("safetensors", 4, 4096, 4, False),
    ],
)
def test_small_boxes_are_read_through_the_page_cache(format, files, nbytes, ranks, expected):
    infos = [types.SimpleNamespace(nbytes=nbytes)] * 3
    found = _buckets.has_small_boxes([("path", 0, format)] * files, infos, ranks)
    assert found == expected


def changed_after_the_open(group, path, other, transport):
    """Rank 0 replaces the file by `other`, or changes it in place, after all have opened it."""
    rank = distributed.get_rank(group)
    pairs = ringload.torch.stream(
        path, process_group=group, window=1, timeout=patience, **by(transport)
    )
    distributed.barrier(group)
    if rank == 0 and other is not None:
        os.replace(other, path)
    elif rank == 0:
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\xff")
    distributed.barrier(group)
    return {name: int(tensor.max()) for name, tensor in pairs}


@pytest.mark.parametrize("transport", ["shared_memory", "mapped"])
def test_a_file_that_is_replaced_after_the_open_is_read_as_it_was_opened(tmp_path, transport):
    path, other = (
        write_safetensors(
            tmp_path / f"{n}.safetensors",
            {f"t{i}": numpy.full((100, 1000), n, numpy.uint8) for i in range(4)},
        )
        for n in range(2)
    )
    expected = {f"t{i}": 0 for i in range(4)}
    found = on_ranks(tmp_path, 2, changed_after_the_open, path, other, transport)
    assert found == [expected] * 2


@pytest.mark.parametrize("transport", ["shared_memory", "mapped"])
def test_a_file_that_is_modified_after_the_open_is_an_error(tmp_path, transport):
    arrays = {f"t{i}": numpy.full((100, 1000), i, numpy.uint8) for i in range(4)}
    path = write_safetensors(tmp_path / "modified.safetensors", arrays)
    for text in on_ranks(tmp_path, 2, changed_after_the_open, path, None, transport):
        assert "Error: " in text and "modified.safetensors" in text, text


def end_early(group, path):
    pairs = ringload.torch.stream(path, process_group=group, window=1, timeout=patience)
    next(pairs)
    if distributed.get_rank(group) == 1:
        pairs.close()
        return "closed"
    return len(list(pairs))


def test_a_rank_that_ends_its_stream_early_is_an_error_on_the_others(tmp_path, checkpoint):
    texts = on_ranks(tmp_path, 3, end_early, checkpoint[0])
    assert texts[1] == "closed"
    for text in (texts[0], texts[2]):
        assert text.startswith("RankFailedError: rank 1: the stream was closed"), text


def stop_rank(group, path, how, seconds, transport):
    """The last rank is killed or stopped, or makes another call, after its first tensor."""
    rank, ranks = distributed.get_rank(group), distributed.get_world_size(group)
    pairs = ringload.torch.stream(
        path, process_group=group, window=1, timeout=seconds, **by(transport)
    )
    next(pairs)
    if rank == ranks - 1:
        if how == "wrong":
            time.sleep(seconds + 60)
        os.kill(os.getpid(), how)
    return len(list(pairs))


@pytest.mark.parametrize("transport", transports)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP, "wrong"])
def test_a_rank_that_is_killed_or_stopped_is_an_error_on_the_others(
    tmp_path, checkpoint, how, transport
):
    seconds = 5.0
    with started(tmp_path, 3, stop_rank, checkpoint[0], how, seconds, transport) as (_, results):
        texts = [results.get(timeout=patience)[1] for _ in range(2)]
    for text in texts:
        assert text.startswith("RankFailedError: rank 2: ended, hangs"), texts


def test_a_store_that_does_not_answer_is_waited_for_within_the_time_limit(monkeypatch):
    """So it is when the store is a part of the rank that was stopped. The test ends, or hangs."""
    over = threading.Event()

    class Silent:
        def check(self, keys):
            over.wait()

        def set(self, key, text):
            over.wait()

    group = object.__new__(_group.RankGroup)
    group.rank, group.size, group._grace = 1, 2, 0.01
    group._reports = _group._Reports(Silent(), 1, 2, "token")
    monkeypatch.setattr(_group, "_grace_seconds", 86400.0)
    try:
        assert group._lost_rank("it waited 1 s").kind == "rank_failed"
        group.report(ringload.Error("x"))
    finally:
        over.set()


def test_a_failure_of_the_consumer_reaches_the_other_ranks(tmp_path, checkpoint):
    texts = on_ranks(tmp_path, 2, fail_in_loop, checkpoint[0])
    assert texts[0] == "RankFailedError: rank 1: no room for experts"
    assert texts[1] == "MemoryError: no room for experts"


def fail_in_loop(group, path):
    with ringload.torch.stream(path, process_group=group, window=1, timeout=patience) as pairs:
        for name, _ in pairs:
            if name == "experts" and distributed.get_rank(group) == 1:
                raise MemoryError("no room for experts")


torchrun_program = """
import sys, torch.distributed as distributed, ringload.torch
distributed.init_process_group("gloo")
group = distributed.new_group([0, 2])
if distributed.get_rank() != 1:
    found = ringload.torch.load(sys.argv[1], process_group=group, plan={"experts": 0})
    print("rank", distributed.get_rank(), tuple(found["experts"].shape), flush=True)
distributed.barrier()
"""


def test_torchrun_with_a_group_of_some_ranks(tmp_path, checkpoint):
    if torch.__version__.startswith("1.") and sys.version_info >= (3, 11):
        pytest.skip("torchrun of PyTorch 1 does not run on Python 3.11")
    program = tmp_path / "program.py"
    program.write_text(torchrun_program)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=3",
         str(program), checkpoint[0]],
        capture_output=True, text=True, timeout=patience,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("rank"))
    assert lines == ["rank 0 (3, 24, 3)", "rank 2 (2, 24, 3)"]


def plugin_weights(group, files, engine):
    """What an engine's plug-in yields on a rank of its tensor-parallel group, kept in a list."""
    import test_plugins

    with pytest.MonkeyPatch.context() as patch:
        extra = {"distributed": True, "window": 100_000, "ringload": True}
        tp_group = types.SimpleNamespace(world_size=group.size(), cpu_group=group)
        module = {"get_tp_group": lambda: tp_group}
        if engine == "vllm":
            loader = test_plugins.vllm_loader(patch, extra)
            test_plugins.modules(patch, vllm__distributed=module)
            loader.local_expert_ids = {group.rank()}
        else:
            loader_module = {"DefaultModelLoader": test_plugins.SglangLoader}
            test_plugins.modules(
                patch, sglang__srt__model_loader__loader=loader_module,
                sglang__srt__distributed=module,
            )  # fmt: skip
            from ringload.plugins import sglang

            config = test_plugins.LoadConfig(model_loader_extra_config=extra)
            loader = sglang.choose_loader(None, config)
        kept = list(loader._get_weights_iterator(test_plugins.Source(files, prefix="m.")))
        return {name: tensor.tolist() for name, tensor in kept}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_plugins_read_on_the_tensor_parallel_group(tmp_path, engine):
    arrays = {f"l.experts.{n}.w": numpy.full((200, 40), n, numpy.float32) for n in range(3)}
    arrays["norm"] = numpy.ones(5, numpy.float32)
    path = write_safetensors(tmp_path / "a.safetensors", arrays)
    found = on_ranks(tmp_path, 3, plugin_weights, [path], engine)
    for rank, tensors in enumerate(found):
        experts = {f"m.l.experts.{n}.w" for n in ([rank] if engine == "vllm" else range(3))}
        assert tensors.keys() == {"m.norm", *experts}, tensors
        for name, values in tensors.items():
            assert values == arrays[name.removeprefix("m.")].tolist()


def test_actors_of_ray_load_together_and_tell_of_their_errors(tmp_path, checkpoint):
    pytest.importorskip("ray", reason="Ray is not installed")
    program = pathlib.Path(__file__).parents[2] / "apps/python/examples/ray_ranks.py"
    done = subprocess.run(
        [sys.executable, str(program), checkpoint[0]], capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stderr
    assert "2 actors have" in done.stdout, done.stdout
    assert "kind source_not_found" in done.stdout, done.stdout


class Info:
    def __init__(self, name, *shape):
        self.name, self.shape = name, shape


def cut(plan, name, *shape, ranks=2):
    return _plan.resolve(plan, [Info(name, *shape)], ranks)[name]


def test_plans_are_styles_dimensions_functions_and_placements():
    style = {"model.layers.*.mlp.down_proj": "rowwise"}
    assert cut(style, "model.layers.11.mlp.down_proj.weight", 4, 6) == (1, 1)
    assert cut(style, "model.layers.11.mlp.down_proj.bias", 4) is None
    assert cut(style, "model.layers.11.mlp.gate_proj.weight", 4, 6) is None
    assert cut("packed_colwise", "w", 8, 6) == (0, 2)
    assert cut("packed_colwise", "w", 3, 8, 6) == (1, 2)
    assert cut(-1, "w", 8, 6) == (1, 1)
    assert cut(lambda info: len(info.shape) - 1, "w", 8, 6) == (1, 1)
    with pytest.raises(ringload.UsageError, match="style 'sideways' is unknown"):
        cut("sideways", "w", 8, 6)
    with pytest.raises(ringload.UsageError, match="no dimension 2"):
        cut(2, "w", 8, 6)
    with pytest.raises(ringload.UsageError, match="no tensor matches 'x'"):
        cut({"x": 0}, "w", 8, 6)
    with pytest.raises(ringload.UsageError, match="cannot be divided into 2 parts"):
        cut("packed_colwise", "w", 6, 6)


@pytest.mark.parametrize(
    ("styles", "expected"),
    [
        ("ep_router gather local megamoe_router megamoe_experts moe_experts_allreduce", None),
        ("activation activation_seq_dim_2 module_allgather module_allgather_split", None),
        ("module_allgather_hidden_states", None),
        ("colwise_allgather colwise_loss_parallel", (1, 1)),
        ("rowwise_allreduce rowwise_reduce_scatter moe_tp_down_rowwise", (2, 1)),
        ("vocab_allreduce vocab_reduce_scatter", (0, 1)),
        ("moe_tp_gate_up_colwise", (1, 2)),
    ],
)
def test_plans_have_the_styles_of_older_and_newer_transformers(styles, expected):
    for style in styles.split():
        assert cut(style, "w", 4, 8, 6) == expected, style
    assert cut("rowwise_allreduce", "o_proj.bias", 4) is None
    with pytest.raises(ringload.UsageError, match="no dimension -2"):
        cut("moe_tp_gate_up_colwise", "w", 8)


def test_the_plan_of_gpt_oss_is_accepted():
    plan = {
        "model.layers.*.mlp.router": "ep_router",
        "model.layers.*.mlp.experts.gate_up_proj": "grouped_gemm",
        "model.layers.*.mlp.experts": "moe_tp_experts",
    }
    assert cut(plan, "model.layers.0.mlp.router.weight", 4, 6) is None
    assert cut(plan, "model.layers.0.mlp.experts.gate_up_proj", 4, 6, 8) == (0, 1)


def test_plans_of_dtensor_placements():
    placements = pytest.importorskip("torch.distributed.tensor", reason="this PyTorch is older")
    assert cut([placements.Shard(1)], "w", 8, 6) == (1, 1)
    assert cut({"w": placements.Shard(-2)}, "w", 8, 6) == (0, 1)
    assert cut(placements.Replicate(), "w", 8, 6) is None
    with pytest.raises(ringload.UsageError, match="must be Replicate or Shard"):
        cut(placements.Partial(), "w", 8, 6)
    with pytest.raises(ringload.UsageError, match="2 placements"):
        cut([placements.Shard(0), placements.Shard(1)], "w", 8, 6)


def test_a_group_is_required(checkpoint):
    with pytest.raises(TypeError, match="process_group"):
        ringload.torch.load(checkpoint[0])
    with pytest.raises(TypeError, match="process_group"):
        ringload.torch.load(checkpoint[0], process_group=None)


def test_tensors_of_a_load_keep_no_descriptors(tmp_path):
    arrays = {f"t{i}": numpy.full(1 << 18, i, numpy.float32) for i in range(16)}
    path = write_safetensors(tmp_path / "x.safetensors", arrays)
    for transport in ("shared_memory", "mapped"):
        options = {**by(transport), "window": "2MiB"}
        assert on_ranks(tmp_path, 2, _descriptors_kept, path, options) == [(0, 8)] * 2


def _descriptors_kept(group, path, options):
    # The first load opens what the process keeps.
    state = ringload.torch.load(path, process_group=group, **options)
    del state
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    state = ringload.torch.load(path, process_group=group, **options)
    return len(os.listdir("/proc/self/fd")) - before, int(state["t8"][-1])


def test_empty_tensor_is_divided(tmp_path):
    arrays = {"x": numpy.zeros((4, 0), numpy.float32), "y": numpy.ones((4, 2), numpy.float32)}
    path = write_safetensors(tmp_path / "x.safetensors", arrays)
    for transport in ("group", "shared_memory"):
        options = {**by(transport), "plan": {"x": 1, "y": 1}}
        for found, _ in on_ranks(tmp_path, 2, load, path, options):
            check(found, {"x": arrays["x"], "y": numpy.ones((4, 1), numpy.float32)})


def test_a_bucket_of_only_empty_tensors_is_loaded(tmp_path):
    arrays = {"x": numpy.zeros((0, 4), numpy.float32), "y": numpy.ones((4, 2), numpy.float32)}
    entry = '"x":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]}'
    entry += ',"y":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]}'
    header = ("{" + entry).ljust(4087) + "}"  # The tensors begin at byte 4096, as a page.
    path = tmp_path / "x.safetensors"
    content = struct.pack("<Q", len(header)) + header.encode() + arrays["y"].tobytes()
    path.write_bytes(content)
    for transport in ("group", "shared_memory", "mapped"):
        for plan in (None, 0, 1):
            options = {**by(transport), "plan": plan, "window": 1}
            for found, _ in on_ranks(tmp_path, 2, _load_in_order, str(path), options):
                assert found == [("x", (0, 2 if plan == 1 else 4))], (transport, plan)


def _load_in_order(group, path, options):
    found, stats = load(group, path, {**options, "select": "x"})
    return [(name, array.shape) for name, array in found.items()], stats


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dtype": "i8"}, "not to i8"),
        ({"window": "1apple"}, "'1apple' is not a size"),
        ({"transport": "x"}, "unknown transport 'x'"),
        ({"memory": "x"}, "unknown memory 'x'"),
        ({"device": "xpu"}, "xpu"),
        ({"bogus": 1}, "unknown option bogus"),
    ],
)
def test_an_invalid_option_of_one_rank_is_an_error_on_all(tmp_path, checkpoint, options, reason):
    path, arrays = checkpoint
    first, second = on_ranks(tmp_path, 2, _load_again, path, options)
    assert reason in first[0] and not first[0].startswith("RankFailedError"), first
    assert second[0].startswith("RankFailedError: rank 0: ") and reason in second[0], second
    assert first[1] == second[1] == sorted(arrays)


def _load_again(group, path, options):
    given = options if distributed.get_rank(group) == 0 else {}
    try:
        load(group, path, given)
        text = "no error"
    except Exception as failure:
        text = f"{type(failure).__name__}: {failure}"
    return text, sorted(load(group, path, {})[0])


def test_long_failures_reach_all_ranks(tmp_path, checkpoint):
    path, _ = checkpoint
    for text in on_ranks(tmp_path, 2, load, path, {"select": _refuse}):
        assert text.startswith(("ValueError: \u00e9", "RankFailedError: rank "))


def _refuse(info):
    raise ValueError("\u00e9" * 1000)


def _converted_as_alone(group, path, dtype):
    together = ringload.torch.load(path, process_group=group, dtype=dtype, timeout=patience)
    alone = ringload.load(path, dtype=dtype).torch()
    words = torch.int16
    return {
        name: tensor.dtype == alone[name].dtype
        and torch.equal(tensor.view(words), alone[name].view(words))
        for name, tensor in together.items()
    }


@pytest.mark.skipif(not hasattr(torch, "float8_e5m2"), reason="this PyTorch has no 8-bit floats")
@pytest.mark.parametrize("ending", ["safetensors", "zt"])
def test_8_bit_floats_are_converted_as_by_a_load(tmp_path, ending):
    numbers = torch.arange(-40, 40, dtype=torch.float32).reshape(8, 10)
    tensors = {
        "e4m3": numbers.to(torch.float8_e4m3fn),
        "e5m2": numbers.to(torch.float8_e5m2),
        "f32": numbers,
    }
    path = str(tmp_path / f"x.{ending}")
    ringload.save(path, tensors)
    for found in on_ranks(tmp_path, 2, _converted_as_alone, path, "bf16"):
        assert found == {"e4m3": True, "e5m2": True, "f32": True}


def test_blocks_that_ranks_cannot_convert_are_refused(tmp_path):
    blocks = pathlib.Path(__file__).parent.parent / "data" / "gguf"
    path = next(str(file) for file in sorted(blocks.glob("*.gguf")) if _has_blocks(file))
    for found in on_ranks(tmp_path, 2, load, path, {"dtype": "bf16"}):
        assert "ranks cannot convert tensors of " in found
    for found in on_ranks(tmp_path, 2, load, path, {"dtype": "int32"}):
        assert "not to i32" in found


def _has_blocks(file):
    with ringload.open(file) as checkpoint:
        return any(info.type and info.dtype == "u8" for info in checkpoint.infos())
