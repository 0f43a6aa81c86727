# SPDX-License-Identifier: Apache-2.0
"""Replaces the package ztensor 1.2: `from ringload.compat import ztensor`.

Differences from the package: saved metadata is in the file. Strides, byte order and all types of
the foreign formats are supported. 8-bit floats are arrays of ml_dtypes instead of uint8. The
content of a file determines its format. An incomplete file never appears. read_into checks all
arguments before it writes.
"""

from .._shared import Path
from ._errors import ZTensorError
from ._reader import Reader, Tensor, TensorMetadata
from ._writer import Writer, remove_tensors, replace_tensor


def open(path: Path) -> Reader:
    """Returns a Reader of the file."""
    return Reader(path)


__all__ = [
    "Reader",
    "Tensor",
    "TensorMetadata",
    "Writer",
    "ZTensorError",
    "open",
    "remove_tensors",
    "replace_tensor",
]
