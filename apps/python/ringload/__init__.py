# SPDX-License-Identifier: Apache-2.0
"""Loads tensor checkpoints from disk through io_uring, awaited or not.

    model = ringload.load("Qwen/Qwen3-8B")              # a mapping of names to tensors
    weight = model["model.norm.weight"].torch()         # the same memory, as PyTorch's

    async with ringload.Loader() as loader:
        model = await loader.load("model.safetensors")

Importing it makes nothing: no thread, no ring, no memory.
"""

from ._checkpoint import Checkpoint, StoredTensor
from ._core import Group, Model, Selection, Tensor
from ._core import version as __version__
from ._errors import (
    CancelledError,
    Error,
    InvalidFileError,
    OutOfMemoryError,
    RankFailedError,
    RemoteError,
    SourceNotFoundError,
    SystemCallError,
    TensorNotFoundError,
    UsageError,
)
from ._keeper import Keeper, attach
from ._load import Load, Stream
from ._loader import Loader
from ._operation import Operation
from ._ranks import GroupLoad, join_group, join_group_async, make_thread_ranks
from ._results import Filled, Saved
from ._tensor_info import TensorInfo

__all__ = [
    "CancelledError",
    "Checkpoint",
    "Error",
    "Filled",
    "Group",
    "GroupLoad",
    "InvalidFileError",
    "Keeper",
    "Load",
    "Loader",
    "Model",
    "Operation",
    "OutOfMemoryError",
    "RankFailedError",
    "RemoteError",
    "Saved",
    "Selection",
    "SourceNotFoundError",
    "StoredTensor",
    "Stream",
    "SystemCallError",
    "Tensor",
    "TensorInfo",
    "TensorNotFoundError",
    "UsageError",
    "attach",
    "features",
    "fill",
    "join_group",
    "join_group_async",
    "load",
    "open",
    "save",
    "select",
    "stream",
    "make_thread_ranks",
]


def load(
    source, device="cpu", dtype=None, select=None, progress=None, *,
    remote=False, hdf5=False, **options,
):  # fmt: skip
    """Loads a checkpoint and waits for it; Ctrl-C cancels it. See Loader.load."""
    with Loader(device, remote=remote, hdf5=hdf5) as loader:
        return loader.load(
            source, dtype=dtype, select=select, progress=progress, **options
        ).result()


def open(source, device="cpu", *, remote=False, hdf5=False, **options):
    """Opens a checkpoint, to read parts of it: `ck["wte.weight"][0:128]`. See Loader.open."""
    loader = Loader(device, remote=remote, hdf5=hdf5)
    try:
        checkpoint = loader.open(source, **options).result()
    except BaseException:
        loader.close()
        raise
    checkpoint._owned_loader = loader
    return checkpoint


def stream(source, device="cpu", window=None, *, remote=False, hdf5=False, **options):
    """(name, tensor) pairs as they land, through a window of memory. See Loader.stream."""
    with Loader(device, remote=remote, hdf5=hdf5) as loader:
        yield from loader.stream(source, window=window, **options)


def fill(source, tensors, device="cpu", *, remote=False, hdf5=False, **policies):
    """Fills tensors, or a module of PyTorch, and waits for it. See Loader.fill."""
    with Loader(device, remote=remote, hdf5=hdf5) as loader:
        return loader.fill(source, tensors, **policies).result()


def save(path, tensors, **options):
    """Saves tensors and waits for it. See Loader.save."""
    with Loader() as loader:
        return loader.save(path, tensors, **options).result()


def features():
    """What this build can do: a dictionary of "remote", "cuda", "hdf5", "zstd" and "deflate" to
    booleans, and of "version".

    remote: sources over the network. hdf5: Loader(hdf5=True). zstd and deflate: the codecs of .zt,
    NPZ and HDF5. cuda: the device "cuda:0"; whether there is a GPU is another question.
    """
    from . import _core

    names = ("remote", "cuda", "hdf5", "zstd", "deflate")
    return {"version": __version__, **{name: getattr(_core, "has_" + name) for name in names}}


def select():
    """A Selection of everything, to be narrowed: `ringload.select().matching("layers.0.*")`."""
    return Selection()


# Not collections.abc.Mapping itself as a base: Model is a class of C++.
def _register():
    from collections.abc import Mapping

    Mapping.register(Model)
    Mapping.register(Checkpoint)


_register()
del _register
