# SPDX-License-Identifier: Apache-2.0
"""Errors with the names of the package safetensors."""

import contextlib

from ... import Error
from ..._errors import SourceNotFoundError, SystemCallError


class SafetensorError(Exception):
    """An invalid safetensors file, a missing tensor, or an invalid call."""


def check_packed(tensors):
    """Raises SafetensorError for an F4 tensor whose rows are not whole bytes."""
    for tensor in tensors:
        if tensor.dtype == "f4" and (tensor.ndim == 0 or tensor.shape[-1] % 2):
            raise SafetensorError(
                f"tensor {tensor.name}: the shape {list(tensor.shape)} of F4, with two values in "
                "each byte: expected a last dimension that is divisible by 2"
            )


@contextlib.contextmanager
def as_theirs(filename=None):
    try:
        yield
    except SourceNotFoundError:
        raise FileNotFoundError(f"No such file or directory: {filename}") from None
    except SystemCallError:
        raise
    except Error as failure:
        raise SafetensorError(str(failure)) from failure
