#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes vectors.txt: twelve .zt files as zTensor 1.2.3 writes them, each a line: its name, its
size, the SHA-256 of the file, its manifest.

    pip install ztensor==1.2.3 numpy ml_dtypes && ./make_vectors.py
"""
import hashlib
import os
import pathlib
import tempfile

import ml_dtypes
import numpy as np
import ztensor
from ztensor import Tensor

SQUARE = np.array([[1, 2], [3, 4]], np.float32)
CSR = {"values": np.array([1, 2, 3], np.float32), "indices": np.array([0, 3, 1], np.uint64),
       "indptr": np.array([0, 2, 3], np.uint64)}
COO = {"values": np.array([1, 2, 3], np.float16), "coords": np.array([0, 1, 1, 3, 0, 2], np.uint64)}
GROUP = {"packed_weight": np.arange(16, dtype=np.int32), "scales": np.ones(4, np.float16),
         "zeros": np.zeros(4, np.uint8)}
ATTRIBUTES = {"bits": 4, "group_size": 32, "packing": "8_per_i32", "scale": 0.5,
              "deep": [1, -1, {"k": None, "a": True}]}

VECTORS = {
    "nothing": lambda w: None,
    "raw": lambda w: w.write_numpy("t", SQUARE),
    "crc32c": lambda w: w.write_numpy("t", SQUARE, checksum="crc32c"),
    "sha256": lambda w: w.write_numpy("t", SQUARE, checksum="sha256"),
    "two": lambda w: (w.write_numpy("z", np.array([1, 2, 3], np.uint8)),
                      w.write_numpy("a", np.array([-1], np.int64))),
    "empty": lambda w: (w.write_numpy("e", np.zeros((0, 3), np.float16), checksum="crc32c"),
                        w.write_numpy("f", np.array([True, False]))),
    "bf16": lambda w: w.write_numpy("b", np.array([1.5, -2], ml_dtypes.bfloat16)),
    "f8": lambda w: w.write("q", Tensor({"data": np.array([[0, 1, 2], [3, 4, 5]], np.uint8)},
                                        shape=[2, 3], dtype="uint8", type="f8_e4m3fn"),
                            checksum="crc32c"),
    "csr": lambda w: w.write("s", Tensor(CSR, shape=[2, 4], dtype="float32", format="sparse_csr"),
                             checksum="crc32c"),
    "coo": lambda w: w.write("c", Tensor(COO, shape=[2, 4], dtype="float16", format="sparse_coo"),
                             checksum="sha256"),
    "group": lambda w: w.write("g", Tensor(GROUP, shape=[8, 16], format="quantized_group",
                                           attributes=ATTRIBUTES)),
    "long": lambda w: w.write_numpy("layer." + "x" * 300, np.arange(70000, dtype=np.uint32)),
}

with tempfile.TemporaryDirectory() as folder, \
        open(pathlib.Path(__file__).parent / "vectors.txt", "w") as out:
    for name, write in VECTORS.items():
        path = os.path.join(folder, "file.zt")
        with ztensor.Writer(path) as writer:
            write(writer)
        whole = pathlib.Path(path).read_bytes()
        manifest = whole[-16 - int.from_bytes(whole[-16:-8], "little"):-16]
        print(name, len(whole), hashlib.sha256(whole).hexdigest(), manifest.hex(), file=out)
