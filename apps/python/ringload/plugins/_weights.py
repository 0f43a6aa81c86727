# SPDX-License-Identifier: Apache-2.0
"""What both engines want: (name, tensor) pairs of a model's files, in bounded memory."""

import inspect
import re

from .. import Loader, OutOfMemoryError, _core
from .._convert import torch_of

_expert = re.compile(r"\.experts\.(\d+)\.")
_own_keys = ("window", "device")
default_window = "2GiB"


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


def pairs(files, ours, keep=None):
    """(name, tensor), each to be dropped before the next is asked for: memory is a window."""
    window = ours.get("window", default_window)
    with Loader(target_device(ours)) as loader:
        try:
            for name, tensor in loader.stream(list(files), window=window, select=keep):
                made = torch_of(tensor)
                del tensor
                yield name, made
                del made
        except OutOfMemoryError as failure:
            hint = f"the window is {window}; model_loader_extra_config can have a larger one"
            raise RuntimeError(f"{failure} ({hint})") from failure
