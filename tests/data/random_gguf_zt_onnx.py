#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_gguf_zt_onnx.py RINGLOAD [FILES [SEED]]: makes so many files of each kind of random arrays
with gguf, ztensor 1.2.3 and onnx, and asks the tool what is in them: names, dtypes, shapes, and
every byte by its CRC-32C. No part of ./dev test."""
import json
import pathlib
import subprocess
import sys
import tempfile

here = sys.path.pop(0)  # In it is a folder "torch", which is not what zTensor looks for.
import gguf
import ml_dtypes
import numpy as np
import onnx
import ztensor
from onnx import helper, numpy_helper

sys.path.insert(0, here)
from listing import Listing

NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64",
         "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32",
         "uint16": "U16", "uint8": "U8", "bool": "BOOL"}
GGUF = ["float64", "float32", "float16", "int64", "int32", "int16", "int8"]
BLOCKS = [t for t, (elements, _) in gguf.GGML_QUANT_SIZES.items() if elements > 1 and t.name != "Q8_1"]


def array(random, name, rank_max=4):
    dtype = np.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name)
    shape = [int(random.choice([1, 1, 2, 3, 5, 17, 40])) for _ in range(random.integers(0, rank_max + 1))]
    count = int(np.prod(shape))
    if name == "bool":
        return random.integers(0, 2, count).astype(bool).reshape(shape)
    return np.frombuffer(random.bytes(count * dtype.itemsize), dtype).reshape(shape)


def make_gguf(random, path, listing):
    big = bool(random.integers(0, 2))
    writer = gguf.GGUFWriter(path, "x", endianess=gguf.GGUFEndian.BIG if big else gguf.GGUFEndian.LITTLE)
    for i in range(random.integers(1, 12)):
        name = f"t{i}"
        if random.random() < 0.4:
            type = BLOCKS[random.integers(len(BLOCKS))]
            elements, size = gguf.GGML_QUANT_SIZES[type]
            rows, per_row = map(int, random.integers(1, 6, 2))
            data = np.frombuffer(random.bytes(rows * per_row * size), np.uint8).reshape(rows, -1)
            listing.add(name, "U8", (data.size,), data.tobytes(), type.name.lower(),
                        (rows, per_row * elements))
            writer.add_tensor(name, data.copy(), raw_dtype=type)
        else:
            values = array(random, str(random.choice(GGUF)))
            values = values.reshape(1) if values.ndim == 0 else values
            listing.add(name, NAMES[str(values.dtype)], values.shape, values.tobytes())
            writer.add_tensor(name, values.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_zt(random, path, listing):
    with ztensor.Writer(str(path)) as writer:
        for i in range(random.integers(1, 12)):
            values = array(random, str(random.choice(list(NAMES))))
            values = values.reshape(1) if values.ndim == 0 else values
            compress = [None, True, 1, 19][random.integers(4)]
            checksum = str(random.choice(["none", "crc32c", "sha256"]))
            writer.write_numpy(f"t{i}", values, compress=compress, checksum=checksum)
            listing.add(f"t{i}", NAMES[str(values.dtype)], values.shape, values.tobytes())


def make_onnx(random, path, listing):
    tensors = []
    for i in range(random.integers(1, 12)):
        values = array(random, str(random.choice(list(NAMES))))
        tensor = numpy_helper.from_array(values, f"t{i}")
        if random.random() < 0.5:  # In the typed field, and not as raw_data.
            tensor = helper.make_tensor(f"t{i}", tensor.data_type, values.shape, values.ravel())
        listing.add(f"t{i}", NAMES[str(values.dtype)], values.shape,
                    numpy_helper.to_array(tensor).tobytes())
        tensors.append(tensor)
    model = helper.make_model(helper.make_graph([], "g", [], [], initializer=tensors))
    external = random.random() < 0.4
    where = dict(save_as_external_data=True, location=path.name + ".data", size_threshold=0)
    onnx.save_model(model, path, **(where if external else {}))


def check(tool, path, listing):
    listing.write()
    found = json.loads(subprocess.run([tool, "ls", "--json", path], check=True,
                                      capture_output=True).stdout)
    said = sorted((t["name"], t["dtype"], str(t["shape"])) for t in found["tensors"])
    assert said == sorted(row[:3] for row in listing.rows), path
    verified = subprocess.run([tool, "verify", path, "--checksums", f"{path}.manifest"],
                              capture_output=True, text=True)
    assert verified.returncode == 0, (path, verified.stdout, verified.stderr)


def main():
    tool = sys.argv[1]
    files = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else int(np.random.SeedSequence().entropy % 2**32)
    print(f"seed {seed}", flush=True)
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(files):
            for kind, make in (("gguf", make_gguf), ("zt", make_zt), ("onnx", make_onnx)):
                path = pathlib.Path(folder) / f"f{i}.{kind}"
                listing = Listing(path)
                make(random, path, listing)
                check(tool, path, listing)
    print(f"{files} files of each kind are equal")


main()
