# SPDX-License-Identifier: Apache-2.0
"""Tensors of other libraries: handed over without a copy, filled, and saved."""

import copy
import gc
import hashlib
import json
import pickle
import struct

import numpy
import pytest
from conftest import same, write_safetensors

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


def test_buffer_protocol_never_loses_the_type(sample, arrays):
    model = ringload.load(sample)
    for name in ("bf16", "f8_e4m3"):
        with pytest.raises(BufferError, match="no format for"):
            memoryview(model[name])
    with pytest.raises(BufferError, match="element type"):
        hashlib.sha256(model["f32"])  # It asks for bytes, of no type.
    for name in ("f32", "bf16", "empty", "scalar"):
        view = model[name].byte_view()
        assert (view.format, view.ndim, view.readonly) == ("B", 1, False)
        assert bytes(view) == arrays[name].tobytes()
    view = ringload.load(sample)["f32"].byte_view()
    gc.collect()
    assert hashlib.sha256(view).digest() == hashlib.sha256(arrays["f32"]).digest()


def test_numpy_asarray_has_the_type(sample, arrays):
    for name, tensor in ringload.load(sample).items():
        assert same(numpy.asarray(tensor), arrays[name]), name
        assert same(numpy.array(tensor), arrays[name]), name
        assert same(tensor.__array__(), arrays[name]), name
    tensor = ringload.load(sample)["bf16"]
    assert numpy.asarray(tensor).__array_interface__["data"][0] == tensor.data_ptr
    copied = tensor.__array__(copy=True)
    assert copied.__array_interface__["data"][0] != tensor.data_ptr
    assert same(numpy.asarray(tensor, numpy.float32), arrays["bf16"].astype(numpy.float32))
    with pytest.raises(ValueError, match="copy"):
        tensor.__array__(numpy.float32, copy=False)


def test_numpy_asarray_of_4_bits_is_refused(tmp_path):
    path = tmp_path / "f4.safetensors"
    header = b'{"a":{"dtype":"F4","shape":[2,4],"data_offsets":[0,4]}}'
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\x12\x34\x56\x78")
    tensor = ringload.load(path)["a"]
    assert tensor.numpy().tobytes() == b"\x12\x34\x56\x78"
    for take in (numpy.asarray, numpy.array, lambda t: t.tolist()):
        with pytest.raises(TypeError, match="narrower than a byte"):
            take(tensor)
    assert bytes(tensor.byte_view()) == b"\x12\x34\x56\x78"


def test_tensor_has_what_arrays_have(sample, arrays):
    model = ringload.load(sample)
    for name in ("bf16", "i32", "empty"):
        tensor, array = model[name], arrays[name]
        assert (tensor.size, len(tensor)) == (array.size, len(array))
        assert tensor.tolist() == array.tolist()
    assert model["scalar"].item() == 7 and model["scalar"].size == 1 and model["scalar"]
    with pytest.raises(TypeError, match="len"):
        len(model["scalar"])
    with pytest.raises(ValueError):
        bool(model["i32"])
    with pytest.raises(ValueError):
        model["i32"].item()


def test_tensors_and_models_are_not_pickled(sample):
    model = ringload.load(sample)
    for thing in (model, model["f32"]):
        for way in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=r"\.numpy\(\)"):
                way(thing)
    with ringload.open(sample) as checkpoint:
        with pytest.raises(TypeError, match="send its path"):
            pickle.dumps(checkpoint)


def test_handles_say_what_to_send_in_their_place(sample):
    with ringload.Loader() as loader:
        operation, load = loader.load(sample), loader.start(sample).result()
        handles = [
            (loader, "a Loader cannot be pickled or copied: make one in each process"),
            (operation, "an Operation cannot.*send what its result gives"),
            (load, "a Load cannot.*numpy"),
            (loader.stream(sample), "a Stream cannot.*numpy"),
        ]
        for handle, text in handles:
            for way in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match=text):
                    way(handle)
        operation.result()


