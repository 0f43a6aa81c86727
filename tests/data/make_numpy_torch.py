#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes numpy/ and torch/ beside this script, with numpy, ml_dtypes and torch.

What FILE must give stands in FILE.list and FILE.manifest; see listing.py.
"""
import collections
import pathlib
import sys
import zipfile

import ml_dtypes
import numpy as np
import torch

from listing import Listing

here = pathlib.Path(__file__).parent

NAMES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "uint16": "U16", "float16": "F16",
    "bfloat16": "BF16", "int32": "I32", "uint32": "U32", "float32": "F32", "complex64": "C64",
    "complex128": "C128", "float64": "F64", "int64": "I64", "uint64": "U64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
}


def dense(value):
    """(name of the dtype, shape, bytes) of an array or a tensor."""
    if isinstance(value, torch.Tensor):
        plain = value.detach().resolve_conj().contiguous()
        kind, shape = str(plain.dtype).removeprefix("torch."), list(plain.shape)
        raw = bytes(plain.reshape(-1).view(torch.uint8).numpy()) if plain.numel() else b""
    else:
        kind, shape = value.dtype.name, list(value.shape)
        raw = value.astype(value.dtype.newbyteorder("<")).tobytes(order="C")
    return NAMES[kind], shape, raw


def write_expected(path, tensors):
    listing = Listing(path)
    for name, value in tensors.items():
        kind, shape, raw = dense(value)
        listing.add(name, kind, shape, raw)
    listing.write()


def numpy_files(folder):
    rng = np.random.default_rng(1)
    kinds = ["?", "i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8",
             "<u8", ">u8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "<c8", ">c8", "<c16", ">c16"]
    arrays = {}
    for kind in kinds:
        dtype = np.dtype(kind)
        random = rng.integers(0, 2 if kind == "?" else 100, (3, 4, 5))
        arrays[f"{dtype.name}.{'big' if kind[0] == '>' else 'little'}"] = random.astype(dtype)
        if kind in ("i1", ">i4", "<f8", ">c8"):
            arrays[f"fortran.{dtype.name}"] = np.asfortranarray(random.astype(dtype))
    arrays["scalar"] = np.array(7, "<i4")
    arrays["empty"] = np.zeros((0, 3), "<f4")
    arrays["zeros"] = np.zeros((64, 64), "<f4")
    arrays["sub/folder"] = np.arange(6, dtype="<i2").reshape(2, 3)[:, ::2]
    np.savez(folder / "stored.npz", **arrays)
    np.savez_compressed(folder / "deflated.npz", **arrays)
    for name in ("stored.npz", "deflated.npz"):
        write_expected(folder / name, arrays)

    for name, array in {"plain": rng.random((4, 6)).astype("<f4"),
                        "fortran": np.asfortranarray(rng.random((4, 6))),
                        "big_endian": rng.integers(0, 1000, (3, 5)).astype(">i4")}.items():
        np.save(folder / f"{name}.npy", array)
        write_expected(folder / f"{name}.npy", {name: array})

    nameless = {"b": rng.random((2, 3)).astype(ml_dtypes.bfloat16),
                "e": rng.random(5).astype(ml_dtypes.float8_e4m3fn),
                "f": rng.random(5).astype(ml_dtypes.float8_e5m2)}
    np.savez(folder / "ml_dtypes.npz", **nameless)
    write_expected(folder / "ml_dtypes.npz", nameless)
    np.save(folder / "objects.npy", np.array([{}, None], object), allow_pickle=True)


def all_dtypes():
    out = {}
    for name in NAMES:
        dtype = getattr(torch, name)
        random = torch.arange(1, 13).reshape(3, 4) % (2 if name == "bool" else 13)
        out[name] = random.to(torch.float32).to(dtype) if name.startswith("float8") else \
            random.to(dtype)
    out["complex128"] = torch.arange(6).to(torch.complex128) * (1 + 2j)
    return out


def views():
    base = torch.arange(24.0)
    return {
        "whole": base, "again": base, "part": base[5:11], "reshaped": base.reshape(2, 3, 4),
        "transposed": base.reshape(4, 6).t(), "every_third": base[::3],
        "fortran": torch.empty_strided((2, 3, 4), (1, 2, 6)).copy_(base.reshape(2, 3, 4)),
        "expanded": torch.arange(3.0).reshape(3, 1).expand(3, 5), "scalar": torch.tensor(2.5),
        "windows": base.unfold(0, 4, 2), "empty": torch.zeros(0, 3), "ones": base[:6].view(1, 6, 1),
    }


def nested(parameter):
    layers = [torch.full((2, 2), float(i)) for i in range(3)]
    return {
        "epoch": 3, "best": 0.25, "name": "run", "none": None, "yes": True, "size": torch.Size([2]),
        "state_dict": collections.OrderedDict(w=layers[0], b=parameter),
        "optimizer": {"state": {0: {"exp_avg": layers[1]}, 1: {"exp_avg": layers[2]}},
                      "param_groups": [{"lr": 0.1, "params": [0, 1]}]},
        "pair": (layers[0], [layers[1]]),
    }


def flat(value, name=""):
    """What the names of a nested object's tensors are."""
    if isinstance(value, torch.Tensor):
        return {name: value}
    items = value.items() if isinstance(value, dict) else \
        enumerate(value) if isinstance(value, (list, tuple)) else []
    out = {}
    for key, item in items:
        out.update(flat(item, f"{name}.{key}" if name else str(key)))
    return out


def rezipped(source, target, change):
    """The archive again, deflated, with what `change` makes of each member."""
    with zipfile.ZipFile(source) as old, \
            zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for each in old.infolist():
            new.writestr(each.filename, change(each.filename, old.read(each)))


