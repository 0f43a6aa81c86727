# SPDX-License-Identifier: Apache-2.0
"""ringload.compat.fastsafetensors: what its users rely on."""

import copy
import json
import pickle
import struct
import types
import warnings

import numpy
import pytest
from conftest import write_safetensors, write_with_duplicate_key

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:ringload does not use GPUDirect:UserWarning")

import ringload  # noqa: E402
from ringload.compat import fastsafetensors as fst  # noqa: E402
from ringload.compat.fastsafetensors.loader import TensorBase  # noqa: E402
from ringload.compat.fastsafetensors.saver import DType, validate_shard_set  # noqa: E402


class Rank:
    def __init__(self, rank, size):
        self._rank, self._size = rank, size

    def rank(self):
        return self._rank

    def size(self):
        return self._size


@pytest.fixture
def files(tmp_path):
    base = numpy.arange(70, dtype=numpy.float32).reshape(7, 10)
    return [
        write_safetensors(
            tmp_path / "a.safetensors", {"a": base, "i": numpy.arange(5)}, {"k": "v"}
        ),
        write_safetensors(tmp_path / "b.safetensors", {"b": base + 100}),
    ]


def test_loader_gives_keys_tensors_and_where_they_are_from(files):
    loader = fst.SafeTensorsFileLoader(fst.SingleGroup(), "cpu", nogds=True)
    loader.add_filenames({0: files})
    assert loader.get_keys() == ["a", "i", "b"] and loader.get_shape("b") == [7, 10]
    buffer = loader.copy_files_to_device()
    assert buffer.get_filename("b") == files[1]
    taken = buffer.get_tensor("a")
    assert torch.equal(buffer.get_tensor("b"), taken + 100)
    assert torch.equal(buffer.get_tensor("a", dtype="BF16"), taken.bfloat16())
    both = buffer.get_multi_cols(["b", "a"], dim=0).get_raw()
    assert torch.equal(both, torch.cat([taken + 100, taken]))
    with pytest.raises(ValueError, match="not found"):
        buffer.get_tensor("no")
    buffer.close()
    loader.close()
    assert taken.sum() == sum(range(70))


def test_conversion_as_it_loads(files):
    loader = fst.SafeTensorsFileLoader(None)
    loader.add_filenames({0: files})
    buffer = loader.copy_files_to_device(dtype="F16")
    assert buffer.get_tensor("a").dtype == buffer.get_tensor("i").dtype == torch.float16


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_ranks_have_blocks_of_files_of_all(files, dim):
    whole = torch.arange(70, dtype=torch.float32).reshape(7, 10)
    blocks = []
    for rank in range(4):
        loader = fst.SafeTensorsFileLoader(Rank(rank, 4))
        loader.add_filenames({0: files[:1], 1: files[1:]})
        buffer = loader.copy_files_to_device()
        blocks.append(buffer.get_sharded("b", dim))
        assert torch.equal(buffer.get_tensor("a"), whole)
        assert (buffer.push_tensor("a", 2) is None) == (rank != 2)
    if dim == -1:
        assert all(torch.equal(block, whole + 100) for block in blocks)
    else:
        assert torch.equal(torch.cat(blocks, dim), whole + 100)
        assert [block.shape[dim] for block in blocks] == (
            [2, 2, 2, 1] if dim == 0 else [3, 3, 3, 1]
        )


def test_filter_and_names_in_two_files(files):
    loader = fst.SafeTensorsFileLoader(None)
    loader.set_tensor_filter(lambda name: name == "b")
    loader.add_filenames({0: files})
    assert loader.get_keys() == ["b"]
    buffer = loader.copy_files_to_device()
    with pytest.raises(ValueError):
        buffer.get_tensor("a")
    twice = fst.SafeTensorsFileLoader(None)
    twice.add_filenames({0: [files[0], files[0].replace("a.safe", "./a.safe")]})
    with pytest.raises(Exception, match="unique"):
        twice.copy_files_to_device()
    keep = fst.expert_parallel_filter(10, 4, 1)
    assert [n for n in range(10) if keep(f"m.experts.{n}.w")] == [3, 4, 5] and keep("m.norm")


def test_fastsafe_open(files):
    with fst.fastsafe_open(files, nogds=True) as file:
        assert file.keys() == ["a", "i", "b"] or set(file.keys()) == {"a", "b", "i"}
        assert file.metadata()[files[0]] == {"k": "v"}
        kept = file.get_tensor("i")
        assert file.get_tensor_wrapped("i").get_raw().dtype == torch.int64
    assert kept.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("how", [{}, {"queue_size": -1}, {"max_batch_bytes": 64 << 20}])
