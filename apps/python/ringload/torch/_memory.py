# SPDX-License-Identifier: Apache-2.0
"""Mappings of files as tensors.

The mappings of Python's mmap each keep a duplicate of the file's descriptor. The mappings of this
module keep none, so a program with many tensors does not run out of descriptors.
"""

import ctypes
import mmap
import os
import weakref

import torch

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
)  # fmt: skip
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_failed = ctypes.c_void_p(-1).value


def mapped(file, nbytes, flags, offset=0):
    """Returns bytes of a file as a tensor. The mapping lives as long as a tensor views it."""
    address = _libc.mmap(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, file, offset)
    if address == _failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    content = (ctypes.c_ubyte * nbytes).from_address(address)
    # At exit, tensors may still be in use.
    weakref.finalize(content, _libc.munmap, address, nbytes).atexit = False
    return torch.frombuffer(content, dtype=torch.uint8)
