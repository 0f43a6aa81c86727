# SPDX-License-Identifier: Apache-2.0
"""ringload.compat.fastsafetensors: what its users rely on."""

import numpy
import pytest
from conftest import write_safetensors

torch = pytest.importorskip("torch")

from ringload.compat import fastsafetensors as fst  # noqa: E402


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
