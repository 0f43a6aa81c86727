#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_saves.py SAVE_TOOL [FILES [SEED]]: has so many checkpoints saved of random tensors, of
every dtype, strided ones too, and reads them with the package safetensors: names, dtypes, shapes,
metadata and every byte. Where the order is the reference's, the file is, byte by byte, what the
package writes itself. If zTensor 1.2.3 is installed, the same tensors are saved as .zt: what it reads
is what was saved, and a file of types that it writes is the one that it writes. No part of ./dev
test; needs safetensors and numpy."""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.pop(0)  # In it is a folder "torch", which is not what zTensor looks for.
import numpy as np
import safetensors

try:
    import ztensor
except ImportError:
    ztensor = None

TYPES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "I16": 2, "U16": 2,
         "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "C64": 8, "F64": 8, "I64": 8, "U64": 8}
# As safetensors.TensorSpec names them.
NAMES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "F8_E5M2": "float8_e5m2",
         "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu", "I16": "int16", "U16": "uint16",
         "F16": "float16", "BF16": "bfloat16", "I32": "int32", "U32": "uint32", "F32": "float32",
         "C64": "complex64", "F64": "float64", "I64": "int64", "U64": "uint64"}


def tensor(rng, name, memory):
    """A line for save_tool; and (dtype, shape, dense bytes)."""
    dtype = rng.choice(sorted(TYPES))
    width = TYPES[dtype]
    shape = [rng.choice([0, 1, 1, 2, 3, 7, 40, 129]) for _ in range(rng.randrange(4))]
    if rng.random() < 0.2:
        shape = [rng.randrange(100_000)]
    offset = rng.randrange(1000)
    strides = None
    if shape and rng.random() < 0.5:
        order = list(range(len(shape)))
        rng.shuffle(order)
        strides, step = [0] * len(shape), rng.randrange(1, 3)
        for d in order:
            strides[d] = step
            step *= max(shape[d], 1)
    flat = np.frombuffer(memory, np.dtype(f"V{width}"), offset=offset,
                         count=(len(memory) - offset) // width)
    dense = [width * s for s in strides] if strides else None
    view = (np.lib.stride_tricks.as_strided(flat, shape, dense) if strides
            else flat[:int(np.prod(shape, dtype=int))].reshape(shape))
    line = " ".join([dtype, str(offset), ",".join(map(str, shape)) or "-",
                     ",".join(map(str, strides)) if strides else "=", name])
    return line, (dtype, shape, np.ascontiguousarray(view).tobytes())


def spec(dtype, shape, data):
    memory = np.frombuffer(data or b" ", np.uint8)
    return safetensors.TensorSpec(dtype=NAMES[dtype], shape=shape, data_ptr=memory.ctypes.data,
                                  data_len=len(data))


def read(path):
    """What the package finds in a file; or in a folder, by its index."""
    files = [path]
    if path.is_dir():
        index = path / "model.safetensors.index.json"
        names = set(json.loads(index.read_text())["weight_map"].values()) if index.exists() else None
        files = [path / n for n in names] if names else [path / "model.safetensors"]
    found = {}
    for file in files:
        for name, what in safetensors.deserialize(file.read_bytes()):
            assert name not in found, name
            found[name] = (what["dtype"], list(what["shape"]), bytes(what["data"]))
    return found


# As numpy names those types that zTensor has from there.
ZT_NAMES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16",
            "F16": "float16", "I32": "int32", "U32": "uint32", "F32": "float32", "F64": "float64",
            "I64": "int64", "U64": "uint64"}


def check_zt(path, wanted):
    """Whether zTensor reads what was saved; True where it also writes the same file."""
    whole = path.read_bytes()
    reader = ztensor.Reader(str(path))
    assert sorted(reader.keys()) == sorted(wanted)
    for name, (dtype, shape, data) in wanted.items():
        info = reader.metadata(name)
        assert list(info.shape) == list(shape), name
        place = info.components["data"]
        assert whole[place["offset"]:place["offset"] + place["length"]] == data, name
        if dtype in ZT_NAMES:
            found = reader.read_numpy(name)
            assert found.dtype == ZT_NAMES[dtype] and found.tobytes() == data, name
    if not all(dtype in ZT_NAMES for dtype, _, _ in wanted.values()):
        return False
    theirs = path.with_name("theirs.zt")
    with ztensor.Writer(str(theirs)) as writer:
        for name, (dtype, shape, data) in wanted.items():
            writer.write_numpy(name, np.frombuffer(data, ZT_NAMES[dtype]).reshape(shape))
    if len(whole) < theirs.stat().st_size:
        return False  # Two are the same memory, which zTensor does not look for.
    assert theirs.read_bytes() == whole
    return True


def main():
    tool, files = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    rng = random.Random(seed)
    same = same_zt = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        memory = rng.randbytes(35_000_000)  # The largest tensor spans 2 * 8 * 129**3 bytes.
        (folder / "memory").write_bytes(memory)
        for n in range(files):
            wanted, lines = {}, []
            for i in range(rng.randrange(15)):
                name = f"t{i}" + rng.choice(["", ".weight", " \u00e9\u4e2d\"\\/"])
                line, wanted[name] = tensor(rng, name, memory)
                lines.append(line)
            options, metadata = [], {}
            if rng.random() < 0.5:
                metadata = {"format": "pt"}
                options += ["--metadata", "format=pt"]
            reference = rng.random() < 0.6
            if not reference:
                options += ["--alignment", str(2 ** rng.randrange(3, 15))]
                options += ["--given-order"] if rng.random() < 0.5 else []
                options += ["--read-back"] if rng.random() < 0.5 else []
            sharded = rng.random() < 0.3
            if sharded:
                options += ["--shard-bytes", str(rng.randrange(1000, 200_000))]
            path = folder / (f"m{n}" if sharded else f"m{n}.safetensors")
            subprocess.run([tool, folder / "memory", path, *options], check=True,
                           input="\n".join(lines).encode())
            found = read(path)
            assert found == {k: (d, s, b) for k, (d, s, b) in wanted.items()}, (seed, n)
            if not sharded:
                with safetensors.safe_open(path, "np") as opened:
                    assert (opened.metadata() or {}) == metadata, (seed, n)
            if reference and not sharded:
                theirs = safetensors.serialize({k: spec(*what) for k, what in wanted.items()},
                                               metadata or None)
                assert bytes(theirs) == path.read_bytes(), (seed, n)
                same += 1
            if ztensor:
                some = [line for line in lines if rng.random() < 0.5 or line.split()[0] in ZT_NAMES]
                some = [line for line in some if line.split()[0] != "F8_E8M0"]
                if rng.random() < 0.5:
                    some = [line for line in some if line.split()[0] in ZT_NAMES]
                names = [line.split(" ", 4)[4] for line in some]
                subprocess.run([tool, folder / "memory", folder / "m.zt"], check=True,
                               input="\n".join(some).encode())
                same_zt += check_zt(folder / "m.zt", {name: wanted[name] for name in names})
    print(f"{files} checkpoints, seed {seed}: all as they were saved; {same} the same bytes as the "
          f"package safetensors {safetensors.__version__} writes")
    if ztensor:
        print(f"the same as .zt, which zTensor reads; {same_zt} the bytes that it writes")


main()
