# SPDX-License-Identifier: Apache-2.0
"""Writer: writes a .zt file, object by object. The file appears when it is complete."""

import os
from collections.abc import Iterable
from typing import Any

from ... import _convert, _core
from ..._operation import one_step
from .. import _shared
from ._errors import FileError, as_theirs


def zstd_level(compress):
    if compress is True:
        return 3
    return max(0, int(compress or 0))


def storing(compress, checksum, type=None, attributes=None):
    if checksum not in ("none", "crc32c", "sha256"):
        raise ValueError(f"checksum must be none, crc32c or sha256, not {checksum}")
    return {
        "zstd_level": zstd_level(compress),
        "digest": None if checksum == "none" else checksum,
        "type": type,
        "attributes": dict(attributes or {}),
    }


def described(name, array):
    _shared.check_names([name])
    return [(name, *_convert.exported(array))]


class Writer:
    """Writes objects one by one. An exception in the `with` block leaves no file."""

    def __init__(self, path: _shared.Path) -> None:
        self._begin(_core.ZtWriter(os.fspath(path), {"sync": False}))

    @classmethod
    def append(cls, path: _shared.Path) -> "Writer":
        """Returns a writer that adds to a file and replaces it when the writer finishes."""
        self = cls.__new__(cls)
        self._begin(_core.ZtWriter.append(os.fspath(path), {"sync": False}))
        return self

    def _begin(self, inner):
        self._inner = inner
        self._finished = False

    def _do(self, step):
        if self._finished:
            raise FileError("the writer is finished")
        with as_theirs():
            return one_step(step).result()

    def write(
        self, name: str, data: Any, *, compress: bool | int | None = None, checksum: str = "none"
    ) -> None:
        """Adds a ztensor.Tensor with all its components."""
        if data.format == "dense":
            how = storing(compress, checksum, data.type, data.attributes)
            self._do(lambda: self._inner.add(described(name, data.numpy()), how))
            return
        _shared.check_names([name, *data.components])
        attributes = dict(data.attributes or {})
        # Checks all arguments before the object begins.
        parts = [
            (
                described(part, array),
                storing(compress, checksum, data.type if part == "values" else None),
            )
            for part, array in data.components.items()
        ]
        self._do(lambda: self._inner.declare(name, data.format, list(data.shape), attributes))
        for one, how in parts:
            self._do(lambda one=one, how=how: self._inner.add_part(name, one, how))

    def write_numpy(
        self, name: str, data: Any, *, compress: bool | int | None = None, checksum: str = "none"
    ) -> None:
        how = storing(compress, checksum)
        self._do(lambda: self._inner.add(described(name, data), how))

    def write_torch(
        self, name: str, data: Any, *, compress: bool | int | None = None, checksum: str = "none"
    ) -> None:
        self.write_numpy(name, data.detach().cpu(), compress=compress, checksum=checksum)

    def add(
        self, name: str, data: Any, compress: bool | int | None = None, checksum: str = "none"
    ) -> None:
        self.write_numpy(name, data, compress=compress, checksum=checksum)

    def finish(self) -> int:
        """Completes the file. Returns its size in bytes."""
        size, *_ = self._do(lambda: self._inner.finish())
        self._finished = True
        self._inner = None
        return size

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        if not self._finished:
            if kind is None:
                self.finish()
            else:
                self._finished = True
                self._inner = None

    def __repr__(self) -> str:
        return f"<ztensor.Writer ({'finished' if self._finished else 'open'})>"


def save_to(inner, tensors, metadata, compression):
    """Adds all tensors and the metadata to a writer of the library, and finishes it."""
    how = storing(compression, "none")
    _shared.check_names(tensors)
    if not all(isinstance(key, str) for key in metadata or {}):
        raise TypeError("the keys of metadata must be str")
    with as_theirs():
        for key, value in (metadata or {}).items():
            one_step(lambda key=key, value=value: inner.set_attribute(key, value)).result()
        for name, tensor in tensors.items():
            one = described(name, tensor)
            one_step(lambda one=one: inner.add(one, how)).result()
        return one_step(inner.finish).result()


def remove_tensors(input: _shared.Path, output: _shared.Path, names: str | Iterable[str]) -> None:
    """Writes the stored bytes of all objects of `input`, except `names`, to `output`."""
    from ._reader import Reader

    names = [names] if isinstance(names, str) else list(names)
    reader = Reader(input)
    for name in names:
        reader.metadata(name)
    inner = _core.ZtWriter(os.fspath(output), {"sync": False})
    with as_theirs():
        one_step(lambda: inner.copy(os.fspath(input), names)).result()
        one_step(inner.finish).result()


def replace_tensor(path: _shared.Path, name: str, data: Any) -> None:
    """Replaces the elements of a dense, uncompressed tensor by others of its type and shape."""
    inner = _core.ZtWriter.append(os.fspath(path), {"sync": False})
    with as_theirs():
        one_step(lambda: inner.replace(described(name, data))).result()
        one_step(inner.finish).result()
