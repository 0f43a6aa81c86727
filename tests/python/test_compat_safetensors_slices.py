# SPDX-License-Identifier: Apache-2.0
"""get_slice of ringload.compat.safetensors: indices as PyTorch, NumPy and the package take them."""

import json
import pathlib
import struct

import numpy
import pytest
from conftest import same, write_safetensors

from ringload.compat.safetensors import SafetensorError, safe_open
from ringload.compat.safetensors import numpy as st_numpy

arrays = {
    "x": numpy.arange(4 * 5 * 6, dtype=numpy.float32).reshape(4, 5, 6),
    "row": numpy.arange(9, dtype=numpy.int64),
    "scalar": numpy.array(7, numpy.int32),
    "empty": numpy.zeros((0, 3), numpy.float32),
}
s_ = numpy.s_

# Indices that all frameworks and backends take alike.
plain = [
    0, 3, -1, -4, numpy.int64(2), (), ..., (0,), (..., 0), (0, ...), (1, -1, 2), s_[:], s_[0:4],
    s_[1:3], s_[2:2], s_[0:4:2], s_[1::2], s_[::3], s_[::100], s_[:, 1], s_[1:3, 0:5:2, -1],
    s_[..., 1:2], s_[numpy.int64(1) : 3], s_[:, :, 5],
]  # fmt: skip
# Indices that Python clamps or counts from the end.
clamped = [s_[-2:], s_[:-1], s_[-9:2], s_[3:1], s_[1:-1, -3:]]
# Indices that PyTorch takes, and the package too for "pt" with "mmap".
of_torch = [
    s_[0:9], s_[4:4], s_[9:12], s_[0 : 2**70], s_[:, 3:99:2], True, False, None, (None, 0),
    (0, None, 1), (..., ...), (0, ..., ...), (True, 0), (0, True), (slice(None), True), [0], [0, 1],
    [], [[0, 1], [1, 0]], [True, False, True, False], ([0, 1], [1, 2]), (..., [0, 1]), (0, []),
    range(2), range(0), range(3, 0, -1), (slice(None), range(2)), ((0, 1),), numpy.array([0, 2]),
    numpy.array([1]), numpy.array([True, False, True, True]), (0, numpy.array([0, 1])),
    numpy.array(1), numpy.ones((4, 5, 6), bool),
]  # fmt: skip
wrong = [
    4, -5, 2**31, 2**70, (0, 0, 0, 0), 1.0, "a", {0: 1}, numpy.float32(1), [9], (5, slice(0, 9)),
    s_[0:4:-1], s_[0:4:0], numpy.array([0.5]), numpy.ones(3, bool),
]  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_safetensors(tmp_path_factory.mktemp("slices") / "a.safetensors", arrays)


def tensors_of_torch(torch):
    return [
        torch.tensor(1), torch.tensor([1]), torch.tensor([0, 2]), torch.tensor([[0, 1], [1, 0]]),
        torch.tensor(True), torch.tensor([True, False, True, False]), torch.ones(4, 5) > 0,
        (slice(None), torch.tensor([0, 2])), (torch.tensor([0, 1]), torch.tensor([1, 2])),
        slice(torch.tensor(1), torch.tensor(3)), torch.tensor([9]), torch.tensor(1.5),
        torch.ones(3, dtype=torch.bool),
    ]  # fmt: skip


def result(read):
    """Returns the array that `read` returns, or the class of its error."""
    try:
        return numpy.asarray(read())
    except Exception as failure:
        return type(failure)


def assert_alike(found, expected, index):
    if isinstance(expected, type) or isinstance(found, type):
        assert found is expected, index
    else:
        assert same(found, expected), index



@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("name", arrays)
def test_a_mapped_tensor_of_torch_takes_each_index_as_torch_does(path, name):
    torch = pytest.importorskip("torch")
    expected = torch.tensor(arrays[name])
    indices = plain + clamped + of_torch + wrong + tensors_of_torch(torch)
    with safe_open(path, framework="pt") as file:
        part = file.get_slice(name)
        for index in indices:
            assert_alike(result(lambda: part[index]), result(lambda: expected[index]), index)