def test_parallel_loader_gives_each_tensor_once(files, how):
    loader = fst.ParallelLoader(None, files, use_tqdm_on_load=False, **how)
    found = {}
    for name, tensor in loader.iterate_weights():
        assert name not in found
        found[name] = tensor.clone()
        del tensor
    assert set(found) == {"a", "b", "i"} and torch.equal(found["b"], found["a"] + 100)
    loader.close()
    some = fst.ParallelLoader(
        None, files, use_tqdm_on_load=False, tensor_filter=lambda name: name != "a"
    )
    assert {name for name, _ in some.iterate_weights()} == {"b", "i"}


@pytest.mark.parametrize("how", [{}, {"max_batch_bytes": 64 << 20}])
def test_parallel_loader_takes_what_the_reference_implementation_takes(tmp_path, how):
    path = write_with_duplicate_key(tmp_path / "d.safetensors")
    loader = fst.ParallelLoader(None, [path], use_tqdm_on_load=False, nogds=True, **how)
    assert {name: tensor.tolist() for name, tensor in loader.iterate_weights()} == {"x": [1, 2]}


@pytest.mark.parametrize("how", [{}, {"max_batch_bytes": 64 << 20}])
def test_a_parallel_loader_that_is_closed_meanwhile_says_so(tmp_path, how):
    arrays = {f"t{i}": numpy.ones(4) for i in range(5)}
    loader = parallel([write_safetensors(tmp_path / "x.safetensors", arrays)], **how)
    pairs = loader.iterate_weights()
    next(pairs)
    loader.close()
    with pytest.raises(RuntimeError, match="the loader is closed"):
        next(pairs)
    with pytest.raises(RuntimeError, match="the loader is closed"):
        next(loader.iterate_weights())


@pytest.mark.parametrize("how", [{}, {"queue_size": -1}, {"max_batch_bytes": 64 << 20}])
def test_a_parallel_loader_yields_in_file_order(tmp_path, how):
    """The large tensor in the middle of each file arrives last."""
    sizes = [1, 20 << 20, 3, 0, 70_000, 5]
    paths, expected = [], []
    for i in range(2):
        arrays = {f"{i}.{9 - j}": numpy.full(n, j, numpy.uint8) for j, n in enumerate(sizes)}
        paths.append(write_safetensors(tmp_path / f"{i}.safetensors", arrays))
        expected += [name for name, array in arrays.items() if array.size]
    for _ in range(3):
        names = [name for name, _ in parallel(paths, **how).iterate_weights()]
        assert [name for name in names if name in expected] == expected
        assert len(names) == 12


def write_raw(path, dtype, shape, nbytes):
    entries = {
        "x": {"dtype": dtype, "shape": shape, "data_offsets": [0, nbytes]},
        "y": {"dtype": "U8", "shape": [2], "data_offsets": [nbytes, nbytes + 2]},
    }
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(nbytes + 2))
    return str(path)


def loaded(path, keep=None):
    loader = fst.SafeTensorsFileLoader(None, "cpu", nogds=True)
    loader.set_tensor_filter(keep)
    loader.add_filenames({0: [path]})
    return loader.copy_files_to_device()


def reads_of(path):
    return [
        lambda: loaded(path),
        lambda: fst.fastsafe_open(path, nogds=True),
        lambda: list(parallel([path]).iterate_weights()),
        lambda: parallel([path], max_batch_bytes=1 << 20),
    ]


def test_f6_is_refused(tmp_path):
    path = write_raw(tmp_path / "x.safetensors", "F6_E2M3", [4], 3)
    for read in (*reads_of(path), lambda: fst.SafeTensorsMetadata.from_file(path)):
        with pytest.raises(ValueError, match="'F6_E2M3' is not a valid DType"):
            read()


@pytest.mark.parametrize("shape, nbytes", [([2, 3], 3), ([0, 3], 0), ([2, 1], 1)])
def test_f4_with_an_odd_last_dimension_is_refused(tmp_path, shape, nbytes):
    path = write_raw(tmp_path / "x.safetensors", "F4", shape, nbytes)
    for read in reads_of(path):
        with pytest.raises(ValueError, match="tensor 'x': F4 of the shape"):
            read()
    keep = "y".__eq__
    assert loaded(path, keep).get_tensor("y").tolist() == [0, 0]
    for how in ({}, {"max_batch_bytes": 1 << 20}):
        pairs = parallel([path], tensor_filter=keep, **how).iterate_weights()
        assert [name for name, _ in pairs] == ["y"]


