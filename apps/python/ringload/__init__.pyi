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

from typing_extensions import Self, Unpack

from ._core import Group as Group
from ._core import KeptVersion as KeptVersion
from ._core import Model as Model
from ._core import Selection as Selection
from ._core import Tensor as Tensor
from .options import (
    CheckpointLoadOptions,
    Features,
    FillLoadOptions,
    FillOptions,
    GroupLoadOptions,
    LoaderOptions,
    LoadOptions,
    OpenOptions,
    Path,
    Progress,
    RemoteOptions,
    SaveFunctionOptions,
    SaveOptions,
    Select,
    Size,
    StartOptions,
    StreamOptions,
    Strictness,
)

_T = TypeVar("_T")

_Source: TypeAlias = Path | Sequence[Path] | Checkpoint
_Remote: TypeAlias = bool | RemoteOptions | None

class _Module(Protocol):
    """A module of PyTorch."""

    def state_dict(self, *, keep_vars: bool = ...) -> Any: ...
    def named_parameters(self) -> Any: ...

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
    bytes_unstaged: int
    writes: int
    seconds: float
    route_reason: str
    digests: dict[str, str]
    @property
    def checksums(self) -> str:
        """The digests as the text of a checksum list: one line for each tensor."""

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
        self, select: Select | None = None, **options: Unpack[CheckpointLoadOptions]
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
    """The part of a load on this rank, in the memory of the loader's device."""

    def tensor(self, name: str) -> Operation[Tensor]: ...
    def shard(self, name: str, dim: int) -> Operation[Tensor]: ...
    def fused(self, as_name: str, names: Iterable[str], dim: int) -> Operation[Tensor]: ...
    def push(self, name: str, to: int) -> Operation[Tensor | None]: ...
    def model(self, names: Iterable[str] | None = None) -> Operation[Model]: ...
    def infos(self) -> list[TensorInfo]: ...
    @property
    def stats(self) -> dict[str, Any]: ...

class SavedDelta(NamedTuple):
    """The result of a delta. Tensors of the next version are unchanged, sparse, dense or whole."""

    nbytes: int
    tensors_unchanged: int
    tensors_sparse: int
    tensors_dense: int
    tensors_whole: int
    tensors_removed: int
    elements: int
    elements_changed: int
    seconds: float

class Updated(NamedTuple):
    """The result of an update in place."""

    tensors_changed: int
    bytes_changed: int
    elements_changed: int
    seconds: float

class Version(NamedTuple):
    """A version that follow() gives. The model is None if the versions are applied in place."""

    number: int
    model: Model | None

class Loader:
    """Loads checkpoints into the memory of one device, or of several."""

    def __init__(
        self,
        device: str | int | object | Sequence[str | int | object] = "cpu",
        *,
        hdf5: bool | None = None,
        remote: _Remote = None,
        offline: bool | None = None,
        **limits: Unpack[LoaderOptions],
    ) -> None: ...
    def open(
        self,
        source: Path | Sequence[Path],
        *,
        strictness: Strictness | None = None,
        independent_files: bool | None = None,
        nameless: Sequence[str] | None = None,
    ) -> Operation[Checkpoint]: ...
    def load(
        self,
        source: _Source,
        *,
        dtype: Any = None,
        select: Select | None = None,
        progress: Progress | None = None,
        **options: Unpack[LoadOptions],
    ) -> Operation[Model]: ...
    def start(
        self,
        source: _Source,
        *,
        dtype: Any = None,
        select: Select | None = None,
        **options: Unpack[StartOptions],
    ) -> Operation[Load]: ...
    def stream(
        self,
        source: _Source,
        *,
        window: Size | None = None,
        dtype: Any = None,
        select: Select | None = None,
        **options: Unpack[LoadOptions],
    ) -> Stream: ...
    def group_load(
        self,
        group: Group,
        source: Path | Sequence[Path],
        *,
        reading: Literal["divided", "own"] = "divided",
        dtype: Any = None,
        **options: Unpack[GroupLoadOptions],
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
        select: Select | None = None,
        **options: Unpack[FillLoadOptions],
    ) -> Operation[Filled]: ...
    def save(
        self,
        path: Path,
        tensors: Mapping[str, Any] | Model,
        *,
        progress: Progress | None = None,
        **options: Unpack[SaveOptions],
    ) -> Operation[Saved]: ...
    def save_delta(
        self,
        path: Path,
        base: _Source,
        next: _Source,
        *,
        zstd_level: int | None = None,
        window: Size | None = None,
        indexed: Literal["xor", "overwrite"] | None = None,
        checksum: Literal["xxh3-128", "adler32"] | None = None,
        replace: bool | None = None,
        sync: bool | None = None,
    ) -> Operation[SavedDelta]: ...
    def apply(
        self, model: Model, delta: Path, *, check_unchanged: bool = True
    ) -> Operation[Model]: ...
    def update(
        self,
        tensors: Mapping[str, Any] | _Module,
        delta: Path,
        *,
        check_unchanged: bool = True,
    ) -> Operation[Updated]: ...
    def load_version(self, folder: Path, version: int | None = None) -> Operation[Model]: ...
    def follow(
        self,
        folder: Path,
        *,
        period: float = 1.0,
        into: Mapping[str, Any] | _Module | None = None,
    ) -> AsyncIterator[Version]: ...
    def copy(
        self, tensor: Tensor, *, device: Any = None, dtype: Any = None
    ) -> Operation[Tensor]: ...
    @property
    def stats(self) -> dict[str, Any]: ...
    @property
    def memory(self) -> dict[str, int]: ...
    def metrics(self, name: str = "") -> str: ...
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
        socket: Path,
        *,
        mode: int = 0o600,
        users: Iterable[int] = (),
        connections_max: int = 1024,
    ) -> None: ...
    def publish(self, name: str, model: Model) -> None: ...
    def withdraw(self, name: str) -> bool: ...
    def models(self) -> list[dict[str, Any]]: ...
    def metrics(self) -> str: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *failure: object) -> None: ...

