# SPDX-License-Identifier: Apache-2.0
"""Errors as the package ztensor has them: Python's own, and each a ZTensorError too."""

import contextlib

from ..._errors import Error, SourceNotFoundError, SystemCallError, TensorNotFoundError, UsageError


class ZTensorError(Exception):
    """What cannot be read or written."""

    def __str__(self):
        return str(self.args[0]) if self.args else ""


class FileError(ZTensorError, RuntimeError):
    """A file that is damaged, or of no known format."""


class MissingTensorError(ZTensorError, KeyError):
    """There is no tensor of that name."""


class MismatchError(ZTensorError, ValueError):
    """Shapes, types or settings that do not fit."""


class MissingFileError(ZTensorError, OSError):
    """The system refused a call."""


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
