# SPDX-License-Identifier: Apache-2.0
"""Random files, loaded in every way, and random memory that is filled: each byte is compared."""

import asyncio

import numpy
import pytest
from conftest import same, types, write_safetensors

import ringload

all_types = [numpy.dtype(dtype) for dtype in types.values()]
# NumPy's files have no names for the types of ml_dtypes.
named_by_numpy = [dtype for dtype in all_types if dtype.isbuiltin == 1]


def random_array(random, dtypes):
    dtype = dtypes[random.integers(len(dtypes))]
    shape = random.choice([0, 1, 1, 2, 3, 7, 16, 33], random.integers(5))
    count = int(numpy.prod(shape, dtype=int))
    values = numpy.frombuffer(random.bytes(count * dtype.itemsize), dtype).reshape(shape)
    return (values.view("u1") % 2).view("?") if dtype == bool else values


def random_file(random, folder):
    """The path of a file of a random format, and what it holds."""
    kind = ["safetensors", "npz", "npy", "zt"][random.integers(4)]
    dtypes = named_by_numpy if kind in ("npz", "npy") else all_types
    count = 1 if kind == "npy" else random.integers(1, 8)
    arrays = {f"t{i}": random_array(random, dtypes) for i in range(count)}
    path = str(folder / f"t0.{kind}")
    if kind == "safetensors":
        write_safetensors(path, arrays)
    elif kind == "zt":
        ringload.save(path, arrays, zstd_level=int(random.integers(4)) or None)
    else:
        stored = {name: as_numpy_may_store(random, array) for name, array in arrays.items()}
        if kind == "npy":
            numpy.save(path, stored["t0"])
        else:
            (numpy.savez, numpy.savez_compressed)[random.integers(2)](path, **stored)
    return path, arrays


def as_numpy_may_store(random, array):
    if random.random() < 0.3:
        array = array.astype(array.dtype.newbyteorder(">"))
    return numpy.asfortranarray(array) if random.random() < 0.3 and array.ndim else array


def streamed(loader, path, **options):
    async def take_all():
        pairs = loader.stream(path, **options)
        return {name: tensor.numpy().copy() async for name, tensor in pairs}

    return asyncio.run(take_all())


def check_all(found, expected):
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert same(numpy.asarray(found[name]), array), name


@pytest.mark.parametrize("seed", range(24))
def test_random_file_in_every_way(seed, tmp_path):
    random = numpy.random.default_rng(seed)
    path, arrays = random_file(random, tmp_path)
    limits = {"slots": int(random.integers(1, 4)), "slot_bytes": "64KiB"} if seed % 2 else {}
    some = sorted(arrays)[::2]
    with ringload.Loader(**limits) as loader:
        for allocation in ("per_load", "per_file", "per_tensor"):
            check_all(loader.load(path, allocation=allocation).result(), arrays)
        mapped = loader.load(path, memory="mapped", unmappable="copy").result()
        check_all(mapped, arrays)
        chosen = loader.load(path, select=lambda info: info.name in some).result()
        check_all(chosen, {name: arrays[name] for name in some})
        check_all(streamed(loader, path), arrays)
        check_all(streamed(loader, path, window="16MiB"), arrays)
        filled = {name: numpy.zeros(a.shape, a.dtype) for name, a in arrays.items()}
        loader.fill(path, filled).result()
        check_all(filled, arrays)
        for zstd_level in (None, 1):
            copy = str(tmp_path / f"copy{zstd_level}.zt")
            loader.save(copy, mapped, zstd_level=zstd_level).result()
            check_all(loader.load(copy).result(), arrays)
        with loader.open(path).result() as checkpoint:
            for name, array in arrays.items():
                if array.ndim:
                    begin, end = sorted(random.integers(0, array.shape[0] + 1, 2).tolist())
                    assert same(checkpoint[name][begin:end].numpy(), array[begin:end]), name


def destinations_like(array):
    """Memory of every form that a tensor like `array` can be filled into."""
    shape, dtype = array.shape, array.dtype
    yield numpy.zeros(shape, dtype)
    yield numpy.zeros(shape[::-1], dtype).T
    every_other = tuple(slice(None, None, 2) for _ in shape)
    yield numpy.zeros([2 * size for size in shape], dtype)[every_other]
    yield numpy.zeros(shape, dtype)[tuple(slice(None, None, -1) for _ in shape)]
    yield numpy.zeros(shape, [("a", "i1"), ("b", dtype)])["b"]
    yield numpy.zeros(shape, numpy.dtype([("b", dtype), ("c", "i8")], align=True))["b"]
    yield numpy.zeros((3, *shape), dtype)[1]
    if dtype.kind in "fiuc":
        yield numpy.zeros(shape, dtype.newbyteorder(">"))
        yield numpy.zeros(shape, [("a", "i1"), ("b", dtype.newbyteorder(">"))])["b"]


@pytest.mark.parametrize("seed", range(12))
def test_random_memory_is_filled(seed, tmp_path):
    random = numpy.random.default_rng(1000 + seed)
    array = random_array(random, all_types)
    if array.ndim == 0:  # A part of an array is then a scalar of NumPy, and immutable.
        array = array.reshape(1)
    path = write_safetensors(tmp_path / "x.safetensors", {"x": array})
    with ringload.Loader() as loader:
        for into in destinations_like(array):
            loader.fill(path, {"x": into}).result()
            assert same(numpy.array(into, dtype=array.dtype), array), into.dtype
