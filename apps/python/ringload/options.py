# SPDX-License-Identifier: Apache-2.0
"""Types of options, for programs that pass dictionaries: `load(path, **options)`.

apps/python/OPTIONS.md describes each option and its values.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict

if TYPE_CHECKING:
    from . import Selection, TensorInfo

Path: TypeAlias = "str | os.PathLike[str]"
Size: TypeAlias = "int | str"  # A number of bytes, or a text such as "2GiB".
Select: TypeAlias = "str | Iterable[str] | Selection | Callable[[TensorInfo], bool]"
Strictness: TypeAlias = Literal["strict", "reference"]
Route: TypeAlias = Literal["automatic", "direct", "buffered"]
Allocation: TypeAlias = Literal["per_load", "per_file", "per_tensor"]
Verify: TypeAlias = "Literal['if_present', 'require'] | Path | Mapping[str, str]"
Digest: TypeAlias = Literal["crc32c", "sha256"]


class Bar(Protocol):
    """A bar of tqdm, or an object with the same interface."""

    total: Any

    def update(self, n: Any = ..., /) -> object: ...


Progress: TypeAlias = "bool | Callable[[dict[str, Any]], object] | Bar | type[Bar]"


class LoaderOptions(TypedDict, total=False):
    """Limits of a Loader."""

    slots: int
    slot_bytes: Size
    bytes_in_flight: Size
    bytes_per_second_max: Size
    arena_bytes_max: Size
    cached_bytes: Size
    copy_threads: int
    reader_threads: int
    engine: Literal["automatic", "ring", "threads"]
    huge_pages: Literal["transparent", "reserved", "none"]
    gpu_direct: Literal["off", "automatic", "required"]
    peer_copies: bool
    stop_seconds_max: float


class RemoteOptions(TypedDict, total=False):
    """Settings of network sources: the option `remote`."""

    token: str | bool | Callable[[], str | None] | None
    endpoint: str | None
    cache: Literal["off", "read", "fill"] | None
    cache_folder: str | None
    on_cached: Callable[[dict[str, Any]], object] | None
    anonymous: bool
    access_key_id: str | None
    secret_access_key: str | None
    session_token: str | None
    credentials: Callable[[], Any] | None
    boto3_session: Any
    aws_profile: str | None
    region: str | None
    s3_endpoint: str | None
    path_style: bool | None
    gs_endpoint: str | None
    gs_access_key_id: str | None
    gs_secret_access_key: str | None
    azure_endpoint: str | None
    azure_sas_token: str | None
    proxy: str | None
    no_proxy: Sequence[str] | None
    ca_file: str | None
    hosts: Sequence[str] | None
    private_redirects: bool | None
    redirects_max: int | None
    connections: int | None
    chunk_bytes: Size | None
    whole_bytes_max: Size | None
    threads: int | None
    connect_seconds_max: float | None
    silence_seconds_max: float | None
    stall_seconds_max: float | None
    request_seconds_max: float | None
    tries_max: int | None
    retry_seconds: float | None
    retry_seconds_max: float | None
    offline: bool | None


class OpenOptions(TypedDict, total=False):
    """Options of open()."""

    strictness: Strictness | None
    independent_files: bool | None
    nameless: Sequence[Any] | None


class GroupLoadOptions(TypedDict, total=False):
    """Options of Loader.group_load()."""

    strictness: Strictness | None
    nameless: Sequence[Any] | None
    route: Route | None
    allocation: Allocation | None
    verify: Verify | None


class FillLoadOptions(GroupLoadOptions, total=False):
    """The options that fills and loads share."""


class LoadOptions(GroupLoadOptions, total=False):
    """Options of load(), except dtype, select and progress."""

    memory: Literal["owned", "mapped"] | None
    access: Literal["read_only", "copy_on_write"] | None
    unmappable: Literal["refuse", "copy"] | None
    populate: bool | None
    tensor_alignment: int | None


class CheckpointLoadOptions(LoadOptions, total=False):
    """Options of Checkpoint.load()."""

    dtype: Any


class StartOptions(LoadOptions, total=False):
    """Options of Loader.start()."""


class StreamOptions(LoadOptions, total=False):
    """Options of stream()."""

    dtype: Any
    select: Select | None


class FillOptions(FillLoadOptions, total=False):
    """Options of fill() and load_into()."""

    missing: Literal["error", "report"] | None
    unexpected: Literal["ignore", "report", "error"] | None
    dtype: Literal["exact", "convert"] | None
    shape: Literal["exact", "broadcast"] | None
    select: Select | None


class SaveOptions(TypedDict, total=False):
    """Options of Loader.save(), except progress."""

    metadata: Mapping[str, Any] | None
    dtype: Any
    shard_bytes: Size | None
    shard_count: int | None
    alignment: int | None
    order: Literal["reference", "given"] | None
    format: Literal["by_name", "safetensors", "zt"] | None
    replace: bool | None
    sync: bool | None
    read_back: bool | None
    digest: Digest | None
    zstd_level: int | None


class SaveFunctionOptions(SaveOptions, total=False):
    """Options of save()."""

    progress: Progress | None
    remote: bool | RemoteOptions | None
    offline: bool | None


class Features(TypedDict):
    """The result of features()."""

    version: str
    remote: bool
    cuda: bool
    hdf5: bool
    zstd: bool
    deflate: bool
