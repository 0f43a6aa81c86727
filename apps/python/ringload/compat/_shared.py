# SPDX-License-Identifier: Apache-2.0
"""What the modules of this package have in common: one loader for each device, made when needed."""

import os
import threading
from typing import TypeAlias

from .._loader import Loader

Path: TypeAlias = "str | os.PathLike[str]"

_lock = threading.Lock()
_loaders = {}  # By owner, device, whether HDF5 is read, and process: a forked child makes its own.

# PyTorch's devices that the library knows. Others are reached through the host.
_direct = ("cpu", "cuda")


def loader(device="cpu", hdf5=False, owner=""):
    key = (owner, device, hdf5, os.getpid())
    with _lock:
        if key not in _loaders:
            _loaders[key] = Loader(device, hdf5=hdf5)
        return _loaders[key]


def loaders_of(owner):
    """Those loaders of this process that were made for `owner`."""
    with _lock:
        return [made for key, made in _loaders.items() if (key[0], key[-1]) == (owner, os.getpid())]


def device_text(device):
    """The device's name: a number is a GPU's, as PyTorch has it."""
    if device is None:
        return "cpu"
    return f"cuda:{device}" if isinstance(device, int) else str(device)


def has_direct(device):
    from .. import _core

    kind = device.partition(":")[0]
    return kind == "cpu" or (kind in _direct and _core.has_cuda)


def loaded_torch(source, device="cpu", hdf5=False, **options):
    """All tensors of `source` as PyTorch's, on any device that PyTorch has."""
    device = device_text(device)
    on = device if has_direct(device) else "cpu"
    found = loader(on, hdf5).load(source, **options).result().torch()
    if on != device:
        found = {name: tensor.to(device) for name, tensor in found.items()}
    return found


def check_names(tensors):
    """Raises TypeError or UnicodeEncodeError for a name that a file cannot hold."""
    for name in tensors:
        if not isinstance(name, str):
            raise TypeError(f"a tensor's name is a str, not {type(name).__name__}: {name!r}")
        name.encode()


def check_texts(metadata):
    """Raises TypeError unless this is a dictionary of texts, or None."""
    if metadata is None:
        return
    if not isinstance(metadata, dict):
        raise TypeError(f"metadata is a dict, not {type(metadata).__name__}")
    for key, value in metadata.items():
        for text in (key, value):
            if not isinstance(text, str):
                raise TypeError(f"metadata is text, not {type(text).__name__}: {text!r}")
            text.encode()
