#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_written_zt.py RINGLOAD [FILES [SEED]]: .zt files of random objects that zTensor 1.2.3 wrote
go through convert, compress, decompress, remove, merge and append, and zTensor reads what comes of
it: the same arrays. Also a safetensors file from and to its package. No part of ./dev test.

    pip install ztensor==1.2.3 numpy ml_dtypes safetensors
"""
import pathlib
import subprocess
import sys
import tempfile

sys.path.pop(0)  # In it is a folder "torch", which is not what zTensor looks for.
import ml_dtypes
import numpy as np
import safetensors.numpy
import ztensor

NAMES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64",
         "uint32", "uint16", "uint8", "bool"]


def run(*arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    assert done.returncode == 0, (arguments, done.stderr)


def array(random):
    name = str(random.choice(NAMES))
    dtype = np.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name)
    shape = [int(random.choice([0, 1, 2, 3, 17, 400])) for _ in range(random.integers(1, 4))]
    count = int(np.prod(shape))
    if name == "bool":
        return random.integers(0, 2, count).astype(bool).reshape(shape)
    if random.random() < 0.5:
        return random.integers(0, 3, count).astype(dtype).reshape(shape)
    return np.frombuffer(random.bytes(count * dtype.itemsize), dtype).reshape(shape)


def sparse(random):
    rows, columns, count = (int(n) for n in random.integers(1, 30, 3))
    values = random.normal(size=count).astype(np.float32)
    if random.random() < 0.5:
        parts = {"values": values, "indices": random.integers(0, columns, count).astype(np.uint64),
                 "indptr": np.sort(np.append(random.integers(0, count + 1, rows - 1), [0, count]))
                             .astype(np.uint64)}
        return ztensor.Tensor(parts, shape=[rows, columns], dtype="float32", format="sparse_csr")
    coords = np.stack([random.integers(0, rows, count), random.integers(0, columns, count)])
    return ztensor.Tensor({"values": values, "coords": coords.astype(np.uint64).ravel()},
                          shape=[rows, columns], dtype="float32", format="sparse_coo")


def write(random, path, prefix):
    with ztensor.Writer(str(path)) as writer:
        for i in range(random.integers(1, 9)):
            how = dict(compress=[None, True, 1, 19][random.integers(4)],
                       checksum=str(random.choice(["none", "crc32c", "sha256"])))
            if random.random() < 0.2:
                writer.write(f"{prefix}{i}", sparse(random), **how)
            else:
                writer.write_numpy(f"{prefix}{i}", array(random), **how)


def content(path):
    out = {}
    with ztensor.open(str(path)) as reader:
        for name in reader.keys():
            about = reader.metadata(name)
            parts = reader.read(name).components
            out[name] = (about.format, tuple(about.shape), about.dtype,
                         {part: np.asarray(a).tobytes() for part, a in parts.items()})
    return out


def main():
    tool = sys.argv[1]
    files = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else int(np.random.SeedSequence().entropy % 2**32)
    print(f"seed {seed}", flush=True)
    random = np.random.default_rng(seed)
    for _ in range(files):
        with tempfile.TemporaryDirectory() as folder:
            at = pathlib.Path(folder)
            write(random, at / "a.zt", "a")
            write(random, at / "b.zt", "b")
            a, b = content(at / "a.zt"), content(at / "b.zt")
            level = random.integers(1, 20)
            run(tool, "convert", at / "a.zt", at / "c.zt", "--zstd", level, "--digest", "crc32c")
            assert content(at / "c.zt") == a
            run(tool, "compress", at / "a.zt", at / "d.zt", "--level", level)
            assert content(at / "d.zt") == a
            run(tool, "decompress", at / "d.zt", at / "e.zt", "--digest", "sha256")
            assert content(at / "e.zt") == a
            run(tool, "merge", at / "a.zt", at / "b.zt", "-o", at / "f.zt")
            assert content(at / "f.zt") == a | b
            run(tool, "append", at / "e.zt", "--from", at / "b.zt")
            assert content(at / "e.zt") == a | b
            run(tool, "remove", at / "e.zt", *b, "-o", at / "g.zt")
            assert content(at / "g.zt") == a
            ztensor.remove_tensors(str(at / "g.zt"), str(at / "h.zt"), sorted(a)[:1])
            arrays = {f"t{i}": array(random) for i in range(5)}
            safetensors.numpy.save_file(arrays, at / "s.safetensors")
            run(tool, "convert", at / "s.safetensors", at / "s.zt", "--zstd", 1)
            run(tool, "convert", at / "s.zt", at / "t.safetensors")
            again = safetensors.numpy.load_file(at / "t.safetensors")
            assert all(again[n].tobytes() == arrays[n].tobytes() for n in arrays)
            assert {n: x.shape for n, x in again.items()} == {n: x.shape for n, x in arrays.items()}
            with ztensor.open(str(at / "s.zt")) as reader:
                for n, values in arrays.items():
                    assert np.asarray(reader.read_numpy(n)).tobytes() == values.tobytes(), n
    print(f"{files} rounds are equal")


main()
