# SPDX-License-Identifier: Apache-2.0
"""Tensors of other libraries: handed over without a copy, filled, and saved."""

import gc

import numpy
import pytest
from conftest import same

import ringload


def test_buffer_protocol_is_the_tensor_itself(sample, arrays):
    tensor = ringload.load(sample)["model.layers.0.weight"]
    view = memoryview(tensor)
    assert (view.format, view.shape, view.readonly) == ("f", (300, 70), False)
    assert view.tobytes() == arrays[tensor.name].tobytes()
    array = numpy.asarray(tensor)
    assert array.__array_interface__["data"][0] == tensor.data_ptr
    array[0, 0] = 42
    assert view[0, 0] == 42
    scalar = memoryview(ringload.load(sample)["scalar"])
    assert scalar.shape == () and scalar[()] == 7


def test_numpy_takes_every_type_without_a_copy(sample, arrays):
    for name, tensor in ringload.load(sample).items():
        array = tensor.numpy()
        assert same(array, arrays[name]), name
        assert array.flags.writeable
        if array.size:
            assert array.__array_interface__["data"][0] == tensor.data_ptr, name


def test_dlpack_in_both_forms(sample, arrays):
    tensor = ringload.load(sample)["f32"]
    assert tensor.__dlpack_device__() == (1, 0)
    assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=(1, 1)))
    assert '"dltensor"' in repr(tensor.__dlpack__())
    assert same(numpy.from_dlpack(tensor), arrays["f32"])
    with pytest.raises(BufferError):
        tensor.__dlpack__(copy=True)
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(2, 0))


def test_capsule_keeps_the_memory(sample, arrays):
    array = numpy.from_dlpack(ringload.load(sample)["f64"])
    gc.collect()
    assert same(array, arrays["f64"])


def test_torch_takes_every_type_that_it_has(sample, arrays):
    torch = pytest.importorskip("torch")
    for name, tensor in ringload.load(sample).items():
        try:
            taken = tensor.torch()
        except TypeError as missing:  # A type that this PyTorch lacks.
            assert "has no type" in str(missing)
            continue
        assert tuple(taken.shape) == arrays[name].shape
        assert taken.numel() == 0 or taken.data_ptr() == tensor.data_ptr, name
        plain = taken.contiguous().reshape(-1).view(torch.uint8).numpy()
        assert plain.tobytes() == arrays[name].tobytes(), name


def test_jax_takes_what_it_has(sample, arrays, tmp_path):
    pytest.importorskip("jax")
    model = ringload.load(sample)
    for name in ("f32", "bf16", "i32", "u8", "f16", "bool"):
        assert numpy.asarray(model[name].jax()).tobytes() == arrays[name].tobytes(), name
    # Where the address is a multiple of 64, without a copy.
    path = tmp_path / "aligned.safetensors"
    ringload.save(path, {"a": numpy.ones((256, 1024), numpy.float32)}, alignment=4096)
    tensor = ringload.load(path)["a"]
    assert tensor.jax().unsafe_buffer_pointer() == tensor.data_ptr


def test_fill_by_arrays(sample, arrays):
    into = {name: numpy.zeros_like(array) for name, array in arrays.items()}
    done = ringload.fill(sample, into)
    assert done.missing == [] and done.unexpected == []
    assert all(same(into[name], arrays[name]) for name in arrays)


def test_fill_strided_memory(sample, arrays):
    whole = numpy.zeros((70, 600), numpy.float32)
    into = whole.T[::2]
    ringload.fill(sample, {"model.layers.0.weight": into})
    assert same(numpy.ascontiguousarray(into), arrays["model.layers.0.weight"])
    assert not whole.T[1::2].any()


def test_fill_checks_before_the_first_byte(sample):
    right = numpy.zeros((300, 70), numpy.float32)
    wrong = numpy.zeros((300, 71), numpy.float32)
    both = {"model.layers.0.weight": right, "model.layers.1.weight": wrong}
    with pytest.raises(ringload.UsageError) as failed:
        ringload.fill(sample, both)
    assert failed.value.kind == "wrong_shape"
    assert not right.any()
    with pytest.raises(KeyError):
        ringload.fill(sample, {"no": right})
    assert ringload.fill(sample, {"no": right}, missing="report").missing == ["no"]
    with pytest.raises(ringload.UsageError) as failed:
        ringload.fill(sample, {"model.layers.0.weight": right.astype(numpy.float64)})
    assert failed.value.kind == "wrong_dtype"


