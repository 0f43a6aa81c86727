# SPDX-License-Identifier: Apache-2.0
"""Arguments that must be refused, and the files of closed checkpoints."""

import errno
import os
import resource
import types

import numpy
import pytest

import ringload
from ringload import _core, _names


def open_files(path):
    """The number of descriptors of this process for the file."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{number}") == os.path.realpath(path)
        except OSError:  # The descriptor of the listing.
            pass
    return found


def test_closed_checkpoint_has_its_catalog_and_no_files(sample, arrays):
    before = open_files(sample)
    with ringload.Loader() as loader:
        for opened in (lambda: ringload.open(sample), lambda: loader.open(sample).result()):
            with opened() as checkpoint:
                stored = checkpoint["i32"]
                metadata, files, notes = checkpoint.metadata, checkpoint.files, checkpoint.notes
                assert open_files(sample) > before
            assert open_files(sample) == before
            assert set(checkpoint) == set(arrays) and len(checkpoint) == len(arrays)
            assert checkpoint["i32"].shape == stored.shape and "no" not in checkpoint
            assert (checkpoint.metadata, checkpoint.files) == (metadata, files)
            assert (checkpoint.composites, checkpoint.notes) == ([], notes)
            with pytest.raises(RuntimeError, match="the Checkpoint is closed"):
                loader.load(checkpoint).result()
            checkpoint.close()


def test_lack_of_descriptors_is_an_OSError():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        with pytest.raises(OSError) as failed:
            _core.Waker()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert failed.value.errno == errno.EMFILE


def test_open_takes_no_checkpoint(sample):
    with ringload.Loader() as loader, loader.open(sample).result() as checkpoint:
        with pytest.raises(TypeError, match="Checkpoint"):
            loader.open(checkpoint)


@pytest.mark.parametrize("value", ["false", "no", 0, 1, []])
def test_switches_are_booleans(value):
    for switch in ("offline", "hdf5"):
        with pytest.raises(TypeError, match=f"{switch} must be True, False or None, not "):
            ringload.Loader(**{switch: value})
    with pytest.raises(TypeError, match="anonymous must be"):
        ringload.Loader(remote={"anonymous": value})


def test_network_options_of_a_small_file_are_checked(sample):
    with pytest.raises(ringload.UsageError, match="tokn"):
        ringload.load(sample, remote={"tokn": 1})
    with pytest.raises(TypeError, match="offline"):
        ringload.load(sample, offline="false")


def test_builtin_float_has_64_bits(sample):
    with pytest.raises(ringload.UsageError, match="f64|F64|F32"):
        ringload.load(sample, dtype=float)


@pytest.mark.parametrize("types", [["f8_e4m3", "f8_e5m2"], ["bf16", "f16"], ["f32"], ["f4"]])
def test_types_of_nameless_tensors_are_one_for_each_width(sample, types):
    with pytest.raises(ringload.UsageError, match=f"^nameless: .*'{types[0].split('_')[0]}"):
        ringload.load(sample, nameless=types)
    assert len(ringload.load(sample, nameless=["bf16", "f8_e5m2", "bf16"])) > 0


def test_errors_of_a_save_name_the_tensor(tmp_path):
    array = numpy.ones(3)
    masked = numpy.ma.masked_array(array, mask=[1, 0, 0])
    for wrong in ([1], masked, numpy.array(["text"])):
        with pytest.raises(TypeError, match="^tensor 'b': "):
            ringload.save(tmp_path / "x.safetensors", {"a": array, "b": wrong})


def test_builtin_types_are_those_of_numpy(sample):
    for builtin in (bool, int, float, complex):
        expected = numpy.zeros(1, builtin).dtype.name
        assert _names.dtype_name(builtin) == _names.dtype_name(expected)
    with ringload.Loader() as loader:
        copied = loader.copy(ringload.load(sample)["i32"], dtype=int)
        assert copied.result().dtype == "i64"


def test_metadata_that_is_no_dictionary_of_texts_is_named(tmp_path):
    arrays = {"x": numpy.ones(3)}
    for path in (tmp_path / "x.zt", tmp_path / "x.safetensors"):
        for wrong in ([("a", "b")], "text", 3, {1: "a"}, {"a": {1}}, {"a": object()}):
            with pytest.raises(TypeError, match="^metadata"):
                ringload.save(path, arrays, metadata=wrong)
        with pytest.raises(ringload.UsageError, match="^metadata: a key .*UTF-8"):
            ringload.save(path, arrays, metadata={"\udcff": "a"})
        assert not path.exists()
        ringload.save(path, arrays, metadata=types.MappingProxyType({"a": "b"}))
        assert ringload.load(path).metadata == {"a": "b"}


def test_an_empty_verify_says_what_is_allowed(sample):
    for empty in ("", b""):
        with pytest.raises(ringload.UsageError, match="^verify: .*if_present.*require.*path"):
            ringload.load(sample, verify=empty)


def test_sizes_may_be_integers_of_numpy(sample, arrays):
    found = dict(ringload.stream(sample, window=numpy.int64(1 << 20)))
    assert set(found) == set(arrays)
    with pytest.raises(TypeError, match="^window"):
        next(iter(ringload.stream(sample, window=numpy.float64(1 << 20))))


def test_save_takes_packed_floats_of_4_bits(tmp_path):
    torch = pytest.importorskip("torch")
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("this PyTorch has no float4")
    packed = torch.arange(12, dtype=torch.uint8).reshape(3, 4).view(torch.float4_e2m1fn_x2)
    path = tmp_path / "x.safetensors"
    ringload.save(path, {"x": packed, "part": packed[:, 1:3]})
    model = ringload.load(path)
    assert (model["x"].dtype, model["x"].shape) == ("f4", (3, 8))
    again = model.torch()
    assert again["x"].dtype == packed.dtype
    for name, expected in (("x", packed), ("part", packed[:, 1:3])):
        assert torch.equal(again[name].view(torch.uint8), expected.view(torch.uint8))
    with pytest.raises(ringload.UsageError, match="tensor 'x'.* F4"):
        ringload.save(tmp_path / "x.zt", {"x": packed})
    with pytest.raises(TypeError, match="^tensor 'x': .*float4_e2m1fn_x2 without dimensions"):
        ringload.save(path, {"x": packed[0, 0]})
