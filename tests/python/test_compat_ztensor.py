# SPDX-License-Identifier: Apache-2.0
"""ringload.compat.ztensor and .vajra: what their users rely on."""

import hashlib
import json
import struct

import numpy
import pytest
from conftest import same, write_safetensors

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


def test_attributes_keep_their_types(tmp_path):
    values = {
        "bits": 4,
        "text": "4",
        "none": None,
        "null": "null",
        "bytes": b"\x01\xab",
        "hex": "01ab",
        "nested": {"a": [1, 2.5, True], "b": {}},
        "large": 2**80,
        "negative": -(2**70),
        "infinite": float("inf"),
    }
    given = {**values, "nan": float("nan"), "array": numpy.arange(3), "scalar": numpy.float32(0.5)}
    with ztensor.Writer(tmp_path / "a.zt") as writer:
        writer.write("t", ztensor.Tensor({"data": numpy.zeros(2)}, attributes=given))
    read = ztensor.Reader(tmp_path / "a.zt").read("t")
    found = dict(read.attributes)
    nan = found.pop("nan")
    assert nan != nan
    assert (found.pop("array"), found.pop("scalar")) == ([0, 1, 2], 0.5)
    assert found == values
    assert all(type(found[key]) is type(values[key]) for key in values)
    with ztensor.Writer(tmp_path / "b.zt") as writer:
        writer.write("t", read)
    assert (tmp_path / "a.zt").read_bytes() == (tmp_path / "b.zt").read_bytes()
    with pytest.raises(TypeError):
        ztensor.Writer(tmp_path / "c.zt").write(
            "t", ztensor.Tensor({"data": numpy.zeros(2)}, attributes={"a": object()})
        )


def test_a_refused_tensor_leaves_the_writer(tmp_path, arrays):
    with ztensor.Writer(tmp_path / "a.zt") as writer:
        writer.add("a", arrays["f32"])
        with pytest.raises(RuntimeError):
            writer.add("a", arrays["f32"])
        writer.add("b", arrays["f64"])
    assert ztensor.Reader(tmp_path / "a.zt").keys() == ["a", "b"]


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


def test_an_object_with_a_wrong_part_is_refused_before_it_is_begun(arrays, tmp_path):
    parts = {"values": arrays["f32"], "indices": numpy.zeros(2, object)}
    wrong = ztensor.Tensor(parts, shape=[2, 3], format="other")
    with ztensor.Writer(tmp_path / "a.zt") as writer:
        with pytest.raises(TypeError):
            writer.write("wrong", wrong)
        with pytest.raises(ValueError):
            writer.add("x", arrays["f32"], checksum="md5")
        writer.add("x", arrays["f32"])
    reader = ztensor.Reader(tmp_path / "a.zt")
    assert reader.keys() == ["x"] and same(reader["x"], arrays["f32"])


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


def test_read_into_fills_arrays_that_the_library_cannot_describe(tmp_path):
    values = numpy.array([1.5, -2.5, 300, 4], numpy.float32)
    zt_numpy.save_file({"x": values}, tmp_path / "a.zt")
    records = numpy.zeros(4, numpy.dtype([("a", "i1"), ("b", "<f4")]))
    shifted = numpy.zeros(17, numpy.uint8)[1:].view(numpy.float32)
    into = {
        "big-endian": numpy.zeros(4, ">f4"),
        "field": records["b"],
        "unaligned": shifted,
        "reversed": numpy.zeros(4, numpy.float32)[::-1],
        "complex": numpy.zeros(4, numpy.complex64),
        "object": numpy.zeros(4, object),
        "repeated": numpy.zeros((2, 4), numpy.float64),
    }
    reader = ztensor.Reader(tmp_path / "a.zt")
    for name, array in into.items():
        reader.read_into("x", array)
        expected = numpy.zeros_like(array)
        numpy.copyto(expected, values)
        assert (array == expected).all() and expected.any(), name
    for wrong in (numpy.float32(0), [0, 0, 0, 0], bytearray(16), None):
        with pytest.raises(TypeError):
            reader.read_into({"x": wrong})
    fixed = numpy.zeros(4, numpy.float32)
    fixed.flags.writeable = False
    for wrong in (fixed, numpy.zeros(3, numpy.float32), numpy.zeros((), numpy.float32)):
        with pytest.raises(ValueError):
            reader.read_into("x", wrong)


