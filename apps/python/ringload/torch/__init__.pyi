# SPDX-License-Identifier: Apache-2.0
"""Loads one checkpoint on all ranks of a torch.distributed process group."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeAlias, TypedDict

import torch as _torch  # type: ignore[import-not-found, unused-ignore]
from typing_extensions import Self, Unpack

from .. import TensorInfo
from ..options import Path, RemoteOptions, Size

_Value: TypeAlias = str | int | Sequence[Any] | object | None
_Plan: TypeAlias = _Value | Mapping[str, _Value] | Callable[[TensorInfo], _Value]

class _StreamOptions(TypedDict, total=False):
    dtype: Any
    select: str | Iterable[str] | Callable[[TensorInfo], bool] | None
    device: Any
    transport: Literal["automatic", "group", "shared_memory"]
    memory: Literal["owned", "mapped"]
    window: Size
    timeout: float
    remote: bool | RemoteOptions | None
    offline: bool | None
    hdf5: bool | None
    route: Literal["automatic", "direct", "buffered"] | None
    strictness: Literal["strict", "reference"] | None
    nameless: Sequence[Any] | None

class _Stats(TypedDict):
    transport: str
    buckets: int
    bytes: int

class Stream:
    """(name, tensor) pairs of a load by several ranks, by `for`."""

    nbytes: int
    stats: _Stats
    def close(self) -> None: ...
    def __iter__(self) -> Iterator[tuple[str, _torch.Tensor]]: ...
    def __next__(self) -> tuple[str, _torch.Tensor]: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

def load(
    source: Path | Sequence[Path],
    *,
    process_group: Any,
    plan: _Plan = None,
    **options: Unpack[_StreamOptions],
) -> dict[str, _torch.Tensor]: ...
def stream(
    source: Path | Sequence[Path],
    *,
    process_group: Any,
    plan: _Plan = None,
    **options: Unpack[_StreamOptions],
) -> Stream: ...
def load_shards(
    folder: Path,
    *,
    saved: _Plan = None,
    plan: _Plan = None,
    rank: int = 0,
    ranks: int = 1,
    select: str | Iterable[str] | Callable[[TensorInfo], bool] | None = None,
    dtype: Any = None,
    device: Any = "cpu",
    remote: bool | RemoteOptions | None = None,
    offline: bool | None = None,
    route: Literal["automatic", "direct", "buffered"] | None = None,
    strictness: Literal["strict", "reference"] | None = None,
) -> dict[str, _torch.Tensor]: ...
