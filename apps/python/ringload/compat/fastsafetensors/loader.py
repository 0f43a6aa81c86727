# SPDX-License-Identifier: Apache-2.0
"""Loads files into the memory of a device: SafeTensorsFileLoader and fastsafe_open."""

import collections
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ... import _core
from ..._convert import torch_dtype, torch_of
from ..._names import dtype_name
from .. import _shared
from .common import SingleGroup, TensorFrame, owner
from .dtypes import element_bits

_convertible = ("f32", "f16", "bf16")
_has_warned_of_gds = False


def check_framework(framework):
    if framework not in ("pytorch", "pt", "torch"):
        raise ValueError(f"Unknown framework name: {framework}; this package is for pytorch")


def warn_of_gds(nogds, use_fgds=False):
    """Warns once that GPUDirect Storage, the default of the package, is not used."""
    global _has_warned_of_gds
    if (nogds and not use_fgds) or _has_warned_of_gds:
        return
    _has_warned_of_gds = True
    warnings.warn(
        "ringload does not use GPUDirect Storage: it reads into pinned memory, as with nogds=True. "
        "Pass nogds=True to avoid this warning",
        UserWarning,
        stacklevel=3,
    )


def check_types(path, infos, keeps=None):
    """Raises ValueError for a type or a shape that the package refuses.

    keeps: a predicate of names. The shapes of other tensors are not checked.
    """
    for info in infos:
        name = info.dtype.upper()
        if name not in element_bits:
            raise ValueError(f"{path}: tensor '{info.name}': '{name}' is not a valid DType")
        is_odd = name == "F4" and (not info.shape or info.shape[-1] % 2)
        if is_odd and (keeps is None or keeps(info.name)):
            raise ValueError(
                f"{path}: tensor '{info.name}': F4 of the shape {list(info.shape)}, expected an "
                "even last dimension, because PyTorch packs two values into an element"
            )


class TensorBase:
    """A wrapper of a tensor that is independent of the framework."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def get_raw(self) -> Any:
        return self._raw

    @property
    def real_tensor(self) -> Any:
        """The tensor, under the name that the package's wrapper of a PyTorch tensor has."""
        return self._raw

    def __getattr__(self, name: str) -> Any:
        if name == "_raw":  # Copying and unpickling create an object without it.
            raise AttributeError(name)
        return getattr(self._raw, name)

    def __getitem__(self, index: Any) -> "TensorBase":
        return TensorBase(self._raw[index])

    def clone(self) -> "TensorBase":
        return TensorBase(self._raw.clone())

    def detach(self) -> "TensorBase":
        return TensorBase(self._raw.detach())

    def to(self, device: Any = None, dtype: Any = None) -> "TensorBase":
        return TensorBase(_converted(self._raw, device, dtype))


def _type_of(dtype):
    """Returns the library's name of a type, or None for AUTO."""
    text = getattr(dtype, "value", dtype)
    if text is None or str(text).lower() == "auto":
        return None
    return dtype_name(text)


def _converted(tensor, device, dtype):
    name = _type_of(dtype)
    if name is not None:
        tensor = tensor.to(torch_dtype(name))
    if device is not None:
        tensor = tensor.to(device if isinstance(device, str) else device.as_str())
    return tensor


_File = collections.namedtuple("_File", "path rank checkpoint")


