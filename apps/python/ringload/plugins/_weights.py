# SPDX-License-Identifier: Apache-2.0
"""Code that both engines share: (name, tensor) pairs of a model's files, in bounded memory."""

import contextlib
import inspect
import re
import time
import warnings

from .. import Error, Loader, OutOfMemoryError, _core
from .._convert import indexed, torch_of
from .._errors import usage
from .._names import optional_bool, size

_expert = re.compile(r"\.experts\.(\d+)\.")
_own_keys = ("window", "device", "distributed", "remote")
_schemes = ("s3://", "hf://", "http://", "https://")
default_window = "2GiB"

# The longest wait for memory of a full window. An engine whose threads copy tensors is faster.
patience_seconds = 1.0
_retry_seconds = 0.002
# On a GPU, a window takes its memory in pages of 2 MiB. Small tensors lie together
# in groups of a sixteenth of the window.
_rounding_bytes = 4 << 20
_groups = 16


def split_config(extra):
    """Splits the loader's extra configuration into our options and the engine's options."""
    extra = dict(extra or {})
    ours = {key: extra.pop(key) for key in _own_keys if key in extra}
    extra.pop("ringload", None)
    return ours, extra


def target_device(ours):
    """Returns the device of the window.

    The default is PyTorch's current GPU, or "cpu" without a GPU. "cuda" means the current GPU.
    """
    import torch

    has_gpu = _core.has_cuda and torch.cuda.is_available()
    return indexed(ours.get("device", "cuda" if has_gpu else "cpu"))


def called_by_names(function, **known):
    """Calls the function with the arguments that its version has."""
    names = inspect.signature(function).parameters
    return function(**{name: value for name, value in known.items() if name in names})


def weights_of(loader, ours, group_module, files, keep=None):
    """Yields the (name, tensor) pairs that the engine requests, as configured."""
    shows = shows_progress(loader.load_config)
    group = tensor_parallel_group(ours, group_module)
    if group is not None:
        return group_pairs(files, ours, group, keep, shows)
    return pairs(files, ours, keep, shows)


def files_of(loader, source):
    """Returns the files that the engine's own loader finds, or downloads, for a source."""
    return called_by_names(
        loader._prepare_weights,
        model_name_or_path=source.model_or_path,
        subfolder=getattr(source, "subfolder", None),
        revision=source.revision,
        fall_back_to_pt=source.fall_back_to_pt,
        allow_patterns_overrides=getattr(source, "allow_patterns_overrides", None),
    )


def keeps(local_experts=None, is_unused=None):
    """Returns a predicate of the yielded names, or None for all names."""
    if local_experts is None and is_unused is None:
        return None

    def keep(name):
        expert = _expert.search(name)
        if local_experts is not None and expert and int(expert.group(1)) not in local_experts:
            return False
        return is_unused is None or not is_unused(name)

    return keep


def shows_progress(load_config):
    """Returns True if the engine would show a progress bar in this process."""
    if not getattr(load_config, "use_tqdm_on_load", True):
        return False
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return True
    return distributed.get_rank() == 0


def is_address(source):
    return str(source).startswith(_schemes)


def address_of(source):
    """Returns the address of a source of the engine, with the revision that the engine requests.

    Raises UsageError for a request that an address cannot contain.
    """
    address = str(source.model_or_path)
    for name in ("subfolder", "allow_patterns_overrides"):
        if getattr(source, name, None):
            raise usage(f"{address}: {name} cannot be used with an address")
    revision = source.revision
    if not revision:
        return address
    scheme, _, model = address.partition("://")
    model, mark, own_revision = model.partition("@")
    if scheme != "hf" or model.strip("/").count("/") > 1 or (mark and own_revision != revision):
        raise usage(
            f"{address}: the revision '{revision}' cannot be used with this address, only with "
            "hf://owner/model"
        )
    return f"hf://{model.strip('/')}@{revision.replace('/', '%2F')}"


def own_loader_reads(load_config):
    """Returns True if only the engine's own loader supports this way of reading."""
    return getattr(load_config, "safetensors_load_strategy", None) == "torchao"


def is_readable(files):
    """Returns True if ringload can read these PyTorch files, which may contain any objects."""
    with Loader("cpu", remote=False) as loader:
        try:
            loader.open(list(files)).result()
        except Error:  # The engine's own loader reads the files, or reports the error.
            return False
    return True


