# SPDX-License-Identifier: Apache-2.0
"""ringload.compat.safetensors: what its users rely on. The package's own tests run elsewhere."""

import os
import stat

import numpy
import pytest
from conftest import same

from ringload.compat.safetensors import SafetensorError, TensorSpec, safe_open, serialize
from ringload.compat.safetensors import numpy as st_numpy


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_safe_open_gives_names_tensors_and_what_the_header_says(sample, arrays, backend):
    with safe_open(sample, framework="np", backend=backend) as file:
        assert file.keys() == sorted(arrays)
        assert file.metadata() == {"made_by": "conftest"}
        for name in file.offset_keys():
            assert same(file.get_tensor(name), arrays[name]), name
            meta = file.get_tensor_meta(name)
            assert meta.shape == list(arrays[name].shape)
            assert meta.data_offsets[1] - meta.data_offsets[0] == arrays[name].nbytes
        assert file.get_tensor_meta(file.offset_keys()[0]).data_offsets[0] == 0
        assert all(same(array, arrays[name]) for name, array in file.get_tensors().items())
        with pytest.raises(SafetensorError, match="no"):
            file.get_tensor("no")
    with pytest.raises(SafetensorError, match="closed"):
        file.keys()


@pytest.mark.parametrize("framework", ["np", "pt"])
def test_a_tensor_may_be_written_to_and_outlives_the_handle(sample, arrays, framework):
    if framework == "pt":
        pytest.importorskip("torch")
    with safe_open(sample, framework=framework) as file:
        array = file.get_tensor("model.layers.0.weight")
    array[0] = 5
    assert not same(numpy.asarray(array), arrays["model.layers.0.weight"])
    with safe_open(sample, framework=framework) as file:
        again = numpy.asarray(file.get_tensor("model.layers.0.weight"))
    assert same(again, arrays["model.layers.0.weight"])


def test_slices_read_ranges_rows_and_steps(sample, arrays):
    expected = arrays["model.layers.0.weight"]
    with safe_open(sample, framework="np") as file:
        part = file.get_slice("model.layers.0.weight")
        assert (part.get_shape(), part.get_dtype()) == ([300, 70], "F32")
        for index in (
            numpy.s_[:], numpy.s_[2:9], numpy.s_[3], numpy.s_[-1, 5:], numpy.s_[:, ::8],
            numpy.s_[..., 1], numpy.s_[5:5],
        ):  # fmt: skip
            assert numpy.array_equal(part[index], expected[index]), index
        with pytest.raises(SafetensorError, match="out of bounds"):
            part[:301]


def test_an_index_is_an_integer_of_any_library(sample, arrays):
    torch = pytest.importorskip("torch")
    expected = arrays["model.layers.0.weight"]
    with safe_open(sample, framework="np") as file:
        part = file.get_slice("model.layers.0.weight")
        for one in (numpy.int64(1), torch.tensor(1)):
            assert numpy.array_equal(part[one], expected[1])
            assert numpy.array_equal(part[..., one], expected[..., 1])
            assert numpy.array_equal(part[2:5, one], expected[2:5, 1])
        with pytest.raises(SafetensorError, match="out of bounds"):
            part[numpy.int64(300)]


def test_prefetch_hands_out_each_tensor_once(sample, arrays):
    with safe_open(sample, framework="np") as file:
        plan = {"f32": None, "model.layers.0.weight": slice(10, 20), "i8": None}
        with file.prefetch(plan) as loader:
            assert set(loader.names()) == set(plan) and len(loader) == 3
            taken = loader.take("model.layers.0.weight")
            assert same(taken, arrays["model.layers.0.weight"][10:20])
            with pytest.raises(SafetensorError, match="already delivered"):
                loader.take("model.layers.0.weight")
            assert {name for name, _ in loader} == {"f32", "i8"}
        with pytest.raises(SafetensorError, match="closed"):
            loader.take("f32")
        with pytest.raises(SafetensorError, match="step 1"):
            file.prefetch({"model.layers.0.weight": slice(0, 9, 2)})


