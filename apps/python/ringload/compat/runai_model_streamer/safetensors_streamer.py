# SPDX-License-Identifier: Apache-2.0
"""Streams tensors of safetensors files, and copies models from S3."""

import fcntl
import glob
import os
import shutil
from collections import Counter, deque
from typing import Any, Collection, Iterator, List, NamedTuple, Optional, Tuple

import torch

from ... import _core
from ..._convert import torch_of
from ..._errors import Error
from .._shared import has_direct
from . import _settings
from .distributed_streamer import DistributedStreamer, Ranks, reads_together, timeout_seconds
from .file_streamer import host_or_device
from .s3_utils import (
    S3Credentials,
    check_readable,
    is_object_path,
    is_s3_path,
    s3_glob,
    s3_pull_files,
    with_slash,
)
from .safetensors_pytorch import OpenFile, SafetensorMetadata, loader_for, open_files

__all__ = ["ObjectStorageModel", "SafetensorsStreamer", "list_safetensors", "pull_files"]

_pattern = "*.safetensors"
# The ranks of a host share this window. Each rank's part of a bucket is large enough for the drive.
_group_window_max = 2 << 30


def list_safetensors(path: str, s3_credentials: Optional[S3Credentials] = None) -> List[str]:
    """Returns the .safetensors files of a folder, without sub-folders."""
    check_readable(path)
    if is_s3_path(path):
        return s3_glob(path, [_pattern], s3_credentials)
    return glob.glob(os.path.join(path, _pattern))


def pull_files(
    model_path: str,
    dst: str,
    allow_pattern: Optional[List[str]] = None,
    ignore_pattern: Optional[List[str]] = None,
    s3_credentials: Optional[S3Credentials] = None,
) -> None:
    """Copies the objects of an S3 folder and its sub-folders to the folder `dst`."""
    check_readable(model_path)
    if not is_s3_path(model_path):
        raise NotImplementedError("pull files is not implemented for file system paths")
    s3_pull_files(model_path, dst, allow_pattern, ignore_pattern, s3_credentials)


class ObjectStorageModel:
    """A copy of a model's files in a folder, shared by all processes of a machine.

    The first process that creates this object makes the copy. The other processes wait for it. The
    folder counts as complete once a `with` block has ended without an error.
    """

    SENTINEL_NAME = ".runai_complete"

    def __init__(
        self, model_path: str, dst: str, s3_credentials: Optional[S3Credentials] = None
    ) -> None:
        if not is_object_path(model_path):
            raise ValueError(
                f"model_path {model_path!r} is not the address of a store, expected s3://"
            )
        check_readable(model_path)
        self.dir = dst.rstrip("/") or "/"
        self._model_path = with_slash(model_path)
        self._credentials = s3_credentials
        self._sentinel = os.path.join(self.dir, self.SENTINEL_NAME)
        self._lock: Any = open(self.dir + ".lock", "a")
        try:
            self._skip = self._find_or_clear()
        except BaseException:
            self._unlock()
            raise

    def _find_or_clear(self) -> bool:
        """Returns True if the copy is complete.

        Otherwise, this process holds the lock and copies.
        """
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        if os.path.exists(self._sentinel):
            return True
        # Two processes that both upgrade a shared lock would wait for each other.
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        if os.path.exists(self._sentinel):
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            return True
        shutil.rmtree(self.dir, ignore_errors=True)
        os.makedirs(self.dir, exist_ok=True)
        return False

    def _unlock(self) -> None:
        lock = getattr(self, "_lock", None)
        if lock is not None and not lock.closed:
            lock.close()  # Closing releases the lock.

    def pull_files(
        self,
        allow_pattern: Optional[List[str]] = None,
        ignore_pattern: Optional[List[str]] = None,
    ) -> None:
        if not self._skip:
            pull_files(
                self._model_path, self.dir, allow_pattern, ignore_pattern, self._credentials
            )

    def __enter__(self) -> "ObjectStorageModel":
        return self

    def __exit__(self, kind: Any, failure: Any, traceback: Any) -> bool:
        try:
            if kind is None and not self._skip:
                self._mark_complete()
        finally:
            self._unlock()
        return False

    def _mark_complete(self) -> None:
        if not set(os.listdir(self.dir)) - {self.SENTINEL_NAME}:
            raise RuntimeError(
                f"No files were downloaded to {self.dir!r}: verify that the model path is correct"
            )
        try:
            with open(self._sentinel, "w"):
                pass
        except OSError as failure:
            raise RuntimeError(
                f"Failed to write download sentinel {self._sentinel!r}: {failure}"
            ) from failure

    def __del__(self) -> None:
        self._unlock()


