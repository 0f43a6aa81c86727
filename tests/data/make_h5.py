#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_h5.py [FOLDER]: makes the HDF5 files of tests/data/hdf5 with h5py (3.7 or later), and beside
each what is expected of it. Files that are to be refused have nothing beside them."""
import pathlib
import random
import sys

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t, h5z

from listing import Listing

NAMES = {"bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16",
         "uint32": "U32", "int32": "I32", "uint64": "U64", "int64": "I64", "float16": "F16",
         "float32": "F32", "float64": "F64", "complex64": "C64", "complex128": "C128"}
NUMPY = ["?", "i1", "u1", "<i2", ">i2", "<u2", ">u4", "<i4", "<u8", ">i8", "<f2", ">f2", "<f4",
         ">f4", "<f8", ">f8", "<c8", ">c8", "<c16", ">c16"]
FILTERS = ["shuffle", "deflate", "fletcher32"]


def dense(array):
    """Row-major and little-endian, as it lands."""
    array = np.asarray(array)
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def values(rng, dtype, shape):
    """Not quite random, so that deflate has something to find."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    if dtype == bool:
        return np.array([rng.random() < 0.5 for _ in range(count)], bool).reshape(shape)
    few = np.frombuffer(rng.randbytes(dtype.itemsize * 7), dtype)
    return np.array([few[rng.randrange(7)] for _ in range(count)], dtype).reshape(shape)


def add(listing, dataset, name=None):
    array = dataset[()]
    type_name = NAMES[np.asarray(array).dtype.newbyteorder("=").name]
    listing.add(name or dataset.name[1:].replace("/", "."), type_name, np.shape(array),
                dense(array))


def creation(shape, chunks, filters, fill=None, tid=None, early=False, level=6):
    """A property list with the filters in the given order, which h5py's own words cannot say."""
    plist = h5p.create(h5p.DATASET_CREATE)
    if chunks is not None:
        plist.set_chunk(chunks)
    for each in filters:
        if each == "shuffle":
            plist.set_shuffle()
        elif each == "deflate":
            plist.set_deflate(level)
        else:
            plist.set_fletcher32()
    if fill is not None:
        plist.set_fill_value(np.asarray(fill))
    if early:
        plist.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    return plist


def dataset_of(parent, name, dtype, shape, plist, maxshape=None):
    dtype = np.dtype(dtype)
    tid = h5t.py_create(dtype, logical=True)
    space = h5s.create_simple(shape, maxshape) if shape != () else h5s.create(h5s.SCALAR)
    return h5py.Dataset(h5d.create(parent.id, name.encode(), tid, space, dcpl=plist))


def make_dtypes(path, rng):
    listing = Listing(path)
    with h5py.File(path, "w") as f:
        for text in NUMPY:
            group = f.create_group(text.replace("<", "le_").replace(">", "be_").replace("?", "bool"))
            for name, shape in (("matrix", (3, 5)), ("scalar", ()), ("none", (0, 4))):
                add(listing, group.create_dataset(name, data=values(rng, text, shape), dtype=text))
        # Elements that are arrays; enumerations and bit fields, which are integers.
        inner = np.dtype(("<f4", (2, 3)))
        arrays = f.create_dataset("arrays", (4,), inner)
        arrays[...] = values(rng, "<f4", (4, 2, 3))
        add(listing, arrays)
        colours = h5py.enum_dtype({"red": 1, "green": 2}, basetype="<i2")
        add(listing, f.create_dataset("colours", data=np.array([1, 2, 1], "<i2"), dtype=colours))
        # bfloat16, by its bits.
        tid = h5t.IEEE_F16LE.copy()
        tid.set_fields(15, 7, 8, 0, 7)
        tid.set_ebias(127)
        bits = np.array([[0x3F80, 0x4049, 0xBF00], [0x7F80, 1, 0x8000]], "<u2")
        made = h5d.create(f.id, b"bfloat16", tid, h5s.create_simple(bits.shape))
        made.write(h5s.ALL, h5s.ALL, bits, mtype=tid)
        listing.add("bfloat16", "BF16", bits.shape, bits.tobytes())
        # What holds no numbers is left out.
        f["text"] = "a string"
        f["texts"] = np.array([b"one", b"three"], "S5")
        f["reference"] = f["colours"].ref
        f["table"] = np.zeros(3, [("a", "i4"), ("b", "f8")])
        f["lists"] = h5py.Empty("f4")
        ragged = f.create_dataset("ragged", (2,), h5py.vlen_dtype("i4"))
        ragged[0] = [1, 2]
    listing.write()


