# SPDX-License-Identifier: Apache-2.0
"""Reader: the tensors of one file, of any supported format, by name."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ... import _convert, _core
from ..._errors import Error
from ..._names import dtype_name
from .. import _shared
from . import _read_into
from ._errors import FileError, MissingTensorError, as_theirs

_long_names = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64",
    "i32": "int32", "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32",
    "u16": "uint16", "u8": "uint8", "bool": "bool", "c64": "complex64", "c128": "complex128",
    "f8_e4m3": "float8_e4m3fn", "f8_e5m2": "float8_e5m2", "f8_e4m3fnuz": "float8_e4m3fnuz",
    "f8_e5m2fnuz": "float8_e5m2fnuz", "f8_e8m0": "float8_e8m0fnu",
}  # fmt: skip
_formats = {"pytorch": "pickle", "npy": "npz"}
_digests = "if_present"  # Digests of all read tensors are compared, but not of views.


class TensorMetadata:
    """The description of an object in a file."""

    __slots__ = ("name", "dtype", "type", "shape", "format", "components", "attributes")

    def __init__(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int],
        format: str,
        *,
        type: str | None = None,
        components: dict[str, Any] | None = None,
        attributes: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.type = type
        self.shape = shape
        self.format = format
        self.components = components
        self.attributes = attributes

    def __repr__(self) -> str:
        meant = "" if self.type is None else f" type='{self.type}'"
        return (
            f"<TensorMetadata name='{self.name}' shape={list(self.shape)} "
            f"dtype='{self.dtype}'{meant}>"
        )


def primary(format, components):
    """Returns the name of the component whose type is the type of the object."""
    named = {"dense": "data", "sparse_csr": "values", "sparse_coo": "values"}.get(format)
    return named or next(iter(components), None)


class Tensor:
    """An object: a dense tensor, or the components of another object, as arrays."""

    __slots__ = ("shape", "dtype", "type", "format", "components", "attributes")

    def __init__(
        self,
        components: Mapping[str, Any],
        *,
        shape: Sequence[int] | None = None,
        dtype: str | None = None,
        format: str = "dense",
        type: str | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(components, dict):
            raise TypeError("components must be a dict")
        named = primary(format, components)
        if shape is None and (format != "dense" or named not in components):
            raise ValueError("only a dense tensor's shape can be taken from its component 'data'")
        if dtype is None and named not in components:
            raise ValueError(
                f"the type cannot be taken from the component '{named}': it is missing"
            )
        self.components = dict(components)
        self.shape = list(components[named].shape if shape is None else shape)
        self.dtype = str(components[named].dtype if dtype is None else dtype)
        self.type = type
        self.format = format
        self.attributes = None if attributes is None else dict(attributes)

    def _dense(self):
        if self.format != "dense" or "data" not in self.components:
            raise RuntimeError(f"only dense tensors are arrays, but this object is '{self.format}'")
        return self.components["data"]

    def numpy(self) -> Any:
        return self._dense()

    def torch(self, *, device: Any = "cpu") -> Any:
        import torch

        array = self._dense()
        name = dtype_name(array.dtype.name)
        if _convert.is_of_ml_dtypes(name):
            integers = array.view("uint8" if array.itemsize == 1 else "int16")
            tensor = torch.from_numpy(integers).view(_convert.torch_dtype(name))
        else:
            tensor = torch.from_numpy(array)
        return tensor if device == "cpu" else tensor.to(device)

    def __repr__(self) -> str:
        return f"<ztensor.Tensor shape={self.shape} dtype='{self.dtype}' format='{self.format}'>"


class Reader:
    """An open file. Tensors that it returns may outlive it."""

    def __init__(self, path: _shared.Path) -> None:
        path = os.fspath(path)
        hdf5 = path.endswith((".h5", ".hdf5"))
        if hdf5 and not _core.has_hdf5:
            raise FileError(f"{path}: this ringload was built without libhdf5")
        self._loader = _shared.loader("cpu", hdf5)
        with as_theirs():
            self._checkpoint = self._loader.open(path).result()
        self._composites = {one["name"]: one for one in self._checkpoint.composites}
        self._parts = {at for one in self._composites.values() for at in _stored_names(one).values()}
        self._mapped = None

    # --- Names and descriptions

    def keys(self) -> list[str]:
        names = [name for name in self._checkpoint.keys() if name not in self._parts]
        return sorted([*names, *self._composites], key=lambda name: name.encode())

    @property
    def format(self) -> str:
        format = self._checkpoint.files[0][2] if self._checkpoint.files else "unknown"
        return _formats.get(format, format)

    def __len__(self) -> int:
        return len(self._checkpoint) - len(self._parts) + len(self._composites)

    def __contains__(self, name: object) -> bool:
        dense = name in self._checkpoint and name not in self._parts
        return dense or name in self._composites

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def metadata(self, name: str | list[str]) -> Any:
        if isinstance(name, list):
            return [self._metadata(one) for one in name]
        if not isinstance(name, str):
            raise TypeError("name must be str or list[str]")
        return self._metadata(name)

    def _metadata(self, name):
        if name not in self:
            raise MissingTensorError(f"there is no tensor '{name}'")
        composite = self._composites.get(name)
        if composite is None:
            info = self._checkpoint[name].info
            parts = {"data": _component(info)}
            shape, format, attributes = info.shape, "dense", info.attributes
            # NumPy has no type for blocks, so they are bytes.
            if "gguf_type" in attributes or "logical_type" in attributes:
                parts["data"]["type"] = None
            elif self.format == "gguf" and info.type:
                parts["data"]["type"] = None
                attributes = {"gguf_type": info.type, "original_shape": list(info.original_shape)}
        else:
            stored = _stored_names(composite)
            infos = {part: self._checkpoint[at].info for part, at in stored.items()}
            parts = {part: _component(info) for part, info in sorted(infos.items())}
            shape, format = composite["shape"], composite["layout"]
            attributes = composite["attributes"]
        main = parts.get(primary(format, parts), {})
        return TensorMetadata(
            name,
            main.get("dtype", "unknown"),
            list(shape),
            format,
            type=main.get("type"),
            components=parts,
            attributes=attributes or None,
        )

    # --- Reading

    def _stored(self, names, copy):
        """Returns {name: Tensor}: copy-on-write views of the file, or separate memory."""
        for name in names:
            if name not in self._checkpoint:
                raise MissingTensorError(f"there is no tensor '{name}'")
        found = {}
        if not copy:
            found = {name: self._map()[name] for name in names if name in self._map()}
        left = [name for name in names if name not in found]
        if left:
            wanted = _core.Selection().names(left)
            with as_theirs():
                found.update(self._checkpoint.load(wanted, verify=_digests).result().items())
        order = {name: self._checkpoint[name].info.offset for name in names}
        return {name: found[name] for name in sorted(order, key=order.get)}

    def _map(self):
        if self._mapped is None:
            raw = [info.name for info in self._checkpoint.infos() if not info.encoding]
            wanted = _core.Selection().names(raw)
            options = {"memory": "mapped", "access": "copy_on_write"}
            try:
                self._mapped = self._checkpoint.load(wanted, **options).result() if raw else {}
            except Error:  # If one tensor is not aligned, all are read.
                self._mapped = {}
        return self._mapped

    def _dense(self, name, copy, given):
        many = isinstance(name, list)
        if not many and not isinstance(name, str):
            raise TypeError("name must be str or list[str]")
        names = name if many else [name]
        for each in names:
            self._dense_info(each)
        found = {one: given(tensor) for one, tensor in self._stored(names, copy).items()}
        return found if many else found[name]

    def read_numpy(self, name: str | list[str], *, copy: bool = False) -> Any:
        return self._dense(name, copy, _convert.numpy_of)

    def read_torch(self, name: str | list[str], *, copy: bool = False, device: Any = "cpu") -> Any:
        def given(tensor):
            made = _convert.torch_of(tensor)
            return made if device == "cpu" else made.to(device)

        return self._dense(name, copy, given)

    def read_tensors(self, names: Sequence[str], *, copy: bool = False) -> dict[str, Any]:
        return self.read_numpy(list(names), copy=copy)

    def __getitem__(self, name: str) -> Any:
        return self.read_numpy(name)

    def read(self, name: str | list[str], *, copy: bool = False) -> Any:
        """Returns tensors with all their components."""
        many = isinstance(name, list)
        if not many and not isinstance(name, str):
            raise TypeError("name must be str or list[str]")
        found = {one: self._object(one, copy) for one in (name if many else [name])}
        return found if many else found[name]

    def _object(self, name, copy):
        meta = self._metadata(name)
        composite = self._composites.get(name)
        stored = {"data": name}
        if composite is not None:
            stored = _stored_names(composite)
        read = self._stored(list(stored.values()), copy)
        return Tensor(
            {part: _convert.numpy_of(read[at]) for part, at in stored.items()},
            shape=meta.shape,
            dtype=meta.dtype,
            format=meta.format,
            type=meta.type,
            attributes=meta.attributes,
        )

    def read_into(self, name: str | dict[str, Any], dst: Any = None) -> None:
        """Fills one array or tensor, or the arrays and tensors of a dictionary."""
        if isinstance(name, dict):
            into = name
        elif dst is None:
            raise TypeError("dst is required when name is a str")
        else:
            into = {name: dst}
        filled, copied = {}, {}
        for each, destination in into.items():
            info = self._dense_info(each)
            to_copy = _read_into.needs_copy(each, info, destination)
            (copied if to_copy else filled)[each] = destination
        if filled:
            with as_theirs():
                self._loader.fill(
                    self._checkpoint, filled, dtype="convert", shape="broadcast", verify=_digests
                ).result()
        for each, destination in copied.items():
            _read_into.copied(self, each, destination)

    def _dense_info(self, name):
        if name in self._composites:
            raise TypeError(f"'{name}' is {self._composites[name]['layout']}, not dense: read()")
        if name not in self._checkpoint:
            raise MissingTensorError(f"there is no tensor '{name}'")
        return self._checkpoint[name].info

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *failure: object) -> None:
        pass

    def __repr__(self) -> str:
        return f"<ztensor.Reader [{self.format}, {len(self)} tensor(s)]>"


def _stored_names(composite):
    """Returns, for each component, its name in the checkpoint."""
    before = composite["name"] + composite["separator"]
    return {part: before + part for part in composite["parts"]}


def _component(info):
    return {
        "dtype": _long_names.get(info.dtype, info.dtype),
        "type": info.type or None,
        "offset": info.offset,
        "length": info.stored_bytes,
        "encoding": info.encoding or "raw",
    }