def test_fill_refuses_read_only_memory(sample):
    array = numpy.zeros((300, 70), numpy.float32)
    array.flags.writeable = False
    with pytest.raises(TypeError, match="read-only"):
        ringload.fill(sample, {"model.layers.0.weight": array})


def test_fill_parameters_of_torch(sample, arrays):
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.zeros(300, 70))
    ringload.fill(sample, {"model.layers.0.weight": parameter})
    assert same(parameter.detach().numpy(), arrays["model.layers.0.weight"])
    half = torch.zeros(300, 70, dtype=torch.bfloat16)
    ringload.fill(sample, {"model.layers.0.weight": half}, dtype="convert")
    expected = torch.from_numpy(arrays["model.layers.0.weight"]).to(torch.bfloat16)
    assert torch.equal(half, expected)


@pytest.mark.parametrize("name", ["x.safetensors", "x.zt"])
def test_save_and_load_again(name, arrays, tmp_path):
    path = tmp_path / name
    strided = dict(arrays, transposed=arrays["f32"].T, read_only=arrays["f64"][::2])
    strided["read_only"].flags.writeable = False
    saved = ringload.save(path, strided, metadata={"by": "test"})
    assert saved.nbytes == path.stat().st_size
    model = ringload.load(path)
    for key, array in strided.items():
        assert same(model[key].numpy(), numpy.array(array, order="C")), key


@pytest.mark.parametrize("options", [{}, {"zstd_level": 1}, {"metadata": {"n": 3}}])
def test_save_zt_writes_the_same_memory_once(options, tmp_path):
    words = numpy.arange(6000, dtype="f4").reshape(60, 100)
    tensors = {"a": words, "tied": words, "equal": words.copy(), "rows": words[:30]}
    tensors["other"] = words.view("i4")
    ringload.save(tmp_path / "t.zt", tensors, **options)
    places = {}
    with ringload.open(tmp_path / "t.zt") as checkpoint:
        for info in checkpoint.infos():
            places.setdefault(info.offset, []).append(info.name)
    assert sorted(places.values()) == [["a", "tied"], ["equal"], ["other"], ["rows"]]
    model = ringload.load(tmp_path / "t.zt")
    assert all(same(model[name].numpy(), array) for name, array in tensors.items())


@pytest.mark.parametrize("options", [{}, {"zstd_level": 1}])
def test_save_tells_of_its_progress(options, arrays, tmp_path):
    told = []
    name = "t.zt" if options else "t.safetensors"
    tensors = dict(arrays, tied=arrays["f32"])
    ringload.save(tmp_path / name, tensors, progress=told.append, **options)
    assert told[-1]["bytes"] == told[-1]["bytes_total"] > 0
    assert all(one["bytes"] <= one["bytes_total"] and one["seconds"] >= 0 for one in told)


def test_save_shards_of_a_model(sample, arrays, tmp_path):
    saved = ringload.save(tmp_path / "folder/", ringload.load(sample), shard_bytes="90KB")
    assert len(saved.files) == 2 + 1  # The index is one.
    model = ringload.load(tmp_path / "folder")
    assert all(same(model[name].numpy(), array) for name, array in arrays.items())


def test_save_tensors_of_torch(tmp_path):
    torch = pytest.importorskip("torch")
    tensors = {
        "bool": torch.tensor([True, False]),
        "bf16": torch.arange(12, dtype=torch.bfloat16).reshape(3, 4).T,
        "grad": torch.ones(3, requires_grad=True),
    }
    ringload.save(tmp_path / "t.safetensors", tensors)
    model = ringload.load(tmp_path / "t.safetensors")
    for name, tensor in tensors.items():
        assert torch.equal(model[name].torch(), tensor.detach()), name


def test_save_refuses_what_is_no_tensor(tmp_path):
    with pytest.raises(TypeError, match="not a tensor"):
        ringload.save(tmp_path / "t.safetensors", {"a": 3})
    with pytest.raises(TypeError, match="cannot be described"):
        ringload.save(tmp_path / "t.safetensors", {"a": numpy.array(["text"])})
    assert not (tmp_path / "t.safetensors").exists()


def test_copy_has_memory_of_its_own(sample, arrays):
    with ringload.Loader() as loader:
        tensor = loader.load(sample).result()["model.layers.0.weight"]
        copy = loader.copy(tensor, dtype="f16").result()
        assert copy.data_ptr != tensor.data_ptr
        assert same(copy.numpy(), arrays[tensor.name].astype(numpy.float16))
