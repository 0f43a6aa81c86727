# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package: each is an Error, and also Python's own where one fits."""

import errno as _numbers
import os
import re


class Error(Exception):
    """A load, a save or an open has failed. Its text names the file, the tensor and the byte.

    Those that are an OSError have its errno, strerror and filename, if a call of the system failed
    or a file is missing.

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

    def __reduce__(self):
        if not self.kind:
            return type(self), self.args, self.__dict__
        # Some classes are made by number, and have no name to be pickled by.
        return make, (self.kind, self.errno or 0, str(self), self.place), self.__dict__


class CancelledError(Error):
    """The operation was cancelled, or its Loader closed. What is awaited raises asyncio's."""


class SourceNotFoundError(Error, FileNotFoundError):
    """There is no such file, folder, or model in the local cache."""

    errno = _numbers.ENOENT


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
    "invalid_options device_unavailable unsupported_dtype invalid_destination unexpected_tensor "
    "wrong_dtype wrong_shape invalid_selection not_mappable invalid_tensor invalid_saving "
    "digest_unavailable mismatched_call usage".split()
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


# The library's names for what Python's options have other names for.
_structs = re.compile(
    r"\b(?:load_options|limits|loader_options|open_options|fill_options|fill_options|saving"
    r"|save_options|writing|writer_options|storing|object_options|remote_options|hub_options"
    r"|s3_options|verification|manifest|group_options|keeper_options|keeper_options)::(\w+)"
)
_operations = re.compile(r"\b(start|next|tensor|finish|copy|load|open|fill|save)_async\b")
_options = {
    "window_bytes": "window",
    "connect_time_max": "connect_seconds_max",
    "silence_time_max": "silence_seconds_max",
    "request_time_max": "request_seconds_max",
    "stall_time_max": "stall_seconds_max",
    "retry_delay": "retry_seconds",
    "retry_delay_max": "retry_seconds_max",
}


def _in_words_of_python(text):
    if "::" in text:
        text = _structs.sub(lambda found: _options.get(found[1], found[1]), text)
        text = text.replace("the extension ringload::hdf5()", "hdf5=True")
        text = text.replace("the extension ringload::remote()", "remote=True")
        text = text.replace("ringload::shared_host()", "the device 'shared'")
    if "_async" in text:
        text = _operations.sub(r"\1()", text)
    return text


def _file_at(place):
    """The file that a place such as "model.safetensors: tensor 'x'" begins with, or None."""
    file = place.partition(": ")[0]
    is_file = "/" in file or "." in file or os.path.lexists(file)  # Not "slots", a limit.
    return file if is_file else None


def make(kind, number, text, place):
    """The exception for an error of the library."""
    text = _in_words_of_python(text)
    place = _in_words_of_python(place)
    if kind == "errno":
        made = _system_class(number)(text)
        made.errno = number
    elif kind == "device":
        made = Error(text)
    else:
        made = _classes.get(kind, UsageError if kind in _usage else InvalidFileError)(text)
    made.kind = kind
    made.place = place
    if isinstance(made, OSError) and made.errno:
        made.strerror = os.strerror(made.errno)
        made.filename = place if kind == "source_not_found" else _file_at(place)
    return made


def usage(text):
    """The exception for wrong options and values."""
    return make("usage", 0, text, "")


def no_tensor(name):
    """The exception for a model or a checkpoint without a tensor of that name."""
    shown = name if isinstance(name, str) else f"{type(name).__name__} {name!r}"
    return make("no_such_tensor", 0, f"there is no tensor '{shown}'", shown)
