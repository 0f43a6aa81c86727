# SPDX-License-Identifier: Apache-2.0
"""Replaces vajra of the package vajra-streamer.

    from ringload.compat.vajra import StreamConfig, VajraStreamer

Differences from the package: models of the local Hugging Face cache, files and folders are loaded
locally. The hub and S3 are read if the module was built with network sources. Tensors own their
memory and may outlive the block. A type that this PyTorch lacks raises RuntimeError before the
first read, and no raw object replaces the tensor. The program ends like any other program.

A folder without an index is loaded with all .safetensors files in it and in its sub-folders. Where
an index exists, the files that it names are loaded.

These have no effect: pause_vram_tracking and resume_vram_tracking, because no allocation is
tracked; StreamConfig.gpu_workers, because each GPU has two streams for each direction;
StreamConfig.log_level, because nothing is logged; and StreamConfig.channel_capacity.
"""

import os
import pathlib
from dataclasses import dataclass
from typing import Any, Optional

from .. import (
    Error,
    InvalidFileError,
    Loader,
    OutOfMemoryError,
    RemoteError,
    SourceNotFoundError,
    UsageError,
    _convert,
    _core,
)

_as_bytes = ("f6_e2m3", "f6_e3m2")


@dataclass
class StreamConfig:
    """Settings. chunk_size_mb and chunk_workers limit the loader's buffers, auth_token is sent to
    the hub, and disable_cache bypasses the page cache. The other settings have no effect.
    """

    auth_token: str = ""
    chunk_size_mb: int = 64
    chunk_workers: int = 16
    gpu_workers: int = 3
    disable_cache: bool = False
    log_level: int = 4
    channel_capacity: int = 0


def _limits(config):
    # The largest power of two up to the allowed size of a buffer.
    chunk = max(1, min(int(config.chunk_size_mb), 64))
    return {
        "slot_bytes": (1 << 20) << (chunk.bit_length() - 1),
        "slots": max(1, min(int(config.chunk_workers), 1024)),
    }


def _files_of(source):
    """Returns all files of a folder without an index, or else the source itself."""
    if not os.path.isdir(source):
        return source
    folder = pathlib.Path(source)
    files = sorted(str(path) for path in folder.rglob("*.safetensors"))
    has_index = any(folder.glob("*.safetensors.index.json"))
    return source if has_index or len(files) < 2 else files


def _opened(loader, source):
    source = _files_of(source)
    try:
        return loader.open(source).result()
    except (SourceNotFoundError, InvalidFileError, UsageError) as failure:
        first = failure
    # A model of the hub or of its cache may have several files without an index, also in sub-
    # folders.
    try:
        return loader.open(source, independent_files=True).result()
    except (Error, OSError):
        raise first from None


def _check_types(checkpoint):
    """Raises RuntimeError for a tensor whose type PyTorch lacks."""
    for info in checkpoint.infos():
        if info.dtype in _as_bytes:
            continue
        try:
            _convert.torch_dtype(info.dtype)
        except TypeError as failure:
            raise RuntimeError(f"tensor '{info.name}': {failure}") from None


class VajraStreamer:
    """Loads whole models to the GPU, or to the host without a GPU or on request."""

    def __init__(self, config: Optional[StreamConfig] = None, device: Optional[str] = None) -> None:
        self.config = config or StreamConfig()
        self._device = device
        self._loader = None

    @staticmethod
    def pause_vram_tracking() -> None:
        """Has no effect: no allocation is tracked."""

    @staticmethod
    def resume_vram_tracking() -> None:
        """Has no effect: no allocation is tracked."""

    def _open(self):
        if self._loader is None:
            import torch

            device = self._device
            if device is None:
                device = "cuda:0" if _core.has_cuda and torch.cuda.is_available() else "cpu"
            remote = {"token": self.config.auth_token or None} if _core.has_remote else False
            self._loader = Loader(device, remote=remote, **_limits(self.config))
        return self._loader

    def load(self, url: str) -> dict[str, Any]:
        """Returns {name: tensor} for a model name, the address of its page, a file or a folder."""
        # Bypasses the page cache, because a benchmark measures a cold load.
        options = {"route": "direct"} if self.config.disable_cache else {}
        try:
            loader = self._open()
            checkpoint = _opened(loader, url)
            _check_types(checkpoint)
            return loader.load(checkpoint, **options).result().torch()
        except (RemoteError, SourceNotFoundError) as failure:
            raise ConnectionError(str(failure)) from failure
        except OutOfMemoryError:
            raise
        except Error as failure:
            raise RuntimeError(str(failure)) from failure

    def __enter__(self) -> "VajraStreamer":
        return self

    def __exit__(self, *failure: object) -> None:
        if self._loader is not None:
            self._loader.close()
        self._loader = None
