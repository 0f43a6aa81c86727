# SPDX-License-Identifier: Apache-2.0
"""In place of the package safetensors: `from ringload.compat.safetensors import safe_open`.

Other than there: load_file and get_tensors read through io_uring into memory of their own, where
the file may change or go afterwards; prefetch() loads to the host too, and slices in all dimensions
may be planned; NumPy takes bfloat16 and 8-bit floats, by ml_dtypes; a Tensor outlives the handle.
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
