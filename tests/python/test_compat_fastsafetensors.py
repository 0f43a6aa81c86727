# SPDX-License-Identifier: Apache-2.0
"""ringload.compat.fastsafetensors: what its users rely on."""

import types

import numpy
import pytest
from conftest import write_safetensors

torch = pytest.importorskip("torch")

import ringload  # noqa: E402
from ringload.compat import fastsafetensors as fst  # noqa: E402
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


def test_budget_that_cannot_be_kept(large):
    loader = fst.ParallelLoader(None, [large], use_tqdm_on_load=False, max_batch_bytes=4 << 20)
    with pytest.raises(fst.BudgetInfeasibleError):
        list(loader.iterate_weights())


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
    with pytest.raises(ValueError, match="3fs"):
        fst.AutoLoader(None, files)
    monkeypatch.setenv("FASTSAFETENSORS_CONFIG", str(tmp_path / "no"))
    with pytest.raises(FileNotFoundError):
        fst.load_config()


def test_parallel_saver_writes_shards_that_are_one_set(tmp_path):
    tensors = {f"t{i}": torch.full((i + 1, 4), float(i)).bfloat16() for i in range(9)}
    saver = fst.ParallelSaver(num_shards=3, fsync=True)
    paths = saver.save(tensors, f"{tmp_path}/m", metadata={"k": "v"}, shard0_metadata={"first": "1"})
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
