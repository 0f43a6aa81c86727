# SPDX-License-Identifier: Apache-2.0
"""Converts names and sizes of Python programs to the library's form."""

import operator
import os

from ._errors import usage

_types = {
    "float64": "f64", "double": "f64", "float32": "f32", "float": "f32", "float16": "f16",
    "half": "f16", "bfloat16": "bf16", "int64": "i64", "long": "i64", "int32": "i32", "int": "i32",
    "int16": "i16", "short": "i16", "int8": "i8", "uint64": "u64", "uint32": "u32",
    "uint16": "u16", "uint8": "u8", "bool_": "bool", "complex64": "c64", "complex128": "c128",
    "float8_e4m3fn": "f8_e4m3", "float8_e5m2": "f8_e5m2", "float8_e4m3fnuz": "f8_e4m3fnuz",
    "float8_e5m2fnuz": "f8_e5m2fnuz", "float8_e8m0fnu": "f8_e8m0",
}  # fmt: skip

_builtins = {bool: "bool", int: "i64", float: "f64", complex: "c128"}  # As in NumPy.

_units = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}  # fmt: skip


def dtype_name(of):
    """Returns the library's name of "bf16", "bfloat16", torch.bfloat16 or numpy.float32."""
    if of is None:
        return None
    if isinstance(of, type) and of in _builtins:
        return _builtins[of]
    text = of if isinstance(of, str) else getattr(of, "__name__", None) or str(of)
    text = text.rpartition(".")[2].lower()
    return _types.get(text, text)


def size(of, option):
    """Returns the bytes of a number or of a text such as "2GiB". Errors name `option`."""
    if isinstance(of, str):
        of = _size_of_text(of, option)
    if of is None:
        return of
    try:
        of = operator.index(of if not isinstance(of, bool) else None)
    except TypeError:
        kind = type(of).__name__
        raise TypeError(f"{option} must be an int or a str such as '2GiB', not {kind}") from None
    if not 0 <= of < 2**64:
        raise usage(f"{option}: {of} is not a size: expected 0 to 2**64 - 1")
    return of


def _size_of_text(of, option):
    text = of.strip().replace(" ", "")
    digits = text.rstrip("BbKkMmGgTtIi")
    unit = text[len(digits) :].upper()
    try:
        return int(float(digits) * _units[unit])
    except (KeyError, ValueError, OverflowError):
        raise usage(f"{option}: '{of}' is not a size: write 2GiB, or a number of bytes") from None


def shown(value):
    """Returns the name of the type and the value, such as "int 3", for messages."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"


def is_utf8(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_optional_bool(value):
    return value is None or isinstance(value, bool)


def optional_bool(value, option):
    """Returns True, False or None. Raises TypeError for another value, such as "false"."""
    if not is_optional_bool(value):
        raise TypeError(f"{option} must be True, False or None, not {shown(value)}")
    return value


def device_name(of):
    """Returns the name of a device: of "cuda:0", 0 or torch.device("cuda", 0)."""
    if of is None:
        return "cpu"
    if isinstance(of, int):
        return f"cuda:{of}"
    return str(of)


def path_text(of):
    """Returns the name of a source as text. The library's strings are UTF-8."""
    return os.fsdecode(of)
