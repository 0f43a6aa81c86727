# SPDX-License-Identifier: Apache-2.0
"""Errors under the names that the package safetensors gives them."""

import contextlib

from ... import Error
from ..._errors import SourceNotFoundError, SystemCallError


class SafetensorError(Exception):
    """A file that is no safetensors, a tensor that is not in it, or a call that cannot be."""


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
