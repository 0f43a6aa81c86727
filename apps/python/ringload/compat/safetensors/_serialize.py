# SPDX-License-Identifier: Apache-2.0
"""serialize, serialize_file and deserialize: tensors by address, files as bytes."""

import contextlib
import ctypes
import json
import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ... import _core
from ..._errors import make
from ..._names import dtype_name
from ..._operation import one_step
from .. import _shared
from ._errors import SafetensorError, as_theirs

_bits = {
    "bool": 8, "u8": 8, "i8": 8, "f8_e4m3": 8, "f8_e5m2": 8, "f8_e4m3fnuz": 8, "f8_e5m2fnuz": 8,
    "f8_e8m0": 8, "i16": 16, "u16": 16, "f16": 16, "bf16": 16, "i32": 32, "u32": 32, "f32": 32,
    "i64": 64, "u64": 64, "f64": 64, "c64": 64, "f4": 4, "f6_e2m3": 6, "f6_e3m2": 6,
}  # fmt: skip
# The order of types in a file is that of the reference: ascending alignment.
_order = (
    "bool f4 f6_e2m3 f6_e3m2 u8 i8 f8_e5m2 f8_e4m3 f8_e8m0 f8_e4m3fnuz f8_e5m2fnuz i16 u16 f16 "
    "bf16 i32 u32 f32 c64 f64 i64 u64"
).split()


def _unsigned(value, name):
    """Returns the value as an int. Raises OverflowError unless it is in 0 to 2**64 - 1."""
    value = operator.index(value)
    if not 0 <= value < 2**64:
        raise OverflowError(f"{name}: {value}: expected 0 to 2**64 - 1")
    return value


class TensorSpec:
    """A tensor in memory. The creator keeps the memory until the tensor is serialized."""

    __slots__ = ("_name", "_shape", "_address", "_bytes")

    def __init__(self, *, dtype: str, shape: Sequence[int], data_ptr: int, data_len: int) -> None:
        shape = [_unsigned(size, "a size of the shape") for size in shape]
        if dtype == "float4_e2m1fn_x2":
            self._name = "f4"
            shape = [*shape[:-1], shape[-1] * 2] if shape else shape
        else:
            self._name = dtype_name(dtype)
        if self._name not in _bits:
            raise SafetensorError(f"dtype {dtype} is not covered")
        self._shape = shape
        self._address = _unsigned(data_ptr, "data_ptr")
        self._bytes = _unsigned(data_len, "data_len")

    @property
    def dtype(self) -> str:
        return self._name.upper()

    @property
    def shape(self) -> list[int]:
        return self._shape

    @property
    def data_ptr(self) -> int:
        return self._address

    @property
    def data_len(self) -> int:
        return self._bytes

    def _checked(self, name):
        elements = 1
        for size in self._shape:
            elements *= size
        if elements * _bits[self._name] != self._bytes * 8:
            raise SafetensorError(
                f"tensor {name}: {self._bytes} bytes are not those of {self.dtype} {self._shape}"
            )
        if self._bytes and not self._address:
            raise SafetensorError(
                f"tensor {name}: {self._bytes} bytes without memory (data_ptr is 0): {self.dtype} "
                f"{self._shape}"
            )
        return self


def _specs(tensors, metadata):
    _shared.check_names(tensors)
    _shared.check_texts(metadata)
    for name, spec in tensors.items():
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"tensor {name}: expected a TensorSpec, not {type(spec).__name__}")
        spec._checked(name)
    return tensors


def serialize(
    tensor_dict: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None = None
) -> bytes:
    """Returns the bytes of a file with these tensors."""
    tensors = _specs(tensor_dict, metadata)
    order = sorted(tensors, key=lambda name: (-_order.index(tensors[name]._name), name))
    header = {} if metadata is None else {"__metadata__": metadata}
    end = 0
    for name in order:
        spec = tensors[name]
        begin, end = end, end + spec.data_len
        header[name] = {"dtype": spec.dtype, "shape": spec.shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    parts = [len(text).to_bytes(8, "little"), text]
    for name in order:
        spec = tensors[name]
        if spec.data_len:
            parts.append((ctypes.c_char * spec.data_len).from_address(spec.data_ptr))
    return b"".join(parts)


def serialize_file(
    tensor_dict: Mapping[str, TensorSpec],
    filename: _shared.Path,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes a file with these tensors, and bypasses the page cache if the drive allows it."""
    views = []
    for name, spec in _specs(tensor_dict, metadata).items():
        words = (spec.data_ptr, spec._name, spec.shape, [], False, None)
        views.append((name, words if spec.data_len else _empty(spec), None))
    options = {"format": "safetensors", "sync": False}
    if metadata is not None:
        options["metadata"] = metadata
    engine = _shared.loader()._engine
    path = os.fsdecode(filename)
    with as_theirs(path), _named(path) as target:
        one_step(lambda: engine.save(target, views, options)).result()


def _empty(spec):
    place = ctypes.create_string_buffer(8)
    return (ctypes.addressof(place), spec._name, spec.shape, [], False, place)


@contextlib.contextmanager
def _named(path):
    """Returns a name that ends with .safetensors, because other names mean folders."""
    if path.endswith(".safetensors"):
        yield path
        return
    if os.path.exists(path) and not os.path.isfile(path):
        text = f"{path}: not a regular file, and a device or a folder cannot be replaced"
        raise make("not_a_regular_file", 0, text, path)
    target = f"{path}.{os.getpid()}.{id(path):x}.safetensors"
    yield target
    os.replace(target, path)


@contextlib.contextmanager
def memory_file(data):
    """Yields the path of a file in memory with these bytes."""
    opened = os.memfd_create("safetensors")
    try:
        view = memoryview(data).cast("B")
        while view:
            view = view[os.write(opened, view) :]
        yield f"/proc/self/fd/{opened}"
    finally:
        os.close(opened)


def loaded(data):
    """Returns the Model of a file's bytes."""
    with as_theirs(), memory_file(data) as path:
        return _shared.loader().load(path, strictness="reference").result()


def deserialize(
    bytes: Any,
) -> list[tuple[str, dict[str, Any]]]:  # The name of the parameter that it replaces.
    """Returns [(name, {"shape", "dtype", "data"})]."""
    model: _core.Model = loaded(bytes)
    return [
        (
            tensor.name,
            {
                "shape": list(tensor.shape),
                "dtype": tensor.dtype.upper(),
                "data": bytearray(tensor.byte_view()),
            },
        )
        for tensor in model.values()
    ]
