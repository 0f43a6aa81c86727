# SPDX-License-Identifier: Apache-2.0
"""Folders of torch.distributed.checkpoint, written by PyTorch, and read in any other layout."""

import itertools
import random

import numpy
import pytest

import ringload

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
dcp = pytest.importorskip("torch.distributed.checkpoint", reason="this PyTorch is older")
if not hasattr(dcp, "save"):
    pytest.skip("this PyTorch has an older torch.distributed.checkpoint", allow_module_level=True)

from torch.distributed.checkpoint import filesystem, metadata  # noqa: E402


def cuts_of(choose, size, parts_max):
    """The ends of ranges that divide [0, size)."""
    inner = choose.sample(range(1, size), min(choose.randrange(parts_max), size - 1))
    return [0, *sorted(inner), size]


def grid(choose, shape, parts_max=4):
    """Boxes that cover a shape: (offsets, sizes) each."""
    ranges = [
        [(a, b - a) for a, b in itertools.pairwise(cuts_of(choose, size, parts_max))]
        for size in shape
    ]
    return [tuple(zip(*box, strict=True)) or ((), ()) for box in itertools.product(*ranges)]


def index_of(box):
    return tuple(slice(first, first + count) for first, count in zip(*box, strict=True))


def write_folder(folder, tensors, layouts, files, choose):
    """What the ranks of a job write, each some of the boxes, as PyTorch's classes describe it."""
    folder.mkdir()
    state, storage = {}, {}
    open_files = [open(folder / f"__{n}_0.distcp", "wb") for n in range(files)]
    for name, tensor in tensors.items():
        chunks = []
        for number, box in enumerate(layouts[name]):
            offsets, sizes = (torch.Size(part) for part in box)
            chunks.append(metadata.ChunkStorageMetadata(offsets=offsets, sizes=sizes))
            rank = choose.randrange(files)
            begin = open_files[rank].tell()
            torch.save(tensor[index_of(box)].clone(), open_files[rank])
            storage[metadata.MetadataIndex(name, offsets, number)] = filesystem._StorageInfo(
                f"__{rank}_0.distcp", begin, open_files[rank].tell() - begin
            )
        state[name] = metadata.TensorStorageMetadata(
            properties=metadata.TensorProperties(dtype=tensor.dtype),
            size=tensor.size(), chunks=chunks,
        )  # fmt: skip
    for file in open_files:
        file.close()
    with open(folder / ".metadata", "wb") as file:
        import pickle

        pickle.dump(metadata.Metadata(state_dict_metadata=state, storage_data=storage), file)
    return str(folder)


dtypes = [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.float64, torch.bool]


def random_tensor(choose, generator):
    shape = [choose.randrange(1, 14) for _ in range(choose.randrange(5))]
    dtype = choose.choice(dtypes)
    return torch.randint(0, 2, shape, generator=generator).to(dtype) if dtype == torch.bool else (
        torch.randint(0, 200, shape, generator=generator).to(dtype)
    )


def test_random_pairs_of_layouts_are_as_gathering_and_slicing(tmp_path):
    choose = random.Random(31)
    generator = torch.Generator().manual_seed(31)
    pairs = 0
    for folder_number in range(25):
        tensors = {f"t{n}": random_tensor(choose, generator) for n in range(10)}
        layouts = {name: grid(choose, tensor.shape) for name, tensor in tensors.items()}
        path = write_folder(tmp_path / str(folder_number), tensors, layouts, 3, choose)
        with ringload.open(path) as checkpoint:
            assert set(checkpoint) == set(tensors)
            for name, tensor in tensors.items():
                whole = checkpoint[name][:] if tensor.ndim else checkpoint[name].load().result()
                assert torch.equal(whole.torch(), tensor), (folder_number, name)
                for _ in range(4):
                    index = index_of(choose.choice(grid(choose, tensor.shape)))
                    part = checkpoint[name].load(index).result().torch()
                    assert torch.equal(part, tensor[index]), (folder_number, name, index)
                    pairs += 1
    assert pairs == 1000


def test_what_pytorch_saves_is_loaded_and_values_are_named(tmp_path):
    weight = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4)
    state = {"model": {"w": weight, "t": weight.t(), "s": torch.tensor(5)}, "step": 7}
    dcp.save(state, checkpoint_id=tmp_path / "saved", no_dist=True)
    model = ringload.load(tmp_path / "saved")
    assert set(model) == {"model.w", "model.t", "model.s"}
    assert torch.equal(model["model.w"].torch(), weight)
    assert torch.equal(model["model.t"].torch(), weight.t())
    assert model["model.s"].item() == 5
    with ringload.open(tmp_path / "saved" / ".metadata") as checkpoint:
        assert any("'step'" in note for note in checkpoint.notes)


def test_a_folder_without_one_of_its_files_is_refused(tmp_path):
    choose = random.Random(1)
    tensors = {"w": torch.zeros(8, 8)}
    layouts = {"w": [((0, 0), (4, 8)), ((4, 0), (4, 8))]}
    path = write_folder(tmp_path / "x", tensors, layouts, 1, choose)
    (tmp_path / "x" / "__0_0.distcp").unlink()
    with pytest.raises(ringload.Error):
        ringload.load(path)


def test_one_file_of_a_folder_is_refused_with_a_hint(tmp_path):
    dcp.save({"w": torch.zeros(3)}, checkpoint_id=tmp_path / "saved", no_dist=True)
    with pytest.raises(ringload.InvalidFileError, match="expected its folder"):
        ringload.load(tmp_path / "saved" / "__0_0.distcp")


def test_a_fill_and_a_conversion_take_every_box(tmp_path):
    choose = random.Random(4)
    tensors = {"w": torch.arange(60, dtype=torch.float32).reshape(6, 10)}
    layouts = {"w": grid(choose, (6, 10))}
    path = write_folder(tmp_path / "x", tensors, layouts, 2, choose)
    into = numpy.zeros((6, 10), numpy.float32)
    ringload.fill(path, {"w": into})
    assert (into == tensors["w"].numpy()).all()
    converted = ringload.load(path, dtype="bf16")["w"].torch()
    assert torch.equal(converted, tensors["w"].to(torch.bfloat16))
