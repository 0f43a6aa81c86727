# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package. Each is an Error, and also the matching built-in exception."""

import errno as _numbers
import os
import re


class Error(Exception):
    """An operation has failed. The text names the file, the tensor and the byte.

    An Error that is an OSError has errno, strerror and filename, if a system call failed or a file
    is missing.

    kind: a stable word for the cause, such as "truncated_file" or "no_such_tensor". It is "errno"
        for a system error, whose number is `errno`, and "device" for an error of a GPU.
    place: the file, and the tensor or byte in the file.
    whole, torn: if a fill failed after its first write, the names of the complete destinations and
        the names of the incomplete destinations.
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
        # Some classes are made by number and have no name, so pickle cannot find them.
        return make, (self.kind, self.errno or 0, str(self), self.place), self.__dict__


class CancelledError(Error):
    """The operation was cancelled, or its Loader was closed. `await` raises asyncio's exception."""


class SourceNotFoundError(Error, FileNotFoundError):
    """No such file, folder, or model in the local cache exists."""

    errno = _numbers.ENOENT


class TensorNotFoundError(Error, KeyError):
    """The checkpoint has no tensor of this name."""


class OutOfMemoryError(Error, MemoryError):
    """The tensors need more memory than is available, or more than the limits allow."""


class InvalidFileError(Error, ValueError):
    """A file violates the rules of its format, or its content differs from the expected content."""


class UsageError(Error, ValueError):
    """The arguments contradict each other, or this build or machine does not support them."""


class RemoteError(Error, ConnectionError):
    """A server cannot be reached, refuses the request, or sends an invalid response."""


class RankFailedError(Error, ConnectionError):
    """Another rank of the group has failed, has ended, or did not come within the time limit."""


class SystemCallError(Error, OSError):
    """A system call failed. `errno` has the reason."""


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
    """Returns SystemCallError, or its subclass for the OSError subclass of this number."""
    python = type(OSError(number, os.strerror(number)))
    if python is OSError:
        return SystemCallError
    if python not in _of_system:
        _of_system[python] = type(python.__name__, (SystemCallError, python), {"__doc__": ""})
    return _of_system[python]


# Options whose name in Python differs from the name in the library.
_structs = re.compile(
    r"\b(?:load_options|limits|loader_options|open_options|fill_options|fill_options|saving"
    r"|save_options|writing|writer_options|storing|object_options|remote_options|hub_options"
    r"|s3_options|verification|checksum_list|group_options|keeper_options|keeper_options)::(\w+)"
)
_operations = re.compile(r"\b(start|stream|next|tensor|finish|copy|load|open|fill|save)_async\b")
_options = {
    "connect_time_max": "connect_seconds_max",
    "silence_time_max": "silence_seconds_max",
    "request_time_max": "request_seconds_max",
    "stall_time_max": "stall_seconds_max",
    "retry_delay": "retry_seconds",
    "retry_delay_max": "retry_seconds_max",
}


def _in_words_of_python(text):
    if "::" in text:
        text = text.replace("s3_options::endpoint", "s3_endpoint")
        text = _structs.sub(lambda found: _options.get(found[1], found[1]), text)
        text = text.replace("the extension ringload::hdf5()", "hdf5=True")
        text = text.replace("the extension ringload::remote()", "remote=True")
        text = text.replace("ringload::shared_host()", "the device 'shared'")
    if "_async" in text:
        text = _operations.sub(r"\1()", text)
    return text


def _file_at(place):
    """Returns the file at the start of a place such as "model.safetensors: tensor 'x'", or None."""
    file = place.partition(": ")[0]
    is_file = "/" in file or "." in file or os.path.lexists(file)  # "slots", a limit, is no file.
    return file if is_file else None


def make(kind, number, text, place):
    """Returns the exception for an error of the library."""
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
    """Returns the exception for invalid options and values."""
    return make("usage", 0, text, "")


def no_tensor(name):
    """Returns the exception for a tensor name that the model or checkpoint lacks."""
    shown = name if isinstance(name, str) else f"{type(name).__name__} {name!r}"
    return make("no_such_tensor", 0, f"there is no tensor '{shown}'", shown)
