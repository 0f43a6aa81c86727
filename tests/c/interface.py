#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C interface as a foreign-function interface sees it: interface.py LIBRARY FOLDER

Loads a file through ctypes and compares every byte, also after all handles but the tensor's are
released; takes a tensor by DLPack; awaits a load by its descriptor; reads the text of an error.
"""

import ctypes
import json
import pathlib
import select
import struct
import sys

library = ctypes.CDLL(sys.argv[1])
library.ringload_last_error.restype = ctypes.c_char_p
OK, NOT_FOUND = 0, 5


class View(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("shape", ctypes.POINTER(ctypes.c_uint64)),
        ("rank", ctypes.c_size_t),
        ("dtype", ctypes.c_int),
        ("device", ctypes.c_int),
        ("device_index", ctypes.c_int32),
    ]


def succeed(status):
    assert status == OK, (status, library.ringload_last_error().decode())


data = bytes(range(256)) * 1000
header = json.dumps({"x": {"dtype": "U8", "shape": [1000, 256], "data_offsets": [0, len(data)]}})
path = pathlib.Path(sys.argv[2]) / "ctypes.safetensors"
path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + data)

loader, file = ctypes.c_void_p(), ctypes.c_void_p()
succeed(library.ringload_loader_create(None, None, ctypes.byref(loader)))
status = library.ringload_open(loader, b"/no/such.safetensors", None, ctypes.byref(file))
assert status == NOT_FOUND and b"/no/such.safetensors" in library.ringload_last_error()
succeed(library.ringload_open(loader, str(path).encode(), None, ctypes.byref(file)))

load, model, tensor = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
succeed(library.ringload_load_begin(loader, file, None, None, ctypes.byref(load)))
descriptor = ctypes.c_int()
succeed(library.ringload_operation_descriptor(load, ctypes.byref(descriptor)))
assert select.select([descriptor.value], [], [], 60)[0], "the load did not end"
succeed(library.ringload_operation_model(load, ctypes.byref(model)))
succeed(library.ringload_model_find(model, b"x", ctypes.byref(tensor)))
library.ringload_operation_release(load)
library.ringload_model_release(model)
library.ringload_checkpoint_release(file)
library.ringload_loader_release(loader)

view = View(ctypes.sizeof(View))
succeed(library.ringload_tensor_look(tensor, ctypes.byref(view)))
assert view.name == b"x" and view.rank == 2 and list(view.shape[:2]) == [1000, 256]
assert ctypes.string_at(view.data, view.bytes) == data

exported = ctypes.c_void_p()
succeed(library.ringload_tensor_to_dlpack(tensor, ctypes.byref(exported)))
library.ringload_tensor_release(tensor)
assert ctypes.string_at(view.data, len(data)) == data
# struct DLManagedTensorVersioned: version, manager_ctx, deleter.
deleter = ctypes.c_void_p.from_address(exported.value + 16).value
ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(exported)
path.unlink()
print("ctypes: all as it should be")