def test_torch_asarray_is_right_or_refused(sample, arrays):
    torch = pytest.importorskip("torch")
    model = ringload.load(sample)
    for name in ("f16", "i64", "f32", "u8", "bool", "bf16"):
        for convert in (torch.asarray, torch.as_tensor, torch.tensor):
            try:
                taken = convert(model[name])
            except (BufferError, RuntimeError, TypeError, ValueError):
                continue
            assert str(taken.dtype) == f"torch.{arrays[name].dtype.name}", (name, convert)
            flat = taken.contiguous().reshape(-1).view(torch.uint8).numpy()
            assert flat.tobytes() == arrays[name].tobytes(), (name, convert)


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
    jax = pytest.importorskip("jax")
    model = ringload.load(sample)
    for name in ("f32", "bf16", "i32", "u8", "f16", "bool"):
        assert numpy.asarray(model[name].jax()).tobytes() == arrays[name].tobytes(), name
        assert same(numpy.asarray(jax.numpy.asarray(model[name])), arrays[name]), name
    # Where the address is a multiple of 64, without a copy.
    path = tmp_path / "aligned.safetensors"
    ringload.save(path, {"a": numpy.ones((256, 1024), numpy.float32)}, alignment=4096)
    tensor = ringload.load(path)["a"]
    assert tensor.jax().unsafe_buffer_pointer() == tensor.data_ptr


def test_jax_narrows_no_values(tmp_path):
    jax = pytest.importorskip("jax")
    if jax.config.jax_enable_x64:
        pytest.skip("this JAX has types of 64 bits")
    arrays = {
        "small": numpy.array([-5, 2**31 - 1]),
        "large": numpy.array([-5, 2**31]),
        "exact": numpy.array([0.5, numpy.nan]),
        "rounded": numpy.array([0.1]),
        "infinite": numpy.array([1e300]),
        "unsigned": numpy.array([2**63], "u8"),
    }
    model = ringload.load(write_safetensors(tmp_path / "x.safetensors", arrays))
    for name in ("small", "exact"):
        narrowed = numpy.asarray(model[name].jax())
        assert numpy.array_equal(narrowed, arrays[name], equal_nan=True), name
    for name in ("large", "rounded", "infinite", "unsigned"):
        with pytest.raises(TypeError, match="changes values"):
            model[name].jax()
        with pytest.raises(TypeError, match="changes values"):
            jax.numpy.asarray(model[name])



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
    saved = ringload.save(tmp_path / "t.zt", tensors, **options)
    assert saved.nbytes > 0 and saved.writes > 0 and saved.seconds > 0
    places = {}
    with ringload.open(tmp_path / "t.zt") as checkpoint:
        assert checkpoint.metadata == options.get("metadata", {})
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


class Bar:
    """As much of tqdm's as is used."""

    def __init__(self):
        self.total, self.n = None, 0

    def __bool__(self):
        raise TypeError("tqdm has none without a total")

    def update(self, n=1):
        self.n += n


@pytest.mark.parametrize("form", ["bar", "update"])
def test_progress_moves_a_bar(form, sample, arrays, tmp_path):
    def given(bar):
        return bar if form == "bar" else bar.update

    loading = Bar()
    model = ringload.load(sample, progress=given(loading))
    assert loading.n == loading.total == model.stats["bytes_total"]
    saving = Bar()
    saved = ringload.save(tmp_path / "t.safetensors", model, progress=given(saving))
    assert saving.n == saving.total and saved.nbytes >= saving.total > 0
    with pytest.raises(TypeError, match="progress must be"):
        ringload.load(sample, progress=3)


def test_save_of_a_model_keeps_its_metadata(sample, tmp_path):
    model = ringload.load(sample)
    for name in ("t.safetensors", "t.zt"):
        ringload.save(tmp_path / name, model)
        assert ringload.load(tmp_path / name).metadata == {"made_by": "conftest"}
        ringload.save(tmp_path / name, model, metadata={"other": "1"})
        assert ringload.load(tmp_path / name).metadata == {"other": "1"}
        ringload.save(tmp_path / name, model, metadata={})
        assert ringload.load(tmp_path / name).metadata == {}
        ringload.save(tmp_path / name, dict(model))
        assert ringload.load(tmp_path / name).metadata == {}


