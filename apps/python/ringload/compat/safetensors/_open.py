# SPDX-License-Identifier: Apache-2.0
"""safe_open: one file, whose tensors are read on request."""

import numbers
import operator
import os
from collections.abc import Iterator, Mapping
from typing import Any

from ... import _convert, _core
from ..._checkpoint import ranges
from ..._errors import Error
from .. import _shared
from ._errors import SafetensorError, as_theirs, check_packed

_frameworks = {
    "pt": "pt", "torch": "pt", "pytorch": "pt", "np": "np", "numpy": "np", "jax": "jax",
    "flax": "jax", "tf": "tf", "tensorflow": "tf", "mlx": "mlx", "paddle": "paddle",
}  # fmt: skip
_narrow_types = ("f4", "f6_e2m3", "f6_e3m2")  # Narrower than a byte.


class TensorMeta:
    """The entry of a tensor in the header."""

    __slots__ = ("dtype", "shape", "data_offsets")

    def __init__(self, dtype: str, shape: list[int], data_offsets: tuple[int, int]) -> None:
        self.dtype = dtype
        self.shape = shape
        self.data_offsets = data_offsets

    def __repr__(self) -> str:
        return f"TensorMeta({self.dtype!r}, {self.shape}, {self.data_offsets})"


def given_as(tensor, framework, device):
    """Returns a Tensor as a tensor of the framework."""
    check_packed([tensor])
    if framework == "pt":
        made = _convert.torch_of(tensor)
        return made if tensor.device == device else made.to(device)
    if framework == "np":
        return _convert.numpy_of(tensor)
    if framework == "jax":
        return _convert.jax_of(tensor)
    array = _convert.numpy_of(tensor)
    if framework == "tf":
        import tensorflow

        return tensorflow.convert_to_tensor(array)
    if framework == "mlx":
        import mlx.core

        return mlx.core.array(array)
    import paddle

    return paddle.to_tensor(array)


class safe_open:  # The name that it replaces.
    """Opens a file and reads its header. Tensors are read or mapped on request.

    backend: "mmap" or "pread". With "mmap" and PyTorch, get_tensor returns views of the file in
    host memory, copied on write, and get_slice indexes as PyTorch does. Otherwise get_tensor reads
    into separate memory, and get_slice takes integers, slices with a positive step and Ellipsis.
    """

    def __init__(
        self,
        filename: _shared.Path,
        framework: str,
        device: Any = "cpu",
        *,
        backend: str = "mmap",
    ) -> None:
        if framework not in _frameworks:
            raise SafetensorError(f"framework {framework} is invalid")
        if backend not in ("mmap", "pread"):
            raise SafetensorError(f"backend {backend} is invalid")
        self._framework = _frameworks[framework]
        self._device = _shared.device_text(device)
        on = self._device if _shared.has_direct(self._device) else "cpu"
        self._indexes_as_torch = backend == "mmap" and self._framework == "pt"
        self._maps = self._indexes_as_torch and on == "cpu"
        self._mapped = None
        self._refused = None  # The error for a missing device. Only a read raises it.
        name = os.fspath(filename)
        with as_theirs(name):
            try:
                loader = _shared.loader(on)
            except ValueError as refused:
                self._refused = refused
                loader = _shared.loader("cpu")
            self._checkpoint = loader.open(name, strictness="reference").result()
        self._loader = loader
        self._begins = None

    def _open(self):
        if self._checkpoint is None:
            raise SafetensorError("File is closed")
        return self._checkpoint

    def _readable(self):
        checkpoint = self._open()
        if self._refused is not None:
            raise SafetensorError(str(self._refused))
        return checkpoint

    def _info(self, name):
        checkpoint = self._open()
        if name not in checkpoint:
            raise SafetensorError(f"File does not contain tensor {name}")
        return checkpoint[name].info

    def keys(self) -> list[str]:
        return sorted(self._open().keys())

    def offset_keys(self) -> list[str]:
        return list(self._open().keys())

    def metadata(self) -> dict[str, str] | None:
        return self._open().metadata or None

    def get_tensor(self, name: str) -> Any:
        info = self._info(name)
        self._readable()
        tensor = self._map().get(name) if self._maps else None
        if tensor is None:
            with as_theirs():
                tensor = self._checkpoint[info.name].load().result()
        return given_as(tensor, self._framework, self._device)

    def _map(self):
        """Returns views of all tensors. No byte is read before its first use."""
        if self._mapped is None:
            try:
                self._mapped = self._checkpoint.load(
                    memory="mapped", access="copy_on_write"
                ).result()
            except Error:  # If one tensor is not aligned, all are read.
                self._mapped = {}
                self._maps = False
        return self._mapped

    def get_tensors(self) -> dict[str, Any]:
        with as_theirs():
            model = self._readable().load(strictness="reference").result()
        return {
            tensor.name: given_as(tensor, self._framework, self._device)
            for tensor in model.values()
        }

    def get_slice(self, name: str) -> "PySafeSlice":
        return PySafeSlice(self, self._info(name))

    def get_tensor_meta(self, name: str) -> TensorMeta:
        info = self._info(name)
        if self._begins is None:
            self._begins = min(one.offset for one in self._open().infos())
        begin = info.offset - self._begins
        return TensorMeta(info.dtype.upper(), list(info.shape), (begin, begin + info.nbytes))

    def prefetch(
        self, plan: Mapping[str, Any] | None = None, *, device: Any = None, threads: int = 8
    ) -> "PrefetchLoader":
        """Begins to load all tensors, or the tensors of `plan`: {name: None, a slice or several
        slices}.

        `threads` has no effect, because the loader chooses the number of reads in flight.
        """
        checkpoint = self._open()
        wanted = None
        if plan is not None:
            if not plan:
                raise SafetensorError("prefetch plan selects no tensors")
            wanted = _core.Selection().names(list(plan))
            for name, part in plan.items():
                info = self._info(name)
                if part is not None:
                    _plan(wanted, info, part)
        chosen = self._device if device is None else _shared.device_text(device)
        if chosen == self._device:
            self._readable()
        with as_theirs():
            loader = self._loader
            if chosen != self._device:
                loader = _shared.loader(chosen if _shared.has_direct(chosen) else "cpu")
            load = loader.start(checkpoint, select=wanted).result()
        names = list(checkpoint.keys()) if plan is None else [n for n in checkpoint if n in plan]
        return PrefetchLoader(load, names, self._framework, chosen)

    def __enter__(self) -> "safe_open":
        return self

    def __exit__(self, *failure: object) -> None:
        self._checkpoint = self._mapped = None


