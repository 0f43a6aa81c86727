# SPDX-License-Identifier: Apache-2.0
"""ringload.torch.load_shards: folders of a file by each rank, loaded into other layouts."""

import json
import random

import numpy
import pytest
from conftest import write_safetensors

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import ringload  # noqa: E402
from ringload.torch import load_shards  # noqa: E402


def chunks(array, ranks, dim):
    """As torch.chunk() divides; a rank may get nothing."""
    each = -(-array.shape[dim] // ranks)
    parts = []
    for rank in range(ranks):
        index = [slice(None)] * array.ndim
        index[dim] = slice(rank * each, (rank + 1) * each)
        parts.append(numpy.ascontiguousarray(array[tuple(index)]))
    return parts


def save_ranks(folder, tensors, ranks, cuts, name="model-rank-{}-part-0.safetensors"):
    """A file of each rank, which has its part of each tensor."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {
        key: [array] * ranks if cuts[key] is None else chunks(array, ranks, cuts[key])
        for key, array in tensors.items()
    }
    for rank in range(ranks):
        path = folder / name.format(rank)
        path.parent.mkdir(exist_ok=True)
        write_safetensors(path, {key: part[rank] for key, part in parts.items()})
    return folder


dtypes = [numpy.float32, numpy.float16, numpy.int64, numpy.uint8, numpy.float64, numpy.bool_]


def random_tensors(choose, count):
    numbers = numpy.random.default_rng(choose.randrange(1 << 30))
    found = {}
    for number in range(count):
        shape = [choose.randrange(1, 13) for _ in range(choose.randrange(4))]
        found[f"t{number}"] = numbers.integers(0, 200, shape).astype(choose.choice(dtypes))
    return found


def random_cuts(choose, tensors):
    return {
        name: None if array.ndim == 0 or choose.random() < 0.2 else choose.randrange(array.ndim)
        for name, array in tensors.items()
    }


def check(found, tensors, cuts, rank, ranks):
    assert found.keys() == tensors.keys()
    for name, array in tensors.items():
        expected = array if cuts[name] is None else chunks(array, ranks, cuts[name])[rank]
        assert tuple(found[name].shape) == expected.shape, name
        assert found[name].numpy().dtype == array.dtype, name
        assert found[name].numpy().tobytes() == expected.tobytes(), name


def test_random_pairs_of_layouts_are_as_gathering_and_slicing(tmp_path):
    choose = random.Random(7)
    pairs = 0
    for number in range(25):
        tensors = random_tensors(choose, 8)
        saved, ranks = random_cuts(choose, tensors), choose.randrange(1, 6)
        folder = save_ranks(tmp_path / str(number), tensors, ranks, saved)
        for _ in range(5):
            plan, wanted = random_cuts(choose, tensors), choose.randrange(1, 6)
            rank = choose.randrange(wanted)
            found = load_shards(folder, saved=saved, plan=plan, rank=rank, ranks=wanted)
            check(found, tensors, plan, rank, wanted)
            pairs += len(tensors)
    assert pairs == 1000


@pytest.mark.parametrize(
    "name",
    ["model-rank-{}-part-0.safetensors", "model_rank_{}.safetensors", "mp_rank_0{}.safetensors",
     "rank{}.safetensors", "tp_rank_{}/model.safetensors", "Model-Rank-{}.safetensors"],
)  # fmt: skip
def test_names_of_files_that_say_their_rank(tmp_path, name):
    tensors = {"w": numpy.arange(24, dtype=numpy.float32).reshape(6, 4)}
    folder = save_ranks(tmp_path / "x", tensors, 3, {"w": 0}, name)
    assert load_shards(folder, saved={"w": 0})["w"].numpy().tolist() == tensors["w"].tolist()


def test_parts_and_stages(tmp_path):
    first, last = numpy.arange(8.0).reshape(2, 4), numpy.arange(6.0)
    for rank in range(2):
        for stage, name, array in ((0, "first", first), (1, "last", last)):
            part = chunks(array, 2, array.ndim - 1)[rank]
            path = tmp_path / f"pp_rank_{stage}-model-rank-{rank}-part-{stage}.safetensors"
            write_safetensors(path, {name: part})
    found = load_shards(tmp_path, saved=-1)
    assert found["first"].numpy().tolist() == first.tolist()
    assert found["last"].numpy().tolist() == last.tolist()


def test_uneven_parts_and_parts_of_one_rank_need_no_plan(tmp_path):
    tensors = {"w": numpy.arange(35.0).reshape(5, 7)}
    folder = save_ranks(tmp_path / "x", tensors, 2, {"w": 1})
    write_safetensors(folder / "model-rank-1-part-1.safetensors", {"alone": numpy.ones(3)})
    found = load_shards(folder)
    assert found["w"].numpy().tolist() == tensors["w"].tolist()
    assert found["alone"].tolist() == [1, 1, 1]


def test_what_the_files_do_not_say_is_refused_by_name(tmp_path):
    tensors = {"norm": numpy.ones(4), "w": numpy.ones((4, 4))}
    folder = save_ranks(tmp_path / "x", tensors, 2, {"norm": None, "w": 1})
    with pytest.raises(ringload.Error, match="'norm'.*2 ranks.*do not say.*saved="):
        load_shards(folder)
    with pytest.raises(ringload.Error, match="'w'.*do not say"):
        load_shards(folder, saved={"norm": None})
    found = load_shards(folder, saved={"norm": None, "w": 1})
    assert {name: tuple(tensor.shape) for name, tensor in found.items()} == {
        "norm": (4,), "w": (4, 4)
    }  # fmt: skip
    with pytest.raises(ringload.Error, match="no tensor matches 'other'"):
        load_shards(folder, saved={"norm": None, "w": 1, "other": 0})
    with pytest.raises(ringload.Error, match="'norm'.*no dimension 1"):
        load_shards(folder, saved={"norm": 1, "w": 1})


def test_styles_of_plans_say_how_tensors_were_divided(tmp_path):
    whole = {
        "a.q_proj.weight": numpy.arange(48.0).reshape(8, 6),
        "a.o_proj.weight": numpy.arange(48.0).reshape(6, 8),
        "a.gate_up_proj.weight": numpy.arange(80.0).reshape(16, 5),
        "norm": numpy.ones(3),
    }
    halves = numpy.split(whole["a.gate_up_proj.weight"], 2)
    for rank in range(2):
        packed = numpy.concatenate([chunks(half, 2, 0)[rank] for half in halves])
        parts = {
            "a.q_proj.weight": chunks(whole["a.q_proj.weight"], 2, 0)[rank],
            "a.o_proj.weight": chunks(whole["a.o_proj.weight"], 2, 1)[rank],
            "a.gate_up_proj.weight": packed,
            "norm": whole["norm"],
        }
        write_safetensors(tmp_path / f"model-rank-{rank}-part-0.safetensors", parts)
    saved = {
        "*.q_proj.weight": "colwise",
        "*.o_proj.weight": "rowwise",
        "*.gate*": "packed_colwise",
        "norm": "replicate",
    }
    found = load_shards(tmp_path, saved=saved)
    assert all(found[name].numpy().tolist() == array.tolist() for name, array in whole.items())
    again = load_shards(tmp_path, saved=saved, plan={"*.gate*": "packed_colwise"}, ranks=4,
                        rank=3)  # fmt: skip
    expected = numpy.concatenate([chunks(half, 4, 0)[3] for half in halves])
    assert again["a.gate_up_proj.weight"].numpy().tolist() == expected.tolist()


def test_folders_that_are_not_whole_are_refused(tmp_path):
    tensors = {"w": numpy.ones((6, 2))}
    folder = save_ranks(tmp_path / "x", tensors, 3, {"w": 0})
    (folder / "model-rank-1-part-0.safetensors").rename(tmp_path / "away.safetensors")
    with pytest.raises(ringload.Error, match="rank 1 has no file"):
        load_shards(folder, saved=0)
    write_safetensors(folder / "model-rank-1-part-0.safetensors", {"other": numpy.ones(2)})
    with pytest.raises(ringload.Error, match="'w': 2 of 3 ranks"):
        load_shards(folder, saved={"w": 0, "other": None})
    write_safetensors(folder / "model-rank-1-part-0.safetensors", {"w": numpy.ones((2, 2), "f4")})
    with pytest.raises(ringload.Error, match="'w': is f32.*expected f64"):
        load_shards(folder, saved=0)
    write_safetensors(folder / "model-rank-1-part-0.safetensors", {"w": numpy.ones((2, 3))})
    with pytest.raises(ringload.Error, match="'w'.*overlap|'w'.*missing"):
        load_shards(folder, saved=0)
    write_safetensors(folder / "unknown.safetensors", {"w": numpy.ones(1)})
    with pytest.raises(ringload.Error, match="unknown.safetensors: the name says no rank"):
        load_shards(folder, saved=0)
    with pytest.raises(ringload.Error, match="no safetensors"):
        (tmp_path / "none").mkdir()
        load_shards(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        load_shards(tmp_path / "nosuch")


def test_a_tensor_twice_in_the_files_of_a_rank_is_refused(tmp_path):
    for part in range(2):
        write_safetensors(tmp_path / f"model-rank-0-part-{part}.safetensors", {"w": numpy.ones(2)})
    with pytest.raises(ringload.Error, match="'w': two files of rank 0"):
        load_shards(tmp_path)


def test_select_and_dtype(tmp_path):
    tensors = {"w": numpy.arange(6, dtype=numpy.float32), "n": numpy.arange(6)}
    folder = save_ranks(tmp_path / "x", tensors, 2, {"w": 0, "n": 0})
    found = load_shards(folder, saved=0, select="w", dtype="bf16", rank=1, ranks=3, plan=0)
    assert found.keys() == {"w"}
    assert torch.equal(found["w"], torch.tensor([2, 3], dtype=torch.bfloat16))
    with pytest.raises(ringload.Error, match="select: no tensor"):
        load_shards(folder, saved=0, select="nosuch")
    with pytest.raises(ringload.Error, match="rank: 2 is not one of 2"):
        load_shards(folder, saved=0, rank=2, ranks=2)
    with pytest.raises(ringload.Error, match="unknown option colour"):
        load_shards(folder, saved=0, colour="red")


# --- Files that say where each piece lies


def boxes(choose, shape):
    """A grid of boxes that fill the shape."""
    found = [((), ())]
    for size in shape:
        bounds = sorted({0, size, *(choose.randrange(size + 1) for _ in range(2))})
        found = [
            (first + (a,), end + (b,)) for first, end in found for a, b in zip(bounds, bounds[1:])
        ]
    return found


def save_with_offsets(folder, tensors, choose, files):
    folder.mkdir(parents=True)
    held, layout = [{} for _ in range(files)], [{} for _ in range(files)]
    for name, array in tensors.items():
        for number, (first, end) in enumerate(boxes(choose, array.shape)):
            index = tuple(slice(a, b) for a, b in zip(first, end))
            file = next(f for f in [*range(number, files), *range(files)] if name not in held[f])
            held[file][name] = array[index].copy()
            layout[file][name] = {"saved_offsets": list(first)}
    for file in range(files):
        path = folder / f"shard-{file:05}-model-00001-of-00001.safetensors"
        noted = {"DCP_SHARDING_INFO": json.dumps(layout[file]), "DCP_VERSION": "1.0"}
        write_safetensors(path, held[file], noted)
    return folder


def test_boxes_of_any_dimensions_as_pytorch_notes_them(tmp_path):
    choose = random.Random(11)
    for number in range(20):
        tensors = random_tensors(choose, 6)
        folder = save_with_offsets(tmp_path / str(number), tensors, choose, 27)
        for _ in range(4):
            plan, ranks = random_cuts(choose, tensors), choose.randrange(1, 5)
            rank = choose.randrange(ranks)
            found = load_shards(folder, plan=plan, rank=rank, ranks=ranks)
            check(found, tensors, plan, rank, ranks)


def test_offsets_that_leave_gaps_overlap_or_make_no_sense_are_refused(tmp_path):
    def save(number, offsets):
        noted = {"DCP_SHARDING_INFO": json.dumps({"w": {"saved_offsets": offsets}})}
        path = tmp_path / f"shard-0000{number}-model-00001-of-00001.safetensors"
        write_safetensors(path, {"w": numpy.ones((2, 3))}, noted)

    for offsets, text in (([3, 0], "a piece is missing"), ([1, 0], "overlap"), ([-1, 0], "offsets"),
                          ([0], "offsets"), ("x", "DCP_SHARDING_INFO")):  # fmt: skip
        save(0, [0, 0])
        save(1, offsets)
        with pytest.raises(ringload.Error, match=text):
            load_shards(tmp_path)
    save(1, [2, 0])
    assert load_shards(tmp_path)["w"].shape == (4, 3)
    with pytest.raises(ringload.Error, match="`saved` must be left out"):
        load_shards(tmp_path, saved=0)


def saved_by_rank(group, folder):
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2))
    whole = torch.arange(60, dtype=torch.float32).reshape(6, 10)
    state = {
        "w": distribute_tensor(whole, mesh, [Shard(0), Shard(1)]),
        "b": distribute_tensor(whole[0].clone(), mesh, [Shard(0), Shard(0)]),
    }
    writer = HuggingFaceStorageWriter(path=folder, save_distributed=True)
    checkpoint.save(state, storage_writer=writer)


def test_what_the_writer_of_pytorch_saves_is_loaded(tmp_path):
    pytest.importorskip("torch.distributed.checkpoint.hf_storage", reason="PyTorch 2.8 has it")
    ranks = pytest.importorskip("test_torch_ranks", reason="no Gloo")
    folder = tmp_path / "saved"
    assert ranks.on_ranks(tmp_path, 4, saved_by_rank, str(folder)) == [None] * 4
    whole = torch.arange(60, dtype=torch.float32).reshape(6, 10)
    found = load_shards(folder)
    assert torch.equal(found["w"], whole) and torch.equal(found["b"], whole[0])
    part = load_shards(folder, plan={"w": 1}, rank=2, ranks=3)
    assert torch.equal(part["w"], whole.chunk(3, 1)[2])