def test_safetensors_has_metadata_of_other_types_as_json(tmp_path):
    metadata = {"text": "a", "list": [1, "b"], "number": 3, "none": None, "bool": True}
    ringload.save(tmp_path / "a.zt", {"x": numpy.arange(3)}, metadata=metadata)
    model = ringload.load(tmp_path / "a.zt")
    ringload.save(tmp_path / "a.safetensors", model)
    found = ringload.load(tmp_path / "a.safetensors").metadata
    assert found["text"] == "a" and found.keys() == metadata.keys()
    assert {key: json.loads(found[key]) for key in metadata if key != "text"} == {
        key: metadata[key] for key in metadata if key != "text"
    }
    with pytest.raises(TypeError):
        ringload.save(tmp_path / "b.safetensors", dict(model), metadata=metadata)


def test_options_that_are_none_are_as_if_not_given(tmp_path):
    array = numpy.arange(3.0)
    options = dict.fromkeys(("metadata", "dtype", "shard_bytes", "alignment", "order", "replace"))
    ringload.save(tmp_path / "x.zt", {"a": array}, digest="crc32c", **options)
    assert same(ringload.load(tmp_path / "x.zt", verify="require")["a"].numpy(), array)
    with pytest.raises(ringload.UsageError, match="alignment"):
        ringload.save(tmp_path / "y.zt", {"a": array}, digest="crc32c", alignment=64)


@pytest.mark.parametrize(
    ("name", "options"),
    [("y.safetensors\0.safetensors", {}), ("z.zt\0.zt", {}), ("z.zt\0.zt", {"digest": "crc32c"})],
)
def test_a_target_whose_name_has_a_nul_is_refused(tmp_path, name, options):
    with pytest.raises(ringload.Error) as failed:
        ringload.save(f"{tmp_path}/{name}", {"a": numpy.arange(3.0)}, **options)
    assert failed.value.kind == "invalid_source_name"
    assert not list(tmp_path.iterdir())


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


def test_save_refuses_masked_elements(tmp_path):
    path = tmp_path / "t.safetensors"
    masked = numpy.ma.masked_array([1.0, 2.0], mask=[False, True])
    with pytest.raises(TypeError, match="masked elements"):
        ringload.save(path, {"a": masked})
    assert not path.exists()
    ringload.save(path, {"a": masked.filled(7), "b": numpy.ma.masked_array([3.0])})
    loaded = ringload.load(path)
    assert (loaded["a"].tolist(), loaded["b"].tolist()) == ([1, 7], [3])


def test_copy_has_memory_of_its_own(sample, arrays):
    with ringload.Loader() as loader:
        tensor = loader.load(sample).result()["model.layers.0.weight"]
        copy = loader.copy(tensor, dtype="f16").result()
        assert copy.data_ptr != tensor.data_ptr
        assert same(copy.numpy(), arrays[tensor.name].astype(numpy.float16))


def test_complex_numbers_have_the_alignment_that_pytorch_needs(tmp_path):
    arrays = {"a": numpy.arange(1.0), "c": numpy.arange(7) * (1 + 1j)}
    ringload.save(tmp_path / "c.zt", arrays, zstd_level=1)
    with ringload.Loader() as loader:
        for allocation in ("per_load", "per_file", "per_tensor"):
            tensor = loader.load(tmp_path / "c.zt", allocation=allocation).result()["c"]
            assert tensor.data_ptr % 16 == 0
            assert same(tensor.numpy(), arrays["c"])


def test_the_format_decides_what_a_save_takes_and_not_the_name(tmp_path):
    array = numpy.arange(3.0)
    for options in ({"digest": "crc32c"}, {"zstd_level": 1, "digest": "sha256"}):
        ringload.save(tmp_path / "x.bin", {"a": array}, format="zt", **options)
        model = ringload.load(tmp_path / "x.bin", verify="require")
        assert same(model["a"].numpy(), array)
    ringload.save(tmp_path / "x.bin", {"a": array}, format="zt", metadata={"bits": 4})
    with ringload.open(tmp_path / "x.bin") as checkpoint:
        assert checkpoint.metadata == {"bits": 4}
    saved = ringload.save(tmp_path / "f.zt", {"a": array}, format="safetensors", digest="crc32c")
    assert set(saved.digests) == {"a"}
    with pytest.raises(ringload.UsageError, match="only for the format .zt"):
        ringload.save(tmp_path / "g.zt", {"a": array}, format="safetensors", zstd_level=1)
