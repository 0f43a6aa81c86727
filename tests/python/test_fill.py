# SPDX-License-Identifier: Apache-2.0
"""Fills: into memory that the library cannot write to directly, and into modules of PyTorch."""

import subprocess
import sys

import ml_dtypes
import numpy
import pytest
from conftest import same, write_safetensors

import ringload
from ringload import _destinations

weight = "model.layers.0.weight"


def one_file(tmp_path, **arrays):
    return write_safetensors(tmp_path / "x.safetensors", arrays)


@pytest.fixture
def six(tmp_path):
    """A file of one tensor of 2 x 3 floats, and what it holds."""
    array = numpy.arange(1, 7, dtype="f4").reshape(2, 3)
    return one_file(tmp_path, x=array), array


def test_fill_of_the_other_byte_order(six):
    path, expected = six
    into = numpy.zeros((2, 3), ">f4")
    ringload.fill(path, {"x": into})
    assert into.dtype == numpy.dtype(">f4") and numpy.array_equal(into, expected)
    integers = numpy.zeros((2, 3), ">i4")
    ringload.fill(path, {"x": integers}, dtype="convert")
    assert numpy.array_equal(integers, expected)


@pytest.mark.parametrize("fields", [[("a", "i1"), ("b", "<f4")], [("a", "i4"), ("b", "f4")]])
def test_fill_of_a_field(six, fields):
    path, expected = six
    records = numpy.ones((2, 3), fields)
    ringload.fill(path, {"x": records["b"]})
    assert numpy.array_equal(records["b"], expected)
    assert (records["a"] == 1).all()


def test_fill_of_unaligned_memory(six):
    path, expected = six
    memory = bytearray(1 + 24)
    into = numpy.frombuffer(memory, "f4", 6, offset=1).reshape(2, 3)
    ringload.fill(path, {"x": into})
    assert numpy.array_equal(into, expected) and memory[0] == 0


def test_fill_of_arrays_that_ignore_assignments(six):
    path, expected = six

    class Ignores(numpy.ndarray):
        def __setitem__(self, key, value):
            pass

    for dtype in ("<f4", ">f4"):
        masked = numpy.ma.masked_array(numpy.zeros((2, 3), dtype), mask=True, hard_mask=True)
        ignores = numpy.zeros((2, 3), dtype).view(Ignores)
        for into in (masked, ignores):
            ringload.fill(path, {"x": into})
            assert numpy.array_equal(numpy.asarray(into), expected)


def test_fill_of_strange_memory_is_all_or_error(six):
    path, _ = six
    into = numpy.zeros((2, 3), ">f4")
    with pytest.raises(ringload.UsageError):
        ringload.fill(path, {"y": into}, missing="report", unexpected="error")
    with pytest.raises(KeyError):
        ringload.fill(path, {"x": into, "y": numpy.zeros(1)})
    assert not into.any()
    done = ringload.fill(path, {"y": into}, missing="report")
    assert done.missing == ["y"] and not into.any()


def test_fill_refuses_what_is_immutable(six):
    path, _ = six
    with pytest.raises(TypeError, match="'x' is a NumPy scalar"):
        ringload.fill(path, {"x": numpy.float32(0)})
    read_only = numpy.zeros((2, 3), ">f4")
    read_only.flags.writeable = False
    with pytest.raises(TypeError, match="'x' is read-only"):
        ringload.fill(path, {"x": read_only})
    with pytest.raises(TypeError, match="mapping of names"):
        ringload.fill(path, [read_only])
    with pytest.raises(TypeError, match="'x': arrays of <U4"):
        ringload.fill(path, {"x": numpy.array(["text"])})


def test_fill_refuses_arrays_of_jax(six):
    jax = pytest.importorskip("jax")
    path, _ = six
    array = jax.numpy.zeros((2, 3))
    with pytest.raises(TypeError, match="JAX array, which is immutable"):
        ringload.fill(path, {"x": array})
    assert not array.any()


def test_fill_of_nothing_selected(sample):
    into = numpy.zeros((300, 70), numpy.float32)
    with pytest.raises(KeyError):
        ringload.fill(sample, {weight: into}, select=[])
    done = ringload.fill(sample, {weight: into}, select=[], missing="report")
    assert done.missing == [weight] and not into.any()


