# SPDX-License-Identifier: Apache-2.0
"""safe_open: one file, whose tensors are read on request."""

import operator
import os
from collections.abc import Iterator, Mapping
from typing import Any

from ... import _convert, _core
from ..._checkpoint import ranges
from ..._errors import Error
from .. import _shared
from ._errors import SafetensorError, as_theirs

_frameworks = {
    "pt": "pt", "torch": "pt", "pytorch": "pt", "np": "np", "numpy": "np", "jax": "jax",
    "flax": "jax", "tf": "tf", "tensorflow": "tf", "mlx": "mlx", "paddle": "paddle",
}  # fmt: skip


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

    backend: "mmap" (get_tensor returns views of the file in host memory, copied on write) or
    "pread" (get_tensor reads into separate memory).
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
        self._maps = backend == "mmap" and on == "cpu"
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
        index = _plain(index)
        if isinstance(index, (slice, int, list)) or index is Ellipsis:
            parts = [index]
        else:
            parts = [_plain(part) for part in index]
        shape = self._info.shape
        if Ellipsis in parts:
            at = parts.index(Ellipsis)
            parts[at : at + 1] = [slice(None)] * (len(shape) - len(parts) + 1)
        if len(parts) > len(shape):
            raise SafetensorError(f"{len(parts)} indices for a tensor of {len(shape)} dimensions")
        read, rest = [], []
        for dim, part in enumerate(parts):
            read_part, rest_part = self._split(part, dim, parts)
            read.append(read_part)
            rest.append(rest_part)
        handle = self._handle
        checkpoint = handle._readable()
        with as_theirs():
            tensor = checkpoint[self._info.name].load(tuple(read)).result()
        made = given_as(tensor, handle._framework, handle._device)
        return made[tuple(rest)] if any(part != slice(None) for part in rest) else made

    def _split(self, part, dim, parts):
        """Returns the range to be read, and the index that is applied to it afterwards."""
        size = self._info.shape[dim]
        if isinstance(part, list):
            if part:
                raise SafetensorError("Non empty lists are not implemented")
            return slice(0, 0), slice(None)
        if isinstance(part, slice):
            stop = part.stop
            if stop is not None and stop > size:
                raise self._outside(parts, dim, stop - 1, size)
            first, last, step = part.indices(size)
            if step < 1:
                raise SafetensorError("a step must be at least 1")
            return slice(first, max(first, last)), slice(None, None, step if step > 1 else None)
        if not hasattr(part, "__index__"):
            raise SafetensorError(f"{part!r} is no index")
        at = part.__index__()
        if at < -size:
            raise SafetensorError(f"Invalid index {at} for dimension {dim} of size {size}")
        if at >= size:
            raise self._outside(parts, dim, at, size)
        at = at + size if at < 0 else at
        return slice(at, at + 1), 0

    def _outside(self, parts, dim, at, size):
        words = ", ".join(_text(part) for part in parts)
        return SafetensorError(
            f"Error during slicing [{words}] with shape {self.get_shape()}: "
            f"index {at} out of bounds for tensor dimension #{dim} of size {size}"
        )


def _plain(part):
    """Returns an integer of any library as an int, and any other value as it is."""
    try:
        return operator.index(part)
    except (TypeError, ValueError):
        return part


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
