# SPDX-License-Identifier: Apache-2.0
"""In place of vajra, of the package vajra-streamer.

    from ringload.compat.vajra import StreamConfig, VajraStreamer

Other than there: models of the local Hugging Face cache, files and folders are loaded from there;
from the hub and from S3 where the module was built with remote sources. Tensors own their memory
and may outlive the block; every type that PyTorch has is a tensor; leaving the program ends it as
any other ends.
"""

from dataclasses import dataclass
from typing import Optional

from .. import Error, Loader, OutOfMemoryError, RemoteError, SourceNotFoundError, _core


@dataclass
class StreamConfig:
    """chunk_size_mb and chunk_workers bound the loader's buffers; the rest has no meaning here."""

    auth_token: str = ""
    chunk_size_mb: int = 64
    chunk_workers: int = 16
    gpu_workers: int = 3
    disable_cache: bool = False
    log_level: int = 4
    channel_capacity: int = 0


def _limits(config):
    # The largest power of two that is no larger, of what a buffer may have.
    chunk = max(1, min(int(config.chunk_size_mb), 64))
    return {
        "slot_bytes": (1 << 20) << (chunk.bit_length() - 1),
        "slots": max(1, min(int(config.chunk_workers), 1024)),
    }


class VajraStreamer:
    """Loads whole models to the GPU, or to the host where there is none or it is asked for."""

    def __init__(self, config: Optional[StreamConfig] = None, device: Optional[str] = None):
        self.config = config or StreamConfig()
        self._device = device
        self._loader = None

    @staticmethod
    def pause_vram_tracking():
        """Nothing is tracked here."""

    @staticmethod
    def resume_vram_tracking():
        """Nothing is tracked here."""

    def _open(self):
        if self._loader is None:
            import torch

            device = self._device
            if device is None:
                device = "cuda:0" if _core.has_cuda and torch.cuda.is_available() else "cpu"
            remote = {"token": self.config.auth_token or None} if _core.has_remote else False
            self._loader = Loader(device, remote=remote, **_limits(self.config))
        return self._loader

    def load(self, url):
        """{name: tensor} of a model's name or its page's address, a file or a folder."""
        # Past the page cache, as a fresh load is that is to be measured.
        options = {"route": "direct"} if self.config.disable_cache else {}
        try:
            return self._open().load(url, **options).result().torch()
        except (RemoteError, SourceNotFoundError) as failure:
            raise ConnectionError(str(failure)) from failure
        except OutOfMemoryError:
            raise
        except Error as failure:
            raise RuntimeError(str(failure)) from failure

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        if self._loader is not None:
            self._loader.close()
        self._loader = None
