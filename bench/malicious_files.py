#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs to refuse files that mean harm: time and memory of `ringload load`.

    bench/malicious_files.py RINGLOAD [--only TEXT] [--repeat N]

Makes one file after the other, of each format that is read, and has it loaded. Each must be refused
with one line within 100 ms, of which starting the program is a part, and 100 MB; the time is the
best of N, the memory the largest; the processor time is what the program itself took, on a busy
machine too. Prints a table, and ends with 1 where one is not.
"""

import argparse
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import zlib

milliseconds_max = 100
megabytes_max = 100


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


# --- zip, with any lie in it


def deflated(content):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()


def zeros_deflated(count):
    """A deflate stream of so many zeros, without ever holding them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = bytes(1 << 20)
    parts = [packer.compress(block[: min(len(block), count - at)]) for at in range(0, count, 1 << 20)]
    return b"".join(parts) + packer.flush()


def member(name, content, size=None, method=0, flags=0, crc=None, local_name=None):
    size = len(content) if size is None else size
    crc = zlib.crc32(content) if crc is None else crc
    return {"name": name.encode(), "local": (local_name or name).encode(), "content": content,
            "size": size, "method": method, "flags": flags, "crc": crc}


def zipped(members, offsets=None, count=None):
    out, central = b"", b""
    for index, m in enumerate(members):
        at = len(out) if offsets is None else offsets[index]
        wide = m["size"] >= 0xFFFFFFFF
        extra = struct.pack("<HHQQ", 1, 16, m["size"], len(m["content"])) if wide else b""
        sizes = (0xFFFFFFFF, 0xFFFFFFFF) if wide else (len(m["content"]), m["size"])
        out += struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, m["flags"], m["method"], 0, 0, m["crc"],
                           *sizes, len(m["local"]), len(extra)) + m["local"] + extra + m["content"]
        central += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, m["flags"], m["method"], 0,
                               0, m["crc"], *sizes, len(m["name"]), len(extra), 0, 0, 0, 0, at)
        central += m["name"] + extra
    entries = min(len(members) if count is None else count, 0xFFFF)
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, entries, entries, len(central), len(out), 0)
    return out + central + end


def npy(descr, shape, data=b"", fortran=False):
    header = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, shape)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def numpy_files():
    one = npy("<f4", "(2,)", bytes(8))
    yield "npy: a header that is longer than the file", b"\x93NUMPY\x02\x00" + u32(0xFFFFFFF0)
    yield "npy: a header of 4 GB", b"\x93NUMPY\x02\x00" + u32(0xFFFFFFF0) + bytes(1 << 20)
    yield "npy: a shape that overflows", npy("<f8", "(%d, %d)" % (1 << 40, 1 << 40))
    yield "npy: a shape that overflows before a 0", npy("<f8", "(%d, %d, 0)" % (1 << 40, 1 << 40))
    yield "npy: a negative dimension", npy("<f8", "(-1,)", bytes(8))
    yield "npy: Python objects", npy("|O", "(1,)", b"\x80\x02.")
    yield "npy: 60,000 dimensions", npy("<f4", "(" + "1," * 30000 + ")", bytes(4))
    yield "npy: nested tuples", npy("<f4", "(" * 30000 + ")" * 30000, bytes(4))
    yield "npz: 40 GB of zeros in 39 MB", None
    yield "npz: zeros, the size a lie", zipped([member("a.npy", zeros_deflated(64 << 20), 1 << 40, 8)])
    yield "npz: members that overlap", zipped([member("a.npy", one), member("b.npy", one)], [0, 0])
    yield "npz: another name in the local header", zipped([member("a.npy", one, local_name="b.npy")])
    yield "npz: encrypted", zipped([member("a.npy", one, flags=1)])
    yield "npz: a method that is not known", zipped([member("a.npy", one, method=12)])
    yield "npz: a name that leaves the folder", zipped([member("../a.npy", one)])
    yield "npz: more members than there are", zipped([member("a.npy", one)], count=60000)
    yield "npz: the same member twice", zipped([member("a.npy", one)] * 2)
    yield "npz: 65,534 members without a header", zipped([member("%d.npy" % i, b"") for i in range(65534)])
    yield "npz: something before the archive", b"#!/bin/sh\n" + zipped([member("a.npy", one)])