@pytest.mark.parametrize(
    "plan, reason",
    [
        ({}, "selects no tensors"),
        ({"no": None}, "does not contain tensor no"),
        ({"f32": 3}, "None or a slice"),
        ({"scalar": slice(0, 1)}, "0-d"),
        ({"model.layers.0.weight": slice(0, 301)}, "301 is out of range for 300 rows"),
        ({"model.layers.0.weight": slice(-301, None)}, "-301 is out of range"),
        ({"model.layers.0.weight": slice(0, 3, 0)}, "invalid prefetch plan slice"),
        ({"model.layers.0.weight": (slice(0, 1), slice(0, 71))}, "71 is out of range for 70"),
    ],
)
def test_a_plan_that_misses_its_tensors_is_refused(sample, plan, reason):
    with safe_open(sample, framework="np") as file:
        with pytest.raises(SafetensorError, match=reason):
            file.prefetch(plan)


def test_a_plan_may_count_from_the_end_and_take_columns(sample, arrays):
    expected = arrays["model.layers.0.weight"]
    with safe_open(sample, framework="np") as file:
        for part in (slice(-300, 300), slice(-3, None), (slice(4), slice(60, 70)), slice(5, 5)):
            with file.prefetch({"model.layers.0.weight": part}) as loader:
                assert same(loader.take("model.layers.0.weight"), expected[part])
                with pytest.raises(SafetensorError, match="not in the prefetch plan"):
                    loader.take("f32")


def test_a_file_is_opened_for_a_device_that_is_not_here(sample, arrays, monkeypatch):
    monkeypatch.setattr("ringload.compat._shared.has_direct", lambda device: True)
    with safe_open(sample, framework="np", device="cuda:99") as file:
        assert file.keys() == sorted(arrays)
        assert file.get_slice("f32").get_shape() == list(arrays["f32"].shape)
        for read in (
            lambda: file.get_tensor("f32"),
            lambda: file.get_slice("f32")[:1],
            lambda: file.get_tensors(),
            lambda: file.prefetch(),
        ):
            with pytest.raises(SafetensorError, match="(?i)cuda"):
                read()
        with file.prefetch({"f32": None}, device="cpu") as loader:
            assert same(loader.take("f32"), arrays["f32"])


def test_bytes_and_files_are_the_same(arrays, tmp_path):
    data = st_numpy.save(arrays, metadata={"a": "b"})
    st_numpy.save_file(arrays, tmp_path / "x.safetensors", metadata={"a": "b"})
    assert (tmp_path / "x.safetensors").read_bytes() == data
    st_numpy.save_file(arrays, tmp_path / "other.name", metadata={"a": "b"})
    assert (tmp_path / "other.name").read_bytes() == data
    assert all(same(array, arrays[name]) for name, array in st_numpy.load(data).items())
    assert all(
        same(array, arrays[name])
        for name, array in st_numpy.load_file(tmp_path / "other.name").items()
    )


def test_errors_are_those_of_the_package(tmp_path):
    with pytest.raises(FileNotFoundError):
        safe_open(tmp_path / "no", framework="np")
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(SafetensorError):
        safe_open(tmp_path / "bad.safetensors", framework="np")
    with pytest.raises(SafetensorError):
        st_numpy.load(b"\x08\0\0\0\0\0\0\0{}      trailing")
    with pytest.raises(SafetensorError, match="framework"):
        safe_open(tmp_path / "no", framework="abacus")


def test_modules_of_torch(sample, tmp_path):
    torch = pytest.importorskip("torch")
    from ringload.compat.safetensors import torch as st_torch

    linear = torch.nn.Linear(4, 3)
    tied = torch.nn.ModuleDict({"a": linear, "b": linear})
    st_torch.save_model(tied, tmp_path / "m.safetensors")
    other = torch.nn.ModuleDict({"a": torch.nn.Linear(4, 3)})
    other["b"] = other["a"]
    assert st_torch.load_model(other, tmp_path / "m.safetensors") == (set(), [])
    assert torch.equal(other["b"].weight, linear.weight)
    with pytest.raises(RuntimeError, match="share memory"):
        st_torch.save_file(tied.state_dict(), tmp_path / "n.safetensors")


