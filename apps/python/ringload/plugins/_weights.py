# SPDX-License-Identifier: Apache-2.0
"""What both engines want: (name, tensor) pairs of a model's files, in bounded memory."""

import contextlib
import inspect
import re
import time
import warnings

from .. import Loader, OutOfMemoryError, _core
from .._convert import torch_of
from .._names import size

_expert = re.compile(r"\.experts\.(\d+)\.")
_own_keys = ("window", "device")
default_window = "2GiB"

# How long a full window may release nothing. An engine whose threads copy tensors is faster.
patience_seconds = 1.0
_retry_seconds = 0.002
# On a GPU, a window takes its memory in pages of 2 MiB. Small tensors lie together
# in groups of a sixteenth of the window.
_rounding_bytes = 4 << 20
_groups = 16


def split_config(extra):
    """Ours of the loader's extra configuration, and what is left for the engine's own loader."""
    extra = dict(extra or {})
    ours = {key: extra.pop(key) for key in _own_keys if key in extra}
    extra.pop("ringload", None)
    return ours, extra


def target_device(ours):
    """Where tensors land: on the current GPU, from which they are copied into the parameters."""
    if "device" in ours:
        return ours["device"]
    import torch

    if _core.has_cuda and torch.cuda.is_available():
        return f"cuda:{torch.cuda.current_device()}"
    return "cpu"


def called_by_names(function, **known):
    """Calls it with those of the arguments that this version of it has."""
    names = inspect.signature(function).parameters
    return function(**{name: value for name, value in known.items() if name in names})


def files_of(loader, source):
    """What the engine's own loader finds for a source, which it downloads first if need be."""
    return called_by_names(
        loader._prepare_weights,
        model_name_or_path=source.model_or_path,
        subfolder=getattr(source, "subfolder", None),
        revision=source.revision,
        fall_back_to_pt=source.fall_back_to_pt,
        allow_patterns_overrides=getattr(source, "allow_patterns_overrides", None),
    )


def keeps(local_experts=None, is_unused=None):
    """A predicate for what is read at all; None for everything."""
    if local_experts is None and is_unused is None:
        return None

    def keep(info):
        expert = _expert.search(info.name)
        if local_experts is not None and expert and int(expert.group(1)) not in local_experts:
            return False
        return is_unused is None or not is_unused(info.name)

    return keep


def shows_progress(load_config):
    """Whether the engine would show a progress bar in this process."""
    if not getattr(load_config, "use_tqdm_on_load", True):
        return False
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return True
    return distributed.get_rank() == 0


def pairs(files, ours, keep=None, progress=False):
    """(name, tensor) pairs of the files, through a window of memory.

    A window that is full of tensors which the engine holds is waited for as long as some come back.
    If none does, the remaining tensors are views of the mapped files, in host memory, as the own
    loader of the engine yields them. So is each tensor that is too large for the window.
    """
    window = size(ours.get("window", default_window))
    device = target_device(ours)
    with Loader(device) as loader:
        checkpoint = loader.open(list(files)).result()
        left = {info.name: info.nbytes for info in checkpoint.infos() if keep is None or keep(info)}
        with _progress_bar(sum(left.values()), progress) as advance:
            for found in (_windowed(loader, checkpoint, left, window), _mapped(files, left)):
                for name, tensor in found:
                    made = torch_of(tensor)
                    del tensor
                    nbytes = left.pop(name)
                    yield name, made
                    del made
                    advance(nbytes)


@contextlib.contextmanager
def _progress_bar(total, wanted):
    """A function of the bytes that were consumed since its last call."""
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
    """Names of the tensors that fit into the window beside the one before, which a loop holds."""
    names, before = [], 0
    for name, nbytes in sizes.items():
        if before + nbytes + 2 * _rounding_bytes <= window:
            names.append(name)
            before = max(nbytes, window // _groups)
    return names


def _windowed(loader, checkpoint, sizes, window):
    """The tensors that fit, until the window stays full."""
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
    """The next pair, or None after the last. Waits for room while the window is full."""
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


def _mapped(files, left):
    """Views of the tensors that are left, for any device: the engine copies them to its own."""
    if not left:
        return
    with Loader("cpu") as loader:
        model = loader.load(
            list(files),
            select=_core.Selection().names(list(left)),
            memory="mapped",
            access="copy_on_write",
            unmappable="copy",
        ).result()
        for name in list(left):
            yield name, model[name]