# --- PyTorch


def archive(pickle, storages=(), **how):
    return zipped([member("a/data.pkl", pickle, **how)] +
                  [member("a/data/%s" % key, content) for key, content in storages])


def text(value):
    return b"X" + u32(len(value)) + value.encode()


def integer(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def tensor(key, stored, count, offset, size, stride, kind="FloatStorage"):
    numbers = lambda values: b"(" + b"".join(integer(v) for v in values) + b"t"
    storage = (b"(" + text("storage") + b"ctorch\n" + kind.encode() + b"\n" + text(key) +
               text("cpu") + integer(count) + b"tQ")
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + integer(offset) + numbers(size) +
            numbers(stride) + b"\x89ccollections\nOrderedDict\n)RtR")


def state(*values):
    return b"\x80\x02}(" + b"".join(text("t%d" % i) + v for i, v in enumerate(values)) + b"u."


def torch_files():
    four = [("0", bytes(16))]
    yield "pickle: os.system", archive(b"\x80\x02cos\nsystem\n" + text("echo") + b"\x85R.")
    yield "pickle: an opcode of protocol 4", archive(b"\x80\x04\x95" + u64(9) + b"\x8c\x01ae.")
    yield "pickle: an item set in what is no dictionary", archive(b"\x80\x02](" + text("a") + b"Nu.")
    yield "pickle: flood of None", archive(b"\x80\x02" + b"N" * 31_000_000 + b".")
    yield "pickle: flood of integers", archive(b"\x80\x02" + b"K\x01" * 15_000_000 + b".")
    yield "pickle: flood of marks", archive(b"\x80\x02" + b"(" * 31_000_000 + b".")
    yield "pickle: flood of lists", archive(b"\x80\x02" + b"]" * 31_000_000 + b".")
    yield "pickle: flood of dictionaries", archive(b"\x80\x02" + b"}" * 31_000_000 + b".")
    yield "pickle: flood of tuples", archive(b"\x80\x02N" + b"\x85" * 31_000_000 + b".")
    yield "pickle: flood of tuples of three", archive(b"\x80\x02" + b"NNN\x87" * 7_500_000 + b".")
    yield "pickle: flood of remembered values", archive(
        b"\x80\x02N" + b"".join(b"r" + u32(i) for i in range(6_000_000)) + b".")
    yield "pickle: one value remembered far away", archive(b"\x80\x02Nr" + u32(0xFFFFFFFF) + b".")
    yield "pickle: a list that grows", archive(
        b"\x80\x02](" + (b"N" * 1_000_000 + b"e(") * 30 + b"e.")
    yield "pickle: flood of classes", archive(
        b"\x80\x02" + b"".join(b"cm\n%d\n" % i for i in range(2_900_000)) + b".")
    yield "pickle: a text of 4 GB", archive(b"\x80\x02X" + u32(0xFFFFFFF0) + b"a.")
    yield "pickle: 256 MB of it", archive(b"\x80\x02" + text("x" * (256 << 20)) + b".")
    yield "pickle: deflated, 256 MB", archive(
        zeros_deflated(256 << 20), size=256 << 20, method=8, crc=0)
    yield "pickle: deflated, 31 MB of None", archive(
        deflated(b"\x80\x02" + b"N" * 31_000_000 + b"."), size=31_000_003, method=8,
        crc=zlib.crc32(b"\x80\x02" + b"N" * 31_000_000 + b"."))
    yield "pickle: nested 1,000,000 deep", archive(
        b"\x80\x02" + b"](" * 1_000_000 + b"e" * 1_000_000 + b".")
    yield "pickle: wrong checksum", archive(state(tensor("0", 16, 4, 0, [4], [1])), four, crc=1)
    yield "torch: a storage that is not there", archive(state(tensor("1", 16, 4, 0, [4], [1])), four)
    yield "torch: a storage of another size", archive(state(tensor("0", 16, 5, 0, [4], [1])), four)
    yield "torch: a view past its storage", archive(state(tensor("0", 16, 4, 1, [4], [1])), four)
    yield "torch: a negative stride", archive(state(tensor("0", 16, 4, 3, [4], [-1])), four)
    yield "torch: strides that overflow", archive(
        state(tensor("0", 16, 4, 0, [1 << 40, 2], [1 << 40, 1])), four)
    yield "torch: 16 bytes expanded to 2^62", archive(
        state(tensor("0", 16, 4, 0, [1 << 60], [0])), four)
    yield "torch: a hundred times 16 bytes expanded to 16 TB", archive(
        state(*[tensor("0", 16, 4, 0, [1 << 42], [0])] * 100), four)
    yield "torch: TorchScript", zipped([member("a/data.pkl", b"\x80\x02}."), member("a/constants.pkl", b".")])
    yield "torch: a member that is there twice", zipped(
        [member("a/data.pkl", state()), member("a/data.pkl", b"\x80\x02cos\nsystem\n.")])
    magic = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."
    yield "torch, older form: flood of None", magic + b"\x80\x02}.\x80\x02" + b"N" * 31_000_000
    yield "torch, older form: endless", magic + b"\x80\x02}.\x80\x02" + b"(" + b"NNN\x870" * 7_000_000


