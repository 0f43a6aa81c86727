# SPDX-License-Identifier: Apache-2.0
"""The library's own objects, as the package ringload wraps them."""

from collections.abc import ItemsView, Iterator, KeysView, Sequence, ValuesView
from os import PathLike
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
        """As a PyTorch tensor, without a copy. Warns if the memory is read-only, such as that of a
        mapped tensor, because a write to the result ends the process: load with
        access="copy_on_write".
        """

    def jax(self) -> _jax.Array:
        """As a JAX array; without a copy where JAX takes the address."""

    def __repr__(self) -> str: ...

class Model:
    """Loaded tensors: a mapping of names to Tensors, in the files' order."""

    @property
    def kept_version(self) -> KeptVersion | None:
        """The version under which a Keeper serves the model. None if the model is not attached."""

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
    def apply(self, delta: str | bytes | PathLike[Any], *, check_unchanged: bool = True) -> Model:
        """
        The next version, which a delta leads to. This model stays as it is, and shares the
        unchanged tensors. See Loader.apply.
        """

    def __reduce_ex__(self, protocol: object) -> NoReturn: ...
    @property
    def stats(self) -> dict[str, Any]:
        """How the load went: bytes, reads, seconds, by which engine and why."""

    @property
    def stats_of_files(self) -> list[Any]:
        """The bytes read from each file, and the speed."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The files' own metadata."""

    @property
    def notes(self) -> list[str]:
        """Unusual properties of the files, and tensors that a dtype left as they are."""

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
        """All tensors as PyTorch's, without a copy, by name. Warns of read-only memory, as
        Tensor.torch() does.
        """

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
    The tensors of a checkpoint to load, and the range of each. Its methods change the Selection and
    return it.
    """

    def __init__(self) -> None: ...
    def names(self, names: Sequence[str]) -> Selection:
        """Selects the tensors of these names."""

    def matching(self, glob: str) -> Selection:
        """Selects tensors whose name matches, as in fnmatch."""

    def excluding(self, glob: str) -> Selection:
        """Leaves out tensors whose name matches."""

    def experts(self, rank: int, ranks: int, experts: int = 0) -> Selection:
        """
        Selects only the experts of one rank ('.experts.<n>.' in the name).
        """

    def slice(self, name: str, dim: int, first: int, count: int) -> Selection:
        """Selects the range [first, first + count) of `dim` of that tensor."""

    @overload
    def shard(self, glob: str, dim: int, rank: int, ranks: int) -> Selection:
        """
        Selects the block of `rank` along `dim` of matching tensors: ceil(size / ranks) long.
        """

    @overload
    def shard(self, glob: str, dim: int) -> Selection:
        """Loads block i along `dim` of matching tensors to device i."""

    def on(self, glob: str, device: int) -> Selection:
        """
        Loads matching tensors to the Loader's device at that position.
        """

    def replicate(self, glob: str) -> Selection:
        """Loads matching tensors to every device, with one read."""

    def spread(self, glob: str) -> Selection:
        """
        Loads each matching tensor to the device that has the fewest bytes so far.
        """

    def fused(self, as_name: str, names: Sequence[str], dim: int) -> Selection:
        """Joins several tensors along `dim` into one tensor."""

    def allow_missing(self) -> Selection:
        """Allows names and globs that match no tensor."""

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
    """Reports of files that are written into the local cache."""

    def __init__(self) -> None: ...
    def fileno(self) -> int: ...
    def drain(self) -> tuple[list[dict[str, Any]], bool]:
        """Returns the reports since the last call, and whether no more follow."""

class Remote:
    """Stores over the network, with one set of settings."""

class Network:
    """The sources of a loader that are over the network."""

    def __init__(self) -> None: ...
    def use(self, name: str, remote: Remote, names: int = 1) -> None:
        """From now on reads `name` with these settings, while `remote` exists. `names` is the
        number of names of the operation.
        """

def make_remote(settings: dict[str, Any]) -> Remote: ...

class RemoteObject:
    """One object of a store."""

    @property
    def nbytes(self) -> int: ...
    def read(self, offset: int, count: int) -> bytes:
        """The bytes of a range of at most 8 MiB."""

class RemoteFolder:
    """A folder of a store."""

    def names(self) -> list[str]:
        """The names of all objects in it and in its sub-folders."""
    def open(self, name: str) -> RemoteObject:
        """The object of this name."""

def find_folder(remote: Remote, name: str) -> RemoteFolder:
    """The folder of this address, which ends with '/'."""

class Engine:
    """The library's loader: its threads, its ring, its buffers."""

    def __init__(
        self,
        devices: Sequence[str],
        limits: dict[str, Any],
        hdf5_program: str | None,
        network: Network | None,
    ) -> None: ...
    def open(self, source: object, options: dict[str, Any]) -> Begun: ...
    def load(self, source: object, select: Selection | None, options: dict[str, Any]) -> Begun: ...
    def start(self, source: object, select: Selection | None, options: dict[str, Any]) -> Begun: ...
    def stream(
        self,
        source: object,
        window_bytes: int,
        select: Selection | None,
        options: dict[str, Any],
    ) -> Begun: ...
    def group_load(
        self, group: Group, source: object, reading: str, options: dict[str, Any]
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
    def save_delta(self, path: str, base: object, next: object, options: dict[str, Any]) -> Begun: ...
    def apply(self, model: Model, delta: str, check_unchanged: bool) -> Begun: ...
    def update(self, into: Sequence[Any], delta: str, check_unchanged: bool) -> Begun: ...
    def load_version(self, folder: str, version: int | None) -> Begun: ...
    def copy(self, tensor: Tensor, device: str | None, dtype: str | None) -> Begun: ...
    def stats(self) -> dict[str, Any]: ...
    def memory(self) -> dict[str, Any]: ...
    def metrics(self, name: str) -> str: ...
    def close(self) -> None: ...
    def closed(self) -> bool: ...

def list_versions(folder: str) -> list[tuple[int, str, str]]: ...

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
    def metrics(self) -> str: ...
    def close(self) -> None: ...

class KeptVersion:
    """Identifies a model that a Keeper has published."""

    def __init__(self) -> None: ...
    @property
    def keeper(self) -> int: ...
    @property
    def number(self) -> int: ...
    def __eq__(self, arg: object, /) -> bool: ...
    def __hash__(self) -> int: ...

def attach(socket: str, name: str, seconds: float) -> Model: ...
def attach_next(socket: str, name: str, current: KeptVersion) -> Begun: ...
def served_version(socket: str, name: str, seconds: float) -> KeptVersion: ...

class Group:
    """
    The membership of a rank in a group of threads of this process, or of processes of this machine.
    Dropping it leaves the group.
    """

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int:
        """The number of ranks."""

    def __repr__(self) -> str: ...

class GroupLoading:
    """The part of a load on one rank."""

    def tensor(self, name: str) -> Begun: ...
    def shard(self, name: str, dim: int) -> Begun: ...
    def fused(self, as_name: str, names: Sequence[str], dim: int) -> Begun: ...
    def push(self, name: str, to: int) -> Begun: ...
    def model(self, names: list[str] | None) -> Begun: ...
    def stats(self) -> dict[str, Any]: ...
    def infos(self) -> list[Any]: ...

def join_group(address: str, rank: int, ranks: int, seconds: float) -> Begun: ...
def nccl_group(hosts: Group, device: str, stream: int, library: str, seconds: float) -> Begun: ...
def make_thread_ranks(ranks: int, seconds: float) -> list[Any]: ...
