#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""PyTorch adopts every tensor of a checkpoint by DLPack, after model and loader are gone, and what
it then holds is compared with the file, byte by byte. Exit code 77: there is no PyTorch.

    adopt.py libringload_adopted.so FILE.safetensors [CUDA_DEVICE]
"""

import ctypes
import json
import sys

try:
    import torch
    from torch.utils.dlpack import from_dlpack
except ImportError:
    print("skipped: no torch")
    sys.exit(77)

library = ctypes.CDLL(sys.argv[1])
library.adopted_problem.restype = ctypes.c_char_p
library.adopted_name.restype = ctypes.c_char_p
library.adopted_tensor.restype = ctypes.c_void_p
library.adopted_let_go.argtypes = [ctypes.c_void_p]
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def catalog(path):
    """Shape and bytes of each tensor, read by nobody's loader."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        begin = file.tell()
        header.pop("__metadata__", None)
        for name, entry in header.items():
            first, last = entry["data_offsets"]
            file.seek(begin + first)
            yield name, entry, file.read(last - first)


def adopt(count):
    """The tensors that PyTorch takes, and the types that this version of it does not know."""
    taken, refused = {}, set()
    for i in range(count):
        name = library.adopted_name(i).decode()
        given = library.adopted_tensor(i)
        try:
            taken[name] = from_dlpack(new_capsule(given, b"dltensor", None))
        except (RuntimeError, BufferError) as unknown:
            library.adopted_let_go(given)
            refused.add(str(unknown).splitlines()[0])
    return taken, refused


def bytes_of(tensor):
    flat = tensor.contiguous().cpu().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def main():
    path = sys.argv[2]
    device = int(sys.argv[3]) if len(sys.argv) > 3 else -1
    count = library.adopted_load(path.encode(), device)
    if count < 0:
        sys.exit(library.adopted_problem().decode())
    taken, refused = adopt(count)
    library.adopted_forget()
    where = {"cpu"} if device < 0 else {f"cuda:{device}"}
    assert {str(t.device) for t in taken.values()} <= where
    compared = 0
    for name, entry, wanted in catalog(path):
        if name not in taken:
            continue
        assert list(taken[name].shape) == entry["shape"], name
        assert bytes_of(taken[name]) == wanted, name
        compared += len(wanted)
    types = sorted({str(t.dtype).replace("torch.", "") for t in taken.values()})
    print(f"PyTorch {torch.__version__} adopted {len(taken)} of {count} tensors "
          f"({', '.join(types)}), {compared} bytes compared")
    for why in sorted(refused):
        print(f"it refused: {why}")


main()
