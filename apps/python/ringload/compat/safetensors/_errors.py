# SPDX-License-Identifier: Apache-2.0
"""Errors with the names of the package safetensors."""

import contextlib

from ... import Error
from ..._errors import SourceNotFoundError, SystemCallError


class SafetensorError(Exception):
    """An invalid safetensors file, a missing tensor, or an invalid call."""


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
