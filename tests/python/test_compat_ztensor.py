# SPDX-License-Identifier: Apache-2.0
"""ringload.compat.ztensor and .vajra: what their users rely on."""

import hashlib

import numpy
import pytest
from conftest import same

from ringload.compat import ztensor
from ringload.compat.ztensor import numpy as zt_numpy


def test_writer_makes_the_reference_bytes(tmp_path):
    matrix = numpy.array([[1, 2], [3, 4]], numpy.float32)
    # Of whole files, computed by an encoder of its own from the format's text.
    for checksum, expected in (
        ("none", "1bc655ca5b197f56e43bf904def287416412170c1e95b8df694996ade30a7f1a"),
        ("crc32c", "54a62b5c04fb6c50b84725a01187499d8621c1f9b4158e1314f32cba685c4af9"),
    ):
        with ztensor.Writer(tmp_path / "v.zt") as writer:
            writer.add("t", matrix, checksum=checksum)
        assert hashlib.sha256((tmp_path / "v.zt").read_bytes()).hexdigest() == expected


@pytest.mark.parametrize("copy", [False, True])
def test_arrays_come_back(arrays, tmp_path, copy):
    zt_numpy.save_file(arrays, tmp_path / "a.zt", metadata={"k": "v"})
    found = zt_numpy.load_file(tmp_path / "a.zt", copy=copy)
    assert set(found) == set(arrays)
    assert all(same(found[name], array) for name, array in arrays.items())
    assert found["f32"].flags.writeable
    found["f32"][:] = 0
    again = ztensor.Reader(tmp_path / "a.zt")
    assert same(again["f32"], arrays["f32"])
    packed = zt_numpy.save(arrays, compression=True)
    assert all(same(array, arrays[name]) for name, array in zt_numpy.load(packed).items())


def test_objects_of_several_components(tmp_path):
    parts = {
        "values": numpy.array([1.5, 2.5, 3.5], numpy.float32),
        "indices": numpy.array([0, 2, 1], numpy.uint64),
        "indptr": numpy.array([0, 2, 3], numpy.uint64),
    }
    sparse = ztensor.Tensor(parts, shape=[2, 3], format="sparse_csr")
    dense = ztensor.Tensor({"data": numpy.zeros((2, 2))}, attributes={"scale": 0.5})
    with ztensor.Writer(tmp_path / "s.zt") as writer:
        writer.write("sparse", sparse, compress=True)
        writer.write("dense", dense)
    reader = ztensor.open(tmp_path / "s.zt")
    assert reader.keys() == ["dense", "sparse"] and len(reader) == 2 and "sparse" in reader
    meta = reader.metadata("sparse")
    assert (meta.format, list(meta.shape), meta.dtype) == ("sparse_csr", [2, 3], "float32")
    assert meta.components["values"]["encoding"] == "zstd"
    read = reader.read("sparse")
    assert all(same(read.components[name], array) for name, array in parts.items())
    with pytest.raises(TypeError, match="not dense"):
        reader.read_numpy("sparse")
    with pytest.raises(RuntimeError):
        read.numpy()


def test_append_remove_and_replace(arrays, tmp_path):
    path = tmp_path / "a.zt"
    with ztensor.Writer(path) as writer:
        writer.add("a", arrays["f32"])
        writer.add("b", arrays["i8"], compress=3)
    with ztensor.Writer.append(path) as writer:
        writer.add("c", arrays["f64"])
    ztensor.replace_tensor(path, "a", arrays["f32"] + 1)
    ztensor.remove_tensors(path, tmp_path / "b.zt", ["b"])
    reader = ztensor.Reader(tmp_path / "b.zt")
    assert reader.keys() == ["a", "c"]
    assert same(reader["a"], arrays["f32"] + 1)
    with pytest.raises(KeyError):
        ztensor.remove_tensors(path, tmp_path / "c.zt", ["no"])
    with pytest.raises(ValueError):
        ztensor.replace_tensor(path, "a", arrays["f64"])


def test_what_is_left_by_an_exception_is_not_there(arrays, tmp_path):
    with pytest.raises(ZeroDivisionError):
        with ztensor.Writer(tmp_path / "a.zt") as writer:
            writer.add("a", arrays["f32"])
            1 // 0
    assert list(tmp_path.iterdir()) == []
    writer = ztensor.Writer(tmp_path / "b.zt")
    writer.add("a", arrays["f32"])
    with pytest.raises(ValueError):
        ztensor.Writer(tmp_path / "c.zt").add("a", arrays["f32"], checksum="md5")
    assert writer.finish() == (tmp_path / "b.zt").stat().st_size
    with pytest.raises(RuntimeError):
        writer.finish()


def test_read_into_and_what_is_not_there(sample, arrays):
    reader = ztensor.Reader(sample)
    assert reader.format == "safetensors"
    into = {name: numpy.zeros_like(arrays[name]) for name in ("f32", "i64")}
    reader.read_into(into)
    assert all(same(array, arrays[name]) for name, array in into.items())
    with pytest.raises(ValueError):
        reader.read_into("f32", numpy.zeros((5, 7), numpy.float32))
    with pytest.raises(KeyError):
        reader["no"]
    with pytest.raises(OSError):
        ztensor.Reader("/no/such.zt")


def test_vajra_loads_a_model(sample, arrays):
    torch = pytest.importorskip("torch")
    from ringload.compat.vajra import StreamConfig, VajraStreamer

    select = StreamConfig(chunk_size_mb=2, chunk_workers=4)
    with VajraStreamer(select, device="cpu") as streamer:
        found = streamer.load(sample)
        with pytest.raises(ConnectionError):
            streamer.load("no/such-model")
    assert set(found) == set(arrays)
    assert torch.equal(found["f32"], torch.from_numpy(arrays["f32"]))