# --- GGUF


def gguf_text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return u64(len(value)) + value


def gguf(tensors=0, pairs=0, rest=b"", version=3):
    return b"GGUF" + u32(version) + u64(tensors) + u64(pairs) + rest


def gguf_info(name, dims, kind, offset):
    return gguf_text(name) + u32(len(dims)) + b"".join(u64(d) for d in dims) + u32(kind) + u64(offset)


def gguf_files():
    info = gguf_info
    yield "gguf: 2^63 tensors", gguf(1 << 63, 0)
    yield "gguf: 2^60 keys", gguf(0, 1 << 60)
    yield "gguf: 100,000,000 tensors in a large file", gguf(100_000_000, 0, bytes(90_000_000))
    yield "gguf: a key of 2^60 bytes", gguf(0, 1, u64(1 << 60) + b"a")
    yield "gguf: an array of 2^60", gguf(0, 1, gguf_text("a") + u32(9) + u32(4) + u64(1 << 60))
    yield "gguf: 10,000,000 empty texts", gguf(
        1, 1, gguf_text("a") + u32(9) + u32(8) + u64(10_000_000) + bytes(80_000_000))
    yield "gguf: arrays in arrays", gguf(
        0, 1, gguf_text("a") + u32(9) + (u32(9) + u64(1)) * 1000 + u32(4) + u64(0))
    yield "gguf: the same key twice", gguf(0, 2, (gguf_text("a") + u32(4) + u32(1)) * 2)
    yield "gguf: 3,000,000 keys", gguf(
        1, 3_000_000, b"".join(gguf_text(b"%07d" % i) + u32(7) + b"\1" for i in range(3_000_000)))
    yield "gguf: 1,200,000 tensors that all lie at 0", gguf(
        1_200_000, 0, b"".join(info(b"%07d" % i, [8], 0, 0) for i in range(1_200_000)))
    yield "gguf: an alignment of 2^31", gguf(
        1, 1, gguf_text("general.alignment") + u32(4) + u32(1 << 31) + info("a", [1], 0, 0))
    yield "gguf: dimensions whose product is 2^64", gguf(1, 0, info("a", [1 << 32, 1 << 32], 0, 0) + bytes(64))
    yield "gguf: a product that wraps, and a 0", gguf(
        1, 0, info("a", [1 << 32, 1 << 32, 0], 0, 0) + bytes(64))
    yield "gguf: a size that wraps", gguf(1, 0, info("a", [1 << 62], 0, 0) + bytes(64))
    yield "gguf: an offset near 2^64", gguf(1, 0, info("a", [8], 0, (1 << 64) - 32) + bytes(64))
    yield "gguf: a sum of sizes that wraps", gguf(
        2, 0, info("a", [(1 << 62) - 8], 0, 0) + info("b", [8], 0, (1 << 64) - 32) + bytes(96))
    yield "gguf: rank 5", gguf(1, 0, info("a", [1] * 5, 0, 0) + bytes(64))
    yield "gguf: a removed type", gguf(1, 0, info("a", [32], 4, 0) + bytes(64))
    yield "gguf: a row that is no whole block", gguf(1, 0, info("a", [33], 2, 0) + bytes(96))
    yield "gguf: data that is not there", gguf(1, 0, info("a", [1 << 30], 0, 0) + bytes(64))


