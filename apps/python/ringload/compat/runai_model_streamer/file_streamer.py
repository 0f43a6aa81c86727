# SPDX-License-Identifier: Apache-2.0
"""Reads byte ranges of any files with several threads, in the order of arrival."""

import concurrent.futures
import os
from collections import deque
from typing import Any, Iterator, List, Optional, Tuple

import torch

from ..._errors import Error
from . import _settings
from ._settings import RunaiStreamerMemoryLimitException
from .s3_utils import (
    S3Credentials,
    check_readable,
    filter_allow,
    filter_ignore,
    folder_of,
    is_azure_path,
    is_gs_path,
    is_s3_path,
    read_bytes,
    with_slash,
)

__all__ = [
    "FileChunks",
    "FileStreamer",
    "RunaiStreamerInvalidInputException",
    "RunaiStreamerMemoryLimitException",
    "homogeneous_paths",
    "host_or_device",
]


class RunaiStreamerInvalidInputException(Exception):
    """An invalid argument: a device, or paths of several kinds."""


def host_or_device(device: Any) -> str:
    """Returns the name of the device. The host is "cpu" in every spelling."""
    if device is None:
        return "cpu"
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as failure:
        raise RunaiStreamerInvalidInputException(f"Unusable device {device!r}: {failure}") from None
    return "cpu" if found.type == "cpu" else str(device)


def homogeneous_paths(paths: List[str]) -> bool:
    """Returns True if all paths are of one store, or all are of the file system."""
    kinds = {(is_s3_path(path), is_gs_path(path), is_azure_path(path)) for path in paths}
    return len(kinds) < 2


def check_paths(paths: List[str]) -> None:
    if not homogeneous_paths(paths):
        raise RunaiStreamerInvalidInputException(
            "Cannot stream files from multiple source types in parallel"
        )
    for path in paths:
        check_readable(path)


class FileChunks:
    """A file and its ranges: parallel lists of offsets and sizes."""

    def __init__(self, id: int, path: str, offsets: List[int], sizes: List[int]) -> None:
        if len(offsets) != len(sizes):
            raise ValueError(
                f"{path}: {len(offsets)} offsets and {len(sizes)} sizes, expected as many of each"
            )
        self.id = id
        self.path = path
        self.offsets = offsets
        self.sizes = sizes

    @staticmethod
    def contiguous(id: int, path: str, offset: int, sizes: List[int]) -> "FileChunks":
        """Returns contiguous ranges of these sizes."""
        offsets = []
        for size in sizes:
            offsets.append(offset)
            offset += size
        return FileChunks(id, path, offsets, sizes)

    def total_size(self) -> int:
        return sum(self.sizes)

    def max_chunk_size(self) -> int:
        return max(self.sizes)

    def __repr__(self) -> str:
        return f"FileChunks(id={self.id!r}, path={self.path!r}, {len(self.sizes)} ranges)"


def _check_ranges(request: FileChunks) -> None:
    for offset, size in zip(request.offsets, request.sizes):
        if not (0 <= offset < 1 << 64 and 0 <= size < 1 << 64):
            raise ValueError(
                f"{request.path}: a range of {size} bytes at byte {offset}: expected an offset and "
                "a size from 0 to 2**64 - 1"
            )


def _read_file(path: str, offset: int, into: memoryview) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        done = 0
        while done < len(into):
            count = os.preadv(file, [into[done:]], offset + done)
            if count == 0:
                raise ValueError(f"{path}: the file ends at byte {offset + done}, within the range")
            done += count
    finally:
        os.close(file)


def _read_object(found: Any, offset: int, into: memoryview) -> None:
    for done in range(0, len(into), read_bytes):
        count = min(read_bytes, len(into) - done)
        into[done : done + count] = found.read(offset + done, count)