@pytest.mark.parametrize("framework, backend", [("np", "mmap"), ("np", "pread"), ("pt", "pread")])
def test_other_slices_take_integers_slices_and_an_ellipsis(path, framework, backend):
    if framework == "pt":
        pytest.importorskip("torch")
    array = arrays["x"]
    with safe_open(path, framework=framework, backend=backend) as file:
        part = file.get_slice("x")
        for index in plain + clamped:
            assert same(numpy.asarray(part[index]), array[index]), index
        assert same(numpy.asarray(part[numpy.array(1)]), array[1])
        assert same(numpy.asarray(part[True]), array[1])
        assert numpy.asarray(part[[]]).shape == (0, 5, 6)
        for index in (
            numpy.array([0, 1]), numpy.array([1]), range(2), range(0), None, [0], [[]], (0, []),
            (slice(None), range(2)), (0, numpy.array([0, 1])), ((0, 1),), numpy.True_, (..., ...),
            s_[0:9], s_[4:4], s_[4:], b"ab", memoryview(b"ab"), *wrong,
        ):  # fmt: skip
            with pytest.raises(SafetensorError):
                part[index]


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("framework", ["np", "pt"])
@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_each_index_gives_what_the_package_gives(path, framework, backend):
    package = pytest.importorskip("safetensors")
    if package.__version__ != "0.8.0":
        pytest.skip("compared with safetensors 0.8.0")
    torch = pytest.importorskip("torch")
    indices = plain + of_torch + wrong + tensors_of_torch(torch)
    # The package counts no end from the end of a slice, and reads no empty tensor.
    unlike = [] if (framework, backend) == ("pt", "mmap") else ["empty"]
    if not unlike:
        indices = indices + clamped
    with (
        package.safe_open(path, framework=framework, backend=backend) as theirs,
        safe_open(path, framework=framework, backend=backend) as ours,
    ):
        for name in arrays.keys() - unlike:
            expected, found = theirs.get_slice(name), ours.get_slice(name)
            for index in indices:
                wanted = result(lambda: expected[index])
                if wanted is OverflowError and unlike:  # An end that is no machine integer.
                    continue
                got = result(lambda: found[index])
                if isinstance(wanted, type) and wanted.__name__ == "SafetensorError":
                    wanted = SafetensorError
                assert_alike(got, wanted, (name, index))


def test_only_tensors_of_torch_share_the_memory_of_the_file(path):
    for backend in ("mmap", "pread"):
        with safe_open(path, framework="np", backend=backend) as file:
            first, second = file.get_tensor("x"), file.get_tensor("x")
        assert not numpy.shares_memory(first, second)
        first[:] = -1
        assert same(second, arrays["x"])
    pytest.importorskip("torch")
    with safe_open(path, framework="pt") as file:
        assert file.get_tensor("x").data_ptr() == file.get_tensor("x").data_ptr()
    with safe_open(path, framework="pt", backend="pread") as file:
        first, second = file.get_tensor("x"), file.get_tensor("x")
        assert first.data_ptr() != second.data_ptr()


# --- Types narrower than a byte


def narrow_file(folder, dtype, shape, nbytes):
    header = {"x": {"dtype": dtype, "shape": shape, "data_offsets": [0, nbytes]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path = folder / "narrow.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(range(nbytes)))
    return str(path)


def has_f4():
    try:
        import torch
    except ImportError:
        return False
    return hasattr(torch, "float4_e2m1fn_x2")


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("shape, nbytes", [([2, 3], 3), ([0, 3], 0), ([2, 1], 1)])
def test_f4_with_an_odd_last_dimension_is_refused(tmp_path, backend, shape, nbytes):
    path = narrow_file(tmp_path, "F4", shape, nbytes)
    frameworks = ["np"]
    reads = [
        lambda: st_numpy.load_file(path),
        lambda: st_numpy.load(pathlib.Path(path).read_bytes()),
    ]
    if has_f4():
        from ringload.compat.safetensors import torch as st_torch

        frameworks.append("pt")
        reads += [
            lambda: st_torch.load_file(path),
            lambda: st_torch.load(pathlib.Path(path).read_bytes()),
        ]
    for framework in frameworks:
        with safe_open(path, framework=framework, backend=backend) as file:
            part = file.get_slice("x")
            for read in (
                *reads, file.get_tensors, lambda: file.get_tensor("x"), lambda: part[:],
                lambda: part[::2], lambda: part[..., ::2], lambda: part[..., 0],
                lambda: file.prefetch().take("x"),
            ):  # fmt: skip
                with pytest.raises(SafetensorError):
                    read()


@pytest.mark.parametrize("framework", ["np", "pt"])
@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_an_index_of_f4_selects_whole_bytes(tmp_path, framework, backend):
    if framework == "pt" and not has_f4():
        pytest.skip("PyTorch without float4_e2m1fn_x2")
    content = numpy.arange(12, dtype=numpy.uint8).reshape(3, 2, 2)
    path = narrow_file(tmp_path, "F4", [3, 2, 4], 12)
    with safe_open(path, framework=framework, backend=backend) as file:
        part = file.get_slice("x")

        def read(index):
            found = part[index]
            if framework == "pt":
                import torch

                found = found.view(torch.uint8).numpy()
            return found

        for index, bytes_index in (
            (s_[:], s_[:]), (1, 1), (s_[::2], s_[::2]), (s_[0, 1], s_[0, 1]),
            (s_[..., 2:4], s_[..., 1:2]), (s_[1:, 0, 0:2], s_[1:, 0, 0:1]),
        ):  # fmt: skip
            assert same(read(index), content[bytes_index]), index
        for index in (
            s_[..., 0], s_[..., ::2], s_[..., 1:3], s_[..., 0:1], s_[0, 0, 0], None, [0], (0, [1]),
        ):  # fmt: skip
            with pytest.raises(SafetensorError):
                part[index]


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_f6_is_bytes_which_no_row_or_step_selects(tmp_path, backend):
    path = narrow_file(tmp_path, "F6_E2M3", [2, 4], 6)
    with safe_open(path, framework="np", backend=backend) as file:
        part = file.get_slice("x")
        assert part[1:].tolist() == [3, 4, 5]
        for index in (0, s_[::2], s_[..., 0], s_[:, ::2], s_[:, :2]):
            with pytest.raises(SafetensorError):
                part[index]
