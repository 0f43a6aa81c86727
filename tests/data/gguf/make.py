#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the GGUF files of this folder by the package gguf (0.19), and what tests expect of them.

    pip install gguf==0.19.0 numpy && ./make.py [FOLDER [BLOCKS]]

With BLOCKS also many_blocks.gguf, of so many blocks a row, and everything by another seed each time.
"""
import os
import sys

import gguf
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from listing import Listing

folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
random = np.random.default_rng(None if len(sys.argv) > 2 else 16)
T = gguf.GGMLQuantizationType

PLAIN = {
    "F32": np.float32, "F16": np.float16, "F64": np.float64,
    "I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64,
}


def plain(path, endianess):
    writer = gguf.GGUFWriter(path, "test", endianess=endianess)
    writer.add_name("plain")
    writer.add_uint32("test.u32", 7)
    writer.add_float32("test.f32", 0.1)
    writer.add_bool("test.yes", True)
    writer.add_array("test.tokens", ["<s>", "a\"b", "\u00e9"])
    writer.add_array("test.scores", [0.5, -1.0, 1e10])
    listing = Listing(path)
    for name, dtype in PLAIN.items():
        shape = (2, 3, 5) if name != "F16" else (7,)
        values = random.integers(0, 127, shape).astype(dtype)
        listing.add(name.lower(), name, shape, values.astype(values.dtype.newbyteorder("<")).tobytes())
        writer.add_tensor(name.lower(), values.copy())
    bf16 = random.integers(0, 0x4000, (4, 2)).astype(np.uint16)
    listing.add("bf16", "BF16", (4, 2), bf16.tobytes())
    stored = bf16 if endianess == gguf.GGUFEndian.LITTLE else bf16.byteswap()
    writer.add_tensor("bf16", stored.view(np.uint8), raw_dtype=T.BF16)
    finish(writer, listing)


def finish(writer, listing):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if listing:
        listing.write()


def blocks_of(type, rows, per_row, wild):
    """Random blocks. Of those that are not `wild` the scales are of a sensible size."""
    elements, size = gguf.GGML_QUANT_SIZES[type]
    data = random.integers(0, 256, (rows * per_row, size)).astype(np.uint8)
    half = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
            "Q4_1": (0, 2), "Q5_1": (0, 2), "MXFP4": (), "Q8_K": ()}.get(type.name, (0,))
    if not wild:
        for at in half:
            scale = random.normal(0, 0.01, rows * per_row).astype(np.float16)
            data[:, at:at + 2] = scale.view(np.uint8).reshape(-1, 2)
        if type == T.Q8_K:
            data[:, 0:4] = random.normal(0, 0.01, rows * per_row).astype(np.float32).view(np.uint8).reshape(-1, 4)
    return data.reshape(rows, per_row * size)


def dequantized(data, type):
    if type == T.Q8_K:  # The package has its size and no more.
        blocks = data.reshape(-1, 292)
        return blocks[:, 0:4].copy().view(np.float32) * blocks[:, 4:260].view(np.int8).astype(np.float32)
    return gguf.dequantize(data, type)


DEQUANTIZED = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K",
               "IQ4_NL", "IQ4_XS", "MXFP4"]


def blocks(path, wild, per_row, rows=2, types=DEQUANTIZED):
    """Each tensor of blocks stands beside NAME.f32, what the package makes of it."""
    writer = gguf.GGUFWriter(path, "test")
    listing = Listing(path)
    with np.errstate(all="ignore"):
        for name in types:
            type = T[name]
            elements, size = gguf.GGML_QUANT_SIZES[type]
            data = blocks_of(type, rows, per_row, wild)
            writer.add_tensor(name.lower(), data, raw_dtype=type)
            listing.add(name.lower(), "U8", (data.size,), data.tobytes(), name.lower(),
                        (rows, per_row * elements))
            if name in DEQUANTIZED:
                values = dequantized(data, type).astype(np.float32).reshape(rows, -1)
                writer.add_tensor(name.lower() + ".f32", values)
                listing.add(name.lower() + ".f32", "F32", values.shape, values.tobytes())
    finish(writer, listing if rows * per_row < 100 else None)


def split(stem):
    writer = gguf.GGUFWriter(stem, "test", split_max_tensors=2)
    listing = Listing(stem)
    for i in range(5):
        values = random.normal(size=(3, i + 1)).astype(np.float32)
        writer.add_tensor(f"t{i}", values)
        listing.add(f"t{i}", "F32", values.shape, values.tobytes())
    finish(writer, listing)


if __name__ == "__main__":
    at = lambda name: os.path.join(folder, name)
    plain(at("plain.gguf"), gguf.GGUFEndian.LITTLE)
    plain(at("plain_be.gguf"), gguf.GGUFEndian.BIG)
    blocks(at("blocks.gguf"), wild=False, per_row=1)
    blocks(at("wild_blocks.gguf"), wild=True, per_row=1)
    # The package says 40 bytes for a block of Q8_1, and ggml, which has two halves in it, 36.
    rest = [t.name for t in T
            if gguf.GGML_QUANT_SIZES[t][0] > 1 and t.name not in DEQUANTIZED + ["Q8_1"]]
    blocks(at("other_blocks.gguf"), wild=True, per_row=2, types=rest)
    split(at("split.gguf"))
    if len(sys.argv) > 2:
        blocks(at("many_blocks.gguf"), wild=True, per_row=int(sys.argv[2]), rows=16)
