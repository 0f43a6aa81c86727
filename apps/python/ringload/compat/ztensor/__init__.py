# SPDX-License-Identifier: Apache-2.0
"""In place of the package ztensor 1.2: `from ringload.compat import ztensor`.

Other than there: metadata that is saved is in the file; strides, byte order and all types of the
foreign formats are read; 8-bit floats are arrays of ml_dtypes, and not of uint8; a format is told
by the file's content; an unfinished file never appears; read_into checks all before it writes.
"""

from .._shared import Path
from ._errors import ZTensorError
from ._reader import Reader, Tensor, TensorMetadata
from ._writer import Writer, remove_tensors, replace_tensor


def open(path: Path) -> Reader:
    """A Reader of that file."""
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