ORDERS = [[], ["shuffle"], ["deflate"], ["fletcher32"], ["shuffle", "deflate"],
          ["shuffle", "deflate", "fletcher32"], ["deflate", "fletcher32"],
          ["shuffle", "fletcher32"], ["fletcher32", "deflate"], ["fletcher32", "shuffle"],
          ["deflate", "shuffle"], ["fletcher32", "shuffle", "deflate"],
          ["shuffle", "fletcher32", "deflate"], ["deflate", "fletcher32", "shuffle"],
          ["deflate", "shuffle", "fletcher32"], ["fletcher32", "deflate", "shuffle"]]


def make_chunked(path, rng, libver):
    listing = Listing(path)
    with h5py.File(path, "w", libver=libver) as f:
        for i, order in enumerate(ORDERS):
            name = "_".join(order) or "plain"
            dtype = [">f4", "<f4", "<i2", "<f8", "<c8"][i % 5]
            made = dataset_of(f, name, dtype, (7, 10), creation((7, 10), (3, 4), order))
            made[...] = values(rng, dtype, (7, 10))
            add(listing, made)
        # Chunks that were never written, with and without a fill value, and nothing but those.
        holes = f.create_group("holes")
        for dtype, fill in (("<f4", None), (">i4", 77), ("<c8", 1 - 2j), ("?", True)):
            dtype = np.dtype(dtype)
            for name, chunks in (("some", (2, 3)), ("all", (2, 3)), ("contiguous", None)):
                plist = creation((5, 9), chunks, ["shuffle", "deflate"] if chunks else [],
                                 None if fill is None else np.array(fill, dtype))
                made = dataset_of(holes, f"{name}_{dtype.name}", dtype, (5, 9), plist)
                if name == "some":
                    made[1:3, 2:5] = values(rng, dtype, (2, 3))
                add(listing, made)
        # A chunk whose filters were not applied, as the mask beside it says.
        masked = dataset_of(f, "masked", "<i4", (4, 4),
                            creation((4, 4), (2, 4), ["shuffle", "deflate", "fletcher32"]))
        rows = values(rng, "<i4", (4, 4))
        masked[...] = rows
        masked.id.write_direct_chunk((0, 0), rows[:2].tobytes(), 7)
        # Until the file is opened again, libhdf5 knows nothing of the mask.
        listing.add("masked", "I32", rows.shape, dense(rows))
        # One chunk, larger than the dataset; and all of them there from the beginning.
        one = dataset_of(f, "one_chunk", "<f4", (3,), creation((3,), (8,), ["deflate"]), (20,))
        one[...] = values(rng, "<f4", (3,))
        add(listing, one)
        early = dataset_of(f, "early", ">u2", (6, 6), creation((6, 6), (4, 4), [], early=True))
        early[2:5] = values(rng, ">u2", (3, 6))
        add(listing, early)
        for name, most in (("grows", (h5s.UNLIMITED,)),
                           ("grows_both_ways", (h5s.UNLIMITED, h5s.UNLIMITED))):
            shape = (11,) * len(most)
            made = dataset_of(f, name, "<f4", shape,
                              creation(shape, (4,) * len(shape), ["shuffle", "deflate"]), most)
            made[...] = values(rng, "<f4", shape)
            made.resize((9,) * len(shape))
            add(listing, made)
        # So many that their index has several levels.
        many = dataset_of(f, "many", "u1", (40, 21), creation((40, 21), (3, 1), ["fletcher32"]))
        many[:, 1:] = values(rng, "u1", (40, 20))
        add(listing, many)
        compact = h5p.create(h5p.DATASET_CREATE)
        compact.set_layout(h5d.COMPACT)
        for dtype in ("<f4", ">f8"):
            made = dataset_of(f, f"compact_{dtype[1:]}", dtype, (2, 3), compact)
            made[...] = values(rng, dtype, (2, 3))
            add(listing, made)
    listing.write()


