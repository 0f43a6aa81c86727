# SPDX-License-Identifier: Apache-2.0
"""Fills arrays and tensors of the caller by the rules of numpy.copyto and torch.Tensor.copy_."""

import numpy as np

from ... import _convert
from ..._names import dtype_name
from ._errors import MismatchError

# Between these types, the library converts like NumPy and PyTorch.
_floats = frozenset("f64 f32 f16 bf16".split())


def is_torch(destination):
    return hasattr(destination, "copy_") and hasattr(destination, "is_neg")


def needs_copy(name, info, destination):
    """Returns True if the tensor is read and then copied, False if it is read in place.

    Raises the exceptions of the copy, so that nothing is written if one destination is invalid.
    """
    if isinstance(destination, np.ndarray):
        return _checked_numpy(name, info, destination)
    if is_torch(destination):
        return _checked_torch(name, info, destination)
    if isinstance(destination, np.generic) or not hasattr(destination, "__dlpack__"):
        raise TypeError(f"destination '{name}' is a {type(destination).__name__}, not an array")
    return False


def _checked_numpy(name, info, array):
    stored = _convert.numpy_dtype_or_none(info.dtype)
    source = np.dtype(np.uint8) if stored is None and info.dtype not in _floats else stored
    can_cast = source is None or np.can_cast(source, array.dtype, "same_kind")
    # The types of ml_dtypes would use only the real part of a complex number.
    if not can_cast or (source is not None and source.kind == "c" and array.dtype.kind == "V"):
        raise TypeError(
            f"tensor '{name}': cannot cast from {source} to {array.dtype} according to the rule "
            "'same_kind'"
        )
    _check_shape(name, info.shape, array.shape)
    if not array.flags.writeable:
        raise MismatchError(f"destination '{name}' is read-only")
    is_described = array.dtype.isnative and not any(
        stride % array.itemsize for stride in array.strides
    )
    return not is_described or not _is_direct(info.dtype, dtype_name(array.dtype.name))


def _checked_torch(name, info, tensor):
    import torch

    _check_shape(name, info.shape, tuple(tensor.shape))
    if tensor.layout != torch.strided:
        raise TypeError(f"destination '{name}' is of layout {tensor.layout}, not strided")
    if tensor.device.type != "cpu" or tensor.is_conj() or tensor.is_neg():
        return True
    return not _is_direct(info.dtype, dtype_name(tensor.dtype))


def _is_direct(stored, wanted):
    return stored == wanted or (stored in _floats and wanted in _floats)


def _check_shape(name, shape, wanted):
    try:
        fits = np.broadcast_shapes(tuple(shape), wanted) == wanted
    except ValueError:
        fits = False
    if not fits:
        raise MismatchError(
            f"tensor '{name}': its shape {list(shape)} does not fit the destination, which has "
            f"{list(wanted)}"
        )


def copied(reader, name, destination):
    """Reads a tensor and copies it to its destination."""
    if is_torch(destination):
        destination.copy_(reader.read_torch(name))
    else:
        np.copyto(destination, reader.read_numpy(name))
