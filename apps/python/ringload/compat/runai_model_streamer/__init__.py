# SPDX-License-Identifier: Apache-2.0
"""Replaces runai_model_streamer of the package runai-model-streamer.

    from ringload.compat.runai_model_streamer import SafetensorsStreamer

    with SafetensorsStreamer() as streamer:
        streamer.stream_files(paths, device="cpu")
        for name, tensor in streamer.get_tensors():
            ...

Engines import the package by its own name. `install()` gives this module that name, so call it
before you import an engine:

    from ringload.compat import runai_model_streamer

    runai_model_streamer.install()
    from vllm import LLM

Tensors arrive in any order, as in the package. The caller may keep each tensor, even with
owned=False.

These environment variables have the same effect as in the package: RUNAI_STREAMER_CONCURRENCY,
_CHUNK_BYTESIZE, _MEMORY_LIMIT, _RING_BUFFERS, _S3_ENDPOINT, _OVERRIDE_ENDPOINT_URL,
_S3_USE_VIRTUAL_ADDRESSING, _S3_UNSIGNED, _DIST, _DIST_GLOBAL and _DIST_TIMEOUT; and AWS_*, as
ringload reads them. The others have no effect.

Differences from the package: s3:// needs no other package, and gs:// and az:// are refused. For raw
ranges (FileStreamer, DistributedStreamer), each rank reads the ranges that it requests. With
is_distributed=True, SafetensorsStreamer reads each byte once per host, and refuses files with
tensors of the same name. If RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING is not set, the bucket is in
the path if an endpoint is set.
"""

import sys

from . import distributed_streamer, file_streamer, s3_utils, safetensors_pytorch
from . import safetensors_streamer as _streamer
from .distributed_streamer import DistributedStreamer
from .file_streamer import FileChunks, FileStreamer
from .safetensors_streamer import ObjectStorageModel, SafetensorsStreamer
from .safetensors_streamer import list_safetensors, pull_files

__all__ = [
    "DistributedStreamer",
    "FileChunks",
    "FileStreamer",
    "ObjectStorageModel",
    "SafetensorsStreamer",
    "install",
    "list_safetensors",
    "pull_files",
]

_name = "runai_model_streamer"
_modules = {
    "": sys.modules[__name__],
    ".distributed_streamer": distributed_streamer,
    ".distributed_streamer.distributed_streamer": distributed_streamer,
    ".file_streamer": file_streamer,
    ".file_streamer.file_streamer": file_streamer,
    ".file_streamer.requests_iterator": file_streamer,
    ".s3_utils": s3_utils,
    ".s3_utils.s3_utils": s3_utils,
    ".safetensors_streamer": _streamer,
    ".safetensors_streamer.safetensors_pytorch": safetensors_pytorch,
    ".safetensors_streamer.safetensors_streamer": _streamer,
}


def install() -> None:
    """Makes `import runai_model_streamer` return this module in this process.

    Raises RuntimeError if the package itself was imported before, because it may be in use.
    """
    found = sys.modules.get(_name)
    if found is not None and found is not _modules[""]:
        raise RuntimeError(
            f"{_name} is imported already, from {getattr(found, '__file__', None)}: call install() "
            "before anything imports it"
        )
    sys.modules.update({_name + ending: module for ending, module in _modules.items()})
    for ending, module in _modules.items():
        parent, _, name = ending.rpartition(".")
        if name:  # `import a.b as x` reads the attribute b of a.
            setattr(_modules[parent], name, module)
