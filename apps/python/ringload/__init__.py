# SPDX-License-Identifier: Apache-2.0
"""Loads tensor checkpoints from disk through io_uring. Operations can be awaited.

    model = ringload.load("Qwen/Qwen3-8B")              # a mapping of names to tensors
    weight = model["model.norm.weight"].torch()         # the same memory, as PyTorch's

    async with ringload.Loader() as loader:
        model = await loader.load("model.safetensors")

The import of the package starts no thread, creates no ring and allocates no memory.
"""

from ._checkpoint import Checkpoint, StoredTensor
from ._core import Group, KeptVersion, Model, Selection, Tensor
from ._core import version as __version__
from ._deltas import SavedDelta, Updated, Version
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
from ._keeper import Keeper, attach, attach_next, attach_versions, served_version
from ._load import Load, Stream
from ._loader import Loader
from ._names import is_optional_bool
from ._operation import Operation, waited_for
from ._ranks import (
    GroupLoad,
    join_group,
    join_group_async,
    make_thread_ranks,
    nccl_group,
    nccl_group_async,
)
from ._results import Filled, Saved
from ._shared_loader import is_small, shared_loader
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
    "KeptVersion",
    "Load",
    "Loader",
    "Model",
    "Operation",
    "OutOfMemoryError",
    "RankFailedError",
    "RemoteError",
    "Saved",
    "SavedDelta",
    "Selection",
    "SourceNotFoundError",
    "StoredTensor",
    "Stream",
    "SystemCallError",
    "Tensor",
    "TensorInfo",
    "TensorNotFoundError",
    "UsageError",
    "Updated",
    "Version",
    "attach",
    "attach_next",
    "attach_versions",
    "features",
    "fill",
    "follow",
    "join_group",
    "join_group_async",
    "load",
    "load_into",
    "load_version",
    "open",
    "save",
    "save_delta",
    "select",
    "served_version",
    "stream",
    "make_thread_ranks",
    "nccl_group",
    "nccl_group_async",
    "update",
]


def load(
    source, device="cpu", dtype=None, select=None, progress=None, *,
    remote=None, offline=None, hdf5=None, **options,
):  # fmt: skip
    """Loads a checkpoint and waits for it; Ctrl-C cancels it. See Loader and Loader.load.

    A model "owner/model" that the local cache lacks is downloaded from the hub into the cache.
    """
    options.update(dtype=dtype, select=select, progress=progress)
    # The shared loader ignores network settings, so it is used only if there are none to validate.
    is_plain = hdf5 is None and (remote is None or remote is False)
    if device == "cpu" and is_plain and is_optional_bool(offline) and is_small(source):
        with shared_loader() as loader:
            return waited_for(loader.load(source, **options))
    with Loader(device, remote=remote, offline=offline, hdf5=hdf5) as loader:
        return loader.load(source, **options).result()


def open(source, device="cpu", *, remote=None, offline=None, hdf5=None, **options):
    """Opens a checkpoint, so that parts of it can be read:

    `ck["wte.weight"][0:128]`. See Loader.open.
    """
    loader = Loader(device, remote=remote, offline=offline, hdf5=hdf5)
    try:
        checkpoint = loader.open(source, **options).result()
    except BaseException:
        loader.close()
        raise
    checkpoint._owned_loader = loader
    return checkpoint


def stream(
    source, device="cpu", window=None, *, remote=None, offline=None, hdf5=None, **options
):  # fmt: skip
    """Yields (name, tensor) pairs as tensors arrive, through a memory window. See Loader.stream."""
    with Loader(device, remote=remote, offline=offline, hdf5=hdf5) as loader:
        yield from loader.stream(source, window=window, **options)


def fill(
    source, tensors, device="cpu", *, remote=None, offline=None, hdf5=None, **policies
):  # fmt: skip
    """Fills tensors, or a PyTorch module, and waits for the end. See Loader.fill."""
    with Loader(device, remote=remote, offline=offline, hdf5=hdf5) as loader:
        return loader.fill(source, tensors, **policies).result()


def load_into(
    module, source, *, strict=True, device=None, remote=None, offline=None, hdf5=None, **policies
):  # fmt: skip
    """Loads `source` into a PyTorch module, as load_state_dict() does, and waits for the end.

    Parameters, persistent buffers and tied weights are filled in place. Tensors on the device
    "meta" get memory and stay tied. Types are converted. Returns a Filled.

    strict: a name that only the module or only the checkpoint has is an error; False reports such
        names.
    device: the device of the module's tensors. None: the device of the first tensor that has
        memory, or else the host. "cuda" means the current GPU of PyTorch.
    policies: the policies of fill(), which have precedence over `strict`.
    """
    from ._destinations import require_none_left_out
    from ._module import ModuleTensors

    found = "error" if strict else "report"
    given = {name: value for name, value in policies.items() if value is not None}
    policies = {"missing": found, "unexpected": found, "dtype": "convert", **given}
    memory = ModuleTensors(module, device)
    if policies["missing"] != "report":
        require_none_left_out(memory.left_out)
    done = fill(
        source, memory.destinations(), memory.device, remote=remote, offline=offline, hdf5=hdf5,
        **policies,
    )  # fmt: skip
    memory.assign(set(done.missing))
    return done._replace(missing=done.missing + memory.left_out)


def save(path, tensors, *, remote=None, offline=None, **options):
    """Saves tensors and waits for the end. See Loader.save."""
    with Loader(remote=remote, offline=offline) as loader:
        return loader.save(path, tensors, **options).result()


def save_delta(path, base, next, *, remote=None, offline=None, hdf5=None, **options):
    """Writes the delta from `base` to `next` and waits for the end. See Loader.save_delta."""
    with Loader(remote=remote, offline=offline, hdf5=hdf5) as loader:
        return waited_for(loader.save_delta(path, base, next, **options))


def update(tensors, delta, *, check_unchanged=True, remote=None, offline=None):
    """Updates tensors in place to the next version and waits for the end. See Loader.update."""
    with Loader(remote=remote, offline=offline) as loader:
        return waited_for(loader.update(tensors, delta, check_unchanged=check_unchanged))


def load_version(folder, version=None):
    """Loads a version of a version folder and waits for the end. See Loader.load_version."""
    with Loader(remote=False) as loader:
        return waited_for(loader.load_version(folder, version))


async def follow(folder, *, period=1.0, into=None):
    """Yields the versions of a folder as they appear, with its own Loader. See Loader.follow."""
    async with Loader(remote=False) as loader:
        async for version in loader.follow(folder, period=period, into=into):
            yield version


def features():
    """Returns the features of this build: a dictionary of "remote", "cuda", "hdf5", "zstd" and
    "deflate" to booleans, and of "version" to a text.

    remote: network sources. hdf5: HDF5 files. zstd and deflate: the codecs of .zt, NPZ and HDF5.
    cuda: the devices "cuda:N", even if this machine has no GPU.
    """
    from . import _core

    names = ("remote", "cuda", "hdf5", "zstd", "deflate")
    return {"version": __version__, **{name: getattr(_core, "has_" + name) for name in names}}


def select():
    """Returns a Selection of all tensors, to be narrowed:

    `ringload.select().matching("layers.0.*")`.
    """
    return Selection()


# Model is a C++ class, so collections.abc.Mapping cannot be its base.
def _register():
    from collections.abc import Mapping

    Mapping.register(Model)
    Mapping.register(Checkpoint)


_register()
del _register
