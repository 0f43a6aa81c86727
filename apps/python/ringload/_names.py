# SPDX-License-Identifier: Apache-2.0
"""Names and sizes as Python programs write them, in the library's words."""

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

_units = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}  # fmt: skip


def dtype_name(of):
    """The library's name for a type: of "bf16", "bfloat16", torch.bfloat16 or numpy.float32."""
    if of is None:
        return None
    text = of if isinstance(of, str) else getattr(of, "__name__", None) or str(of)
    text = text.rpartition(".")[2].lower()
    return _types.get(text, text)


def size(of):
    """Bytes: a number, or a text such as "2GiB"."""
    if of is None or isinstance(of, int):
        return of
    if not isinstance(of, str):
        raise TypeError(f"a size must be an int or a str such as '2GiB', not {type(of).__name__}")
    text = of.strip().replace(" ", "")
    digits = text.rstrip("BbKkMmGgTtIi")
    unit = text[len(digits) :].upper()
    try:
        return int(float(digits) * _units[unit])
    except (KeyError, ValueError):
        raise usage(f"'{of}' is no size: write 2GiB, or a number of bytes") from None


def device_name(of):
    """The name of a device: of "cuda:0", 0 or torch.device("cuda", 0)."""
    if of is None:
        return "cpu"
    if isinstance(of, int):
        return f"cuda:{of}"
    return str(of)


def path_text(of):
    """The name of a source. The library's strings are UTF-8."""
    return os.fsdecode(of)