def join_group(address: Path, rank: int, ranks: int, timeout: float = 300.0) -> Group: ...
def join_group_async(
    address: Path, rank: int, ranks: int, timeout: float = 300.0
) -> Operation[Group]: ...
def nccl_group(
    hosts: Group,
    device: str | int | object = "cuda",
    *,
    stream: int | object | None = None,
    library: Path = "libnccl.so.2",
    timeout: float = 300.0,
) -> Group: ...
def nccl_group_async(
    hosts: Group,
    device: str | int | object = "cuda",
    *,
    stream: int | object | None = None,
    library: Path = "libnccl.so.2",
    timeout: float = 300.0,
) -> Operation[Group]: ...
def make_thread_ranks(ranks: int, timeout: float = 300.0) -> list[Group]: ...
def attach(socket: Path, name: str, timeout: float = 10.0) -> Model: ...
def attach_next(
    socket: Path, name: str, current: Model | KeptVersion | None = None
) -> Operation[Model]: ...
def attach_versions(socket: Path, name: str) -> AsyncIterator[Model]: ...
def served_version(socket: Path, name: str, timeout: float = 10.0) -> KeptVersion: ...
def load(
    source: _Source,
    device: Any = "cpu",
    dtype: Any = None,
    select: Select | None = None,
    progress: Progress | None = None,
    *,
    remote: _Remote = None,
    offline: bool | None = None,
    hdf5: bool | None = None,
    **options: Unpack[LoadOptions],
) -> Model: ...
def open(
    source: Path | Sequence[Path],
    device: Any = "cpu",
    *,
    remote: _Remote = None,
    offline: bool | None = None,
    hdf5: bool | None = None,
    **options: Unpack[OpenOptions],
) -> Checkpoint: ...
def stream(
    source: _Source,
    device: Any = "cpu",
    window: Size | None = None,
    *,
    remote: _Remote = None,
    offline: bool | None = None,
    hdf5: bool | None = None,
    **options: Unpack[StreamOptions],
) -> Iterator[tuple[str, Tensor]]: ...
def fill(
    source: _Source,
    tensors: Mapping[str, Any] | _Module,
    device: Any = "cpu",
    *,
    remote: _Remote = None,
    offline: bool | None = None,
    hdf5: bool | None = None,
    **policies: Unpack[FillOptions],
) -> Filled: ...
def load_into(
    module: _Module,
    source: _Source,
    *,
    strict: bool = True,
    device: Any = None,
    remote: _Remote = None,
    offline: bool | None = None,
    hdf5: bool | None = None,
    **policies: Unpack[FillOptions],
) -> Filled: ...
def save(
    path: Path, tensors: Mapping[str, Any] | Model, **options: Unpack[SaveFunctionOptions]
) -> Saved: ...
def save_delta(
    path: Path,
    base: _Source,
    next: _Source,
    *,
    remote: _Remote = None,
    offline: bool | None = None,
    hdf5: bool | None = None,
    zstd_level: int | None = None,
    window: Size | None = None,
    indexed: Literal["xor", "overwrite"] | None = None,
    checksum: Literal["xxh3-128", "adler32"] | None = None,
    replace: bool | None = None,
    sync: bool | None = None,
) -> SavedDelta: ...
def update(
    tensors: Mapping[str, Any] | _Module,
    delta: Path,
    *,
    check_unchanged: bool = True,
    remote: _Remote = None,
    offline: bool | None = None,
) -> Updated: ...
def load_version(folder: Path, version: int | None = None) -> Model: ...
def follow(
    folder: Path,
    *,
    period: float = 1.0,
    into: Mapping[str, Any] | _Module | None = None,
) -> AsyncIterator[Version]: ...
def features() -> Features: ...
def select() -> Selection: ...
