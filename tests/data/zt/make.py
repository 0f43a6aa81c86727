#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the .zt file of this folder by zTensor 1.2.3, and what tests expect of it.

    pip install ztensor==1.2.3 numpy ml_dtypes && ./make.py [FOLDER]
"""
import os
import sys

import ml_dtypes
import numpy as np
import ztensor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from listing import Listing

folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
random = np.random.default_rng(12)
NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64",
         "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32",
         "uint16": "U16", "uint8": "U8", "bool": "BOOL"}

path = os.path.join(folder, "all.zt")
listing = Listing(path)


def expect(name, values, type="", dtype=None, shape=None):
    listing.add(name, dtype or NAMES[str(values.dtype)], values.shape if shape is None else shape,
                values.tobytes(), type)


with ztensor.Writer(path) as writer:
    for name in NAMES:
        if name == "bfloat16":
            continue
        values = random.integers(0, 2 if name == "bool" else 100, (3, 4)).astype(name)
        writer.write_numpy(name, values)
        expect(name, values)
    bf16 = random.normal(size=(5,)).astype(ml_dtypes.bfloat16)
    writer.write_numpy("bfloat16", bf16)
    expect("bfloat16", bf16)
    zeros = np.zeros((64, 8), np.float32)
    writer.write_numpy("packed", zeros, compress=True)
    expect("packed", zeros)
    writer.write_numpy("packed_crc", zeros, compress=19, checksum="crc32c")
    expect("packed_crc", zeros)
    some = random.integers(0, 255, (7,)).astype(np.uint8)
    writer.write_numpy("hashed", some, checksum="sha256")
    expect("hashed", some)
    empty = np.zeros((0, 3), np.float32)
    writer.write_numpy("empty", empty)
    expect("empty", empty)
    scalar = np.array(2.5, np.float64)
    writer.write_numpy("scalar", scalar)
    expect("scalar", scalar, shape=(1,))  # It makes one dimension of none.

    f8 = random.integers(0, 255, (2, 3)).astype(np.uint8)
    writer.write("f8", ztensor.Tensor({"data": f8}, shape=[2, 3], dtype="uint8", type="f8_e4m3fn"))
    expect("f8", f8, "f8_e4m3fn", "F8_E4M3")

    csr = {"values": np.array([1, 2, 3], np.float32), "indices": np.array([0, 3, 1], np.uint64),
           "indptr": np.array([0, 2, 3], np.uint64)}
    writer.write("csr", ztensor.Tensor(csr, shape=[2, 4], dtype="float32", format="sparse_csr"))
    for part, values in csr.items():
        expect(f"csr/{part}", values)
    coo = {"values": np.array([1, 2, 3], np.float16), "coords": np.array([0, 1, 1, 3, 0, 2], np.uint64)}
    writer.write("coo", ztensor.Tensor(coo, shape=[2, 4], dtype="float16", format="sparse_coo"))
    expect("coo/values", coo["values"])
    expect("coo/coords", coo["coords"], shape=(2, 3))
    group = {"packed_weight": random.integers(-9, 9, (16,)).astype(np.int32),
             "scales": random.normal(size=(4,)).astype(np.float16),
             "zeros": random.integers(0, 9, (4,)).astype(np.uint8)}
    writer.write("group", ztensor.Tensor(group, shape=[8, 16], format="quantized_group",
                                         attributes={"bits": 4, "packing": "8_per_i32"}))
    for part, values in group.items():
        expect(f"group/{part}", values)
listing.write()