def test_fill_of_the_same_memory_under_several_names(tmp_path):
    into = numpy.zeros((2, 3), "f4")
    ones, twos = numpy.full((2, 3), 1, "f4"), numpy.full((2, 3), 2, "f4")
    tied = {"a": into, "b": into, "c": into[:]}
    # The file has one of the names, by whichever it is.
    for name in tied:
        path = one_file(tmp_path, **{name: ones})
        into[:] = 0
        assert ringload.fill(path, tied, unexpected="error").missing == []
        assert numpy.array_equal(into, ones)
    # It has two: as PyTorch's load_state_dict(), the last one wins.
    path = one_file(tmp_path, b=ones, c=twos)
    assert ringload.fill(path, tied, unexpected="report")[:2] == ([], [])
    assert numpy.array_equal(into, twos)
    # It has none.
    path = one_file(tmp_path, d=ones)
    assert ringload.fill(path, tied, missing="report").missing == ["a", "b", "c"]
    with pytest.raises(KeyError):
        ringload.fill(path, tied)
    # Other overlaps stay refused.
    path = one_file(tmp_path, a=ones, e=ones[:1])
    with pytest.raises(ringload.UsageError, match="overlap"):
        ringload.fill(path, {"a": into, "e": into[:1]})


def test_fill_of_a_module(tmp_path):
    torch = pytest.importorskip("torch")

    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(5, 3)
            self.norm = torch.nn.BatchNorm1d(3)
            self.head = torch.nn.Linear(3, 5, bias=False)
            self.head.weight = self.embedding.weight

    saved, module = Tied(), Tied()
    saved.norm.running_mean += 3
    state = {name: t.numpy() for name, t in saved.state_dict().items()}
    del state["head.weight"]
    path = write_safetensors(tmp_path / "x.safetensors", state)
    done = ringload.fill(path, module)
    assert done.missing == []
    for name, tensor in saved.state_dict().items():
        assert torch.equal(module.state_dict()[name], tensor), name
    assert module.head.weight is module.embedding.weight
    # A dictionary of the same memory, too.
    state["head.weight"] = state.pop("embedding.weight") + 1
    path = write_safetensors(tmp_path / "y.safetensors", state)
    ringload.fill(path, module.state_dict())
    assert numpy.array_equal(module.embedding.weight.detach().numpy(), state["head.weight"])


def test_load_into_a_module(tmp_path):
    torch = pytest.importorskip("torch")
    if not hasattr(torch.device("meta"), "__enter__"):
        pytest.skip("PyTorch 1 constructs no module on the device meta")

    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(5, 3)
            self.norm = torch.nn.BatchNorm1d(3)
            self.head = torch.nn.Linear(3, 5, bias=False)
            self.head.weight = self.embedding.weight
            self.embedding.weight.requires_grad_(False)

    saved = Tied()
    saved.norm.running_mean += 3
    state = {name: t.detach().double().numpy() for name, t in saved.state_dict().items()}
    state["norm.num_batches_tracked"] = numpy.array(7)
    del state["head.weight"]
    path = write_safetensors(tmp_path / "x.safetensors", state)
    with torch.device("meta"):
        empty = Tied()
    for module in (Tied(), empty):
        assert ringload.load_into(module, path).missing == []
        assert module.head.weight is module.embedding.weight
        assert module.norm.num_batches_tracked.item() == 7
        assert not module.head.weight.requires_grad
        for name, tensor in saved.state_dict().items():
            if name != "norm.num_batches_tracked":
                assert torch.equal(module.state_dict()[name], tensor), name

    state["other"] = state.pop("norm.weight")
    path = write_safetensors(tmp_path / "y.safetensors", state)
    with torch.device("meta"):
        empty = Tied()
    with pytest.raises(ringload.Error):
        ringload.load_into(empty, path)
    assert all(tensor.is_meta for tensor in empty.state_dict().values())
    done = ringload.load_into(empty, path, strict=False)
    assert (done.missing, done.unexpected) == (["norm.weight"], ["other"])
    assert [n for n, t in empty.state_dict().items() if t.is_meta] == ["norm.weight"]
    with pytest.raises(TypeError, match="module"):
        ringload.load_into({}, path)


