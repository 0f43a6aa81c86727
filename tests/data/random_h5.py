#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_h5.py RINGLOAD [FILES [SEED]]: makes so many HDF5 files of random datasets with h5py, and
asks the tool what is in them: names, dtypes, shapes, and every byte by its CRC-32C. Then it breaks
bytes of each file: the tool says what h5py does, or refuses the file in one line, and does not
crash. No part of ./dev test."""
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import h5py
import numpy as np
from h5py import h5d, h5p

from listing import Listing
from make_h5 import FILTERS, NUMPY, add, creation, dataset_of, values

BOUNDS = [("earliest", "v108"), ("earliest", "v110"), ("v108", "v108"), ("v110", "v110")]


def random_dataset(rng, parent, name):
    dtype = np.dtype(rng.choice(NUMPY))
    shape = tuple(rng.choice([1, 1, 2, 3, 5, 17, 40]) for _ in range(rng.randrange(4)))
    if rng.random() < 0.05:
        shape += (0,)
    kind = rng.choice(["contiguous", "compact", "chunked", "chunked", "chunked"])
    fill = None
    if rng.random() < 0.4:
        fill = np.frombuffer(rng.randbytes(dtype.itemsize), dtype)[0] if dtype != bool else True
        if dtype.kind in "fc" and np.isnan(fill):
            fill = dtype.type(3)
    plist, most = creation(shape, None, [], fill), None
    if kind == "compact" and np.prod(shape) * dtype.itemsize < 60_000:
        plist.set_layout(h5d.COMPACT)
    elif kind == "chunked" and shape and 0 not in shape:
        chunks = tuple(rng.randrange(1, max(2, size + 3 if rng.random() < 0.1 else size + 1))
                       for size in shape)
        most = tuple(max(a, b) if rng.random() < 0.7 else h5py.h5s.UNLIMITED
                     for a, b in zip(shape, chunks))
        if any(c > s for c, s in zip(chunks, shape)):
            most = tuple(max(m, c) for m, c in zip(most, chunks))
        while np.prod([-(-s // c) for s, c in zip(shape, chunks)]) > 400:
            chunks = tuple(min(s, c * 2) for s, c in zip(shape, chunks))
        order = rng.sample(FILTERS, rng.randrange(4))
        plist = creation(shape, chunks, order, fill, early=rng.random() < 0.2)
    dataset = dataset_of(parent, name, dtype, shape, plist, most)
    if rng.random() < 0.8:
        region = tuple(slice(rng.randrange(size + 1) if rng.random() < 0.3 else 0, None)
                       for size in shape)
        size = np.empty(shape)[region].shape
        if 0 not in size:
            dataset[region] = values(rng, dtype, size)


def random_file(rng, path):
    options = {"libver": rng.choice(BOUNDS)}
    if rng.random() < 0.2:
        options["userblock_size"] = rng.choice([512, 1024, 4096])
    with h5py.File(path, "w", **options) as f:
        groups = [f]
        for i in range(rng.randrange(1, 15)):
            if rng.random() < 0.3:
                groups.append(rng.choice(groups).create_group(f"g{i}"))
            random_dataset(rng, rng.choice(groups), f"d{i}")
    listing = Listing(path)
    with h5py.File(path) as f:
        f.visititems(lambda _, x: add(listing, x) if isinstance(x, h5py.Dataset) else None)
    listing.write()
    return listing


def fail(path, what):
    kept = pathlib.Path(tempfile.gettempdir()) / "random_h5_failed.h5"
    shutil.copy(path, kept)
    sys.exit(f"{kept}: {what}")


def run(tool, *arguments):
    done = subprocess.run([tool, *map(str, arguments)], capture_output=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def compare(tool, path, listing):
    code, out, error = run(tool, "ls", path, "--json")
    if code != 0:
        fail(path, error.decode())
    found = {each["name"]: each for each in json.loads(out)["tensors"]}
    for name, dtype, shape, *_ in listing.rows:
        if name not in found or found[name]["dtype"] != dtype or \
                str(found[name]["shape"]) != shape:
            fail(path, f"{name}: {found.get(name)} instead of {dtype} {shape}")
    if len(found) != len(listing.rows):
        fail(path, f"{len(found)} tensors instead of {len(listing.rows)}")
    if listing.rows:
        code, out, error = run(tool, "verify", path, "--checksums", f"{path}.manifest")
        if code != 0:
            fail(path, error.decode() + out.decode())


def break_it(rng, tool, path):
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 1, 2, 8])):
        data[rng.randrange(min(len(data), rng.choice([64, 2000, len(data)])))] = rng.randrange(256)
    if rng.random() < 0.2:
        del data[rng.randrange(len(data)):]
    broken = path.with_name("broken.h5")
    broken.write_bytes(data)
    code, _, error = run(tool, "sum", broken)
    if code not in (0, 1) or (code == 1 and error.count(b"\n") != 1):
        fail(broken, f"exit code {code}: {error.decode(errors='replace')}")
    return error


def main():
    tool = sys.argv[1]
    files = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 30)
    crashes = 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(files):
            rng = random.Random(seed + i)
            path = pathlib.Path(folder) / "random.h5"
            listing = random_file(rng, path)
            compare(tool, path, listing)
            for _ in range(5):
                crashes += b"ended by signal" in break_it(rng, tool, path)
    print(f"{files} files from seed {seed} on; libhdf5 broke down on {crashes} of {5 * files} "
          "broken ones")


if __name__ == "__main__":
    main()