def tensor_parallel_group(ours, module):
    """Returns the group of ranks that read together, or None. "distributed" means the same as in
    Run:ai.

    The backend of the group for host memory is used: ranks of one machine then map one copy of the
    tensors, and each rank copies its part to its GPU.
    """
    if not optional_bool(ours.get("distributed"), "distributed"):
        return None
    import importlib

    found = importlib.import_module(module).get_tp_group()
    if getattr(found, "world_size", 1) < 2:
        return None
    on_host = str(ours.get("device", "cpu")) == "cpu"
    return found.cpu_group if on_host else found.device_group


def group_pairs(source, ours, group, keep=None, progress=False):
    """Yields (name, tensor) pairs on all ranks of a group, which read each byte once.

    All ranks get the same tensors in the same order. Each rank drops the tensors that `keep`
    rejects.
    """
    from ..torch import stream

    with stream(
        source if is_address(source) else list(source),
        process_group=group,
        window=size(ours.get("window", default_window), "window"),
        device=ours.get("device", "cpu"),
        memory="mapped",  # The engine's own loader maps files in the same way.
        remote=ours.get("remote") if is_address(source) else False,
    ) as found:
        with _progress_bar(found.nbytes, progress) as advance:
            for name, tensor in found:
                nbytes = tensor.numel() * tensor.element_size()
                if keep is None or keep(name):
                    yield name, tensor
                del tensor
                advance(nbytes)


def pairs(files, ours, keep=None, progress=False):
    """Yields (name, tensor) pairs of the files, or of a network source, through a window.

    If the engine holds a full window of tensors, this function waits while the engine releases
    some. If it releases none, the remaining tensors are views of the mapped files in host memory,
    as the engine's own loader yields them. A tensor that is too large for the window is also such a
    view.
    """
    window = size(ours.get("window", default_window), "window")
    device = target_device(ours)
    remote = ours.get("remote") if is_address(files) else False
    source = files if is_address(files) else list(files)
    with Loader(device, remote=remote) as loader:
        checkpoint = loader.open(source).result()
        left = {
            info.name: info.nbytes for info in checkpoint.infos() if keep is None or keep(info.name)
        }
        with _progress_bar(sum(left.values()), progress) as advance:
            remaining = _mapped(checkpoint, remote, left)
            for found in (_windowed(loader, checkpoint, left, window), remaining):
                for name, tensor in found:
                    made = torch_of(tensor)
                    del tensor
                    nbytes = left.pop(name)
                    yield name, made
                    del made
                    advance(nbytes)


@contextlib.contextmanager
def _progress_bar(total, wanted):
    """Returns a function that takes the bytes consumed since its last call."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        wanted = False
    if not wanted:
        yield lambda nbytes: None
        return
    with tqdm(total=total, unit="B", unit_scale=True, desc="Loading weights by ringload") as bar:
        yield bar.update


def _fitting(sizes, window):
    """Returns the names of the tensors that fit into the window next to the previous tensor."""
    names, before = [], 0
    for name, nbytes in sizes.items():
        if before + nbytes + 2 * _rounding_bytes <= window:
            names.append(name)
            before = max(nbytes, window // _groups)
    return names


def _windowed(loader, checkpoint, sizes, window):
    """Yields the tensors that fit, until the window stays full."""
    names = _fitting(sizes, window)
    if not names:
        return
    stream = loader.stream(checkpoint, window=window, select=_core.Selection().names(names))
    try:
        while (pair := _next_of(stream)) is not None:
            yield pair
            del pair
    except OutOfMemoryError as full:
        warnings.warn(
            f"{full}. The remaining tensors are mapped from their files; a larger 'window' in "
            "model_loader_extra_config avoids this",
            RuntimeWarning,
            stacklevel=2,
        )


def _next_of(stream):
    """Returns the next pair, or None after the last. Waits while the window is full."""
    until = None
    while True:
        try:
            return next(stream, None)
        except OutOfMemoryError:
            now = time.monotonic()
            until = now + patience_seconds if until is None else until
            if now >= until:
                raise
        time.sleep(_retry_seconds)


def _mapped(checkpoint, remote, left):
    """Yields views of the remaining tensors. The engine copies them to its device.

    The files that are open are mapped, because a file of the same name may have been replaced.
    The tensors of a network source cannot be mapped, so they are loaded.
    """
    if not left:
        return
    how = {"memory": "mapped", "access": "copy_on_write", "unmappable": "copy"}
    with Loader("cpu", remote=remote) as loader:
        selection = _core.Selection().names(list(left))
        options = how if remote is False else {}
        model = loader.load(checkpoint, select=selection, **options).result()
        for name in list(left):
            yield name, model[name]
