# SPDX-License-Identifier: Apache-2.0
"""Mappings of files, and new memory of huge pages, as tensors.

The mappings of Python's mmap each keep a duplicate of the file's descriptor. The mappings of this
module keep none, so a program with many tensors does not run out of descriptors.
"""

import ctypes
import math
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
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_failed = ctypes.c_void_p(-1).value
# Smaller tensors have memory of torch: they would leave most of a huge page unused.
_mapped_bytes_min = 4 << 20


def mapped(file, nbytes, flags, offset=0):
    """Returns bytes of a file as a tensor. The mapping lives as long as a tensor views it."""
    return _tensor_at(_map(file, nbytes, flags, offset), nbytes)


def new_memory(nbytes):
    """Returns new bytes as a tensor: in huge pages, if the kernel has them.

    The first write to memory of small pages takes most of the time of a load.
    """
    address = _map(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 0)
    _libc.madvise(address, nbytes, mmap.MADV_HUGEPAGE)  # A refusal is no failure.
    return _tensor_at(address, nbytes)


def empty(shape, dtype, device):
    """Returns a tensor like torch.empty(), in new_memory() if it is large and in host memory."""
    nbytes = math.prod(shape) * torch.empty((), dtype=dtype).element_size()
    if nbytes < _mapped_bytes_min or torch.device(device).type != "cpu":
        return torch.empty(shape, dtype=dtype, device=device)
    return new_memory(nbytes).view(dtype).view(shape)


def _map(file, nbytes, flags, offset):
    address = _libc.mmap(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, file, offset)
    if address == _failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return address


def _tensor_at(address, nbytes):
    content = (ctypes.c_ubyte * nbytes).from_address(address)
    # At exit, tensors may still be in use.
    weakref.finalize(content, _libc.munmap, address, nbytes).atexit = False
    return torch.frombuffer(content, dtype=torch.uint8)
