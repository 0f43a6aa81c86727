# SPDX-License-Identifier: Apache-2.0
"""Replaces the package safetensors: `from ringload.compat.safetensors import safe_open`.

Differences from the package: load_file and get_tensors read through io_uring into separate memory,
so the file may change or be removed afterwards. prefetch() also loads to the host, and a plan may
have slices in all dimensions. NumPy arrays can have bfloat16 and 8-bit floats, through ml_dtypes. A
Tensor outlives the handle.
"""

from ..._core import version as __version__
from ._open import (
    PrefetchLoader,
    PySafeSlice,
    SafetensorError,
    TensorMeta,
    _safe_open_handle,
    safe_open,
)
from ._serialize import TensorSpec, deserialize, serialize, serialize_file

__all__ = [
    "PrefetchLoader",
    "PySafeSlice",
    "SafetensorError",
    "TensorMeta",
    "TensorSpec",
    "__version__",
    "_safe_open_handle",
    "deserialize",
    "safe_open",
    "serialize",
    "serialize_file",
]
