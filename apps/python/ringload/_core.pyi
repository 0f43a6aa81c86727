# SPDX-License-Identifier: Apache-2.0
"""The library's own objects, as the package ringload wraps them."""

from collections.abc import ItemsView, Iterator, KeysView, Sequence, ValuesView
from typing import Any, NoReturn, TypeVar, overload

import jax as _jax  # type: ignore[import-not-found, unused-ignore]
import numpy as _np  # type: ignore[import-not-found, unused-ignore]
import torch as _torch  # type: ignore[import-not-found, unused-ignore]

_T = TypeVar("_T")

version: str

has_cuda: bool

has_remote: bool

has_hdf5: bool

has_zstd: bool

has_deflate: bool

class TensorBytes:
    """The bytes of a Tensor, by the buffer protocol."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

class Tensor:
    """
    A loaded tensor. It owns its memory, together with the other tensors of its load.
    """

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str:
        """The type's name: 'bf16', 'f8_e4m3', 'bool'."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def device(self) -> str:
        """'cpu' or 'cuda:0'."""

    @property
    def read_only(self) -> bool: ...
    @property
    def data_ptr(self) -> int:
        """The address of the first byte."""

    def __dlpack__(
        self,
        *,
        stream: object | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __array__(
        self, dtype: Any | None = None, copy: bool | None = None
    ) -> _np.ndarray[Any, Any]:
        """For numpy.asarray(); raises TypeError for a type that NumPy has not."""

    def __jax_array__(self) -> _jax.Array:
        """For jax.numpy.asarray()."""

    def byte_view(self) -> memoryview:
        """
        A memoryview of the plain bytes, for consumers that take bytes: files, hashes.
        """

    def tolist(self) -> Any:
        """The elements as nested lists of Python's numbers. Needs NumPy."""

    def item(self) -> Any:
        """The only element, as a number of Python's. Needs NumPy."""

    def __bool__(self) -> bool: ...
    def __len__(self) -> int: ...
    @property
    def size(self) -> int:
        """The number of elements."""

    def __reduce_ex__(self, protocol: object) -> NoReturn: ...
    def numpy(self) -> _np.ndarray[Any, Any]:
        """
        As a NumPy array, without a copy; types that NumPy lacks by the package ml_dtypes.
        """

    def torch(self) -> _torch.Tensor:
        """As a PyTorch tensor, without a copy."""

    def jax(self) -> _jax.Array:
        """As a JAX array; without a copy where JAX takes the address."""

    def __repr__(self) -> str: ...

class Model:
    """Loaded tensors: a mapping of names to Tensors, in the files' order."""

    def __getitem__(self, name: str) -> Tensor: ...
    def __len__(self) -> int: ...
    def __contains__(self, arg: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __reversed__(self) -> Iterator[str]: ...
    def keys(self) -> KeysView[str]:
        """The names, in the files' order: a view, as a dictionary's."""

    def values(self) -> ValuesView[Tensor]: ...
    def items(self) -> ItemsView[str, Tensor]: ...
    @overload
    def get(self, name: str) -> Tensor | None: ...
    @overload
    def get(self, name: str, default: _T) -> Tensor | _T: ...
    def __reduce_ex__(self, protocol: object) -> NoReturn: ...
    @property
    def stats(self) -> dict[str, Any]:
        """How the load went: bytes, reads, seconds, by which engine and why."""

    @property
    def stats_of_files(self) -> list[Any]:
        """What was read of each file, and how fast."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The files' own metadata."""

    def on(self, position: int) -> dict[str, Tensor]:
        """
        What is on the device at that position of the Loader's: Tensors by name. The mapping itself
        has those on the first device that each is on. Raises IndexError if there is no such device.
        """

    def regions(self) -> list[tuple[int, int, str]]:
        """
        The memory that the tensors lie in: (address, bytes, device), for each allocation.
        """

    def numpy(self) -> dict[str, _np.ndarray[Any, Any]]:
        """All tensors as NumPy arrays, without a copy, by name."""

    def torch(self) -> dict[str, _torch.Tensor]:
        """All tensors as PyTorch's, without a copy, by name."""

    def jax(self) -> dict[str, _jax.Array]:
        """All tensors as JAX arrays, by name."""

    def __repr__(self) -> str: ...

class OpenedCheckpoint:
    """Open files, and the catalog they hold."""

    def __len__(self) -> int: ...
    def names(self) -> list[Any]: ...
    def find(self, name: str) -> dict[str, Any] | None: ...
    def infos(self) -> list[Any]: ...
    def composites(self) -> list[Any]: ...
    def files(self) -> list[Any]: ...
    def metadata(self) -> list[Any]: ...
    def notes(self) -> list[Any]: ...

class Selection:
    """
    Which tensors of a checkpoint are loaded, and which range of each. Its methods change it and
    return it.
    """

    def __init__(self) -> None: ...
    def names(self, names: Sequence[str]) -> Selection:
        """Those of these names."""

    def matching(self, glob: str) -> Selection:
        """Those whose name matches, as in fnmatch."""

    def excluding(self, glob: str) -> Selection:
        """Not those whose name matches."""

    def experts(self, rank: int, ranks: int, experts: int = 0) -> Selection:
        """
        Of the routed experts ('.experts.<n>.' in the name) those of one rank only.
        """

    def slice(self, name: str, dim: int, first: int, count: int) -> Selection:
        """Of that tensor the range [first, first + count) of `dim`."""

    @overload
    def shard(self, glob: str, dim: int, rank: int, ranks: int) -> Selection:
        """
        Of tensors that match the block of `rank` along `dim`: ceil(size / ranks) long.
        """

    @overload
    def shard(self, glob: str, dim: int) -> Selection:
        """Of tensors that match block i along `dim` goes to device i."""

    def on(self, glob: str, device: int) -> Selection:
        """
        Those that match go to the device at that position of the Loader's.
        """

    def replicate(self, glob: str) -> Selection:
        """Those that match go to each device, whole; they are read once."""

    def spread(self, glob: str) -> Selection:
        """
        Those that match go one by one to the device that has the fewest bytes yet.
        """

    def fused(self, as_name: str, names: Sequence[str], dim: int) -> Selection:
        """One tensor in place of several, behind each other along `dim`."""

    def allow_missing(self) -> Selection:
        """Names and globs that nothing matches are no error."""

class Begun:
    """An operation that the engine works on."""

    def ended(self) -> bool: ...
    def wait(self, seconds: float | None = None) -> bool:
        """
        Waits without the GIL; signals are handled meanwhile. Whether it has ended.
        """

    def cancel(self) -> None: ...
    def take(self) -> Any:
        """The result, or raises what it failed with."""

    def subscribe(self, waker: Waker, token: int) -> None: ...

class Waker:
    """A descriptor that is readable when operations have ended."""

    def __init__(self) -> None: ...
    def fileno(self) -> int: ...
    def drain(self) -> list[Any]: ...

class SaveProgress:
    """How far a save has come."""

    def __init__(self) -> None: ...
    @property
    def bytes(self) -> int: ...
    @property
    def bytes_total(self) -> int: ...

class CacheReports:
    """What became of files for the local cache."""

    def __init__(self) -> None: ...
    def fileno(self) -> int: ...
    def drain(self) -> tuple[list[dict[str, Any]], bool]:
        """Those since the last call, and whether there are no more."""

class Engine:
    """The library's loader: its threads, its ring, its buffers."""

    def __init__(
        self, devices: Sequence[str], limits: dict[str, Any], hdf5: bool,
        remote: dict[str, Any] | None,
    ) -> None: ...
    def open(self, source: object, options: dict[str, Any]) -> Begun: ...
    def load(self, source: object, select: Selection | None, options: dict[str, Any]) -> Begun: ...
    def start(self, source: object, select: Selection | None, options: dict[str, Any]) -> Begun: ...
    def group_load(
        self, group: Group, source: str, reading: str, options: dict[str, Any]
    ) -> Begun: ...
    def fill(
        self,
        file: OpenedCheckpoint,
        into: Sequence[Any],
        policies: dict[str, Any],
        select: Selection | None,
        options: dict[str, Any],
    ) -> Begun: ...
    def save(self, path: str, tensors: Sequence[Any], options: dict[str, Any]) -> Begun: ...
    def copy(self, tensor: Tensor, device: str | None, dtype: str | None) -> Begun: ...
    def stats(self) -> dict[str, Any]: ...
    def memory(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
    def closed(self) -> bool: ...

class Loading:
    """A load in flight."""

    def tensor(self, arg: str, /) -> Begun: ...
    def next(self) -> Begun: ...
    def finish(self) -> Begun: ...
    def progress(self) -> dict[str, Any]: ...
    def progress_of_files(self) -> list[Any]: ...
    def infos(self) -> list[Any]: ...
    def cancel(self) -> None: ...

class ZtWriter:
    """A .zt file that is written object by object."""

    def __init__(self, path: str, options: dict[str, Any]) -> None: ...
    @staticmethod
    def append(arg0: str, arg1: dict[str, Any], /) -> ZtWriter: ...
    @staticmethod
    def in_memory(arg: dict[str, Any], /) -> ZtWriter: ...
    def add(self, tensor: Sequence[Any], options: dict[str, Any]) -> Begun: ...
    def declare(
        self, name: str, layout: str, shape: Sequence[int], attributes: dict[str, Any]
    ) -> Begun: ...
    def add_part(self, object: str, tensor: Sequence[Any], options: dict[str, Any]) -> Begun: ...
    def add_alias(self, name: str, of: str) -> Begun: ...
    def copy(self, file: str, without: Sequence[str] | None) -> Begun: ...
    def replace(self, by: Sequence[Any]) -> Begun: ...
    def set_attribute(self, key: str, value: Any) -> Begun: ...
    def bytes_taken(self) -> int: ...
    def finish(self) -> Begun: ...

def first_of_same(tensors: Sequence[Any]) -> list[int]:
    """
    By position, the first tensor that is the same memory, of the same type and shape.
    """

class Keeper:
    """Serves models to other processes, at a Unix socket."""

    def __init__(
        self, socket: str, mode: int, users: Sequence[int], connections_max: int
    ) -> None: ...
    def publish(self, name: str, model: Model) -> None: ...
    def withdraw(self, name: str) -> bool: ...
    def models(self) -> list[dict[str, Any]]: ...
    def close(self) -> None: ...

def attach(socket: str, name: str, seconds: float) -> Model: ...

class Group:
    """
    What a rank has of its group: of threads of this process, or of processes of this machine.
    Dropping it leaves the group.
    """

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int:
        """The number of ranks."""

    def __repr__(self) -> str: ...

class GroupLoading:
    """What a rank has of a load."""

    def tensor(self, name: str) -> Begun: ...
    def shard(self, name: str, dim: int) -> Begun: ...
    def fused(self, as_name: str, names: Sequence[str], dim: int) -> Begun: ...
    def push(self, name: str, to: int) -> Begun: ...
    def stats(self) -> dict[str, Any]: ...
    def infos(self) -> list[Any]: ...

def join_group(socket: str, rank: int, ranks: int, seconds: float) -> Begun: ...
def make_thread_ranks(ranks: int, seconds: float) -> list[Any]: ...
