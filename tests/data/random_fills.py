#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_fills.py FILL_TOOL [CASES [SEED]]: random checkpoints, slices, shards and destinations.
What is loaded is compared with NumPy, byte for byte; what is filled with PyTorch, the memory around
and between the destinations too. Needs numpy and torch 2.14 or newer. No part of ./dev test.

FILL_TOOL is build/.../tests/apps/fill_tool, which only `ninja fill_tool` builds.

NaNs are compared as such, not by their bits. What PyTorch does not define, or does otherwise as
documented at fill_policies::on_dtype, is computed here: integers saturate, NaN becomes 0. PyTorch
rounds f64 and integers to f32 first where the target is narrower; these values are exact in f32."""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch

TYPES = {
    "BOOL": (torch.bool, "?"), "I8": (torch.int8, "i1"), "U8": (torch.uint8, "u1"),
    "I16": (torch.int16, "<i2"), "U16": (torch.uint16, "<u2"), "I32": (torch.int32, "<i4"),
    "U32": (torch.uint32, "<u4"), "I64": (torch.int64, "<i8"), "U64": (torch.uint64, "<u8"),
    "F16": (torch.float16, "<u2"), "BF16": (torch.bfloat16, "<u2"), "F32": (torch.float32, "<u4"),
    "F64": (torch.float64, "<u8"), "F8_E4M3": (torch.float8_e4m3fn, "u1"),
    "F8_E5M2": (torch.float8_e5m2, "u1"),
}
FLOATS = {"F16", "BF16", "F32", "F64", "F8_E4M3", "F8_E5M2"}
NARROW = {"F16", "BF16", "F8_E4M3", "F8_E5M2"}
WIDE = {"F64", "I64", "U64", "I32", "U32"}


def width(name):
    return TYPES[name][0].itemsize


def words(tensor):
    """The bits of the elements, as unsigned integers of their width."""
    kind = {1: "u1", 2: "<u2", 4: "<u4", 8: "<u8"}[tensor.dtype.itemsize]
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().view(kind).reshape(
        tuple(tensor.shape))


def random_values(rng, name, count):
    """Elements of that type: any bits, or numbers near those where rounding and range matter."""
    raw = bytearray(rng.randbytes(count * width(name)))
    if name == "BOOL":
        raw = bytearray(b & 1 for b in raw)
    made = torch.frombuffer(raw, dtype=torch.uint8).view(TYPES[name][0]) if count else \
        torch.empty(0, dtype=TYPES[name][0])
    if name in FLOATS and rng.random() < 0.7:
        scale = rng.choice([1, 100, 500, 70000, 1e-6, 1e9, 1e30])
        numbers = [rng.choice([rng.uniform(-1, 1) * scale, rng.randrange(-300, 300) / 4, 0.0])
                   for _ in range(count)]
        made = torch.tensor(numbers, dtype=torch.float64).to(TYPES[name][0])
    if name in WIDE and rng.random() < 0.8:
        # Exact in f32, so that PyTorch rounds once.
        if name == "F64":
            made = made.to(torch.float32).to(torch.float64)
        else:
            low = 0 if name[0] == "U" else -(2**24)
            numbers = [rng.randrange(low, 2**24) for _ in range(count)]
            made = torch.tensor(numbers, dtype=torch.int64).to(TYPES[name][0])
    return made


def exact_in_f32(tensor, name):
    if name not in WIDE or tensor.numel() == 0:
        return True
    if name == "F64":
        same = tensor.to(torch.float32).to(torch.float64)
        return bool(((same == tensor) | tensor.isnan()).all())
    return all(-(2**24) <= v <= 2**24 for v in tensor.reshape(-1).tolist())


def converted(tensor, source, target):
    """As copy_ does, but for what fills define otherwise. None where PyTorch rounds twice."""
    if source == target:
        return tensor
    kind = TYPES[target][0]
    if target in NARROW and not exact_in_f32(tensor, source):
        return None
    if target in FLOATS or target == "BOOL":
        return torch.empty(tensor.shape, dtype=kind).copy_(tensor)
    info = torch.iinfo(kind)
    wide = tensor.to(torch.float64) if source in FLOATS else tensor
    numbers = []
    for value in wide.reshape(-1).tolist():
        if value != value:
            numbers.append(0)
        elif value in (float("inf"), float("-inf")):
            numbers.append(info.max if value > 0 else info.min)
        else:
            numbers.append(min(max(int(value), info.min), info.max))
    raw = b"".join((n & (2**64 - 1)).to_bytes(8, "little")[:width(target)] for n in numbers)
    flat = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(kind) if raw else \
        torch.empty(0, dtype=kind)
    return flat.reshape(tensor.shape)


def is_nan(array, name):
    sign = {"F16": 15, "BF16": 15, "F32": 31, "F64": 63, "F8_E4M3": 7, "F8_E5M2": 7}[name]
    largest = {"F16": 0x7C00, "BF16": 0x7F80, "F32": 0x7F800000, "F64": 0x7FF0000000000000,
               "F8_E4M3": 0x7E, "F8_E5M2": 0x7C}[name]
    return (array & array.dtype.type((1 << sign) - 1)) > array.dtype.type(largest)


def random_shape(rng):
    if rng.random() < 0.25:  # Long enough for unstaged reads.
        return [rng.randrange(1, 4), rng.randrange(20_000, 90_000)]
    return [rng.choice([1, 1, 2, 3, 5, 8, 17, 64]) if rng.random() < 0.97 else 0
            for _ in range(rng.randrange(5))]


class Checkpoint:
    def __init__(self, rng, path):
        self.tensors = {}
        header, content = {}, b""
        for i in range(rng.randrange(1, 7)):
            kind = rng.choice(list(TYPES))
            shape = random_shape(rng)
            count = int(np.prod(shape, dtype=np.int64)) if shape else 1
            if count > 1000 and kind in ("I64", "U64", "F64") or count > 100_000:
                shape, count = [1000], 1000
            values = random_values(rng, kind, min(count, 2000))
            if count > 2000:
                values = values.view(torch.uint8).repeat(count // 2000 + 1)[:count * width(kind)]
                values = values.view(TYPES[kind][0])
            name = f"layer.{i}.w"
            raw = words(values).tobytes()
            header[name] = {"dtype": kind, "shape": shape,
                            "data_offsets": [len(content), len(content) + len(raw)]}
            content += raw
            self.tensors[name] = (kind, values.reshape(shape))
        text = json.dumps(header).encode() + b" " * rng.randrange(5000)
        path.write_bytes(struct.pack("<Q", len(text)) + text + content)


class Tool:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def say(self, *parts):
        self.process.stdin.write((" ".join(str(p) for p in parts) + "\n").encode())

    def ask(self, *parts):
        self.say(*parts)
        self.process.stdin.flush()
        kind, _, rest = self.process.stdout.readline().decode().partition(" ")
        if kind != "ok":
            raise AssertionError(f"{parts}: {rest}")
        return self.process.stdout.read(int(rest))


def listed(numbers):
    return ",".join(str(n) for n in numbers) or "-"


def choose(rng, tool, name, value):
    """A part of the tensor: tells the tool, and gives what PyTorch makes of it."""
    for d in range(value.dim()):
        size = value.shape[d]
        kind = rng.random()
        if kind < 0.25:
            first = rng.randrange(size + 1)
            count = rng.randrange(size - first + 1)
            tool.say("slice", name, d, first, count)
            value = value.narrow(d, first, count)
        elif kind < 0.4:
            ranks = rng.randrange(1, 9)
            rank = rng.randrange(ranks)
            tool.say("shard", name, d, rank, ranks)
            block = -(-size // ranks)
            first = min(size, rank * block)
            value = value.narrow(d, first, min(size, first + block) - first)
    return value


def check_load(rng, tool, file):
    name = rng.choice(list(file.tensors))
    _, value = file.tensors[name]
    part = choose(rng, tool, name, value)
    assert tool.ask("load", name) == words(part).tobytes(), name


def place(rng, at, shape, kind):
    """Strides, in elements, of any order and sign and with gaps; where the first element lies; and
    the end of it all, in bytes."""
    at += rng.randrange(70)
    order = list(range(len(shape)))
    dense = rng.random() < 0.5
    if not dense:
        rng.shuffle(order)
    strides, step, before = [0] * len(shape), 1, 0
    for d in reversed(order):
        gap = 0 if dense or rng.random() < 0.6 else rng.randrange(4)
        strides[d] = step + gap
        reach = (max(shape[d], 1) - 1) * strides[d]
        if not dense and rng.random() < 0.25:
            strides[d] = -strides[d]
            before += reach
        step = reach + step if dense is False else step * max(shape[d], 1)
        step = max(step, 1)
    reach = sum((max(s, 1) - 1) * abs(t) for s, t in zip(shape, strides)) + 1
    first = at + before * width(kind)
    return strides, first, at + reach * width(kind)


def check_fill(rng, tool, file):
    """Whether PyTorch has something to compare with."""
    plans, end = [], rng.randrange(5000)
    for name in rng.sample(list(file.tensors), rng.randrange(1, len(file.tensors) + 1)):
        source, value = file.tensors[name]
        part = choose(rng, tool, name, value)
        target = rng.choice(list(TYPES)) if rng.random() < 0.6 else source
        if part.numel() > 20_000 and target != source and target not in FLOATS:
            target = source
        shape = [rng.randrange(1, 5) if s == 1 and rng.random() < 0.3 else s for s in part.shape]
        if part.numel() < 3000 and rng.random() < 0.3:
            shape = [rng.randrange(1, 4) for _ in range(rng.randrange(3))] + shape
        made = converted(part, source, target)
        if made is None:
            target, made = source, part
        strides, first, end = place(rng, end, shape, target)
        plans.append((name, target, shape, strides, first, made))
        tool.say("destination", name, target, first, listed(shape), listed(strides))
    got = np.frombuffer(tool.ask("fill", end + 100), dtype=np.uint8).copy()
    expected = np.full(end + 100, 0xA5, dtype=np.uint8)
    for name, target, shape, strides, first, made in plans:
        bits = words(made)
        size = width(target)
        if 0 in shape:
            continue

        def view(memory):
            return np.ndarray(shape, bits.dtype, memory, first, [s * size for s in strides])
        view(expected)[...] = bits
        if target in FLOATS:  # Where both are NaN their bits may differ.
            both = is_nan(view(expected), target) & is_nan(view(got), target)
            view(got)[both] = view(expected)[both]
    if not np.array_equal(got, expected):
        at = int(np.flatnonzero(got != expected)[0])
        shown = [(p[0], file.tensors[p[0]][0], *p[1:5]) for p in plans]
        raise AssertionError(f"byte {at} is {got[at]:#x}, not {expected[at]:#x}: {shown}")


def main():
    cases = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(2**32)
    rng = random.Random(seed)
    print(f"seed {seed}", flush=True)
    torch.set_num_threads(1)
    tool = Tool(sys.argv[1])
    done = 0
    with tempfile.TemporaryDirectory() as folder:
        while done < cases:
            path = pathlib.Path(folder) / f"f{done}.safetensors"
            file = Checkpoint(rng, path)
            tool.say("open", path)
            for _ in range(min(20, cases - done)):
                (check_load if rng.random() < 0.3 else check_fill)(rng, tool, file)
                done += 1
            path.unlink()
    print(f"{done} cases without a difference")


main()