@pytest.fixture
def three_files(tmp_path):
    """Files of tensors of 1 to 4 MiB, which hold their own number."""
    return [
        write_safetensors(
            tmp_path / f"{i}.safetensors",
            {f"t{i}.{j}": numpy.full((j + 1) << 20, 4 * i + j, numpy.uint8) for j in range(4)},
        )
        for i in range(3)
    ]


def parallel(files, **how):
    return fst.ParallelLoader(None, files, use_tqdm_on_load=False, nogds=True, **how)


@pytest.mark.parametrize(
    "how",
    [
        {"max_batch_bytes": 4 << 20},
        {"max_batch_bytes": 6 << 20, "queue_size": 2},
        {"device_memory_budget": 34 << 20},
        {"device_memory_budget": 40 << 20, "max_batch_bytes": 5 << 20, "queue_size": -1},
    ],
)
def test_tensors_of_a_bounded_load_may_be_kept(three_files, how):
    found = dict(parallel(three_files, **how).iterate_weights())
    assert len(found) == 12
    for name, tensor in found.items():
        i, j = int(name[1]), int(name[3])
        assert tensor.numel() == (j + 1) << 20 and bool((tensor == 4 * i + j).all())
    assert fst.live_allocation_bytes() == 0


# The smallest budgets are those of fastsafetensors 0.5.0.
@pytest.mark.parametrize(
    "mebibytes, how",
    [
        (34, {}),
        (34, {"queue_size": 3}),
        (34, {"max_batch_bytes": 5 << 20}),
        (8, {"accumulate_resident": False}),
        (4, {"accumulate_resident": False, "borrowed_tensors": True}),
        (11, {"resident_tensor": lambda name: name.endswith(".0")}),
    ],
)
def test_a_budget_is_kept_or_refused_before_anything_is_read(three_files, mebibytes, how):
    with pytest.raises(fst.BudgetInfeasibleError, match="tensor 't[02].3'.*device_memory_budget"):
        parallel(three_files, device_memory_budget=(mebibytes << 20) - 1, **how)
    loader = parallel(three_files, device_memory_budget=mebibytes << 20, **how)
    is_resident = how.get("resident_tensor", lambda name: how.get("accumulate_resident", True))
    kept, most = [], 0
    for name, tensor in loader.iterate_weights():
        if is_resident(name):
            kept.append(tensor)
        own = 0 if "borrowed_tensors" in how or is_resident(name) else tensor.numel()
        cached_bytes = sum(each.numel() for each in kept)
        most = max(most, cached_bytes + own + fst.live_allocation_bytes())
        del tensor
    pages = 12 * 4096
    assert most <= (mebibytes << 20) + pages


def test_settings_of_budgets_that_contradict_each_other(three_files):
    with pytest.raises(fst.BudgetInfeasibleError, match="t0.3.*4194304 bytes.*4194303"):
        parallel(three_files, max_batch_bytes=(4 << 20) - 1)
    for how in (
        {"resident_tensor": bool, "accumulate_resident": False},
        {"borrowed_tensors": True},
        {"use_chunk_budget_as_allocation_size": True},
    ):
        with pytest.raises(ValueError):
            parallel(three_files, **how)


@pytest.mark.parametrize("owner", [0, 1])
def test_wrong_calls_are_refused_on_every_rank_alike(tmp_path, owner):
    path = write_safetensors(
        tmp_path / "a.safetensors",
        {"a": numpy.zeros((7, 10), numpy.float32), "s": numpy.array(1.0, numpy.float32)},
    )
    for rank in range(2):
        loader = fst.SafeTensorsFileLoader(Rank(rank, 2), nogds=True)
        loader.add_filenames({owner: [path]})
        buffer = loader.copy_files_to_device()
        for wrong in (
            lambda: buffer.get_sharded("a", 7),
            lambda: buffer.get_sharded("a", -3),
            lambda: buffer.get_sharded("s", 0),
            lambda: buffer.get_sharded("no", 0),
            lambda: buffer.push_tensor("no", 1),
            lambda: buffer.push_tensor("a", 2),
        ):
            with pytest.raises(ValueError):
                wrong()
        assert buffer.get_sharded("a", -2).shape == ((4, 10) if rank == 0 else (3, 10))
        assert buffer.get_sharded("s", -1).item() == 1


