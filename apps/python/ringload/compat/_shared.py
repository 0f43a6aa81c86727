# SPDX-License-Identifier: Apache-2.0
"""Code that the replacement modules share: one loader for each device, created on first use."""

import os
import threading
from typing import TypeAlias

from .._loader import Loader

Path: TypeAlias = "str | os.PathLike[str]"

_lock = threading.Lock()
_loaders = {}  # By owner, device, hdf5 and process. A forked child creates its own.

# The PyTorch devices that the library knows. Tensors for other devices are loaded to the host
# first.
_direct = ("cpu", "cuda")


def loader(device="cpu", hdf5=False, owner=""):
    key = (owner, device, hdf5, os.getpid())
    with _lock:
        if key not in _loaders:
            _loaders[key] = Loader(device, hdf5=hdf5, remote=False)
        return _loaders[key]


def loaders_of(owner):
    """Returns the loaders of this process that were created for `owner`."""
    with _lock:
        return [made for key, made in _loaders.items() if (key[0], key[-1]) == (owner, os.getpid())]


def device_text(device):
    """Returns the name of the device. A number is the number of a GPU, as in PyTorch."""
    if device is None:
        return "cpu"
    return f"cuda:{device}" if isinstance(device, int) else str(device)


def has_direct(device):
    from .. import _core

    kind = device.partition(":")[0]
    return kind == "cpu" or (kind in _direct and _core.has_cuda)


def loaded_torch(source, device="cpu", hdf5=False, **options):
    """Loads all tensors of `source` as PyTorch tensors, to any device of PyTorch."""
    device = device_text(device)
    on = device if has_direct(device) else "cpu"
    found = loader(on, hdf5).load(source, **options).result().torch()
    if on != device:
        found = {name: tensor.to(device) for name, tensor in found.items()}
    return found


def check_names(tensors):
    """Raises TypeError or UnicodeEncodeError for a name that a file cannot contain."""
    for name in tensors:
        if not isinstance(name, str):
            raise TypeError(f"a tensor's name must be a str, not {type(name).__name__}: {name!r}")
        name.encode()


def check_texts(metadata):
    """Raises TypeError unless `metadata` is None or a dictionary of texts."""
    if metadata is None:
        return
    if not isinstance(metadata, dict):
        raise TypeError(f"metadata must be a dict, not {type(metadata).__name__}")
    for key, value in metadata.items():
        for text in (key, value):
            if not isinstance(text, str):
                raise TypeError(f"metadata must be str, not {type(text).__name__}: {text!r}")
            text.encode()