class FileStreamer:
    """Reads ranges of files. Use it with `with`."""

    def __init__(self) -> None:
        self._threads: Any = None
        self._waiting: deque[Tuple[int, int, str, int, int]] = deque()
        self._reading: dict[Any, Tuple[int, int, torch.Tensor]] = {}
        self._bytes_max = -1
        self._objects: dict[str, Any] = {}
        self.device_str = "cpu"

    def __enter__(self) -> "FileStreamer":
        self._threads = concurrent.futures.ThreadPoolExecutor(_settings.threads())
        return self

    def __exit__(self, *failure: object) -> None:
        if self._threads is not None:
            self._drop()
            self._threads.shutdown()
            self._threads = None

    def list_files(
        self,
        prefix: str,
        is_recursive: bool = True,
        allow_patterns: Optional[List[str]] = None,
        ignore_patterns: Optional[List[str]] = None,
    ) -> List[Tuple[str, int]]:
        """Returns (path, bytes) of the files in a folder. The folder must exist."""
        check_readable(prefix)
        found = _listed_objects(prefix) if is_s3_path(prefix) else _listed_files(prefix)
        within = len(with_slash(prefix))
        paths = [path for path in found if is_recursive or "/" not in path[within:]]
        if allow_patterns:
            paths = filter_allow(paths, allow_patterns)
        if ignore_patterns:
            paths = filter_ignore(paths, ignore_patterns)
        return [(path, found[path]) for path in paths]

    def stream_files(
        self,
        file_stream_requests: List[FileChunks],
        credentials: Optional[S3Credentials] = None,
        device: Any = "cpu",
        memory_limit: Optional[int] = None,
        owned: bool = True,
    ) -> None:
        """Begins to read. get_chunks() yields the ranges."""
        if self._threads is None:
            raise ValueError("Streamer not initialized")
        left = len(self._waiting) + len(self._reading)
        if left:
            raise ValueError(f"cannot start a new stream while {left} ranges of another are left")
        check_paths([request.path for request in file_stream_requests])
        for request in file_stream_requests:
            _check_ranges(request)
        self.device_str = host_or_device(device)
        sizes = [size for request in file_stream_requests for size in request.sizes]
        limit = _settings.memory_limit() if memory_limit is None else memory_limit
        buffer_bytes, buffers = _settings.ring_of(sizes, limit)
        self._bytes_max = buffer_bytes * buffers
        self._open_objects(file_stream_requests, credentials)
        for request in file_stream_requests:
            for index, (offset, size) in enumerate(zip(request.offsets, request.sizes)):
                self._waiting.append((request.id, index, request.path, offset, size))
        self._begin_reads()

    def _open_objects(self, requests: List[FileChunks], credentials: Any) -> None:
        self._objects = {}
        folders: dict[str, Any] = {}
        try:
            for request in requests:
                if not is_s3_path(request.path):
                    continue
                folder, _, name = request.path.rpartition("/")
                if folder not in folders:
                    folders[folder] = folder_of(folder + "/", credentials)
                self._objects[request.path] = folders[folder].open(name)
        except (Error, OSError) as failure:
            raise ValueError(str(failure)) from failure

    def _begin_reads(self) -> None:
        flying = sum(tensor.numel() for _, _, tensor in self._reading.values())
        while self._waiting:
            id, index, path, offset, size = self._waiting[0]
            if self._reading and flying + size > self._bytes_max:
                return
            self._waiting.popleft()
            flying += size
            tensor = torch.empty(size, dtype=torch.uint8)
            into = memoryview(tensor.numpy())
            found = self._objects.get(path)
            if found is None:
                future = self._threads.submit(_read_file, path, offset, into)
            else:
                future = self._threads.submit(_read_object, found, offset, into)
            self._reading[future] = (id, index, tensor)

    def _drop(self) -> None:
        """Ends the stream. After that, no thread writes into its memory."""
        self._waiting.clear()
        for future in self._reading:
            future.cancel()
        concurrent.futures.wait(self._reading)
        self._reading.clear()

    def get_chunks(self) -> Iterator[Tuple[int, int, torch.Tensor]]:
        """Yields (id of the FileChunks, number of the range, its bytes with shape (1, size))."""
        if self._threads is None:
            raise ValueError("Streamer not initialized")
        try:
            while self._reading:
                first = concurrent.futures.FIRST_COMPLETED
                done, _ = concurrent.futures.wait(self._reading, return_when=first)
                for future in done:
                    failure = future.exception()
                    if failure is not None:
                        raise ValueError(f"Could not read a range: {failure}") from failure
                    id, index, tensor = self._reading.pop(future)
                    view = tensor.view(1, -1)
                    del tensor
                    yield id, index, view if self.device_str == "cpu" else view.to(self.device_str)
                    del view
                self._begin_reads()
        finally:
            if self._threads is not None:
                self._drop()


def _listed_files(prefix: str) -> dict[str, int]:
    if not os.path.isdir(prefix):
        raise ValueError(f"Could not list '{prefix}': no folder has this name")
    found = {}
    for folder, _, names in os.walk(prefix):
        for name in names:
            path = os.path.join(folder, name)
            found[path] = os.path.getsize(path)
    return found


def _listed_objects(prefix: str) -> dict[str, int]:
    address = with_slash(prefix)
    folder = folder_of(address)
    return {address + name: folder.open(name).nbytes for name in folder.names()}