def test_memory_of_a_rank_is_released_when_all_of_a_file_was_taken(files):
    loader = fst.SafeTensorsFileLoader(Rank(0, 2), nogds=True)
    loader.add_filenames({0: files})
    before = fst.live_allocation_count()
    buffer = loader.copy_files_to_device()
    assert fst.live_allocation_count() == before + 2 and fst.live_allocation_bytes() > 0
    block = buffer.get_sharded("a", 0)
    assert fst.live_allocation_count() == before + 2
    buffer.get_tensor("i")
    assert fst.live_allocation_count() == before + 1
    assert torch.equal(block, buffer.get_sharded("a", 0))  # Which reads it again.
    buffer.close()
    assert fst.live_allocation_count() == before


def test_gpudirect_storage_is_warned_of_once(files, monkeypatch):
    from ringload.compat.fastsafetensors import loader

    monkeypatch.setattr(loader, "_has_warned_of_gds", False)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fst.fastsafe_open(files, nogds=True)
        assert not found
        for _ in range(2):
            fst.fastsafe_open(files)
            fst.SafeTensorsFileLoader(None)
            fst.ParallelLoader(None, files)
    assert [str(each.message).count("GPUDirect Storage") for each in found] == [1]


def test_headers_and_frames(files):
    meta = fst.SafeTensorsMetadata.from_file(files[0])
    assert meta.src == files[0] and meta.metadata == {"k": "v"}
    assert list(meta.tensors) == ["a", "i"] and meta.size_bytes == meta.header_length + 320
    begin = meta.header_length
    assert meta.select_byte_ranges(lambda name: name == "i") == [(begin + 280, begin + 320)]
    assert meta.select_byte_ranges(lambda name: True) == [(begin, begin + 320)]
    frame = meta.tensors["a"]
    assert (frame.dtype, frame.shape, frame.strides) == (DType.F32, [7, 10], [10, 1])
    assert frame == meta.tensors["a"] and not frame.sliced
    part = frame[1:-1:2, -1]
    assert (part.shape, part.strides, part.offsets) == ([3, 1], [20, 1], [1, 9])
    assert part.sliced and part.data_offsets == frame.data_offsets
    assert frame[9:].shape == []
    with pytest.raises(IndexError):
        frame[7]
    with pytest.raises(IndexError):
        frame[0, 0, 0]
    loader = fst.SafeTensorsFileLoader(None, nogds=True)
    loader.add_filenames({0: files})
    assert loader.frames["a"] == frame and set(loader.frames) == {"a", "i", "b"}
    assert fst.get_device_numa_node(None) is None


def test_broken_headers_are_refused(tmp_path):
    def entry(first, last, shape):
        return {"dtype": "U8", "shape": shape, "data_offsets": [first, last]}

    wrong = {
        "HeaderTooSmall": b"\0" * 4,
        "HeaderTooLarge": (1 << 40).to_bytes(8, "little"),
        "InvalidHeaderLength": (100).to_bytes(8, "little") + b"{}",
        "InvalidOffset": {"a": entry(1, 2, [1])},
        "TensorInvalidInfo": {"a": entry(0, 2, [3])},
        "MetadataIncompleteBuffer": {"a": entry(0, 2, [2])},
        "shape must contain": {"a": entry(0, 2, [-2])},
    }
    for message, content in wrong.items():
        if isinstance(content, dict):
            text = json.dumps(content).encode()
            content = len(text).to_bytes(8, "little") + text
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(ValueError, match=message):
            fst.SafeTensorsMetadata.from_file(str(tmp_path / "a"))


