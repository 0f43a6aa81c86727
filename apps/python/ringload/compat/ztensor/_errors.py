# SPDX-License-Identifier: Apache-2.0
"""Errors of the package ztensor: built-in exceptions that are also a ZTensorError."""

import contextlib

from ..._errors import Error, SourceNotFoundError, SystemCallError, TensorNotFoundError, UsageError


class ZTensorError(Exception):
    """A tensor or file cannot be read or written."""

    def __str__(self):
        return str(self.args[0]) if self.args else ""


class FileError(ZTensorError, RuntimeError):
    """A file is damaged, or has no known format."""


class MissingTensorError(ZTensorError, KeyError):
    """No tensor has this name."""


class MismatchError(ZTensorError, ValueError):
    """Shapes, types or settings do not match."""


class MissingFileError(ZTensorError, OSError):
    """A system call failed."""


@contextlib.contextmanager
def as_theirs():
    try:
        yield
    except TensorNotFoundError as failure:
        raise MissingTensorError(str(failure)) from failure
    except (SourceNotFoundError, SystemCallError) as failure:
        raise MissingFileError(str(failure)) from failure
    except UsageError as failure:
        raise MismatchError(str(failure)) from failure
    except Error as failure:
        raise FileError(str(failure)) from failure