class SafeTensorsFileLoader:
    """Loads files, each for one rank, into the memory of one device."""

    def __init__(
        self,
        pg: Any,
        device: Any = "cpu",
        bbuf_size_kb: int = 16384,
        max_threads: int = 16,
        nogds: bool = False,
        set_numa: bool = True,
        disable_cache: bool = True,
        debug_log: bool = False,
        framework: str = "pytorch",
        use_fgds: bool = False,
        **kwargs: Any,
    ) -> None:
        check_framework(framework)
        warn_of_gds(nogds, use_fgds)
        self.pg = pg if pg is not None else SingleGroup()
        self.device = _shared.device_text(device)
        on = self.device if _shared.has_direct(self.device) else "cpu"
        self._loader = _shared.loader(on, owner=owner)
        self._filter = None
        self.reset()

    @classmethod
    def process_extension_config(
        cls, ext_config: Mapping[str, Any], **kwargs: Any
    ) -> dict[str, Any]:
        """Converts a section of AutoLoader's file to arguments of the constructor."""
        found = dict(ext_config)
        copier = found.pop("copier_type", "gds")
        found["nogds"] = copier not in ("gds", "fgds")
        if copier == "fgds":
            found["use_fgds"] = True
        found.setdefault("use_fgds", False)
        return found

    def reset(self) -> None:
        self.meta = {}
        self._files = []
        self._infos = {}

    def close(self) -> None:
        self.reset()

    def set_tensor_filter(self, keep_tensor: Callable[[str], bool] | None) -> None:
        """Restricts the loader to the tensors whose names `keep_tensor` accepts."""
        self._filter = keep_tensor

    def _keeps(self, name):
        return self._filter is None or self._filter(name)

    def add_filenames(self, filenames: Mapping[int, Sequence[str]]) -> None:
        """Adds files: {rank: [files]}."""
        lists = [(rank, list(files)) for rank, files in filenames.items()]
        turns = max((len(files) for _, files in lists), default=0)
        opening = [
            (files[turn], rank, self._loader.open(files[turn], strictness="reference"))
            for turn in range(turns)
            for rank, files in lists
            if turn < len(files)
        ]
        for path, rank, operation in opening:
            checkpoint = operation.result()
            check_types(path, checkpoint.infos(), lambda name: False)
            self._files.append(_File(path, rank, checkpoint))
            self.meta[path] = (checkpoint, rank)
            self._infos.update((info.name, info) for info in checkpoint.infos())

    def get_keys(self) -> list[str]:
        return [name for name in self._infos if self._keeps(name)]

    @property
    def frames(self) -> dict[str, TensorFrame]:
        """The frames of all tensors: {name: TensorFrame}."""
        found = {}
        for file in self._files:
            infos = file.checkpoint.infos()
            begin = min((info.offset for info in infos), default=0)
            for info in infos:
                first = info.offset - begin
                entry = {
                    "dtype": info.dtype.upper(),
                    "shape": list(info.shape),
                    "data_offsets": [first, first + info.nbytes],
                }
                found[info.name] = TensorFrame.from_buffer(entry)
        return found

    def get_shape(self, tensor_name: str) -> list[int]:
        if not self._keeps(tensor_name):
            raise ValueError(f"get_shape: key {tensor_name} is filtered out")
        return list(self._infos[tensor_name].shape)

    def copy_files_to_device(
        self,
        dtype: Any = None,
        use_buf_register: bool = True,
        max_copy_block_size: int = 16 << 30,
        allow_inflight: bool = False,
        borrowed_tensors: bool = False,
    ) -> "FilesBufferOnDevice":
        """Loads the files of this rank. The tensors own their memory and outlive close()."""
        return FilesBufferOnDevice(self, _type_of(dtype))