def _plan(wanted, info, part):
    """Narrows `wanted` to a part of a tensor: a slice of rows, or one for each dimension."""
    parts = part if isinstance(part, tuple) else (part,)
    for one in parts:
        if not isinstance(one, slice) and one is not Ellipsis:
            raise SafetensorError(
                f"tensor {info.name}: a plan's values are None or a slice, not {one!r}"
            )
    if not info.shape:
        raise SafetensorError(f"tensor {info.name} is 0-d, and has no rows to slice")
    try:
        found = ranges(part, info.shape)
    except (ValueError, TypeError, IndexError) as wrong:
        reason = "slices have step 1" if "step of 1" in str(wrong) else wrong
        raise SafetensorError(f"invalid prefetch plan slice for {info.name}: {reason}") from None
    if Ellipsis not in parts:  # Python would clamp it. A plan beyond its tensor is wrong.
        for one, size in zip(parts, info.shape):
            for end in (one.start, one.stop):
                if end is not None and not -size <= end <= size:
                    raise SafetensorError(
                        f"tensor {info.name}: {end} is out of range for {size} rows"
                    )
    for dim, first, count in found:
        wanted.slice(info.name, dim, first, count)


def _safe_open_handle(file, framework, device="cpu", *, backend="mmap"):
    """Implements safe_open for an open file: by its descriptor, or else by its bytes."""
    from ._serialize import memory_file

    try:
        opened = os.dup(file.fileno())
    except (AttributeError, OSError):
        with memory_file(file.read()) as path:
            return safe_open(path, framework, device, backend=backend)
    try:
        return safe_open(f"/proc/self/fd/{opened}", framework, device, backend=backend)
    finally:
        os.close(opened)