def make_user_block(path, rng):
    """Addresses count from the end of the block, or not: that depends on what is asked."""
    listing = Listing(path)
    with h5py.File(path, "w", userblock_size=1024) as f:
        add(listing, f.create_dataset("contiguous", data=values(rng, "<f4", (5, 5))))
        add(listing, f.create_dataset("chunked", data=values(rng, "<f4", (5, 5)), chunks=(2, 2)))
        add(listing, f.create_dataset("deflated", data=values(rng, "<f4", (50,)), chunks=(20,),
                                      compression="gzip"))
        f.create_dataset("never_written", (2, 2), "<f4")
        add(listing, f["never_written"])
    listing.write()


def make_keras(path, rng):
    """Groups, attributes and names as Keras 2 writes them; and links."""
    listing = Listing(path)
    with h5py.File(path, "w", libver=("earliest", "v110")) as f:
        f.attrs["backend"] = "tensorflow"
        f.attrs["keras_version"] = np.bytes_("2.15.0")
        f.attrs["layer_names"] = np.array([b"dense", b"dense_1"])
        f.attrs["numbers"] = np.array([1.5, -2.0])
        f.attrs["steps"] = np.int64(-7)
        for layer in ("dense", "dense_1"):
            group = f.create_group(f"model_weights/{layer}/{layer}")
            group.parent.attrs["weight_names"] = [f"{layer}/kernel:0", f"{layer}/bias:0"]
            add(listing, group.create_dataset("kernel:0", data=values(rng, "<f4", (4, 3))))
            add(listing, group.create_dataset("bias:0", data=values(rng, "<f4", (3,))))
        kernel = f["model_weights/dense/dense/kernel:0"]
        f["tied"] = kernel  # A second hard link: the same bytes.
        add(listing, kernel, "tied")
        f["alias"] = h5py.SoftLink("/model_weights/dense/dense/bias:0")
        add(listing, f["alias"], "alias")
        f["nowhere"] = h5py.SoftLink("/none")
        f["again"] = h5py.SoftLink("/model_weights")
        f["model_weights/dense/up"] = f["model_weights"]  # A cycle.
    listing.write()


def make_refused(folder):
    with h5py.File(folder / "external_link.h5", "w") as f:
        f["inside"] = np.zeros(3, "f4")
        f["outside"] = h5py.ExternalLink("/etc/passwd", "/x")
    with h5py.File(folder / "external_link_behind_soft.h5", "w") as f:
        f["a"] = h5py.SoftLink("/z/x")
        f["z"] = h5py.ExternalLink("dtypes.h5", "/")
    with h5py.File(folder / "external_storage.h5", "w") as f:
        f.create_dataset("x", (100,), "u1", external=[("/etc/passwd", 0, 100)])
    with h5py.File(folder / "virtual.h5", "w", libver=("earliest", "v110")) as f:
        layout = h5py.VirtualLayout(shape=(4,), dtype="f4")
        layout[...] = h5py.VirtualSource("/etc/passwd", "x", shape=(4,))
        f.create_virtual_dataset("x", layout)
    with h5py.File(folder / "lzf.h5", "w") as f:
        f.create_dataset("x", data=np.arange(64, dtype="f4"), chunks=(16,), compression="lzf")
    with h5py.File(folder / "long_double.h5", "w") as f:
        f["x"] = np.zeros(3, np.longdouble)
    with h5py.File(folder / "same_name.h5", "w") as f:
        f["a/b"] = np.zeros(2, "f4")
        f["a.b"] = np.ones(2, "f4")
    with h5py.File(folder / "bomb.h5", "w") as f:
        f.create_dataset("x", (1 << 40,), "f4")  # Never written: a terabyte of zeros.
    with h5py.File(folder / "deep.h5", "w", libver=("earliest", "v110")) as f:
        f.create_group("/".join(["g"] * 66))


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          pathlib.Path(__file__).parent / "hdf5")
    folder.mkdir(exist_ok=True)
    rng = random.Random(5)
    make_dtypes(folder / "dtypes.h5", rng)
    make_chunked(folder / "chunked.h5", rng, ("earliest", "v108"))
    make_chunked(folder / "chunked_v110.h5", rng, ("v110", "v110"))
    make_user_block(folder / "user_block.h5", rng)
    make_keras(folder / "keras.h5", rng)
    make_refused(folder)


if __name__ == "__main__":
    main()
