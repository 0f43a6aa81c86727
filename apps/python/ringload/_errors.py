# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package: each is an Error, and also Python's own where one fits."""

import os


class Error(Exception):
    """A load, a save or an open has failed. Its text names the file, the tensor and the byte.

    kind: what is wrong, in a word that does not change: "truncated_file", "no_such_tensor"; "errno"
        for an error of the system, whose number is `errno`; "device" for one of a GPU.
    place: the file, and the tensor or byte in it.
    whole, torn: after a fill that failed when it had begun to write, the names of the destinations
        that are complete, and of those that are not.
    """

    kind = ""
    place = ""
    errno = None
    whole = ()
    torn = ()

    def __str__(self):
        return self.args[0] if self.args else ""


class CancelledError(Error):
    """The operation was cancelled, or its Loader closed. What is awaited raises asyncio's."""


class SourceNotFoundError(Error, FileNotFoundError):
    """There is no such file, folder, or model in the local cache."""


class TensorNotFoundError(Error, KeyError):
    """The checkpoint has no tensor of that name."""


class OutOfMemoryError(Error, MemoryError):
    """The tensors need more memory than there is, or than the limits allow."""


class InvalidFileError(Error, ValueError):
    """A file breaks its format's rules, or does not hold what it should."""


class UsageError(Error, ValueError):
    """What was asked for contradicts itself, or cannot be had here."""


class RemoteError(Error, ConnectionError):
    """A server cannot be reached, refuses, or answers what makes no sense."""


class RankFailedError(Error, ConnectionError):
    """Another rank of the group has failed, has ended, or was waited for in vain."""


class SystemCallError(Error, OSError):
    """The system refused a call; `errno` says why."""


_classes = {
    "cancelled": CancelledError,
    "source_not_found": SourceNotFoundError,
    "no_such_tensor": TensorNotFoundError,
    "memory_exceeded": OutOfMemoryError,
    "access_denied": RemoteError,
    "rank_failed": RankFailedError,
    "remote_failed": RemoteError,
    "malformed_answer": RemoteError,
}
_usage = frozenset(
    "invalid_source_name ambiguous_source codec_unavailable engine_unavailable direct_unavailable "
    "invalid_limits device_unavailable unsupported_dtype invalid_destination unexpected_tensor "
    "wrong_dtype wrong_shape invalid_selection not_mappable invalid_tensor invalid_saving "
    "digest_unavailable mismatched_call".split()
)
_of_system = {}


def _system_class(number):
    """SystemCallError, and the subclass of OSError that the number has."""
    python = type(OSError(number, os.strerror(number)))
    if python is OSError:
        return SystemCallError
    if python not in _of_system:
        _of_system[python] = type(python.__name__, (SystemCallError, python), {"__doc__": ""})
    return _of_system[python]


def make(kind, number, text, place):
    """The exception for an error of the library."""
    if kind == "errno":
        made = _system_class(number)(text)
        made.errno = number
    else:
        made = _classes.get(kind, UsageError if kind in _usage else InvalidFileError)(text)
    if kind == "device":
        made = Error(text)
    made.kind = kind
    made.place = place
    return made