def test_read_into_casts_as_numpy_does(tmp_path):
    import ml_dtypes

    stored = {
        "floats": numpy.array([1.5, -2.5, 300], numpy.float32),
        "integers": numpy.array([1, -2, 300], numpy.int32),
        "complex": numpy.array([1, -2j, 300], numpy.complex64),
        "short": numpy.array([1, -2, 300], ml_dtypes.bfloat16),
    }
    zt_numpy.save_file(stored, tmp_path / "a.zt")
    reader = ztensor.Reader(tmp_path / "a.zt")
    for name, values in stored.items():
        for dtype in ("i1", "u1", "i8", "?", "f2", "f4", "f8", "c8"):
            array = numpy.zeros(3, dtype)
            try:
                expected = numpy.zeros(3, dtype)
                numpy.copyto(expected, values)
            except TypeError:
                with pytest.raises(TypeError, match="same_kind"):
                    reader.read_into(name, array)
                assert not array.any()
                continue
            reader.read_into(name, array)
            assert same(array, expected), (name, dtype)
    with pytest.raises(TypeError, match="same_kind"):
        reader.read_into("complex", numpy.zeros(3, ml_dtypes.bfloat16))

    # A wrong destination is found before any is written.
    right = numpy.zeros(3, numpy.float32)
    with pytest.raises(TypeError):
        reader.read_into({"floats": right, "integers": numpy.zeros(3, bool)})
    assert not right.any()


def test_read_into_pytorch_copies_as_pytorch_does(tmp_path):
    torch = pytest.importorskip("torch")
    values = torch.tensor([1.5, -2.5, 300.0, 4.0])
    zt_numpy.save_file({"x": values.numpy()}, tmp_path / "a.zt")
    reader = ztensor.Reader(tmp_path / "a.zt")
    into = {
        "conjugated": torch.zeros(4, dtype=torch.complex64).conj(),
        "negated": torch.zeros(4, dtype=torch.complex64).conj().imag,
        "int8": torch.zeros(4, dtype=torch.int8),
        "half": torch.zeros(2, 4, dtype=torch.half),
        "strided": torch.zeros(4, 2)[:, 1],
    }
    for name, tensor in into.items():
        reader.read_into("x", tensor)
        expected = torch.zeros_like(tensor)
        expected.copy_(values)
        assert torch.equal(tensor, expected), name
    reader.read_into("x", torch.zeros(4, device="meta"))  # As of any device but the host.
    with pytest.raises(TypeError):
        reader.read_into("x", torch.zeros(4).to_sparse())


@pytest.mark.parametrize("checksum", ["crc32c", "sha256"])
def test_digests_of_the_file_are_compared(tmp_path, checksum):
    values = numpy.arange(1000, dtype=numpy.float32)
    with ztensor.Writer(tmp_path / "a.zt") as writer:
        writer.write_numpy("x", values, compress=3, checksum=checksum)
        writer.write_numpy("raw", values, checksum=checksum)
    reader = ztensor.Reader(tmp_path / "a.zt")
    assert same(reader.read_numpy("x"), values) and same(reader["raw"], values)
    content = bytearray((tmp_path / "a.zt").read_bytes())
    for name in ("x", "raw"):
        stored = reader.metadata(name).components["data"]
        content[stored["offset"] + stored["length"] - 20] ^= 1
    (tmp_path / "b.zt").write_bytes(content)
    damaged = ztensor.Reader(tmp_path / "b.zt")
    for read in (
        lambda: damaged.read_numpy("x"),
        lambda: damaged.read("x"),
        lambda: damaged.read_into("x", numpy.zeros(1000, numpy.float32)),
        lambda: zt_numpy.load_file(tmp_path / "b.zt"),
        lambda: damaged.read_numpy("raw", copy=True),
    ):
        with pytest.raises(RuntimeError, match=checksum):
            read()


def test_names_and_keys_are_texts(tmp_path):
    array = numpy.zeros(2, numpy.float32)
    for name, wrong in ((3, TypeError), (b"x", TypeError), ("\udc80", ValueError)):
        with pytest.raises(wrong):
            zt_numpy.save_file({name: array}, tmp_path / "a.zt")
        with pytest.raises(wrong):
            zt_numpy.save({name: array})
        with pytest.raises(wrong):
            ztensor.Writer(tmp_path / "a.zt").write_numpy(name, array)
        with pytest.raises(wrong):
            parts = {"values": array, name: array}
            csr = ztensor.Tensor(parts, shape=[2], format="other", dtype="float32")
            ztensor.Writer(tmp_path / "a.zt").write("y", csr)
    with pytest.raises(TypeError, match="metadata"):
        zt_numpy.save_file({"x": array}, tmp_path / "a.zt", metadata={3: "a"})
    assert list(tmp_path.iterdir()) == []