class PySafeSlice:
    """One tensor in its file. An index reads only the bytes that it needs."""

    def __init__(self, handle, info):
        self._handle = handle
        self._info = info

    def get_shape(self) -> list[int]:
        return list(self._info.shape)

    def get_dtype(self) -> str:
        return self._info.dtype.upper()

    def __getitem__(self, index: Any) -> Any:
        handle = self._handle
        parts = list(index) if isinstance(index, tuple) else [index]
        if not handle._indexes_as_torch:
            parts = _package_parts(index, parts)
        elif _is_plain(parts):
            _check_by_torch(index, self._info.shape)
        else:
            if self._info.dtype in _narrow_types:
                raise self._refused("expected integers, slices and at most one Ellipsis")
            return handle.get_tensor(self._info.name)[index]
        parts = self._expanded(parts)
        read, rest = [], []
        for dim, part in enumerate(parts):
            read_part, rest_part = self._split(part, dim, parts)
            self._check_bytes(read_part, rest_part, dim)
            read.append(read_part)
            rest.append(rest_part)
        checkpoint = handle._readable()
        with as_theirs():
            tensor = checkpoint[self._info.name].load(tuple(read)).result()
        made = given_as(tensor, handle._framework, handle._device)
        return made[tuple(rest)] if any(part != slice(None) for part in rest) else made

    def _expanded(self, parts):
        """Returns the parts with slices in place of an Ellipsis."""
        shape = self._info.shape
        dots = [at for at, part in enumerate(parts) if part is Ellipsis]
        if len(dots) > 1:
            raise SafetensorError("an index must have at most one Ellipsis")
        if dots:
            whole = [slice(None)] * (len(shape) - len(parts) + 1)
            parts = parts[: dots[0]] + whole + parts[dots[0] + 1 :]
        if len(parts) > len(shape):
            raise SafetensorError(f"{len(parts)} indices for a tensor of {len(shape)} dimensions")
        return parts

    def _split(self, part, dim, parts):
        """Returns the range to be read, and the index that is applied to it afterwards."""
        size = self._info.shape[dim]
        if isinstance(part, slice):
            if not self._handle._indexes_as_torch:
                self._check_slice(part, dim, parts)
            first, last, step = part.indices(size)
            return slice(first, max(first, last)), slice(None, None, step if step > 1 else None)
        at = operator.index(part)
        if at < -size:
            raise SafetensorError(f"Invalid index {at} for dimension {dim} of size {size}")
        if at >= size:
            raise self._outside(parts, dim, at, size)
        at = at + size if at < 0 else at
        return slice(at, at + 1), 0

    def _check_slice(self, part, dim, parts):
        """Raises an error for a slice that the package refuses and PyTorch clamps."""
        size = self._info.shape[dim]
        first, last, step = (
            None if end is None else operator.index(end)
            for end in (part.start, part.stop, part.step)
        )
        if step is not None and step < 1:
            raise SafetensorError(f"Slice step must be a positive integer, got {step}")
        if first and first >= size:
            raise self._outside(parts, dim, first, size)
        if last is not None and last > size:
            raise self._outside(parts, dim, last - 1, size)

    def _check_bytes(self, read, rest, dim):
        """Raises SafetensorError for an index that would select a part of a byte."""
        if self._info.dtype not in _narrow_types:
            return
        packed = self._info.dtype == "f4"  # Otherwise F6, whose result is one row of bytes.
        if packed and dim < len(self._info.shape) - 1:
            return
        if rest != slice(None):
            raise self._refused("expected slices with step 1")
        if packed and (read.start % 2 or read.stop % 2):
            raise self._refused("expected a range that begins and ends at a whole byte")

    def _refused(self, expected):
        return SafetensorError(
            f"tensor {self._info.name}: {self.get_dtype()} is narrower than a byte: {expected}"
        )

    def _outside(self, parts, dim, at, size):
        words = ", ".join(_text(part) for part in parts)
        return SafetensorError(
            f"Error during slicing [{words}] with shape {self.get_shape()}: "
            f"index {at} out of bounds for tensor dimension #{dim} of size {size}"
        )


def _is_integer(part):
    return isinstance(part, numbers.Integral) and not isinstance(part, bool)


def _is_plain(parts):
    """Returns True if the parts are integers, slices and at most one Ellipsis.

    PyTorch takes a bool for a mask, and a tensor, array, list or range for a list of rows.
    """
    if sum(part is Ellipsis for part in parts) > 1:
        return False
    return all(part is Ellipsis or _is_integer(part) or _is_plain_slice(part) for part in parts)


def _is_plain_slice(part):
    if not isinstance(part, slice):
        return False
    return all(end is None or _is_integer(end) for end in (part.start, part.stop, part.step))


def _check_by_torch(index, shape):
    """Raises PyTorch's error for an index that does not fit the shape. No byte is read."""
    import torch

    torch.empty(shape, device="meta")[index]


def _package_parts(index, parts):
    """Returns slices, ints and Ellipsis. Raises SafetensorError for a part of another kind."""
    if isinstance(index, list):
        if index:
            raise SafetensorError("Non empty lists are not implemented")
        return [slice(0, 0)]
    found = []
    for at, part in enumerate(parts):
        if part is not Ellipsis and not isinstance(part, slice):
            try:
                part = operator.index(part)
            except (TypeError, ValueError):
                raise SafetensorError(
                    f"Unsupported slice index at position {at}: expected slice, int, or Ellipsis, "
                    f"got {type(part).__name__}"
                ) from None
        found.append(part)
    return found


def _text(part):
    if not isinstance(part, slice):
        return str(part)
    ends = ["" if end is None else str(end) for end in (part.start, part.stop)]
    return ":".join(ends)


class PrefetchLoader:
    """Tensors that are being loaded. Each is returned once, by take() or by iteration."""

    def __init__(self, load, names, framework, device):
        self._load = load
        self._names = names
        self._left = set(names)
        self._framework = framework
        self._device = device

    def names(self) -> list[str]:
        return list(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _running(self):
        if self._load is None:
            raise SafetensorError("the prefetch loader is closed")
        return self._load

    def take(self, name: str) -> Any:
        load = self._running()
        if name not in self._left:
            known = name in self._names
            reason = "was already delivered" if known else "is not in the prefetch plan"
            raise SafetensorError(f"tensor {name} {reason}")
        with as_theirs():
            tensor = load.tensor(name).result()
        self._left.discard(name)
        return given_as(tensor, self._framework, self._device)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        if not self._left:
            return
        while True:  # Until the end of the load, which can fail after its last tensor.
            with as_theirs():
                tensor = self._running().next().result()
            if tensor is None:
                return
            if tensor.name in self._left:
                self._left.discard(tensor.name)
                yield tensor.name, given_as(tensor, self._framework, self._device)

    def close(self) -> None:
        if self._load is not None:
            self._load.cancel()
        self._load = None

    def __enter__(self) -> "PrefetchLoader":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()