class FilesBufferOnDevice:
    """The loaded tensors, and the tensors of other ranks, whose files are read on request."""

    def __init__(self, loader: SafeTensorsFileLoader, dtype: str | None) -> None:
        self.pg = loader.pg
        self.device = loader.device
        self._dtype = dtype
        self._convert = {"dtype": dtype} if dtype in _convertible else {}
        self._places = {}
        for file in sorted(loader._files, key=lambda one: str(one.path)):
            check_types(file.path, file.checkpoint.infos(), loader._keeps)
            for info in file.checkpoint.infos():
                if not loader._keeps(info.name):
                    continue
                if info.name in self._places:
                    raise Exception(
                        f"FilesBufferOnDevice: key {info.name} must be unique among files"
                    )
                self._places[info.name] = (file, info)
        mine = [file for file in loader._files if file.rank == self.pg.rank()]
        loading = [(file, self._begin(file, loader)) for file in mine]
        self._loaded = {}
        self._untaken = {}  # By file, if other ranks exist: the loaded, but unused tensors.
        for file, operation in loading:
            found = dict(operation.result().items())
            self._loaded.update(found)
            if self.pg.size() > 1:
                self._untaken[file.path] = set(found)

    def _begin(self, file, loader):
        names = None
        if loader._filter is not None:
            kept = [info.name for info in file.checkpoint.infos() if loader._keeps(info.name)]
            names = _core.Selection().names(kept) if kept else _core.Selection().excluding("*")
        return file.checkpoint.load(names, strictness="reference", **self._convert)

    @property
    def key_to_rank_lidx(self) -> dict[str, tuple[int, int]]:
        return {name: (file.rank, 0) for name, (file, _) in self._places.items()}

    def close(self) -> None:
        """Releases the loaded tensors. Tensors that the caller has stay valid."""
        self._loaded = {}
        self._untaken = {}
        self._places = {}

    def _release(self, file, name):
        """Releases a file when each tensor was taken, as the package does for several ranks."""
        untaken = self._untaken.get(file.path)
        if untaken is None:
            return
        untaken.discard(name)
        if not untaken:
            del self._untaken[file.path]
            for info in file.checkpoint.infos():
                self._loaded.pop(info.name, None)

    def _place(self, name):
        if name not in self._places:
            raise ValueError(f"_get_rank: key {name} was not found in files")
        return self._places[name]

    def get_filename(self, tensor_name: str) -> str:
        return self._place(tensor_name)[0].path

    def get_shape(self, tensor_name: str) -> list[int]:
        return list(self._place(tensor_name)[1].shape)

    def _shard(self, name, dim):
        """Returns this rank's block of a tensor, or the whole tensor if `dim` is -1."""
        file, info = self._place(name)
        ranks, rank = self.pg.size(), self.pg.rank()
        whole = dim == -1 or ranks == 1
        if not whole and not -len(info.shape) <= dim < len(info.shape):
            raise ValueError(
                f"tensor '{name}' of shape {list(info.shape)} has no dimension {dim} to be split"
            )
        if name in self._loaded:
            tensor = self._on_device(self._loaded[name])
            self._release(file, name)
            if whole:
                return tensor
            each = -(-tensor.shape[dim] // ranks)
            first = min(rank * each, tensor.shape[dim])
            count = min(each, tensor.shape[dim] - first)
            return tensor.narrow(dim, first, count).clone()
        wanted = _core.Selection().names([name])
        if not whole:
            wanted.shard(name, dim % len(info.shape), rank, ranks)
        return self._on_device(file.checkpoint.load(wanted, **self._convert).result()[name])

    def _on_device(self, tensor):
        made = torch_of(tensor)
        if self._dtype is not None:
            made = made.to(torch_dtype(self._dtype))
        return made if tensor.device == self.device else made.to(self.device)

    def get_sharded_wrapped(
        self, tensor_name: str, dim: int, device: Any = None, dtype: Any = None
    ) -> TensorBase:
        return TensorBase(self.get_sharded(tensor_name, dim, device, dtype))

    def get_sharded(self, tensor_name: str, dim: int, device: Any = None, dtype: Any = None) -> Any:
        """Returns the block of this rank, of size ceil(size / ranks).

        The last blocks may be smaller or empty.
        """
        return _converted(self._shard(tensor_name, dim), device, dtype)

    def get_tensor_wrapped(
        self, tensor_name: str, device: Any = None, dtype: Any = None
    ) -> TensorBase:
        return self.get_sharded_wrapped(tensor_name, -1, device, dtype)

    def get_tensor(self, tensor_name: str, device: Any = None, dtype: Any = None) -> Any:
        return self.get_sharded(tensor_name, -1, device, dtype)

    def iter_local_tensors(self, tensor_names: Sequence[str]) -> Iterator[tuple[str, Any]]:
        for name in tensor_names:
            yield name, self.get_tensor(name)

    def push_tensor(
        self, tensor_name: str, dst_rank: int, device: Any = None, dtype: Any = None
    ) -> Any:
        """Returns the tensor at rank `dst_rank`, and None at other ranks."""
        self._place(tensor_name)
        if not 0 <= dst_rank < self.pg.size():
            raise ValueError(f"push_tensor: rank {dst_rank} of {self.pg.size()} ranks")
        if self.pg.size() > 1 and self.pg.rank() != dst_rank:
            return None
        return self.get_tensor(tensor_name, device, dtype)

    def get_multi_cols(
        self, tensor_names: Sequence[str], dim: int, device: Any = None, dtype: Any = None
    ) -> TensorBase:
        """Returns this rank's blocks of several tensors, concatenated along `dim`."""
        import torch

        parts = [self._shard(name, dim) for name in tensor_names]
        meant = parts[0].dtype
        if (
            meant.is_floating_point and parts[0].element_size() == 1
        ):  # PyTorch can concatenate these types only as bytes.
            parts = [part.view(torch.uint8) for part in parts]
        joined = torch.cat(parts, dim=dim).view(meant)
        return TensorBase(_converted(joined, device, dtype))

    def as_dict(self, tensor_shard_dim: Mapping[str, int]) -> dict[str, TensorBase]:
        return {name: self.get_sharded_wrapped(name, dim) for name, dim in tensor_shard_dim.items()}


class fastsafe_open:  # The name that it replaces.
    """Opens one file, several, or {rank: [files]}, and loads them."""

    def __init__(
        self,
        filenames: str | list[str] | dict[int, list[str]],
        framework: str = "pt",
        pg: Any = None,
        device: Any = "cpu",
        nogds: bool = False,
        debug_log: bool = False,
        max_copy_block_size: int = 16 << 30,
        use_fgds: bool = False,
    ) -> None:
        self.loader = SafeTensorsFileLoader(
            pg, device, nogds=nogds, use_fgds=use_fgds, framework=framework
        )
        if not isinstance(filenames, dict):
            filenames = {0: filenames if isinstance(filenames, list) else [filenames]}
        self.loader.add_filenames(filenames)
        self.fb = self.loader.copy_files_to_device()

    def metadata(self) -> dict[str, dict[str, str]]:
        return {path: checkpoint.metadata for path, (checkpoint, _) in self.loader.meta.items()}

    def keys(self) -> list[str]:
        return list(self.fb._places)

    get_keys = keys

    def get_tensor_wrapped(self, name: str) -> TensorBase:
        return self.fb.get_tensor_wrapped(name)

    def get_tensor(self, name: str) -> Any:
        return self.fb.get_tensor(name)

    def __enter__(self) -> "fastsafe_open":
        return self

    def __exit__(self, *failure: object) -> None:
        self.fb.close()
        self.loader.close()
