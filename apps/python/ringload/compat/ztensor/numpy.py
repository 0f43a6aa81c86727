# SPDX-License-Identifier: Apache-2.0
"""Replaces ztensor.numpy."""

import os
from typing import Any

import numpy as np

from ... import _core
from .. import _shared
from ..safetensors._serialize import memory_file
from ._reader import Reader
from ._writer import save_to


def _checked(tensors):
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, np.ndarray] but received {type(tensors)}")
    for name, array in tensors.items():
        if not isinstance(array, np.ndarray):
            raise ValueError(
                f"Key `{name}` is invalid, expected np.ndarray but received {type(array)}"
            )
    return tensors


def save_file(
    tensors: dict[str, Any],
    filename: _shared.Path,
    metadata: dict[str, Any] | None = None,
    compression: bool | int = False,
) -> None:
    """Writes a .zt file with these arrays, and the metadata as its attributes."""
    inner = _core.ZtWriter(os.fspath(filename), {"sync": False})
    save_to(inner, _checked(tensors), metadata, compression)


def save(
    tensors: dict[str, Any],
    metadata: dict[str, Any] | None = None,
    compression: bool | int = False,
) -> bytes:
    """Returns the bytes of such a file."""
    return save_to(_core.ZtWriter.in_memory({}), _checked(tensors), metadata, compression)[1]


def load_file(filename: _shared.Path, copy: bool = False) -> dict[str, Any]:
    """Returns the arrays of a file of any format: copy-on-write views, or separate memory."""
    reader = Reader(filename)
    return reader.read_numpy(reader.keys(), copy=copy)


def load(data: Any) -> dict[str, Any]:
    """Returns the arrays of a file's bytes."""
    with memory_file(data) as path:
        return load_file(path)