def test_fill_of_conjugated_and_negated_views(tmp_path):
    torch = pytest.importorskip("torch")
    values = numpy.array([1 + 2j, 3 - 4j], "c8")
    path = one_file(tmp_path, x=values, y=values.imag.copy())
    whole = torch.zeros(2, dtype=torch.complex64)
    ringload.fill(path, {"x": whole.conj()})
    assert numpy.array_equal(whole.numpy(), values.conj())
    whole.zero_()
    negated = whole.conj().imag
    assert negated.is_neg()
    ringload.fill(path, {"y": negated})
    assert numpy.array_equal(whole.numpy().imag, -values.imag)
    assert torch.equal(negated, torch.from_numpy(values.imag.copy()))


def test_fill_refuses_tensors_without_memory(six):
    torch = pytest.importorskip("torch")
    path, _ = six
    with pytest.raises(TypeError, match="'meta'"):
        ringload.fill(path, {"x": torch.empty((2, 3), device="meta")})
    with pytest.raises(TypeError, match="not dense"):
        ringload.fill(path, {"x": torch.zeros((2, 3)).to_sparse()})
    with pytest.raises((TypeError, ringload.UsageError)):
        ringload.fill(path, {"x": torch.zeros(1).expand(2, 3)})


def test_fill_by_another_librarys_dlpack(six):
    path, expected = six

    class Foreign:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

    into = numpy.zeros((2, 3), "f4")
    ringload.fill(path, {"x": Foreign(into)})
    assert same(into, expected)
    into.flags.writeable = False
    with pytest.raises((BufferError, TypeError, ringload.UsageError)):
        ringload.fill(path, {"x": Foreign(into)})


def test_fill_reads_types_that_have_no_name(tmp_path):
    bf16 = numpy.arange(6, dtype="f4").astype(ml_dtypes.bfloat16)
    numpy.savez(tmp_path / "x.npz", w=bf16.view("V2"))
    into = numpy.zeros(6, ml_dtypes.bfloat16)
    ringload.fill(tmp_path / "x.npz", {"w": into}, nameless=["bf16"])
    assert same(into, bf16)


def test_none_stands_for_the_default_of_load_into(tmp_path):
    torch = pytest.importorskip("torch")
    path = one_file(
        tmp_path, weight=numpy.ones((2, 2), "f4"), bias=numpy.ones(2, "f4"), other=numpy.ones(1)
    )
    module = torch.nn.Linear(2, 2).to(torch.float16)
    with pytest.raises(ringload.Error, match="other"):
        ringload.load_into(module, path, unexpected=None)
    done = ringload.load_into(module, path, strict=False, dtype=None, missing=None)
    assert done.unexpected == ["other"] and bool((module.weight == 1).all())


def test_views_of_the_same_memory_are_filled_in_their_order(tmp_path):
    first = numpy.arange(4, dtype="f4").reshape(2, 2)
    path = one_file(tmp_path, a=first, b=first + 10)
    memory = numpy.zeros((2, 2), "f4")
    ringload.fill(path, {"a": memory, "b": memory.T})
    assert numpy.array_equal(memory, (first + 10).T)