class _Batch(NamedTuple):
    """Tensors of one file that are read together."""

    checkpoint: Any
    names: List[str]


def _batches(files: List[OpenFile], kept: List[List[SafetensorMetadata]], bytes_max: int) -> Any:
    found: deque[_Batch] = deque()
    for file, tensors in zip(files, kept):
        names: List[str] = []
        held = 0
        for tensor in tensors:
            if names and held + tensor.get_bytesize() > bytes_max:
                found.append(_Batch(file.checkpoint, names))
                names, held = [], 0
            names.append(tensor.name)
            held += tensor.get_bytesize()
        if names:
            found.append(_Batch(file.checkpoint, names))
    return found


class SafetensorsStreamer:
    """Yields the tensors of safetensors files. Use it with `with`.

    files_to_tensors_metadata: the tensors of each file in file order, by the number of the file.
    total_size: the bytes of all streamed tensors.
    """

    def __init__(self) -> None:
        self.file_streamer = DistributedStreamer()
        self.files_to_tensors_metadata: dict[int, List[SafetensorMetadata]] = {}
        self.total_size = 0
        self.device_str: Any = None
        self._ranks = Ranks()
        self._loader: Any = None
        self._pairs: Any = None  # The state of the stream in progress.
        self._left = 0  # The number of its tensors that were not yielded yet.

    def __enter__(self) -> "SafetensorsStreamer":
        return self

    def __exit__(self, kind: Any, failure: Any, traceback: Any) -> None:
        self._drop()
        self._ranks.close(failed=kind is not None)

    def _drop(self) -> None:
        """Ends the stream in progress. No further read belongs to it."""
        pairs, self._pairs, self._left = self._pairs, None, 0
        if pairs is not None:
            pairs.close()
        loader, self._loader = self._loader, None
        if loader is not None:
            loader.close()

    def stream_file(
        self,
        path: str,
        s3_credentials: Optional[S3Credentials] = None,
        device: Any = "cpu",
        is_distributed: bool = False,
        tensor_names: Optional[Collection[str]] = None,
        owned: bool = True,
    ) -> None:
        self.stream_files([path], s3_credentials, device, is_distributed, tensor_names, owned)

    def stream_files(
        self,
        paths: List[str],
        s3_credentials: Optional[S3Credentials] = None,
        device: Any = "cpu",
        is_distributed: bool = False,
        tensor_names: Optional[Collection[str]] = None,
        owned: bool = True,
    ) -> None:
        """Begins to read. get_tensors() yields the tensors.

        tensor_names: reads only these tensors. Each must be in exactly one of the files.
        is_distributed: the ranks of this host read each byte once, and each rank gets all tensors.
        owned: has no effect, because the caller may always keep a tensor.
        """
        if isinstance(tensor_names, str):
            raise ValueError("tensor_names must be a collection of names, not a single str")
        if tensor_names is not None and not tensor_names:
            raise ValueError("tensor_names must not be empty - pass None to load every tensor")
        if self._left:
            raise ValueError(
                f"cannot start a new stream while {self._left} tensors of the previous one are "
                "left: consume or close get_tensors() first"
            )
        self._drop()
        paths = [os.fspath(path) for path in paths]
        target = host_or_device(device)
        self.device_str = device
        self.files_to_tensors_metadata, self.total_size = {}, 0
        landing = target if has_direct(target) else "cpu"
        self._loader = loader_for(paths, landing, s3_credentials)
        try:
            together = reads_together(is_distributed, target)
            try:
                files = open_files(self._loader, paths, s3_credentials)
            except ValueError:
                if together:  # An error here occurs on all ranks.
                    self._stream_together(paths, target, [], None, s3_credentials).close()
                raise
            kept = [_kept(file.tensors, tensor_names) for file in files]
            _check_names([tensor.name for file in kept for tensor in file], tensor_names)
            sizes = [tensor.get_bytesize() for file in kept for tensor in file]
            self.files_to_tensors_metadata = dict(enumerate(kept))
            self.total_size = sum(sizes)
            if together:
                self._pairs = self._stream_together(paths, target, sizes, kept, s3_credentials)
            else:
                self._pairs = self._stream_alone(files, kept, sizes, target)
                next(self._pairs)  # Runs until the first read is in flight.
            self._left = len(sizes)
        except BaseException:
            self._drop()
            raise

    def _stream_alone(
        self, files: Any, kept: Any, sizes: List[int], target: str
    ) -> Iterator[Optional[Tuple[str, torch.Tensor]]]:
        bytes_max, count = _settings.ring_of(sizes, _settings.memory_limit())
        waiting = _batches(files, kept, bytes_max)
        flying: deque[Any] = deque()

        def begin() -> None:
            while waiting and len(flying) < count:
                batch = waiting.popleft()
                chosen = _core.Selection().names(batch.names)
                flying.append(self._loader.start(batch.checkpoint, select=chosen))

        begin()
        yield None
        while flying:
            load = flying[0].result()
            while (tensor := load.next().result()) is not None:
                name, made = tensor.name, torch_of(tensor)
                del tensor
                yield name, made if str(made.device) == target else made.to(target)
                del made
            flying.popleft()
            begin()

    def _stream_together(
        self, paths: List[str], target: str, sizes: List[int], kept: Any, credentials: Any
    ) -> Any:
        from ...torch import stream

        group = self._ranks.group()
        limit = _settings.memory_limit()
        _settings.ring_of(sizes, limit)  # Refuses a limit below the size of the largest tensor.
        window = min(limit, _group_window_max) if limit > 0 else _group_window_max
        names = None if kept is None else {tensor.name for file in kept for tensor in file}
        remote = any(is_s3_path(path) for path in paths)
        return stream(
            paths,
            process_group=group,
            select=None if names is None else lambda info: info.name in names,
            device=target,
            window=window,
            timeout=float(timeout_seconds()),
            strictness="reference",
            remote=_settings.remote_options(credentials) if remote else False,
        )

    def get_tensors(self) -> Iterator[Tuple[str, torch.Tensor]]:
        """Yields (name, tensor) pairs in any order."""
        pairs = self._pairs
        if pairs is None:
            return
        try:
            for pair in pairs:
                self._left -= 1
                yield pair
                del pair
        except (Error, OSError) as failure:
            raise ValueError(f"Could not read a tensor: {failure}") from failure
        finally:
            if self._pairs is pairs:
                self._drop()


def _kept(
    tensors: List[SafetensorMetadata], names: Optional[Collection[str]]
) -> List[SafetensorMetadata]:
    if names is None:
        return tensors
    wanted = frozenset(names)
    return [tensor for tensor in tensors if tensor.name in wanted]


def _check_names(found: List[str], names: Optional[Collection[str]]) -> None:
    if names is None:
        return
    missing = set(names) - set(found)
    if missing:
        raise ValueError(f"tensor_names not found in checkpoint: {sorted(missing)}")
    twice = sorted(name for name, count in Counter(found).items() if count > 1)
    if twice:
        raise ValueError(
            f"tensor_names requested tensors that appear in more than one file: {twice}"
        )