# --- ONNX


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def number(at, value):
    return varint(at << 3) + varint(value)


def onnx_tensor(name, dims, more, kind=1):
    return b"".join(number(1, d) for d in dims) + number(2, kind) + field(8, name.encode()) + more


def onnx(tensors=b"", nodes=b""):
    return number(1, 10) + field(7, nodes + tensors)


def external(location):
    pair = field(1, b"location") + field(2, location.encode())
    return onnx(field(5, onnx_tensor("a", [2], field(13, pair) + number(14, 1))))


def onnx_files():
    raw = field(9, bytes(8))
    deep = b""
    for _ in range(5000):
        deep = field(1, field(5, field(1, b"g") + field(6, deep)))
    yield "onnx: ../ in external data", external("../secret")
    yield "onnx: a/../.. in external data", external("a/../../secret")
    yield "onnx: an absolute path in external data", external("/etc/passwd")
    yield "onnx: external data that is not there", external("nothing.data")
    yield "onnx: a length past the end", onnx(field(5, onnx_tensor("a", [2], varint(9 << 3 | 2) + varint(1 << 62))))
    yield "onnx: dims that overflow", onnx(field(5, onnx_tensor("a", [1 << 40, 1 << 40], raw)))
    yield "onnx: dims that overflow before a 0", onnx(field(5, onnx_tensor("a", [1 << 40, 1 << 40, 0], b"")))
    yield "onnx: raw_data twice", onnx(field(5, onnx_tensor("a", [2], raw + raw)))
    yield "onnx: two names", onnx(field(5, onnx_tensor("a", [2], raw + field(8, b"b"))))
    yield "onnx: two graphs", onnx(field(5, onnx_tensor("a", [2], raw))) + field(7, b"")
    yield "onnx: graphs 5,000 deep", onnx(nodes=deep)
    yield "onnx: a number of 11 bytes", number(1, 10) + b"\x08" + b"\x80" * 10 + b"\x01"
    yield "onnx: a group", number(1, 10) + varint(7 << 3 | 3) + varint(7 << 3 | 4)
    yield "onnx: the same name twice", onnx(field(5, onnx_tensor("a", [2], raw)) * 2)
    yield "onnx: 1,000,000 tensors of one name", onnx(field(5, onnx_tensor("a", [2], raw)) * 1_000_000)
    yield "onnx: 2,000,000 dims", onnx(field(5, onnx_tensor("a", [1] * 2_000_000, raw)))
    yield "onnx: loose values in 2,000,000 places", onnx(
        field(5, onnx_tensor("a", [2_000_000], number(7, 1) * 2_000_000, 7)))
    long_path = field(5, field(1, b"g") + field(6, field(5, onnx_tensor("t", [2], raw)) * 20_000))
    yield "onnx: a long path before 20,000 names", onnx(
        nodes=field(1, field(2, b"p" * 60_000) + field(4, b"If") + long_path))


# --- .zt


def cbor(major, argument):
    if argument < 24:
        return bytes([major << 5 | argument])
    for code, form, limit in ((24, ">B", 8), (25, ">H", 16), (26, ">I", 32), (27, ">Q", 64)):
        if argument < 1 << limit:
            return bytes([major << 5 | code]) + struct.pack(form, argument)


