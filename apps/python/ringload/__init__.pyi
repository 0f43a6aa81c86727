# SPDX-License-Identifier: Apache-2.0
"""Loads tensor checkpoints from disk through io_uring, awaited or not."""

import concurrent.futures
import os
from collections.abc import (
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import TracebackType
from typing import Any, Generic, Literal, NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar

from typing_extensions import Self, TypedDict, Unpack

from ._core import Group as Group
from ._core import Model as Model
from ._core import Selection as Selection
from ._core import Tensor as Tensor

_T = TypeVar("_T")

_Path: TypeAlias = str | os.PathLike[str]
_Source: TypeAlias = _Path | Sequence[_Path] | Checkpoint
_Select: TypeAlias = str | Iterable[str] | Selection | Callable[[TensorInfo], bool] | None
class _Bar(Protocol):
    total: Any
    def update(self, n: Any = ..., /) -> object: ...

_Progress: TypeAlias = bool | Callable[[dict[str, Any]], object] | _Bar | None
_Size: TypeAlias = int | str

class _Module(Protocol):
    """A module of PyTorch."""

    def state_dict(self, *, keep_vars: bool = ...) -> Any: ...
    def named_parameters(self) -> Any: ...

_Verify: TypeAlias = Literal["if_present", "require"] | _Path | Mapping[str, str] | None
_Strictness: TypeAlias = Literal["strict", "reference"]

class _OpenOptions(TypedDict, total=False):
    strictness: _Strictness | None
    independent_files: bool | None
    nameless: Sequence[Any] | None

class _GroupOptions(TypedDict, total=False):
    strictness: _Strictness | None
    nameless: Sequence[Any] | None
    route: Literal["automatic", "direct", "buffered"] | None
    allocation: Literal["per_load", "per_file", "per_tensor"] | None
    verify: _Verify

class _FillOptions(_GroupOptions, total=False): ...

class _LoadOptions(_GroupOptions, total=False):
    memory: Literal["owned", "mapped"] | None
    access: Literal["read_only", "copy_on_write"] | None
    unmappable: Literal["refuse", "copy"] | None
    populate: bool | None

class _CheckpointLoadOptions(_LoadOptions, total=False):
    dtype: Any

class _StreamOptions(_LoadOptions, total=False):
    dtype: Any
    select: _Select

class _StartOptions(_LoadOptions, total=False):
    window: _Size | None

class _FillPolicies(_FillOptions, total=False):
    missing: Literal["error", "report"] | None
    unexpected: Literal["ignore", "report", "error"] | None
    dtype: Literal["exact", "convert"] | None
    shape: Literal["exact", "broadcast"] | None
    select: _Select

class _SaveOptions(TypedDict, total=False):
    metadata: Mapping[str, Any] | None
    dtype: Any
    shard_bytes: _Size | None
    shard_count: int | None
    alignment: int | None
    order: Literal["reference", "given"] | None
    format: Literal["by_name", "safetensors", "zt"] | None
    replace: bool | None
    sync: bool | None
    read_back: bool | None
    digest: Literal["crc32c", "sha256"] | None
    zstd_level: int | None

class _SaveAndProgress(_SaveOptions, total=False):
    progress: _Progress

class _Features(TypedDict):
    version: str
    remote: bool
    cuda: bool
    hdf5: bool
    zstd: bool
    deflate: bool

__version__: str

class Error(Exception):
    """A load, a save or an open has failed. Its text names the file, the tensor and the byte."""

    kind: str
    place: str
    errno: int | None
    whole: Sequence[str]
    torn: Sequence[str]

class CancelledError(Error): ...
class SourceNotFoundError(Error, FileNotFoundError): ...
class TensorNotFoundError(Error, KeyError): ...
class OutOfMemoryError(Error, MemoryError): ...
class InvalidFileError(Error, ValueError): ...
class UsageError(Error, ValueError): ...
class RankFailedError(Error, ConnectionError): ...
class RemoteError(Error, ConnectionError): ...
class SystemCallError(Error, OSError): ...

class Filled(NamedTuple):
    """The result of a fill."""

    missing: list[str]
    unexpected: list[str]
    stats: dict[str, Any]

class Saved(NamedTuple):
    """The result of a save."""

    files: list[str]
    nbytes: int
    bytes_direct: int
    bytes_straight: int
    writes: int
    seconds: float
    route_reason: str
    digests: dict[str, str]
    @property
    def manifest(self) -> str:
        """The digests as the text of a manifest, a line for each tensor, to be kept in a file."""

class TensorInfo:
    """One tensor of a checkpoint: what it is, and where its bytes lie."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: int
    offset: int
    nbytes: int
    encoding: str
    stored_bytes: int
    type: str
    original_shape: tuple[int, ...]
    digest: str
    attributes: dict[str, Any]

class Operation(Generic[_T]):
    """Work that has begun. Dropping it cancels it."""

    def done(self) -> bool: ...
    def cancel(self) -> None: ...
    def result(self, timeout: float | None = None) -> _T: ...
    def exception(self, timeout: float | None = None) -> BaseException | None: ...
    def future(self) -> concurrent.futures.Future[_T]: ...
    def __await__(self) -> Generator[Any, None, _T]: ...

class StoredTensor:
    """A tensor in its file. `stored[0:128]` reads that range and no more, `stored[:]` all of it."""

    info: TensorInfo
    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...
    def load(self, index: Any = ()) -> Operation[Tensor]: ...
    def __getitem__(self, index: Any) -> Tensor: ...

class Checkpoint(Mapping[str, StoredTensor]):
    """Open files and their catalog: a mapping of names to StoredTensors."""

    def __getitem__(self, name: str) -> StoredTensor: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def infos(self) -> list[TensorInfo]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def metadata(self) -> dict[str, Any]: ...
    @property
    def files(self) -> list[tuple[str, int, str]]: ...
    @property
    def composites(self) -> list[dict[str, Any]]: ...
    @property
    def notes(self) -> list[str]: ...
    def load(
        self, select: _Select = None, **options: Unpack[_CheckpointLoadOptions]
    ) -> Operation[Model]: ...
    def __reversed__(self) -> Iterator[str]: ...
    def __reduce_ex__(self, protocol: object) -> NoReturn: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *failure: object) -> None: ...

class Load:
    """A load in flight: its tensors can be used as they land. Dropping it cancels it."""

    def tensor(self, name: str) -> Operation[Tensor]: ...
    def next(self) -> Operation[Tensor | None]: ...
    def finish(self) -> Operation[Model]: ...
    def infos(self) -> list[TensorInfo]: ...
    @property
    def stats(self) -> dict[str, Any]: ...
    @property
    def stats_of_files(self) -> list[dict[str, Any]]: ...
    def cancel(self) -> None: ...
    def __iter__(self) -> Iterator[tuple[str, Tensor]]: ...
    def __next__(self) -> tuple[str, Tensor]: ...
    def __aiter__(self) -> AsyncIterator[tuple[str, Tensor]]: ...
    async def __anext__(self) -> tuple[str, Tensor]: ...

class Stream:
    """(name, tensor) pairs as they land, by `for` or `async for`."""

    @property
    def stats(self) -> dict[str, Any] | None: ...
    def cancel(self) -> None: ...
    def __iter__(self) -> Iterator[tuple[str, Tensor]]: ...
    def __next__(self) -> tuple[str, Tensor]: ...
    def __aiter__(self) -> AsyncIterator[tuple[str, Tensor]]: ...
    async def __anext__(self) -> tuple[str, Tensor]: ...

class GroupLoad:
    """What this rank has of a load. Its methods give operations of Tensors, on the host."""

    def tensor(self, name: str) -> Operation[Tensor]: ...
    def shard(self, name: str, dim: int) -> Operation[Tensor]: ...
    def fused(self, as_name: str, names: Iterable[str], dim: int) -> Operation[Tensor]: ...
    def push(self, name: str, to: int) -> Operation[Tensor | None]: ...
    def infos(self) -> list[TensorInfo]: ...
    @property
    def stats(self) -> dict[str, Any]: ...

class Loader:
    """Loads checkpoints into the memory of one device, or of several."""

    def __init__(
        self,
        device: str | int | object | Sequence[str | int | object] = "cpu",
        *,
        hdf5: bool = False,
        remote: bool | Mapping[str, Any] = False,
        slots: int = ...,
        slot_bytes: _Size = ...,
        bytes_in_flight: _Size = ...,
        arena_bytes_max: _Size = ...,
        cached_bytes: _Size = ...,
        copy_threads: int = ...,
        reader_threads: int = ...,
        engine: Literal["automatic", "ring", "threads"] = ...,
        huge_pages: Literal["transparent", "reserved", "none"] = ...,
    ) -> None: ...
    def open(
        self,
        source: _Path | Sequence[_Path],
        *,
        strictness: _Strictness | None = None,
        independent_files: bool | None = None,
        nameless: Sequence[str] | None = None,
    ) -> Operation[Checkpoint]: ...
    def load(
        self,
        source: _Source,
        *,
        dtype: Any = None,
        select: _Select = None,
        progress: _Progress = None,
        **options: Unpack[_LoadOptions],
    ) -> Operation[Model]: ...
    def start(
        self,
        source: _Source,
        *,
        dtype: Any = None,
        select: _Select = None,
        **options: Unpack[_StartOptions],
    ) -> Operation[Load]: ...
    def stream(
        self,
        source: _Source,
        *,
        window: _Size | None = None,
        dtype: Any = None,
        select: _Select = None,
        **options: Unpack[_LoadOptions],
    ) -> Stream: ...
    def group_load(
        self,
        group: Group,
        source: _Path,
        *,
        reading: Literal["divided", "own"] = "divided",
        dtype: Any = None,
        **options: Unpack[_GroupOptions],
    ) -> Operation[GroupLoad]: ...
    def fill(
        self,
        source: _Source,
        tensors: Mapping[str, Any] | _Module,
        *,
        missing: Literal["error", "report"] | None = None,
        unexpected: Literal["ignore", "report", "error"] | None = None,
        dtype: Literal["exact", "convert"] | None = None,
        shape: Literal["exact", "broadcast"] | None = None,
        select: _Select = None,
        **options: Unpack[_FillOptions],
    ) -> Operation[Filled]: ...
    def save(
        self,
        path: _Path,
        tensors: Mapping[str, Any] | Model,
        *,
        progress: _Progress = None,
        **options: Unpack[_SaveOptions],
    ) -> Operation[Saved]: ...
    def copy(
        self, tensor: Tensor, *, device: Any = None, dtype: Any = None
    ) -> Operation[Tensor]: ...
    @property
    def stats(self) -> dict[str, Any]: ...
    @property
    def memory(self) -> dict[str, int]: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *failure: object) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class Keeper:
    """Serves models to other processes of this machine, at a Unix socket."""

    def __init__(
        self,
        socket: _Path,
        *,
        mode: int = 0o600,
        users: Iterable[int] = (),
        connections_max: int = 1024,
    ) -> None: ...
    def publish(self, name: str, model: Model) -> None: ...
    def withdraw(self, name: str) -> bool: ...
    def models(self) -> list[dict[str, Any]]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *failure: object) -> None: ...

def join_group(socket: _Path, rank: int, ranks: int, timeout: float = 300.0) -> Group: ...
def join_group_async(
    socket: _Path, rank: int, ranks: int, timeout: float = 300.0
) -> Operation[Group]: ...
def make_thread_ranks(ranks: int, timeout: float = 300.0) -> list[Group]: ...
def attach(socket: _Path, name: str, timeout: float = 10.0) -> Model: ...
def load(
    source: _Source,
    device: Any = "cpu",
    dtype: Any = None,
    select: _Select = None,
    progress: _Progress = None,
    *,
    remote: bool | Mapping[str, Any] = False,
    hdf5: bool = False,
    **options: Unpack[_LoadOptions],
) -> Model: ...
def open(
    source: _Path | Sequence[_Path],
    device: Any = "cpu",
    *,
    remote: bool | Mapping[str, Any] = False,
    hdf5: bool = False,
    **options: Unpack[_OpenOptions],
) -> Checkpoint: ...
def stream(
    source: _Source,
    device: Any = "cpu",
    window: _Size | None = None,
    *,
    remote: bool | Mapping[str, Any] = False,
    hdf5: bool = False,
    **options: Unpack[_StreamOptions],
) -> Iterator[tuple[str, Tensor]]: ...
def fill(
    source: _Source,
    tensors: Mapping[str, Any] | _Module,
    device: Any = "cpu",
    *,
    remote: bool | Mapping[str, Any] = False,
    hdf5: bool = False,
    **policies: Unpack[_FillPolicies],
) -> Filled: ...
def save(
    path: _Path, tensors: Mapping[str, Any] | Model, **options: Unpack[_SaveAndProgress]
) -> Saved: ...
def features() -> _Features: ...
def select() -> Selection: ...
