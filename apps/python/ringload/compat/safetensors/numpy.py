# SPDX-License-Identifier: Apache-2.0
"""Replaces safetensors.numpy."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _shared
from ._errors import as_theirs, check_packed
from ._open import safe_open
from ._serialize import TensorSpec, loaded, serialize, serialize_file


def _specs(tensors, kept):
    found = {}
    for name, array in tensors.items():
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        kept.append(array)
        found[name] = TensorSpec(
            dtype=array.dtype.name,
            shape=array.shape,
            data_ptr=array.__array_interface__["data"][0],
            data_len=array.nbytes,
        )
    return found


def save(tensor_dict: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """Returns the bytes of a file with these arrays."""
    kept = []
    return serialize(_specs(tensor_dict, kept), metadata=metadata)


def save_file(
    tensor_dict: Mapping[str, Any],
    filename: _shared.Path,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes a file with these arrays."""
    kept = []
    serialize_file(_specs(tensor_dict, kept), filename, metadata=metadata)


def load(data: Any) -> dict[str, Any]:
    """Returns the arrays of a file's bytes."""
    model = loaded(data)
    check_packed(model.values())
    return model.numpy()


def load_file(filename: _shared.Path, *, backend: str = "mmap") -> dict[str, Any]:
    """Returns the arrays of a file, in separate memory."""
    import os

    with as_theirs(os.fspath(filename)):
        model = _shared.loader().load(filename, strictness="reference").result()
        check_packed(model.values())
        return model.numpy()
