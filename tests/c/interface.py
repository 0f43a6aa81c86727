#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C interface as a foreign-function interface sees it: interface.py LIBRARY FOLDER HEADERS

Loads a file through ctypes and compares every byte, also after all handles but the tensor's are
released; takes a tensor by DLPack; awaits a load by its descriptor; reads the text of an error;
loads over HTTP where that was built; attaches to a keeper; is refused by a checksum list. Finds all
functions that the headers in the folder HEADERS declare.
"""

import ctypes
import functools
import http.server
import json
import pathlib
import re
import select
import struct
import sys
import threading

library = ctypes.CDLL(sys.argv[1])
library.ringload_last_error.restype = ctypes.c_char_p
OK, NOT_FOUND, INVALID_FILE, UNSUPPORTED = 0, 5, 6, 7

# c_cuda.h and c_hdf5.h belong to libraries of their own.
declared = set()
for header in pathlib.Path(sys.argv[3]).glob("c*.h"):
    if header.stem not in ("c_cuda", "c_hdf5"):
        function = r"RINGLOAD_C_EXPORT[^;(]*?\b(ringload_\w+)\("
        declared |= set(re.findall(function, header.read_text()))
assert len(declared) > 150, declared
missing = [name for name in sorted(declared) if not hasattr(library, name)]
assert not missing, missing


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


class LoadOptions(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        ("dtype", ctypes.c_int),
        ("route", ctypes.c_int),
        ("allocation", ctypes.c_int),
        ("mapped", ctypes.c_int),
        ("load_unmappable", ctypes.c_int),
        ("embedded_digests", ctypes.c_int),
        ("checksums", ctypes.c_void_p),
    ]


def opened(loader, source):
    file = ctypes.c_void_p()
    succeed(library.ringload_open(loader, source.encode(), None, ctypes.byref(file)))
    return file


def bytes_of(model):
    tensor = ctypes.c_void_p()
    succeed(library.ringload_model_find(model, b"x", ctypes.byref(tensor)))
    view = View(ctypes.sizeof(View))
    succeed(library.ringload_tensor_look(tensor, ctypes.byref(view)))
    found = ctypes.string_at(view.data, view.bytes)
    library.ringload_tensor_release(tensor)
    library.ringload_model_release(model)
    return found


# Over HTTP: a server of this process, one extension, no setting but the defaults.
extension = ctypes.c_void_p()
status = library.ringload_remote_extension(None, ctypes.byref(extension))
if status == OK:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=path.parent)
    handler.func.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        loader, model = ctypes.c_void_p(), ctypes.c_void_p()
        one = (ctypes.c_void_p * 1)(extension)
        create = library.ringload_loader_create_with
        succeed(create(None, None, one, ctypes.c_size_t(1), ctypes.byref(loader)))
        library.ringload_extension_release(extension)
        file = opened(loader, f"http://127.0.0.1:{server.server_address[1]}/{path.name}")
        succeed(library.ringload_load(loader, file, None, None, ctypes.byref(model)))
        assert bytes_of(model) == data
        library.ringload_checkpoint_release(file)
        library.ringload_loader_release(loader)
        server.shutdown()
else:
    assert status == UNSUPPORTED and b"built without" in library.ringload_last_error()

# By a keeper, and against a checksum list that lists another digest.
device, loader, keeper = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
succeed(library.ringload_shared_host_device(ctypes.byref(device)))
succeed(library.ringload_loader_create(device, None, ctypes.byref(loader)))
file = opened(loader, str(path))
model, attached = ctypes.c_void_p(), ctypes.c_void_p()
succeed(library.ringload_load(loader, file, None, None, ctypes.byref(model)))
socket = str(path.with_suffix(".keeper")).encode()
succeed(library.ringload_keeper_create(socket, None, ctypes.byref(keeper)))
succeed(library.ringload_keeper_publish(keeper, b"x", model))
library.ringload_model_release(model)
succeed(library.ringload_attach(socket, b"x", 0, ctypes.byref(attached)))
library.ringload_keeper_release(keeper)
assert bytes_of(attached) == data

how = LoadOptions(ctypes.sizeof(LoadOptions))
checksums = ctypes.c_void_p()
succeed(library.ringload_checksum_list_parse(b"crc32c 00000000  x\n", None, None,
                                             ctypes.byref(checksums)))
how.checksums = checksums
status = library.ringload_load(loader, file, None, ctypes.byref(how), ctypes.byref(model))
assert status == INVALID_FILE and b"'x'" in library.ringload_last_error()
library.ringload_checksum_list_release(checksums)
library.ringload_checkpoint_release(file)
library.ringload_loader_release(loader)
library.ringload_device_release(device)
path.unlink()
print("ctypes: all as it should be")