def torch_files(folder):
    linear = torch.nn.Linear(3, 2)
    torch.manual_seed(1)
    objects = {"dtypes": all_dtypes(), "views": views(),
               "nested": nested(torch.nn.Parameter(torch.ones(3))),
               "module": linear.state_dict()}
    for name, value in objects.items():
        torch.save(value, folder / f"{name}.pt")
        torch.save(value, folder / f"{name}_legacy.pt", _use_new_zipfile_serialization=False)
        write_expected(folder / f"{name}.pt", flat(value))
        write_expected(folder / f"{name}_legacy.pt", flat(value))
    rezipped(folder / "views.pt", folder / "views_deflated.pt", lambda name, content: content)
    write_expected(folder / "views_deflated.pt", views())

    # As a big-endian machine writes it.
    kinds = {k: v for k, v in all_dtypes().items() if not k.startswith(("uint", "float8"))}
    torch.save(kinds, folder / "big_endian.pt")
    widths = [torch.empty(0, dtype=v.dtype) for v in kinds.values()]

    def swap(name, content):
        if name.endswith("/byteorder"):
            return b"big"
        if "/data/" in name:
            of = widths[int(name.rsplit("/", 1)[1])]
            unit = of.element_size() // (2 if of.is_complex() else 1)
            return np.frombuffer(content, f"V{unit}").tobytes() if unit == 1 else \
                np.frombuffer(content, f"<u{unit}").byteswap().tobytes()
        return content
    swapped = folder / "swapped.tmp"
    rezipped(folder / "big_endian.pt", swapped, swap)
    swapped.replace(folder / "big_endian.pt")
    write_expected(folder / "big_endian.pt", kinds)

    torch.save(torch.arange(5), folder / "lone.pt")
    write_expected(folder / "lone.pt", {"lone": torch.arange(5)})

    dense_values = torch.tensor([[0, 2.0, 0], [3, 0, 4]])
    sparse = {"coo": dense_values.to_sparse(), "csr": dense_values.to_sparse_csr(),
              "csc": dense_values.to_sparse_csc()}
    torch.save(sparse, folder / "sparse.pt")
    coo = sparse["coo"].coalesce()
    write_expected(folder / "sparse.pt", {
        "coo/indices": coo.indices(), "coo/values": coo.values(),
        "csr/crow_indices": sparse["csr"].crow_indices(),
        "csr/col_indices": sparse["csr"].col_indices(), "csr/values": sparse["csr"].values(),
        "csc/ccol_indices": sparse["csc"].ccol_indices(),
        "csc/row_indices": sparse["csc"].row_indices(), "csc/values": sparse["csc"].values()})

    torch.save({"q": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
                "w": torch.ones(2)}, folder / "quantised.pt")
    torch.save({"w": torch.ones(2, dtype=torch.complex64).conj()}, folder / "conjugate.pt")
    torch.save({"args": __import__("argparse").Namespace(lr=1), "w": torch.ones(2)},
               folder / "namespace.pt")
    torch.jit.save(torch.jit.trace(linear, torch.ones(1, 3)), folder / "script.pt")


def torch_protocols(folder):
    """What each pickle protocol has. torch 1.13 wrote these."""
    linear = torch.nn.Linear(3, 2)
    # A set is no container of tensors here; long text and bytes have a form of their own.
    others = {"bytes": b"abc", "long": bytes(300), "text": "t" * 300, "array": bytearray(b"xy"),
              "set": {1}, "frozen": frozenset([2]), "big": 1 << 70}
    for protocol in (3, 4, 5):
        value = {"nested": nested(torch.nn.Parameter(torch.ones(3))), "views": views(),
                 "module": linear.state_dict(), "long_text_" + "k" * 300: torch.ones(1)}
        for form, zipped in {"": True, "_legacy": False}.items():
            path = folder / f"protocol_{protocol}{form}.pt"
            saved = dict(value, others={k: v for k, v in others.items()
                                        if protocol > 3 or k not in ("array", "set", "frozen")})
            torch.save(saved, path, pickle_protocol=protocol,
                       _use_new_zipfile_serialization=zipped)
            write_expected(path, flat(value))

    # No elements, at an offset beyond the storage.
    empty = {"rows": torch.zeros(3, 0)[1:], "columns": torch.zeros(0, 5)[:, 1:],
             "half": torch.arange(6.0).reshape(2, 3)[2:], "w": torch.ones(2)}
    torch.save(empty, folder / "empty.pt")
    torch.save(empty, folder / "empty_legacy.pt", _use_new_zipfile_serialization=False)
    write_expected(folder / "empty.pt", empty)
    write_expected(folder / "empty_legacy.pt", empty)

    # PyTorch 1.9 to 1.13 name another function than later ones.
    csr = torch.tensor([[0, 2.0, 0], [3, 0, 4]]).to_sparse_csr()
    torch.save({"csr": csr}, folder / "sparse_csr.pt", pickle_protocol=4)
    write_expected(folder / "sparse_csr.pt", {
        "csr/crow_indices": csr.crow_indices(), "csr/col_indices": csr.col_indices(),
        "csr/values": csr.values()})


if __name__ == "__main__":
    # With the name of one: only that.
    for make, subfolder in {numpy_files: "numpy", torch_files: "torch",
                            torch_protocols: "torch"}.items():
        if len(sys.argv) > 1 and make.__name__ not in sys.argv:
            continue
        (here / subfolder).mkdir(exist_ok=True)
        make(here / subfolder)
