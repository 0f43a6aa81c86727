#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_numpy_torch.py RINGLOAD [FILES [SEED]]: makes so many files of random arrays and tensors
with numpy and torch, and asks the tool what is in them: names, dtypes, shapes, and every byte by
its CRC-32C. No part of ./dev test."""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import torch

from listing import Listing
from make_numpy_torch import NAMES, dense, flat, rezipped

TORCH = [getattr(torch, name) for name in NAMES]
NUMPY = ["?", "i1", "u1", "<i2", ">i2", "<u4", ">u4", "<i8", ">f8", "<f2", ">f2", "<f4", "<c8",
         ">c8", "<c16", ">c16"]


def random_shape(rng):
    return [rng.choice([0, 1, 1, 2, 3, 5, 17, 64]) for _ in range(rng.randrange(5))]


def random_array(rng):
    dtype = np.dtype(rng.choice(NUMPY))
    array = np.frombuffer(rng.randbytes(dtype.itemsize * 100_000), dtype)
    shape = random_shape(rng)
    count = int(np.prod(shape)) if shape else 1
    if count > len(array):
        shape, count = [len(array)], len(array)
    array = array[:count].reshape(shape)
    if dtype.kind == "b":
        array = (array.view("u1") % 2).view("?")
    return np.asfortranarray(array) if rng.random() < 0.4 else array


def random_tensor(rng, storages):
    """Of a new storage, or a view of one that another tensor has."""
    dtype = rng.choice(TORCH)
    if storages and rng.random() < 0.4:
        base = rng.choice(storages)
    else:
        raw = bytes(b % 2 if dtype == torch.bool else b for b in rng.randbytes(16 * 300))
        base = torch.frombuffer(bytearray(raw), dtype=dtype)
        storages.append(base)
    kind = rng.randrange(6)
    if kind == 0:
        return base
    if kind == 1:
        return base[rng.randrange(len(base)):]
    if kind == 2:
        return base[::rng.randrange(1, 9)]
    rows = rng.randrange(1, 20)
    matrix = base[:len(base) // rows * rows].view(rows, -1)
    if kind == 3:
        return matrix.t()
    if kind == 4:
        return matrix[:, :1].expand(rows, rng.randrange(1, 9))
    return torch.nn.Parameter(matrix, requires_grad=False)


def random_object(rng, storages, depth=0):
    kind = rng.random()
    if depth == 4 or kind < 0.4:
        return random_tensor(rng, storages)
    if kind < 0.5:
        return rng.choice([None, 3, 2.5, "text", True, 1 << 70])
    children = [random_object(rng, storages, depth + 1) for _ in range(rng.randrange(5))]
    if kind < 0.7:
        return children
    if kind < 0.8:
        return tuple(children)
    return {rng.choice([f"key{i}", i]): child for i, child in enumerate(children)}


def make_file(rng, folder, number):
    """The path of a new file, and what its tensors are called."""
    kind = rng.randrange(6)
    if kind == 0:
        path, tensors = folder / f"f{number}.npy", {f"f{number}": random_array(rng)}
        np.save(path, tensors[f"f{number}"])
    elif kind <= 2:
        tensors = {f"a{i}.{rng.random()}": random_array(rng) for i in range(rng.randrange(1, 20))}
        path = folder / f"f{number}.npz"
        (np.savez if kind == 1 else np.savez_compressed)(path, **tensors)
    else:
        top = {f"k{i}": random_object(rng, storages) for storages in [[]] for i in range(8)}
        path, tensors = folder / f"f{number}.pt", flat(top)
        torch.save(top, path, _use_new_zipfile_serialization=kind != 3)
        if kind == 5:
            rezipped(path, folder / "deflated", lambda name, content: content)
            (folder / "deflated").replace(path)
    return path, tensors


def check(tool, path, tensors):
    listing = Listing(path)
    for name, value in tensors.items():
        kind, shape, raw = dense(value)
        listing.add(name, kind, shape, raw)
    listing.write()
    found = json.loads(subprocess.run([tool, "ls", "--json", path], check=True,
                                      capture_output=True).stdout)
    said = sorted((t["name"], t["dtype"], str(t["shape"])) for t in found["tensors"])
    assert said == sorted(row[:3] for row in listing.rows), path
    return subprocess.run([tool, "verify", path, "--checksums", f"{path}.manifest"],
                          capture_output=True, text=True)


def main():
    tool = sys.argv[1]
    files = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else None)
    verified = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(files):
            path, tensors = make_file(rng, pathlib.Path(folder), number)
            answer = check(tool, path, tensors)
            if answer.returncode != 0:
                sys.exit(f"{path}: {answer.stderr}{answer.stdout}")
            verified += len(tensors)
    print(f"{files} files, {verified} tensors")


main()
