# SPDX-License-Identifier: Apache-2.0
"""Arguments that must be refused, and the files of closed checkpoints."""

import errno
import os
import resource

import numpy
import pytest

import ringload
from ringload import _core


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