def write_gguf(path, blocks, shape):
    """A file of one tensor of Q8_0: blocks of 34 bytes for 32 elements."""
    name, q8_0 = b"x", 8
    header = b"GGUF" + struct.pack("<IQQ", 3, 1, 0)
    header += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(shape))
    header += struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", q8_0, 0)
    path.write_bytes(header + bytes(-len(header) % 32) + blocks)


def test_quantised_tensors_of_gguf_say_their_type_and_shape(tmp_path):
    blocks = bytes(range(34)) * 4
    write_gguf(tmp_path / "a.gguf", blocks, (2, 64))
    reader = ztensor.Reader(tmp_path / "a.gguf")
    meta = reader.metadata("x")
    assert (reader.format, meta.dtype, meta.type, meta.shape) == ("gguf", "uint8", None, [136])
    assert meta.attributes == {"gguf_type": "q8_0", "original_shape": [2, 64]}
    read = reader.read("x")
    assert read.attributes == meta.attributes and read.numpy().tobytes() == blocks


def test_vajra_loads_a_model(arrays, tmp_path):
    torch = pytest.importorskip("torch")
    from ringload.compat.vajra import StreamConfig, VajraStreamer

    some = {name: arrays[name] for name in ("f32", "bf16", "bool", "scalar", "empty")}
    path = write_safetensors(tmp_path / "a.safetensors", some)
    settings = StreamConfig(chunk_size_mb=2, chunk_workers=4)
    with VajraStreamer(settings, device="cpu") as streamer:
        found = streamer.load(path)
        with pytest.raises(ConnectionError):
            streamer.load("no/such-model")
    assert set(found) == set(some)
    assert torch.equal(found["f32"], torch.from_numpy(some["f32"]))


def test_vajra_loads_all_files_of_a_folder_without_an_index(tmp_path):
    pytest.importorskip("torch")
    from ringload.compat.vajra import VajraStreamer

    for number, name in enumerate(("a", "b", "inner/c")):
        path = tmp_path / f"{name}.safetensors"
        path.parent.mkdir(exist_ok=True)
        write_safetensors(path, {name: numpy.full(3, number, numpy.float32)})
    with VajraStreamer(device="cpu") as streamer:
        found = streamer.load(str(tmp_path))
        assert {name: int(tensor[0]) for name, tensor in found.items()} == {
            "a": 0, "b": 1, "inner/c": 2
        }  # fmt: skip
        # An index says which files are the model.
        index = {"metadata": {}, "weight_map": {"a": "a.safetensors"}}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
        assert set(streamer.load(str(tmp_path))) == {"a"}
        (tmp_path / "inner/c.safetensors").write_bytes(b"broken")
        with pytest.raises(RuntimeError):
            streamer.load(str(tmp_path / "inner"))


def test_vajra_refuses_types_that_pytorch_lacks_before_it_reads(monkeypatch, sample):
    torch = pytest.importorskip("torch")
    from ringload.compat.vajra import VajraStreamer

    for name in ("uint16", "uint32", "uint64"):
        monkeypatch.delattr(torch, name, raising=False)
    with VajraStreamer(device="cpu") as streamer:
        with pytest.raises(RuntimeError, match="tensor '.*no type for"):
            streamer.load(sample)
        assert streamer._loader.memory["tensor_bytes_peak"] == 0


def test_objects_of_small_floats_are_tensors_of_pytorch(arrays, tmp_path):
    torch = pytest.importorskip("torch")
    zt_numpy.save_file(arrays, tmp_path / "a.zt")
    reader = ztensor.Reader(tmp_path / "a.zt")
    for name, dtype in (("f8_e4m3", torch.float8_e4m3fn), ("bf16", torch.bfloat16)):
        tensor = reader.read(name).torch()
        assert tensor.dtype == dtype
        assert tensor.view(torch.uint8).numpy().tobytes() == arrays[name].tobytes()