def test_auto_loader_is_told_by_a_file(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FASTSAFETENSORS_CONFIG", raising=False)
    assert fst.load_config() == fst.LoaderConfig()
    loader = fst.AutoLoader(None, files)
    assert {name for name, _ in loader.iterate_weights()} == {"a", "i", "b"}
    loader.close()

    settings = tmp_path / "settings.json"
    settings.write_text(
        '{"use_pipeline": true, "parallel": {"queue_size": 2, "other": 1}, "unknown": 3,'
        ' "3fs": {"mount_point": "/x", "set_numa": false}, "use_tqdm_on_load": false}'
    )
    monkeypatch.setenv("FASTSAFETENSORS_CONFIG", str(settings))
    loader = fst.AutoLoader(fst.SingleGroup(), files)
    assert loader.config.queue_size == 2 and loader.config.use_pipeline
    assert loader.config.get_extension_config("3fs") == {"mount_point": "/x"}
    assert len(list(loader.iterate_weights())) == 3
    loader.close()
    settings.write_text('{"loader": "3fs"}')
    with pytest.raises(ValueError, match="'3fs': ringload reads no 3FS"):
        fst.AutoLoader(None, files)
    settings.write_text('{"loader": "other"}')
    with pytest.raises(ValueError, match="Unknown loader type: 'other'"):
        fst.AutoLoader(None, files)
    settings.write_text('{"base": {"copier_type": "nogds", "bbuf_size_kb": 4}}')
    assert len(list(fst.AutoLoader(None, files).iterate_weights())) == 3
    translate = fst.SafeTensorsFileLoader.process_extension_config
    assert translate({"copier_type": "fgds", "x": 1}) == {"nogds": False, "use_fgds": True, "x": 1}
    assert translate({"copier_type": "nogds"}) == {"nogds": True, "use_fgds": False}
    assert translate({}, hf_weights_files=files) == {"nogds": False, "use_fgds": False}
    monkeypatch.setenv("FASTSAFETENSORS_CONFIG", str(tmp_path / "no"))
    with pytest.raises(FileNotFoundError):
        fst.load_config()


def test_parallel_saver_writes_shards_that_are_one_set(tmp_path):
    tensors = {f"t{i}": torch.full((i + 1, 4), float(i)).bfloat16() for i in range(9)}
    saver = fst.ParallelSaver(num_shards=3, fsync=True)
    paths = saver.save(
        tensors, f"{tmp_path}/m", metadata={"k": "v"}, shard0_metadata={"first": "1"}
    )
    assert paths == [f"{tmp_path}/m-{i:05}-of-00003.safetensors" for i in (1, 2, 3)]
    found, shards = {}, []
    for path in paths:
        model = ringload.load(path)
        found.update(model.torch())
        shards.append(types.SimpleNamespace(src=path, metadata=dict(model.metadata)))
        assert model.metadata["k"] == "v" and ("first" in model.metadata) == (path == paths[0])
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
    validate_shard_set(shards)
    with pytest.raises(fst.ShardSetError):
        validate_shard_set(shards[::-1])
    with pytest.raises(ValueError, match="positive"):
        fst.ParallelSaver(num_shards=0)


def test_parallel_saver_of_a_callers_encoder(tmp_path):
    entries = [
        fst.WriteEntry("a", DType.U8, [2, 3], 6, source=b"abcdef"),
        fst.WriteEntry("b", DType.F32, [], 4, source=b"\0\0\0\0"),
    ]

    def fill(work):
        assert [entry.name for _, entry in work] == ["a", "b"]
        for buffer, entry in work:
            buffer[:] = entry.source

    saver = fst.ParallelSaver(num_shards=1, fill=fill)
    (path,) = saver.save_entries(entries, f"{tmp_path}/m", header_align=4096)
    model = ringload.load(path)
    assert bytes(model["a"]) == b"abcdef" and model["b"].shape == ()
    entries[1].nbytes = 5
    with pytest.raises(ValueError, match="4 bytes, not 5"):
        saver.save_entries(entries, f"{tmp_path}/m")
    with pytest.raises(ValueError, match="duplicate"):
        saver.save_entries([entries[0]] * 2, f"{tmp_path}/m")


def test_expert_filter_of_the_environment(monkeypatch):
    for name in ("SLICE", "NUM_EXPERTS", "SIZE", "RANK"):
        monkeypatch.delenv(f"FASTSAFETENSORS_EP_{name}", raising=False)
    assert fst.expert_parallel_filter_from_env() is None
    for name, value in (("SLICE", 1), ("NUM_EXPERTS", 8), ("SIZE", 2), ("RANK", 1)):
        monkeypatch.setenv(f"FASTSAFETENSORS_EP_{name}", str(value))
    keep = fst.expert_parallel_filter_from_env()
    assert keep("m.experts.4.w") and not keep("m.experts.3.w") and keep("m.norm")


def test_wrapped_tensors_are_copied_and_pickled(files):
    tensor = TensorBase(torch.arange(3))
    assert torch.equal(copy.copy(tensor).get_raw(), tensor.get_raw())
    assert torch.equal(pickle.loads(pickle.dumps(tensor)).get_raw(), tensor.get_raw())


def test_closed_parallel_loader_has_no_open_files(files):
    loader = fst.ParallelLoader(
        None, files, nogds=True, use_tqdm_on_load=False, max_batch_bytes=1 << 20
    )
    assert loader._chunks
    loader.close()
    assert not loader._chunks