def test_names_and_metadata_are_texts(tmp_path):
    array = numpy.zeros(2, numpy.float32)
    for tensors, metadata in (
        ({3: array}, None),
        ({b"x": array}, None),
        ({"x": array}, {"a": 1}),
        ({"x": array}, {1: "a"}),
        ({"x": array}, ["a"]),
    ):
        with pytest.raises(TypeError):
            st_numpy.save_file(tensors, tmp_path / "a.safetensors", metadata=metadata)
        with pytest.raises(TypeError):
            st_numpy.save(tensors, metadata=metadata)
    with pytest.raises(ValueError):
        st_numpy.save_file({"\udc80": array}, tmp_path / "a.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_only_a_regular_file_is_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(SafetensorError, match="not a regular file"):
            st_numpy.save_file({"x": numpy.ones(3)}, tmp_path / name)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert len(list(tmp_path.iterdir())) == 2
    st_numpy.save_file({"x": numpy.ones(3)}, tmp_path / "file")
    st_numpy.save_file({"x": numpy.ones(2)}, tmp_path / "file")
    assert st_numpy.load_file(tmp_path / "file")["x"].shape == (2,)


def test_safe_open_is_in_the_frameworks_modules_too(sample):
    from ringload.compat import safetensors

    assert st_numpy.safe_open is safetensors.safe_open
    torch = pytest.importorskip("torch")
    from ringload.compat.safetensors.torch import safe_open

    with safe_open(sample, framework="pt") as file:
        assert file.get_tensor("i32").dtype == torch.int32


def test_a_tensor_without_memory_is_not_saved(tmp_path):
    torch = pytest.importorskip("torch")
    from ringload.compat.safetensors import torch as st_torch

    from torch._subclasses.fake_tensor import FakeTensorMode

    resized, viewed, short = torch.ones(4, 4), torch.ones(8, 4)[4:], torch.ones(8, 4)
    for tensor, size in ((resized, 0), (viewed, 0), (short, 64)):
        tensor.untyped_storage().resize_(size)
    with FakeTensorMode():
        fake = torch.ones(3)
    for tensor in (resized, viewed, short, fake, torch._efficientzerotensor((3,))):
        with pytest.raises(SafetensorError, match="has no memory"):
            st_torch.save({"x": tensor})
        with pytest.raises(SafetensorError, match="has no memory"):
            st_torch.save_file({"x": tensor}, tmp_path / "x.safetensors")
    assert list(tmp_path.iterdir()) == []
    empty = st_torch.load(st_torch.save({"x": torch.empty(0, 3), "y": torch.arange(9)[4:7]}))
    assert empty["x"].shape == (0, 3) and empty["y"].tolist() == [4, 5, 6]


def test_a_distributed_tensor_is_not_saved():
    torch = pytest.importorskip("torch")
    tensors = pytest.importorskip("torch.distributed.tensor")
    from ringload.compat.safetensors import torch as st_torch

    group = torch.distributed
    if not group.is_available() or group.is_initialized():
        pytest.skip("no process group of its own")
    group.init_process_group("gloo", store=group.HashStore(), rank=0, world_size=1)
    try:
        mesh = tensors.init_device_mesh("cpu", (1,))
        tensor = tensors.distribute_tensor(torch.ones(4), mesh, [tensors.Replicate()])
        with pytest.raises(SafetensorError, match="has no memory"):
            st_torch.save({"x": tensor})
    finally:
        group.destroy_process_group()


def test_a_spec_has_memory_and_no_negative_size():
    array = numpy.zeros(2, numpy.float32)
    spec = {"dtype": "float32", "shape": [2], "data_ptr": array.ctypes.data, "data_len": 8}
    assert serialize({"x": TensorSpec(**spec)}) == st_numpy.save({"x": array})
    for wrong in ({"shape": [-1, -2]}, {"shape": [2**64]}, {"data_ptr": -1}, {"data_len": -8}):
        with pytest.raises(OverflowError):
            TensorSpec(**{**spec, **wrong})
    with pytest.raises(TypeError):
        TensorSpec(**{**spec, "shape": [2.5]})
    with pytest.raises(SafetensorError, match="data_ptr is 0"):
        serialize({"x": TensorSpec(**{**spec, "data_ptr": 0})})
    empty = TensorSpec(dtype="float32", shape=[0, 3], data_ptr=0, data_len=0)
    assert len(serialize({"x": empty})) > 8