def of(value):
    if isinstance(value, bytes):
        return value
    if isinstance(value, int):
        return cbor(0, value)
    if isinstance(value, str):
        return cbor(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return cbor(4, len(value)) + b"".join(map(of, value))
    return cbor(5, len(value)) + b"".join(of(k) + of(v) for k, v in value.items())


def zt(manifest, blobs=bytes(64), size=None):
    manifest = of(manifest)
    return (b"ZTEN1000" + bytes(56) + blobs + manifest +
            u64(len(manifest) if size is None else size) + b"ZTEN1000")


def zt_object(shape=(2,), kind="dense", **component):
    data = {"dtype": "f32", "offset": 64, "length": 8, **component}
    return {"shape": list(shape), "format": kind, "components": {"data": data}}


def zt_root(objects, **more):
    return {"version": "1.2.0", **more, "objects": objects}


def zt_files():
    yield "zt: a manifest of 2^60 bytes", zt(zt_root({}), size=1 << 60)
    yield "zt: a manifest longer than the file", zt(zt_root({}), size=1 << 29)
    yield "zt: arrays 1,000,000 deep", zt(b"\xa1" + of("version") + b"\x81" * 1_000_000)
    yield "zt: a map of 2^60", zt(b"\xbb" + u64(1 << 60))
    yield "zt: a text of 2^60", zt(b"\x7b" + struct.pack(">Q", 1 << 60))
    yield "zt: a text of 1 TB in pieces", zt(b"\x7f" + b"\x7b" + struct.pack(">Q", 1 << 40))
    yield "zt: an offset near 2^64", zt(zt_root({"a": zt_object(offset=(1 << 64) - 64)}))
    yield "zt: a length near 2^64", zt(zt_root({"a": zt_object(length=(1 << 64) - 8)}))
    yield "zt: a blob inside of the manifest", zt(zt_root({"a": zt_object(offset=128)}))
    yield "zt: an offset that is misaligned", zt(zt_root({"a": zt_object(offset=65)}))
    yield "zt: a shape that overflows", zt(zt_root({"a": zt_object(shape=[1 << 40, 1 << 40])}))
    yield "zt: 8 bytes of zstd that become 2^60", zt(zt_root(
        {"a": zt_object(shape=[1 << 58], encoding="zstd", uncompressed_length=1 << 60)}))
    yield "zt: no uncompressed_length", zt(zt_root({"a": zt_object(encoding="zstd")}))
    yield "zt: a digest that is no number", zt(zt_root({"a": zt_object(digest="crc32c:0xnothing")}))
    yield "zt: a name twice", zt(b"\xa2" + of("version") + of("1.2.0") + of("objects") + b"\xa2" +
                                 (of("a") + of(zt_object())) * 2)
    yield "zt: 40 MB of attributes", zt(zt_root({}, attributes={"a": "x" * (40 << 20)}))
    yield "zt: 400,000 attributes of 60 bytes", zt(zt_root(
        {"a": {**zt_object(), "attributes": {"%060d" % i: i for i in range(400_000)}}}))
    yield "zt: a long name before 1,000 components", zt(zt_root(
        {"n" * 1_000_000: {"shape": [], "format": "group", "components": {
            "%d" % i: {"dtype": "f32", "offset": 64, "length": 8} for i in range(1_000)}}}))
    yield "zt: indptr of another length", zt(zt_root({"a": {
        "shape": [9, 9], "format": "sparse_csr", "components": {
            "values": {"dtype": "f32", "offset": 64, "length": 8},
            "indices": {"dtype": "u64", "offset": 64, "length": 16},
            "indptr": {"dtype": "u64", "offset": 64, "length": 16}}}}))
    yield "zt: version 2", b"\x89ZT2\r\n\x1a\n" + bytes(100)


# --- safetensors


def safetensors(header, data=b"", length=None):
    header = header if isinstance(header, bytes) else header.encode()
    return u64(len(header) if length is None else length) + header + data


def safetensors_files():
    one = '{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'
    many = "{" + ",".join('"w_%d":{"dtype":"F32","shape":[200,200],"data_offsets":[0,160000]}' % i
                          for i in range(100_000)) + "}"
    yield "safetensors: a length that is too long", safetensors(one, bytes(16), 1000)
    yield "safetensors: a header of 800 MB", safetensors(one, bytes(16), 800_000_000)
    yield "safetensors: 100,000 tensors at 0", safetensors(many, bytes(len(many)))
    yield "safetensors: 100,000 deep", safetensors('{"a":' + "[" * 100_000)


families = (safetensors_files, gguf_files, numpy_files, torch_files, onnx_files, zt_files)
extensions = {"npy": ".npy", "npz": ".npz", "pickle": ".pt", "torch": ".pt", "torch, older form": ".pt",
              "gguf": ".gguf", "onnx": ".onnx", "zt": ".zt", "safetensors": ".safetensors"}


def bomb(path):
    """40 GB of zeros as a member of an archive of 39 MB; the .npy header says the same."""
    head = npy("|u1", "(%d,)" % (40 << 30))
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    begin = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    unit = b"".join(packer.compress(bytes(1 << 20)) for _ in range(1 << 10)) + packer.flush(zlib.Z_FULL_FLUSH)
    path.write_bytes(zipped([member("a.npy", begin + unit * 40 + b"\x03\x00", len(head) + (40 << 30), 8, crc=0)]))


def loaded(ringload, path):
    """Exit code, line, seconds, bytes of memory at most, seconds of processor time."""
    read, write = os.pipe()
    begin = time.perf_counter()
    child = subprocess.Popen(
        [ringload, "load", str(path), "--no-progress"], stdout=subprocess.DEVNULL, stderr=write)
    os.close(write)
    said = b""
    while more := os.read(read, 65536):
        said += more
    os.close(read)
    _, status, used = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    own = used.ru_utime + used.ru_stime
    return child.returncode, said.decode(errors="replace"), seconds, used.ru_maxrss * 1024, own


def made(folder, only):
    """The files. A process of its own makes them: the memory that a program has taken at most counts
    from before it is a program of its own, and is that of whoever starts it."""
    child = os.fork()
    if child == 0:
        lines = []
        for family in families:
            for title, content in family():
                if only not in title:
                    continue
                name = "hostile%d%s" % (len(lines), extensions[title.split(":")[0]])
                bomb(folder / name) if content is None else (folder / name).write_bytes(content)
                lines.append(title + "\t" + name + "\n")
        (folder / "titles").write_text("".join(lines))
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        sys.exit("bench/malicious_files.py: the files could not be made")
    for line in (folder / "titles").read_text().splitlines():
        title, name = line.split("\t")
        yield title, folder / name


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ringload")
    parser.add_argument("--only", default="")
    parser.add_argument("--repeat", type=int, default=3)
    how = parser.parse_args()
    wrong = 0
    print("| file | bytes | refused in | processor time | memory | by |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for title, path in made(pathlib.Path(folder), how.only):
            runs = [loaded(how.ringload, path) for _ in range(how.repeat)]
            code, said = runs[0][:2]
            milliseconds = min(run[2] for run in runs) * 1000
            megabytes = max(run[3] for run in runs) / 1e6
            own = min(run[4] for run in runs) * 1000
            good = (code == 1 and said.count("\n") == 1 and milliseconds <= milliseconds_max and
                    megabytes <= megabytes_max)
            wrong += not good
            line = said.strip().split(path.name + ": ", 1)[-1][:110].replace("|", "\\|")
            print(f"| {title} | {path.stat().st_size:,} | {milliseconds:.0f} ms | {own:.0f} ms | "
                  f"{megabytes:.0f} MB | {line}{'' if good else ' **(not as it should be)**'} |",
                  flush=True)
    sys.exit(1 if wrong else 0)


main()