def test_destination_of_an_unknown_type_is_named(six):
    torch = pytest.importorskip("torch")
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("this PyTorch has no float4")
    tensor = torch.zeros(3, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    with pytest.raises(TypeError, match="tensor 'x'"):
        ringload.fill(six[0], {"x": tensor})


def test_the_last_name_of_shared_memory_wins_also_behind_a_transposed_one(tmp_path):
    torch = pytest.importorskip("torch")
    arrays = {name: numpy.full((2, 2), at, numpy.float32) for at, name in enumerate("pqr")}
    path = write_safetensors(tmp_path / "x.safetensors", arrays)
    memory = torch.zeros(2, 2)
    ringload.fill(path, {"p": memory, "q": memory.t(), "r": memory})
    assert memory.tolist() == [[2, 2], [2, 2]]
    array = numpy.zeros((2, 2), numpy.float32)
    ringload.fill(path, {"q": array, "p": array.T, "r": array})
    assert array.tolist() == [[2, 2], [2, 2]]


@pytest.fixture(params=[True, False], ids=["new PyTorch", "old PyTorch"])
def torch_versions(request, monkeypatch):
    """PyTorch, also without the function that PyTorch 1 lacks."""
    torch = pytest.importorskip("torch")
    if not request.param:
        monkeypatch.delattr(torch.autograd.graph, "increment_version", raising=False)
    return torch


def test_backward_is_refused_after_a_fill_of_its_tensors(torch_versions, tmp_path):
    torch = torch_versions
    path = one_file(tmp_path, weight=numpy.full((2, 2), 3, "f4"), bias=numpy.float32(4))
    writes = [
        lambda made: ringload.fill(path, made),
        lambda made: ringload.load_into(made["module"], path, strict=False),
        lambda made: ringload.fill(path, {"weight": made["weight"].t()}),
    ]
    for write in writes:
        weight = torch.nn.Parameter(torch.ones(2, 2))
        bias = torch.nn.Parameter(torch.ones(()))
        module = torch.nn.Linear(2, 2, bias=False)
        module.weight = weight
        loss = (weight * weight).sum() * bias * bias
        given = {"weight": weight, "bias": bias}
        write({**given, "module": module} if write is writes[1] else given)
        assert weight[0, 0].item() == 3
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_versions_of_tensors_that_are_not_filled_stay(torch_versions, tmp_path):
    torch = torch_versions
    path = one_file(tmp_path, a=numpy.ones(2, "f4"), c=numpy.ones(3, "f4"))
    tensors = {"a": torch.zeros(2), "b": torch.zeros(2)}
    ringload.fill(path, tensors, missing="report")
    assert (tensors["a"]._version, tensors["b"]._version) == (1, 0)
    with pytest.raises(ringload.Error):  # Refused before the first write.
        ringload.fill(path, {"a": tensors["a"], "c": torch.zeros(4)})
    assert tensors["a"]._version == 1
    with torch.inference_mode():
        untracked = torch.zeros(2)
    ringload.fill(path, {"a": untracked})
    assert untracked.tolist() == [1, 1]
    for dtype in (torch.bool, torch.bfloat16, getattr(torch, "float8_e4m3fn", torch.int8)):
        _destinations._increase_version(torch.zeros(2, 0).to(dtype))


def test_versions_of_tensors_of_a_failed_fill_are_increased(torch_versions, tmp_path):
    torch = torch_versions
    path = tmp_path / "x.zt"
    arrays = {name: numpy.ones(1 << 20, "f4") for name in ("a", "b")}
    ringload.save(path, arrays, digest="crc32c")
    with ringload.open(path) as checkpoint:
        offset = checkpoint["b"].info.offset
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(b"damaged!")
    into = {"a": torch.zeros(1 << 20), "b": torch.zeros(1 << 20), "c": torch.zeros(1)}
    with pytest.raises(ringload.InvalidFileError) as failed:
        ringload.fill(path, into, verify="require", missing="report")
    assert failed.value.kind == "wrong_digest"
    written = {*failed.value.whole, *failed.value.torn}
    assert written
    for name, tensor in into.items():
        assert tensor._version == (name in written), name


def test_fill_of_arrays_imports_no_torch(six):
    program = (
        "import sys, numpy, ringload\n"
        f"ringload.fill({six[0]!r}, {{'x': numpy.zeros((2, 3), 'f4')}})\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_state_of_a_module_that_is_no_tensor_is_missing(tmp_path):
    torch = pytest.importorskip("torch")

    class WithState(torch.nn.Linear):
        def get_extra_state(self):
            return {"steps": 3}

        def set_extra_state(self, state):
            raise AssertionError(state)

    module = torch.nn.Sequential(WithState(2, 2, bias=False))
    path = one_file(tmp_path, **{"0.weight": numpy.ones((2, 2), "f4")})
    for fill in (
        lambda: ringload.fill(path, module),
        lambda: ringload.load_into(module, path),
        lambda: ringload.load_into(module, path, strict=False, missing="error"),
    ):
        with pytest.raises(KeyError, match="'0._extra_state'.*not a tensor") as failed:
            fill()
        assert failed.value.kind == "no_such_tensor"
        assert not bool((module[0].weight == 1).all())
    for fill in (
        lambda: ringload.fill(path, module, missing="report"),
        lambda: ringload.load_into(module, path, strict=False),
        lambda: ringload.load_into(module, path, missing="report"),
    ):
        with torch.no_grad():
            module[0].weight.zero_()
        assert fill().missing == ["0._extra_state"]
        assert bool((module[0].weight == 1).all())
    with pytest.raises(TypeError, match="'x': dict is not a tensor"):
        ringload.fill(path, {"x": {"steps": 3}})
